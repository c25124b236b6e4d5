//! Cut and damaged Go traces: no panic, no endless reading, and what was whole is given.

mod go_support;

use std::io::{self, Read};

use gmp_trace::anomaly::AnomalyKind;
use gmp_trace::go::text::from_text;
use gmp_trace::{Body, Error, Event, Options};

use go_support::{drain, lenient, strict, trace};

/// Traces that are small enough to be damaged at every byte: without optimization some, else all but
/// the three largest.
fn small() -> Vec<(String, Vec<u8>)> {
    let (most, count) = if cfg!(debug_assertions) {
        (5000, 5)
    } else {
        (20_000, 16)
    };
    let mut small = go_support::traces();
    small.retain(|(_, bytes)| bytes.len() < most);
    assert_eq!(small.len(), count);
    small
}

/// More events than any damage of one byte can make of a small trace.
const MANY_EVENTS: usize = 20_000;

/// What reading a small trace may take, whatever is wrong with it.
const MEMORY: u64 = 64 << 20;

/// Reads `bytes` both ways, in bounded memory; returns how many events the lenient reader gave.
fn read_both(bytes: &[u8], what: &str) -> usize {
    let mut events = 0;
    let memory = allocation_counter::measure(|| events = read_twice(bytes, what));
    let whole = bytes.len() as u64;
    let most = memory.bytes_max;
    assert!((whole..MEMORY).contains(&most), "{what}: {most} bytes");
    events
}

fn read_twice(bytes: &[u8], what: &str) -> usize {
    let strict_error = match strict(bytes) {
        Ok(mut reader) => drain(&mut reader).1,
        Err(error) => Some(error),
    };
    if let Some(error) = &strict_error {
        assert!(error.offset() <= bytes.len() as u64, "{what}: {error}");
        assert!(error.to_string().contains("expected"), "{what}: {error}");
    }
    let Ok(mut reader) = lenient(bytes) else {
        assert!(strict_error.is_some(), "{what}");
        return 0;
    };
    let (events, error) = drain(&mut reader);
    assert!(
        events.len() < MANY_EVENTS,
        "{what}: {} events",
        events.len()
    );
    // Go wants a generation even in a file that is a header and nothing else.
    let silent = error.is_none() && reader.anomalies().is_empty() && bytes.len() > 16;
    assert!(
        strict_error.is_none() || !silent,
        "{what}: {strict_error:?} is not counted"
    );
    for anomaly in reader.anomalies().iter() {
        assert!(
            anomaly.first_offset <= bytes.len() as u64,
            "{what}: {anomaly}"
        );
    }
    events.len()
}

#[test]
fn cut_at_every_byte() {
    let mut checked = 0;
    for (name, bytes) in small() {
        for end in 0..bytes.len() {
            read_both(&bytes[..end], &format!("{name} cut at {end}"));
            checked += 1;
        }
    }
    assert!(checked > 10_000);
}

#[test]
fn every_byte_damaged() {
    let mut checked = 0;
    for (name, bytes) in small() {
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            // Another value each time, and never the same one.
            damaged[place] ^= (place as u8).wrapping_mul(37) | 1;
            read_both(&damaged, &format!("{name} damaged at {place}"));
            checked += 1;
        }
    }
    assert!(checked > 10_000);
}

#[test]
fn extreme_values_all_over_larger_traces() {
    let mut checked = 0;
    for name in [
        "go1.21-pipeline",
        "go1.25-pipeline",
        "go1.27-locked-allocfree",
    ] {
        let bytes = trace(name);
        for place in (0..bytes.len()).step_by(61) {
            for value in [0x00, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[place] = value;
                read_both(&damaged, &format!("{name} with {value:#x} at {place}"));
                checked += 1;
            }
        }
    }
    assert!(checked > 2_000);
}

/// A trace of generations 1 to `count`, each with a goroutine that runs, blocks and is woken, and the
/// offsets at which the generations end.
fn generations(version: u16, count: u64) -> (Vec<u8>, Vec<usize>) {
    let mut text = format!("Trace Go1.{version}\n");
    let mut ends = Vec::new();
    for generation in 1..=count {
        let base = generation * 1000;
        text += &one_generation(version, generation, base);
        ends.push(from_text(&text).expect("a trace").len());
    }
    (from_text(&text).expect("a trace"), ends)
}

