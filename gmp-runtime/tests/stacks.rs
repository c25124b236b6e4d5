//! Stacks: how a goroutine that needs too much of one ends the process, and what the smallest can hold.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{child, child_case, stderr};
use gmp_runtime::{JoinHandle, Runtime, channel, go, yield_now};

const SIGABRT: i32 = 6;

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 32]);
    if depth == 0 {
        return frame[0];
    }
    recurse(depth - 1) + black_box(frame)[7]
}

#[inline(never)]
fn large_frame() -> usize {
    let frame = black_box([1_u8; 400 << 10]);
    frame.iter().map(|&byte| usize::from(byte)).sum()
}

/// Needs little before it calls, and what the C library's formatting needs then.
#[inline(never)]
fn format_in_c() -> libc::c_int {
    let mut text = [0_u8; 64];
    let len = text.len();
    // SAFETY: the buffer has the length given, and the format takes one double.
    unsafe { libc::snprintf(text.as_mut_ptr().cast(), len, c"%.400f".as_ptr(), 1e300_f64) }
}

/// Calls `f` where only so many bytes are left of a stack of 64 KiB, whose guard takes 16 KiB; as deep on a larger one.
#[inline(never)]
fn near_the_end(left: usize, f: &dyn Fn()) {
    let frame = black_box([0_u8; 64]);
    let here = (&raw const frame).cast::<u8>() as usize;
    if here % (64 << 10) <= (16 << 10) + left {
        f();
    } else {
        near_the_end(left, f);
    }
    black_box(frame);
}

/// The same call on a stack that has room, and on one of 64 KiB.
fn overflow_in_c() {
    let call = || {
        near_the_end(1500, &|| {
            // SAFETY: writes the bytes given.
            unsafe { libc::write(2, c"calling\n".as_ptr().cast(), 8) };
            assert!(format_in_c() > 400);
        });
    };
    gmp_runtime::set_max_stack(1 << 20).unwrap();
    go(call).join().unwrap();
    eprintln!("fits into 1 MiB");
    gmp_runtime::set_max_stack(64 << 10).unwrap();
    go(call).join().unwrap();
}

fn run_with_stack<T: Send>(bytes: usize, f: impl FnOnce() -> T + Send) -> T {
    let runtime = Runtime::builder()
        .procs(2)
        .stack_size(bytes)
        .build()
        .unwrap();
    // SAFETY: tests keep nothing of a thread across calls that may park.
    unsafe { runtime.run(f) }
}

fn overflow_in_child(case: &str) {
    match case {
        // On goroutines from number 17 on: main's batch of numbers ends with 16.
        "recursion" => run_with_stack(64 << 10, || {
            go(|| recurse(10_000)).join().unwrap();
        }),
        "large frame" => run_with_stack(256 << 10, || {
            go(large_frame).join().unwrap();
        }),
        "main" => run_with_stack(64 << 10, || {
            recurse(10_000);
        }),
        "inside libc" => run_with_stack(64 << 10, overflow_in_c),
        "after a move" => run_with_stack(64 << 10, || {
            let (sender, receiver) = channel::<u64>(0);
            let handle = go(move || {
                let depth = receiver.iter().sum();
                recurse(depth)
            });
            for _ in 0..1_000 {
                sender.send(10).unwrap();
                yield_now();
            }
            drop(sender);
            handle.join().unwrap();
        }),
        _ => panic!("no such case: {case}"),
    }
    println!("survived");
}

