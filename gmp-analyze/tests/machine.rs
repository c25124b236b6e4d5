//! How states follow each other: short sequences of events, and the spans that they must give.

mod common;

use common::{Partitions, Script, m, p};
use gmp_analyze::diag::Kind;
use gmp_analyze::machine::{GoroutineSpan, Machine, Outcome, ProcSpan, Sink, ThreadSpan, Wake};
use gmp_trace::Body;
use gmp_trace::event::*;
use gmp_trace::tables::Text;
use std::fmt::Write;

/// Spans as text: `G1 running 0-5`, times in microseconds.
#[derive(Default)]
struct Lines {
    goroutines: String,
    procs: String,
    threads: String,
    wakes: String,
}

impl Sink for Lines {
    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        let (begin, end) = (span.begin.0 / 1000, span.end.0 / 1000);
        let open = if span.open { "…" } else { "" };
        let state = span.state.name();
        writeln!(
            self.goroutines,
            "G{} {state} {begin}-{end}{open}",
            span.goroutine
        )
        .expect("text");
    }

    fn proc_span(&mut self, span: &ProcSpan) {
        let (begin, end) = (span.begin.0 / 1000, span.end.0 / 1000);
        writeln!(
            self.procs,
            "P{} {} {begin}-{end}",
            span.proc,
            span.state.name()
        )
        .expect("text");
    }

    fn thread_span(&mut self, span: &ThreadSpan) {
        let (begin, end) = (span.begin.0 / 1000, span.end.0 / 1000);
        let state = span.state.name();
        writeln!(self.threads, "M{} {state} {begin}-{end}", span.thread).expect("text");
    }

    fn wake(&mut self, wake: &Wake) {
        let latency = wake.latency().0 / 1000;
        let waker = wake
            .waker
            .map_or("nobody".to_owned(), |waker| format!("G{waker}"));
        let cause = wake.cause.name();
        writeln!(
            self.wakes,
            "G{} {cause} by {waker} {latency}",
            wake.goroutine
        )
        .expect("text");
    }
}

fn run(script: &Script) -> Outcome<Lines> {
    let mut machine = Machine::new((Lines::default(), Partitions::default()));
    for event in &script.events {
        machine.event(event);
    }
    let Outcome {
        sink: (lines, partitions),
        begin,
        end,
        counts,
        peak_goroutines,
    } = machine.finish();
    partitions.check(begin, end);
    assert_eq!(counts.count(Kind::PartitionBroken), 0);
    Outcome {
        sink: lines,
        begin,
        end,
        counts,
        peak_goroutines,
    }
}

/// The spans of `actual` that begin with `name`, against the expected ones.
fn assert_lines(actual: &str, name: &str, expected: &[&str]) {
    let prefix = format!("{name} ");
    let actual: Vec<&str> = actual
        .lines()
        .filter_map(|line| line.strip_prefix(prefix.as_str()))
        .collect();
    assert_eq!(actual, expected, "of {name}");
}

#[test]
fn one_life() {
    let mut script = Script::new(1);
    script
        .at(0)
        .create(1, "main", 1)
        .at(2)
        .start(1, Found::Local);
    script
        .at(5)
        .create(2, "worker", 2)
        .at(7)
        .park(Text::CHAN_RECEIVE, 9, 3);
    script
        .at(8)
        .start(2, Found::Runnext)
        .at(9)
        .ready(1)
        .at(11)
        .yields();
    script.at(12).start(1, Found::Local).at(20).exit();
    script.at(21).start(2, Found::Local).at(22).exit();
    let outcome = run(&script);
    assert_eq!(outcome.counts.to_anomalies(), vec![]);
    assert_eq!(outcome.peak_goroutines, 2);
    let lines = outcome.sink;
    assert_lines(
        &lines.goroutines,
        "G1",
        &[
            "runnable 0-2",
            "running 2-7",
            "waiting 7-9",
            "runnable 9-12",
            "running 12-20",
        ],
    );
    assert_lines(
        &lines.goroutines,
        "G2",
        &[
            "runnable 5-8",
            "running 8-11",
            "runnable 11-21",
            "running 21-22",
        ],
    );
    assert_lines(
        &lines.procs,
        "P0",
        &[
            "scheduler 0-2",
            "running 2-7",
            "scheduler 7-8",
            "running 8-11",
            "scheduler 11-12",
            "running 12-20",
            "scheduler 20-21",
            "running 21-22",
        ],
    );
    assert_eq!(
        lines.wakes,
        "G1 created by nobody 2\nG2 created by G1 3\nG1 goroutine by G2 3\nG2 yield by nobody 10\n"
    );
}

