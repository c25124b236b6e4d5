//! Go's own traces: every goroutine's states sum to its life, and are what Go's own reader and
//! summary make of them.

mod common;

use common::Partitions;
use gmp_analyze::analysis::collect::Collector;
use gmp_analyze::analysis::goroutines::Life;
use gmp_analyze::analysis::names::BEFORE_TRACE;
use gmp_analyze::machine::{GoroutineSpan, GoroutineState as State, Sink};
use gmp_analyze::{input, session};
use gmp_trace::id::GId;
use gmp_trace::time::Nanos;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Figures in which Go's summary differs from ours, with the reason.
const DIFFERENT: &[(&str, u64, &str)] = &[
    // Go counts a wait to run that began inside a system call it still counts as running: the
    // states of this goroutine sum to more than its life.
    ("go1.21-tasks", 17, "sched_wait_ns"),
    // In a system call without P when the trace began: Go counts 257 ns of it as with one.
    ("go1.27-hogs-cpu", 7, "syscall_ns"),
    ("go1.27-hogs-cpu", 7, "syscall_block_ns"),
    // The P was taken twice while one call lasted; Go counts the time without P from the second.
    ("go1.22-syscalls", 26, "syscall_ns"),
    ("go1.22-syscalls", 26, "syscall_block_ns"),
];

/// Counts spans: Go's reader moves events by 1 ns each.
#[derive(Default)]
struct SpanCounts(HashMap<GId, i64>);

impl Sink for SpanCounts {
    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        *self.0.entry(span.goroutine).or_default() += 1;
    }
}

fn traces() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/go");
    let entries = std::fs::read_dir(directory).expect("the fixtures");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "trace")
    });
    paths.sort();
    paths
}

fn field(life: &Life, name: &str) -> i64 {
    let state = |state: State| life.time[state as usize].0;
    match name {
        "exec_ns" => state(State::Running),
        "sched_wait_ns" => state(State::Runnable),
        "syscall_ns" => state(State::Syscall),
        "syscall_block_ns" => state(State::SyscallWithoutP),
        "total_ns" => life.end.since(life.born).0,
        _ => panic!("no field {name}"),
    }
}

/// What the command prints of each goroutine, by number.
fn reported(path: &Path) -> HashMap<u64, Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_gmp-analyze"))
        .args(["report", "--json", "--goroutines"])
        .arg(path)
        .output()
        .expect("the program runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let goroutines = report["goroutines"].as_array().expect("a list");
    let by_id = |goroutine: &Value| {
        (
            goroutine["id"].as_u64().expect("a number"),
            goroutine.clone(),
        )
    };
    goroutines.iter().map(by_id).collect()
}

#[test]
fn states_are_what_go_says() {
    let (mut compared, mut excepted, mut reasons) = (0, 0, 0);
    for path in traces() {
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let json = std::fs::read_to_string(path.with_extension("json")).expect("beside it");
        let expected: Value = serde_json::from_str(&json).expect("JSON");
        let mut input = input::open(path.as_os_str(), false).expect("a trace");
        let sink = (
            (Collector::new(true), Partitions::default()),
            SpanCounts::default(),
        );
        let outcome = session::run(&mut input, sink).expect("whole");
        let ((collector, partitions), counts) = outcome.sink;
        partitions.check(outcome.begin, outcome.end);
        let lives = collector.lives.expect("asked for").into_lives();
        let by_id: HashMap<u64, &Life> = lives
            .iter()
            .map(|life| (life.goroutine.get(), life))
            .collect();
        let goroutines = expected["goroutines"].as_array().expect("a list");
        assert_eq!(by_id.len(), goroutines.len(), "{name}");
        let reported = reported(&path);
        assert_eq!(reported.len(), goroutines.len(), "{name}");
        for goroutine in goroutines {
            let id = goroutine["id"].as_u64().expect("a number");
            let life = by_id[&id];
            let printed = &reported[&id];
            let start = match goroutine["name"].as_str() {
                Some("") => BEFORE_TRACE,
                start => start.expect("a name"),
            };
            assert_eq!(printed["name"], start, "{name} G{id}");
            // One for each end of a span, and Go's last event.
            let allowed = 2 * counts.0[&life.goroutine] + 2;
            for figure in [
                "exec_ns",
                "sched_wait_ns",
                "syscall_ns",
                "syscall_block_ns",
                "total_ns",
            ] {
                assert_eq!(
                    printed[figure].as_i64(),
                    Some(field(life, figure)),
                    "{name} G{id} {figure}"
                );
                if DIFFERENT.contains(&(name.as_str(), id, figure)) {
                    excepted += 1;
                    continue;
                }
                let (theirs, ours) = (
                    goroutine[figure].as_i64().expect(figure),
                    field(life, figure),
                );
                assert!(
                    (theirs - ours).abs() <= allowed,
                    "{name} G{id} {figure}: Go says {theirs}, we say {ours}"
                );
                compared += 1;
            }
            let blocked = goroutine["block_ns_by_reason"]
                .as_object()
                .expect("an object");
            let printed = &printed["block_ns_by_reason"];
            for (reason, theirs) in blocked {
                let word = if reason.is_empty() { "waiting" } else { reason };
                let (theirs, ours) = (theirs.as_i64(), printed[word].as_i64());
                let differ = theirs.unwrap_or(0) - ours.unwrap_or(0);
                assert!(
                    differ.abs() <= allowed,
                    "{name} G{id} {reason:?}: Go says {theirs:?}, we say {ours:?}"
                );
                reasons += 1;
            }
            let theirs: i64 = blocked.values().filter_map(Value::as_i64).sum();
            let waits: Nanos = life
                .waits
                .iter()
                .fold(Nanos::ZERO, |sum, wait| sum + wait.1);
            assert!(
                (theirs - waits.0).abs() <= allowed,
                "{name} G{id}: {theirs} {waits:?}"
            );
        }
    }
    assert_eq!(excepted, DIFFERENT.len());
    assert!(compared > 4000 && reasons > 500, "{compared} {reasons}");
}
