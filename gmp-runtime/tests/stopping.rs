//! While the world is stopped nothing runs but the one who stopped it, and after that everything goes on.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::{PROCS, child, child_case, run, succeed};
use gmp_runtime::debug::stop_the_world;
use gmp_runtime::{
    JoinHandle, blocking, channel, current, go, lock_os_thread, park, sleep, yield_now,
};

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

/// Who wakes a goroutine during a stop finds no idle P. So an idle P is given to somebody at the end of it: here whoever
/// stopped the world keeps its own, and is not preempted.
#[test]
fn idle_ps_are_used_when_the_world_goes_on() {
    const NAME: &str = "idle_ps_are_used_when_the_world_goes_on";
    if child_case().is_none() {
        succeed(child(NAME, "run").env("GMPDEBUG", "asyncpreemptoff=1"));
        return;
    }
    run(2, || {
        for _ in 0..20 {
            let ran = Arc::new(AtomicBool::new(false));
            let says = Arc::clone(&ran);
            let parks = go(move || {
                park();
                says.store(true, SeqCst);
            });
            // It parks.
            sleep(Duration::from_millis(1));
            let (begin, done) = (
                Arc::new(AtomicBool::new(false)),
                Arc::new(AtomicBool::new(false)),
            );
            let (begun, says_done, sleeper) =
                (Arc::clone(&begin), Arc::clone(&done), parks.goroutine());
            let thread = thread::spawn(move || {
                while !begun.load(SeqCst) {
                    thread::sleep(Duration::from_micros(100));
                }
                sleeper.unpark();
                says_done.store(true, SeqCst);
            });
            // Whoever looks for work finds none, and the other P is idle.
            spin(Duration::from_millis(2));
            stop_the_world("somebody is woken", || {
                begin.store(true, SeqCst);
                while !done.load(SeqCst) {
                    std::hint::spin_loop();
                }
            });
            let begun = Instant::now();
            while !ran.load(SeqCst) {
                let waited = begun.elapsed();
                assert!(waited < Duration::from_secs(20), "the P stays idle");
            }
            parks.join().unwrap();
            blocking(|| thread.join().unwrap());
        }
    });
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

/// A call that was announced is not waited for. Its goroutine comes back when the world goes on, and not before.
#[test]
fn calls_that_are_under_way_are_not_waited_for() {
    for procs in PROCS {
        run(procs, || {
            let (begun, over, back) = (
                Arc::new(AtomicBool::new(false)),
                Arc::new(AtomicBool::new(false)),
                Arc::new(AtomicBool::new(false)),
            );
            let (begins, ends, is_back) =
                (Arc::clone(&begun), Arc::clone(&over), Arc::clone(&back));
            let caller = go(move || {
                let seen = blocking(|| {
                    begins.store(true, SeqCst);
                    let begun = Instant::now();
                    while !ends.load(SeqCst) && begun.elapsed() < Duration::from_secs(20) {
                        thread::sleep(Duration::from_micros(100));
                    }
                    ends.load(SeqCst)
                });
                is_back.store(true, SeqCst);
                seen
            });
            while !begun.load(SeqCst) {
                yield_now();
            }
            let came_back = stop_the_world("the end of a call", || {
                over.store(true, SeqCst);
                spin(Duration::from_millis(5));
                back.load(SeqCst)
            });
            assert!(!came_back, "it went on while the world was stopped");
            assert!(caller.join().unwrap(), "the stop has waited for the call");
        });
    }
}

/// Calls that nobody announced lose their Ps, because there is a hog for each; when they are over, code goes on without.
#[test]
fn those_without_a_p_stand_still() {
    for procs in PROCS {
        run(procs, move || {
            let mut busy = Busy::new();
            for _ in 0..procs {
                busy.start(|| {
                    black_box(0);
                });
            }
            for _ in 0..4 {
                busy.start(|| thread::sleep(Duration::from_millis(2)));
            }
            // One that comes back into the runtime, and wants a P there.
            busy.start(|| {
                thread::sleep(Duration::from_millis(2));
                yield_now();
            });
            let mut moved = 0;
            for _ in 0..10 {
                busy.wait_for_progress();
                moved += stop_the_world("a look", || {
                    let before = busy.total();
                    spin(Duration::from_millis(5));
                    busy.total() - before
                });
            }
            busy.end();
            assert_eq!(moved, 0, "steps while the world was stopped");
        });
    }
}

/// The kernel lets a thread in `vfork` wait for the child, whatever signal comes.
#[test]
fn a_thread_that_no_signal_reaches_is_not_waited_for() {
    static CHILD: AtomicI32 = AtomicI32::new(0);
    /// Whether the child has ended by now; or waits for that.
    fn has_ended(child: i32, flags: i32) -> bool {
        // SAFETY: all-zero is valid, and the structure is a local variable.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOWAIT | flags;
        // SAFETY: as above.
        let result = unsafe { libc::waitid(libc::P_PID, child as libc::id_t, &mut info, flags) };
        assert_eq!(result, 0);
        // SAFETY: filled in, or still zero.
        unsafe { info.si_pid() == child }
    }
    run(2, || {
        let after = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&after);
        let goroutine = go(move || {
            // SAFETY: the child shares the memory, calls functions of the system on numbers, and ends.
            #[expect(deprecated, reason = "nothing else waits in the kernel in that way")]
            unsafe {
                let pid = libc::vfork();
                if pid == 0 {
                    CHILD.store(libc::getpid(), SeqCst);
                    libc::usleep(1_000_000);
                    libc::_exit(0);
                }
                done.store(true, SeqCst);
                assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid);
            }
        });
        let child = loop {
            match CHILD.load(SeqCst) {
                0 => yield_now(),
                child => break child,
            }
        };
        let ended = stop_the_world("a look", || has_ended(child, libc::WNOHANG));
        assert!(!ended, "the stop has waited for the child");
        let came_back = stop_the_world("a longer look", || {
            has_ended(child, 0);
            spin(Duration::from_millis(20));
            after.load(SeqCst)
        });
        assert!(!came_back, "it went on while the world was stopped");
        goroutine.join().unwrap();
        assert!(after.load(SeqCst));
    });
}

