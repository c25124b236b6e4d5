//! What becomes of goroutines, threads and memory when main returns.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::io::{BufRead, BufReader};
use std::panic::{self, AssertUnwindSafe};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use common::{Drops, OnDrop, PROCS, child, child_case, kill, run, stderr, succeed};
use gmp_runtime::{Runtime, channel, current, go, metrics, park, sleep, yield_now};

/// Lets other goroutines come to where they wait.
fn let_others_wait() {
    for _ in 0..200 {
        yield_now();
    }
}

#[test]
fn destructors_of_those_that_wait_run_once() {
    for procs in PROCS {
        for _ in 0..20 {
            let drops = Drops::default();
            run(procs, || {
                let (sender, receiver) = channel::<common::Counted>(0);
                let (never, nothing) = channel::<common::Counted>(0);
                for i in 0..10 {
                    let (a, b, c, d, e) = (
                        drops.value(i),
                        drops.value(i),
                        drops.value(i),
                        drops.value(i),
                        drops.value(i),
                    );
                    let (to_send, sender) = (drops.value(i), sender.clone());
                    go(move || {
                        let _kept = a;
                        let _ = sender.send(to_send);
                    });
                    let nothing = nothing.clone();
                    go(move || {
                        let _kept = b;
                        let _ = nothing.recv();
                    });
                    go(move || {
                        let _kept = c;
                        sleep(Duration::from_secs(1_000_000));
                    });
                    go(move || {
                        let _kept = d;
                        park();
                    });
                    go(move || {
                        let _kept = e;
                        let _ = go(park).join();
                    });
                }
                let_others_wait();
                drop((sender, receiver, never, nothing));
            });
            assert_eq!((drops.made(), drops.alive()), (60, 0), "{procs} Ps");
        }
    }
}

#[test]
fn closures_that_never_ran_are_dropped() {
    for procs in PROCS {
        let mut never_ran = 0;
        for _ in 0..20 {
            let drops = Drops::default();
            let ran = AtomicUsize::new(0);
            let ran_address = std::ptr::from_ref(&ran) as usize;
            run(procs, || {
                for i in 0..1_000 {
                    let value = drops.value(i);
                    let large = [0_u8; 200];
                    go(move || {
                        // SAFETY: the counter outlives the runtime.
                        let ran = unsafe { &*(ran_address as *const AtomicUsize) };
                        ran.fetch_add(1, SeqCst);
                        std::hint::black_box(large);
                        drop(value);
                    });
                }
            });
            assert_eq!((drops.made(), drops.alive()), (1_000, 0));
            never_ran += 1_000 - ran.load(SeqCst);
        }
        assert!(procs > 1 || never_ran > 0, "main never yielded");
    }
}

#[test]
fn yielders_end() {
    for procs in PROCS {
        let drops = Drops::default();
        run(procs, || {
            for i in 0..50 {
                let value = drops.value(i);
                go(move || {
                    let _kept = value;
                    loop {
                        yield_now();
                    }
                });
            }
            let_others_wait();
        });
        assert_eq!((drops.made(), drops.alive()), (50, 0));
    }
}

#[test]
fn one_that_waits_while_it_unwinds_is_left_alone() {
    for procs in PROCS {
        let drops = Drops::default();
        run(procs, || {
            for i in 0..10 {
                let (before, after) = (drops.value(i), drops.value(i));
                go(move || {
                    let _never_dropped = before;
                    let _guard = OnDrop(park);
                    let _dropped = after;
                    park();
                });
            }
            let_others_wait();
        });
        assert_eq!((drops.made(), drops.alive()), (20, 10));
        // This thread is as it was.
        assert!(!thread::panicking(), "{procs} Ps");
    }
}

#[test]
fn one_that_panicked_and_waits_is_left_alone() {
    if child_case().is_none() {
        succeed(&mut child(
            "one_that_panicked_and_waits_is_left_alone",
            "run",
        ));
        return;
    }
    for procs in PROCS {
        let drops = Drops::default();
        run(procs, || {
            let value = drops.value(0);
            go(move || {
                let _never_dropped = value;
                let _guard = OnDrop(park);
                panic!("on purpose");
            });
            let_others_wait();
        });
        assert_eq!((drops.made(), drops.alive()), (1, 1));
    }
}

