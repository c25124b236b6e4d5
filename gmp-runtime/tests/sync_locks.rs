//! Mutexes and read-write locks: exclusion, fairness, goroutines and plain threads together.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::{OnDrop, PROCS, run};
use gmp_runtime::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, WaitGroup};
use gmp_runtime::{channel, go, proc_id, sleep, yield_now};

/// Uses the processor for so long.
fn compute(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Waits until `count` says so.
fn await_count(count: &AtomicUsize, wanted: usize) {
    while count.load(SeqCst) < wanted {
        yield_now();
    }
}

#[test]
fn one_at_a_time_and_nobody_is_lost() {
    const GOROUTINES: usize = 8;
    const THREADS: usize = 2;
    const ROUNDS: usize = 2_000;
    for procs in PROCS {
        let total = Arc::new(Mutex::new(0_usize));
        let inside = Arc::new(AtomicUsize::new(0));
        let work = move |total: &Mutex<usize>, inside: &AtomicUsize, who: usize| {
            for round in 0..ROUNDS {
                let mut guard = total.lock();
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "two owners");
                if (round + who).is_multiple_of(16) {
                    yield_now();
                }
                *guard += 1;
                assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                drop(guard);
                if (round + who).is_multiple_of(64) {
                    yield_now();
                }
            }
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|who| {
                let (total, inside) = (Arc::clone(&total), Arc::clone(&inside));
                thread::spawn(move || work(&total, &inside, who))
            })
            .collect();
        run(procs, || {
            let goroutines: Vec<_> = (0..GOROUTINES)
                .map(|who| {
                    let (total, inside) = (Arc::clone(&total), Arc::clone(&inside));
                    go(move || work(&total, &inside, who))
                })
                .collect();
            for goroutine in goroutines {
                goroutine.join().unwrap();
            }
        });
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*total.lock(), (GOROUTINES + THREADS) * ROUNDS);
        assert!(!total.is_locked());
    }
}

