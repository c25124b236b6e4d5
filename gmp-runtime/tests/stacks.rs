//! Stacks: how a goroutine that needs too much of one ends the process, and what the smallest can hold.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;

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
        // On the goroutine of number 17: main's batch of numbers ends with 16.
        "recursion" => run_with_stack(64 << 10, || {
            go(|| recurse(10_000)).join().unwrap();
        }),
        "large frame" => run_with_stack(256 << 10, || {
            go(large_frame).join().unwrap();
        }),
        "main" => run_with_stack(64 << 10, || {
            recurse(10_000);
        }),
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
        let number = if case == "main" { 1 } else { 17 };
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
    assert_eq!(checked, 4);
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
