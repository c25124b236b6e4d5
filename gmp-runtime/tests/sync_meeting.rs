//! Where goroutines and threads wait for one another: groups, conditions, things done once, permits,
//! barriers.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use common::{Drops, PROCS, child, child_case, run, stderr, succeed};
use gmp_runtime::sync::{Barrier, Cond, Mutex, Once, OnceLock, Semaphore, WaitGroup};
use gmp_runtime::{go, yield_now};

/// The words of a panic that was caught.
fn words(caught: Box<dyn std::any::Any + Send>) -> String {
    match caught.downcast::<String>() {
        Ok(words) => *words,
        Err(caught) => (*caught.downcast::<&str>().unwrap()).to_owned(),
    }
}

// ---- WaitGroup

#[test]
fn a_group_is_waited_for_and_used_again() {
    for procs in PROCS {
        run(procs, || {
            let group = Arc::new(WaitGroup::new());
            let done = Arc::new(AtomicUsize::new(0));
            group.wait();
            for round in 1..=200 {
                for i in 0..5 {
                    let done = Arc::clone(&done);
                    group.go(move || {
                        if i % 2 == 0 {
                            yield_now();
                        }
                        done.fetch_add(1, SeqCst);
                    });
                }
                group.wait();
                assert_eq!(done.load(SeqCst), 5 * round);
                assert_eq!(group.count(), 0);
            }
        });
    }
}

#[test]
fn goroutines_and_threads_wait_for_one_group() {
    for procs in PROCS {
        for _ in 0..50 {
            let group = Arc::new(WaitGroup::new());
            group.add(4);
            let done = Arc::new(AtomicUsize::new(0));
            let wait = {
                let (group, done) = (Arc::clone(&group), Arc::clone(&done));
                move || {
                    group.wait();
                    done.load(SeqCst)
                }
            };
            let finish = {
                let (group, done) = (Arc::clone(&group), Arc::clone(&done));
                move || {
                    done.fetch_add(1, SeqCst);
                    group.done();
                }
            };
            let waiter = thread::spawn(wait.clone());
            let worker = thread::spawn(finish.clone());
            run(procs, || {
                let waiters: Vec<_> = (0..3).map(|_| go(wait.clone())).collect();
                for _ in 0..3 {
                    go(finish.clone());
                }
                for waiter in waiters {
                    assert_eq!(waiter.join().unwrap(), 4);
                }
            });
            assert_eq!(waiter.join().unwrap(), 4);
            worker.join().unwrap();
        }
    }
}

/// Whoever waited until zero is released, also if the counter goes up before it runs.
#[test]
fn a_group_that_goes_up_at_once_releases_those_before() {
    run(1, || {
        let group = Arc::new(WaitGroup::new());
        group.add(1);
        let waiter = go({
            let group = Arc::clone(&group);
            move || group.wait()
        });
        yield_now();
        group.done();
        group.add(1);
        // A deadlock, if it waited for the second time, too.
        waiter.join().unwrap();
        assert_eq!(group.count(), 1);
        group.done();
    });
}

#[test]
fn misuse_of_a_group_panics_with_words_and_changes_nothing() {
    let group = WaitGroup::new();
    let caught = panic::catch_unwind(AssertUnwindSafe(|| group.done())).unwrap_err();
    assert_eq!(words(caught), "sync: negative WaitGroup counter");
    assert_eq!(group.count(), 0);
    group.add(2);
    let caught = panic::catch_unwind(AssertUnwindSafe(|| group.add(-3))).unwrap_err();
    assert_eq!(words(caught), "sync: negative WaitGroup counter");
    let caught = panic::catch_unwind(AssertUnwindSafe(|| group.add(i32::MAX as isize)));
    assert_eq!(
        words(caught.unwrap_err()),
        "sync: WaitGroup counter overflow"
    );
    assert_eq!(group.count(), 2);
    group.add(-2);
    group.wait();
}

#[test]
fn a_goroutine_of_a_group_that_panics_is_done_too() {
    if child_case().is_none() {
        let output = succeed(&mut child(
            "a_goroutine_of_a_group_that_panics_is_done_too",
            "run",
        ));
        let reports = stderr(&output).matches("as announced").count();
        assert!(reports >= PROCS.len(), "{}", stderr(&output));
        return;
    }
    for procs in PROCS {
        run(procs, || {
            let group = Arc::new(WaitGroup::new());
            group.go(|| panic!("as announced"));
            group.wait();
        });
    }
}