/// Calls back from C: sorting compares, and comparing waits.
fn wait_in_c(compare: unsafe extern "C" fn(*const libc::c_void, *const libc::c_void) -> i32) {
    let mut numbers = [2, 1, 3];
    // SAFETY: there are three numbers, which it compares by their addresses.
    unsafe {
        libc::qsort(
            numbers.as_mut_ptr().cast(),
            numbers.len(),
            size_of::<i32>(),
            Some(compare),
        );
    }
}

unsafe extern "C" fn wait_to_compare(_: *const libc::c_void, _: *const libc::c_void) -> i32 {
    park();
    0
}

/// With something to destroy first, which hides from the tables that nothing may unwind through it.
unsafe extern "C" fn keep_and_wait(_: *const libc::c_void, _: *const libc::c_void) -> i32 {
    let _kept = OnDrop(|| println!("destroyed"));
    park();
    0
}

/// Of Rust, but as C would have it.
#[inline(never)]
extern "C" fn wait_without_c() {
    park();
}

#[test]
fn those_who_cannot_be_ended_are_counted_and_named() {
    const NAME: &str = "those_who_cannot_be_ended_are_counted_and_named";
    if let Some(procs) = child_case() {
        let drops = Drops::default();
        let counted = drops.clone();
        let handle = run(procs.parse().unwrap(), move || {
            let value = counted.value(0);
            let left = go(move || {
                let _never_dropped = value;
                wait_in_c(wait_to_compare);
            });
            go(|| wait_in_c(keep_and_wait));
            go(|| wait_without_c());
            go(|| {
                let _guard = OnDrop(park);
                panic!("on purpose");
            });
            go(|| {
                let _guard = OnDrop(park);
                sleep(Duration::from_secs(1_000));
            });
            // Those can.
            for i in 0..20 {
                let value = counted.value(i);
                go(move || {
                    let _kept = value;
                    park();
                });
            }
            while metrics().count("/sched/goroutines/waiting:goroutines") < Some(25) {
                yield_now();
            }
            left
        });
        assert!(handle.join().is_err());
        println!("alive {}", drops.alive());
        return;
    }
    for procs in PROCS {
        let output = succeed(&mut child(NAME, &procs.to_string()));
        let (said, told) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
        assert!(said.contains("alive 1\n"), "{said}{told}");
        let mut lines = told.lines().skip_while(|line| !line.starts_with("gmp: "));
        let first = lines.next().unwrap();
        let begin = "gmp: main has returned; 5 goroutines could not be ended, ";
        assert!(first.starts_with(begin), "{told}");
        let mut why: Vec<_> = lines
            .map(|line| {
                let (who, rest) = line.split_once(", created at ").unwrap();
                assert!(who.starts_with("goroutine "), "{line}");
                let (_, status) = who.split_once(' ').unwrap().1.split_once(' ').unwrap();
                let (place, why) = rest.split_once(": ").unwrap();
                assert!(
                    place.starts_with("gmp-runtime/tests/shutdown.rs:"),
                    "{line}"
                );
                format!("{status} {why}")
            })
            .collect();
        why.sort_unstable();
        let stack = "[park] a function on its stack, of C perhaps, cannot be unwound";
        assert_eq!(
            why,
            [
                stack,
                stack,
                stack,
                "[park] it waits again after it was unwound",
                "[park] it waits while it unwinds from a panic",
            ]
        );
    }
}

#[test]
fn whoever_catches_the_end_does_not_stop_it() {
    for procs in PROCS {
        let caught = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&caught);
        run(procs, || {
            go(move || {
                for _ in 0..3 {
                    if panic::catch_unwind(park).is_err() {
                        counter.fetch_add(1, SeqCst);
                    }
                }
            });
            let_others_wait();
        });
        // It waits again after the first time, and is left alone.
        assert_eq!(caught.load(SeqCst), 1);
    }
}

#[test]
fn a_handle_to_one_that_was_ended_says_so() {
    for procs in PROCS {
        let drops = Drops::default();
        let (waiting, unstarted, left_alone) = run(procs, || {
            let value = drops.value(0);
            let waiting = go(move || {
                let _kept = value;
                park();
            });
            let left_alone = go(|| {
                let _guard = OnDrop(park);
                park();
            });
            let_others_wait();
            let value = drops.value(0);
            let unstarted = go(move || {
                let _kept = value;
                // Where another P starts it before the end.
                park();
            });
            (waiting, unstarted, left_alone)
        });
        assert_eq!((drops.made(), drops.alive()), (2, 0));
        assert!(waiting.is_finished() && unstarted.is_finished());
        assert!(waiting.join().is_err());
        assert!(unstarted.join().is_err());
        // A thread that waits for one that will never end must not wait for ever.
        assert!(left_alone.is_finished());
        assert!(left_alone.join().is_err());
    }
}

