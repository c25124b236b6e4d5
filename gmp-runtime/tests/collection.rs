//! Collection cycles: what they give back, that nothing is lost by it, and what begins one.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{OnDrop, PROCS, child, child_case, run, stderr, succeed};
use gmp_runtime::{Goroutine, channel, gc, go, metrics, park, sleep, yield_now};

/// How much of its stack each goroutine uses once.
const DEEP: usize = 64 << 10;

const PAGE: usize = 4096;

/// Fills `bytes` of the stack with a pattern, calls `at_bottom` there, and looks on the way back whether all of it is
/// still there.
#[inline(never)]
fn dive(bytes: usize, seed: u64, at_bottom: &dyn Fn()) {
    let pattern = |index: usize| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (bytes + index) as u64;
    let mut frame: [u64; PAGE / 8] = std::array::from_fn(pattern);
    black_box(&mut frame);
    if bytes > PAGE {
        dive(bytes - PAGE, seed, at_bottom);
    } else {
        at_bottom();
    }
    let kept = (0..frame.len()).filter(|&index| black_box(&frame)[index] == pattern(index));
    assert_eq!(kept.count(), frame.len(), "a stack has lost bytes");
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * PAGE
}

/// Waits until `done` says so.
#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(120), "{what}");
        sleep(Duration::from_millis(1));
    }
}

/// Runs the test `name` in a process of its own with these variables.
fn run_case(name: &str, case: &str, set: &[(&str, &str)]) -> Output {
    succeed(
        child(name, case)
            .env_remove("GMPGC")
            .envs(set.iter().copied()),
    )
}

// ---- what is given back, and what is kept

/// What the goroutines of the test below share.
#[derive(Default)]
struct Sleepers {
    /// Whether each turn goes deep, and waits there.
    deep: AtomicBool,
    stop: AtomicBool,
    /// Goroutines that have gone deep once.
    began: AtomicUsize,
    /// Turns in which all bytes were there.
    turns: AtomicU64,
    /// Goroutines that have waited without going deep since they last did.
    shallow: AtomicUsize,
}

fn sleeper(number: usize, all: &Sleepers) {
    let kept: [u64; 16] = std::array::from_fn(|index| (number * 16 + index) as u64);
    black_box(&kept);
    dive(DEEP, number as u64, &|| {});
    all.began.fetch_add(1, SeqCst);
    let (mut turn, mut shallow) = (number, false);
    while !all.stop.load(SeqCst) {
        if all.deep.load(SeqCst) {
            // To a different depth each time, and back.
            turn += 5;
            dive((turn % 16 + 1) * PAGE, turn as u64, &park);
        } else {
            if !std::mem::replace(&mut shallow, true) {
                all.shallow.fetch_add(1, SeqCst);
            }
            park();
        }
        let here = (0..16).all(|index| black_box(&kept)[index] == (number * 16 + index) as u64);
        assert!(here, "a stack has lost bytes");
        all.turns.fetch_add(1, SeqCst);
    }
}

/// Wakes one after the other in no order, until it is told to stop.
fn waker(sleepers: &[Goroutine], all: &Sleepers, stop: &AtomicBool) -> u64 {
    let (mut random, mut wakes) = (1_u64, 0);
    while !stop.load(SeqCst) {
        for _ in 0..8 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            sleepers[(random >> 33) as usize % sleepers.len()].unpark();
            wakes += 1;
        }
        if all.deep.load(SeqCst) {
            yield_now();
        } else {
            // Whoever runs uses more of its stack than it waits with: not each of them, again and again.
            sleep(Duration::from_micros(300));
        }
    }
    wakes
}

