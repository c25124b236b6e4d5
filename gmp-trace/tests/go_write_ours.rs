//! Traces of ours written as traces of Go: read back they say the same as far as Go can say it, and
//! Go's own tools open them.

#[cfg(feature = "testgen")]
#[path = "support/configs.rs"]
mod configs;
mod go_support;

use std::collections::BTreeMap;
use std::io::Read;

use gmp_trace::Body;
use go_support::as_go::{name, same_by_thread};
use go_support::tool;
use go_support::written::{Written, write};

fn native(name: &str) -> Vec<u8> {
    let path = go_support::fixtures().join(format!("../gmp/{name}.gmpt"));
    std::fs::read(path).expect("a fixture")
}

/// Whole traces of ours.
const NATIVE: [&str; 4] = ["channels", "everything", "packed", "skewed"];

#[test]
fn a_trace_of_ours_is_read_back_as_far_as_go_can_say_it() {
    let mut checked = 0;
    for name in NATIVE {
        let written = write(&native(name), name);
        same_by_thread(&written, name);
        assert_eq!(written.outcome.version, 26);
        checked += written.back.len();
    }
    assert!(checked > 8_000, "{checked}");
}

/// Times may be before the first event, and clocks may be set back.
#[test]
fn clocks_of_generations_go_on() {
    let written = write(&native("everything"), "everything");
    let walls: Vec<i64> = written
        .back
        .iter()
        .filter_map(|event| match event.body {
            Body::Sync { wall, .. } => wall.map(|wall| wall.0),
            _ => None,
        })
        .collect();
    assert!(
        walls.len() == 3 && walls.is_sorted_by(|a, b| a < b),
        "{walls:?}"
    );
}

