//! What the report costs an event: reading alone, with the machine, with everything.
//!
//! `cargo bench -p gmp-analyze --bench report [-- EVENTS]`: each step of each kind of trace five
//! times in turn; the best and the median are printed.

#[path = "../tests/common/mod.rs"]
mod common;

use common::pipeline::Pipeline;
use gmp_analyze::analysis::collect::Collector;
use gmp_analyze::machine::{Machine, Sink};
use gmp_trace::{Body, Event};
use std::hint::black_box;
use std::io::Cursor;
use std::time::{Duration, Instant};

/// A sink that takes nothing.
struct Nothing;

impl Sink for Nothing {}

const ROUNDS: usize = 5;

fn read(bytes: &[u8], mut each: impl FnMut(&Event)) {
    let mut reader = gmp_trace::open(Cursor::new(bytes.to_vec())).expect("a trace");
    reader
        .for_each_event(|event, _| each(event))
        .expect("whole");
}

fn main() {
    let events = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .next()
        .unwrap_or(2_000_000);
    for procs in [1, 8] {
        // Thirteen events a line, more or less.
        let program = Pipeline {
            seed: 9,
            procs,
            workers: 64,
            lines: events / 13,
            stuck: 3,
        };
        let (bytes, truth) = program.record();
        println!(
            "{procs} Ps: {} events, {:.2} bytes an event",
            truth.events,
            bytes.len() as f64 / truth.events as f64
        );
        let mut all = Vec::new();
        read(&bytes, |event| all.push(*event));
        measure("read", all.len(), || {
            read(&bytes, |event| {
                black_box(event);
            })
        });
        measure("machine alone", all.len(), || drop(machine(&all, Nothing)));
        measure("machine and report", all.len(), || {
            drop(machine(&all, Collector::new(false)))
        });
        measure("read, machine and report", all.len(), || {
            let mut machine = Machine::new(Collector::new(false));
            read(&bytes, |event| machine.event(event));
            drop(black_box(machine.finish()));
        });
    }
    println!(
        "an event takes {} bytes in memory, its body {}",
        size_of::<Event>(),
        size_of::<Body>()
    );
}

fn machine<S: Sink>(events: &[Event], sink: S) -> impl Sized {
    let mut machine = Machine::new(sink);
    for event in events {
        machine.event(event);
    }
    black_box(machine.finish())
}

/// Measures, unless the command line names a part of other steps' names.
fn measure(what: &str, events: usize, mut run: impl FnMut()) {
    let wanted = std::env::args()
        .skip(1)
        .find(|arg| !arg.starts_with("--") && arg.parse::<u64>().is_err());
    if wanted.is_some_and(|wanted| !what.contains(&wanted)) {
        return;
    }
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            run();
            begin.elapsed()
        })
        .collect();
    times.sort();
    let an_event = |time: Duration| time.as_nanos() as f64 / events as f64;
    println!(
        "  {what:<26} {:>6.1} ns an event ({:>5.1} M/s), median {:.1} ns",
        an_event(times[0]),
        1e3 / an_event(times[0]),
        an_event(times[ROUNDS / 2]),
    );
}
