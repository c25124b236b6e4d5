//! What holds for any program, any records and any bytes.

#![cfg(all(feature = "testgen", feature = "text"))]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

#[path = "support/configs.rs"]
mod configs;
mod support;

use std::fmt::Write;
use std::io::Cursor;

use gmp_trace::anomaly::AnomalyKind;
use gmp_trace::header::HEADER_BYTES;
use gmp_trace::spec::{ArgType, Group, Kind, SPECS, Spec, Tail, arg_type};
use gmp_trace::testgen::{Config, program};
use gmp_trace::text::{from_text, to_text};
use proptest::prelude::*;
use support::read;

fn any_config() -> impl Strategy<Value = Config> {
    let whole = (configs::any_config(), 400..9000usize);
    whole.prop_map(|(config, block_bytes)| Config {
        block_bytes,
        ..config
    })
}

/// Numbers of all sizes, small ones more often.
fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![0..128u64, 0..70_000u64, any::<u64>()]
}

/// Kinds of records that make events, each in an events block of its own right.
fn kinds_of_events() -> Vec<&'static Spec> {
    let fits = |spec: &&Spec| {
        !matches!(spec.group, Group::Table | Group::Control) || spec.kind == Kind::Loss
    };
    SPECS.iter().filter(fits).collect()
}

/// One record as a line of text, and how many events it makes.
fn any_record() -> impl Strategy<Value = (String, u64)> {
    let kind = prop::sample::select(kinds_of_events());
    let numbers = prop::collection::vec(any_number(), 9);
    (
        kind,
        any::<prop::sample::Index>(),
        any::<bool>(),
        numbers,
        ".{0,40}",
    )
        .prop_map(|(spec, value, with_seq, numbers, said)| {
            let mut line = spec.name.to_owned();
            let named: Vec<_> = spec.values.iter().filter(|v| !v.is_empty()).collect();
            if !named.is_empty() {
                let _ = write!(line, ":{}", value.get(&named));
            }
            for (name, number) in spec.args.iter().zip(numbers) {
                if spec.seq_form && *name == "seq" && !with_seq {
                    continue;
                }
                // Numbers that name something that there can be.
                let number = match arg_type(name) {
                    Some(ArgType::G) => number.max(1),
                    Some(ArgType::P) => number % 1000,
                    Some(ArgType::M) => number / 2,
                    Some(ArgType::Slot) => number % 64,
                    Some(ArgType::Dt) => number % 100_000,
                    _ => number,
                };
                let _ = write!(line, " {name}={number}");
            }
            if spec.tail == Some(Tail::Bytes) {
                let said = said.replace('\\', "\\\\").replace('"', "\\\"");
                let _ = write!(line, " \"{said}\"");
            }
            (line, u64::from(spec.events))
        })
}

fn text_of(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    to_text(Cursor::new(bytes.to_vec()), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn programs_are_read_as_meant(seed in any::<u64>(), config in any_config()) {
        let program = program(seed, &config);
        let read = read(&program.bytes).unwrap();
        prop_assert!(read.events == program.events);
        prop_assert_eq!(read.kinds(), []);
    }

    #[test]
    fn any_records_of_any_ms_make_their_events(
        records in prop::collection::vec((0..4u64, any_record()), 1..80),
    ) {
        let mut text = String::from("gmp trace 1.0\nclock 1000000000\n");
        let mut meant = 1; // the begin of the generation
        for m in 0..4 {
            let _ = writeln!(text, "block events generation=1 sequence=0 m={m} base=100 g=1 p=0");
            for (_, (line, events)) in records.iter().filter(|(of, _)| *of == m) {
                let _ = writeln!(text, "{line}");
                meant += events;
            }
        }
        let bytes = from_text(&text).unwrap();
        let read = read(&bytes).unwrap();
        prop_assert_eq!(read.events.len() as u64, meant, "{}", text);
        prop_assert_eq!(read.info.events, meant);
        prop_assert_eq!(read.anomalies.count(AnomalyKind::BadRecord), 0);
        prop_assert_eq!(read.anomalies.count(AnomalyKind::CountMismatch), 0);
        let again = text_of(&bytes);
        prop_assert_eq!(text_of(&from_text(&again).unwrap()), again);
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        with_header in any::<bool>(),
    ) {
        let mut trace = Vec::new();
        if with_header {
            trace = from_text("gmp trace 1.0\nclock 1000\n").unwrap();
        }
        let blank = bytes.iter().all(|b| *b == 0);
        trace.extend(bytes);
        match read(&trace) {
            Ok(read) => {
                prop_assert_eq!(read.events.len(), 0);
                prop_assert!(blank || read.kinds().len() > 1);
            }
            Err(error) => prop_assert!(!with_header && !error.is_io()),
        }
    }

    #[test]
    fn spliced_traces_are_read_without_panic(
        seed in 0..50u64,
        at in any::<prop::sample::Index>(),
        take_out in 0..200usize,
        put_in in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let config = Config { events: 300, block_bytes: 600, ..Config::default() };
        let program = program(seed, &config);
        let at = HEADER_BYTES + at.index(program.bytes.len() - HEADER_BYTES);
        let end = (at + take_out).min(program.bytes.len());
        let mut spliced = program.bytes.clone();
        spliced.splice(at..end, put_in);
        let read = read(&spliced).unwrap();
        let same = spliced == program.bytes;
        prop_assert!(same || !read.anomalies.is_empty());
        prop_assert_eq!(read.info.bytes, spliced.len() as u64);
        for event in &read.events {
            let shown = format!("{event:?}");
            prop_assert!(!shown.is_empty());
        }
    }
}
