//! Goroutines that are locked to their thread.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use common::{PROCS, child, child_case, run, stderr, succeed};
use gmp_runtime::{
    Runtime, blocking, channel, go, lock_os_thread, sleep, unlock_os_thread, yield_now,
};

/// Whatever a locked goroutine does, and whatever others do, it stays on its thread, alone.
#[test]
fn a_locked_goroutine_stays_alone_on_its_thread() {
    for procs in PROCS {
        run(procs, || {
            let (ping, pings) = channel::<usize>(0);
            let (pong, pongs) = channel::<usize>(0);
            let locked = go(move || {
                lock_os_thread();
                let mine = thread::current().id();
                for round in 0..200 {
                    match round % 5 {
                        0 => yield_now(),
                        1 => sleep(Duration::from_micros(50)),
                        2 => blocking(|| thread::sleep(Duration::from_micros(100))),
                        3 => drop(go(|| ())),
                        _ => {
                            let value = pings.recv().unwrap();
                            pong.send(value + 1).unwrap();
                        }
                    }
                    assert_eq!(thread::current().id(), mine);
                }
                mine
            });
            let others: Vec<_> = (0..8)
                .map(|_| {
                    go(|| {
                        let mut threads = HashSet::new();
                        for _ in 0..100 {
                            threads.insert(thread::current().id());
                            yield_now();
                        }
                        threads
                    })
                })
                .collect();
            for round in 0..40 {
                ping.send(round).unwrap();
                assert_eq!(pongs.recv(), Ok(round + 1));
            }
            let mine = locked.join().unwrap();
            for other in others {
                // Before it was locked and after it had ended others could be there.
                let threads = other.join().unwrap();
                assert!(!threads.is_empty());
            }
            // Its thread has ended, and no goroutine is ever there again.
            for _ in 0..50 {
                assert_ne!(go(|| thread::current().id()).join().unwrap(), mine);
            }
        });
    }
}

