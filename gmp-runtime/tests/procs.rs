//! How many Ps there are, changed while goroutines run.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::{child, child_case, run, stderr, succeed};
use gmp_runtime::{
    blocking, channel, go, gomaxprocs, num_cpu, num_goroutine, proc_id, set_max_threads, sleep,
    yield_now,
};

/// So many goroutines run at once: each waits for the others without giving up its P.
fn run_at_once(count: usize) -> HashSet<u32> {
    let running = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..count)
        .map(|_| {
            let running = Arc::clone(&running);
            go(move || {
                running.fetch_add(1, SeqCst);
                while running.load(SeqCst) < count {
                    thread::yield_now();
                }
                proc_id().unwrap()
            })
        })
        .collect();
    handles
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .collect()
}

#[test]
fn as_many_run_at_once_as_there_are_ps() {
    run(1, || {
        for procs in [4, 1, 2, 8, 3, 1, 5] {
            gomaxprocs(procs);
            assert_eq!(gomaxprocs(0), procs);
            assert_eq!(run_at_once(procs).len(), procs);
            // Ps that are to go do so as soon as they have nothing to do.
            yield_now();
            for _ in 0..20 {
                let here = go(|| proc_id().unwrap()).join().unwrap();
                assert!((here as usize) < 8);
            }
            sleep(Duration::from_millis(1));
            let used: HashSet<u32> = (0..200)
                .map(|_| go(|| proc_id().unwrap()).join().unwrap())
                .collect();
            assert!(
                used.iter().all(|&p| (p as usize) < procs),
                "{procs}: {used:?}"
            );
        }
    });
}

/// Channels, sleeps, calls and yields go on while the number changes all the time, and nothing is lost.
#[test]
fn nothing_is_lost_while_the_number_changes() {
    const WORKERS: usize = 24;
    const ROUNDS: usize = 150;
    let total = run(2, || {
        let stop = Arc::new(AtomicBool::new(false));
        let changing = {
            let stop = Arc::clone(&stop);
            go(move || {
                let mut changes = 0;
                while !stop.load(SeqCst) {
                    for procs in [1, 5, 2, 8, 3, 1, 16, 4] {
                        gomaxprocs(procs);
                        changes += 1;
                        match changes % 3 {
                            0 => sleep(Duration::from_micros(100)),
                            1 => yield_now(),
                            _ => blocking(|| thread::sleep(Duration::from_micros(50))),
                        }
                    }
                }
                changes
            })
        };
        let (sender, receiver) = channel(3);
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let sender = sender.clone();
                go(move || {
                    for round in 0..ROUNDS {
                        match (round + worker) % 5 {
                            0 => sleep(Duration::from_micros(30)),
                            1 => blocking(|| thread::sleep(Duration::from_micros(60))),
                            2 => (0..10).for_each(|_| yield_now()),
                            3 => assert_eq!(go(move || round).join().unwrap(), round),
                            _ => {
                                // A burst that does not fit the ring.
                                if round % 50 == 4 {
                                    let all: Vec<_> = (0..400).map(|i| go(move || i)).collect();
                                    let sum: usize =
                                        all.into_iter().map(|handle| handle.join().unwrap()).sum();
                                    assert_eq!(sum, 400 * 399 / 2);
                                }
                            }
                        }
                        sender.send(1).unwrap();
                    }
                })
            })
            .collect();
        drop(sender);
        let total: usize = receiver.iter().sum();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        stop.store(true, SeqCst);
        assert!(changing.join().unwrap() > 0);
        total
    });
    assert_eq!(total, WORKERS * ROUNDS);
}

/// Sleepers of a P that goes wake all the same (go#45716): each P has some, and then there is one P only.
#[test]
fn timers_of_ps_that_go_are_kept() {
    for keep_busy in [false, true] {
        run(4, || {
            let begin = Instant::now();
            let slept = Arc::new(AtomicUsize::new(0));
            let barrier = Arc::new(AtomicUsize::new(0));
            let handles: Vec<_> = (0..4)
                .map(|_| {
                    let (slept, barrier) = (Arc::clone(&slept), Arc::clone(&barrier));
                    go(move || {
                        barrier.fetch_add(1, SeqCst);
                        while barrier.load(SeqCst) < 4 {
                            thread::yield_now();
                        }
                        for _ in 0..10 {
                            let slept = Arc::clone(&slept);
                            go(move || {
                                sleep(Duration::from_millis(30));
                                slept.fetch_add(1, SeqCst);
                            });
                        }
                    })
                })
                .collect();
            handles
                .into_iter()
                .for_each(|handle| handle.join().unwrap());
            sleep(Duration::from_millis(1));
            gomaxprocs(1);
            while slept.load(SeqCst) < 40 {
                assert!(
                    begin.elapsed() < Duration::from_secs(60),
                    "sleepers were lost"
                );
                if keep_busy {
                    yield_now();
                } else {
                    sleep(Duration::from_millis(5));
                }
            }
        });
    }
}

