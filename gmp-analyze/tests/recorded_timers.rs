//! A program that makes its own timers late by as much as it knows, recorded, and a report that must say so.
//!
//! Nothing fires while the world is stopped. So a timer whose deadline passes during a stop is late at least by the time
//! from the deadline to the end of the stop, and at most by what the sleeper saw itself.

#![allow(clippy::unwrap_used)] // a test: where something is missing it fails

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{assert_nothing_wrong, report_at};
use gmp_analyze::machine::Cause;
use gmp_runtime::debug::stop_the_world;
use gmp_runtime::{Runtime, go, sleep, yield_now};
use gmp_trace::tables::Text;

const SLEEPERS: u64 = 10;
const SLEEP: Duration = Duration::from_millis(20);

/// Longer than they sleep.
const STOP: Duration = Duration::from_millis(60);

/// Bounds of what each timer was late, summed up and for the latest one.
#[derive(Debug)]
struct Late {
    least: Duration,
    most: Duration,
    most_of_one: Duration,
}

/// Sleeps on many goroutines, and stops the world before anybody wakes until all are late. `None` where the machine was
/// so slow that one may have been woken before the stop.
fn program() -> Option<Late> {
    let asleep = Arc::new(AtomicU64::new(0));
    let sleepers: Vec<_> = (0..SLEEPERS)
        .map(|_| {
            let asleep = Arc::clone(&asleep);
            go(move || {
                let before = Instant::now();
                asleep.fetch_add(1, SeqCst);
                sleep(SLEEP);
                (before, before.elapsed())
            })
        })
        .collect();
    let sleeping = || gmp_runtime::metrics().count("/sched/goroutines/waiting:goroutines");
    while asleep.load(SeqCst) < SLEEPERS || sleeping() < Some(SLEEPERS) {
        yield_now();
    }
    // No deadline is later than this and the sleep.
    let all_asleep = Instant::now();
    let (begun, ended) = stop_the_world("late timers", || {
        let begun = Instant::now();
        while begun.elapsed() < STOP {
            std::hint::spin_loop();
        }
        (begun, Instant::now())
    });
    let seen: Vec<(Instant, Duration)> = sleepers
        .into_iter()
        .map(|sleeper| sleeper.join().unwrap())
        .collect();
    let first = seen.iter().map(|(before, _)| *before).min()?;
    if begun >= first + SLEEP || ended <= all_asleep + SLEEP {
        return None;
    }
    let late = seen.iter().map(|(_, slept)| *slept - SLEEP);
    Some(Late {
        least: (ended - (all_asleep + SLEEP)) * SLEEPERS as u32,
        most: late.clone().sum(),
        most_of_one: late.max()?,
    })
}

#[test]
fn timers_are_as_late_as_the_program_made_them() {
    let mut compared = 0;
    for round in 0..60 {
        let procs = [1, 2, 4][round % 3];
        let name = format!("gmp-truth-timers-{}-{round}.trace", std::process::id());
        let path = std::env::temp_dir().join(name);
        let runtime = Runtime::builder().procs(procs).build().unwrap();
        // SAFETY: the program keeps nothing of a thread across a call that may park.
        let told = unsafe {
            runtime.run(|| {
                gmp_runtime::trace::start(&path).unwrap();
                let told = program();
                gmp_runtime::trace::stop().unwrap();
                told
            })
        };
        let report = report_at(&path);
        std::fs::remove_file(&path).unwrap();
        assert_nothing_wrong(&report);
        let lateness = &report.summary.timer_lateness;
        assert_eq!(lateness.count(), SLEEPERS);
        let sleeps: u64 = report
            .blocking
            .iter()
            .filter(|row| row.reason_text == Text::SLEEP)
            .map(|row| row.waits.count())
            .sum();
        let woken: u64 = report
            .causes
            .iter()
            .filter(|row| row.cause == Cause::Timer)
            .map(|row| row.latency.count())
            .sum();
        assert_eq!((sleeps, woken), (SLEEPERS, SLEEPERS));
        let Some(late) = told else { continue };
        let total = Duration::from_nanos(lateness.total().0.try_into().unwrap());
        assert!(
            late.least <= total && total <= late.most,
            "{late:?}: {total:?}"
        );
        let max = Duration::from_nanos(lateness.max().0.try_into().unwrap());
        assert!(max <= late.most_of_one, "{late:?}: {max:?}");
        compared += 1;
        if compared == 9 {
            return;
        }
    }
    panic!("the machine is too slow to tell: {compared} compared");
}
