//! Traces that are cut, flipped, killed, skewed, or lack a block: what can be read is read, and what
//! is missing is told.

#![cfg(feature = "testgen")]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod support;

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};

use gmp_trace::anomaly::{AnomalyKind, Severity};
use gmp_trace::check::check;
use gmp_trace::header::HEADER_BYTES;
use gmp_trace::id::MId;
use gmp_trace::testgen::{Config, killed_program, program};
use gmp_trace::{Body, Event, Options, open};
use support::{blocks, kind_of, read, read_with};

fn small() -> Config {
    let (goroutines, ms, events) = (6, 2, 220);
    Config {
        goroutines,
        ms,
        events,
        block_bytes: 700,
        ..Config::default()
    }
}

/// What of an event does not depend on tables and order: when, and what kind.
type Trait = (i64, Discriminant<Body>);

/// Who recorded, and whether as a sample: samples have blocks of their own.
type Stream = (Option<MId>, bool);

/// The events of each stream, in order.
fn streams(events: &[Event]) -> BTreeMap<Stream, Vec<Trait>> {
    let mut streams = BTreeMap::<_, Vec<_>>::new();
    for event in events {
        let sample = matches!(event.body, Body::CpuSample { .. });
        // What nobody did has the time of the generation, which a lost block may take away.
        let time = event.m.map_or(0, |_| event.time.0);
        let stream = streams.entry((event.m, sample)).or_default();
        stream.push((time, discriminant(&event.body)));
    }
    streams
}

/// Compares without printing everything.
fn assert_same(got: &[Trait], meant: &[Trait], what: &dyn std::fmt::Debug) {
    let differs = got.iter().zip(meant).position(|(a, b)| a != b);
    assert_eq!((differs, got.len()), (None, meant.len()), "{what:?}");
}

fn assert_same_streams(
    got: &BTreeMap<Stream, Vec<Trait>>,
    meant: &BTreeMap<Stream, Vec<Trait>>,
    what: &dyn std::fmt::Debug,
) {
    assert_eq!(got.len(), meant.len(), "{what:?}");
    for (stream, meant) in meant {
        assert_same(&got[stream], meant, &(what, stream));
    }
}

/// Whether `part` is `whole` with some left out; returns how many.
fn left_out(part: &[Trait], whole: &[Trait]) -> Option<usize> {
    let mut rest = whole.iter();
    part.iter()
        .all(|event| rest.any(|other| other == event))
        .then(|| whole.len() - part.len())
}

#[test]
fn every_prefix_reads_up_to_the_last_whole_event() {
    let bytes = program(3, &small()).bytes;
    let whole = read(&bytes).unwrap();
    assert_eq!(whole.kinds(), []);
    let whole_streams = streams(&whole.events);
    let (mut refused, mut previous) = (0, 0);
    for length in 0..bytes.len() {
        let got = match read(&bytes[..length]) {
            Ok(got) => got,
            Err(error) => {
                assert!(length < HEADER_BYTES, "{length}: {error}");
                assert_eq!(error.is_not_a_trace(), length == 0, "{length}: {error}");
                assert_eq!(error.is_truncated(), length != 0, "{length}: {error}");
                refused += 1;
                continue;
            }
        };
        assert!(
            got.anomalies.count(AnomalyKind::NotFinished) == 1,
            "{length}"
        );
        assert_eq!(got.info.finished, Some(false));
        assert_eq!(
            got.anomalies.count(AnomalyKind::BadRecord),
            0,
            "{length}: cut is not bad"
        );
        assert!(
            got.events.len() >= previous,
            "{length}: a longer prefix has fewer events"
        );
        previous = got.events.len();
        for (stream, events) in streams(&got.events)
            .iter()
            .filter(|((m, _), _)| m.is_some())
        {
            assert_same(
                events,
                &whole_streams[stream][..events.len()],
                &(length, stream),
            );
        }
    }
    assert!(refused > 0 && refused < HEADER_BYTES);
    assert_eq!(previous, whole.events.len(), "all but the end of the trace");
}

