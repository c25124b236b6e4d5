//! The signal of preemption: other uses of it, other numbers, none. Each in a process of its own, as handlers are
//! the process's.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::hogs::Hogs;
use common::{child, child_case, run, succeed};
use gmp_runtime::{Runtime, channel, go, sleep};

static SEEN: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: libc::c_int) {
    SEEN.fetch_add(1, SeqCst);
}

/// Makes [`count`] the handler of `signal`.
fn count_signals(signal: libc::c_int) {
    // SAFETY: all-zero is a valid action, and the handler only adds to a number.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// Calls `send` and waits until the handler was called for it, `times` times.
fn is_handled(times: u64, send: impl Fn()) {
    for _ in 0..times {
        let before = SEEN.load(SeqCst);
        send();
        let begun = Instant::now();
        while SEEN.load(SeqCst) == before {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "no handler was called"
            );
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Runs `f` beside hogs, each of which comes on before and after it.
fn beside_hogs(f: impl FnOnce()) {
    let hogs = Hogs::new(2);
    let handles = hogs.start(|_, _| ());
    hogs.wait_for_progress(3);
    f();
    hogs.wait_for_progress(3);
    hogs.end(handles);
}

#[test]
fn a_signal_of_somebody_else_goes_to_the_handler_that_was_there() {
    const NAME: &str = "a_signal_of_somebody_else_goes_to_the_handler_that_was_there";
    if child_case().is_none() {
        return drop(succeed(&mut child(NAME, "")));
    }
    count_signals(libc::SIGURG);
    run(1, || {
        beside_hogs(|| {
            is_handled(20, || {
                // SAFETY: numbers only.
                assert_eq!(unsafe { libc::kill(libc::getpid(), libc::SIGURG) }, 0)
            });
        });
    });
    assert_eq!(
        SEEN.load(SeqCst),
        20,
        "those of the scheduler are not passed on"
    );
}

#[test]
fn a_thread_that_runs_no_goroutines_may_be_sent_the_signal() {
    const NAME: &str = "a_thread_that_runs_no_goroutines_may_be_sent_the_signal";
    if child_case().is_none() {
        return drop(succeed(&mut child(NAME, "")));
    }
    count_signals(libc::SIGURG);
    let (tell, told) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        // SAFETY: the call has no arguments.
        tell.send(unsafe { libc::pthread_self() }).unwrap();
        assert!(stopped.recv().is_err());
    });
    let id = told.recv().unwrap();
    run(1, || {
        beside_hogs(|| {
            is_handled(20, || {
                // SAFETY: the thread lives until it is told to stop.
                assert_eq!(unsafe { libc::pthread_kill(id, libc::SIGURG) }, 0)
            });
        });
    });
    drop(stop);
    thread.join().unwrap();
    assert_eq!(SEEN.load(SeqCst), 20);
}

/// A thread that enters runtimes and leaves them, and is sent the signal all the while: in between it is nobody's, and
/// within, it may come at any moment of the begin and the end.
#[test]
fn a_thread_that_comes_and_goes_may_be_sent_the_signal() {
    const NAME: &str = "a_thread_that_comes_and_goes_may_be_sent_the_signal";
    if child_case().is_none() {
        return drop(succeed(&mut child(NAME, "")));
    }
    count_signals(libc::SIGURG);
    let ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&ended);
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // SAFETY: the call has no arguments.
        tell.send(unsafe { libc::pthread_self() }).unwrap();
        let mut sum = 0;
        for round in 0..60 {
            sum += run(1 + round % 2, || {
                let hogs = Hogs::new(2);
                let handles = hogs.start(|_, _| ());
                hogs.wait_for_progress(2);
                let sum: u64 = (0..20).map(|n| go(move || n).join().unwrap()).sum();
                hogs.end(handles);
                sum
            });
            // As a thread like any other.
            assert!(gmp_runtime::current().is_none());
        }
        ends.store(true, SeqCst);
        sum
    });
    let id = told.recv().unwrap();
    let mut sent = 0;
    while !ended.load(SeqCst) {
        // SAFETY: the thread is not joined yet.
        assert_eq!(unsafe { libc::pthread_kill(id, libc::SIGURG) }, 0);
        sent += 1;
        std::thread::sleep(Duration::from_micros(100));
    }
    assert_eq!(thread.join().unwrap(), 60 * 190);
    // The kernel makes one of two that wait.
    let seen = SEEN.load(SeqCst);
    assert!((1..=sent).contains(&seen), "{seen} of {sent}");
}

