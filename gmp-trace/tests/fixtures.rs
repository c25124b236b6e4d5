//! The fixtures of the native format: made by the generator, kept in the repository, and read here.
//!
//! `GMP_BLESS=1 cargo test -p gmp-trace --all-features --test fixtures` writes them and their table
//! anew. Without it, a missing file is a failure.

#![cfg(all(feature = "testgen", feature = "text"))]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod support;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use gmp_trace::anomaly::AnomalyKind;
use gmp_trace::check::check;
use gmp_trace::header::HEADER_BYTES;
use gmp_trace::open;
use gmp_trace::pack::pack;
use gmp_trace::testgen::{Config, Mix, killed_program, program};
use gmp_trace::text::{from_text, to_text};
use sha2::{Digest, Sha256};
use support::{blocks, read};

/// One fixture.
struct Fixture {
    /// Its place below `fixtures`.
    file: &'static str,
    /// Whether every byte is ours: where a library compresses, only what it says is compared.
    exact: bool,
    make: fn() -> Vec<u8>,
    /// How it is made, for the table.
    from: &'static str,
    why: &'static str,
}

const fn config(ms: usize, ps: usize, events: u64, generations: u32) -> Config {
    Config {
        goroutines: 12,
        ms,
        ps,
        events,
        generations,
        mix: Mix::Everything,
        skew: 0,
        block_bytes: 2048,
        expect: false,
    }
}

const FIXTURES: &[Fixture] = &[
    Fixture {
        file: "gmp/everything.gmpt",
        exact: true,
        make: || program(1, &config(3, 2, 2400, 3)).bytes,
        from: "seed 1, three Ms, two Ps, three generations",
        why: "every kind of event",
    },
    Fixture {
        file: "gmp/channels.gmpt",
        exact: true,
        make: || {
            program(
                2,
                &Config {
                    mix: Mix::Channels,
                    ..config(1, 1, 5000, 1)
                },
            )
            .bytes
        },
        from: "seed 2, one M, only channels",
        why: "what a scheduler-heavy program looks like; bytes an event",
    },
    Fixture {
        file: "gmp/skewed.gmpt",
        exact: true,
        make: || {
            program(
                3,
                &Config {
                    skew: 62_500,
                    ..config(4, 3, 2000, 2)
                },
            )
            .bytes
        },
        from: "seed 3, four Ms with clocks up to a millisecond apart",
        why: "order by cause, not by clock",
    },
    Fixture {
        file: "gmp/killed.gmpt",
        exact: true,
        make: || killed_program(4, &config(3, 2, 1500, 2)).bytes,
        from: "seed 4, the recorder dies in the second generation",
        why: "open blocks, a generation without tables and end",
    },
    Fixture {
        file: "gmp/packed.gmpt",
        exact: false,
        make: || packed(&program(1, &config(3, 2, 2400, 3)).bytes),
        from: "`everything.gmpt`, packed",
        why: "compressed blocks",
    },
    Fixture {
        file: "gmp/newer-minor.gmpt",
        exact: true,
        make: || newer("1.9"),
        from: "a text of version 1.9 with an unknown record and an argument too many",
        why: "a newer minor version is read as far as it is known",
    },
    Fixture {
        file: "bad/newer-major.gmpt",
        exact: true,
        make: || newer("2.0"),
        from: "the same text, of version 2.0",
        why: "a newer major version is refused by name",
    },
    Fixture {
        file: "bad/empty.gmpt",
        exact: true,
        make: Vec::new,
        from: "nothing",
        why: "an empty file",
    },
    Fixture {
        file: "bad/text.gmpt",
        exact: true,
        make: || b"SCHED 0ms: gomaxprocs=2 idleprocs=0 threads=4\n".to_vec(),
        from: "a line of text",
        why: "a file of another kind",
    },
    Fixture {
        file: "bad/cut-in-header.gmpt",
        exact: true,
        make: || everything()[..100].to_vec(),
        from: "the first 100 bytes of `everything.gmpt`",
        why: "ends before anything can be read",
    },
    Fixture {
        file: "bad/cut-in-block.gmpt",
        exact: true,
        make: || {
            let bytes = everything();
            let cut = blocks(&bytes)[3].start + 777;
            bytes[..cut].to_vec()
        },
        from: "`everything.gmpt` up to the middle of its fourth block",
        why: "a cut file is read up to the last whole event",
    },
    Fixture {
        file: "bad/damaged-block.gmpt",
        exact: true,
        make: || {
            let mut bytes = everything();
            let block = blocks(&bytes)[2].clone();
            bytes[block.start + 500] ^= 0x40;
            bytes
        },
        from: "`everything.gmpt` with one bit flipped in its third block",
        why: "a wrong checksum costs one block",
    },
    Fixture {
        file: "bad/lost-block.gmpt",
        exact: true,
        make: || {
            let bytes = everything();
            let block = blocks(&bytes)[2].clone();
            [&bytes[..block.start], &bytes[block.end..]].concat()
        },
        from: "`everything.gmpt` without its third block",
        why: "a gap in the sequence is told",
    },
    Fixture {
        file: "bad/garbage.gmpt",
        exact: true,
        make: || {
            let mut bytes = everything()[..HEADER_BYTES].to_vec();
            bytes.extend((0..3000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8));
            bytes
        },
        from: "a header, then 3000 bytes of noise",
        why: "nothing but damage",
    },
];

