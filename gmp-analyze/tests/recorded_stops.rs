//! A program that stops the world and counts that in its own code, recorded, and a report that must say the same.

#![allow(clippy::unwrap_used)] // a test: where something is missing it fails

mod common;

use std::collections::HashSet;
use std::hint::black_box;
use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::{assert_nothing_wrong, report_at};
use gmp_runtime::debug::stop_the_world;
use gmp_runtime::{Runtime, go, proc_id, yield_now};
use gmp_trace::Body;
use gmp_trace::event::Preemption;

const STOPS: u64 = 20;

/// What the program saw.
struct Seen {
    /// The P of the goroutine that runs beside the one that stops the world.
    hog_p: u32,
    /// The goroutine.
    hog: u64,
    /// For how long the world stood still at least, and was to at most.
    inside: Duration,
    outside: Duration,
}

/// Stops the world on one P, while a goroutine on the other one computes.
fn program() -> Seen {
    let running = Arc::new(AtomicU64::new(u64::MAX));
    let end = Arc::new(AtomicBool::new(false));
    let (says, ends) = (Arc::clone(&running), Arc::clone(&end));
    let hog = go(move || {
        says.store(u64::from(proc_id().unwrap()), SeqCst);
        while !ends.load(SeqCst) {
            black_box(0);
        }
    });
    while running.load(SeqCst) == u64::MAX {
        yield_now();
    }
    let (mut inside, mut outside) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..STOPS {
        let begun = Instant::now();
        inside += stop_the_world("truth", || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(300) {
                black_box(0);
            }
            begun.elapsed()
        });
        outside += begun.elapsed();
    }
    end.store(true, SeqCst);
    let seen = Seen {
        hog_p: running.load(SeqCst) as u32,
        hog: hog.goroutine().id(),
        inside,
        outside,
    };
    hog.join().unwrap();
    seen
}

#[test]
fn stops_are_as_the_program_counted_them() {
    let path = std::env::temp_dir().join(format!("gmp-truth-stops-{}.trace", std::process::id()));
    let file = path.clone();
    let runtime = Runtime::builder().procs(2).build().unwrap();
    // SAFETY: the program keeps nothing of a thread across a call that may park.
    let seen = unsafe {
        runtime.run(move || {
            gmp_runtime::trace::start(file).unwrap();
            let seen = program();
            gmp_runtime::trace::stop().unwrap();
            seen
        })
    };
    let report = report_at(&path);
    assert_nothing_wrong(&report);
    let summary = &report.summary;
    assert_eq!(summary.stops.count(), STOPS);
    assert_eq!(summary.stop_delays.count(), STOPS);
    let total = Duration::from_nanos(summary.stops.total().0.try_into().unwrap());
    assert!(
        seen.inside <= total && total <= seen.outside,
        "{:?} to {:?}, the report says {total:?}",
        seen.inside,
        seen.outside
    );
    let last = summary.last_to_stop.unwrap();
    assert_eq!(last.proc.unwrap().get(), seen.hog_p);
    assert_eq!(last.goroutine.unwrap().get(), seen.hog);
    assert_eq!(last.how, Preemption::Signal);

    // Each stop: the request, a safe point of the other P by a signal, the stop, the restart.
    let mut reader = gmp_trace::open(BufReader::new(std::fs::File::open(&path).unwrap())).unwrap();
    let (mut told, mut stops) = (Vec::new(), 0);
    reader
        .for_each_event(|event, tables| match event.body {
            Body::StopRequested { kind, .. } => {
                assert_eq!(tables.text(kind), "truth");
                told = vec!["request"];
            }
            Body::SafePoint { how } => {
                assert_eq!(event.p.unwrap().get(), seen.hog_p);
                assert_eq!(event.g.unwrap().get(), seen.hog);
                assert_eq!(how, Preemption::Signal);
                told.push("safe point");
            }
            Body::Stopped => told.push("stopped"),
            Body::Restarted => {
                told.push("restarted");
                stops += 1;
                assert_eq!(told, ["request", "safe point", "stopped", "restarted"]);
            }
            _ => {}
        })
        .unwrap();
    assert_eq!(stops, STOPS);
    std::fs::remove_file(&path).unwrap();
}