// ---- Cond

/// A queue of bounded length, with two conditions: a lost notification is a deadlock.
#[test]
fn no_notification_is_lost() {
    const EACH: usize = 2_000;
    struct Bounded {
        items: Mutex<VecDeque<usize>>,
        put: Cond,
        taken: Cond,
    }
    impl Bounded {
        fn put(&self, item: usize) {
            let mut items = self
                .taken
                .wait_while(self.items.lock(), |items| items.len() >= 2);
            items.push_back(item);
            self.put.notify_one();
        }
        fn take(&self) -> usize {
            let mut items = self
                .put
                .wait_while(self.items.lock(), |items| items.is_empty());
            let item = items.pop_front().unwrap();
            drop(items);
            self.taken.notify_one();
            item
        }
    }
    for procs in PROCS {
        let bounded = Arc::new(Bounded {
            items: Mutex::default(),
            put: Cond::new(),
            taken: Cond::new(),
        });
        let produce = {
            let bounded = Arc::clone(&bounded);
            move || (1..=EACH).for_each(|item| bounded.put(item))
        };
        let consume = {
            let bounded = Arc::clone(&bounded);
            move || (0..EACH).map(|_| bounded.take()).sum::<usize>()
        };
        let (producer, consumer) = (
            thread::spawn(produce.clone()),
            thread::spawn(consume.clone()),
        );
        let taken = run(procs, || {
            let consumers: Vec<_> = (0..3).map(|_| go(consume.clone())).collect();
            let producers: Vec<_> = (0..3).map(|_| go(produce.clone())).collect();
            for producer in producers {
                producer.join().unwrap();
            }
            consumers
                .into_iter()
                .map(|consumer| consumer.join().unwrap())
                .sum::<usize>()
        });
        producer.join().unwrap();
        let taken = taken + consumer.join().unwrap();
        assert_eq!(taken, 4 * EACH * (EACH + 1) / 2);
    }
}

#[test]
fn one_notification_wakes_one_and_all_wake_all() {
    run(1, || {
        // How many came, and how many were woken.
        let shared = Arc::new((Mutex::new((0_usize, 0_usize)), Cond::new()));
        let woken: Vec<_> = (0..5)
            .map(|_| {
                let shared = Arc::clone(&shared);
                go(move || {
                    let mut count = shared.0.lock();
                    count.0 += 1;
                    let came = count.0;
                    let mut count = shared.1.wait(count);
                    count.1 += 1;
                    (came, count.1)
                })
            })
            .collect();
        let let_run = || (0..50).for_each(|_| yield_now());
        let_run();
        assert_eq!(*shared.0.lock(), (5, 0));
        for count in 1..=2 {
            shared.1.notify_one();
            let_run();
            assert_eq!(*shared.0.lock(), (5, count));
        }
        shared.1.notify_all();
        let_run();
        assert_eq!(*shared.0.lock(), (5, 5));
        // First come, first served.
        let mut order: Vec<_> = woken.into_iter().map(|one| one.join().unwrap()).collect();
        order.sort_unstable();
        assert_eq!(order[..2], [(1, 1), (2, 2)]);
        // A notification that nobody waits for is forgotten.
        shared.1.notify_one();
        let again = Arc::clone(&shared);
        let late = go(move || *again.1.wait(again.0.lock()));
        let_run();
        shared.1.notify_all();
        assert_eq!(late.join().unwrap(), (5, 5));
    });
}