#[test]
fn a_flipped_bit_costs_at_most_its_block_and_is_told() {
    let mut flips = 0;
    for seed in [5, 6] {
        let config = Config {
            events: 90,
            ..small()
        };
        let bytes = program(seed, &config).bytes;
        let whole = read(&bytes).unwrap();
        let whole_streams = streams(&whole.events);
        let blocks = blocks(&bytes);
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let got = read(&damaged).unwrap_or_else(|e| panic!("byte {at} ^ {flip}: {e}"));
                flips += 1;
                if got.events == whole.events {
                    continue;
                }
                assert!(
                    !got.anomalies.is_empty(),
                    "byte {at} ^ {flip}: nothing is told"
                );
                let block = blocks.iter().find(|b| b.contains(&at));
                let block = block.unwrap_or_else(|| panic!("byte {at} ^ {flip}: no block"));
                only_its_events_are_missing(&bytes, block, &streams(&got.events), &whole_streams);
            }
        }
    }
    assert!(flips > 5_000, "{flips}");
}

fn only_its_events_are_missing(
    bytes: &[u8],
    block: &std::ops::Range<usize>,
    got: &BTreeMap<Stream, Vec<Trait>>,
    whole: &BTreeMap<Stream, Vec<Trait>>,
) {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let events = number(block.start + 72) as usize;
    let m = u64::from_le_bytes(
        bytes[block.start + 24..block.start + 32]
            .try_into()
            .unwrap(),
    );
    // Samples and events are of an M; a control block holds what nobody did.
    let kind = kind_of(bytes, block);
    let concerned = if kind == 3 {
        (None, false)
    } else {
        (MId::new(m), kind == 4)
    };
    for (stream, whole) in whole {
        let none = Vec::new();
        let got = got.get(stream).unwrap_or(&none);
        if *stream == concerned {
            let missing = left_out(got, whole);
            assert!(
                missing.is_some_and(|n| n <= events),
                "{block:?}: {missing:?} of {events}"
            );
        } else {
            assert_same(got, whole, &(block, stream));
        }
    }
}

#[test]
fn a_strict_reader_refuses_what_a_lenient_one_counts() {
    let bytes = program(5, &small()).bytes;
    assert!(read_with(&bytes, Options::new().strict()).is_ok());
    let mut errors = 0;
    for at in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x20;
        let lenient = read(&damaged).unwrap();
        let worst = lenient.anomalies.worst();
        let strict = read_with(&damaged, Options::new().strict());
        assert_eq!(
            strict.is_err(),
            worst == Some(Severity::Error),
            "byte {at}: {worst:?}"
        );
        if let Err(error) = strict {
            assert!(error.is_corrupt(), "{error}");
            errors += 1;
        }
    }
    assert!(errors > 50, "{errors}");
}

#[test]
fn a_killed_recorder_leaves_every_event() {
    let mut open_blocks = 0;
    for seed in 0..30 {
        let config = Config {
            generations: 1 + seed as u32 % 2,
            ..small()
        };
        let program = killed_program(seed, &config);
        let got = read(&program.bytes).unwrap();
        let meant = streams(&program.events);
        assert_same_streams(&streams(&got.events), &meant, &seed);
        let unsealed = got.anomalies.count(AnomalyKind::UnsealedBlock);
        assert!(unsealed >= 1, "seed {seed}");
        assert_eq!(got.anomalies.count(AnomalyKind::NotFinished), 1);
        assert_eq!(got.anomalies.count(AnomalyKind::UnendedGeneration), 1);
        assert_eq!(got.anomalies.count(AnomalyKind::BadRecord), 0);
        open_blocks += unsealed;
    }
    assert!(open_blocks > 40, "{open_blocks}");
}

#[test]
fn skewed_clocks_change_neither_order_nor_time() {
    let mut back = 0;
    for seed in 0..60 {
        let config = Config {
            skew: [50, 1_000, 62_500, 1_000_000][seed as usize % 4],
            ms: 2 + seed as usize % 4,
            ps: 1 + seed as usize % 3,
            events: 1000,
            ..small()
        };
        let program = program(seed, &config);
        let got = read(&program.bytes).unwrap();
        assert_same_streams(&streams(&got.events), &streams(&program.events), &seed);
        let kinds: Vec<_> = got.kinds().into_iter().map(|(kind, _)| kind).collect();
        assert!(
            kinds.iter().all(|k| *k == AnomalyKind::ClockSkew),
            "seed {seed}: {kinds:?}"
        );
        let mut reader = open(std::io::Cursor::new(program.bytes)).unwrap();
        let report = check(&mut reader).unwrap();
        assert!(report.is_good(), "seed {seed}: {}", report.broken[0]);
        assert_eq!(
            report.times_back,
            got.anomalies.count(AnomalyKind::ClockSkew)
        );
        back += report.times_back;
    }
    assert!(back > 1000, "{back}");
}

