//! Goroutines that never call the runtime give up their Ps all the same.

mod common;

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::hogs::Hogs;
use common::{PROCS, child, child_case, run, succeed};
use gmp_runtime::{go, sleep, yield_now};

fn spin(rounds: u64) -> u64 {
    (0..rounds).fold(1, |x, i| {
        black_box(x ^ i).wrapping_mul(6_364_136_223_846_793_005)
    })
}

/// On one P, on two and on four; there are more hogs than Ps.
fn everybody_comes_on(hogs: usize, work: impl Fn(usize, u64) + Clone + Send + Sync + 'static) {
    for procs in PROCS {
        let work = work.clone();
        run(procs, move || {
            let shared = Hogs::new(hogs);
            let handles = shared.start(work);
            shared.wait_for_progress(3);
            shared.end(handles);
        });
    }
}

#[test]
fn hogs_in_a_loop_come_on() {
    everybody_comes_on(6, |_, _| {
        spin(1000);
    });
}

#[test]
fn twenty_hogs_come_on() {
    everybody_comes_on(20, |_, _| {
        spin(1000);
    });
}

/// Each has as many turns as any other. Within 20 % on a machine that does nothing else; the bound here is wide.
#[test]
fn hogs_of_one_kind_come_equally_far() {
    for procs in [1, 2] {
        let counts = run(procs, || {
            let shared = Hogs::new(5);
            let handles = shared.start(|_, _| {
                spin(1000);
            });
            shared.wait_for_progress(1);
            sleep(Duration::from_secs(2));
            let counts = shared.counts();
            shared.end(handles);
            counts
        });
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most / 3 <= *least, "on {procs} Ps: {counts:?}");
    }
}

/// The processor time of the process.
fn cpu_time() -> Duration {
    // SAFETY: all-zero is valid, and the call fills in the local variable.
    unsafe {
        let mut time = std::mem::zeroed::<libc::timespec>();
        let clock = libc::CLOCK_PROCESS_CPUTIME_ID;
        assert_eq!(libc::clock_gettime(clock, &mut time), 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

/// Those that are frozen use no processor: with one P a process cannot use two, whatever its hogs do.
#[test]
fn one_p_uses_one_processor() {
    const NAME: &str = "one_p_uses_one_processor";
    if child_case().is_none() {
        succeed(&mut child(NAME, "run"));
        return;
    }
    run(1, || {
        let shared = Hogs::new(8);
        let handles = shared.start(|i, _| {
            // Half of them come out of the kernel without a P, and go on.
            if i % 2 == 0 {
                std::thread::sleep(Duration::from_millis(10));
            }
            spin(3_000_000);
        });
        shared.wait_for_progress(1);
        let before = (cpu_time(), Instant::now());
        shared.wait_for_progress(3);
        let (used, passed) = (cpu_time() - before.0, before.1.elapsed());
        shared.end(handles);
        println!("{used:?} in {passed:?}");
        assert!(used < passed * 14 / 10, "{used:?} in {passed:?}");
    });
}

#[test]
fn hogs_that_allocate_come_on() {
    everybody_comes_on(6, |i, round| {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for size in 0..50 {
            parts.push(vec![i as u8; (round as usize * 131 + size * 977) % 20_000]);
            if size % 3 == 0 {
                parts.swap_remove(0);
            }
        }
        assert!(parts.iter().flatten().all(|&byte| byte == i as u8));
    });
}

#[test]
fn hogs_that_hash_come_on_with_right_results() {
    everybody_comes_on(4, |i, round| {
        let map: HashMap<u64, u64> = (0..500).map(|k| (k + round, k * i as u64)).collect();
        assert_eq!(map.len(), 500);
        assert_eq!(map[&(round + 499)], 499 * i as u64);
    });
}

#[test]
fn hogs_in_c_code_come_on_with_right_results() {
    extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
        // SAFETY: elements of an array of u32.
        let (a, b) = unsafe { (*a.cast::<u32>(), *b.cast::<u32>()) };
        a.cmp(&b) as libc::c_int
    }
    everybody_comes_on(4, |i, round| {
        let mut numbers: Vec<u32> = (0..3000_u32)
            .map(|n| (n + round as u32).wrapping_mul(2_654_435_761) ^ i as u32)
            .collect();
        // SAFETY: the array has as many elements of this size.
        unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 4, Some(compare)) };
        assert!(numbers.is_sorted());
    });
}