/// Rounds that all begin at once: whoever missed one would wait for ever.
#[test]
fn a_storm_of_notifications_to_all() {
    const WAITERS: usize = 8;
    const ROUNDS: usize = 300;
    for procs in PROCS {
        let shared = Arc::new((Mutex::new((0_usize, 0_usize)), Cond::new()));
        let take_part = {
            let shared = Arc::clone(&shared);
            move || {
                for round in 1..=ROUNDS {
                    let mut state = shared
                        .1
                        .wait_while(shared.0.lock(), |state| state.0 < round);
                    state.1 += 1;
                    drop(state);
                    shared.1.notify_all();
                }
            }
        };
        let thread = thread::spawn(take_part.clone());
        run(procs, || {
            let waiters: Vec<_> = (1..WAITERS).map(|_| go(take_part.clone())).collect();
            for round in 1..=ROUNDS {
                let mut state = shared.0.lock();
                state.0 = round;
                shared.1.notify_all();
                let state = shared
                    .1
                    .wait_while(state, |state| state.1 < WAITERS * round);
                assert_eq!(state.1, WAITERS * round);
            }
            for waiter in waiters {
                waiter.join().unwrap();
            }
        });
        thread.join().unwrap();
    }
}

// ---- Once

#[test]
fn it_is_done_once_and_everybody_sees_it() {
    for procs in PROCS {
        for _ in 0..30 {
            let once = Arc::new(Once::new());
            let (calls, value) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let call = {
                let (once, calls, value) =
                    (Arc::clone(&once), Arc::clone(&calls), Arc::clone(&value));
                move || {
                    once.call_once(|| {
                        calls.fetch_add(1, SeqCst);
                        (0..10).for_each(|_| yield_now());
                        value.store(7, SeqCst);
                    });
                    assert!(once.is_completed());
                    value.load(SeqCst)
                }
            };
            let thread = thread::spawn(call.clone());
            run(procs, || {
                let callers: Vec<_> = (0..6).map(|_| go(call.clone())).collect();
                for caller in callers {
                    assert_eq!(caller.join().unwrap(), 7);
                }
            });
            assert_eq!(thread.join().unwrap(), 7);
            assert_eq!(calls.load(SeqCst), 1);
        }
    }
}

#[test]
fn what_panicked_is_not_done() {
    for procs in PROCS {
        run(procs, || {
            let once = Arc::new(Once::new());
            let calls = Arc::new(AtomicUsize::new(0));
            let callers: Vec<_> = (0..6)
                .map(|_| {
                    let (once, calls) = (Arc::clone(&once), Arc::clone(&calls));
                    go(move || {
                        once.call_once(|| {
                            let call = calls.fetch_add(1, SeqCst);
                            (0..10).for_each(|_| yield_now());
                            if call < 3 {
                                panic::resume_unwind(Box::new(()));
                            }
                        });
                    })
                })
                .collect();
            let failed = callers
                .into_iter()
                .map(|caller| usize::from(caller.join().is_err()))
                .sum::<usize>();
            assert_eq!((failed, calls.load(SeqCst)), (3, 4));
            assert!(once.is_completed());
        });
    }
}

#[test]
fn a_cell_is_filled_once_and_drops_its_value_once() {
    let drops = Drops::default();
    for procs in PROCS {
        run(procs, || {
            let cell = Arc::new(OnceLock::new());
            assert!(cell.get().is_none());
            let makers: Vec<_> = (0..6)
                .map(|i| {
                    let (cell, drops) = (Arc::clone(&cell), drops.clone());
                    go(move || {
                        cell.get_or_init(|| {
                            yield_now();
                            drops.value(i)
                        })
                        .number
                    })
                })
                .collect();
            let numbers: Vec<_> = makers
                .into_iter()
                .map(|maker| maker.join().unwrap())
                .collect();
            assert!(numbers.iter().all(|&number| number == numbers[0]));
            assert_eq!(cell.set(drops.value(9)).unwrap_err().number, 9);
            assert_eq!(cell.get().unwrap().number, numbers[0]);
        });
    }
    // One by each cell, and one that it did not take.
    assert_eq!((drops.made(), drops.alive()), (2 * PROCS.len(), 0));
    let cell = OnceLock::new();
    assert!(cell.set(3).is_ok());
    assert_eq!(format!("{cell:?}"), "OnceLock(Some(3))");
}

// ---- Semaphore

