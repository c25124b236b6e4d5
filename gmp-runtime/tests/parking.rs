//! `park` and `unpark`: one permit, from goroutines and from threads, in storms.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::thread;

use common::{PROCS, run};
use gmp_runtime::{channel, current, go, park, yield_now};

#[test]
fn a_permit_that_was_given_before_is_taken_at_once() {
    for procs in PROCS {
        run(procs, || {
            let me = current().unwrap();
            me.unpark();
            park();
            // Two gifts are one permit: the second park needs a new one.
            me.unpark();
            me.unpark();
            park();
            let parked = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&parked);
            let waker = go(move || {
                while !parked.load(SeqCst) {
                    yield_now();
                }
                me.unpark();
            });
            seen.store(true, SeqCst);
            park();
            waker.join().unwrap();
        });
    }
}

#[test]
fn two_permits_given_before_do_not_let_two_parks_pass() {
    run(1, || {
        let passed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&passed);
        let parker = go(move || {
            for _ in 0..2 {
                park();
                count.fetch_add(1, SeqCst);
            }
        });
        let handle = parker.goroutine();
        handle.unpark();
        handle.unpark();
        for _ in 0..10 {
            yield_now();
        }
        assert_eq!(passed.load(SeqCst), 1);
        handle.unpark();
        parker.join().unwrap();
        assert_eq!(passed.load(SeqCst), 2);
    });
}

#[test]
fn goroutines_wake_one_another_in_turn() {
    const ROUNDS: u64 = 5_000;
    for procs in PROCS {
        let turns = run(procs, || {
            let turn = Arc::new(AtomicU64::new(0));
            let (sender, receiver) = channel(1);
            let counter = Arc::clone(&turn);
            let main = current().unwrap();
            let other = go(move || {
                sender.send(current().unwrap()).unwrap();
                for round in 0..ROUNDS {
                    while counter.load(Acquire) != 2 * round + 1 {
                        park();
                    }
                    counter.store(2 * round + 2, Release);
                    main.unpark();
                }
            });
            let peer = receiver.recv().unwrap();
            for round in 0..ROUNDS {
                turn.store(2 * round + 1, Release);
                peer.unpark();
                while turn.load(Acquire) != 2 * round + 2 {
                    park();
                }
            }
            other.join().unwrap();
            turn.load(SeqCst)
        });
        assert_eq!(turns, 2 * ROUNDS);
    }
}

/// Every gift comes after a store that the parker waits for; a permit that is lost hangs, one that wakes
/// twice ends the process by its illegal state.
fn storm(procs: usize, goroutines: usize, threads: usize, rounds: u64) {
    run(procs, || {
        let asked = Arc::new(AtomicU64::new(0));
        let given = Arc::new(AtomicU64::new(0));
        let parker_given = Arc::clone(&given);
        let parker_asked = Arc::clone(&asked);
        let parker = go(move || {
            let mut wakes = 0_u64;
            let mut round = 0;
            while round < rounds {
                parker_asked.store(round + 1, SeqCst);
                while parker_given.load(SeqCst) <= round {
                    park();
                    wakes += 1;
                }
                round += 1;
            }
            parker_asked.store(u64::MAX, SeqCst);
            wakes
        });
        let giver = |pause: fn()| {
            let (asked, given, parker) =
                (Arc::clone(&asked), Arc::clone(&given), parker.goroutine());
            move || loop {
                match asked.load(SeqCst) {
                    u64::MAX => return,
                    round => {
                        given.fetch_max(round, SeqCst);
                        parker.unpark();
                        pause();
                    }
                }
            }
        };
        let threads: Vec<_> = (0..threads)
            .map(|_| thread::spawn(giver(thread::yield_now)))
            .collect();
        let givers: Vec<_> = (0..goroutines).map(|_| go(giver(yield_now))).collect();
        for giver in givers {
            giver.join().unwrap();
        }
        assert!(parker.join().unwrap() > 0);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_storm_of_goroutines_loses_no_permit() {
    for procs in PROCS {
        storm(procs, 3, 0, 2_000);
    }
}

#[test]
fn a_storm_of_threads_loses_no_permit() {
    for procs in PROCS {
        storm(procs, 0, 3, 1_000);
    }
}

#[test]
fn a_storm_of_both_loses_no_permit() {
    for procs in PROCS {
        storm(procs, 2, 2, 1_000);
    }
}

#[test]
fn a_thread_wakes_a_scheduler_that_sleeps() {
    for procs in PROCS {
        let rounds = run(procs, || {
            let me = current().unwrap();
            let flag = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&flag);
            let thread = thread::spawn(move || {
                for round in 1..=200 {
                    while flag.load(SeqCst) != 2 * round - 1 {
                        thread::yield_now();
                    }
                    flag.store(2 * round, SeqCst);
                    me.unpark();
                }
            });
            for round in 1..=200 {
                seen.store(2 * round - 1, SeqCst);
                while seen.load(SeqCst) != 2 * round {
                    park();
                }
            }
            thread.join().unwrap();
            seen.load(SeqCst)
        });
        assert_eq!(rounds, 400);
    }
}

#[test]
fn a_handle_may_outlive_its_goroutine_and_its_runtime() {
    for procs in PROCS {
        let handles = run(procs, || {
            let handles: Vec<_> = (0..10)
                .map(|_| {
                    let handle = go(|| ());
                    let goroutine = handle.goroutine();
                    handle.join().unwrap();
                    goroutine.unpark();
                    goroutine
                })
                .collect();
            // The goroutines that come after get the old ones' memory: a permit too many wakes for no
            // reason, never for good.
            let flag = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&flag);
            let parker = go(move || {
                while !seen.load(SeqCst) {
                    park();
                }
            });
            for handle in &handles {
                handle.unpark();
                yield_now();
            }
            flag.store(true, SeqCst);
            parker.goroutine().unpark();
            parker.join().unwrap();
            handles
        });
        let copies = handles.clone();
        for handle in copies.iter().chain(&handles) {
            handle.unpark();
        }
        assert_eq!(handles.len(), 10);
    }
}
