//! Every rule of findings: a trace that fires it, and one close to it that must not.

mod common;

use common::{Script, g, m, p};
use gmp_analyze::analysis::findings::{Finding, RULES};
use gmp_analyze::analysis::report::Report;
use gmp_analyze::input::TraceFacts;
use gmp_analyze::session;
use gmp_trace::Body;
use gmp_trace::event::{Found, Waker};
use gmp_trace::tables::Text;
use std::collections::BTreeSet;
use std::path::Path;

const MS: i64 = 1000;

fn named<'a>(report: &'a Report, rule: &str) -> Vec<&'a Finding> {
    report
        .findings
        .iter()
        .filter(|finding| finding.rule == rule)
        .collect()
}

/// A main goroutine that sleeps at the end, so that not everybody is blocked.
fn with_sleeping_main(script: &mut Script) {
    script
        .at(0)
        .on(0)
        .create(1, "app::main", 1)
        .start(1, Found::Local);
}

fn main_sleeps(script: &mut Script, at: i64, until: i64) {
    script.at(at).on(0).park(Text::SLEEP, 0, 3);
    script.at(until).event(Body::ProcStop);
}

/// Three producers send to a channel that nobody receives from.
fn producers(blocked_for_ms: i64) -> Script {
    let mut script = Script::new(1);
    with_sleeping_main(&mut script);
    for id in 2..5 {
        script.at(10).create(id, "app::producer", 20);
    }
    script.at(20).park(Text::SLEEP, 0, 3);
    for id in 2..5 {
        script.at(20 + id as i64).start(id, Found::Local);
        script.at(21 + id as i64).park(Text::CHAN_SEND, 77, 30);
    }
    script.at(30 + blocked_for_ms * MS).event(Body::ProcStop);
    script
}

#[test]
fn blocked_forever() {
    let report = producers(50).report();
    let findings = named(&report, "blocked-forever");
    assert_eq!(findings.len(), 1, "{:?}", report.findings);
    let text = &findings[0].summary;
    assert!(text.contains("3 goroutines of app::producer"), "{text}");
    assert!(text.contains("chan send at src/wait.rs:30"), "{text}");
    assert!(text.contains("Producers without a consumer"), "{text}");
    // Too short to say so.
    assert!(named(&producers(5).report(), "blocked-forever").is_empty());
}

#[test]
fn a_wait_that_is_usually_long_is_not_forever() {
    let mut script = Script::new(1);
    with_sleeping_main(&mut script);
    script.at(1).create(2, "app::worker", 20);
    script.at(2).park(Text::SLEEP, 0, 3);
    script
        .at(3)
        .start(2, Found::Local)
        .at(4)
        .park(Text::CHAN_RECEIVE, 7, 30);
    script.at(20 * MS).ready(2).start(2, Found::Runnext);
    script.at(20 * MS + 5).park(Text::CHAN_RECEIVE, 7, 30);
    script.at(60 * MS).event(Body::ProcStop);
    let report = script.report();
    assert_eq!(report.open_waits.len(), 2);
    assert!(
        named(&report, "blocked-forever").is_empty(),
        "{:?}",
        report.findings
    );
}

#[test]
fn a_wait_that_nothing_can_end_needs_no_time() {
    let mut script = Script::new(1);
    with_sleeping_main(&mut script);
    script
        .at(1)
        .create(2, "app::worker", 20)
        .park(Text::SLEEP, 0, 3);
    script
        .at(3)
        .start(2, Found::Local)
        .at(4)
        .park(Text::SELECT_NO_CASES, 0, 30);
    assert_eq!(named(&script.report(), "blocked-forever").len(), 1);
}

#[test]
fn goroutines_of_the_runtime_itself_may_wait_for_ever() {
    let blocked = |function| {
        let mut script = Script::new(1);
        with_sleeping_main(&mut script);
        script.at(1).create(2, function, 20).park(Text::SLEEP, 0, 3);
        script
            .at(3)
            .start(2, Found::Local)
            .at(4)
            .park(Text::CHAN_RECEIVE, 7, 30);
        script.at(60 * MS).event(Body::ProcStop);
        named(&script.report(), "blocked-forever").len()
    };
    assert_eq!(blocked("main.worker"), 1);
    assert_eq!(blocked("runtime.bgsweep"), 0);
    assert_eq!(blocked("runtime/trace.Start.func1"), 0);
}

