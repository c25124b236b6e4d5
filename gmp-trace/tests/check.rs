//! The judge: every rule is broken once, and real traces break none.

#![cfg(all(feature = "text", feature = "testgen"))]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

use std::collections::BTreeSet;
use std::io::Cursor;

use gmp_trace::check::{Checker, Report, Rule, check};
use gmp_trace::event::{
    Body, ExitHow, Found, GState, HandoffReason, PState, RetakeReason, StealFrom, Waker,
};
use gmp_trace::id::{GId, MId, PId};
use gmp_trace::tables::Text;
use gmp_trace::testgen::{Config, Mix, program};
use gmp_trace::time::Nanos;
use gmp_trace::{Event, open};

fn g(n: u64) -> GId {
    GId::new(n).unwrap()
}

fn p(n: u32) -> PId {
    PId::new(n).unwrap()
}

/// What M0 with P0 does, event by event: which goroutine and what.
fn judge(events: &[(u64, Body)]) -> Report {
    let mut checker = Checker::new();
    for (place, &(goroutine, body)) in events.iter().enumerate() {
        let (order, time) = (place as u64, Nanos(place as i64));
        let (m, p) = (MId::new(0), PId::new(0));
        checker.event(&Event {
            time,
            order,
            m,
            p,
            g: GId::new(goroutine),
            body,
        });
    }
    checker.finish(events.len() as u64)
}

fn create(child: u64) -> (u64, Body) {
    let (child, site, stack, start_stack) = (g(child), None, None, None);
    (
        0,
        Body::GoCreate {
            child,
            site,
            stack,
            start_stack,
            runnable: true,
        },
    )
}

fn start(goroutine: u64) -> (u64, Body) {
    (
        goroutine,
        Body::GoStart {
            found: Some(Found::Local),
        },
    )
}

fn park(goroutine: u64) -> (u64, Body) {
    (
        goroutine,
        Body::GoPark {
            reason: Text::SLEEP,
            object: None,
            site: None,
            stack: None,
        },
    )
}

fn ready(goroutine: u64) -> (u64, Body) {
    (
        0,
        Body::GoReady {
            goroutine: g(goroutine),
            by: Some(Waker::Timer),
            stack: None,
        },
    )
}

fn status(goroutine: u64, state: GState) -> (u64, Body) {
    let body = Body::GoStatus {
        goroutine: g(goroutine),
        state,
        on_m: None,
        reason: None,
        object: None,
        site: None,
        created_at: None,
        creator: None,
        label: None,
        stack: None,
    };
    (0, body)
}

const IDLE: (u64, Body) = {
    let Some(proc) = PId::new(0) else {
        panic!("0 is a P")
    };
    (
        0,
        Body::ProcStatus {
            proc,
            state: PState::Idle,
            on_m: None,
        },
    )
};
const PROC_START: (u64, Body) = (0, Body::ProcStart);
const EXIT: Body = Body::GoExit {
    how: Some(ExitHow::Returned),
};
const ENTER: Body = Body::SyscallEnter {
    site: None,
    stack: None,
};

