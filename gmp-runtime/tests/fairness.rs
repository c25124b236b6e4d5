//! Who runs next, and that everybody does: `runnext`, the ring, the global queue.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use common::run;
use gmp_runtime::{Sender, channel, current, go, park, yield_now};

// Perturbing changes the order of runs.
#[cfg(not(gmp_sched_fuzz))]
#[test]
fn the_youngest_runs_next_and_the_others_in_order() {
    run(1, || {
        let (sender, order) = std::sync::mpsc::channel();
        let handles: Vec<_> = (0..5)
            .map(|i| {
                let sender = sender.clone();
                go(move || sender.send(i).unwrap())
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [4, 0, 1, 2, 3]);
    });
}

// Perturbing changes the order of runs.
#[cfg(not(gmp_sched_fuzz))]
#[test]
fn those_who_yield_take_turns() {
    run(1, || {
        let (sender, order) = std::sync::mpsc::channel();
        let handles: Vec<_> = (0..4)
            .map(|i| {
                let sender = sender.clone();
                go(move || {
                    for _ in 0..10 {
                        sender.send(i).unwrap();
                        yield_now();
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        let order: Vec<_> = order.try_iter().collect();
        assert_eq!(order.len(), 40);
        for round in order.chunks(4) {
            assert_eq!(round, &order[..4]);
        }
    });
}

// Perturbing changes the order of runs.
#[cfg(not(gmp_sched_fuzz))]
#[test]
fn one_that_is_made_ready_runs_before_those_that_queue() {
    run(1, || {
        let (sender, order) = std::sync::mpsc::channel();
        let (wake, woken) = channel::<()>(0);
        let to_order = sender.clone();
        let waiting = go(move || {
            woken.recv().unwrap();
            to_order.send("woken").unwrap();
        });
        yield_now();
        let queued: Vec<_> = (0..3)
            .map(|_| {
                let sender = sender.clone();
                go(move || sender.send("queued").unwrap())
            })
            .collect();
        wake.send(()).unwrap();
        waiting.join().unwrap();
        for handle in queued {
            handle.join().unwrap();
        }
        assert_eq!(
            order.try_iter().collect::<Vec<_>>(),
            ["woken", "queued", "queued", "queued"]
        );
    });
}

/// Two that make each other ready are always next, and share a slice; when that is over, after 256 turns, a third one
/// comes to run, long before anybody has to be preempted.
#[test]
fn a_pair_that_talks_does_not_starve_a_third() {
    const MOST: usize = 3 * 256;
    for capacity in [0, 1] {
        let rounds = run(1, || {
            let ran = Arc::new(AtomicBool::new(false));
            let (ping, pings) = channel::<()>(capacity);
            let (pong, pongs) = channel::<()>(capacity);
            let seen = Arc::clone(&ran);
            let one = go(move || {
                let mut rounds = 0;
                while !seen.load(SeqCst) && rounds < MOST {
                    ping.send(()).unwrap();
                    pongs.recv().unwrap();
                    rounds += 1;
                }
                rounds
            });
            let other = go(
                move || {
                    while pings.recv().is_ok() && pong.send(()).is_ok() {}
                },
            );
            let third = go(move || ran.store(true, SeqCst));
            // It was next; now it is the last in the ring.
            go(|| ()).join().unwrap();
            let rounds = one.join().unwrap();
            other.join().unwrap();
            third.join().unwrap();
            rounds
        });
        assert!(rounds < MOST, "the third one never ran");
    }
}

/// As above, with the third one on the global queue from some round on.
#[test]
fn a_pair_that_talks_does_not_starve_the_global_queue() {
    const QUEUED: usize = 1_000;
    const MOST: usize = QUEUED + 3 * 256;
    let rounds = run(1, || {
        let ran = Arc::new(AtomicBool::new(false));
        let (ping, pings) = channel::<()>(0);
        let (pong, pongs) = channel::<()>(0);
        let (seen, flag) = (Arc::clone(&ran), Arc::clone(&ran));
        let third = go(move || {
            park();
            flag.store(true, SeqCst);
        });
        let handle = third.goroutine();
        yield_now();
        let one = go(move || {
            let mut rounds = 0;
            while !seen.load(SeqCst) && rounds < MOST {
                ping.send(()).unwrap();
                pongs.recv().unwrap();
                rounds += 1;
                if rounds == QUEUED {
                    let handle = handle.clone();
                    thread::spawn(move || handle.unpark()).join().unwrap();
                }
            }
            rounds
        });
        let other = go(
            move || {
                while pings.recv().is_ok() && pong.send(()).is_ok() {}
            },
        );
        let rounds = one.join().unwrap();
        other.join().unwrap();
        third.join().unwrap();
        rounds
    });
    assert!((QUEUED..MOST).contains(&rounds), "{rounds} rounds");
}

/// A goroutine that a thread made ready is on the global queue. Whoever yields next takes it along, so it
/// runs before that one runs again; without that it would wait for a 61st turn.
// Perturbing changes the order of runs.
#[cfg(not(gmp_sched_fuzz))]
#[test]
fn who_yields_lets_the_global_queue_run_first() {
    run(1, || {
        let runs = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..10 {
            let stop = Arc::clone(&stop);
            go(move || {
                while !stop.load(SeqCst) {
                    yield_now();
                }
            });
        }
        let (counter, stopped) = (Arc::clone(&runs), Arc::clone(&stop));
        let woken = go(move || {
            while !stopped.load(SeqCst) {
                park();
                counter.fetch_add(1, SeqCst);
            }
        });
        yield_now();
        for round in 1..=50 {
            let handle = woken.goroutine();
            thread::spawn(move || handle.unpark()).join().unwrap();
            yield_now();
            assert_eq!(runs.load(SeqCst), round);
        }
        stop.store(true, SeqCst);
        woken.goroutine().unpark();
        woken.join().unwrap();
    });
}

/// More than a ring on the global queue, and yielders that keep their ring from running empty.
#[test]
fn a_long_global_queue_runs_while_others_yield() {
    run(1, || {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..3 {
            let stop = Arc::clone(&stop);
            go(move || {
                while !stop.load(SeqCst) {
                    yield_now();
                }
            });
        }
        let woken: Vec<_> = (0..1_000).map(|_| go(park)).collect();
        for _ in 0..10 {
            yield_now();
        }
        let handles: Vec<_> = woken.iter().map(|handle| handle.goroutine()).collect();
        thread::spawn(move || handles.iter().for_each(|handle| handle.unpark()))
            .join()
            .unwrap();
        // A share of 128 at most for each of the four that yield.
        for _ in 0..1_000 / 128 + 2 {
            yield_now();
        }
        assert!(woken.iter().all(|handle| handle.is_finished()));
        stop.store(true, SeqCst);
    });
}

/// Nobody yields: each goroutine makes the next one and ends. Every 61st turn is the global queue's.
#[test]
fn the_61st_turn_is_the_global_queues() {
    const MOST: usize = 10_000;
    fn link(turns: Arc<AtomicUsize>, ran: Arc<AtomicBool>, end: Sender<usize>) {
        if ran.load(SeqCst) || turns.fetch_add(1, SeqCst) == MOST {
            end.send(turns.load(SeqCst)).unwrap();
            return;
        }
        go(move || link(turns, ran, end));
        // This one runs next; the link goes to the ring, and so does not share the slice.
        go(|| ());
    }
    for _ in 0..20 {
        let turns = run(1, || {
            let ran = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&ran);
            let woken = go(move || {
                park();
                flag.store(true, SeqCst);
            });
            yield_now();
            let handle = woken.goroutine();
            thread::spawn(move || handle.unpark()).join().unwrap();
            let (end, ended) = channel(1);
            let turns = Arc::new(AtomicUsize::new(0));
            go(move || link(turns, ran, end));
            ended.recv().unwrap()
        });
        // A goroutine that comes back to its P from a wait in the kernel counts as a turn, too, and may be the 61st.
        assert!(turns <= 2 * 61 + 1, "{turns} turns");
    }
}

/// A burst larger than the ring: half of it moves to the global queue, and everybody runs once.
#[test]
fn a_burst_larger_than_the_ring_runs_whole() {
    for procs in common::PROCS {
        for burst in [255, 256, 257, 258, 1_000, 5_000] {
            let runs = run(procs, || {
                let runs = Arc::new(AtomicUsize::new(0));
                let handles: Vec<_> = (0..burst)
                    .map(|_| {
                        let runs = Arc::clone(&runs);
                        go(move || {
                            runs.fetch_add(1, SeqCst);
                        })
                    })
                    .collect();
                handles.into_iter().for_each(|h| h.join().unwrap());
                runs.load(SeqCst)
            });
            assert_eq!(runs, burst);
        }
    }
}

#[test]
fn yielding_alone_comes_back() {
    for procs in common::PROCS {
        let id = run(procs, || {
            let before = current().unwrap().id();
            for _ in 0..10_000 {
                yield_now();
            }
            assert_eq!(current().unwrap().id(), before);
            before
        });
        assert!(id > 0);
    }
}
