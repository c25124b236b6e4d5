//! Who is woken for what: all Ps come to work when there is work, and nobody is woken for nothing.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use common::{child, child_case, run, succeed};
use gmp_runtime::{channel, go, sleep, yield_now};

/// As many goroutines as Ps, none of which gives up its P until all run: each must find one. Again after
/// every P has been idle.
#[test]
fn all_ps_come_to_work() {
    for procs in [1, 2, 4, 8] {
        let mut rounds = 0;
        run(procs, || {
            for _ in 0..40 {
                let running = Arc::new(AtomicUsize::new(0));
                let all: Vec<_> = (0..procs)
                    .map(|_| {
                        let running = Arc::clone(&running);
                        go(move || {
                            running.fetch_add(1, SeqCst);
                            while running.load(SeqCst) < procs {
                                thread::yield_now();
                            }
                        })
                    })
                    .collect();
                all.into_iter().for_each(|handle| handle.join().unwrap());
                rounds += 1;
                if rounds % 4 == 0 {
                    sleep(Duration::from_millis(1));
                }
            }
        });
        assert_eq!(rounds, 40);
    }
}

/// The same, made ready by channels and by timers instead of new.
#[test]
fn all_ps_come_to_work_for_those_made_ready() {
    for procs in [2, 4] {
        for by_timer in [false, true] {
            let rounds = run(procs, || {
                let running = Arc::new(AtomicUsize::new(0));
                let (done, all_done) = channel::<()>(procs);
                let starts: Vec<_> = (0..procs)
                    .map(|_| {
                        let (start, started) = channel::<usize>(1);
                        let (running, done) = (Arc::clone(&running), done.clone());
                        go(move || {
                            for round in &started {
                                if by_timer {
                                    sleep(Duration::from_micros(100));
                                }
                                running.fetch_add(1, SeqCst);
                                while running.load(SeqCst) < procs * round {
                                    thread::yield_now();
                                }
                                done.send(()).unwrap();
                            }
                        });
                        start
                    })
                    .collect();
                let mut rounds = 0;
                for round in 1..=30 {
                    for start in &starts {
                        start.send(round).unwrap();
                    }
                    for _ in 0..procs {
                        all_done.recv().unwrap();
                    }
                    rounds += 1;
                }
                rounds
            });
            assert_eq!(rounds, 30);
        }
    }
}

/// A goroutine that was made ready by one that then keeps its P runs elsewhere.
#[test]
fn what_waits_behind_one_that_keeps_its_p_is_stolen() {
    for procs in [2, 4] {
        for _ in 0..50 {
            run(procs, || {
                let ran = Arc::new(AtomicUsize::new(0));
                for _ in 0..300 {
                    let ran = Arc::clone(&ran);
                    go(move || {
                        ran.fetch_add(1, SeqCst);
                    });
                }
                // Not a call into the runtime: `runnext`, the ring and the global queue are taken by
                // others.
                while ran.load(SeqCst) < 300 {
                    thread::yield_now();
                }
            });
        }
    }
}

/// The same of one that waited: it is made ready by one that keeps its P, where it comes next.
#[test]
fn who_is_woken_by_one_that_keeps_its_p_runs_elsewhere() {
    const ROUNDS: usize = 200;
    for procs in [2, 4] {
        let ran = run(procs, || {
            let ran = Arc::new(AtomicUsize::new(0));
            let (wake, wakes) = channel::<()>(1);
            let counter = Arc::clone(&ran);
            let waiting = go(move || {
                for () in &wakes {
                    counter.fetch_add(1, SeqCst);
                }
            });
            for round in 1..=ROUNDS {
                wake.send(()).unwrap();
                while ran.load(SeqCst) < round {
                    thread::yield_now();
                }
            }
            drop(wake);
            waiting.join().unwrap();
            ran.load(SeqCst)
        });
        assert_eq!(ran, ROUNDS);
    }
}