/// Goroutines in calls that nobody announced have lost their Ps to hogs, and each has a safe point of its own in every
/// stop; nobody has two.
#[test]
fn those_without_a_p_have_safe_points() {
    const SLEEPERS: usize = 4;
    const BATCHES: u64 = 10;
    let path = std::env::temp_dir().join(format!("gmp-truth-without-{}.trace", std::process::id()));
    let file = path.clone();
    let runtime = Runtime::builder().procs(2).build().unwrap();
    // SAFETY: the program keeps nothing of a thread across a call that may park.
    let sleepers: HashSet<u64> = unsafe {
        runtime.run(move || {
            gmp_runtime::trace::start(file).unwrap();
            let end = Arc::new(AtomicBool::new(false));
            let start = |step: fn()| {
                let end = Arc::clone(&end);
                go(move || {
                    while !end.load(SeqCst) {
                        step();
                    }
                })
            };
            let hogs: Vec<_> = (0..2).map(|_| start(|| _ = black_box(0))).collect();
            let sleepers: Vec<_> = (0..SLEEPERS)
                .map(|_| start(|| thread::sleep(Duration::from_millis(3))))
                .collect();
            for _ in 0..BATCHES {
                gmp_runtime::sleep(Duration::from_millis(5));
                // The second time before everybody has woken, perhaps.
                stop_the_world("first", || ());
                stop_the_world("second", || ());
            }
            end.store(true, SeqCst);
            let ids = sleepers.iter().map(|one| one.goroutine().id()).collect();
            for one in hogs.into_iter().chain(sleepers) {
                one.join().unwrap();
            }
            gmp_runtime::trace::stop().unwrap();
            ids
        })
    };
    let report = report_at(&path);
    assert_nothing_wrong(&report);
    assert_eq!(report.summary.stops.count(), 2 * BATCHES);
    let mut reader = gmp_trace::open(BufReader::new(std::fs::File::open(&path).unwrap())).unwrap();
    let (mut seen, mut without_p, mut late) = (HashSet::new(), 0, 0);
    let mut stands = false;
    reader
        .for_each_event(|event, _| match event.body {
            Body::StopRequested { .. } => {
                seen.clear();
                stands = false;
            }
            Body::Stopped => stands = true,
            Body::SafePoint { .. } => {
                assert!(seen.insert(event.m.unwrap()), "two in one stop");
                if event.p.is_none() {
                    without_p += 1;
                    late += u32::from(stands);
                    assert!(sleepers.contains(&event.g.unwrap().get()));
                }
            }
            _ => {}
        })
        .unwrap();
    assert_eq!(late, 0, "safe points after the world stood still");
    assert!(without_p > 0);
    std::fs::remove_file(&path).unwrap();
}

/// Records `program` on so many Ps; what any P did, or was asked for, between a stop and the restart.
fn moved_meanwhile(name: &str, procs: usize, program: impl FnOnce() + Send) -> Vec<String> {
    let name = format!("gmp-truth-{name}-{}.trace", std::process::id());
    let path = std::env::temp_dir().join(name);
    let runtime = Runtime::builder().procs(procs).build().unwrap();
    // SAFETY: programs keep nothing of a thread across a call that may park.
    unsafe {
        runtime.run(|| {
            gmp_runtime::trace::start(&path).unwrap();
            program();
            gmp_runtime::trace::stop().unwrap();
        })
    };
    assert_nothing_wrong(&report_at(&path));
    let mut reader = gmp_trace::open(BufReader::new(std::fs::File::open(&path).unwrap())).unwrap();
    let (mut moved, mut stands, mut stops) = (Vec::new(), false, 0);
    reader
        .for_each_event(|event, _| match event.body {
            Body::Stopped => (stands, stops) = (true, stops + 1),
            Body::Restarted => stands = false,
            Body::GoStart { .. }
            | Body::GoPreempted { .. }
            | Body::GoPreemptRequested { .. }
            | Body::ProcStart
            | Body::ProcSteal { .. }
            | Body::ProcHandoff { .. }
            | Body::SyscallImplicit { .. }
            | Body::Steal { .. }
            | Body::SafePoint { .. }
                if stands =>
            {
                moved.push(format!("{:?} of {:?}", event.body, event.p));
            }
            _ => {}
        })
        .unwrap();
    assert!(stops > 0);
    std::fs::remove_file(&path).unwrap();
    moved
}

/// Stops the world for so long while a thread wakes a goroutine that is parked.
fn stop_and_wake(time: Duration) {
    let sleeper = go(gmp_runtime::park);
    gmp_runtime::sleep(Duration::from_millis(1));
    let (now, goroutine) = (Arc::new(AtomicBool::new(false)), sleeper.goroutine());
    let wake = Arc::clone(&now);
    let thread = thread::spawn(move || {
        while !wake.load(SeqCst) {
            thread::sleep(Duration::from_micros(50));
        }
        goroutine.unpark();
    });
    stop_the_world("a wake", || {
        now.store(true, SeqCst);
        let begun = Instant::now();
        while begun.elapsed() < time {
            black_box(0);
        }
    });
    sleeper.join().unwrap();
    gmp_runtime::blocking(|| thread.join().unwrap());
}

/// Nobody takes an idle P, not for somebody who is woken and not for a timer.
#[test]
fn idle_ps_stay_idle_while_the_world_is_stopped() {
    let moved = moved_meanwhile("idle", 4, || {
        for _ in 0..20 {
            let sleeps = go(|| gmp_runtime::sleep(Duration::from_millis(2)));
            stop_and_wake(Duration::from_millis(3));
            sleeps.join().unwrap();
        }
    });
    assert!(moved.is_empty(), "{moved:?}");
}

/// Nobody takes a P from a thread that waits in the kernel where no signal reaches it, or asks for that of whoever
/// stopped the world: although somebody waits for one, and has for long.
#[test]
fn ps_are_not_taken_while_the_world_is_stopped() {
    let moved = moved_meanwhile("taken", 2, || {
        for _ in 0..3 {
            let begun = Arc::new(AtomicBool::new(false));
            let says = Arc::clone(&begun);
            let waits = go(move || {
                says.store(true, SeqCst);
                // SAFETY: the child calls functions of the system on numbers only, and ends.
                #[expect(deprecated, reason = "nothing else waits in the kernel in that way")]
                unsafe {
                    let pid = libc::vfork();
                    if pid == 0 {
                        libc::usleep(150_000);
                        libc::_exit(0);
                    }
                    assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid);
                }
            });
            while !begun.load(SeqCst) {
                yield_now();
            }
            stop_and_wake(Duration::from_millis(50));
            waits.join().unwrap();
        }
    });
    assert!(moved.is_empty(), "{moved:?}");
}