/// The number of goroutines is 2000, or what `GMP_COLLECTION_GOROUTINES` says; each takes 64 kB at first.
#[test]
fn memory_that_waiting_goroutines_do_not_use_is_given_back_and_no_byte_is_lost() {
    const NAME: &str =
        "memory_that_waiting_goroutines_do_not_use_is_given_back_and_no_byte_is_lost";
    if child_case().is_none() {
        // The stacks of threads on which goroutines are frozen would count, too.
        let alone = [("GMPGC", "off"), ("GMPDEBUG", "asyncpreemptoff=1")];
        let output = run_case(NAME, "sleepers", &alone);
        print!("{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let count: usize =
        std::env::var("GMP_COLLECTION_GOROUTINES").map_or(2000, |count| count.parse().unwrap());
    run(2, move || {
        let base = resident();
        let all = Arc::new(Sleepers::default());
        all.deep.store(true, SeqCst);
        let handles: Vec<_> = (0..count)
            .map(|number| {
                let all = Arc::clone(&all);
                go(move || sleeper(number, &all))
            })
            .collect();
        until("not all began", || all.began.load(SeqCst) == count);
        let peak = resident() - base;
        assert!(peak > count * DEEP, "{peak} bytes of {count} stacks");

        // Goroutines go deep, wait there, and are woken all the while.
        let sleepers: Arc<Vec<_>> =
            Arc::new(handles.iter().map(|handle| handle.goroutine()).collect());
        let stop = Arc::new(AtomicBool::new(false));
        let waker = {
            let (sleepers, all, stop) =
                (Arc::clone(&sleepers), Arc::clone(&all), Arc::clone(&stop));
            go(move || waker(&sleepers, &all, &stop))
        };
        for _ in 0..10 {
            let turns = all.turns.load(SeqCst);
            gc();
            until("nobody runs", || all.turns.load(SeqCst) > turns);
        }
        let deep = gc::stats();
        assert!(deep.pages > 8 * count as u64, "{deep:?}");

        // All come back from the depth and wait; the cycle is one of many that are woken meanwhile.
        all.deep.store(false, SeqCst);
        until("not all came back", || {
            sleepers.iter().for_each(Goroutine::unpark);
            all.shallow.load(SeqCst) == count
        });
        // Those that were just woken wait again, but for the few that the waker has woken since: a goroutine that is
        // runnable keeps its pages.
        until("not all wait", || {
            let waiting = metrics().count("/sched/goroutines/waiting:goroutines");
            waiting.unwrap() + 100 >= count as u64
        });
        let turns = all.turns.load(SeqCst);
        let before = resident() - base;
        let begin = Instant::now();
        gc();
        let elapsed = begin.elapsed();
        let after = resident().saturating_sub(base);
        let stats = gc::stats();
        let meanwhile = all.turns.load(SeqCst) - turns;
        println!(
            "{count} goroutines: {} bytes each at most, {} before the last cycle, {} after it ({} of stacks); it \
             took {elapsed:?}, goroutines ran {meanwhile} times meanwhile, {} times in all",
            peak / count,
            before / count,
            after / count,
            stats.stack_bytes / count as u64,
            all.turns.load(SeqCst),
        );
        // Without optimization frames are larger: a second page is in use, and more of those that ran since.
        let optimized = if cfg!(debug_assertions) {
            16 << 10
        } else {
            6 << 10
        };
        // The portable switch does not say where a stack ends, so one page more is kept.
        let portable = cfg!(any(gmp_portable_switch, not(target_arch = "x86_64")));
        let each = optimized + usize::from(portable) * PAGE;
        assert!(after <= count * each, "{} bytes each", after / count);
        assert_eq!((stats.cycles, stats.forced), (11, 11));

        all.stop.store(true, SeqCst);
        stop.store(true, SeqCst);
        assert!(waker.join().unwrap() > 0);
        sleepers.iter().for_each(Goroutine::unpark);
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

/// Writes into each of the pages that a goroutine of the test below uses, and looks a little later whether it is
/// still there: how many words are gone.
#[inline(never)]
fn touch(seed: u64) -> usize {
    const WORDS: usize = PAGE / 8;
    let mut frame = [const { MaybeUninit::<u64>::uninit() }; DEEP / 8];
    for (page, words) in frame.chunks_mut(WORDS).enumerate() {
        words[0].write(seed + page as u64);
    }
    black_box(&mut frame);
    for _ in 0..100 {
        std::hint::spin_loop();
    }
    // SAFETY: the first word of each chunk was written.
    let is_there = |(page, words): (usize, &[MaybeUninit<u64>])| unsafe {
        words[0].assume_init() == seed + page as u64
    };
    let pages = frame.chunks(WORDS).enumerate();
    DEEP / PAGE - pages.filter(|&page| is_there(page)).count()
}

/// A goroutine that is woken while its pages are being dropped does not run on them. Few goroutines, each of which is
/// woken again soon after it has begun to wait, so that cycles meet that moment.
#[test]
fn goroutines_that_are_woken_during_a_cycle_keep_what_they_write() {
    const CYCLES: u64 = 10_000;
    run(2, || {
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let stop = Arc::clone(&stop);
                go(move || {
                    let (mut turns, mut lost) = (0, 0);
                    while !stop.load(SeqCst) {
                        park();
                        turns += 1;
                        lost += touch(turns);
                    }
                    (turns, lost)
                })
            })
            .collect();
        let sleepers: Vec<_> = workers.iter().map(|worker| worker.goroutine()).collect();
        let stops = Arc::clone(&stop);
        let waker = go(move || {
            while !stops.load(SeqCst) {
                for sleeper in &sleepers {
                    sleeper.unpark();
                    yield_now();
                }
            }
            sleepers.iter().for_each(Goroutine::unpark);
        });
        let before = gc::stats();
        for _ in 0..CYCLES {
            gmp_runtime::gc();
        }
        let after = gc::stats();
        stop.store(true, SeqCst);
        waker.join().unwrap();
        for worker in workers {
            let (turns, lost) = worker.join().unwrap();
            assert!(turns > 1 && lost == 0, "{lost} words lost in {turns} turns");
        }
        assert!(after.stacks - before.stacks > CYCLES / 200, "{after:?}");
    });
}

#[test]
fn memory_of_free_stacks_is_given_back_and_they_are_used_again() {
    const NAME: &str = "memory_of_free_stacks_is_given_back_and_they_are_used_again";
    const COUNT: usize = 600;
    if child_case().is_none() {
        let alone = [("GMPGC", "off"), ("GMPDEBUG", "asyncpreemptoff=1")];
        run_case(NAME, "free", &alone);
        return;
    }
    run(4, || {
        let wave = || {
            let (sender, receiver) = channel::<()>(0);
            let waiting = Arc::new(AtomicUsize::new(0));
            let deep: Vec<_> = (0..COUNT)
                .map(|number| {
                    let (receiver, waiting) = (receiver.clone(), Arc::clone(&waiting));
                    go(move || {
                        dive(DEEP, number as u64, &|| {
                            waiting.fetch_add(1, SeqCst);
                            assert!(receiver.recv().is_err());
                        })
                    })
                })
                .collect();
            until("not all wait", || waiting.load(SeqCst) == COUNT);
            drop(sender);
            deep.into_iter().for_each(|handle| handle.join().unwrap());
        };
        wave();
        let before = resident();
        // A P that is not idle keeps 64 stacks at most; here one is not, and soon the others are.
        until("stacks keep their memory", || {
            gc();
            gc::stats().stack_bytes < 80 * (DEEP + 4 * PAGE) as u64
        });
        let stats = gc::stats();
        assert!(
            stats.pages as usize >= (COUNT - 80) * DEEP / PAGE,
            "{stats:?}"
        );
        let freed = before.saturating_sub(resident());
        assert!(freed > (COUNT - 80) * DEEP, "{freed} bytes");
        // Stacks without memory are as good as new.
        wave();
    });
}

// ---- what begins a cycle

/// Makes goroutines that wait with 64 kB of stack each, `count` of them at a time.
fn wait_deep(count: usize) -> gmp_runtime::Sender<()> {
    let (sender, receiver) = channel::<()>(0);
    for number in 0..count {
        let receiver = receiver.clone();
        go(move || dive(DEEP, number as u64, &|| assert!(receiver.recv().is_err())));
    }
    sender
}

#[test]
fn growth_of_the_stacks_begins_a_cycle_and_prints_a_line() {
    const NAME: &str = "growth_of_the_stacks_begins_a_cycle_and_prints_a_line";
    match child_case().as_deref() {
        None => {
            let output = run_case(NAME, "growth", &[("GMPDEBUG", "gctrace=1")]);
            let text = stderr(&output);
            let line = text
                .lines()
                .find(|line| line.starts_with("gc 1 @"))
                .unwrap();
            for part in [
                "s ",
                "%: ",
                " ms clock, ",
                " ms cpu, ",
                "->",
                " MB goal, ",
                " pages, ",
                ", 2 P",
            ] {
                assert!(line.contains(part), "{part:?} is not in {line:?}");
            }
            assert!(!line.contains("forced"), "{line}");

            let output = run_case(NAME, "none", &[("GMPDEBUG", "gctrace=1"), ("GMPGC", "off")]);
            let text = stderr(&output);
            let lines: Vec<_> = text
                .lines()
                .filter(|line| line.starts_with("gc "))
                .collect();
            assert_eq!(lines.len(), 1, "{text}");
            assert!(
                lines[0].ends_with(" (forced)") && !lines[0].contains("goal"),
                "{text}"
            );
        }
        Some("growth") => run(2, || {
            let waiting = wait_deep(400);
            until("no cycle", || gc::stats().cycles > 0);
            assert_eq!(gc::stats().forced, 0);
            assert!(gc::stats().goal.is_some());
            drop(waiting);
        }),
        _ => run(2, || {
            let waiting = wait_deep(400);
            sleep(Duration::from_millis(500));
            assert_eq!(gc::stats().cycles, 0);
            gc();
            let stats = gc::stats();
            assert_eq!((stats.cycles, stats.forced, stats.goal), (1, 1, None));
            drop(waiting);
        }),
    }
}

#[test]
fn a_setting_that_is_none_is_one_warning_line() {
    const NAME: &str = "a_setting_that_is_none_is_one_warning_line";
    if child_case().is_some() {
        run(1, || gc());
        return;
    }
    let output = run_case(NAME, "wrong", &[("GMPGC", "-1")]);
    let text = stderr(&output);
    let lines: Vec<_> = text.lines().filter(|line| line.contains("GMPGC")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(
        lines[0].contains("\"-1\"") && lines[0].contains("off"),
        "{text}"
    );
}

// ---- calls and collectors

#[test]
fn every_caller_gets_a_cycle_that_began_after_its_call() {
    for procs in PROCS {
        run(procs, || {
            let callers: Vec<_> = (0..20)
                .map(|_| {
                    go(|| {
                        for _ in 0..5 {
                            let before = gc::stats().cycles;
                            gc();
                            assert!(gc::stats().cycles > before);
                        }
                    })
                })
                .collect();
            callers
                .into_iter()
                .for_each(|caller| caller.join().unwrap());
            let stats = gc::stats();
            // They share cycles.
            assert!((5..=100).contains(&stats.forced), "{stats:?}");
        });
    }
}

#[test]
fn registered_collectors_are_called_until_they_are_dropped() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    run(2, move || {
        let count = Arc::clone(&calls);
        let registration = gc::register(move || {
            count.fetch_add(1, SeqCst);
            1000
        });
        let panicking = gc::register(|| panic!("a collector that fails"));
        gc();
        gc();
        let called = calls.load(SeqCst);
        assert!(called >= 2, "{called}");
        assert!(gc::stats().collected >= 2000);
        drop((registration, panicking));
        // A cycle of another test may be in the middle of a call.
        gc();
        let last = calls.load(SeqCst);
        gc();
        assert_eq!(calls.load(SeqCst), last);
    });
    assert_eq!(Arc::strong_count(&counter), 1, "the collector was dropped");
}

#[test]
fn one_that_waits_for_a_cycle_is_ended_with_its_runtime() {
    for procs in PROCS {
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&dropped);
        run(procs, move || {
            for _ in 0..10 {
                let dropped = Arc::clone(&dropped);
                go(move || {
                    let _guard = OnDrop(|| {
                        // While it is unwound there is no other cycle.
                        gc();
                        dropped.fetch_add(1, SeqCst);
                    });
                    loop {
                        gc();
                    }
                });
            }
            // Until each is in its loop.
            (0..10).for_each(|_| gc());
        });
        assert_eq!(count.load(SeqCst), 10);
    }
}

#[test]
#[should_panic(expected = "not on a goroutine")]
fn a_thread_that_runs_no_goroutine_has_no_cycles() {
    gc();
}
