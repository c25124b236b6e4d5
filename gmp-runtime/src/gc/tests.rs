//! Cycles that nobody calls for, in processes of their own: the periods are short in unit tests.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::{Runtime, channel, gc, go, sleep, test_child};

/// Uses `bytes` of the goroutine's stack.
#[inline(never)]
fn deep(bytes: usize) -> u8 {
    let frame = [1_u8; 4096];
    let frame = std::hint::black_box(&frame);
    if bytes > frame.len() {
        frame[0].wrapping_add(deep(bytes - frame.len()))
    } else {
        frame[4095]
    }
}

/// Runs `f` in a process of its own, in which cycles begin by themselves and each prints a line; what that wrote to
/// standard error, nothing in that process.
fn in_child(name: &str, f: impl FnOnce() + Send) -> Option<String> {
    if test_child::requested_case().is_none() {
        let output = test_child::run(name, "cycles");
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return Some(test_child::stderr(&output));
    }
    // SAFETY: this thread is the only one that knows of the environment.
    unsafe {
        std::env::set_var("GMPGC", "100");
        std::env::set_var("GMPDEBUG", "gctrace=1");
    }
    let runtime = Runtime::builder()
        .procs(1)
        .threads_wake_goroutines(false)
        .build()
        .unwrap();
    // SAFETY: the tests keep nothing of a thread across calls that may park.
    unsafe { runtime.run(f) };
    None
}

/// Sleeps until `done` says so; false after a long while.
fn comes_about(mut done: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !done() {
        if begin.elapsed() > Duration::from_secs(60) {
            return false;
        }
        sleep(Duration::from_millis(2));
    }
    true
}

#[test]
fn a_cycle_begins_when_none_has_for_a_while() {
    let said = in_child(
        "gc::tests::a_cycle_begins_when_none_has_for_a_while",
        || {
            assert!(comes_about(|| gc::stats().cycles >= 3));
            assert_eq!(gc::stats().forced, 0);
        },
    );
    if let Some(said) = said {
        // As Go says it.
        let lines: Vec<_> = said.lines().collect();
        let forced = lines.windows(2).filter(|pair| pair[0] == "GC forced");
        assert!(
            forced.filter(|pair| pair[1].starts_with("gc ")).count() >= 2,
            "{said}"
        );
    }
}

#[test]
fn one_that_waits_for_a_cycle_is_no_deadlock() {
    in_child(
        "gc::tests::one_that_waits_for_a_cycle_is_no_deadlock",
        || {
            let (sender, receiver) = channel::<u8>(0);
            let parked = go(move || {
                deep(60 << 10);
                receiver.recv()
            });
            for _ in 0..200 {
                gc::gc();
            }
            assert_eq!(gc::stats().forced, 200);
            drop(sender);
            assert!(parked.join().unwrap().is_err());
        },
    );
}

#[test]
fn a_deadlock_during_a_cycle_is_found_after_it() {
    const NAME: &str = "gc::tests::a_deadlock_during_a_cycle_is_found_after_it";
    if test_child::requested_case().is_none() {
        let output = test_child::run(NAME, "deadlock");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(test_child::stderr(&output).contains("all goroutines are asleep"));
        return;
    }
    // The first cycles wait until every M has long gone to sleep.
    let cycles = AtomicUsize::new(0);
    let _registration = gc::register(move || {
        std::thread::sleep(Duration::from_millis(100));
        if cycles.fetch_add(1, SeqCst) > 100 {
            std::process::exit(3);
        }
        0
    });
    in_child(NAME, || {
        let (_sender, receiver) = channel::<u8>(0);
        // A cycle is running, and nobody waits for it.
        assert!(comes_about(|| {
            let sched = crate::sched::current::this_goroutine().sched;
            sched.collection.is_pending()
        }));
        let _ = receiver.recv();
    });
}