#[test]
fn a_lost_block_is_told_and_costs_nothing_else() {
    let mut lost = 0;
    for seed in 0..12 {
        let config = Config {
            events: 600,
            ..small()
        };
        let bytes = program(seed, &config).bytes;
        let whole_streams = streams(&read(&bytes).unwrap().events);
        for block in blocks(&bytes) {
            let without = [&bytes[..block.start], &bytes[block.end..]].concat();
            let got = read(&without).unwrap();
            only_its_events_are_missing(&bytes, &block, &streams(&got.events), &whole_streams);
            match kind_of(&bytes, &block) {
                3 => {}
                _ => assert!(
                    got.anomalies.count(AnomalyKind::MissingBlock) >= 1,
                    "{block:?}"
                ),
            }
            lost += 1;
        }
    }
    assert!(lost > 100, "{lost}");
}

#[test]
fn blocks_in_another_order_are_put_in_sequence() {
    let config = Config {
        ms: 3,
        generations: 1,
        ..small()
    };
    let bytes = program(8, &config).bytes;
    let whole = read(&bytes).unwrap();
    let blocks = blocks(&bytes);
    // All but the control blocks, which tell where the generation begins and ends.
    let (control, others): (Vec<_>, Vec<_>) = blocks
        .into_iter()
        .partition(|block| kind_of(&bytes, block) == 3);
    let mut shuffled = bytes[..HEADER_BYTES].to_vec();
    shuffled.extend_from_slice(&bytes[control[0].clone()]);
    for block in others.iter().rev().chain(&control[1..]) {
        shuffled.extend_from_slice(&bytes[block.clone()]);
    }
    assert_eq!(shuffled.len(), bytes.len());
    assert_ne!(shuffled, bytes);
    let got = read(&shuffled).unwrap();
    assert_eq!(got.kinds(), []);
    assert_same_streams(&streams(&got.events), &streams(&whole.events), &"shuffled");
}

#[test]
fn a_file_gives_what_a_stream_gives_damaged_or_not() {
    let bytes = program(7, &small()).bytes;
    let mut compared = 0;
    for at in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        for input in [&damaged[..], &bytes[..at]] {
            let stream = read(input);
            let file = Options::new().open_at(input.to_vec());
            let (Ok(stream), Ok(mut file)) = (stream, file) else {
                continue;
            };
            let mut events = Vec::new();
            file.for_each_event(|event, _| events.push(*event)).unwrap();
            assert_same_events(&events, &stream.events, at);
            let (of_file, of_stream) = (file.anomalies(), &stream.anomalies);
            assert_eq!(of_file, of_stream, "{at}");
            compared += 1;
        }
    }
    assert!(compared > 300, "{compared}");
}

fn assert_same_events(got: &[Event], meant: &[Event], at: usize) {
    let differs = got.iter().zip(meant).find(|(a, b)| a != b);
    assert_eq!((differs, got.len()), (None, meant.len()), "{at}");
}

/// A file that cannot be read any more once it is told so.
struct Failing(Vec<u8>, std::sync::atomic::AtomicBool);

impl gmp_trace::ReadAt for Failing {
    fn read_at(&self, into: &mut [u8], offset: u64) -> std::io::Result<usize> {
        if self.1.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(std::io::Error::other("the disk is gone"));
        }
        self.0.read_at(into, offset)
    }
}

#[test]
fn a_file_that_fails_later_is_an_error() {
    let config = Config {
        events: 5000,
        ..small()
    };
    let bytes = program(8, &config).bytes;
    let file = std::sync::Arc::new(Failing(bytes, false.into()));
    let mut reader = Options::new().open_at(file.clone()).unwrap();
    let mut given = 0;
    let end = reader.for_each_event(|_, _| {
        given += 1;
        file.1.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert!(end.unwrap_err().is_io());
    assert!(given > 0 && given < 5000, "{given}");
}
