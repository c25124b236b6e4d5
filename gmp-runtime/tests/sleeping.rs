//! `sleep`: never early, in the order of deadlines, whoever looks after the timers.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{Drops, PROCS, run};
use gmp_runtime::{channel, go, sleep, yield_now};

/// Sleeps, and checks that it did not wake too early.
fn sleep_checked(duration: Duration) {
    let start = Instant::now();
    sleep(duration);
    let slept = start.elapsed();
    assert!(slept >= duration, "woke after {slept:?} of {duration:?}");
}

#[test]
fn nobody_wakes_early() {
    for procs in PROCS {
        let sleepers = run(procs, || {
            let sleepers: Vec<_> = (0..200_u64)
                .map(|i| {
                    go(move || {
                        for round in 0..3 {
                            sleep_checked(Duration::from_micros((i * 37 + round * 211) % 5_000));
                        }
                    })
                })
                .collect();
            let count = sleepers.len();
            sleepers.into_iter().for_each(|s| s.join().unwrap());
            count
        });
        assert_eq!(sleepers, 200);
    }
}

/// Whether `order` is 0, 1, 2 … but for timers that fired at the same look: of those the last one runs
/// first, as the one that was made ready last.
fn is_in_order_of_deadlines(order: &[u32]) -> bool {
    let mut next = 0;
    let mut rest = order;
    while let Some((&first, others)) = rest.split_first() {
        let Some(before) = first.checked_sub(next) else {
            return false;
        };
        let Some((batch, others)) = others.split_at_checked(before as usize) else {
            return false;
        };
        if !batch.iter().copied().eq(next..first) {
            return false;
        }
        next = first + 1;
        rest = others;
    }
    true
}

#[test]
fn deadlines_are_kept_in_order() {
    assert!(is_in_order_of_deadlines(&[0, 3, 1, 2, 4]));
    assert!(!is_in_order_of_deadlines(&[0, 3, 2, 1, 4]) && !is_in_order_of_deadlines(&[1, 2, 0]));
    for _ in 0..3 {
        let order = run(1, || {
            let (sender, order) = mpsc::channel();
            let start = Instant::now() + Duration::from_millis(100);
            // Made in a mixed order.
            let sleepers: Vec<_> = [7, 2, 9, 4, 0, 8, 1, 6, 3, 5]
                .into_iter()
                .map(|i| {
                    let sender = sender.clone();
                    go(move || {
                        let deadline = start + Duration::from_millis(10) * i;
                        sleep(deadline.saturating_duration_since(Instant::now()));
                        sender.send(i).unwrap();
                    })
                })
                .collect();
            sleepers.into_iter().for_each(|s| s.join().unwrap());
            order.try_iter().collect::<Vec<_>>()
        });
        assert_eq!(order.len(), 10);
        assert!(is_in_order_of_deadlines(&order), "{order:?}");
    }
}

#[test]
fn ten_thousand_sleep_at_once() {
    for procs in PROCS {
        let woken = run(procs, || {
            let woken = Arc::new(AtomicUsize::new(0));
            let sleepers: Vec<_> = (0..10_000_u64)
                .map(|i| {
                    let woken = Arc::clone(&woken);
                    go(move || {
                        sleep_checked(Duration::from_micros(i * 7919 % 50_000));
                        woken.fetch_add(1, SeqCst);
                    })
                })
                .collect();
            sleepers.into_iter().for_each(|s| s.join().unwrap());
            woken.load(SeqCst)
        });
        assert_eq!(woken, 10_000);
    }
}

/// All Ps run goroutines that yield: they look after the timers themselves.
#[test]
fn sleepers_wake_while_every_p_is_busy() {
    for procs in PROCS {
        let rounds = run(procs, || {
            let stop = Arc::new(AtomicBool::new(false));
            for _ in 0..3 * procs {
                let stop = Arc::clone(&stop);
                go(move || {
                    while !stop.load(SeqCst) {
                        yield_now();
                    }
                });
            }
            let sleepers: Vec<_> = (0..20_u64)
                .map(|i| {
                    go(move || (0..5).for_each(|_| sleep_checked(Duration::from_micros(200 * i))))
                })
                .collect();
            let rounds = sleepers.len();
            sleepers.into_iter().for_each(|s| s.join().unwrap());
            stop.store(true, SeqCst);
            rounds
        });
        assert_eq!(rounds, 20);
    }
}

/// Busy with goroutines that make each other ready and never yield.
#[test]
fn sleepers_wake_while_a_pair_talks() {
    for procs in PROCS {
        run(procs, || {
            let stop = Arc::new(AtomicBool::new(false));
            for _ in 0..procs {
                let (ping, pings) = channel::<()>(0);
                let (pong, pongs) = channel::<()>(0);
                let stop = Arc::clone(&stop);
                go(move || while pings.recv().is_ok() && pong.send(()).is_ok() {});
                go(move || {
                    while !stop.load(SeqCst) {
                        ping.send(()).unwrap();
                        pongs.recv().unwrap();
                    }
                });
            }
            for _ in 0..10 {
                sleep_checked(Duration::from_millis(1));
            }
            stop.store(true, SeqCst);
        });
    }
}