#[test]
fn thread_locals_and_catch_unwind_are_right() {
    thread_local! {
        static DEPTH: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    everybody_comes_on(6, |_, round| {
        // A goroutine that is frozen goes on on its thread, with nobody else there meanwhile.
        DEPTH.with(|depth| {
            let before = depth.get();
            depth.set(before + 1);
            spin(200);
            assert_eq!(depth.get(), before + 1);
        });
        let caught = std::panic::catch_unwind(|| {
            if round % 4 == 0 {
                std::panic::resume_unwind(Box::new(round));
            }
        });
        assert_eq!(caught.is_err(), round % 4 == 0);
        assert!(!std::thread::panicking());
    });
}

#[test]
fn a_lock_of_std_that_a_frozen_goroutine_holds_is_waited_for() {
    for procs in PROCS {
        let lock = Arc::new(std::sync::Mutex::new(0_u64));
        let total = Arc::clone(&lock);
        let rounds = run(procs, move || {
            let shared = Hogs::new(5);
            let handles = shared.start(move |_, _| {
                let mut value = lock.lock().unwrap();
                let before = *value;
                spin(20_000);
                *value = before + 1;
            });
            shared.wait_for_progress(3);
            shared.end(handles);
            shared.counts().iter().sum::<u64>()
        });
        assert_eq!(*total.lock().unwrap(), rounds);
    }
}

/// By `println!`, whose lock whoever is frozen may hold, in a process of its own.
#[test]
fn printing_to_a_pipe_goes_on() {
    const NAME: &str = "printing_to_a_pipe_goes_on";
    if let Some(case) = child_case() {
        let lines = run(case.parse().unwrap(), || {
            let shared = Hogs::new(6);
            let handles = shared.start(|i, round| println!("hog {i} round {round} of many"));
            shared.wait_for_progress(5);
            shared.end(handles);
            shared.counts().iter().sum::<u64>()
        });
        eprintln!("{lines} lines");
        return;
    }
    for procs in PROCS {
        let output = succeed(&mut child(NAME, &procs.to_string()));
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter(|line| line.contains("hog "));
        let whole = lines.filter(|line| line.ends_with("of many")).count();
        assert_eq!(text.matches("hog ").count(), whole);
        let told = stderr_lines(&output.stderr);
        assert!(
            told.contains(&format!("{whole} lines")),
            "{whole}: {told:?}"
        );
    }
}

fn stderr_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_hog_that_calls_the_runtime_all_the_time_is_preempted_too() {
    everybody_comes_on(6, |_, _| {
        // A call that does not block.
        assert!(gmp_runtime::proc_id().is_some());
    });
}

#[test]
fn a_call_that_does_not_block_leaves_the_goroutine_on_its_thread() {
    run(2, || {
        let shared = Hogs::new(6);
        let handles = shared.start(|_, _| {
            // SAFETY: the call has no arguments.
            let before = unsafe { libc::gettid() };
            for _ in 0..100 {
                gmp_runtime::proc_id();
            }
            // SAFETY: as above.
            assert_eq!(unsafe { libc::gettid() }, before);
        });
        shared.wait_for_progress(5);
        shared.end(handles);
    });
}

#[test]
fn goroutines_that_yield_run_beside_hogs() {
    run(1, || {
        let shared = Hogs::new(2);
        let handles = shared.start(|_, _| {
            spin(1000);
        });
        for _ in 0..20 {
            yield_now();
        }
        shared.wait_for_progress(2);
        shared.end(handles);
    });
}

/// Whoever is preempted is last in the global queue: with one P goroutines take turns, in the same order always.
// Perturbing changes the order of runs.
#[cfg(not(gmp_sched_fuzz))]
#[test]
fn those_who_are_preempted_take_turns() {
    const NAME: &str = "those_who_are_preempted_take_turns";
    const HOGS: usize = 4;
    const TURNS: usize = 3 * HOGS;
    let Some(how) = child_case() else {
        for (how, debug) in [("by signals", ""), ("in calls", "asyncpreemptoff=1")] {
            succeed(child(NAME, how).env("GMPDEBUG", debug));
        }
        return;
    };
    let turns: Arc<Vec<AtomicU64>> = Arc::new((0..TURNS).map(|_| AtomicU64::new(0)).collect());
    let (count, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    run(1, || {
        let hogs: Vec<_> = (1..=HOGS as u64)
            .map(|hog| {
                let (turns, count, last) =
                    (Arc::clone(&turns), Arc::clone(&count), Arc::clone(&last));
                let calls = (how == "in calls").then(|| gmp_runtime::channel(1));
                go(move || {
                    while count.load(Ordering::Relaxed) < TURNS as u64 {
                        if last.swap(hog, Ordering::Relaxed) != hog {
                            let turn = count.fetch_add(1, Ordering::Relaxed) as usize;
                            if let Some(place) = turns.get(turn) {
                                place.store(hog, Ordering::Relaxed);
                            }
                        }
                        spin(100);
                        // Neither ever has to wait.
                        if let Some((sender, receiver)) = &calls {
                            sender.send(()).unwrap();
                            receiver.recv().unwrap();
                        }
                    }
                })
            })
            .collect();
        for hog in hogs {
            hog.join().unwrap();
        }
    });
    let turns: Vec<_> = turns
        .iter()
        .map(|hog| hog.load(Ordering::Relaxed))
        .collect();
    for round in turns.chunks(HOGS) {
        assert_eq!(round, &turns[..HOGS], "{turns:?}");
    }
    let mut all = turns[..HOGS].to_vec();
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3, 4], "{turns:?}");
}