#[test]
fn a_system_call_that_keeps_its_p() {
    let mut script = Script::new(1);
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    script.at(5).event(Body::SyscallEnter {
        site: None,
        stack: None,
    });
    script.at(9).event(Body::SyscallExit).at(12).exit();
    let lines = run(&script).sink;
    assert_lines(
        &lines.goroutines,
        "G1",
        &["runnable 0-0", "running 0-5", "syscall 5-9", "running 9-12"],
    );
    assert_lines(
        &lines.procs,
        "P0",
        &["running 0-5", "syscall 5-9", "running 9-12"],
    );
    assert_lines(
        &lines.threads,
        "M0",
        &["running 0-5", "syscall 5-9", "running 9-12"],
    );
}

#[test]
fn a_system_call_that_loses_its_p() {
    let mut script = Script::new(1);
    script
        .at(0)
        .create(1, "main", 1)
        .create(2, "worker", 2)
        .start(1, Found::Local);
    script.at(5).event(Body::SyscallEnter {
        site: None,
        stack: None,
    });
    let why = Some(RetakeReason::Syscall);
    script.at(30).bare(Body::ProcSteal {
        victim: p(0),
        from_m: Some(m(0)),
        why,
    });
    // Another thread takes it.
    script.at(32).other_thread(7, None, Body::ProcStart);
    script.at(33).other_thread(
        7,
        Some(2),
        Body::GoStart {
            found: Some(Found::Global),
        },
    );
    script.at(50).without_p(Some(1), Body::SyscallExitBlocked);
    script
        .at(60)
        .other_thread(7, Some(2), Body::GoExit { how: None });
    script.at(61).other_thread(
        7,
        Some(1),
        Body::GoStart {
            found: Some(Found::Global),
        },
    );
    script
        .at(65)
        .other_thread(7, Some(1), Body::GoExit { how: None });
    let outcome = run(&script);
    assert_eq!(outcome.counts.to_anomalies(), vec![]);
    let lines = outcome.sink;
    assert_lines(
        &lines.goroutines,
        "G1",
        &[
            "runnable 0-0",
            "running 0-5",
            "syscall 5-30",
            "syscall without P 30-50",
            "runnable 50-61",
            "running 61-65",
        ],
    );
    assert_lines(
        &lines.procs,
        "P0",
        &[
            "running 0-5",
            "syscall 5-30",
            "idle 30-32",
            "scheduler 32-33",
            "running 33-60",
            "scheduler 60-61",
            "running 61-65",
        ],
    );
    assert!(
        lines.wakes.contains("G1 syscall return by nobody 11"),
        "{}",
        lines.wakes
    );
}

#[test]
fn a_call_that_was_not_announced() {
    let mut script = Script::new(1);
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    script.at(20).bare(Body::SyscallImplicit {
        goroutine: common::g(1),
        on_m: m(0),
    });
    let why = Some(RetakeReason::ImplicitSyscall);
    script.bare(Body::ProcSteal {
        victim: p(0),
        from_m: Some(m(0)),
        why,
    });
    script.at(40).without_p(Some(1), Body::RunWithoutP);
    script.at(45).without_p(
        Some(1),
        Body::GoPreempted {
            how: Preemption::Signal,
            stack: None,
        },
    );
    script.at(50);
    script.event(Body::ProcStart);
    script.start(1, Found::Wired).at(55).exit();
    let outcome = run(&script);
    assert_eq!(outcome.counts.to_anomalies(), vec![]);
    assert_lines(
        &outcome.sink.goroutines,
        "G1",
        &[
            "runnable 0-0",
            "running 0-20",
            "syscall without P 20-40",
            "running 40-45",
            "runnable 45-50",
            "running 50-55",
        ],
    );
    assert_lines(
        &outcome.sink.procs,
        "P0",
        &["running 0-20", "idle 20-50", "running 50-55"],
    );
}

