//! Timers, tickers and functions that run later: each fires once and never early, and `stop` and `reset`
//! agree with what is delivered.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::hogs::Hogs;
use common::{Drops, PROCS, child, child_case, processor_ticks, run, succeed};
use gmp_runtime::time::{Ticker, Timer, after, after_func};
use gmp_runtime::{RecvError, TryRecvError, channel, go, select, sleep, yield_now};

const MICRO: Duration = Duration::from_micros(1);
const FAR: Duration = Duration::from_secs(100_000);

#[test]
fn a_timer_fires_once_and_not_early() {
    for procs in PROCS {
        run(procs, || {
            for micros in [0, 1, 100, 3_000] {
                let start = Instant::now();
                let wanted = Duration::from_micros(micros);
                let timer = Timer::new(wanted);
                let fired = timer.recv().unwrap();
                assert!(fired - start >= wanted && start.elapsed() >= wanted);
                assert_eq!(timer.try_recv(), Err(TryRecvError::Empty), "only once");
                assert!(!timer.stop() && !timer.reset(MICRO));
                timer.recv().unwrap();
            }
        });
    }
}

#[test]
fn a_timer_is_a_case_of_a_select() {
    for procs in PROCS {
        let rounds = run(procs, || {
            let (numbers, receiver) = channel::<u32>(0);
            let mut rounds = 0;
            for _ in 0..50 {
                let timer = after(Duration::from_micros(200));
                let far = after(FAR);
                select! {
                    recv(receiver) -> _value => unreachable!("nobody sends"),
                    recv(far) -> _time => unreachable!("it is far"),
                    recv(timer) -> time => assert!(time.is_ok()),
                }
                rounds += 1;
            }
            drop(numbers);
            rounds
        });
        assert_eq!(rounds, 50);
    }
}

#[test]
fn what_has_fired_and_was_not_received_is_taken_back() {
    for procs in PROCS {
        run(procs, || {
            let timer = Timer::new(MICRO);
            while timer.is_empty() {
                yield_now();
            }
            assert!(timer.stop(), "nobody received it");
            assert_eq!(timer.try_recv(), Err(TryRecvError::Empty));
            assert!(!timer.stop(), "it is stopped already");
            timer.reset(MICRO);
            while timer.is_empty() {
                yield_now();
            }
            let before = Instant::now();
            assert!(timer.reset(Duration::from_millis(2)));
            let fired = timer.recv().unwrap();
            assert!(fired - before >= Duration::from_millis(2), "a stale value");
        });
    }
}

/// Exactly one of "stopped" and "received", half a million times each with `stop` and `reset`, while the
/// timer is about to fire.
#[test]
fn stopping_agrees_with_delivery() {
    const ROUNDS: u64 = 500_000;
    const END: u64 = 1 << 40;
    for procs in [1, 2] {
        let (stopped, received) = run(procs, || {
            let (mut stopped, mut received) = (0, 0);
            let timer = Timer::new(FAR);
            let mut stale = FAR;
            for round in 0..ROUNDS / 2 {
                timer.reset(Duration::from_nanos(round * 37 % 2_000));
                if round % 16 == 0 {
                    // It may fire on another P, or on this one, meanwhile.
                    yield_now();
                }
                let was_stopped = if round % 2 == 0 {
                    timer.stop()
                } else {
                    timer.reset(stale)
                };
                match (was_stopped, timer.try_recv()) {
                    (true, Err(TryRecvError::Empty)) => stopped += 1,
                    (false, _) => unreachable!("nobody else received it"),
                    (true, value) => unreachable!("{value:?} after it was stopped"),
                }
                stale += MICRO;
            }
            // With a receiver: whoever of the two comes first.
            let timer = Arc::new(timer);
            let seen = Arc::new(AtomicU64::new(0));
            let receiver = timer.clone();
            let counter = Arc::clone(&seen);
            let partner = go(move || {
                while counter.load(SeqCst) < END {
                    receiver.recv().unwrap();
                    counter.fetch_add(1, SeqCst);
                }
            });
            for round in 0..ROUNDS / 2 {
                let before = seen.load(SeqCst);
                timer.reset(Duration::from_nanos(round * 37 % 2_000));
                if round % 4 == 0 {
                    yield_now();
                }
                if timer.stop() {
                    stopped += 1;
                    assert_eq!(seen.load(SeqCst), before, "stopped and received");
                } else {
                    // It was received, or is on its way to the partner.
                    while seen.load(SeqCst) == before {
                        yield_now();
                    }
                    assert_eq!(seen.load(SeqCst), before + 1);
                    received += 1;
                }
            }
            seen.store(END, SeqCst);
            timer.reset(Duration::ZERO);
            partner.join().unwrap();
            (stopped, received)
        });
        assert_eq!(stopped + received, ROUNDS);
        assert!(received > 0, "the race was never lost");
    }
}