/// Text of a trace of ours with one generation, in which M 0 has P 0 and runs G 1 when it begins.
fn ours(records: &str) -> Vec<u8> {
    let text = format!(
        "gmp trace 1.0\nclock 1000000000\n\
         block control generation=1 sequence=0 base=1000\n\
         GenBegin generation_count=1\n\
         ClockPair trace_ticks=1000 mono_nanos=5000 wall_nanos=1700000000000000000\n\
         ProcStatus:running dt=0 p=0 on_optional_m=1\n\
         ProcStatus:idle dt=0 p=1 on_optional_m=0\n\
         GoStatus:running dt=0 g=1 on_optional_m=1 reason_text=\"\" object=0 wait_site=0 \
         created_site=0 creator_goroutine=0 label_text=\"\"\n{records}"
    );
    gmp_trace::text::from_text(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Compares the Ms and the names of the events that are read back, without the statuses at the
/// beginning.
fn assert_read_back(written: &Written, meant: &[(u64, &str)]) {
    let after = written.back.iter().filter(|event| {
        !matches!(
            event.body,
            Body::Sync { .. } | Body::GoStatus { .. } | Body::ProcStatus { .. }
        )
    });
    let said: Vec<(Option<u64>, String)> = after
        .map(|event| (event.m.map(|m| m.get()), name(&event.body)))
        .collect();
    let meant = meant.iter().map(|&(m, name)| (Some(m), name.to_owned()));
    assert_eq!(said, meant.collect::<Vec<_>>());
}

#[test]
fn a_frozen_goroutine_is_a_preempted_one_and_its_p_stops() {
    let bytes = ours(
        "block events generation=1 sequence=0 m=0 base=1000 g=1 p=0\n\
         Preempted:signal dt=10\n\
         Start:wired dt=100 g=1 seq=1\n\
         block events generation=1 sequence=0 m=1 base=1000\n\
         ProcSteal:frozen dt=20 victim_p=0 seq=1 from_optional_m=1\n\
         ProcStart dt=1 p=0 seq=2\n\
         ProcHandoff:wired dt=50 to_optional_m=1\n",
    );
    let written = write(&bytes, "frozen");
    // The trace does not say with which P it goes on: it gets one that is idle.
    assert_read_back(
        &written,
        &[
            (0, "GoPreempted"),
            (0, "ProcStop"),
            (1, "ProcStart"),
            (1, "ProcStop"),
            (0, "ProcStart"),
            (0, "GoStart"),
        ],
    );
    assert_eq!(written.outcome.added, BTreeMap::from([("ProcStart", 1)]));
}

#[test]
fn a_call_that_nobody_announced_is_one_that_loses_its_p() {
    let bytes = ours(
        "block events generation=1 sequence=0 m=0 base=1000 g=1 p=0\n\
         RunWithoutP dt=100\n\
         Preempted:cooperative dt=10\n\
         block events generation=1 sequence=0 m=1 base=1000\n\
         SyscallImplicit dt=20 g=1 on_m=0\n\
         ProcSteal:implicit-syscall dt=0 victim_p=0 seq=1 from_optional_m=1\n\
         ProcStart dt=1 p=0 seq=2\n\
         Start:global dt=200 g=1 seq=1\n",
    );
    let written = write(&bytes, "implicit");
    assert_read_back(
        &written,
        &[
            (0, "SyscallEnter"),
            (1, "ProcSteal"),
            (1, "ProcStart"),
            (0, "SyscallExitBlocked"),
            (1, "GoStart"),
        ],
    );
    assert_eq!(
        written.outcome.left_out,
        BTreeMap::from([("RunWithoutP", 1)])
    );
    assert!(
        written.outcome.added.is_empty(),
        "{:?}",
        written.outcome.added
    );
}

#[test]
fn a_call_that_ends_with_another_p_starts_again() {
    let bytes = ours(
        "block events generation=1 sequence=0 m=0 base=1000 g=1 p=0\n\
         SyscallEnter dt=10 call_site=0 stack=0\n\
         ProcHandoff:syscall dt=5 to_optional_m=2\n\
         ProcStart dt=40 p=1 seq=1\n\
         SyscallExit dt=1\n",
    );
    let written = write(&bytes, "another P");
    assert_read_back(
        &written,
        &[
            (0, "SyscallEnter"),
            (0, "ProcStop"),
            (0, "ProcStart"),
            (0, "SyscallExitBlocked"),
            (0, "GoStart"),
        ],
    );
    assert_eq!(written.outcome.added, BTreeMap::from([("GoStart", 1)]));
}

#[cfg(feature = "testgen")]
mod played {
    use super::*;
    use gmp_trace::Event;
    use gmp_trace::testgen::{Config, killed_program, program};
    use go_support::as_go::same_but_for_procs;
    use go_support::written::write_what_is_left;
    use proptest::prelude::*;

    /// Clocks that are apart in one case of two.
    fn any_config() -> impl Strategy<Value = Config> {
        (configs::any_config(), 0..60_000u64).prop_map(|(config, skew)| Config {
            skew: if skew > 30_000 { 0 } else { skew },
            ..config
        })
    }

    /// The known limit: where clocks differ, a P that was in a call when a generation began is told of
    /// and stolen after the call has ended. Then events of Ps are added, and nothing else.
    fn is_stolen_late(config: &Config, written: &Written) -> bool {
        let added = &written.outcome.added;
        let of_procs = |kind: &&str| ["ProcStart", "ProcStatus", "ProcStop"].contains(kind);
        let can_be = config.skew > 0 && config.generations > 1;
        can_be && added.contains_key("ProcStart") && added.keys().all(of_procs)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn programs_are_read_back_as_far_as_go_can_say_them(
            seed in any::<u64>(),
            config in any_config(),
        ) {
            let mut written = write(&program(seed, &config).bytes, "a program");
            if is_stolen_late(&config, &written) {
                same_but_for_procs(&mut written, "a program with a late steal");
            } else {
                same_by_thread(&written, "a program");
            }
        }

        #[test]
        fn what_is_left_of_a_program_is_written_whole(
            seed in any::<u64>(),
            config in any_config(),
            at in any::<prop::sample::Index>(),
            take_out in 0..3000usize,
        ) {
            let mut bytes = killed_program(seed, &config).bytes;
            let from = 400 + at.index(bytes.len() - 400);
            let end = (from + take_out).min(bytes.len());
            bytes.drain(from..end);
            write_what_is_left(&bytes, "part of a program");
        }
    }

    /// What is left of this program has a second collection that begins, by the clock of its thread,
    /// before what comes before the first one.
    #[test]
    fn a_later_collection_is_not_taken_for_the_first() {
        let config = Config {
            goroutines: 6,
            ms: 5,
            ps: 3,
            events: 256,
            generations: 1,
            ..Config::default()
        };
        let mut bytes = killed_program(2_541_868_394_522_079_723, &config).bytes;
        let at = (2_665_044_684_015_827_181 * (bytes.len() as u128 - 400)) >> 64;
        bytes.remove(400 + at as usize);
        let written = write(&bytes, "part of a program");
        assert_eq!(written.outcome.left_out.get("GcBegin"), Some(&1));
        let begins = |event: &&Event| matches!(event.body, Body::GcBegin { .. });
        assert_eq!(written.back.iter().filter(begins).count(), 1);
    }

    /// Of this program a P is stolen late, and a status is told by a thread that should not have it any
    /// more.
    #[test]
    fn all_but_ps_is_the_same_where_one_is_stolen_late() {
        let config = Config {
            goroutines: 13,
            ms: 4,
            ps: 2,
            events: 628,
            generations: 2,
            skew: 3460,
            ..Config::default()
        };
        let program = program(7_532_074_033_708_438_534, &config);
        let mut written = write(&program.bytes, "a program");
        assert!(is_stolen_late(&config, &written));
        same_but_for_procs(&mut written, "a program with a late steal");
    }

    #[test]
    fn go_opens_what_was_played() {
        let Some(tool) = tool::tool() else { return };
        let mut checked = 0;
        for seed in 0..12 {
            let config = Config {
                generations: 1 + seed as u32 % 3,
                ms: 1 + seed as usize % 5,
                skew: (seed % 2) * 40_000,
                ..Config::default()
            };
            let program = match seed % 3 {
                0 => killed_program(seed, &config),
                _ => program(seed, &config),
            };
            let written = write(&program.bytes, "a program");
            checked += tool.validate(&written.bytes, &format!("seed {seed}"));
        }
        assert!(checked > 10_000, "{checked}");
    }
}

#[test]
fn go_makes_profiles_of_a_trace_of_ours() {
    let Some(tool) = tool::tool() else { return };
    for name in NATIVE {
        tool.validate(&write(&native(name), name).bytes, name);
    }
    let written = write(&native("everything"), "everything").bytes;
    let mut checked = 0;
    for (kind, wanted) in [
        ("sync", "main::worker"),
        ("sched", ""),
        ("syscall", ""),
        ("net", ""),
    ] {
        let packed = tool.profile(kind, &written);
        let mut profile = Vec::new();
        let mut unpacker = flate2::read::GzDecoder::new(packed.as_slice());
        unpacker.read_to_end(&mut profile).expect("a profile");
        let has = |word: &str| profile.windows(word.len()).any(|w| w == word.as_bytes());
        assert!(has("contentions"), "{kind}");
        assert!(wanted.is_empty() || has(wanted), "{kind} has no {wanted}");
        checked += 1;
    }
    assert_eq!(checked, 4);
}