/// One that began before the trace, and is over without a P.
#[test]
fn the_end_of_a_call_that_was_not_announced() {
    let mut script = Script::new(1);
    script.event(Body::ProcStop);
    script.status(1, GState::Syscall, Some(0));
    script.at(10).without_p(Some(1), Body::RunWithoutP);
    script.at(15).without_p(Some(1), Body::SyscallExitBlocked);
    script.at(20).event(Body::ProcStart);
    script.start(1, Found::Wired).at(25).exit();
    let outcome = run(&script);
    assert_eq!(outcome.counts.to_anomalies(), vec![]);
    let spans = outcome.sink.goroutines.split_whitespace();
    let states: Vec<_> = spans.filter(|word| word.starts_with("run")).collect();
    assert_eq!(states, ["running", "runnable", "running"]);
}

#[test]
fn a_frozen_goroutine_gives_its_p_away() {
    let mut script = Script::new(1);
    script
        .at(0)
        .create(1, "hog", 1)
        .create(2, "other", 2)
        .start(1, Found::Local);
    script.at(10);
    script.event(Body::GoPreempted {
        how: Preemption::Signal,
        stack: None,
    });
    script.event(Body::ProcHandoff {
        to_m: Some(m(3)),
        why: HandoffReason::Frozen,
    });
    script.at(12).other_thread(3, None, Body::ProcStart);
    script.other_thread(
        3,
        Some(2),
        Body::GoStart {
            found: Some(Found::Local),
        },
    );
    script
        .at(20)
        .other_thread(3, Some(2), Body::GoExit { how: None });
    let outcome = run(&script);
    assert_eq!(outcome.counts.to_anomalies(), vec![]);
    assert_lines(
        &outcome.sink.goroutines,
        "G1",
        &["runnable 0-0", "running 0-10", "runnable 10-20…"],
    );
    let procs = ["running 0-10", "scheduler 10-12", "running 12-20"];
    assert_lines(&outcome.sink.procs, "P0", &procs);
    assert_lines(
        &outcome.sink.threads,
        "M0",
        &["running 0-10", "parked 10-20"],
    );
}

#[test]
fn the_world_stops_and_goes_on() {
    let mut script = Script::new(2);
    script
        .at(0)
        .create(1, "main", 1)
        .create(2, "other", 2)
        .start(1, Found::Local);
    script.on(1).at(1).proc_start().start(2, Found::Stolen);
    script.on(0).at(10).event(Body::StopRequested {
        kind: Text::STOPPING_THE_WORLD,
        stack: None,
    });
    script.on(1).at(12).event(Body::SafePoint {
        how: Preemption::Signal,
    });
    script
        .on(0)
        .at(13)
        .event(Body::Stopped)
        .at(18)
        .event(Body::Restarted);
    script.on(1).at(20).exit();
    script.on(0).at(21).exit();
    let outcome = run(&script);
    assert_eq!(outcome.counts.to_anomalies(), vec![]);
    let zero = ["running 0-13", "stopped 13-18", "running 18-21"];
    assert_lines(&outcome.sink.procs, "P0", &zero);
    let one = [
        "idle 0-1",
        "running 1-12",
        "stopped 12-18",
        "running 18-20",
        "scheduler 20-21",
    ];
    assert_lines(&outcome.sink.procs, "P1", &one);
}

#[test]
fn the_number_of_ps_changes() {
    let mut script = Script::new(1);
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    // The first one only says what has been so for long.
    script.event(Body::ProcsChange {
        procs: 1,
        stack: None,
    });
    script.at(5).event(Body::ProcsChange {
        procs: 3,
        stack: None,
    });
    script.at(15).event(Body::ProcsChange {
        procs: 2,
        stack: None,
    });
    script.at(20).exit();
    let outcome = run(&script);
    assert_eq!(outcome.counts.to_anomalies(), vec![]);
    assert_lines(&outcome.sink.procs, "P1", &["absent 0-5", "idle 5-20"]);
    assert_lines(
        &outcome.sink.procs,
        "P2",
        &["absent 0-5", "idle 5-15", "absent 15-20"],
    );
}

