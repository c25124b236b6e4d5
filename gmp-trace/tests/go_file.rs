//! A Go trace that is a file, of which the events are read when their turn comes, gives the same as one
//! that comes as a stream; with a thread that decodes ahead, too.

#![cfg(feature = "go")]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod go_support;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gmp_trace::anomaly::AnomalyKind;
use gmp_trace::{Body, Error, Event, Options, ReadAt, Reader};
use go_support::shapes::{Shape, trace};

/// What a reader gave: its events, what was wrong, and how it ended.
fn outcome(reader: Result<Reader, Error>) -> (Vec<Event>, String, String) {
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), String::new(), error.to_string()),
    };
    let mut events = Vec::new();
    let end = reader.for_each_event(|event, _| events.push(*event));
    let end = end.map_or_else(|error| error.to_string(), |()| String::new());
    (events, format!("{:?}", reader.anomalies()), end)
}

fn assert_same_both_ways(bytes: &[u8], what: &str) -> usize {
    let mut given = 0;
    for options in [Options::new(), Options::new().strict()] {
        let stream = outcome(options.open(io::Cursor::new(bytes.to_vec())));
        for options in [options, options.one_thread()] {
            let file = outcome(options.open_at(bytes.to_vec()));
            assert_eq!((&file.1, &file.2), (&stream.1, &stream.2), "{what}");
            let differs = file.0.iter().zip(&stream.0).find(|(a, b)| a != b);
            assert_eq!((differs, file.0.len()), (None, stream.0.len()), "{what}");
            given += file.0.len();
        }
    }
    given
}

#[test]
fn a_file_gives_what_a_stream_gives() {
    let mut given = 0;
    for (name, bytes) in go_support::traces() {
        given += assert_same_both_ways(&bytes, &name);
        for part in 1..8 {
            let cut = bytes.len() * part / 8;
            given += assert_same_both_ways(&bytes[..cut], &format!("{name} up to {cut}"));
            let mut damaged = bytes.clone();
            damaged[cut] ^= 0x55;
            given += assert_same_both_ways(&damaged, &format!("{name} damaged at {cut}"));
        }
    }
    assert!(given > 100_000, "{given} events");
}

fn many() -> Shape {
    Shape {
        threads: 8,
        goroutines: 16,
        rounds: 1800,
        skew: 500,
        stacks: 50,
    }
}

#[test]
fn a_trace_that_is_worth_a_thread_is_the_same_with_it() {
    let (bytes, events) = trace(&many());
    assert!(bytes.len() > 3_000_000, "{} bytes", bytes.len());
    let given = assert_same_both_ways(&bytes, "many events");
    assert_eq!(given as u64, 4 * (events + 1), "and the beginning");
    let (_, anomalies, end) = outcome(Options::new().open_at(bytes));
    assert_eq!(end, "");
    assert!(!anomalies.contains("Forced"), "{anomalies}");
}

#[test]
fn threads_and_goroutines_beyond_every_cache() {
    let shape = Shape {
        threads: 300,
        goroutines: 10,
        rounds: 4,
        skew: 100_000,
        stacks: 3000,
    };
    let (bytes, events) = trace(&shape);
    let given = assert_same_both_ways(&bytes, "many threads");
    assert_eq!(given as u64, 4 * (events + 1));
    let one = Shape {
        threads: 1,
        goroutines: 5000,
        ..shape
    };
    let (bytes, events) = trace(&one);
    let (given, anomalies, end) = outcome(Options::new().strict().open_at(bytes));
    assert_eq!((given.len() as u64, end.as_str()), (events + 1, ""));
    assert!(!anomalies.contains("Anomaly"), "{anomalies}");
    let parks = given
        .iter()
        .filter(|event| matches!(event.body, Body::GoPark { .. }));
    assert_eq!(parks.count(), 20_000);
}

/// A file that counts what is read, and fails, panics or ends once it is told to.
struct Failing {
    bytes: Vec<u8>,
    read: AtomicU64,
    fails: AtomicBool,
    panics: AtomicBool,
    ends: AtomicBool,
}

impl ReadAt for Failing {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        assert!(!self.panics.load(Ordering::SeqCst), "as the test wants it");
        if self.ends.load(Ordering::SeqCst) {
            return Ok(0);
        }
        let got = self.bytes.read_at(into, offset)?;
        self.read.fetch_add(got as u64, Ordering::SeqCst);
        Ok(got)
    }
}

fn failing() -> (Arc<Failing>, u64) {
    let (bytes, events) = trace(&many());
    let file = Failing {
        bytes,
        read: AtomicU64::new(0),
        fails: AtomicBool::new(false),
        panics: AtomicBool::new(false),
        ends: AtomicBool::new(false),
    };
    (Arc::new(file), events)
}

#[test]
fn events_are_read_when_their_turn_comes() {
    let (file, _) = failing();
    let mut reader = Options::new().one_thread().open_at(file.clone()).unwrap();
    assert!(matches!(
        reader.next().unwrap().unwrap().body,
        Body::Sync { .. }
    ));
    let read = file.read.load(Ordering::SeqCst);
    assert!(read < 200_000, "{read} of {} bytes", file.bytes.len());
}

#[test]
fn a_file_that_fails_later_is_an_error() {
    for options in [
        Options::new(),
        Options::new().one_thread(),
        Options::new().strict(),
    ] {
        let (file, events) = failing();
        let mut reader = options.open_at(file.clone()).unwrap();
        let mut given = 0;
        let end = reader.for_each_event(|_, _| {
            given += 1;
            file.fails.store(given > 1000, Ordering::SeqCst);
        });
        let error = end.unwrap_err();
        assert!(error.is_io(), "{error}");
        assert!(given > 1000 && given < events, "{given}");
    }
}

#[test]
fn a_file_that_was_cut_meanwhile_is_damaged() {
    let (file, events) = failing();
    let mut reader = Options::new().one_thread().open_at(file.clone()).unwrap();
    let mut given = 0;
    let end = reader.for_each_event(|_, _| {
        given += 1;
        file.ends.store(given > 1000, Ordering::SeqCst);
    });
    end.unwrap();
    assert!(given > 1000 && given < events, "{given}");
    assert!(reader.anomalies().count(AnomalyKind::Truncated) > 0);
}

/// Reads the first event of a trace that is worth a thread.
fn begun() -> (Arc<Failing>, Reader) {
    let (file, _) = failing();
    let mut reader = Options::new().open_at(file.clone()).unwrap();
    assert!(reader.next().unwrap().is_some());
    (file, reader)
}

#[test]
fn a_reader_that_is_dropped_early_has_ended_its_thread() {
    let (file, reader) = begun();
    assert!(Arc::strong_count(&file) > 1);
    drop(reader);
    assert_eq!(Arc::strong_count(&file), 1, "nobody has the file");
}

#[test]
fn a_thread_that_panics_is_an_error() {
    let processors = std::thread::available_parallelism();
    if !processors.is_ok_and(|n| n.get() > 1) {
        return; // It would be the thread of the test.
    }
    let (file, mut reader) = begun();
    file.panics.store(true, Ordering::SeqCst);
    let error = reader.for_each_event(|_, _| {}).unwrap_err();
    assert!(error.is_io(), "{error}");
    assert!(error.to_string().contains("decodes has ended"), "{error}");
    drop(reader);
    assert_eq!(Arc::strong_count(&file), 1, "nobody has the file");
}