#[test]
fn another_signal_preempts_as_well() {
    const NAME: &str = "another_signal_preempts_as_well";
    if child_case().is_none() {
        return drop(succeed(&mut child(NAME, "")));
    }
    count_signals(libc::SIGURG);
    count_signals(libc::SIGUSR1);
    let runtime = Runtime::builder().procs(1).preemption_signal(libc::SIGUSR1);
    let runtime = runtime.build().unwrap();
    // SAFETY: nothing of a thread is kept across calls that may park.
    unsafe { runtime.run(|| beside_hogs(|| ())) };
    assert_eq!(
        SEEN.load(SeqCst),
        0,
        "neither is passed on, and SIGURG is not used"
    );
}

#[test]
fn a_signal_with_another_use_is_refused() {
    for number in [0, -1, 65, libc::SIGKILL, libc::SIGSEGV, libc::SIGQUIT] {
        let error = Runtime::builder()
            .preemption_signal(number)
            .build()
            .unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(
            error.to_string().starts_with(&format!("signal {number}: ")),
            "{error}"
        );
    }
}

#[test]
fn without_preemption_a_hog_keeps_its_p() {
    const NAME: &str = "without_preemption_a_hog_keeps_its_p";
    let Some(case) = child_case() else {
        succeed(&mut child(NAME, "on"));
        succeed(child(NAME, "off").env("GMPDEBUG", "asyncpreemptoff=1"));
        return;
    };
    count_signals(libc::SIGURG);
    run(1, || {
        let rounds = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (counted, stopped) = (Arc::clone(&rounds), Arc::clone(&stop));
        let other = go(move || {
            while !stopped.load(SeqCst) {
                counted.fetch_add(1, SeqCst);
                sleep(Duration::from_millis(1));
            }
        });
        while rounds.load(SeqCst) == 0 {
            sleep(Duration::from_millis(1));
        }
        let before = rounds.load(SeqCst);
        let begun = Instant::now();
        // One from outside preempts nobody (go#38531).
        let sent = if case == "off" { 100 } else { 0 };
        is_handled(sent, || {
            // SAFETY: numbers only.
            assert_eq!(unsafe { libc::raise(libc::SIGURG) }, 0)
        });
        // Long enough to be preempted; or until it has been.
        while begun.elapsed() < Duration::from_millis(200)
            || case == "on" && rounds.load(SeqCst) == before
        {
            std::hint::spin_loop();
        }
        let after = rounds.load(SeqCst);
        stop.store(true, SeqCst);
        other.join().unwrap();
        assert_eq!(after == before, case == "off", "{case}: {before} {after}");
        assert_eq!(SEEN.load(SeqCst), sent);
    });
}

/// As in Go, where that leaves the checks of calls.
#[test]
fn without_signals_goroutines_are_preempted_in_calls() {
    const NAME: &str = "without_signals_goroutines_are_preempted_in_calls";
    if child_case().is_none() {
        succeed(child(NAME, "off").env("GMPDEBUG", "asyncpreemptoff=1"));
        return;
    }
    run(1, || {
        let (sender, receiver) = channel(1);
        let other = go(|| ());
        // Neither call ever has to wait, so that nothing else lets the other goroutine run.
        while !other.is_finished() {
            sender.send(()).unwrap();
            receiver.recv().unwrap();
        }
    });
}
