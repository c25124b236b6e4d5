//! What creating a goroutine allocates, counted by an allocator.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use common::run;
use gmp_runtime::{JoinHandle, channel, go, park, try_go, yield_now};

/// Counts what all threads of the process allocate.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// So many goroutines, more than a P keeps: half of them come from the scheduler's pools.
const GOROUTINES: usize = 200;

/// The fewest allocations of several rounds of `work`: other threads may allocate, too, but not in every round.
fn fewest(mut work: impl FnMut()) -> usize {
    // Pools are filled, and lists have their size.
    work();
    let mut round = || {
        let before = ALLOCATIONS.load(SeqCst);
        work();
        ALLOCATIONS.load(SeqCst) - before
    };
    (0..20).map(|_| round()).min().unwrap()
}

/// Makes goroutines whose closures have `N` bytes, lets them run, and joins them; what is allocated for that.
fn of_closures<const N: usize>() -> usize {
    let mut handles: Vec<JoinHandle<()>> = Vec::with_capacity(GOROUTINES);
    fewest(|| {
        for i in 0..GOROUTINES {
            let bytes = [i as u8; N];
            handles.push(go(move || {
                black_box(bytes);
            }));
        }
        for handle in handles.drain(..) {
            handle.join().unwrap();
        }
    })
}

/// The same of results.
fn of_results<const N: usize>() -> usize {
    let mut handles: Vec<JoinHandle<[u8; N]>> = Vec::with_capacity(GOROUTINES);
    fewest(|| {
        for i in 0..GOROUTINES {
            handles.push(go(move || [i as u8; N]));
        }
        for (i, handle) in handles.drain(..).enumerate() {
            assert_eq!(handle.join().unwrap(), [i as u8; N]);
        }
    })
}

/// One test, because each counts what the whole process allocates.
#[test]
fn nothing_is_allocated_for_a_goroutine_of_80_bytes() {
    run(1, || {
        assert_eq!(of_closures::<0>(), 0);
        assert_eq!(of_closures::<8>(), 0);
        assert_eq!(of_closures::<80>(), 0);
        // One byte more is boxed.
        assert_eq!(of_closures::<81>(), GOROUTINES);
        assert_eq!(of_closures::<4096>(), GOROUTINES);

        assert_eq!(of_results::<0>(), 0);
        // With the word that says whether it is one.
        assert_eq!(of_results::<72>(), 0);
        assert_eq!(of_results::<80>(), GOROUTINES);

        // Those that are let go, those that wait and are woken, and those of `try_go`.
        let mut parked = Vec::with_capacity(GOROUTINES);
        let waiting = fewest(|| {
            for _ in 0..GOROUTINES {
                parked.push(try_go(park).unwrap());
                drop(go(yield_now));
            }
            yield_now();
            parked.iter().for_each(|handle| handle.goroutine().unpark());
            for handle in parked.drain(..) {
                handle.join().unwrap();
            }
        });
        assert_eq!(waiting, 0);

        // Nor for a value that goes through a channel, whoever waits.
        let (there, receiver) = channel::<u64>(0);
        let (back, answers) = channel::<u64>(1);
        go(move || receiver.iter().for_each(|value| back.send(value).unwrap()));
        let talking = fewest(|| {
            for i in 0..100 {
                there.send(i).unwrap();
                assert_eq!(answers.recv(), Ok(i));
            }
        });
        assert_eq!(talking, 0);
    });
}
