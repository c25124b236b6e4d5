//! Which of several things that a goroutine waits for came first.

use crate::lock::Spin;
use crate::prim::atomic::{AtomicU32, Ordering};
use crate::sched::timers::Alarm;

/// Nothing yet.
const PENDING: u32 = 0;

/// A deadline passed.
pub(crate) const TIMER: u32 = u32::MAX;

/// One wait for several things. It lives on the stack of the goroutine that waits; each thing refers to it
/// under a lock of its own, and the goroutine takes every one of those locks before the ticket goes, but for that
/// of the thing that came first: whoever did that has released it.
#[derive(Debug)]
pub(crate) struct Ticket {
    winner: AtomicU32,
}

impl Ticket {
    pub(crate) fn new() -> Ticket {
        Ticket {
            winner: AtomicU32::new(PENDING),
        }
    }

    /// Whether `who` is the first one: only then it may act for the goroutine, and wakes it.
    pub(crate) fn claim(&self, who: u32) -> bool {
        debug_assert_ne!(who, PENDING);
        // ordering: Relaxed: what the winner hands over goes through the wake; the losers read nothing.
        self.winner
            .compare_exchange(PENDING, who, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Who was the first one, after the goroutine was woken.
    pub(crate) fn winner(&self) -> u32 {
        // ordering: Relaxed: the wake came after the claim.
        self.winner.load(Ordering::Relaxed)
    }
}

/// What the post-switch action of a goroutine that waits for several things needs. On its stack, which it
/// leaves again only after it has taken each of the locks, but for the one of whoever woke it.
#[derive(Debug)]
pub(crate) struct AnyWait {
    /// Locks that are held, each once, in the order in which they are released.
    pub(crate) locks: *const *const Spin,
    pub(crate) lock_count: usize,
    /// What ends the wait at a deadline, or null.
    pub(crate) alarm: *mut Alarm,
}