#[test]
fn results_that_nobody_takes_before_the_end_can_be_taken_after_it() {
    for procs in PROCS {
        let drops = Drops::default();
        let handles = run(procs, || {
            let handles: Vec<_> = (0..100)
                .map(|i| {
                    let value = drops.value(i);
                    go(move || value)
                })
                .collect();
            while !handles.iter().all(|handle| handle.is_finished()) {
                yield_now();
            }
            handles
        });
        assert_eq!(drops.alive(), 100);
        let mut sum = 0;
        for (i, handle) in handles.into_iter().enumerate() {
            if i % 2 == 0 {
                sum += handle.join().unwrap().number;
            }
        }
        assert_eq!(sum, 49 * 50);
        assert_eq!((drops.made(), drops.alive()), (100, 0));
    }
}

#[test]
fn destructors_may_use_the_runtime_at_the_end() {
    for procs in PROCS {
        for _ in 0..10 {
            let drops = Drops::default();
            let counted = drops.clone();
            // Handles that stay keep those who end first from being used again.
            let parked = run(procs, || {
                let (sender, receiver) = channel::<common::Counted>(0);
                let (wakes, parked): (Vec<_>, Vec<_>) = (0..10)
                    .map(|i| {
                        let value = counted.value(i);
                        let handle = go(move || {
                            let _kept = value;
                            park();
                        });
                        (handle.goroutine(), handle)
                    })
                    .unzip();
                // Half of them end before those they wake, half after.
                for half in [0, 1] {
                    for i in 0..20 {
                        let wakes = wakes.clone();
                        let counted = counted.clone();
                        let sender = sender.clone();
                        let receiver = receiver.clone();
                        go(move || {
                            let _wake = OnDrop(move || {
                                wakes.iter().for_each(|goroutine| goroutine.unpark());
                            });
                            let more = counted.clone();
                            let _spawn = OnDrop(move || {
                                for n in 0..20 {
                                    let value = more.value(n);
                                    go(move || drop(value));
                                }
                            });
                            let _send = OnDrop(move || {
                                let _ = sender.try_send(counted.value(i));
                            });
                            if half == 0 {
                                park();
                            } else {
                                let _ = receiver.recv();
                            }
                        });
                    }
                    let_others_wait();
                }
                // Goroutines that wait in queues while others end.
                for i in 0..1_000 {
                    let value = counted.value(i);
                    go(move || {
                        let _kept = value;
                        park();
                    });
                }
                drop((sender, receiver));
                parked
            });
            assert!(parked.into_iter().all(|handle| handle.join().is_err()));
            assert!(drops.made() > 1_000);
            assert_eq!(drops.alive(), 0, "{procs} Ps");
        }
    }
}

#[test]
fn destructors_may_drop_handles_and_make_many_goroutines_at_the_end() {
    for procs in PROCS {
        let drops = Drops::default();
        let counted = drops.clone();
        run(procs, || {
            // On the global queue, on the ring, and waiting.
            let queued: Vec<_> = (0..1_000)
                .map(|i| {
                    let value = counted.value(i);
                    go(move || value)
                })
                .collect();
            let mut queued = Some(queued);
            for _ in 0..5 {
                let counted = counted.clone();
                let handles = queued.take();
                go(move || {
                    let _guard = OnDrop(move || {
                        drop(counted.value(0));
                        for i in 0..700 {
                            let value = counted.value(i);
                            drop(go(move || value));
                        }
                    });
                    let _handles = handles;
                    park();
                });
            }
        });
        assert_eq!(drops.alive(), 0, "{procs} Ps");
        assert!(drops.made() >= 1_000);
    }
}