#[test]
fn an_overflow_says_which_goroutine_and_ends_the_process() {
    if let Some(case) = child_case() {
        overflow_in_child(&case);
        return;
    }
    let mut checked = 0;
    // A stack less its guard of 16 KiB, 32 KiB from 256 KiB on, and up to 2 KiB by which tops differ.
    for (case, stack, most, created_by) in [
        ("recursion", "of 64 KiB", 48 << 10, " by goroutine 1\n"),
        ("large frame", "of 256 KiB", 224 << 10, " by goroutine 1\n"),
        ("main", "of 64 KiB", 48 << 10, "\n"),
        ("inside libc", "of 64 KiB", 48 << 10, " by goroutine 1\n"),
        ("after a move", "of 64 KiB", 48 << 10, " by goroutine 1\n"),
    ] {
        let output = child(
            "an_overflow_says_which_goroutine_and_ends_the_process",
            case,
        )
        .output()
        .unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.signal(), Some(SIGABRT), "{case}: {text}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("survived"));
        let number = match case {
            "main" => 1,
            "inside libc" => 18,
            _ => 17,
        };
        if case == "inside libc" {
            assert!(
                text.starts_with("calling\nfits into 1 MiB\ncalling\n"),
                "{text}"
            );
        }
        let begin = format!("runtime: stack of goroutine {number} exceeds its limit of ");
        let limit = text
            .split(&begin)
            .nth(1)
            .and_then(|rest| rest.split(" bytes\n").next());
        let limit: usize = limit
            .unwrap_or_else(|| panic!("{case}: {text}"))
            .parse()
            .unwrap();
        assert!((most - 2048..=most).contains(&limit), "{case}: {limit}");
        assert!(
            text.contains("\nfatal error: stack overflow\n"),
            "{case}: {text}"
        );
        assert!(text.contains(stack), "{case}: {text}");
        let site = text.split("created at gmp-runtime/tests/stacks.rs:").nth(1);
        let line = site
            .and_then(|site| site.lines().next())
            .map(|line| format!("{line}\n"));
        assert!(
            line.is_some_and(|line| line.ends_with(created_by)),
            "{case}: {text}"
        );
        // A dump of all: the one that overflowed, and main, which waits for it.
        let dump = text.split("\nfatal error: stack overflow\n\n").nth(1);
        let dump = dump.unwrap_or_else(|| panic!("{case}: {text}"));
        assert!(
            dump.starts_with(&format!("goroutine {number} [running]:\n")),
            "{case}: {text}"
        );
        let main_waits = dump.contains("\n\ngoroutine 1 [");
        assert_eq!(main_waits, case != "main", "{case}: {text}");
        checked += 1;
    }
    assert_eq!(checked, 5);
}

/// A goroutine is preempted where its stack has no room for that: the handler has a stack of its own.
#[test]
fn a_goroutine_is_preempted_at_the_end_of_its_stack() {
    const NAME: &str = "a_goroutine_is_preempted_at_the_end_of_its_stack";
    if child_case().is_none() {
        common::succeed(&mut child(NAME, "run"));
        return;
    }
    let runtime = Runtime::builder().procs(1).stack_size(64 << 10).build();
    // SAFETY: nothing of a thread lives across calls that may park.
    let came = unsafe {
        runtime.unwrap().run(|| {
            let came = Arc::new(AtomicUsize::new(0));
            let both = [(); 2].map(|()| {
                let came = Arc::clone(&came);
                go(move || {
                    // No frame of a signal has room there.
                    near_the_end(900, &|| {
                        came.fetch_add(1, Ordering::SeqCst);
                        while came.load(Ordering::SeqCst) < 2 {}
                    });
                })
            });
            both.into_iter().for_each(|one| one.join().unwrap());
            came.load(Ordering::SeqCst)
        })
    };
    assert_eq!(came, 2);
}

/// Counts the signals that hit this process.
static HITS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_hit(_: libc::c_int) {
    // ordering: Relaxed: a count.
    HITS.fetch_add(1, Ordering::Relaxed);
}

