//! Traces written as traces of Go, and read back.

use gmp_trace::anomaly::Severity;
use gmp_trace::go::write::{Outcome, Writer};
use gmp_trace::tables::{StackRef, Tables, Text};
use gmp_trace::{Body, Event};

use super::{drain, lenient, strict};

/// A trace that was read, written and read back by a strict reader.
pub(crate) struct Written {
    pub(crate) events: Vec<Event>,
    pub(crate) tables: Tables,
    pub(crate) bytes: Vec<u8>,
    pub(crate) outcome: Outcome,
    pub(crate) back: Vec<Event>,
    pub(crate) back_tables: Tables,
}

pub(crate) fn write(bytes: &[u8], what: &str) -> Written {
    let mut reader = lenient(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut written = Vec::new();
    let mut writer = Writer::new(&mut written, reader.info().format);
    let mut events = Vec::new();
    while let Some(event) = reader.next().expect("lenient") {
        writer.event(&event, reader.tables()).expect("a vector");
        if let (Body::Sync { .. }, Some(allocations)) = (event.body, reader.allocations()) {
            let written = writer.allocations(allocations, reader.tables());
            written.expect("a vector");
        }
        events.push(event);
    }
    let outcome = writer.finish(reader.tables()).expect("a vector");
    let left_out: u64 = outcome.left_out.values().sum();
    assert_eq!(outcome.events + left_out, events.len() as u64, "{what}");
    assert_eq!(outcome.bytes, written.len() as u64, "{what}");
    let mut back_reader = strict(&written).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (back, error) = drain(&mut back_reader);
    assert!(error.is_none(), "{what}: {}", error.expect("one"));
    let worst = back_reader.anomalies().worst();
    assert!(worst <= Some(Severity::Info), "{what}: {worst:?}");
    Written {
        events,
        tables: reader.tables().clone(),
        bytes: written,
        outcome,
        back,
        back_tables: back_reader.tables().clone(),
    }
}

/// Writes what can be read of `bytes`; returns how many events are read back.
pub(crate) fn write_what_is_left(bytes: &[u8], what: &str) -> usize {
    let readable = lenient(bytes).is_ok_and(|mut reader| drain(&mut reader).1.is_none());
    if readable {
        write(bytes, what).back.len()
    } else {
        0
    }
}

pub(crate) fn text(text: Text, tables: &Tables) -> String {
    tables.text(text).to_owned()
}

pub(crate) fn frames(stack: Option<StackRef>, tables: &Tables) -> Vec<String> {
    let frames = stack.map_or(&[][..], |stack| tables.stack(stack));
    let line = |frame: &gmp_trace::tables::Frame| {
        let (function, file) = (tables.text(frame.function), tables.text(frame.file));
        format!("{function} {file}:{} {:#x}", frame.line, frame.pc)
    };
    frames.iter().map(line).collect()
}