/// All of this by waking and stealing alone: with preemption, which would move what is overlooked, turned off (go#60693).
#[test]
fn work_is_found_without_preemption() {
    if child_case().is_none() {
        let mut child = child("work_is_found_without_preemption", "run");
        succeed(child.env("GMPDEBUG", "asyncpreemptoff=1"));
        return;
    }
    all_ps_come_to_work();
    all_ps_come_to_work_for_those_made_ready();
    what_waits_behind_one_that_keeps_its_p_is_stolen();
    who_is_woken_by_one_that_keeps_its_p_runs_elsewhere();
}

#[test]
fn work_spreads_over_threads() {
    let threads = run(4, || {
        let running = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..4)
            .map(|_| {
                let running = Arc::clone(&running);
                go(move || {
                    running.fetch_add(1, SeqCst);
                    while running.load(SeqCst) < 4 {
                        thread::yield_now();
                    }
                    thread::current().id()
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap())
            .collect::<HashSet<_>>()
    });
    assert_eq!(threads.len(), 4);
}

/// How often threads of this process gave up their processor to wait, and how often they were made to.
fn context_switches() -> (i64, i64) {
    // SAFETY: getrusage fills the record that it is given.
    unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        (usage.ru_nvcsw, usage.ru_nivcsw)
    }
}

/// In a process of its own: other tests switch, too.
#[test]
fn an_idle_process_does_nothing() {
    if child_case().is_none() {
        succeed(&mut child("an_idle_process_does_nothing", "run"));
        return;
    }
    for procs in [1, 2, 4] {
        run(procs, || {
            // Every P has had work.
            let work: Vec<_> = (0..100)
                .map(|_| go(|| (0..10).for_each(|_| yield_now())))
                .collect();
            work.into_iter().for_each(|handle| handle.join().unwrap());
            go(|| sleep(Duration::from_secs(100_000)));
            sleep(Duration::from_millis(20));
            let before = context_switches();
            sleep(Duration::from_millis(600));
            let after = context_switches();
            let waits = after.0 - before.0;
            assert!(
                waits < 20,
                "{waits} waits of an idle process with {procs} Ps"
            );
        });
    }
}

/// A goroutine that yields in a loop wakes nobody, however many Ps are idle; nor do two on two Ps.
#[test]
fn yielding_wakes_nobody() {
    const YIELDS: usize = 200_000;
    if child_case().is_none() {
        succeed(&mut child("yielding_wakes_nobody", "run"));
        return;
    }
    for (procs, goroutines) in [(4, 1), (2, 2), (4, 2)] {
        run(procs, || {
            sleep(Duration::from_millis(5));
            let before = context_switches();
            let yielders: Vec<_> = (0..goroutines)
                .map(|_| go(|| (0..YIELDS).for_each(|_| yield_now())))
                .collect();
            yielders
                .into_iter()
                .for_each(|handle| handle.join().unwrap());
            let waits = context_switches().0 - before.0;
            assert!(
                waits < (YIELDS / 100) as i64,
                "{waits} waits for {goroutines} times {YIELDS} yields on {procs} Ps"
            );
        });
    }
}

/// A pair that talks wakes the idle again and again, but each of them looks around before it sleeps.
// Perturbing changes the number of switches.
#[cfg(not(gmp_sched_fuzz))]
#[test]
fn talking_wakes_less_than_once_a_message() {
    const ROUNDS: usize = 100_000;
    if child_case().is_none() {
        succeed(&mut child("talking_wakes_less_than_once_a_message", "run"));
        return;
    }
    for procs in [1, 2, 4] {
        run(procs, || {
            let (ping, pings) = channel::<()>(0);
            let (pong, pongs) = channel::<()>(0);
            go(move || while pings.recv().is_ok() && pong.send(()).is_ok() {});
            let before = context_switches();
            for _ in 0..ROUNDS {
                ping.send(()).unwrap();
                pongs.recv().unwrap();
            }
            let waits = context_switches().0 - before.0;
            assert!(
                waits < ROUNDS as i64,
                "{waits} waits for {ROUNDS} round trips on {procs} Ps"
            );
        });
    }
}
