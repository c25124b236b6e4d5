//! While the world is stopped nothing runs but the one who stopped it, and after that everything goes on.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::{PROCS, child, child_case, run};
use gmp_runtime::debug::stop_the_world;
use gmp_runtime::{JoinHandle, blocking, channel, current, go, park, sleep, yield_now};

/// Goroutines that count what they do until they are to end.
struct Busy {
    stop: Arc<AtomicBool>,
    counts: Vec<Arc<AtomicU64>>,
    handles: Vec<JoinHandle<()>>,
}

impl Busy {
    fn new() -> Busy {
        Busy {
            stop: Arc::new(AtomicBool::new(false)),
            counts: Vec::new(),
            handles: Vec::new(),
        }
    }

    fn start(&mut self, step: impl Fn() + Send + 'static) {
        let (stop, count) = (Arc::clone(&self.stop), Arc::new(AtomicU64::new(0)));
        self.counts.push(Arc::clone(&count));
        self.handles.push(go(move || {
            while !stop.load(SeqCst) {
                step();
                count.fetch_add(1, SeqCst);
            }
        }));
    }

    /// Waits until each has counted further.
    fn wait_for_progress(&self) {
        let before: Vec<_> = self.counts.iter().map(|count| count.load(SeqCst)).collect();
        let begun = Instant::now();
        for (count, before) in self.counts.iter().zip(&before) {
            while count.load(SeqCst) == *before {
                sleep(Duration::from_micros(200));
                assert!(begun.elapsed() < Duration::from_secs(60), "no progress");
            }
        }
    }

    /// What all have counted together. Allocates nothing.
    fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.load(SeqCst)).sum()
    }

    fn end(self) {
        self.stop.store(true, SeqCst);
        for handle in self.handles {
            handle.join().unwrap();
        }
    }
}

/// Uses the processor for a while, without any lock.
fn spin(for_so_long: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < for_so_long {
        black_box(0);
    }
}

/// Looks twice in each of several stops whether anything was counted in between, and in between whether everybody
/// comes on.
fn nothing_is_counted(busy: Busy, stops: u32) {
    let mut moved = 0;
    for _ in 0..stops {
        busy.wait_for_progress();
        moved += stop_the_world("a look", || {
            let before = busy.total();
            spin(Duration::from_micros(500));
            busy.total() - before
        });
    }
    busy.end();
    assert_eq!(moved, 0, "steps while the world was stopped");
}

#[test]
fn hogs_stand_still() {
    for procs in PROCS {
        run(procs, || {
            let mut busy = Busy::new();
            for _ in 0..3 {
                busy.start(|| {
                    black_box(0);
                });
            }
            nothing_is_counted(busy, 20);
        });
    }
}

#[test]
fn a_thousand_busy_goroutines_stand_still() {
    run(2, || {
        let mut busy = Busy::new();
        for _ in 0..1000 {
            busy.start(yield_now);
        }
        nothing_is_counted(busy, 10);
    });
}

/// Those in system calls come back meanwhile, timers fall due, threads wake goroutines.
#[test]
fn whoever_comes_back_waits() {
    for procs in PROCS {
        run(procs, || {
            let mut busy = Busy::new();
            for _ in 0..4 {
                busy.start(|| blocking(|| thread::sleep(Duration::from_micros(100))));
                busy.start(|| sleep(Duration::from_micros(100)));
            }
            let parked = Arc::new(AtomicBool::new(false));
            let (to_wake, waker) = channel(1);
            let waits = Arc::clone(&parked);
            busy.start(move || {
                if !waits.swap(true, SeqCst) {
                    to_wake.send(current().unwrap()).unwrap();
                }
                park();
            });
            let sleeper = waker.recv().unwrap();
            let stop = Arc::clone(&busy.stop);
            let thread = thread::spawn(move || {
                while !stop.load(SeqCst) {
                    sleeper.unpark();
                    thread::sleep(Duration::from_micros(100));
                }
                sleeper.unpark();
            });
            nothing_is_counted(busy, 20);
            blocking(|| thread.join().unwrap());
        });
    }
}

/// On one P or more everybody is stopped once a turn, and nobody twice at once.
#[test]
fn one_stops_at_a_time() {
    const STOPPERS: u32 = 8;
    const STOPS: u32 = 30;
    for procs in PROCS {
        run(procs, || {
            let inside = Arc::new(AtomicU32::new(0));
            let stops = Arc::new(AtomicU32::new(0));
            let overlaps = Arc::new(AtomicU32::new(0));
            let handles: Vec<_> = (0..STOPPERS)
                .map(|_| {
                    let (inside, stops, overlaps) = (
                        Arc::clone(&inside),
                        Arc::clone(&stops),
                        Arc::clone(&overlaps),
                    );
                    go(move || {
                        for _ in 0..STOPS {
                            stop_the_world("outer", || {
                                overlaps.fetch_add(inside.fetch_add(1, SeqCst), SeqCst);
                                stop_the_world("inner", || spin(Duration::from_micros(20)));
                                spin(Duration::from_micros(20));
                                stops.fetch_add(1, SeqCst);
                                inside.fetch_sub(1, SeqCst);
                            });
                        }
                    })
                })
                .collect();
            for handle in handles {
                handle.join().unwrap();
            }
            assert_eq!(stops.load(SeqCst), STOPPERS * STOPS);
            assert_eq!(overlaps.load(SeqCst), 0, "two had stopped the world");
        });
    }
}

/// What became runnable or due during a stop, while every P but one was idle, is not forgotten.
#[test]
fn nothing_is_forgotten() {
    for procs in PROCS {
        run(procs, || {
            for _ in 0..50 {
                let (sender, receiver) = channel(1);
                let sleeps = go(move || {
                    sleep(Duration::from_micros(300));
                    sender.send(()).unwrap();
                });
                let parks = go(park);
                yield_now();
                let wake = parks.goroutine();
                let go_on = Arc::new(AtomicBool::new(false));
                let seen = Arc::clone(&go_on);
                let thread = thread::spawn(move || {
                    while !seen.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                    wake.unpark();
                });
                stop_the_world("a deadline passes", || {
                    go_on.store(true, SeqCst);
                    spin(Duration::from_micros(600));
                });
                receiver.recv().unwrap();
                sleeps.join().unwrap();
                parks.join().unwrap();
                blocking(|| thread.join().unwrap());
            }
        });
    }
}

#[test]
fn a_panic_lets_the_world_go_on() {
    run(2, || {
        let stopper = go(|| stop_the_world("a panic", || std::panic::resume_unwind(Box::new(7))));
        assert_eq!(*stopper.join().unwrap_err().downcast::<i32>().unwrap(), 7);
        assert_eq!(go(|| stop_the_world("the next", || 5)).join().unwrap(), 5);
    });
}

#[test]
fn waiting_in_a_stop_ends_the_process() {
    const NAME: &str = "waiting_in_a_stop_ends_the_process";
    if child_case().is_some() {
        run(2, || stop_the_world("a mistake", yield_now));
        return;
    }
    let output = child(NAME, "run").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        text.contains("fatal error: a goroutine that has stopped the world waits"),
        "{text}"
    );
}

#[test]
fn a_thread_has_no_world() {
    assert_eq!(stop_the_world("nothing", || 3), 3);
}