/// While one is locked nobody else is on its thread.
#[test]
fn nobody_else_runs_on_a_locked_thread() {
    for procs in PROCS {
        run(procs, || {
            let (locked, is_locked) = channel(0);
            let (end, ends) = channel::<()>(0);
            let holder = go(move || {
                lock_os_thread();
                locked.send(thread::current().id()).unwrap();
                ends.recv().unwrap();
                unlock_os_thread();
            });
            let theirs = is_locked.recv().unwrap();
            let all: Vec<_> = (0..200)
                .map(|_| {
                    go(move || {
                        for _ in 0..5 {
                            assert_ne!(thread::current().id(), theirs);
                            yield_now();
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|handle| handle.join().unwrap());
            end.send(()).unwrap();
            holder.join().unwrap();
        });
    }
}

/// As many unlocks as locks make it free, and its thread is anybody's again.
#[test]
fn locks_nest_and_the_last_unlock_frees_the_thread() {
    for procs in PROCS {
        run(procs, || {
            let mine = go(|| {
                unlock_os_thread();
                lock_os_thread();
                lock_os_thread();
                unlock_os_thread();
                let mine = thread::current().id();
                for _ in 0..20 {
                    sleep(Duration::from_micros(20));
                    assert_eq!(thread::current().id(), mine);
                }
                unlock_os_thread();
                unlock_os_thread();
                mine
            })
            .join()
            .unwrap();
            // The thread was not ended: somebody comes there again.
            while !(0..100).any(|_| go(|| thread::current().id()).join().unwrap() == mine) {
                sleep(Duration::from_micros(100));
            }
        });
    }
}

/// A thread that a goroutine has changed and not unlocked is not used again (go#28979): its name here.
#[test]
fn the_thread_of_a_locked_goroutine_ends_with_it() {
    for procs in PROCS {
        run(procs, || {
            // The thread of `run` cannot end.
            lock_os_thread();
            let ended: Vec<_> = (0..20)
                .map(|_| {
                    go(|| {
                        lock_os_thread();
                        // SAFETY: the name is shorter than sixteen bytes, with its end.
                        unsafe { libc::prctl(libc::PR_SET_NAME, c"changed".as_ptr()) };
                        sleep(Duration::from_micros(100));
                    })
                })
                .collect();
            ended.into_iter().for_each(|handle| handle.join().unwrap());
            for _ in 0..200 {
                go(|| {
                    let mut name = [0_u8; 16];
                    // SAFETY: the buffer has room for a name.
                    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
                    assert!(!name.starts_with(b"changed"));
                })
                .join()
                .unwrap();
            }
            // The threads themselves go.
            let is_there = |task: std::fs::DirEntry| {
                std::fs::read_to_string(task.path().join("comm")).is_ok_and(|n| n == "changed\n")
            };
            while std::fs::read_dir("/proc/self/task")
                .unwrap()
                .filter_map(Result::ok)
                .any(is_there)
            {
                sleep(Duration::from_millis(1));
            }
        });
    }
}

/// The main goroutine begins on the thread that called `run`, and others run elsewhere while it is locked.
#[test]
fn the_main_goroutine_can_be_locked_to_the_first_thread() {
    for procs in PROCS {
        let caller = thread::current().id();
        run(procs, || {
            lock_os_thread();
            assert_eq!(thread::current().id(), caller);
            for _ in 0..20 {
                assert_ne!(go(|| thread::current().id()).join().unwrap(), caller);
                sleep(Duration::from_micros(50));
                assert_eq!(thread::current().id(), caller);
            }
        });
    }
}

/// Another goroutine that is locked to the thread of `run` ends: that thread waits for the end, and `run`
/// returns.
#[test]
fn the_thread_of_run_outlives_a_goroutine_that_was_locked_to_it() {
    let mut seen = 0;
    for procs in PROCS {
        for _ in 0..20 {
            let caller = thread::current().id();
            seen += usize::from(run(procs, || {
                let was_there = go(move || {
                    lock_os_thread();
                    yield_now();
                    thread::current().id() == caller
                })
                .join()
                .unwrap();
                (0..20).for_each(|_| go(|| sleep(Duration::from_micros(10))).join().unwrap());
                was_there
            }));
        }
    }
    assert!(seen > 0, "no goroutine was locked to the thread of run");
}

/// More locked goroutines than Ps, which talk: each is woken on its own thread, over and over.
#[test]
fn many_locked_goroutines_take_turns() {
    for procs in PROCS {
        let rounds = Arc::new(AtomicUsize::new(0));
        run(procs, || {
            const RING: usize = 10;
            let channels: Vec<_> = (0..RING).map(|_| channel::<usize>(1)).collect();
            let all: Vec<_> = (0..RING)
                .map(|i| {
                    let receiver = channels[i].1.clone();
                    let sender = channels[(i + 1) % RING].0.clone();
                    let rounds = Arc::clone(&rounds);
                    go(move || {
                        lock_os_thread();
                        let mine = thread::current().id();
                        while let Ok(left) = receiver.recv() {
                            assert_eq!(thread::current().id(), mine);
                            rounds.fetch_add(1, SeqCst);
                            if left == 0 {
                                break;
                            }
                            sender.send(left - 1).unwrap();
                            if left < RING {
                                break;
                            }
                        }
                    })
                })
                .collect();
            channels[0].0.send(499).unwrap();
            all.into_iter().for_each(|handle| handle.join().unwrap());
        });
        assert_eq!(rounds.load(SeqCst), 500);
    }
}

/// Locked goroutines that wait, run and are in calls when main returns are ended.
#[test]
fn locked_goroutines_end_with_the_runtime() {
    for procs in PROCS {
        for _ in 0..20 {
            let dropped = Arc::new(AtomicUsize::new(0));
            run(procs, || {
                for kind in 0..6 {
                    let dropped = Arc::clone(&dropped);
                    go(move || {
                        lock_os_thread();
                        let _counted = common::OnDrop(|| {
                            dropped.fetch_add(1, SeqCst);
                        });
                        loop {
                            match kind % 3 {
                                0 => gmp_runtime::park(),
                                1 => yield_now(),
                                _ => blocking(|| thread::sleep(Duration::from_micros(300))),
                            }
                        }
                    });
                }
                sleep(Duration::from_micros(500));
            });
            assert!(dropped.load(SeqCst) <= 6);
        }
    }
}

/// An M that waits for its goroutine's turn is asleep, and one whose thread has ended is none.
#[test]
fn a_deadlock_of_locked_goroutines_is_reported() {
    const NAME: &str = "a_deadlock_of_locked_goroutines_is_reported";
    if let Some(case) = child_case() {
        let runtime = Runtime::builder()
            .procs(2)
            .threads_wake_goroutines(false)
            .build()
            .unwrap();
        // SAFETY: nothing of a thread lives across calls that may park.
        unsafe {
            runtime.run(|| {
                let one = go(|| {
                    lock_os_thread();
                    sleep(Duration::from_millis(1));
                });
                one.join().unwrap();
                let (_sender, receiver) = channel::<u8>(0);
                if case == "main locked" {
                    lock_os_thread();
                }
                go(|| {
                    lock_os_thread();
                    gmp_runtime::park()
                });
                let _ = receiver.recv();
            })
        };
        return;
    }
    for case in ["main locked", "another locked"] {
        let output = child(NAME, case).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("all goroutines are asleep"), "{text}");
    }
    succeed(&mut child(
        "locks_nest_and_the_last_unlock_frees_the_thread",
        "run",
    ));
}