fn two_locks(ends_well: bool) -> Script {
    let mut script = Script::new(1);
    script
        .at(0)
        .create(1, "app::left", 1)
        .create(2, "app::right", 2);
    script
        .at(1)
        .start(1, Found::Local)
        .at(2)
        .park(Text::MUTEX_LOCK, 10, 11);
    script.at(3).start(2, Found::Local).at(4);
    if ends_well {
        script
            .ready(1)
            .exit()
            .at(5)
            .start(1, Found::Runnext)
            .at(6)
            .exit();
    } else {
        script.park(Text::MUTEX_LOCK, 20, 12);
    }
    script
}

#[test]
fn deadlock() {
    let report = two_locks(false).report();
    let findings = named(&report, "deadlock");
    assert_eq!(findings.len(), 1, "{:?}", report.findings);
    assert!(
        findings[0].summary.contains("All 2 goroutines"),
        "{}",
        findings[0].summary
    );
    assert!(named(&report, "blocked-forever").is_empty(), "said twice");
    assert!(named(&two_locks(true).report(), "deadlock").is_empty());
    // A sleeper wakes by itself.
    assert!(named(&producers(50).report(), "deadlock").is_empty());
}

#[test]
fn what_a_foreign_thread_has_woken_is_no_deadlock() {
    let mut script = Script::new(1);
    script
        .at(0)
        .create(1, "app::main", 1)
        .start(1, Found::Local);
    script.at(1).park(Text::CHAN_RECEIVE, 10, 11);
    assert_eq!(named(&script.report(), "deadlock").len(), 1);
    let by = Some(Waker::External);
    script.at(2).bare(Body::GoReady {
        goroutine: g(1),
        by,
        stack: None,
    });
    script
        .at(3)
        .start(1, Found::Global)
        .at(4)
        .park(Text::CHAN_RECEIVE, 10, 11);
    assert!(named(&script.report(), "deadlock").is_empty());
}

/// One P is idle for `idle_us` while a goroutine waits to run on the other.
fn idle_p(idle_us: i64) -> Report {
    let mut script = Script::new(2);
    with_sleeping_main(&mut script);
    script.at(100).create(2, "app::worker", 9);
    script
        .at(100 + idle_us)
        .on(1)
        .proc_start()
        .start(2, Found::Stolen);
    script.at(100 * MS).exit().proc_stop();
    main_sleeps(&mut script, 100 * MS, 100 * MS);
    script.report()
}

#[test]
fn idle_while_runnable() {
    let report = idle_p(20 * MS);
    let findings = named(&report, "idle-while-runnable");
    assert_eq!(findings.len(), 1, "{:?}", report.findings);
    assert!(
        findings[0].summary.contains("20.0ms"),
        "{}",
        findings[0].summary
    );
    assert!(named(&idle_p(50), "idle-while-runnable").is_empty());
}

/// P 0 is in a system call while a goroutine waits to run, or has none waiting.
fn syscalls(work_waits: bool) -> Report {
    let mut script = Script::new(1);
    with_sleeping_main(&mut script);
    if work_waits {
        script.at(1).create(2, "app::worker", 9);
    }
    script.at(2).event(Body::SyscallEnter {
        site: None,
        stack: None,
    });
    script.at(50 * MS).event(Body::SyscallExit);
    main_sleeps(&mut script, 51 * MS, 51 * MS);
    script.report()
}

#[test]
fn low_parallelism() {
    let report = syscalls(true);
    let findings = named(&report, "low-parallelism");
    assert_eq!(findings.len(), 1, "{:?}", report.findings);
    assert!(
        findings[0].summary.contains("held by system calls"),
        "{}",
        findings[0].summary
    );
    assert!(named(&syscalls(false), "low-parallelism").is_empty());
}