fn one_generation(version: u16, generation: u64, base: u64) -> String {
    let head = |m: i64| {
        let m = if m < 0 { u64::MAX } else { m as u64 };
        format!("EventBatch gen={generation} m={m} time={base} size=?\n")
    };
    let sync = match version {
        25.. => "Sync\nFrequency freq=15625000\nClockSnapshot dt=0 mono=1 sec=2 nsec=3\n",
        _ => "Frequency freq=15625000\n",
    };
    let end = if version >= 26 {
        "EndOfGeneration\n"
    } else {
        ""
    };
    let first = head(0);
    let second = head(1);
    let none = head(-1);
    format!(
        "{first}ProcStatus dt=1 p=0 pstatus=1\nGoStatus dt=1 g=1 m=0 gstatus=2\n\
         GoUnblock dt=10 g=2 g_seq=1 stack=1\nGoBlock dt=1 reason_string=1 stack=1\n\
         GoStart dt=20 g=1 g_seq=2\n\
         {second}ProcStatus dt=2 p=1 pstatus=1\nGoStatus dt=1 g=2 m=18446744073709551615 gstatus=4\n\
         GoStart dt=12 g=2 g_seq=2\nGoUnblock dt=5 g=1 g_seq=1 stack=0\n\
         GoBlock dt=1 reason_string=2 stack=1\n\
         {none}{sync}\
         {none}Strings\nString id=1\n\tdata=\"chan receive\"\nString id=2\n\tdata=\"select\"\n\
         {none}Stacks\nStack id=1 nframes=1\n\tpc=7 func=1 file=2 line=3\n{end}"
    )
}

/// Events without those that say where a generation begins.
fn by_generation(events: &[Event]) -> Vec<u64> {
    let begins = events.iter().filter_map(|event| match event.body {
        Body::Sync { generation, .. } => Some(generation),
        _ => None,
    });
    begins.collect()
}

/// Events of one generation, as [`one_generation`] makes it, the beginning among them.
const EVENTS: usize = 11;

/// What a trace holds is that of one generation, and each different string and stack once.
#[test]
fn memory_does_not_grow_with_generations() {
    let peak = |count: u64| {
        let text: String = (1..=count)
            .map(|number| one_generation(26, number, number * 1000))
            .collect();
        let bytes = from_text(&format!("Trace Go1.26\n{text}")).expect("a trace");
        let mut given = 0;
        let memory = allocation_counter::measure(|| {
            let mut reader = Options::new().open_at(bytes).expect("a trace");
            reader.for_each_event(|_, _| given += 1).expect("read");
        });
        assert_eq!(given, count * EVENTS as u64);
        memory.bytes_max
    };
    let (few, many) = (peak(20), peak(1000));
    assert!(many < few + 4096, "{few} bytes, {many}");
}

