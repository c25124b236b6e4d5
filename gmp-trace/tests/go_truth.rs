//! For every real Go trace: what our events add up to is what Go's own reader and summarizer say.

mod go_support;

use std::collections::BTreeMap;

use gmp_trace::anomaly::Severity;
use gmp_trace::{Body, Event};
use go_support::goroutine::Goroutine;
use go_support::oracle::{self, Oracle};
use go_support::summary::{Summary, Times};
use go_support::{drain, lenient, strict, trace, traces};

fn summaries(name: &str, bytes: &[u8], times: Times) -> Summary {
    let mut reader = strict(bytes).expect("a Go trace");
    let (events, error) = drain(&mut reader);
    assert!(error.is_none(), "{name}: {error:?}");
    let worst = reader.anomalies().worst();
    assert!(
        worst <= Some(Severity::Info),
        "{name}: {:?}",
        reader.anomalies()
    );
    assert_eq!(reader.info().events, events.len() as u64, "{name}");
    for (place, event) in events.iter().enumerate() {
        assert_eq!(event.order, place as u64, "{name}");
    }
    Summary::of(&without_takings(name, events), reader.tables(), times)
}

/// Up to Go 1.21 a goroutine that is back from a system call may take the P of another call. Go's reader
/// does not see it; ours gives the taking and the P's start.
fn without_takings(name: &str, events: Vec<Event>) -> Vec<Event> {
    if !name.starts_with("go1.21") {
        return events;
    }
    let taken = |event: &Event| matches!(event.body, Body::ProcSteal { .. });
    let mut seen: Vec<Event> = Vec::new();
    let mut takes = false;
    for event in events {
        if std::mem::replace(&mut takes, taken(&event)) {
            assert_eq!(event.body, Body::ProcStart, "{name}");
        } else if !takes {
            seen.push(event);
        }
    }
    seen
}

#[test]
fn a_p_that_a_returning_call_takes_is_told() {
    let mut reader = strict(&trace("go1.21-syscalls")).expect("a Go trace");
    let (events, _) = drain(&mut reader);
    let mut checker = gmp_trace::check::Checker::new();
    events.iter().for_each(|event| checker.event(event));
    let report = checker.finish(events.len() as u64);
    assert!(report.is_good(), "{:?}", report.counts);
    let taken = without_takings("go1.21-syscalls", events.clone());
    assert_eq!(events.len() - taken.len(), 2 * 207);
}

/// Go's reader makes a parent with number 0 of the missing one of a task that ends, in traces up to
/// Go 1.21.
fn without_task_zero(name: &str) -> bool {
    name.starts_with("go1.21")
}

#[test]
fn events_are_counted_as_go_counts_them() {
    let mut checked = 0;
    for (name, bytes) in traces() {
        let (oracle, summary) = (Oracle::read(&name), summaries(&name, &bytes, Times::AsGo));
        assert_eq!(summary.kinds, oracle.numbers("kinds"), "{name}");
        assert_eq!(
            summary.kinds.values().sum::<i64>(),
            oracle.number("events"),
            "{name}"
        );
        assert_eq!(summary.transitions, oracle.numbers("transitions"), "{name}");
        assert_eq!(
            summary.range_begins,
            oracle.numbers("range_begins"),
            "{name}"
        );
        checked += 1;
    }
    assert!(checked >= 19);
}

/// With Go's rule that no event is at the time of the one before, every figure is equal.
#[test]
fn figures_are_those_of_go_by_its_clock() {
    let mut checked = 0;
    for (name, bytes) in traces() {
        let summary = summaries(&name, &bytes, Times::AsGo);
        checked += compare(&name, &summary, |_| slack(&name));
    }
    assert!(checked > 700, "{checked} goroutines");
}

/// With times as recorded, every figure is within 1 ns an event of the goroutine.
#[test]
fn figures_are_those_of_go_by_the_recorded_clock() {
    let mut checked = 0;
    for (name, bytes) in traces() {
        let summary = summaries(&name, &bytes, Times::Recorded);
        checked += compare(&name, &summary, |goroutine| goroutine.events + 1);
    }
    assert!(checked > 700, "{checked} goroutines");
}