/// P 0 runs all the time with a goroutine in its queue; P 1 runs for `other_ms` of 100.
fn unbalanced(other_ms: i64) -> Report {
    let mut script = Script::new(2);
    with_sleeping_main(&mut script);
    script
        .at(0)
        .create(2, "app::other", 9)
        .create(3, "app::queued", 10);
    script.on(1).proc_start().start(2, Found::Stolen);
    script.at(other_ms * MS).exit();
    script
        .on(0)
        .at(100 * MS)
        .yields()
        .start(3, Found::Local)
        .exit();
    script.report()
}

#[test]
fn imbalance() {
    let report = unbalanced(20);
    let findings = named(&report, "imbalance");
    assert_eq!(findings.len(), 1, "{:?}", report.findings);
    assert!(
        findings[0].summary.starts_with("P0 ran goroutines 100%"),
        "{}",
        findings[0].summary
    );
    assert!(named(&unbalanced(90), "imbalance").is_empty());
}

/// Two goroutines run in turn, for `run_ns` each, with 300 ns of scheduler between.
fn ping_pong(run_ns: i64) -> Report {
    let mut script = Script::new(1);
    script
        .at_ns(0)
        .create(1, "app::ping", 1)
        .create(2, "app::pong", 2);
    let mut now = 0;
    for round in 0..2000 {
        script.at_ns(now).start(1 + round % 2, Found::Local);
        now += run_ns;
        script.at_ns(now).yields();
        now += 300;
    }
    script.report()
}

#[test]
fn scheduler_overhead() {
    let report = ping_pong(500);
    let findings = named(&report, "scheduler-overhead");
    assert_eq!(findings.len(), 1, "{:?}", report.findings);
    assert!(
        findings[0]
            .summary
            .contains("500ns on average, 2 000 times"),
        "{}",
        findings[0].summary
    );
    assert!(named(&ping_pong(5000), "scheduler-overhead").is_empty());
}

#[test]
fn overhead_by_measured_switches() {
    let mut script = Script::new(1);
    script.at_ns(0).create(1, "app::spin", 1);
    for round in 0..2000 {
        let now = round * 1000;
        script
            .at_ns(now)
            .start(1, Found::Local)
            .at_ns(now + 1000)
            .yields();
        if round % 64 == 0 {
            script.event(Body::SchedSample {
                took: gmp_trace::time::Nanos(400),
            });
        }
    }
    let report = script.report();
    let findings = named(&report, "scheduler-overhead");
    assert_eq!(findings.len(), 1, "{:?}", report.findings);
    assert!(
        findings[0].summary.contains("40.0%"),
        "{}",
        findings[0].summary
    );
}

fn long_run(ms: i64) -> Report {
    let mut script = Script::new(1);
    with_sleeping_main(&mut script);
    script.at(1).create(2, "app::waits", 9);
    script
        .at(ms * MS)
        .yields()
        .start(2, Found::Local)
        .at(ms * MS + 1)
        .exit();
    script.start(1, Found::Local);
    main_sleeps(&mut script, ms * MS + 2, ms * MS + 3);
    script.report()
}

#[test]
fn long_runs() {
    let report = long_run(30);
    let findings = named(&report, "long-run");
    assert_eq!(findings.len(), 1, "{:?}", report.findings);
    let text = &findings[0].summary;
    assert!(
        text.contains("G1 (app::main) kept its P for 30.0ms"),
        "{text}"
    );
    assert!(text.contains("waited to run is 30.0ms"), "{text}");
    assert!(named(&long_run(9), "long-run").is_empty());
}

#[test]
fn lost_events() {
    let mut script = producers(5);
    assert!(named(&script.report(), "lost-events").is_empty());
    script.event(Body::Loss { events: 12 });
    let report = script.report();
    let findings = named(&report, "lost-events");
    assert_eq!(findings.len(), 1, "{:?}", report.findings);
    assert!(
        findings[0].summary.contains("lost 12 events"),
        "{}",
        findings[0].summary
    );
}