fn everything() -> Vec<u8> {
    program(1, &config(3, 2, 2400, 3)).bytes
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    pack(Cursor::new(bytes.to_vec()), &mut out).unwrap();
    out
}

fn newer(version: &str) -> Vec<u8> {
    let text = format!(
        "gmp trace {version}\nclock 1000000000\narity 0xbf 2\narity 0x41 2\n\
         block control generation=1 sequence=0 base=100\nGenBegin generation_count=1\n\
         ClockPair trace_ticks=100 mono_nanos=100 wall_nanos=1700000000000000000\n\
         block events generation=1 sequence=0 m=0 base=100 p=0\n\
         ProcStatus:running dt=0 p=0 on_optional_m=1\n\
         Create dt=5 child_g=1 created_site=0\nStart:local dt=1 g=1\nUnknown:0xbf 2 9\n\
         Yield dt=3 +7\nStart:local dt=1 g=1\nExit:returned dt=9\nProcStop dt=1\n\
         block control generation=1 sequence=1 base=0\n\
         GenEnd generation_count=1 blocks_count=1 events_count=8 lost_count=0\n\
         TraceEnd generations_count=1 events_count=8 lost_count=0\n"
    );
    from_text(&text).unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

fn blessing() -> bool {
    std::env::var_os("GMP_BLESS").is_some_and(|v| v == "1")
}

fn text_of(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    to_text(Cursor::new(bytes.to_vec()), &mut text).unwrap();
    text
}

/// A fixture's bytes from the repository.
fn stored(file: &str) -> Vec<u8> {
    let path = folder().join(file);
    std::fs::read(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}: make it with GMP_BLESS=1 and look at what you add",
            path.display()
        )
    })
}

const BEGIN: &str = "<!-- fixtures of the native format: begin -->\n";
const END: &str = "<!-- fixtures of the native format: end -->\n";

/// The first 16 digits of the SHA-256. (A CRC would be the same for files that carry their own.)
fn sum(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn table() -> String {
    let mut table = String::from(
        "| file | bytes | SHA-256 begins | made from | why |\n|---|---|---|---|---|\n",
    );
    for fixture in FIXTURES {
        let bytes = stored(fixture.file);
        let _ = writeln!(
            table,
            "| `{}` | {} | `{}` | {} | {} |",
            fixture.file,
            bytes.len(),
            sum(&bytes),
            fixture.from,
            fixture.why
        );
    }
    table
}

#[test]
fn fixtures_are_what_the_generator_makes() {
    let mut total = 0;
    for fixture in FIXTURES {
        let made = (fixture.make)();
        if blessing() {
            std::fs::write(folder().join(fixture.file), &made).unwrap();
        }
        let stored = stored(fixture.file);
        let same = if fixture.exact {
            stored == made
        } else {
            text_of(&stored) == text_of(&made)
        };
        assert!(same, "{} is not what is made now", fixture.file);
        total += stored.len();
    }
    assert!(total > 10_000 && total < 100_000, "{total} bytes");

    let readme = folder().join("README.md");
    let text = std::fs::read_to_string(&readme).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table's begin");
    let (old, after) = rest.split_once(END).expect("the table's end");
    let new = table();
    if blessing() {
        std::fs::write(&readme, format!("{before}{BEGIN}{new}{END}{after}")).unwrap();
    } else {
        assert_eq!(old, new, "the table in fixtures/README.md");
    }
}

#[test]
fn every_file_has_its_row() {
    let rows: BTreeSet<_> = FIXTURES.iter().map(|f| f.file.to_owned()).collect();
    let mut files = BTreeSet::new();
    for place in ["gmp", "bad"] {
        for entry in std::fs::read_dir(folder().join(place)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".gmpt") {
                files.insert(format!("{place}/{name}"));
            }
        }
    }
    // Others may add traces of their own, and say so in the README.
    assert!(
        files.is_superset(&rows),
        "{:?} are missing",
        rows.difference(&files)
    );
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for file in &files {
        assert!(readme.contains(&format!("`{file}`")), "{file} has no row");
    }
    assert!(files.len() >= 14);
}