#[test]
fn plain_threads_need_no_runtime() {
    let total = Arc::new(Mutex::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let total = Arc::clone(&total);
            thread::spawn(move || {
                for _ in 0..5_000 {
                    let mut guard = total.lock();
                    *guard += 1;
                    if *guard % 64 == 0 {
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*total.lock(), 20_000);
}

/// A goroutine that locks in a loop, and lets others run only while it has the lock, against one that
/// wants it once; how often the first got it before the second.
fn hog_against_one(procs: usize) -> usize {
    run(procs, || {
        let mutex = Arc::new(Mutex::new(()));
        let (waiting, served) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let hog = {
            let (mutex, waiting, served) = (
                Arc::clone(&mutex),
                Arc::clone(&waiting),
                Arc::clone(&served),
            );
            go(move || {
                let mut acquisitions = 0;
                loop {
                    let guard = mutex.lock();
                    if served.load(SeqCst) || acquisitions > 10_000 {
                        return acquisitions;
                    }
                    acquisitions += waiting.load(SeqCst);
                    compute(Duration::from_micros(50));
                    yield_now();
                    drop(guard);
                }
            })
        };
        while !mutex.is_locked() {
            yield_now();
        }
        waiting.store(1, SeqCst);
        let guard = mutex.lock();
        served.store(true, SeqCst);
        drop(guard);
        hog.join().unwrap()
    })
}

/// Each round of the hog takes 50 µs or more, and the patience of a waiter is 1 ms: it loses 20 times
/// and is then served.
#[test]
fn a_goroutine_that_locks_in_a_loop_keeps_nobody_out() {
    let lost: Vec<usize> = (0..10).map(|_| hog_against_one(1)).collect();
    assert!(lost.iter().all(|&lost| lost <= 25), "{lost:?}");
    // And it is not fair from the start, which would cost a switch for each acquisition.
    assert!(lost.iter().any(|&lost| lost > 1), "{lost:?}");
    // With more Ps the hog may be ahead by what the system takes to run the other thread, but not for ever.
    for procs in [2, 4] {
        assert!(hog_against_one(procs) <= 10_000);
    }
}

#[test]
fn trying_does_not_wait() {
    for procs in PROCS {
        run(procs, || {
            let mutex = Mutex::new(1);
            let guard = mutex.lock();
            assert!(mutex.try_lock().is_none());
            assert_eq!(format!("{mutex:?}"), "Mutex { value: <locked> }");
            drop(guard);
            *mutex.try_lock().unwrap() += 1;
            assert_eq!(format!("{mutex:?}"), "Mutex { value: 2 }");
            assert_eq!(mutex.into_inner(), 2);
        });
    }
}

#[test]
fn a_panic_unlocks_and_poisons_nothing() {
    for procs in PROCS {
        run(procs, || {
            let shared = Arc::new((Mutex::new(0), RwLock::new(0)));
            let other = Arc::clone(&shared);
            let failed = go(move || {
                let mut guard = other.0.lock();
                let mut written = other.1.write();
                (*guard, *written) = (1, 1);
                std::panic::resume_unwind(Box::new(()));
            });
            assert!(failed.join().is_err());
            assert_eq!((*shared.0.lock(), *shared.1.read()), (1, 1));
            assert_eq!(*shared.1.write(), 1);
        });
    }
}

#[test]
fn a_destructor_of_a_panic_may_wait_for_a_lock() {
    for procs in PROCS {
        run(procs, || {
            let total = Arc::new(Mutex::new(0));
            let failing: Vec<_> = (0..20)
                .map(|_| {
                    let total = Arc::clone(&total);
                    go(move || {
                        let _adds = OnDrop(move || {
                            let mut guard = total.lock();
                            yield_now();
                            *guard += 1;
                        });
                        std::panic::resume_unwind(Box::new(()));
                    })
                })
                .collect();
            for one in failing {
                assert!(one.join().is_err());
            }
            assert_eq!(*total.lock(), 20);
        });
    }
}

/// The guard is made on one thread and dropped on another: by a goroutine that moved, and by being sent.
#[test]
fn guards_migrate() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let mut moved = 0;
    // On a busy machine one thread may run all of it at first.
    for round in 0..1_000 {
        moved += run([2, 4][round % 2], || {
            let mutex = Arc::new(Mutex::new(0_usize));
            let movers: Vec<_> = (0..8)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    go(move || {
                        let mut moved = 0;
                        for _ in 0..100 {
                            let mut guard = is_send(mutex.lock());
                            let before = proc_id();
                            *guard += 1;
                            sleep(Duration::from_nanos(1));
                            moved += usize::from(proc_id() != before);
                        }
                        moved
                    })
                })
                .collect();
            let moved = movers
                .into_iter()
                .map(|mover| mover.join().unwrap())
                .sum::<usize>();
            assert_eq!(*mutex.lock(), 8 * 100);
            moved
        });
        if moved > 0 && round > 0 {
            break;
        }
    }
    assert!(moved > 0, "no goroutine changed its P with a guard");
    run(2, || {
        static MUTEX: Mutex<u32> = Mutex::new(0);
        let (sender, receiver) = channel::<MutexGuard<'static, u32>>(0);
        let other = go(move || {
            *receiver.recv().unwrap() += 1;
        });
        sender.send(MUTEX.lock()).unwrap();
        other.join().unwrap();
        assert_eq!(*MUTEX.lock(), 1);
    });
}

#[test]
fn unsized_values_are_locked_too() {
    let mutex: Arc<Mutex<[u32]>> = Arc::new(Mutex::new([1, 2, 3]));
    mutex.lock()[0] = 7;
    assert_eq!(mutex.lock().iter().sum::<u32>(), 12);
    let lock: Box<RwLock<dyn std::fmt::Debug + Send + Sync>> = Box::new(RwLock::new(5));
    assert_eq!(format!("{:?}", lock.read()), "5");
}

#[test]
fn readers_share_and_writers_do_not() {
    const ROUNDS: usize = 600;
    for procs in PROCS {
        // Two numbers that a writer changes one after the other.
        let pair = Arc::new(RwLock::new((0_usize, 0_usize)));
        let (reading, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let write = |pair: &RwLock<(usize, usize)>| {
            for _ in 0..ROUNDS {
                let mut pair = pair.write();
                pair.0 += 1;
                yield_now();
                pair.1 += 1;
            }
        };
        let read = |pair: &RwLock<(usize, usize)>, reading: &AtomicUsize, most: &AtomicUsize| {
            for _ in 0..ROUNDS {
                let pair = pair.read();
                most.fetch_max(reading.fetch_add(1, SeqCst) + 1, SeqCst);
                yield_now();
                assert_eq!(pair.0, pair.1);
                reading.fetch_sub(1, SeqCst);
            }
        };
        let threads = [
            thread::spawn({
                let pair = Arc::clone(&pair);
                move || write(&pair)
            }),
            thread::spawn({
                let (pair, reading, most) =
                    (Arc::clone(&pair), Arc::clone(&reading), Arc::clone(&most));
                move || read(&pair, &reading, &most)
            }),
        ];
        run(procs, || {
            let group = Arc::new(WaitGroup::new());
            for i in 0..6 {
                let (pair, reading, most) =
                    (Arc::clone(&pair), Arc::clone(&reading), Arc::clone(&most));
                group.go(move || {
                    if i < 2 {
                        write(&pair);
                    } else {
                        read(&pair, &reading, &most);
                    }
                });
            }
            group.wait();
        });
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*pair.read(), (3 * ROUNDS, 3 * ROUNDS));
        assert!(most.load(SeqCst) > 1, "readers never shared");
    }
}

/// Readers hold the lock all the time, in turn, and a writer comes.
#[test]
fn readers_do_not_keep_a_writer_out() {
    for procs in PROCS {
        for _ in 0..10 {
            run(procs, || {
                let lock = Arc::new(RwLock::new(false));
                let (reads, late) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
                let writer_waits = Arc::new(AtomicBool::new(false));
                let readers: Vec<_> = (0..3)
                    .map(|_| {
                        let lock = Arc::clone(&lock);
                        let (reads, late) = (Arc::clone(&reads), Arc::clone(&late));
                        let writer_waits = Arc::clone(&writer_waits);
                        go(move || {
                            // The next lock is taken before the last one is given back, where that is
                            // possible at once: then there is never a moment without a reader.
                            let mut held: Option<RwLockReadGuard<'_, bool>> = None;
                            loop {
                                let next = lock.try_read().unwrap_or_else(|| {
                                    drop(held.take());
                                    lock.read()
                                });
                                if *next {
                                    return;
                                }
                                reads.fetch_add(1, SeqCst);
                                late.fetch_add(usize::from(writer_waits.load(SeqCst)), SeqCst);
                                held = Some(next);
                                yield_now();
                            }
                        })
                    })
                    .collect();
                await_count(&reads, 3);
                writer_waits.store(true, SeqCst);
                *lock.write() = true;
                for reader in readers {
                    reader.join().unwrap();
                }
                // On one P nobody runs between the flag and the queue; each reader then looks once at
                // most before the writer has its turn.
                assert!(procs > 1 || late.load(SeqCst) == 0, "{late:?}");
            });
        }
    }
}

/// Writers want the lock all the time, and a reader comes.
#[test]
fn writers_do_not_keep_a_reader_out() {
    for procs in PROCS {
        for _ in 0..10 {
            run(procs, || {
                let lock = Arc::new(RwLock::new(0_usize));
                let done = Arc::new(AtomicBool::new(false));
                let writers: Vec<_> = (0..3)
                    .map(|_| {
                        let (lock, done) = (Arc::clone(&lock), Arc::clone(&done));
                        go(move || {
                            while !done.load(SeqCst) {
                                let mut guard = lock.write();
                                *guard += 1;
                                yield_now();
                            }
                        })
                    })
                    .collect();
                while *lock.read() < 10 {
                    yield_now();
                }
                let mut most_before = 0;
                for _ in 0..20 {
                    let before = *lock.read();
                    most_before = most_before.max(*lock.read() - before);
                }
                done.store(true, SeqCst);
                for writer in writers {
                    writer.join().unwrap();
                }
                // Between two reads there is at most a turn of each writer and the one that has begun,
                // where no other thread can come in between.
                assert!(procs > 1 || most_before <= 4, "{most_before}");
            });
        }
    }
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    for procs in PROCS {
        run(procs, || {
            let lock = Arc::new(RwLock::new(0));
            let read = Arc::new(AtomicUsize::new(0));
            let mut guard = lock.write();
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    let (lock, read) = (Arc::clone(&lock), Arc::clone(&read));
                    go(move || {
                        let guard = lock.read();
                        read.fetch_add(1, SeqCst);
                        *guard
                    })
                })
                .collect();
            for _ in 0..100 {
                yield_now();
            }
            assert_eq!(read.load(SeqCst), 0);
            *guard = 5;
            let guard = guard.downgrade();
            await_count(&read, 3);
            let writer = go({
                let lock = Arc::clone(&lock);
                move || *lock.write() += 1
            });
            // Until it waits: then nobody comes in any more.
            while lock.try_read().is_some() {
                yield_now();
            }
            assert_eq!(*guard, 5);
            assert!(lock.try_write().is_none());
            drop(guard);
            writer.join().unwrap();
            for reader in readers {
                assert_eq!(reader.join().unwrap(), 5);
            }
            assert_eq!(*lock.try_read().unwrap(), 6);
        });
    }
}