#[test]
fn permits_add_up() {
    const PERMITS: usize = 5;
    for procs in PROCS {
        let semaphore = Arc::new(Semaphore::new(PERMITS));
        let (taken, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = {
            let (semaphore, taken, most) = (
                Arc::clone(&semaphore),
                Arc::clone(&taken),
                Arc::clone(&most),
            );
            move |who: usize| {
                for round in 0..500 {
                    let count = (who + round) % (PERMITS + 1);
                    let permit = semaphore.acquire(count);
                    assert_eq!(permit.count(), count);
                    let now = taken.fetch_add(count, SeqCst) + count;
                    assert!(now <= PERMITS, "{now} of {PERMITS}");
                    most.fetch_max(now, SeqCst);
                    yield_now();
                    taken.fetch_sub(count, SeqCst);
                    if round % 2 == 0 {
                        permit.forget();
                        semaphore.release(count);
                    }
                }
            }
        };
        let thread = {
            let work = work.clone();
            thread::spawn(move || work(9))
        };
        run(procs, || {
            let workers: Vec<_> = (0..6)
                .map(|who| {
                    let work = work.clone();
                    go(move || work(who))
                })
                .collect();
            for worker in workers {
                worker.join().unwrap();
            }
        });
        thread.join().unwrap();
        assert_eq!(semaphore.available(), PERMITS);
        assert_eq!(most.load(SeqCst), PERMITS, "all were taken at some time");
    }
}

#[test]
fn a_large_request_is_not_kept_out_by_small_ones() {
    for procs in PROCS {
        run(procs, || {
            let semaphore = Arc::new(Semaphore::new(4));
            let done = Arc::new(AtomicBool::new(false));
            // At any time somebody has a permit.
            let small: Vec<_> = (0..4)
                .map(|_| {
                    let (semaphore, done) = (Arc::clone(&semaphore), Arc::clone(&done));
                    go(move || {
                        let mut held = semaphore.acquire(1);
                        while !done.load(SeqCst) {
                            yield_now();
                            held = match semaphore.try_acquire(1) {
                                Some(next) => next,
                                None => {
                                    drop(held);
                                    semaphore.acquire(1)
                                }
                            };
                        }
                        drop(held);
                    })
                })
                .collect();
            (0..10).for_each(|_| yield_now());
            for _ in 0..20 {
                let all = semaphore.acquire(4);
                assert_eq!(semaphore.available(), 0);
                yield_now();
                drop(all);
            }
            done.store(true, SeqCst);
            for one in small {
                one.join().unwrap();
            }
            assert_eq!(semaphore.available(), 4);
        });
    }
}

#[test]
fn trying_for_permits_takes_all_or_nothing() {
    let semaphore = Semaphore::new(2);
    assert!(semaphore.try_acquire(3).is_none());
    assert_eq!(semaphore.available(), 2);
    let both = semaphore.try_acquire(2).unwrap();
    assert!(semaphore.try_acquire(1).is_none());
    drop(both);
    assert_eq!(semaphore.available(), 2);
    let caught = panic::catch_unwind(AssertUnwindSafe(|| semaphore.release(usize::MAX)));
    assert!(words(caught.unwrap_err()).contains("permits"));
    assert_eq!(semaphore.available(), 2);
}

// ---- Barrier

#[test]
fn generations_of_a_barrier_do_not_mix() {
    const SIZE: usize = 5;
    const ROUNDS: usize = 300;
    for procs in PROCS {
        let barrier = Arc::new(Barrier::new(SIZE));
        let (arrived, leaders) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let take_part = {
            let (barrier, arrived, leaders) = (
                Arc::clone(&barrier),
                Arc::clone(&arrived),
                Arc::clone(&leaders),
            );
            move || {
                for round in 1..=ROUNDS {
                    arrived.fetch_add(1, SeqCst);
                    leaders.fetch_add(usize::from(barrier.wait()), SeqCst);
                    // All of this round are there, and nobody of the round after the next.
                    let seen = arrived.load(SeqCst);
                    assert!((SIZE * round..SIZE * (round + 1)).contains(&seen), "{seen}");
                    barrier.wait();
                }
            }
        };
        let thread = thread::spawn(take_part.clone());
        run(procs, || {
            let others: Vec<_> = (1..SIZE).map(|_| go(take_part.clone())).collect();
            for other in others {
                other.join().unwrap();
            }
        });
        thread.join().unwrap();
        assert_eq!(leaders.load(SeqCst), ROUNDS);
    }
    for size in [0, 1] {
        assert!(Barrier::new(size).wait(), "nobody to wait for");
    }
}