/// Goroutines that queue in the global queue come before one that is preempted while they do.
// Perturbing changes the order of runs.
#[cfg(not(gmp_sched_fuzz))]
#[test]
fn who_is_preempted_comes_after_those_who_queue() {
    const QUEUE: u64 = 5;
    let ran_before = run(1, || {
        let ran = Arc::new(AtomicU64::new(0));
        let parked: Vec<_> = (0..QUEUE)
            .map(|_| {
                let ran = Arc::clone(&ran);
                go(move || {
                    gmp_runtime::park();
                    ran.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        yield_now();
        let handles: Vec<_> = parked.iter().map(|one| one.goroutine()).collect();
        // A thread that runs no goroutine puts them there.
        let waker = std::thread::spawn(move || handles.iter().for_each(|one| one.unpark()));
        let ran_before = loop {
            spin(100);
            match ran.load(Ordering::Relaxed) {
                0 => {}
                ran => break ran,
            }
        };
        waker.join().unwrap();
        for one in parked {
            one.join().unwrap();
        }
        ran_before
    });
    assert_eq!(ran_before, QUEUE);
}

#[test]
fn hogs_that_are_left_at_the_end_run_to_their_next_call() {
    let stop = Arc::new(AtomicBool::new(false));
    let [begun, ended] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    run(2, || {
        for _ in 0..8 {
            let (stop, begun, ended) = (Arc::clone(&stop), Arc::clone(&begun), Arc::clone(&ended));
            go(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    spin(100);
                }
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        // Two run, at most, so others are frozen then.
        while begun.load(Ordering::Relaxed) < 4 {
            sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Nobody is unwound in the middle; one that never ran need not run.
    let [begun, ended] = [begun, ended].map(|count| count.load(Ordering::Relaxed));
    assert!(begun >= 4);
    assert_eq!(ended, begun);
}

#[test]
fn a_goroutine_that_unwinds_stays_on_its_thread() {
    /// Leaves its thread for others while it unwinds.
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            // SAFETY: the call has no arguments.
            let thread = unsafe { libc::gettid() };
            yield_now();
            assert!(std::thread::panicking());
            sleep(Duration::from_micros(50));
            gmp_runtime::blocking(std::thread::yield_now);
            assert!(std::thread::panicking());
            // SAFETY: as above.
            assert_eq!(unsafe { libc::gettid() }, thread);
        }
    }
    run(4, || {
        let unwinding: Vec<_> = (0..200)
            .map(|number| {
                go(move || {
                    for _ in 0..5 {
                        assert!(!std::thread::panicking());
                        let caught = std::panic::catch_unwind(|| {
                            let _waits = Waits;
                            std::panic::resume_unwind(Box::new(number));
                        });
                        assert_eq!(*caught.unwrap_err().downcast::<i32>().unwrap(), number);
                        assert!(!std::thread::panicking());
                        yield_now();
                    }
                })
            })
            .collect();
        for handle in unwinding {
            handle.join().unwrap();
        }
    });
}

#[test]
fn no_more_than_a_thousand_goroutines_are_frozen() {
    const HOGS: u64 = 5000;
    let threads = run(2, || {
        let left = Arc::new(AtomicU64::new(HOGS));
        let hogs: Vec<_> = (0..HOGS)
            .map(|_| {
                let left = Arc::clone(&left);
                go(move || {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_millis(2) {
                        spin(100);
                    }
                    left.fetch_sub(1, Ordering::Relaxed);
                })
            })
            .collect();
        // Each wake takes the P of one of them, which is frozen then.
        while left.load(Ordering::Relaxed) > 0 {
            sleep(Duration::from_millis(1));
        }
        for hog in hogs {
            hog.join().unwrap();
        }
        gmp_runtime::metrics().count("/sched/threads/total:threads")
    });
    assert!(threads.unwrap() < 1600, "{threads:?}");
}