#[test]
fn statuses_speak_of_the_begin_of_the_generation() {
    let mut script = Script::new(0);
    script.at(0).bare(Body::Sync {
        generation: 1,
        mono: None,
        wall: None,
    });
    script.at(3).status(1, GState::Running, Some(0));
    script
        .status(2, GState::Waiting, None)
        .status(3, GState::Runnable, None);
    script.status(4, GState::Syscall, Some(1));
    script.bare(Body::ProcStatus {
        proc: p(0),
        state: PState::Running,
        on_m: Some(m(0)),
    });
    script.bare(Body::ProcStatus {
        proc: p(1),
        state: PState::Syscall,
        on_m: Some(m(1)),
    });
    script
        .at(10)
        .other_thread(0, Some(1), Body::GoExit { how: None });
    script
        .at(11)
        .other_thread(0, Some(3), Body::GoStart { found: None });
    let outcome = run(&script);
    assert_eq!(outcome.counts.to_anomalies(), vec![]);
    let lines = outcome.sink;
    assert_lines(&lines.goroutines, "G1", &["running 0-10"]);
    assert_lines(&lines.goroutines, "G2", &["waiting 0-11…"]);
    assert_lines(
        &lines.goroutines,
        "G3",
        &["runnable 0-11", "running 11-11…"],
    );
    assert_lines(&lines.goroutines, "G4", &["syscall 0-11…"]);
    assert_lines(&lines.procs, "P0", &["running 0-10", "scheduler 10-11"]);
    assert_lines(&lines.procs, "P1", &["syscall 0-11"]);
    // How long it was runnable before the trace is not known: no latency.
    assert_eq!(lines.wakes, "");
}

#[test]
fn a_status_that_agrees_changes_nothing() {
    let mut script = Script::new(1);
    script
        .at(0)
        .create(1, "main", 1)
        .at(2)
        .start(1, Found::Local);
    script.at(10).bare(Body::Sync {
        generation: 2,
        mono: None,
        wall: None,
    });
    script.status(1, GState::Running, Some(0));
    script.bare(Body::ProcStatus {
        proc: p(0),
        state: PState::Running,
        on_m: Some(m(0)),
    });
    script.at(20).exit();
    let outcome = run(&script);
    assert_eq!(outcome.counts.to_anomalies(), vec![]);
    assert_lines(
        &outcome.sink.goroutines,
        "G1",
        &["runnable 0-2", "running 2-20"],
    );
    assert_lines(
        &outcome.sink.procs,
        "P0",
        &["scheduler 0-2", "running 2-20"],
    );
}

#[test]
fn a_p_on_its_way_to_another_thread_is_idle_to_a_status() {
    let mut script = Script::new(1);
    script.at(3).event(Body::ProcHandoff {
        to_m: Some(m(2)),
        why: HandoffReason::Locked,
    });
    script.bare(Body::Sync {
        generation: 2,
        mono: None,
        wall: None,
    });
    script.bare(Body::ProcStatus {
        proc: p(0),
        state: PState::Idle,
        on_m: None,
    });
    script.at(5).other_thread(2, None, Body::ProcStart);
    script.at(9).other_thread(2, None, Body::ProcStop);
    let outcome = run(&script);
    assert_eq!(outcome.counts.to_anomalies(), vec![]);
    assert_lines(
        &outcome.sink.procs,
        "P0",
        &["scheduler 0-3", "scheduler 3-5", "scheduler 5-9"],
    );
}

#[test]
fn a_status_that_contradicts_makes_the_time_before_it_unknown() {
    let mut script = Script::new(1);
    script
        .at(0)
        .create(1, "main", 1)
        .at(2)
        .start(1, Found::Local);
    script.at(10).bare(Body::Sync {
        generation: 2,
        mono: None,
        wall: None,
    });
    script.status(1, GState::Waiting, None);
    script.at(12).bare(Body::GoReady {
        goroutine: common::g(1),
        by: None,
        stack: None,
    });
    let outcome = run(&script);
    assert_eq!(outcome.counts.count(Kind::GoroutineSequence), 1);
    assert_lines(
        &outcome.sink.goroutines,
        "G1",
        &[
            "runnable 0-2",
            "unknown 2-10",
            "waiting 10-12",
            "runnable 12-12…",
        ],
    );
}