/// Sends signals to all threads of Ms until `stop`: the preemption's, which then is somebody else's, and another one.
fn send_signals(stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            let task = task.unwrap();
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let id: libc::pid_t = task.file_name().to_str().unwrap().parse().unwrap();
            if name.starts_with("gmp-m") {
                for signal in [libc::SIGURG, libc::SIGPROF] {
                    // SAFETY: numbers only; a thread that has ended is an error that nobody minds.
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, signal) };
                }
            }
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Goroutines panic, each with its backtrace, and are preempted, while signals come in. Handlers of the program run
/// where it wants them to: on the alternate stack.
fn panic_under_signals() {
    for signal in [libc::SIGURG, libc::SIGPROF] {
        // SAFETY: all-zero is a valid action, and the handler only adds to a number.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count_hit as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let sender = std::thread::spawn(move || send_signals(&stopped));
    let caught = run_with_stack(64 << 10, || {
        let mut caught = 0;
        let mut round = 0;
        while round < 5 || HITS.load(Ordering::Relaxed) < 200 {
            round += 1;
            let handles: Vec<JoinHandle<()>> = (0..8)
                .map(|i| go(move || panic!("panic number {i}")))
                .collect();
            caught += handles
                .into_iter()
                .map(JoinHandle::join)
                .filter(Result::is_err)
                .count();
        }
        assert_eq!(caught, 8 * round);
        caught
    });
    stop.store(true, Ordering::SeqCst);
    sender.join().unwrap();
    println!("caught {caught}");
}

/// A signal that comes while a panic prints its backtrace needs no room on the stack.
#[test]
fn a_panic_with_backtrace_fits_on_the_smallest_stack_under_signals() {
    if child_case().is_some() {
        return panic_under_signals();
    }
    let output = common::succeed(
        child(
            "a_panic_with_backtrace_fits_on_the_smallest_stack_under_signals",
            "run",
        )
        .env("RUST_BACKTRACE", "1"),
    );
    let (said, told) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
    let caught = told.matches("panic number ").count();
    assert!(caught >= 40, "{told}");
    assert!(said.contains(&format!("caught {caught}\n")), "{said}");
    assert_eq!(told.matches("stack backtrace:").count(), caught);
}

/// The smallest stack holds a panic with its backtrace.
#[test]
fn a_panic_with_backtrace_fits_on_the_smallest_stack() {
    if child_case().is_some() {
        run_with_stack(64 << 10, || {
            let handles: Vec<JoinHandle<()>> = (0..5)
                .map(|i| go(move || panic!("panic number {i}")))
                .collect();
            let caught = handles
                .into_iter()
                .map(|handle| handle.join())
                .filter(Result::is_err)
                .count();
            println!("caught {caught}");
        });
        return;
    }
    for backtrace in ["1", "full", "0"] {
        let output = common::succeed(
            child("a_panic_with_backtrace_fits_on_the_smallest_stack", "run")
                .env("RUST_BACKTRACE", backtrace),
        );
        let text = stderr(&output);
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("caught 5"),
            "{text}"
        );
        assert_eq!(text.matches("panic number ").count(), 5, "{text}");
        assert_eq!(
            text.contains("stack backtrace:"),
            backtrace != "0",
            "{text}"
        );
    }
}

#[test]
fn stacks_hold_what_they_promise_and_are_used_again() {
    for (bytes, depth) in [(64 << 10, 20), (256 << 10, 120), (8 << 20, 5_000)] {
        let sum = run_with_stack(bytes, || {
            let mut sum = 0;
            for _ in 0..20 {
                let handles: Vec<_> = (0..10).map(|_| go(move || recurse(depth))).collect();
                sum += handles.into_iter().map(|h| h.join().unwrap()).sum::<u64>();
            }
            sum
        });
        assert_eq!(sum, 200 * (depth * (depth + 1) / 2));
    }
}

#[test]
fn what_cannot_be_built_is_refused() {
    let text = |builder: gmp_runtime::Builder| builder.build().unwrap_err().to_string();
    assert!(text(Runtime::builder().procs(0)).contains("0 Ps"));
    assert!(text(Runtime::builder().procs(5_000)).contains("5000 Ps"));
    assert!(text(Runtime::builder().procs(1).stack_size((8 << 20) + 1)).contains("8 MiB"));
}

#[test]
fn the_size_of_stacks_can_change_while_goroutines_run() {
    run_with_stack(64 << 10, || {
        assert!(gmp_runtime::set_max_stack((8 << 20) + 1).is_err());
        // Enough recursion for 64 KiB to overflow.
        assert_eq!(gmp_runtime::set_max_stack(1 << 20).unwrap(), 64 << 10);
        let deep: Vec<_> = (0..10).map(|_| go(|| recurse(300))).collect();
        for handle in deep {
            assert_eq!(handle.join().unwrap(), 300 * 301 / 2);
        }
        assert_eq!(gmp_runtime::set_max_stack(64 << 10).unwrap(), 1 << 20);
        let shallow: Vec<_> = (0..200).map(|_| go(|| recurse(10))).collect();
        for handle in shallow {
            assert_eq!(handle.join().unwrap(), 55);
        }
    });
}

#[test]
fn a_goroutine_of_try_go_runs_or_is_dropped_as_any_other() {
    let drops = common::Drops::default();
    let counted = drops.clone();
    run_with_stack(64 << 10, move || {
        let handles: Vec<_> = (0..500)
            .map(|i| gmp_runtime::try_go(move || i).unwrap())
            .collect();
        let sum: usize = handles.into_iter().map(|h| h.join().unwrap()).sum();
        assert_eq!(sum, 500 * 499 / 2);
        // Never run: main returns first.
        for i in 0..10 {
            let value = counted.value(i);
            drop(gmp_runtime::try_go(move || drop(value)).unwrap());
        }
    });
    assert_eq!((drops.made(), drops.alive()), (10, 0));
}