/// By how much a figure may differ although the clock is Go's.
fn slack(name: &str) -> i64 {
    // Go's synchronisation is 1 ns before the first event there.
    if name.starts_with("go1.21") { 1 } else { 0 }
}

fn compare(name: &str, summary: &Summary, allowed: impl Fn(&Goroutine) -> i64) -> usize {
    let oracle = Oracle::read(name);
    let expected = oracle.goroutines();
    assert_eq!(expected.len(), summary.goroutines.len(), "{name}");
    for wanted in &expected {
        let id = wanted.number("id") as u64;
        let goroutine = &summary.goroutines[&id];
        compare_goroutine(
            &format!("{name}: goroutine {id}"),
            wanted,
            goroutine,
            allowed(goroutine),
            summary.first,
        );
    }
    let mut tasks = oracle.tasks();
    if without_task_zero(name) {
        tasks.retain(|task| task.0 != 0);
    }
    assert_eq!(tasks.len(), summary.tasks.len(), "{name}");
    for (id, task_name, complete, duration, parent, logs, regions) in tasks {
        let task = &summary.tasks[&(id as u64)];
        assert_eq!(
            (&task.name, task.parent as i64),
            (&task_name, parent),
            "{name}: task {id}"
        );
        assert_eq!(
            (task.logs, task.regions),
            (logs, regions),
            "{name}: task {id}"
        );
        let ours = task.begin.zip(task.end).map(|(begin, end)| end - begin);
        assert_eq!(ours.is_some(), complete, "{name}: task {id}");
        // Two events, each moved by what was before it.
        assert!(
            (ours.unwrap_or(0) - duration).abs() <= 64,
            "{name}: task {id}: {ours:?}"
        );
    }
    expected.len()
}

fn compare_goroutine(
    what: &str,
    wanted: &oracle::Goroutine,
    ours: &Goroutine,
    allowed: i64,
    first: i64,
) {
    assert_eq!(ours.name, wanted.name(), "{what}");
    assert_eq!(ours.regions, wanted.number("regions"), "{what}");
    let near = |figure: &str, ours: i64, wanted: i64| {
        assert!(
            (ours - wanted).abs() <= allowed,
            "{what}: {figure} is {ours}, not {wanted} (±{allowed})"
        );
    };
    let point = |time: Option<i64>| time.map_or(-1, |time| time - first);
    near(
        "creation_ns",
        ours.creation - first,
        wanted.number("creation_ns"),
    );
    for (figure, ours) in [("start_ns", point(ours.start)), ("end_ns", point(ours.end))] {
        assert_eq!(ours < 0, wanted.number(figure) < 0, "{what}: {figure}");
        near(figure, ours, wanted.number(figure));
    }
    near("exec_ns", ours.exec, wanted.number("exec_ns"));
    near(
        "sched_wait_ns",
        ours.sched_wait,
        wanted.number("sched_wait_ns"),
    );
    near("syscall_ns", ours.syscall, wanted.number("syscall_ns"));
    near(
        "syscall_block_ns",
        ours.syscall_block,
        wanted.number("syscall_block_ns"),
    );
    near("total_ns", ours.total, wanted.number("total_ns"));
    let by_name = |figure: &str, ours: &BTreeMap<String, i64>| {
        let wanted = wanted.numbers(figure);
        assert!(
            ours.keys().eq(wanted.keys()),
            "{what}: {figure}: {ours:?} and {wanted:?}"
        );
        for (key, &time) in ours {
            near(&format!("{figure} {key}"), time, wanted[key]);
        }
    };
    by_name("block_ns_by_reason", &ours.block);
    by_name("range_ns", &ours.ranges);
}

#[test]
fn a_lenient_reader_gives_the_same_as_a_strict_one() {
    let mut checked = 0;
    for (name, bytes) in traces() {
        let (strict, _) = drain(&mut strict(&bytes).expect("a Go trace"));
        let (lenient, _) = drain(&mut lenient(&bytes).expect("a Go trace"));
        assert_eq!(strict, lenient, "{name}");
        checked += strict.len();
    }
    assert!(checked > 100_000);
}
