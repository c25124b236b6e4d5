//! Deadlocks are reported with every goroutine, and nothing else is.
//!
//! Without the test harness, whose own thread would count as one that may wake goroutines.

mod common;

use std::time::Duration;

use common::{child, child_case, stderr, succeed};
use gmp_runtime::{Runtime, channel, go, park, select, sleep, yield_now};

/// What a child process does.
fn child_main(case: &str) {
    let procs = if case.contains("four Ps") { 4 } else { 1 };
    let runtime = Runtime::builder()
        .procs(procs)
        .threads_wake_goroutines(!case.contains("alone"))
        .build()
        .expect("a runtime");
    // SAFETY: nothing of a thread lives across a call that may park.
    unsafe {
        runtime.run(|| match case {
            "a sleeper" => {
                let (sender, receiver) = channel(0);
                go(move || {
                    sleep(Duration::from_millis(20));
                    sender.send(1)
                });
                assert_eq!(receiver.recv(), Ok(1));
            }
            "a thread" => {
                let (sender, receiver) = channel(1);
                let thread = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(50));
                    sender.try_send(1)
                });
                assert_eq!(receiver.recv(), Ok(1));
                assert!(thread.join().is_ok_and(|sent| sent.is_ok()));
            }
            "producers and consumers, alone" | "producers and consumers on four Ps, alone" => {
                produce_and_consume();
            }
            "timers, alone" | "timers on four Ps, alone" => wait_for_timers(),
            "a thread that lives on" | "a thread that lives on, four Ps" => talk_to_a_thread(),
            "threads that end" | "threads that end, four Ps" => wait_for_threads(),
            _ => hang(),
        });
    }
}

/// Five goroutines that wait for ever, each for something else.
fn hang() {
    let (_sender, receiver) = channel::<u8>(0);
    let (other, others) = channel::<u8>(0);
    let (_full, unused) = channel::<u8>(0);
    go(move || receiver.recv());
    go(move || other.send(1));
    go(park);
    let hopeless = go(move || {
        select! {
            recv(unused) -> value => value.is_ok(),
        }
    });
    let sleeper = go(|| sleep(Duration::from_millis(5)));
    let _ = sleeper.join();
    let _ = hopeless.join();
    drop(others);
}

/// Everybody waits for somebody all the time, and nothing is a deadlock.
fn produce_and_consume() {
    let (sender, receiver) = channel(0);
    let consumers: Vec<_> = (0..3)
        .map(|_| {
            let receiver = receiver.clone();
            go(move || receiver.iter().count())
        })
        .collect();
    for _ in 0..2 {
        let sender = sender.clone();
        go(move || {
            for i in 0..50_000 {
                let _ = sender.send(i);
                if i % 1024 == 0 {
                    sleep(Duration::from_micros(50));
                } else if i % 64 == 0 {
                    yield_now();
                }
            }
        });
    }
    drop((sender, receiver));
    let total: usize = consumers
        .into_iter()
        .filter_map(|consumer| consumer.join().ok())
        .sum();
    assert_eq!(total, 100_000);
}

/// Rounds in which everybody may be asleep for a moment.
const ROUNDS: usize = 100_000;

/// Nobody but a timer that is about to fire will ever wake anybody.
fn wait_for_timers() {
    const SLEEPERS: usize = 4;
    let sleepers: Vec<_> = (0..SLEEPERS)
        .map(|sleeper| {
            go(move || {
                for round in 0..ROUNDS / SLEEPERS {
                    sleep(Duration::from_nanos(
                        (round * SLEEPERS + sleeper) as u64 % 3_000,
                    ));
                }
            })
        })
        .collect();
    for sleeper in sleepers {
        assert!(sleeper.join().is_ok());
    }
}

/// In each round the only goroutine waits until a thread that runs none sends to it.
fn talk_to_a_thread() {
    let (to_thread, from_goroutine) = channel(1);
    let (to_goroutine, from_thread) = channel(0);
    let thread = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            while from_goroutine.try_recv() != Ok(round) {
                std::thread::yield_now();
            }
            while to_goroutine.try_send(round).is_err() {
                std::thread::yield_now();
            }
        }
    });
    for round in 0..ROUNDS {
        assert_eq!(to_thread.send(round), Ok(()));
        assert_eq!(from_thread.recv(), Ok(round));
    }
    assert!(thread.join().is_ok());
}

/// The thread that wakes it is on its way out when the last M looks around.
fn wait_for_threads() {
    for round in 0..ROUNDS / 4 {
        let (sender, receiver) = channel(1);
        let thread = std::thread::spawn(move || sender.try_send(round));
        assert_eq!(receiver.recv(), Ok(round));
        drop(thread);
    }
}

fn main() {
    if let Some(case) = child_case() {
        return child_main(&case);
    }
    a_deadlock_is_reported_with_every_goroutine();
    threads_of_the_runtime_hide_no_deadlock();
    nothing_else_is_a_deadlock();
    println!("test result: ok. 3 passed; 0 failed");
}

fn a_deadlock_is_reported_with_every_goroutine() {
    for case in ["one P", "four Ps", "four Ps, alone"] {
        let output = child("", case).output().expect("a child");
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{case}: {text}");
        for part in [
            "fatal error: all goroutines are asleep - deadlock!\n",
            "goroutine 1 [join]:",
            " for 0x",
            " [chan receive]:",
            " [chan send]:",
            " [select]:",
            " [park]:",
            "deadlock::hang::",
            " waits ",
            "created by deadlock::hang in goroutine 1\n",
            "created by gmp_runtime::Runtime::run\n",
            "deadlock.rs:",
        ] {
            assert!(text.contains(part), "{case}: no {part:?} in\n{text}");
        }
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("goroutine "))
                .count(),
            5,
            "{text}"
        );
    }
}

/// The tracer's, the monitor's, and those that are spare (go#18835).
fn threads_of_the_runtime_hide_no_deadlock() {
    let directory = common::Directory::new("deadlock");
    let path = directory.file("trace");
    for debug in [
        "schedtrace=1,scheddetail=1".to_owned(),
        format!("trace={}", path.display()),
    ] {
        let output = child("", "four Ps").env("GMPDEBUG", &debug).output();
        let output = output.expect("a child");
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{debug}: {text}");
        for part in [
            "fatal error: all goroutines are asleep - deadlock!\n",
            "goroutine 1 [join]:\n",
        ] {
            assert!(text.contains(part), "{debug}: {text}");
        }
    }
    let recorded = std::fs::metadata(&path).is_ok_and(|file| file.len() > 0);
    assert_eq!(recorded, cfg!(feature = "trace"));
}

fn nothing_else_is_a_deadlock() {
    for case in [
        "a sleeper",
        "a thread",
        "producers and consumers, alone",
        "producers and consumers on four Ps, alone",
        "timers, alone",
        "timers on four Ps, alone",
        "a thread that lives on",
        "a thread that lives on, four Ps",
        "threads that end",
        "threads that end, four Ps",
    ] {
        succeed(&mut child("", case));
    }
}