#[test]
fn a_broken_sequence_is_lost_events_too() {
    let mut script = Script::new(1);
    with_sleeping_main(&mut script);
    script.at(10).park(Text::CHAN_SEND, 7, 30);
    // Nobody has made it ready.
    script
        .at(60)
        .start(1, Found::Local)
        .at(100)
        .park(Text::SLEEP, 0, 3);
    let report = script.report();
    let findings = named(&report, "lost-events");
    assert_eq!(findings.len(), 1, "{:?}", report.findings);
    // 50 of 100 µs.
    assert!(
        findings[0].summary.contains("50.0%"),
        "{}",
        findings[0].summary
    );
}

#[test]
fn empty_trace() {
    let mut script = Script::new(0);
    assert_eq!(named(&script.report(), "empty-trace").len(), 1);
    script.bare(Body::Restarted);
    assert!(named(&script.report(), "empty-trace").is_empty());
}

#[test]
fn unfinished_trace() {
    let script = producers(5);
    let facts = |finished| TraceFacts {
        finished,
        ..TraceFacts::default()
    };
    let cut = script.report_on(facts(Some(false)));
    assert_eq!(named(&cut, "unfinished-trace").len(), 1);
    for finished in [Some(true), None] {
        assert!(named(&script.report_on(facts(finished)), "unfinished-trace").is_empty());
    }
}

#[test]
fn clock_skew() {
    let mut script = Script::new(2);
    with_sleeping_main(&mut script);
    script.at(500).create(2, "app::worker", 9);
    assert!(named(&script.report(), "clock-skew").is_empty());
    // The clock of the other thread is 100 µs behind.
    script
        .at(400)
        .on(1)
        .proc_start()
        .start(2, Found::Stolen)
        .at(600)
        .exit();
    let report = script.report();
    let findings = named(&report, "clock-skew");
    assert_eq!(findings.len(), 1, "{:?}", report.findings);
    let meaning = &report.anomalies[0].meaning;
    assert!(meaning.contains("At most 100µs"), "{meaning}");
    assert_eq!(report.latency.max().0, 0, "never negative");
}

/// Findings of a trace of Go with two generations, a second apart by its clock and by the monotonic one
/// so many nanoseconds.
fn rules_of_two_clocks(mono: u64) -> Vec<String> {
    let generation = |number: u64| {
        let (time, mono) = (1000 + (number - 1) * 15_625_000, 5000 + (number - 1) * mono);
        format!(
            "EventBatch gen={number} m=0 time={time} size=?\nProcStatus dt=1 p=0 pstatus=1\n\
             EventBatch gen={number} m={} time={time} size=?\nSync\nFrequency freq=15625000\n\
             ClockSnapshot dt=0 mono={mono} sec=2 nsec=3\nEndOfGeneration\n",
            u64::MAX
        )
    };
    let text = format!("Trace Go1.26\n{}{}", generation(1), generation(2));
    let bytes = gmp_trace::go::text::from_text(&text).expect("a trace");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clock-rate-{mono}.trace"));
    std::fs::write(&path, bytes).expect("a file in the target directory");
    let report = session::report(path.as_os_str(), false, false).expect("whole");
    report.findings.iter().map(|f| f.rule.to_owned()).collect()
}

#[test]
fn clock_rate() {
    let found = |mono| rules_of_two_clocks(mono).contains(&"clock-rate".to_owned());
    assert!(found(1_100_000_000));
    assert!(!found(1_005_000_000));
}

/// Every rule has a test of its name above: a new rule without one fails here.
#[test]
fn every_rule_is_tested() {
    let tested: BTreeSet<&str> = [
        "blocked-forever",
        "clock-rate",
        "clock-skew",
        "deadlock",
        "empty-trace",
        "idle-while-runnable",
        "imbalance",
        "long-run",
        "lost-events",
        "low-parallelism",
        "scheduler-overhead",
        "unfinished-trace",
    ]
    .into();
    let rules: BTreeSet<&str> = RULES.iter().map(|rule| rule.name()).collect();
    assert_eq!(rules, tested);
}

/// Names in scripts are what the findings say.
#[test]
fn ids_of_scripts() {
    assert_eq!((g(1).get(), m(0).get(), p(0).get()), (1, 0, 0));
}
