//! Collection cycles: giving memory that goroutines do not need back to the system.
//!
//! There is no heap to mark here, but a runtime with stacks of its own has garbage: the pages of stacks that were
//! deep once, and the stacks of goroutines that have ended. A *cycle* gives them back: it drops the pages below
//! the stack pointer of every goroutine that waits, those of every free stack, and calls the collectors that the
//! program registered ([`register`]).
//!
//! Goroutines go on meanwhile. One that is made runnable while its pages are being dropped waits for the rest of
//! one system call, some microseconds.
//!
//! # When
//!
//! * When the memory of stacks has grown by `GMPGC` percent of what the last cycle left (100 unless set: when it
//!   has doubled), and to at least 4 MiB times `GMPGC`/100. Looked at ten times a second, by the memory of the
//!   whole process first: growth that a shrinking heap hides is found by the next cycle.
//! * Two minutes after the last cycle.
//! * At each call of [`gc()`].
//!
//! `GMPGC=off` leaves the last one.
//!
//! # What it does not give back
//!
//! Pages of goroutines that are runnable, that run or are in a system call; stacks that a P which is not
//! idle keeps for its next goroutines, 64 at most; the memory of goroutines themselves, some hundred bytes each; locked memory (`mlock`).
//! Where the kernel or a sandbox forbids `membarrier`, pages of waiting goroutines stay, too, and the first line
//! of `GMPDEBUG=gctrace=1` says so.
//!
//! # The line of `GMPDEBUG=gctrace=1`
//!
//! ```text
//! gc 3 @12.345s 0%: 41 ms clock, 38 ms cpu, 6400->412 MB, 824 MB goal, 1638400 pages, 100000 stacks, 2 P (forced)
//! ```
//!
//! The number of the cycle; seconds since the start; the share of the processors' time, since the start, that
//! cycles took; how long this one took, and how much processor time; the memory of all stacks before and after; the
//! size at which the next one begins; the pages given back, and of how many stacks; the number of Ps; whether a
//! call of [`gc()`] began it. A line `GC forced` comes before one that begins because two minutes have passed.

mod cycle;
mod line;
mod pace;
mod registry;
#[cfg(all(test, not(loom)))]
mod tests;

use std::panic::Location;

use crate::sched::critical;
use crate::sched::current::this_goroutine;
use crate::sched::g::{Wait, WaitReason};

pub(crate) use cycle::{Collection, run};
pub(crate) use pace::from_environment;
pub use registry::{Registration, register};

/// Runs a collection cycle, which begins after the call, and waits until it is over.
///
/// Blocks the goroutine (reason `wait for GC cycle`), not its thread. A cycle takes about three microseconds of
/// another thread for each goroutine with pages to give back, and as long as the registered collectors take; while
/// all Ps are busy it keeps to a quarter of them. Returns at once in a destructor that runs because the runtime ends.
///
/// # Panics
/// On a thread that runs no goroutine.
///
/// # Examples
/// ```
/// let runtime = gmp_runtime::Runtime::new()?;
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         gmp_runtime::gc();
///         assert_eq!(gmp_runtime::gc::stats().cycles, 1);
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn gc() {
    let g = this_goroutine();
    let wait = Wait {
        reason: WaitReason::GcCycle,
        object: 0,
        site: Location::caller(),
    };
    g.sched.collection.wait_for_cycle(g, wait);
}

/// What the cycles of a scheduler did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Cycles that have ended.
    pub cycles: u64,
    /// Those that [`gc()`] began.
    pub forced: u64,
    /// Pages of memory that were given back, as counted just before.
    pub pages: u64,
    /// How often pages of a stack were given back.
    pub stacks: u64,
    /// Bytes that registered collectors said they gave back.
    pub collected: u64,
    /// Bytes of all stacks of the process that were in memory when the last cycle ended.
    pub stack_bytes: u64,
    /// Bytes of stacks at which the next cycle begins; `None` with `GMPGC=off`.
    pub goal: Option<u64>,
    /// Nanoseconds from the beginning to the end of all cycles.
    pub elapsed_ns: u64,
    /// Nanoseconds of processor time of all cycles.
    pub cpu_ns: u64,
}

/// What the cycles of the caller's scheduler did so far.
///
/// # Panics
/// On a thread that runs no goroutine.
#[track_caller]
pub fn stats() -> Stats {
    let g = this_goroutine();
    let _section = critical::enter(g);
    g.sched.collection.stats()
}