/// Goroutines that are locked to their threads, one that computes and two that wake one another.
#[test]
fn locked_threads_stand_still() {
    for procs in PROCS {
        run(procs, || {
            let mut busy = Busy::new();
            let locks = || {
                let locked = AtomicBool::new(false);
                move || {
                    if !locked.swap(true, SeqCst) {
                        lock_os_thread();
                    }
                }
            };
            let lock = locks();
            busy.start(lock);
            let (ping, pinged) = channel::<()>(1);
            let (pong, ponged) = channel::<()>(1);
            ping.send(()).unwrap();
            let lock = locks();
            busy.start(move || {
                lock();
                // At the end the other one is gone.
                if pinged.recv().is_ok() {
                    let _ = pong.send(());
                }
            });
            let lock = locks();
            busy.start(move || {
                lock();
                if ponged.recv().is_ok() {
                    let _ = ping.send(());
                }
            });
            nothing_is_counted(busy, 10);
        });
    }
}

/// Goroutines are made and end all the time.
#[test]
fn nobody_is_born_meanwhile() {
    for procs in PROCS {
        run(procs, || {
            let mut busy = Busy::new();
            let born = Arc::new(AtomicU64::new(0));
            for _ in 0..4 {
                let born = Arc::clone(&born);
                busy.start(move || {
                    let born = Arc::clone(&born);
                    go(move || born.fetch_add(1, SeqCst)).join().unwrap();
                });
            }
            busy.counts.push(born);
            nothing_is_counted(busy, 20);
        });
    }
}