#[test]
fn the_generations_before_a_cut_are_given_whole() {
    let mut checked = 0;
    for version in [22, 23, 25, 26] {
        let (bytes, ends) = generations(version, 4);
        for end in 16..bytes.len() {
            let whole = ends.iter().filter(|&&at| at <= end).count();
            let mut reader = lenient(&bytes[..end]).expect("a trace");
            let (events, error) = drain(&mut reader);
            let begun = by_generation(&events).len();
            // Without an end of its own, one that is cut may look whole.
            assert!(
                begun == whole || (begun == whole + 1 && version < 26),
                "1.{version} cut at {end}"
            );
            assert!(events.len() >= EVENTS * whole, "1.{version} cut at {end}");
            assert_eq!(
                error.is_some(),
                begun == 0 && end > 16,
                "1.{version} cut at {end}: {error:?}"
            );
            if end > 16 && !ends.contains(&end) && version >= 26 {
                assert_eq!(reader.anomalies().count(AnomalyKind::Truncated), 1);
                assert_eq!(
                    reader.info().finished,
                    Some(false),
                    "1.{version} cut at {end}"
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 1000);
}

#[test]
fn reading_goes_on_at_the_next_generation_after_damage() {
    let mut checked = 0;
    for version in [22, 25, 26] {
        let (bytes, ends) = generations(version, 3);
        // What the program printed got into the middle of the second generation.
        let begin = ends[0];
        for (at, noise) in [
            (begin, &b"some output"[..]),
            (begin + 60, b"\x00\x00\x00\xff\xff"),
        ] {
            let mut mixed = bytes.clone();
            mixed.splice(at..at, noise.iter().copied());
            let mut reader = lenient(&mixed).expect("a trace");
            let (events, error) = drain(&mut reader);
            assert!(error.is_none(), "1.{version}: {error:?}");
            let begun = by_generation(&events);
            assert_eq!(
                (begun.first(), begun.last()),
                (Some(&1), Some(&3)),
                "1.{version}"
            );
            let last = events
                .iter()
                .rposition(|e| matches!(e.body, Body::Sync { .. }));
            assert_eq!(
                events.len() - last.expect("a generation"),
                EVENTS,
                "1.{version}"
            );
            assert!(!reader.anomalies().is_empty());
            assert!(strict(&mixed).is_ok_and(|mut reader| drain(&mut reader).1.is_some()));
            checked += 1;
        }
    }
    assert_eq!(checked, 6);
}

#[test]
fn a_generation_that_is_missing_is_told() {
    let (bytes, ends) = generations(26, 4);
    let mut without = bytes.clone();
    without.drain(ends[1]..ends[2]);
    let mut reader = lenient(&without).expect("a trace");
    let (events, error) = drain(&mut reader);
    assert!(error.is_none());
    assert_eq!(by_generation(&events), [1, 2, 4]);
    assert_eq!(events.len(), 3 * EVENTS);
    assert_eq!(reader.anomalies().count(AnomalyKind::MissingBlock), 1);
}

#[test]
fn a_batch_with_a_wrong_generation_is_left_out() {
    for version in [22, 26] {
        let (bytes, ends) = generations(version, 2);
        let mut wrong = bytes.clone();
        // The generation of the second batch of the first generation: thread 1, time 1000.
        let head = [1, 1, 1, 0xe8, 0x07];
        let place = wrong
            .windows(head.len())
            .position(|bytes| bytes == head)
            .expect("a batch");
        wrong[place + 1] = 77;
        let mut reader = lenient(&wrong).expect("a trace");
        let (events, error) = drain(&mut reader);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(by_generation(&events), [1, 2], "1.{version}");
        assert!(
            reader.anomalies().count(AnomalyKind::LateBlock) > 0,
            "1.{version}"
        );
        assert!(ends[0] > place);
        let error = drain(&mut strict(&wrong).expect("a trace"))
            .1
            .expect("refused");
        assert!(error.to_string().contains("generation 77"), "{error}");
    }
}

/// A source that gives one byte at a time, and fails in the end.
struct Slow(Vec<u8>, usize);

impl Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match (self.0.get(self.1), into.first_mut()) {
            (Some(byte), Some(place)) => {
                *place = *byte;
                self.1 += 1;
                Ok(1)
            }
            _ => Err(io::Error::other("the line is gone")),
        }
    }
}

#[test]
fn a_source_that_fails_is_said_to_have_failed() {
    let (bytes, _) = generations(26, 2);
    let whole = bytes.len() as u64;
    let mut reader = Options::new().open(Slow(bytes, 0)).expect("a trace");
    let (events, error) = drain(&mut reader);
    let error: Error = error.expect("a failure");
    assert!(
        error.is_io() && error.to_string().contains("the line is gone"),
        "{error}"
    );
    assert_eq!(error.offset(), whole);
    assert!(events.len() >= EVENTS, "{} events", events.len());
    let error = Options::new()
        .open(Slow(b"go 1".to_vec(), 0))
        .expect_err("a failure");
    assert!(error.is_io(), "{error}");
}

#[test]
fn what_is_no_trace_is_refused_by_its_looks() {
    let mut checked = 0;
    for (bytes, predicate) in [
        (
            &b"go 1.9 trace\0\0\0\0"[..],
            Error::is_unsupported_version as fn(&Error) -> bool,
        ),
        (b"go 1.20 trace\0\0\0", Error::is_unsupported_version),
        (b"go 1.22 tr", Error::is_truncated),
        (b"go 1.22 wrong\0\0\0", Error::is_not_a_trace),
        (b"", Error::is_not_a_trace),
        (
            b"\x1f\x8b\x08\0\0\0\0\0\0\0\0\0\0\0\0\0",
            Error::is_not_a_trace,
        ),
    ] {
        let error = lenient(bytes).expect_err("refused");
        assert!(predicate(&error), "{}: {error}", bytes.escape_ascii());
        checked += 1;
    }
    assert_eq!(checked, 6);
}

#[test]
fn a_newer_version_is_read_with_a_remark() {
    let (mut bytes, _) = generations(26, 1);
    bytes[5..7].copy_from_slice(b"29");
    let mut reader = lenient(&bytes).expect("a trace");
    let (events, error) = drain(&mut reader);
    assert!(error.is_none());
    assert_eq!(events.len(), EVENTS);
    assert_eq!(reader.anomalies().count(AnomalyKind::NewerVersion), 1);
}