/// Goroutines that stop and reset one timer all the time, beside one that computes: each is preempted in the middle of
/// that, and nobody waits for ever for the timer that it holds (go#38070).
#[test]
fn those_who_reset_all_the_time_are_preempted() {
    for procs in [1, 2] {
        let fired = run(procs, || {
            let fired = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&fired);
            let timer = after_func(FAR, move || {
                counter.fetch_add(1, SeqCst);
            });
            let hogs = Hogs::new(4);
            let handles = hogs.start(move |i, round| match (i, round % 3) {
                (0, _) => drop(std::hint::black_box((0..1000_u64).sum::<u64>())),
                (_, 0) => drop(timer.stop()),
                _ => drop(timer.reset(Duration::from_micros(round * 37 % 500))),
            });
            // This goroutine sleeps, so that somebody is asked for the P each millisecond.
            hogs.wait_for_progress(50);
            hogs.end(handles);
            fired.load(SeqCst)
        });
        assert!(fired > 0, "the timer never fired");
    }
}

/// The same with a function: it runs exactly as often as it was not stopped.
#[test]
fn a_function_runs_exactly_as_often_as_it_was_not_stopped() {
    const ROUNDS: u64 = 200_000;
    for procs in [1, 2] {
        let (stopped, ran) = run(procs, || {
            let ran = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&ran);
            let timer = after_func(FAR, move || {
                counter.fetch_add(1, SeqCst);
            });
            assert!(timer.stop());
            let mut stopped = 0;
            for round in 0..ROUNDS {
                timer.reset(Duration::from_nanos(round * 37 % 2_000));
                if round % 4 == 0 {
                    yield_now();
                }
                let was_armed = if round % 3 == 0 {
                    timer.reset(FAR)
                } else {
                    timer.stop()
                };
                stopped += u64::from(was_armed);
                if round % 3 == 0 {
                    assert!(timer.stop(), "it was just reset");
                }
            }
            while ran.load(SeqCst) + stopped < ROUNDS {
                sleep(MICRO);
            }
            // Whatever ran too often had the time for it.
            sleep(Duration::from_millis(2));
            (stopped, ran.load(SeqCst))
        });
        assert_eq!(stopped + ran, ROUNDS);
        assert!(ran > 0 && stopped > 0, "{ran} ran, {stopped} were stopped");
    }
}

/// Captures the whole of the value.
fn uses(value: &common::Counted) {
    assert!(value.number < 200);
}

#[test]
fn functions_run_on_goroutines_and_are_dropped_once() {
    for procs in PROCS {
        let drops = Drops::default();
        let ran = Arc::new(AtomicUsize::new(0));
        run(procs, || {
            let (done, all) = channel::<()>(0);
            for i in 0..100 {
                let (value, ran, done) = (drops.value(i), Arc::clone(&ran), done.clone());
                after_func(Duration::from_micros(i as u64 * 11), move || {
                    // It may block.
                    sleep(MICRO);
                    ran.fetch_add(1, SeqCst);
                    uses(&value);
                    done.send(()).unwrap();
                });
            }
            (0..100).for_each(|_| all.recv().unwrap());
            // One that is stopped, one whose handle is dropped, one that is left at the end.
            let (one, other, last) = (drops.value(100), drops.value(101), drops.value(102));
            let stopped = after_func(FAR, move || uses(&one));
            assert!(stopped.stop());
            drop(after_func(FAR, move || uses(&other)));
            std::mem::forget(after_func(FAR, move || uses(&last)));
        });
        assert_eq!(ran.load(SeqCst), 100);
        assert_eq!(drops.made(), 103);
        assert_eq!(
            drops.alive(),
            1,
            "all but the one with a handle that was forgotten"
        );
    }
}

#[test]
fn a_function_that_panics_ends_its_goroutine_alone() {
    run(2, || {
        let (done, all) = channel::<u32>(4);
        let other = done.clone();
        let timer = after_func(MICRO, move || {
            other.send(1).unwrap();
            panic!("this is what the test does");
        });
        assert_eq!(all.recv(), Ok(1));
        timer.reset(MICRO);
        assert_eq!(all.recv(), Ok(1), "it runs again");
        drop(done);
    });
}

#[test]
fn a_ticker_ticks_and_leaves_out_what_is_missed() {
    for procs in PROCS {
        run(procs, || {
            let period = Duration::from_millis(1);
            let start = Instant::now();
            let ticker = Ticker::new(period);
            for tick in 1..=5 {
                let time = ticker.recv().unwrap();
                assert!(time - start >= period * tick);
            }
            // Many periods pass: one tick waits, and it is not followed by a burst.
            sleep(period * 10);
            let before = Instant::now();
            ticker.recv().unwrap();
            ticker.recv().unwrap();
            ticker.recv().unwrap();
            assert!(before.elapsed() >= period, "ticks that were missed came");
            ticker.stop();
            assert_eq!(ticker.try_recv(), Err(TryRecvError::Empty));
            let before = Instant::now();
            ticker.reset(period * 3);
            assert!(ticker.recv().unwrap() - before >= period * 3);
        });
    }
}