/// Threads that are no Ms reach for goroutines while their runtime ends.
#[test]
fn threads_may_wake_goroutines_while_the_runtime_ends() {
    const ROUNDS: usize = 20;
    for procs in PROCS {
        let drops = Drops::default();
        for _ in 0..ROUNDS {
            let stop = Arc::new(AtomicBool::new(false));
            let (sender, receiver) = channel::<common::Counted>(0);
            let (main_sender, main_receiver) = channel::<usize>(0);
            let start = Arc::new(Barrier::new(3));
            let threads: Vec<_> = (0..2)
                .map(|kind| {
                    let (stop, start) = (Arc::clone(&stop), Arc::clone(&start));
                    let (sender, main_sender) = (sender.clone(), main_sender.clone());
                    let drops = drops.clone();
                    thread::spawn(move || {
                        start.wait();
                        let mut n = 0;
                        while !stop.load(SeqCst) {
                            n += 1;
                            if kind == 0 {
                                let _ = sender.try_send(drops.value(n));
                            } else {
                                let _ = main_sender.try_send(n);
                            }
                        }
                        n
                    })
                })
                .collect();
            run(procs, || {
                for _ in 0..8 {
                    let receiver = receiver.clone();
                    go(move || while receiver.recv().is_ok() {});
                }
                start.wait();
                assert!(main_receiver.recv().unwrap() > 0);
            });
            stop.store(true, SeqCst);
            for thread in threads {
                thread.join().unwrap();
            }
            drop((sender, receiver));
            assert_eq!(drops.alive(), 0);
        }
        assert!(drops.made() > 0);
    }
}

#[test]
fn threads_may_unpark_and_join_while_the_runtime_ends() {
    const ROUNDS: usize = 20;
    for procs in PROCS {
        let mut joined = 0;
        for _ in 0..ROUNDS {
            let stop = Arc::new(AtomicBool::new(false));
            let (unparker, joiner) = run(procs, || {
                let parked: Vec<_> = (0..8)
                    .map(|_| {
                        go(|| {
                            loop {
                                park();
                            }
                        })
                    })
                    .collect();
                let handles: Vec<_> = parked.iter().map(|handle| handle.goroutine()).collect();
                drop(parked);
                let ending = go(|| {
                    yield_now();
                    7
                });
                let stopped = Arc::clone(&stop);
                let unparker = thread::spawn(move || {
                    while !stopped.load(SeqCst) {
                        handles.iter().for_each(|goroutine| goroutine.unpark());
                    }
                });
                let joiner = thread::spawn(move || ending.join());
                for _ in 0..20 {
                    yield_now();
                }
                (unparker, joiner)
            });
            joined += usize::from(matches!(joiner.join().unwrap(), Ok(7)));
            stop.store(true, SeqCst);
            unparker.join().unwrap();
        }
        assert!(joined > 0);
    }
}

#[test]
fn a_thread_that_waits_for_one_that_never_runs_is_told() {
    // One that is kept from running for too long is preempted for, and a thread that sleeps loses its P: so it
    // computes, for a moment, and more than once.
    let told = (0..50).any(|_| {
        let joiner = run(1, || {
            let handle = go(|| ());
            let joiner = thread::spawn(move || handle.join());
            // The main goroutine keeps the only P, so the other one does not start.
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(2) {
                std::hint::spin_loop();
            }
            joiner
        });
        joiner.join().unwrap().is_err()
    });
    assert!(told);
}

#[test]
fn a_thread_that_waits_for_one_that_cannot_be_ended_is_told() {
    for procs in PROCS {
        let joiner = run(procs, || {
            let handle = go(|| {
                let _guard = OnDrop(park);
                park();
            });
            let_others_wait();
            let joiner = thread::spawn(move || handle.join());
            thread::sleep(Duration::from_millis(20));
            joiner
        });
        assert!(joiner.join().unwrap().is_err());
    }
}

#[test]
fn one_runtime_after_the_other() {
    let mut sum = 0;
    for round in 0..100 {
        let procs = PROCS[round % PROCS.len()];
        sum += run(procs, || {
            let handles: Vec<_> = (0..50_u64)
                .map(|i| {
                    go(move || {
                        yield_now();
                        i
                    })
                })
                .collect();
            go(park);
            handles.into_iter().map(|h| h.join().unwrap()).sum::<u64>()
        });
    }
    assert_eq!(sum, 100 * 49 * 25);
}

