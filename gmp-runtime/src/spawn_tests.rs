//! Running out of stacks, in a process of its own that may have no more mappings.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

use super::*;
use crate::goroutine::park;
use crate::runtime::Runtime;
use crate::stack::StackPool;
use crate::sys::memory::{self, Guard, Reservation};
use crate::test_child;

const SMALLEST: usize = 64 << 10;

/// How many stacks are locked in memory, where a guard takes a mapping: less than what a process may lock by
/// default.
const LOCKED: usize = 64;

/// Locks the next [`LOCKED`] stacks of the smallest size, without touching them, so that their guards cannot be
/// markers.
fn lock_stacks() {
    let pool = StackPool::global().unwrap();
    let first = pool.take(0).unwrap();
    let next = (first.limit() & !(SMALLEST - 1)) + SMALLEST;
    pool.put(first);
    // SAFETY: the range is inside the reservation of stacks; locking does not change what it holds.
    let result = unsafe { libc::mlock2(next as *const _, LOCKED * SMALLEST, libc::MLOCK_ONFAULT) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the page is in the locked range, and no stack has been made there.
    let guard = unsafe {
        let address = std::ptr::NonNull::new((next + (LOCKED - 1) * SMALLEST) as *mut u8).unwrap();
        memory::install_guard(address, memory::page_size()).unwrap()
    };
    assert_eq!(
        guard,
        Guard::Protection,
        "the fallback is what this is about"
    );
}

/// Uses up the mappings that the process may have, until the result is dropped.
fn use_up_mappings() -> Reservation {
    let page = memory::page_size();
    let range = Reservation::reserve((4 << 20) * page).unwrap();
    let full = (0..2 << 20).find(|index| {
        let address = range.base().as_ptr().wrapping_add(2 * index * page);
        // SAFETY: the page is in the reservation and holds nothing.
        unsafe { libc::mprotect(address.cast(), page, libc::PROT_NONE) != 0 }
    });
    assert!(
        full.is_some(),
        "the machine allows more mappings than this makes"
    );
    range
}

fn run_out() {
    lock_stacks();
    let runtime = Runtime::builder()
        .procs(1)
        .stack_size(SMALLEST)
        .build()
        .unwrap();
    // SAFETY: nothing of a thread lives across calls that may park.
    unsafe {
        runtime.run(|| {
            let mut parked = vec![try_go(park).unwrap()];
            let used_up = use_up_mappings();
            let error = loop {
                assert!(parked.len() < LOCKED, "stacks do not run out");
                match try_go(park) {
                    Ok(handle) => parked.push(handle),
                    Err(error) => break error.to_string(),
                }
            };
            drop(used_up);
            assert!(error.contains("vm.max_map_count"), "{error}");
            assert!(error.contains("fewer goroutines"), "{error}");
            // With room it goes on, and nobody is hurt.
            assert_eq!(try_go(|| 42).unwrap().join().unwrap(), 42);
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
fn running_out_of_mappings_is_an_error_of_try_go() {
    const NAME: &str = "spawn::tests::running_out_of_mappings_is_an_error_of_try_go";
    if test_child::requested_case().is_some() {
        return run_out();
    }
    let output = test_child::run(NAME, "run out");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}