#[test]
fn good_fixtures_read_well_and_bad_ones_say_why() {
    let kinds = |file: &str| {
        let read = read(&stored(file)).unwrap();
        read.kinds()
            .into_iter()
            .map(|(kind, _)| kind)
            .collect::<Vec<_>>()
    };
    for file in [
        "gmp/everything.gmpt",
        "gmp/channels.gmpt",
        "gmp/packed.gmpt",
    ] {
        assert_eq!(kinds(file), [], "{file}");
        let mut reader = open(Cursor::new(stored(file))).unwrap();
        let report = check(&mut reader).unwrap();
        assert!(
            report.is_good() && report.events > 2000,
            "{file}: {:?}",
            report.broken
        );
    }
    let packed = read(&stored("gmp/packed.gmpt")).unwrap();
    let everything = read(&stored("gmp/everything.gmpt")).unwrap();
    assert!(packed.events == everything.events);
    assert_eq!(kinds("gmp/skewed.gmpt"), [AnomalyKind::ClockSkew]);
    assert_eq!(kinds("gmp/newer-minor.gmpt"), [AnomalyKind::UnknownKind]);
    assert!(kinds("gmp/killed.gmpt").contains(&AnomalyKind::UnsealedBlock));
    assert!(kinds("gmp/killed.gmpt").contains(&AnomalyKind::NotFinished));
    assert!(kinds("bad/cut-in-block.gmpt").contains(&AnomalyKind::Truncated));
    assert!(kinds("bad/damaged-block.gmpt").contains(&AnomalyKind::BadChecksum));
    assert!(kinds("bad/lost-block.gmpt").contains(&AnomalyKind::MissingBlock));
    assert!(kinds("bad/garbage.gmpt").contains(&AnomalyKind::Resynchronized));
    assert!(
        read(&stored("bad/empty.gmpt"))
            .unwrap_err()
            .is_not_a_trace()
    );
    assert!(read(&stored("bad/text.gmpt")).unwrap_err().is_not_a_trace());
    assert!(
        read(&stored("bad/cut-in-header.gmpt"))
            .unwrap_err()
            .is_truncated()
    );
    assert!(
        read(&stored("bad/newer-major.gmpt"))
            .unwrap_err()
            .is_unsupported_version()
    );
}

#[test]
fn a_scheduler_heavy_trace_takes_at_most_two_and_a_half_bytes_an_event() {
    let config = Config {
        mix: Mix::Channels,
        goroutines: 64,
        block_bytes: 65_536,
        ..config(1, 1, 200_000, 1)
    };
    let program = program(1, &config);
    let per_event = program.bytes.len() as f64 / program.recorded as f64;
    assert!(per_event <= 2.5, "{per_event}");
}

#[test]
fn everything_has_every_kind_of_event_that_a_runtime_records() {
    let read = read(&stored("gmp/everything.gmpt")).unwrap();
    let kinds: BTreeSet<String> = read
        .events
        .iter()
        .map(|e| format!("{:?}", e.body))
        .map(|b| {
            b.split([' ', '{', '('])
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    // All bodies of the model but those that only Go's traces have, or a damaged one, and three
    // that a played scheduler has no use for.
    assert!(kinds.len() >= 45, "{}: {kinds:?}", kinds.len());
}
