//! Traces that were made to take memory: what a reader holds stays near the size of the file.

#![cfg(all(feature = "go", feature = "text"))]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

#[allow(dead_code)] // this test uses a part of it
#[path = "go_support/shapes.rs"]
mod shapes;

use std::fmt::Write;
use std::io::Cursor;

use gmp_trace::anomaly::AnomalyKind;
use gmp_trace::limits::{MAX_MODULES, MAX_STRING_BYTES};
use gmp_trace::pack::pack;
use gmp_trace::text::from_text;
use gmp_trace::{Options, Reader};
use shapes::{Shape, trace};

/// What every reader may hold of a small trace, whatever is in it.
const SMALL: u64 = 64 << 20;

/// Reads everything; returns the most memory that was held meanwhile, the events, and the reader.
fn peak(bytes: &[u8]) -> (u64, u64, Reader) {
    let (mut events, mut reader) = (0, None);
    let memory = allocation_counter::measure(|| {
        let source = Cursor::new(bytes.to_vec());
        let mut open = Options::new().one_thread().open(source).unwrap();
        open.for_each_event(|_, _| events += 1).unwrap();
        reader = Some(open);
    });
    (memory.bytes_max, events, reader.unwrap())
}

/// One string of the largest size, and `modules` pieces of files with that name.
fn modules(modules: usize) -> Vec<u8> {
    let mut text = String::from("gmp trace 1.0\nclock 1000000000\n");
    writeln!(text, "block table generation=1 sequence=0 base=0").unwrap();
    let name = "x".repeat(MAX_STRING_BYTES);
    writeln!(text, "String string_id=0 {name:?}").unwrap();
    for start in 0..modules {
        if start % 100_000 == 99_999 {
            let sequence = start / 100_000 + 1;
            writeln!(text, "block table generation=1 sequence={sequence} base=0").unwrap();
        }
        let line = "end_address=1 offset_count=0 path_text=256 build_text=256";
        writeln!(text, "Module start_address={start} {line}").unwrap();
    }
    from_text(&text).unwrap()
}

#[test]
fn names_of_modules_are_kept_once() {
    let bytes = modules(40_000);
    let (memory, _, reader) = peak(&bytes);
    assert_eq!(reader.info().modules.len(), 40_000);
    let path = reader.info().modules[7].path;
    assert_eq!(reader.tables().text(path).len(), MAX_STRING_BYTES);
    assert!(memory < SMALL / 4, "{memory} bytes for {}", bytes.len());
}

#[test]
fn modules_are_limited() {
    let (memory, _, reader) = peak(&modules(MAX_MODULES + 10));
    assert_eq!(reader.info().modules.len(), MAX_MODULES);
    assert_eq!(reader.anomalies().count(AnomalyKind::BadRecord), 10);
    assert!(memory < SMALL / 2, "{memory} bytes");
}

/// Twenty blocks of 4 MB each that pack to some kilobytes.
#[test]
fn packed_blocks_take_bounded_memory() {
    let mut text = String::from("gmp trace 1.0\nclock 1000000000\n");
    let name = "x".repeat(MAX_STRING_BYTES);
    for sequence in 0..20 {
        writeln!(text, "block table generation=1 sequence={sequence} base=0").unwrap();
        for id in 0..60 {
            writeln!(text, "String string_id={} {name:?}", 60 * sequence + id).unwrap();
        }
    }
    let mut bytes = Vec::new();
    pack(Cursor::new(from_text(&text).unwrap()), &mut bytes).unwrap();
    assert!(bytes.len() < 200_000, "{} bytes", bytes.len());
    let (memory, _, reader) = peak(&bytes);
    assert!(memory < SMALL, "{memory} bytes for {}", bytes.len());
    let too_many = reader.anomalies().count(AnomalyKind::BadChecksum);
    assert!((8..12).contains(&too_many), "{:?}", reader.anomalies());
}

/// The most memory that the bytes of a file take, reading it as a file: its events are not held.
#[test]
fn events_of_a_file_take_no_memory() {
    let shape = |rounds| Shape {
        threads: 4,
        goroutines: 10,
        rounds,
        skew: 100,
        stacks: 10,
    };
    let mut peaks = Vec::new();
    for rounds in [1000, 10_000] {
        let (bytes, events) = trace(&shape(rounds));
        let length = bytes.len() as u64;
        let mut given = 0;
        let memory = allocation_counter::measure(|| {
            let mut reader = Options::new().one_thread().open_at(bytes).unwrap();
            reader.for_each_event(|_, _| given += 1).unwrap();
        });
        assert_eq!(given, events + 1);
        peaks.push((memory.bytes_max, length));
    }
    assert!(peaks[1].1 > 9 * peaks[0].1, "{peaks:?}");
    // What grows is the index: some bytes for each batch.
    assert!(peaks[1].0 < peaks[0].0 + peaks[1].1 / 50, "{peaks:?}");
    assert!(peaks[1].0 < 4 << 20, "{peaks:?}");
}

/// Times at the end of what a clock can tell: several Ms at the very last one.
#[test]
fn the_last_time_there_is_can_be_shared() {
    let mut text = String::from("gmp trace 1.0\nclock 1000000000\n");
    let last = u64::MAX;
    for m in 0..3 {
        writeln!(
            text,
            "block events generation=1 sequence=0 m={m} base={last}"
        )
        .unwrap();
        text += "MPark dt=0\nMPark dt=7\n";
    }
    let (_, events, reader) = peak(&from_text(&text).unwrap());
    assert_eq!(events, 1 + 6, "{:?}", reader.anomalies());
}

/// A thread takes little more memory than its events, however many threads there are.
#[test]
fn threads_with_few_events_take_little_memory() {
    let (bytes, events) = trace(&Shape {
        threads: 50_000,
        goroutines: 0,
        rounds: 0,
        skew: 0,
        stacks: 1,
    });
    let (memory, given, _) = peak(&bytes);
    assert_eq!(given, events + 1);
    assert!(memory < SMALL, "{memory} bytes for {}", bytes.len());
}