#[test]
fn what_is_met_in_the_middle_was_unknown_before() {
    let mut script = Script::new(0);
    script.at(0).bare(Body::Sync {
        generation: 1,
        mono: None,
        wall: None,
    });
    script.on(3).at(7).start(9, Found::Local).at(9).exit();
    let outcome = run(&script);
    assert_eq!(
        outcome.counts.count(Kind::StateNotGiven),
        2,
        "the goroutine and the P"
    );
    assert_lines(
        &outcome.sink.goroutines,
        "G9",
        &["unknown 0-7", "running 7-9"],
    );
    assert_lines(&outcome.sink.procs, "P3", &["unknown 0-7", "running 7-9"]);
    assert_eq!(outcome.sink.wakes, "");
}

#[test]
fn a_lost_block_is_shown_as_unknown_and_the_sums_hold() {
    let mut script = Script::new(1);
    script
        .at(0)
        .create(1, "main", 1)
        .start(1, Found::Local)
        .at(5)
        .park(Text::SLEEP, 0, 2);
    // The wake and the start are lost.
    script.at(30).start(1, Found::Local).at(31).yields();
    script.at(40).without_p(None, Body::Loss { events: 3 });
    let outcome = run(&script);
    assert_eq!(outcome.counts.count(Kind::GoroutineSequence), 1);
    assert_lines(
        &outcome.sink.goroutines,
        "G1",
        &[
            "runnable 0-0",
            "running 0-5",
            "unknown 5-30",
            "running 30-31",
            "runnable 31-40…",
        ],
    );
    assert!(
        !outcome.sink.wakes.contains("timer"),
        "no latency is made up"
    );
}

#[test]
fn made_twice() {
    let mut script = Script::new(1);
    script
        .at(0)
        .create(1, "main", 1)
        .at(5)
        .create(1, "main", 1)
        .at(9)
        .start(1, Found::Local);
    let outcome = run(&script);
    assert_eq!(outcome.counts.count(Kind::MadeTwice), 1);
    let expected = ["unknown 0-5", "runnable 5-9", "running 9-9…"];
    assert_lines(&outcome.sink.goroutines, "G1", &expected);
}

#[test]
fn a_clock_that_is_behind_makes_no_negative_time() {
    let mut script = Script::new(2);
    script
        .at(0)
        .create(1, "main", 1)
        .start(1, Found::Local)
        .at(100)
        .create(2, "worker", 2);
    script
        .on(1)
        .at(80)
        .proc_start()
        .start(2, Found::Stolen)
        .at(90)
        .park(Text::SLEEP, 0, 2);
    script.at(120).proc_stop();
    let outcome = run(&script);
    assert_eq!(
        outcome.counts.count(Kind::TimeWentBack),
        2,
        "the start and the wait"
    );
    assert_eq!(outcome.counts.largest_step_back().0, 20_000);
    let expected = ["runnable 100-100", "running 100-100", "waiting 100-120…"];
    assert_lines(&outcome.sink.goroutines, "G2", &expected);
    let procs = ["idle 0-80", "running 80-90", "scheduler 90-120"];
    assert_lines(&outcome.sink.procs, "P1", &procs);
}

#[test]
fn threads_park_spin_and_end() {
    let mut script = Script::new(1);
    script.at(0).event(Body::MCreate { child: m(1) });
    script.at(4).other_thread_without_p(1, Body::SpinBegin);
    script
        .at(6)
        .other_thread_without_p(1, Body::SpinEnd { found: false });
    script.at(7).other_thread_without_p(1, Body::MPark);
    script.at(9).event(Body::MWake { target: m(1) });
    script.at(12).other_thread_without_p(1, Body::MExit);
    script.at(15).proc_stop();
    let outcome = run(&script);
    let expected = [
        "parked 0-4",
        "spinning 4-6",
        "scheduler 6-7",
        "parked 7-9",
        "scheduler 9-12",
    ];
    assert_lines(&outcome.sink.threads, "M1", &expected);
}

#[test]
fn no_events_and_one_event() {
    let outcome = run(&Script::new(0));
    assert_eq!((outcome.begin, outcome.end), (outcome.end, outcome.begin));
    let mut script = Script::new(0);
    script.at(5).bare(Body::Restarted);
    assert_eq!(run(&script).sink.procs, "");
    let report = script.report();
    assert_eq!((report.summary.events, report.summary.span.0), (1, 0));
    assert_eq!(report.findings, vec![]);
}
