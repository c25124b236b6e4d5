//! A program that counts and times its own system calls, recorded, and spans and a report that must say the same.
//!
//! * Each call of the program is one call of the trace, and is back either with a P or without one.
//! * The program takes the time inside of its calls; the trace takes it outside, from entering to being back.
//! * With one P, a call that only another goroutine can end is over only after its P was taken.

#![allow(clippy::unwrap_used)] // a test: where something is missing it fails

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{assert_nothing_wrong, report_with};
use gmp_analyze::analysis::report::Report;
use gmp_analyze::machine::{Cause, GoroutineSpan, GoroutineState, ProcSpan, ProcState, Sink};
use gmp_runtime::{
    Runtime, blocking, go, gomaxprocs, lock_os_thread, sleep, unlock_os_thread, yield_now,
};
use gmp_trace::event::{Found, HandoffReason, RetakeReason};
use gmp_trace::{Body, Event};

/// What the events and spans of a trace say about calls.
#[derive(Debug, Default)]
struct Calls {
    entered: u64,
    back: u64,
    back_without_p: u64,
    taken: u64,
    /// Calls that nobody announced: on a busy machine a goroutine may seem to wait.
    unannounced: u64,
    /// From entering to being back, with and without a P.
    time: u64,
    time_without_p: u64,
    /// Ps spent it in calls.
    time_of_ps: u64,
    locks: u64,
    unlocks: u64,
    /// Goroutines that went on on the thread that they are locked to, and Ps that were given for it.
    turns: u64,
    turns_given: u64,
    /// Each number of Ps that was set.
    procs: Vec<u32>,
}

impl Sink for Calls {
    fn event(&mut self, event: &Event) {
        match event.body {
            Body::SyscallEnter { .. } => self.entered += 1,
            Body::SyscallExit => self.back += 1,
            Body::SyscallExitBlocked => self.back_without_p += 1,
            Body::ProcSteal { why, from_m, .. } => {
                assert!(from_m.is_some(), "it is known from whom");
                self.taken += u64::from(why == Some(RetakeReason::Syscall));
            }
            Body::SyscallImplicit { .. } => self.unannounced += 1,
            Body::MLock => self.locks += 1,
            Body::MUnlock => self.unlocks += 1,
            Body::GoStart {
                found: Some(Found::Locked),
            } => self.turns += 1,
            // On a slow machine a goroutine may also be preempted, and its P handed on for that.
            Body::ProcHandoff {
                why: HandoffReason::Locked,
                ..
            } => self.turns_given += 1,
            Body::ProcsChange { procs, .. } => self.procs.push(procs),
            _ => {}
        }
    }

    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        let length = (span.end - span.begin).0 as u64;
        match span.state {
            GoroutineState::Syscall => self.time += length,
            GoroutineState::SyscallWithoutP => {
                self.time += length;
                self.time_without_p += length;
            }
            _ => {}
        }
    }

    fn proc_span(&mut self, span: &ProcSpan) {
        if span.state == ProcState::Syscall {
            self.time_of_ps += (span.end - span.begin).0 as u64;
        }
    }
}

/// What the program counts: calls, and the nanoseconds inside of them.
#[derive(Debug, Default)]
struct Counted {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Counted {
    /// Makes `f` as a call.
    fn call<R>(&self, f: impl FnOnce() -> R) -> R {
        blocking(|| {
            let begin = Instant::now();
            let result = f();
            self.calls.fetch_add(1, Ordering::Relaxed);
            let took = begin.elapsed().as_nanos() as u64;
            self.nanoseconds.fetch_add(took, Ordering::Relaxed);
            result
        })
    }
}

/// Runs `program` on `procs` Ps with a trace: what it counted, and what the trace says.
fn record(procs: usize, program: fn(&Arc<Counted>)) -> (Arc<Counted>, Calls, Report) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("gmp-calls-{}-{number}.trace", std::process::id());
    let path = std::env::temp_dir().join(name);
    let counted = Arc::new(Counted::default());
    let runtime = Runtime::builder().procs(procs).build().unwrap();
    // SAFETY: the programs below keep nothing of a thread across a call that may park.
    unsafe {
        runtime.run(|| {
            gmp_runtime::trace::start(&path).unwrap();
            program(&counted);
            gmp_runtime::trace::stop().unwrap();
        });
    }
    let (report, calls) = report_with(&path, Calls::default());
    std::fs::remove_file(&path).unwrap();
    assert_nothing_wrong(&report);
    (counted, calls, report)
}

/// What holds for every program.
fn check(counted: &Counted, calls: &Calls, report: &Report) {
    let made = counted.calls.load(Ordering::Relaxed);
    let inside = counted.nanoseconds.load(Ordering::Relaxed);
    assert_eq!(calls.entered, made);
    assert_eq!(report.summary.syscalls, made);
    let back = calls.back + calls.back_without_p;
    assert!(
        (made..=made + calls.unannounced).contains(&back),
        "{calls:?}"
    );
    let taken = calls.taken + calls.unannounced;
    assert!(calls.back_without_p <= taken, "{calls:?}");
    let rescues = &report.rescues;
    assert_eq!(rescues.from_calls, taken);
    assert_eq!(rescues.from_unannounced, calls.unannounced);
    assert_eq!(rescues.to_locked, calls.turns_given);
    assert!(
        calls.time >= inside,
        "{} of {inside}: {calls:?}",
        calls.time
    );
    assert_eq!(
        calls.time - calls.time_without_p,
        calls.time_of_ps,
        "a call has a P as long as the P has the call: {calls:?}"
    );
    let returns: u64 = report
        .causes
        .iter()
        .filter(|row| row.cause == Cause::SyscallReturn)
        .map(|row| row.latency.count())
        .sum();
    assert_eq!(returns, calls.back_without_p);
}

