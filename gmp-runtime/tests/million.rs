//! A million goroutines: parked, each with its stack, and queued, without.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use common::{child, child_case, stderr, succeed};
use gmp_runtime::{Runtime, go, park, yield_now};

/// Without optimization a quarter of it, so that a busy machine is done in time.
const MILLION: usize = if cfg!(debug_assertions) {
    250_000
} else {
    1_000_000
};

/// Bytes between the smallest stacks.
const SMALLEST: usize = 64 << 10;

/// Bytes of memory that a parked goroutine may cost: a page of stack, and what is known of it. Frames that were
/// not optimized need three, and the portable switch keeps more.
const BYTES_EACH: usize = if cfg!(debug_assertions) {
    13_000
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
    at_most(room, "memory")
}

/// [`how_many`] that have stacks: without markers a guard splits a mapping in two, and there are so many only.
fn how_many_stacks() -> usize {
    if guards_are_markers() {
        return how_many();
    }
    let most = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let most: usize = most.trim().parse().unwrap();
    how_many().min(at_most((most / 4 * 3) / 2, "mappings"))
}

fn at_most(room: usize, of: &str) -> usize {
    if room < MILLION {
        eprintln!("{of} for {room} goroutines only");
    }
    room.min(MILLION)
}

/// Whether the kernel has guards that take no mapping: Linux 6.13.
fn guards_are_markers() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|word| word.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(13))
}

fn park_all(count: usize) {
    let runtime = Runtime::builder()
        .procs(2)
        .stack_size(SMALLEST)
        .build()
        .unwrap();
    // SAFETY: nothing of a thread lives across calls that may park.
    unsafe {
        runtime.run(|| {
            // What is not a goroutine's is there before.
            go(|| ()).join().unwrap();
            let stacks: Vec<_> = (0..count).map(|_| AtomicUsize::new(1)).collect();
            let stacks: &'static [AtomicUsize] = stacks.leak();
            let mut parked = Vec::with_capacity(count);
            let before = memory();
            for _ in 0..count {
                let place = &stacks[parked.len()];
                parked.push(go(move || {
                    note_stack(place);
                    park();
                }));
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
            let stacks: HashSet<_> = stacks.iter().map(|stack| stack.load(SeqCst)).collect();
            assert_eq!(stacks.len(), count, "each has its own");
            let guarded = stacks.iter().filter(|stack| is_guarded(**stack * SMALLEST));
            assert_eq!(guarded.count(), count);
            assert!(!is_guarded(
                stacks.iter().max().unwrap() * SMALLEST + SMALLEST - 4096
            ));
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
    let count = how_many_stacks();
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
    if guards_are_markers() {
        assert!(mappings < 1_000, "{line}");
    }
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
            let handles: Vec<_> = (0..count)
                .map(|i| go(move || (i, on_stack(256 << 10))))
                .collect();
            let mut stacks = HashSet::new();
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

/// Which stack the caller is on, of stacks that are so many bytes apart.
#[inline(never)]
fn on_stack(bytes: usize) -> usize {
    let here = 0_u8;
    std::hint::black_box(&raw const here) as usize / bytes
}

/// On a frame of its own, so that the one that waits stays small.
#[inline(never)]
fn note_stack(place: &AtomicUsize) {
    place.store(on_stack(SMALLEST), SeqCst);
}

/// Whether the page at `address` cannot be read, as the kernel sees it.
fn is_guarded(address: usize) -> bool {
    thread_local! {
        static PIPE: [libc::c_int; 2] = {
            let mut ends = [0; 2];
            // SAFETY: there is room for two descriptors.
            assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK) }, 0);
            ends
        };
    }
    let end = PIPE.with(|ends| ends[1]);
    // SAFETY: the kernel reads the byte, and says so if it cannot.
    let written = unsafe { libc::write(end, address as *const libc::c_void, 1) };
    let error = std::io::Error::last_os_error().raw_os_error();
    // A pipe that is full has read nothing, which a guard does not come to.
    written != 1 && error == Some(libc::EFAULT)
}