/// The number is changed by many at once, up and down.
#[test]
fn changes_at_once_agree() {
    run(4, || {
        let changers: Vec<_> = (0..8)
            .map(|i| {
                go(move || {
                    for round in 0..200 {
                        let before = gomaxprocs(1 + (i * 7 + round * 3) % 9);
                        assert!((1..=9).contains(&before));
                        if round % 4 == 0 {
                            yield_now();
                        }
                    }
                })
            })
            .collect();
        changers
            .into_iter()
            .for_each(|changer| changer.join().unwrap());
        for procs in [6, 2] {
            gomaxprocs(procs);
            assert_eq!(run_at_once(procs).len(), procs);
        }
    });
}

#[test]
fn counts_are_told() {
    run(2, || {
        assert!(num_cpu() >= 1);
        assert_eq!(gomaxprocs(0), 2);
        assert_eq!(gomaxprocs(100_000), 2);
        assert_eq!(gomaxprocs(2), 4096);
        assert_eq!(num_goroutine(), 1);
        let (_sender, receiver) = channel::<u8>(0);
        let waiting: Vec<_> = (0..10)
            .map(|_| {
                let receiver = receiver.clone();
                go(move || receiver.recv())
            })
            .collect();
        assert_eq!(num_goroutine(), 11);
        drop(_sender);
        waiting
            .into_iter()
            .for_each(|handle| assert!(handle.join().unwrap().is_err()));
        while num_goroutine() > 1 {
            yield_now();
        }
        assert_eq!(set_max_threads(500), 10_000);
        assert_eq!(set_max_threads(0), 500);
        assert_eq!(set_max_threads(10_000), 1);
    });
}

/// The process is given a processor more while it runs, and has a P more soon; in a process of its own.
#[test]
fn the_number_follows_the_affinity() {
    const NAME: &str = "the_number_follows_the_affinity";
    if child_case().is_none() {
        succeed(child(NAME, "run").env_remove("GMPMAXPROCS"));
        return;
    }
    // SAFETY: all-zero is a valid set, and the calls get valid ones.
    unsafe {
        let size = size_of::<libc::cpu_set_t>();
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size, &mut all), 0);
        let mut cpus = (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &all));
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpus.next().unwrap(), &mut one);
        assert_eq!(libc::sched_setaffinity(0, size, &one), 0);
        let runtime = gmp_runtime::Runtime::new().unwrap();
        runtime.run(|| {
            assert_eq!((num_cpu(), gomaxprocs(0)), (1, 1));
            for task in std::fs::read_dir("/proc/self/task").unwrap() {
                let task = task.unwrap().file_name().into_string().unwrap();
                // One that has ended meanwhile.
                let _ = libc::sched_setaffinity(task.parse().unwrap(), size, &all);
            }
            let wanted = num_cpu();
            if wanted == 1 {
                println!("there is one processor only, so nothing changes");
            }
            let begun = Instant::now();
            while gomaxprocs(0) != wanted {
                assert!(begun.elapsed() < Duration::from_secs(60));
                sleep(Duration::from_millis(5));
            }
        });
    }
}

/// More goroutines in calls than there may be threads end the process with a word about it; as many do not.
#[test]
fn threads_are_limited() {
    const NAME: &str = "threads_are_limited";
    if let Some(case) = child_case() {
        run(2, || {
            set_max_threads(30);
            let blocked = case.parse().unwrap();
            let (inside, all_inside) = channel(blocked);
            let all: Vec<_> = (0..blocked)
                .map(|_| {
                    let inside = inside.clone();
                    go(move || {
                        blocking(|| {
                            inside.try_send(()).unwrap();
                            thread::sleep(Duration::from_millis(300));
                        })
                    })
                })
                .collect();
            all_inside.iter().take(blocked).for_each(drop);
            all.into_iter().for_each(|handle| handle.join().unwrap());
        });
        return;
    }
    succeed(&mut child(NAME, "20"));
    let output = child(NAME, "60").output().unwrap();
    let text = stderr(&output);
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains("fatal error: thread exhaustion: more than 30 threads"),
        "{text}"
    );
    assert!(text.contains("set_max_threads"), "{text}");
}