#[test]
fn every_rule_can_be_broken() {
    let stolen = (
        1,
        Body::GoStart {
            found: Some(Found::Stolen),
        },
    );
    let steal_none = Body::Steal {
        victim: p(1),
        n: 0,
        what: StealFrom::Ring,
    };
    let implicit = Body::SyscallImplicit {
        goroutine: g(1),
        on_m: MId::new(0).unwrap(),
    };
    let steal_p = Body::ProcSteal {
        victim: p(0),
        from_m: MId::new(9),
        why: Some(RetakeReason::Syscall),
    };
    let handoff = Body::ProcHandoff {
        to_m: None,
        why: HandoffReason::Locked,
    };
    let cases: Vec<(Rule, Vec<(u64, Body)>)> = vec![
        (
            Rule::MRunsOne,
            vec![create(1), create(2), start(1), start(2)],
        ),
        (
            Rule::StartNeedsRunnable,
            vec![create(1), start(1), park(1), start(1)],
        ),
        (Rule::ReadyNeedsWaiting, vec![create(1), ready(1)]),
        (Rule::StopNeedsRunning, vec![create(1), park(1)]),
        (
            Rule::DeadStaysDead,
            vec![create(1), start(1), (1, EXIT), ready(1)],
        ),
        (Rule::CreatedOnce, vec![create(1), create(1)]),
        (Rule::KnownGoroutine, vec![start(1)]),
        (
            Rule::StatusAgrees,
            vec![create(1), status(1, GState::Waiting)],
        ),
        (
            Rule::SyscallPairs,
            vec![create(1), start(1), (1, Body::SyscallExit)],
        ),
        (Rule::SyscallPairs, vec![create(1), (1, ENTER)]),
        (Rule::ImplicitNeedsRunning, vec![create(1), (0, implicit)]),
        (
            Rule::IdlePStarts,
            vec![IDLE, PROC_START, (0, Body::ProcStart)],
        ),
        (Rule::HeldPStops, vec![IDLE, (0, Body::ProcStop)]),
        (Rule::HeldPStops, vec![IDLE, (0, handoff)]),
        (Rule::HeldPStops, vec![IDLE, PROC_START, (0, steal_p)]),
        (Rule::StolenAfterSteal, vec![create(1), stolen]),
        (Rule::StealTakesSome, vec![(0, steal_none)]),
    ];
    let mut broken = BTreeSet::new();
    for (rule, events) in &cases {
        let report = judge(events);
        assert_eq!(
            report.counts.get(rule),
            Some(&1),
            "{rule:?}: {:?}",
            report.broken
        );
        assert!(!report.is_good());
        assert!(
            report.broken[0].to_string().contains("event "),
            "{}",
            report.broken[0]
        );
        broken.insert(*rule);
    }
    // Those that need another form than M0 with P0.
    let mut checker = Checker::new();
    let nobody = Event {
        time: Nanos(5),
        order: 7,
        m: None,
        p: None,
        g: None,
        body: Body::Stopped,
    };
    let (m, one) = (MId::new(1), GId::new(1));
    checker.event(&nobody);
    checker.event(&Event {
        order: 1,
        body: create(1).1,
        ..nobody
    });
    checker.event(&Event {
        order: 2,
        m,
        g: one,
        body: start(1).1,
        ..nobody
    });
    checker.event(&Event {
        order: 3,
        m,
        p: PId::new(1),
        body: Body::ProcStart,
        ..nobody
    });
    checker.event(&Event {
        order: 4,
        m,
        p: PId::new(2),
        body: Body::ProcStart,
        ..nobody
    });
    checker.event(&Event {
        order: 5,
        time: Nanos(1),
        ..nobody
    });
    let report = checker.finish(99);
    assert_eq!(report.times_back, 1);
    broken.extend(report.counts.keys());
    for rule in Rule::ALL {
        assert!(broken.contains(rule), "{rule:?} was not broken");
    }
    assert_eq!(broken.len(), Rule::ALL.len());
}

/// Go's older traces do not say on which M a goroutine came back from a call without a P.
#[test]
fn a_blocked_exit_frees_the_m_of_the_goroutine() {
    let blocked = (1, Body::SyscallExitBlocked);
    let mut checker = Checker::new();
    let does = [create(1), start(1), (1, ENTER), blocked, start(1)];
    for (place, (goroutine, body)) in does.into_iter().enumerate() {
        let knows = !matches!(body, Body::SyscallExitBlocked);
        checker.event(&Event {
            time: Nanos(place as i64),
            order: place as u64,
            m: MId::new(0).filter(|_| knows),
            p: PId::new(0).filter(|_| knows),
            g: GId::new(goroutine),
            body,
        });
    }
    let report = checker.finish(5);
    let rules: Vec<Rule> = report.broken.iter().map(|broken| broken.rule).collect();
    assert!(!rules.contains(&Rule::MRunsOne), "{rules:?}");
    assert!(!rules.contains(&Rule::SyscallPairs), "{rules:?}");
}

#[test]
fn what_a_scheduler_does_breaks_no_rule() {
    let mut events = 0;
    for seed in 0..60 {
        let config = Config {
            events: 1500,
            ms: 1 + seed as usize % 5,
            ps: 1 + seed as usize % 3,
            generations: 1 + seed as u32 % 4,
            mix: if seed % 4 == 0 {
                Mix::Channels
            } else {
                Mix::Everything
            },
            expect: false,
            ..Config::default()
        };
        let program = program(seed, &config);
        let mut reader = open(Cursor::new(program.bytes)).unwrap();
        let report = check(&mut reader).unwrap();
        assert!(report.is_good(), "seed {seed}: {}", report.broken[0]);
        assert_eq!(report.events, program.recorded);
        assert_eq!(report.times_back, 0);
        events += report.events;
    }
    assert!(events > 60_000, "{events}");
}