/// Nobody runs: one idle M sleeps until the next deadline. A deadline that comes before the one it sleeps
/// for must reach it.
#[test]
fn sleepers_wake_while_every_p_is_idle() {
    for procs in PROCS {
        let woken = run(procs, || {
            let woken = Arc::new(AtomicUsize::new(0));
            // The far one is there first.
            go(|| sleep(Duration::from_secs(100_000)));
            let handles: Vec<_> = (1..=8_u64)
                .map(|i| {
                    let woken = Arc::clone(&woken);
                    go(move || {
                        for _ in 0..10 {
                            sleep_checked(Duration::from_micros(300 * i));
                        }
                        woken.fetch_add(1, SeqCst);
                    })
                })
                .collect();
            handles.into_iter().for_each(|h| h.join().unwrap());
            woken.load(SeqCst)
        });
        assert_eq!(woken, 8);
    }
}

/// The P whose heap holds the timers is kept by a goroutine that does not give it up; others must fire
/// them.
#[test]
fn timers_of_a_p_that_is_kept_are_fired_by_others() {
    for procs in [2, 4] {
        for _ in 0..10 {
            run(procs, || {
                let woken = Arc::new(AtomicUsize::new(0));
                let sleepers: Vec<_> = (0..50)
                    .map(|_| {
                        let woken = Arc::clone(&woken);
                        go(move || {
                            sleep_checked(Duration::from_millis(2));
                            woken.fetch_add(1, SeqCst);
                        })
                    })
                    .collect();
                // Some of them go to sleep on this P.
                for _ in 0..60 {
                    yield_now();
                }
                // Not a call into the runtime until all are awake.
                while woken.load(SeqCst) < 50 {
                    thread::yield_now();
                }
                sleepers.into_iter().for_each(|s| s.join().unwrap());
            });
        }
    }
}

/// The timekeeper's office passes on: the M that has it gets work, or is not needed any more, again and
/// again.
#[test]
fn the_office_of_the_timekeeper_passes_on() {
    for procs in PROCS {
        let woken = run(procs, || {
            let handles: Vec<_> = (0..6_u64)
                .map(|i| {
                    go(move || {
                        let mut rounds = 0;
                        for n in 0..60_u64 {
                            sleep_checked(Duration::from_micros((i * 131 + n * 97) % 700 + 1));
                            // Some work, so that others sleep meanwhile.
                            for _ in 0..n % 3 {
                                yield_now();
                            }
                            rounds += 1;
                        }
                        rounds
                    })
                })
                .collect();
            handles.into_iter().map(|h| h.join().unwrap()).sum::<u64>()
        });
        assert_eq!(woken, 360);
    }
}

#[test]
fn a_thread_wakes_a_runtime_whose_timekeeper_sleeps() {
    for procs in PROCS {
        let sum = run(procs, || {
            go(|| sleep(Duration::from_secs(100_000)));
            let (sender, receiver) = channel::<u64>(1);
            thread::spawn(move || {
                for i in 0..50 {
                    thread::sleep(Duration::from_micros(200));
                    let mut value = i;
                    while let Err(gmp_runtime::TrySendError::Full(back)) = sender.try_send(value) {
                        value = back;
                        thread::yield_now();
                    }
                }
            });
            receiver.iter().sum::<u64>()
        });
        assert_eq!(sum, 49 * 25);
    }
}

#[test]
fn no_time_is_a_yield_and_the_longest_time_is_no_trap() {
    for procs in PROCS {
        let drops = Drops::default();
        run(procs, || {
            let (sender, receiver) = channel::<u8>(4);
            let (first, second) = (sender.clone(), sender);
            let one = go(move || {
                first.send(1).unwrap();
                sleep(Duration::ZERO);
                first.send(3).unwrap();
            });
            one.join().unwrap();
            second.send(9).unwrap();
            drop(second);
            assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 3, 9]);
            let kept = drops.value(0);
            go(move || {
                let _kept = kept;
                sleep(Duration::MAX);
            });
            sleep_checked(Duration::from_millis(1));
        });
        assert_eq!((drops.made(), drops.alive()), (1, 0));
    }
}

#[test]
fn on_a_thread_it_sleeps_too() {
    sleep_checked(Duration::from_millis(2));
}

/// A sleeper is woken though the one idle M that keeps the time began to sleep, until a later deadline, while
/// every P ran.
#[test]
fn a_deadline_of_a_busy_moment_reaches_the_one_who_keeps_the_time() {
    const ROUNDS: usize = 300;
    run(2, || {
        let far_is_over = Arc::new(AtomicBool::new(false));
        let far = {
            let far_is_over = Arc::clone(&far_is_over);
            go(move || {
                sleep(Duration::from_secs(60));
                far_is_over.store(true, SeqCst);
            })
        };
        for _ in 0..ROUNDS {
            // Nobody runs: somebody keeps the time.
            sleep(Duration::from_micros(300));
            let running = Arc::new(AtomicUsize::new(0));
            let both: Vec<_> = (0..2)
                .map(|_| {
                    let running = Arc::clone(&running);
                    go(move || {
                        running.fetch_add(1, SeqCst);
                        while running.load(SeqCst) < 2 {
                            std::hint::spin_loop();
                        }
                        sleep(Duration::from_micros(200));
                    })
                })
                .collect();
            both.into_iter().for_each(|one| one.join().unwrap());
            assert!(
                !far_is_over.load(SeqCst),
                "a sleeper of 200 µs was forgotten"
            );
        }
        drop(far);
    });
}