#[test]
fn two_runtimes_at_once_talk_over_a_channel() {
    const VALUES: u64 = 5_000;
    for procs in PROCS {
        let (sender, receiver) = channel::<u64>(4);
        let producer = thread::spawn(move || {
            run(procs, || {
                let producers: Vec<_> = (0..4)
                    .map(|_| {
                        let sender = sender.clone();
                        go(move || {
                            for i in 0..VALUES / 4 {
                                sender.send(i).unwrap();
                            }
                        })
                    })
                    .collect();
                drop(sender);
                producers.into_iter().for_each(|p| p.join().unwrap());
            });
        });
        let (count, sum) = run(procs, || {
            let consumers: Vec<_> = (0..3)
                .map(|_| {
                    let receiver = receiver.clone();
                    go(move || receiver.iter().fold((0, 0), |(n, sum), i| (n + 1, sum + i)))
                })
                .collect();
            consumers
                .into_iter()
                .map(|consumer| consumer.join().unwrap())
                .fold((0, 0), |(n, sum), (m, more)| (n + m, sum + more))
        });
        producer.join().unwrap();
        let each = VALUES / 4;
        assert_eq!((count, sum), (VALUES, 4 * (each * (each - 1) / 2)));
    }
}

/// In a process of its own, because other tests have threads too.
#[test]
fn no_thread_and_no_mapping_is_left() {
    if child_case().is_none() {
        succeed(&mut child("no_thread_and_no_mapping_is_left", "run"));
        return;
    }
    fn threads() -> usize {
        std::fs::read_dir("/proc/self/task").unwrap().count()
    }
    /// A thread that was joined may still be on its way out.
    fn threads_become(expected: usize) -> bool {
        for _ in 0..2_000 {
            if threads() == expected {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }
    fn mapped_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("VmSize:")).unwrap();
        line.split_ascii_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap()
    }
    let once = || {
        run(4, || {
            let busy: Vec<_> = (0..100)
                .map(|_| go(|| (0..20).for_each(|_| yield_now())))
                .collect();
            go(|| sleep(Duration::from_secs(1_000)));
            go(park);
            busy.into_iter().for_each(|handle| handle.join().unwrap());
        });
    };
    let before = threads();
    once();
    assert!(threads_become(before), "{} threads", threads());
    let mapped = mapped_kib();
    for _ in 0..30 {
        once();
    }
    assert!(threads_become(before), "{} threads", threads());
    // A runtime that stayed would keep its table of goroutines: gigabytes of address space each.
    assert!(
        mapped_kib() < mapped + (1 << 20),
        "{} KiB became {} KiB",
        mapped,
        mapped_kib()
    );
}

#[test]
fn main_may_end_on_any_thread_and_panic() {
    for procs in PROCS {
        for _ in 0..20 {
            let result = panic::catch_unwind(AssertUnwindSafe(|| {
                run(procs, || {
                    let others: Vec<_> = (0..10)
                        .map(|_| go(|| (0..10).for_each(|_| yield_now())))
                        .collect();
                    others.into_iter().for_each(|handle| handle.join().unwrap());
                    panic::resume_unwind(Box::new(String::from("main's")));
                })
            }));
            assert_eq!(*result.unwrap_err().downcast::<String>().unwrap(), "main's");
            assert!(!thread::panicking());
        }
    }
}

#[test]
fn a_runtime_that_never_runs_leaves_nothing() {
    for _ in 0..50 {
        drop(Runtime::builder().procs(4).build().unwrap());
    }
    assert!(current().is_none());
}

#[test]
fn who_is_waited_for_at_the_end_is_told() {
    const NAME: &str = "who_is_waited_for_at_the_end_is_told";
    if let Some(procs) = child_case() {
        run(procs.parse().unwrap(), || {
            let (begun, beginnings) = channel(1);
            go(move || {
                begun.send(()).unwrap();
                loop {
                    std::hint::spin_loop();
                }
            });
            beginnings.recv().unwrap();
        });
        return;
    }
    for procs in PROCS {
        let mut process = child(NAME, &procs.to_string())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        // A sanitizer may have something to say before.
        let told: Vec<_> = lines
            .map(Result::unwrap)
            .skip_while(|line| !line.starts_with("gmp: "))
            .take(2)
            .collect();
        kill(process);
        assert!(told[0].starts_with("gmp: main has returned; "), "{told:?}");
        assert!(told[1].starts_with("goroutine "), "{told:?}");
        let state = " [running], created at gmp-runtime/tests/shutdown.rs:";
        assert!(told[1].contains(state), "{told:?}");
    }
}
