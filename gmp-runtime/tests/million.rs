//! A million goroutines: parked, each with its stack, and queued, without.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::fs;

use common::{child, child_case, stderr, succeed};
use gmp_runtime::{Runtime, go, park, yield_now};

/// Without optimization a quarter of it, so that a busy machine is done in time.
const MILLION: usize = if cfg!(debug_assertions) {
    250_000
} else {
    1_000_000
};

/// Bytes of memory that a parked goroutine may cost: a page of stack, and what is known of it. Frames that were
/// not optimized need more pages.
const BYTES_EACH: usize = if cfg!(debug_assertions) {
    12_800
} else {
    4_600
};

/// A figure of `/proc`, given there in kB, in bytes.
fn figure(file: &str, name: &str) -> usize {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<usize>()
        .unwrap()
        << 10
}

/// How many mappings the process has.
fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .count()
}

/// Resident bytes, with the tables of pages.
fn memory() -> usize {
    figure("/proc/self/status", "VmRSS:") + figure("/proc/self/status", "VmPTE:")
}

/// A million, or as many as three quarters of the free memory have room for, which is said.
fn how_many() -> usize {
    // With their handles, and while other tests run.
    let room = figure("/proc/meminfo", "MemAvailable:") / 4 * 3 / (BYTES_EACH + 100);
    if room < MILLION {
        eprintln!("memory for {room} goroutines only");
    }
    room.min(MILLION)
}

fn park_all(count: usize) {
    let runtime = Runtime::builder()
        .procs(2)
        .stack_size(64 << 10)
        .build()
        .unwrap();
    // SAFETY: nothing of a thread lives across calls that may park.
    unsafe {
        runtime.run(|| {
            // What is not a goroutine's is there before.
            go(|| ()).join().unwrap();
            let mut parked = Vec::with_capacity(count);
            let before = memory();
            for _ in 0..count {
                parked.push(go(park));
                if parked.len() % 64 == 0 {
                    yield_now();
                }
            }
            let waiting = || {
                gmp_runtime::metrics()
                    .count("/sched/goroutines/waiting:goroutines")
                    .unwrap()
            };
            while waiting() < count as u64 {
                yield_now();
            }
            // The handles are the test's own.
            let handles = count * size_of_val(&parked[0]);
            let each = (memory() - before).saturating_sub(handles) / count;
            println!("{count} parked, {each} bytes each, {} mappings", mappings());
            for handle in &parked {
                handle.goroutine().unpark();
            }
            for handle in parked {
                handle.join().unwrap();
            }
        });
    }
}

#[test]
fn a_million_parked_goroutines_cost_a_page_of_stack_each() {
    const NAME: &str = "a_million_parked_goroutines_cost_a_page_of_stack_each";
    if let Some(case) = child_case() {
        return park_all(case.parse().unwrap());
    }
    let count = how_many();
    let output = succeed(&mut child(NAME, &count.to_string()));
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains(" parked, "));
    let line = line.unwrap_or_else(|| panic!("{text}{}", stderr(&output)));
    let numbers: Vec<usize> = line
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    let (parked, each, mappings) = match numbers[..] {
        [parked, each, mappings] => (parked, each, mappings),
        _ => panic!("{line}"),
    };
    eprintln!("{line}");
    assert_eq!(parked, count);
    assert!((4_096..=BYTES_EACH).contains(&each), "{line}");
    // Guards by markers take none.
    assert!(mappings < 1_000, "{line}");
}

#[test]
fn a_million_queued_goroutines_use_a_handful_of_stacks() {
    const NAME: &str = "a_million_queued_goroutines_use_a_handful_of_stacks";
    if child_case().is_none() {
        succeed(&mut child(NAME, "queued"));
        return;
    }
    let count = how_many();
    let runtime = Runtime::builder().procs(1).build().unwrap();
    // SAFETY: nothing of a thread lives across calls that may park.
    unsafe {
        runtime.run(|| {
            go(|| ()).join().unwrap();
            let handles: Vec<_> = (0..count).map(|i| go(move || (i, on_stack()))).collect();
            let mut stacks = std::collections::HashSet::new();
            for (expected, handle) in handles.into_iter().enumerate() {
                let (i, stack) = handle.join().unwrap();
                assert_eq!(i, expected);
                stacks.insert(stack);
            }
            println!("{} stacks", stacks.len());
            assert!((1..=16).contains(&stacks.len()), "{}", stacks.len());
        });
    }
}

/// Which stack the caller is on: stacks are 256 KiB apart.
#[inline(never)]
fn on_stack() -> usize {
    let here = 0_u8;
    std::hint::black_box(&raw const here) as usize >> 18
}