/// Short calls, which nobody interrupts.
#[test]
fn short_calls_are_counted_and_keep_their_p() {
    for procs in [1, 2, 4] {
        let (counted, calls, report) = record(procs, |counted| {
            let all: Vec<_> = (0..8)
                .map(|_| {
                    let counted = Arc::clone(counted);
                    go(move || (0..500).for_each(|_| counted.call(|| ())))
                })
                .collect();
            all.into_iter().for_each(|handle| handle.join().unwrap());
        });
        assert_eq!(calls.entered, 4000);
        check(&counted, &calls, &report);
    }
}

/// Reads from pipes that are written to by the others: with one P each such call loses it.
#[test]
fn calls_that_others_must_end_lose_their_p() {
    const ROUNDS: u64 = 20;
    for procs in [1, 2] {
        let (counted, calls, report) = record(procs, |counted| {
            let (mut from, mut to) = std::io::pipe().unwrap();
            let reading = Arc::clone(counted);
            let inside = Arc::new(AtomicU64::new(0));
            let enters = Arc::clone(&inside);
            let reader = go(move || {
                for _ in 0..ROUNDS {
                    reading.call(|| {
                        enters.fetch_add(1, Ordering::Release);
                        from.read_exact(&mut [0]).unwrap();
                    });
                }
            });
            for round in 0..ROUNDS {
                // Nothing but what this goroutine writes ends a call.
                while inside.load(Ordering::Acquire) == round {
                    yield_now();
                }
                to.write_all(&[1]).unwrap();
            }
            reader.join().unwrap();
        });
        check(&counted, &calls, &report);
        assert_eq!(calls.entered, ROUNDS);
        if procs == 1 {
            // The other goroutine has come on while each of them lasted.
            assert_eq!(calls.taken, ROUNDS, "{calls:?}");
        }
    }
}

/// Every call outlasts the one P: it is taken from each, and most goroutines find none when they are back.
#[test]
fn long_calls_run_at_once_and_wait_for_a_p() {
    const CALLS: u64 = 12;
    let begin = Instant::now();
    let (counted, calls, report) = record(1, |counted| {
        let all: Vec<_> = (0..CALLS)
            .map(|_| {
                let counted = Arc::clone(counted);
                go(move || {
                    counted.call(|| std::thread::sleep(Duration::from_millis(60)));
                    // Holds the only P while others come back.
                    let busy = Instant::now();
                    while busy.elapsed() < Duration::from_millis(2) {}
                })
            })
            .collect();
        all.into_iter().for_each(|handle| handle.join().unwrap());
    });
    let took = begin.elapsed();
    check(&counted, &calls, &report);
    assert_eq!(calls.entered, CALLS);
    assert!(calls.taken >= CALLS - 1, "{calls:?}");
    assert!(calls.time >= CALLS * 60_000_000, "{calls:?}");
    assert!(
        calls.time_without_p * 2 > calls.time,
        "most of the time without a P: {calls:?}"
    );
    assert!(took.as_nanos() > 60_000_000);
}

/// Each time a locked goroutine has slept it is its thread's turn, which another thread gives it.
#[test]
fn turns_of_a_locked_goroutine_are_counted() {
    const SLEEPS: u64 = 30;
    for procs in [1, 2, 4] {
        let (counted, calls, report) = record(procs, |_| {
            go(|| {
                lock_os_thread();
                lock_os_thread();
                (0..SLEEPS).for_each(|_| sleep(Duration::from_micros(100)));
                unlock_os_thread();
                unlock_os_thread();
                (0..SLEEPS).for_each(|_| sleep(Duration::from_micros(100)));
            })
            .join()
            .unwrap();
        });
        check(&counted, &calls, &report);
        assert_eq!((calls.locks, calls.unlocks), (1, 1), "{calls:?}");
        assert_eq!(
            (calls.turns, calls.turns_given),
            (SLEEPS, SLEEPS),
            "{calls:?}"
        );
    }
}

/// The numbers of Ps are those that the program set, and the states of all Ps still add up. One that is changed before
/// it has come about is not told.
#[test]
fn changes_of_the_number_of_ps_are_told() {
    for first in [1, 3] {
        let (counted, calls, report) = record(first, |counted| {
            for procs in [4, 2, 2, 6, 1, 3] {
                gomaxprocs(procs);
                let all: Vec<_> = (0..50)
                    .map(|_| {
                        let counted = Arc::clone(counted);
                        go(move || {
                            counted.call(|| std::thread::sleep(Duration::from_micros(50)));
                            sleep(Duration::from_micros(50));
                        })
                    })
                    .collect();
                all.into_iter().for_each(|handle| handle.join().unwrap());
            }
            sleep(Duration::from_millis(10));
        });
        check(&counted, &calls, &report);
        let mut set = [4, 2, 6, 1, 3].into_iter();
        assert!(
            calls
                .procs
                .iter()
                .all(|told| set.any(|procs| procs == *told)),
            "{:?}",
            calls.procs
        );
        assert_eq!(calls.procs.last(), Some(&3));
        assert_eq!(report.summary.stops.count(), 6, "the world stands still");
        assert_eq!(calls.entered, 300);
    }
}
