//! What a goroutine can do to itself and to others: yield, park, unpark.

use std::fmt;
use std::panic::Location;

use crate::prim::atomic::Ordering;
use crate::sched::critical;
use crate::sched::current;
use crate::sched::current::this_goroutine;
use crate::sched::g::{Wait, WaitReason};
use crate::sched::park;
use crate::sched::refs::GRef;

/// Lets other goroutines run: the caller goes to the end of its P's queue (Go's `runtime.Gosched`).
///
/// Blocks neither G, M nor P. On a thread that runs no goroutine it is [`std::thread::yield_now`].
#[inline]
pub fn yield_now() {
    match current::goroutine() {
        Some(g) => park::yield_now(g),
        None => std::thread::yield_now(),
    }
}

/// Waits until somebody [unparks](Goroutine::unpark) this goroutine; returns at once if somebody did
/// since it last parked. As [`std::thread::park`], it may also return for no reason.
///
/// Blocks the goroutine (reason `park`), not its thread.
///
/// # Panics
/// On a thread that runs no goroutine.
#[track_caller]
pub fn park() {
    let g = this_goroutine();
    let wait = Wait {
        reason: WaitReason::Park,
        object: 0,
        site: Location::caller(),
    };
    park::park_for_permit(g, wait);
}

/// The goroutine of the caller; `None` on a thread that runs none.
pub fn current() -> Option<Goroutine> {
    current::goroutine().map(Goroutine::new)
}

/// The number of the P that the caller runs on, from 0; `None` on a thread that runs no goroutine. It
/// is another one, perhaps, after every call that may park.
pub fn proc_id() -> Option<u32> {
    let g = current::goroutine()?;
    let _section = critical::enter(g);
    current::m_of(g).p().map(|p| p.id)
}

/// A goroutine, to be unparked.
pub struct Goroutine {
    g: GRef,
    id: u64,
}

impl Goroutine {
    pub(crate) fn new(g: GRef) -> Goroutine {
        // ordering: Relaxed: the scheduler is alive while one of its goroutines makes a handle.
        g.sched.handles.fetch_add(1, Ordering::Relaxed);
        Goroutine { g, id: g.id.get() }
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Makes its next (or present) [`park()`] return. Works on any thread; does not block. After the
    /// goroutine has ended it does nothing, or wakes another one from [`park()`] for no reason.
    pub fn unpark(&self) {
        park::give_permit(self.g);
    }
}

impl Clone for Goroutine {
    fn clone(&self) -> Goroutine {
        Goroutine::new(self.g)
    }
}

impl Drop for Goroutine {
    fn drop(&mut self) {
        // ordering: Release; pairs with the Acquire load in `sched::shutdown`.
        self.g.sched.handles.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Debug for Goroutine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Goroutine({})", self.id)
    }
}