/// A thread that runs no goroutine stops everybody, while goroutines do, too.
#[test]
fn threads_stop_the_world_too() {
    const STOPS: u32 = 5;
    for procs in PROCS {
        run(procs, || {
            let inside = Arc::new(AtomicU32::new(0));
            let mut busy = Busy::new();
            for _ in 0..3 {
                busy.start(|| {
                    black_box(0);
                });
            }
            busy.start(yield_now);
            busy.start(|| blocking(|| thread::sleep(Duration::from_micros(100))));
            busy.wait_for_progress();
            let counts = busy.counts.clone();
            let total = move || counts.iter().map(|count| count.load(SeqCst)).sum::<u64>();
            let look = move || {
                // Two who have stopped the world at once would see one another.
                let others = inside.fetch_add(1, SeqCst);
                let before = total();
                stop_the_world("within", || spin(Duration::from_micros(200)));
                let moved = total() - before;
                inside.fetch_sub(1, SeqCst);
                u64::from(others) + moved
            };
            let stops = move || {
                (0..STOPS)
                    .map(|_| stop_the_world("a look", &look))
                    .sum::<u64>()
            };
            let threads: Vec<_> = (0..3).map(|_| thread::spawn(stops.clone())).collect();
            let goroutines: Vec<_> = (0..3).map(|_| go(stops.clone())).collect();
            let in_call = blocking(&stops);
            let mut wrong = in_call + stops();
            for goroutine in goroutines {
                wrong += goroutine.join().unwrap();
            }
            for thread in threads {
                wrong += blocking(|| thread.join().unwrap());
            }
            busy.wait_for_progress();
            busy.end();
            assert_eq!(wrong, 0, "steps, or others, while the world was stopped");
        });
    }
}

/// Main returns while goroutines and a thread stop the world or wait for their turns. That it ends is what is asked.
#[test]
fn the_end_comes_in_between() {
    let mut stops = 0;
    for round in 0..60 {
        let procs = PROCS[round % PROCS.len()];
        let ends = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            let mut stops = 0;
            while !seen.load(SeqCst) {
                stops += stop_the_world("a thread", || {
                    spin(Duration::from_micros(20));
                    1
                });
            }
            stops
        });
        run(procs, move || {
            let stop = Arc::new(AtomicBool::new(false));
            for number in 0..6 {
                let stop = Arc::clone(&stop);
                go(move || {
                    while !stop.load(SeqCst) {
                        match number {
                            0 => drop(black_box(0)),
                            1 => thread::sleep(Duration::from_micros(700)),
                            _ => stop_the_world("a goroutine", || spin(Duration::from_micros(20))),
                        }
                    }
                });
            }
            sleep(Duration::from_micros(round as u64 * 100));
            // Those that never call the runtime are waited for.
            stop.store(true, SeqCst);
        });
        ends.store(true, SeqCst);
        stops += thread.join().unwrap();
    }
    // In a round or other the thread may have come too late.
    assert!(stops > 0);
}

/// A thread that stops the world when there is none, and as one begins.
#[test]
fn a_world_that_begins_can_be_stopped() {
    let ends = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ends);
    let thread = thread::spawn(move || {
        while !seen.load(SeqCst) {
            assert_eq!(stop_the_world("a look", || 3), 3);
        }
    });
    for round in 0..50 {
        let sum = run(PROCS[round % PROCS.len()], || {
            (0..10)
                .map(|number| go(move || number).join().unwrap())
                .sum::<u32>()
        });
        assert_eq!(sum, 45);
    }
    ends.store(true, SeqCst);
    thread.join().unwrap();
}

/// The monitor takes Ps out of calls that last, but not that of whoever has stopped the world, and makes one.
#[test]
fn a_call_within_a_stop_keeps_its_p() {
    run(1, || {
        let mut busy = Busy::new();
        for _ in 0..3 {
            busy.start(|| {
                black_box(0);
            });
        }
        let mut moved = 0;
        for _ in 0..5 {
            busy.wait_for_progress();
            moved += stop_the_world("a call", || {
                let before = busy.total();
                let p = gmp_runtime::proc_id();
                blocking(|| thread::sleep(Duration::from_millis(30)));
                assert_eq!(gmp_runtime::proc_id(), p);
                busy.total() - before
            });
        }
        busy.end();
        assert_eq!(moved, 0, "steps while the world was stopped");
    });
}