#[test]
#[should_panic(expected = "the period of a ticker cannot be zero")]
fn a_ticker_needs_a_period() {
    run(1, || Ticker::new(Duration::ZERO));
}

#[test]
#[should_panic(expected = "not on a goroutine")]
fn a_timer_is_made_on_a_goroutine() {
    Timer::new(FAR);
}

/// The heap with the timer belongs to a P that is kept by a goroutine that does not look; somebody else
/// resets it to an earlier time.
#[test]
fn a_timer_that_is_moved_to_an_earlier_time_is_noticed() {
    for procs in [2, 4] {
        for _ in 0..20 {
            run(procs, || {
                let timer = Arc::new(Timer::new(FAR));
                let kept = Arc::new(AtomicBool::new(true));
                let (resetting, keeping) = (Arc::clone(&timer), Arc::clone(&kept));
                let keeper = go(move || {
                    while keeping.load(SeqCst) {
                        thread::yield_now();
                    }
                });
                let other = go(move || {
                    for _ in 0..10 {
                        resetting.reset(FAR);
                        assert!(resetting.reset(Duration::from_micros(500)));
                    }
                });
                timer.recv().unwrap();
                other.join().unwrap();
                kept.store(false, SeqCst);
                keeper.join().unwrap();
            });
        }
    }
}

/// Timers that are moved to later times again and again do not make an idle M look all the time.
#[test]
fn a_timer_that_is_moved_to_a_later_time_costs_nothing() {
    const NAME: &str = "a_timer_that_is_moved_to_a_later_time_costs_nothing";
    if child_case().is_none() {
        succeed(&mut child(NAME, "a process of its own"));
        return;
    }
    let ticks = run(1, || {
        let timer = Timer::new(Duration::from_millis(1));
        for _ in 0..1000 {
            timer.reset(Duration::from_millis(1));
        }
        timer.reset(FAR);
        let before = processor_ticks();
        sleep(Duration::from_secs(1));
        processor_ticks() - before
    });
    assert!(ticks < 50, "{ticks} of 100 ticks");
}

#[test]
fn a_timer_can_be_stopped_and_reset_by_a_thread() {
    for procs in PROCS {
        run(procs, || {
            let timer = Arc::new(Timer::new(FAR));
            for _ in 0..20 {
                let other = Arc::clone(&timer);
                let thread = thread::spawn(move || {
                    assert!(other.stop());
                    assert!(!other.reset(Duration::from_micros(300)));
                });
                timer.recv().unwrap();
                thread.join().unwrap();
                timer.reset(FAR);
            }
        });
    }
}

#[test]
fn a_timer_outlives_its_runtime() {
    for procs in PROCS {
        let drops = Drops::default();
        let value = drops.value(0);
        let (timer, function, receiver) = run(procs, || {
            let timer = Timer::new(FAR);
            let receiver = (*timer).clone();
            (timer, after_func(FAR, move || uses(&value)), receiver)
        });
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
        assert!(!timer.stop() || !timer.reset(MICRO));
        assert!(!function.stop() && !function.reset(MICRO) && !function.stop());
        drop(function);
        assert_eq!(drops.alive(), 0);
    }
}

/// A thread drops timers, and stops others, while their runtime ends.
#[test]
fn timers_may_be_dropped_by_a_thread_while_their_runtime_ends() {
    let drops = Drops::default();
    for _ in 0..100 {
        let thread = run(1, || {
            let timers: Vec<_> = (0..50)
                .map(|i| {
                    let value = drops.value(i);
                    (Timer::new(FAR), after_func(FAR, move || uses(&value)))
                })
                .collect();
            let begun = Arc::new(AtomicBool::new(false));
            let begins = Arc::clone(&begun);
            let thread = thread::spawn(move || {
                begins.store(true, SeqCst);
                for (timer, function) in timers {
                    drop(timer);
                    function.stop();
                }
            });
            while !begun.load(SeqCst) {
                yield_now();
            }
            thread
        });
        thread.join().unwrap();
    }
    assert_eq!((drops.made(), drops.alive()), (5_000, 0));
}

#[test]
fn dropping_a_timer_closes_its_channel() {
    run(1, || {
        let timer = Timer::new(FAR);
        let receiver = (*timer).clone();
        let waiting = go(move || receiver.recv());
        yield_now();
        drop(timer);
        assert_eq!(waiting.join().unwrap(), Err(RecvError));
    });
}

#[test]
fn a_hundred_thousand_sleep_at_once() {
    let woken = run(2, || {
        let woken = Arc::new(AtomicUsize::new(0));
        let sleepers: Vec<_> = (0..100_000_u64)
            .map(|i| {
                let woken = Arc::clone(&woken);
                go(move || {
                    let duration = Duration::from_micros(i * 7919 % 300_000);
                    let start = Instant::now();
                    sleep(duration);
                    assert!(start.elapsed() >= duration);
                    woken.fetch_add(1, SeqCst);
                })
            })
            .collect();
        sleepers.into_iter().for_each(|s| s.join().unwrap());
        woken.load(SeqCst)
    });
    assert_eq!(woken, 100_000);
}
