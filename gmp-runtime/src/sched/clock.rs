//! The time to within some milliseconds, for the price of a load.
//!
//! A goroutine that parks notes since when it waits, and reading a clock there would cost more than the
//! switch itself. So it notes what this clock says, and others keep the clock: an M that wakes from its
//! sleep, whoever looks for due timers, and the monitor, each of which reads the system's clock anyway or
//! has just been through the kernel. While every M sleeps nobody parks, so nobody has to keep it.

use crate::prim::atomic::{AtomicU64, Ordering};
use crate::sys::clock::monotonic_ns;

/// See the module. In a cache line of its own: every P reads it, and few write it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CoarseClock(AtomicU64);

impl CoarseClock {
    pub(crate) fn new() -> CoarseClock {
        CoarseClock(AtomicU64::new(monotonic_ns()))
    }

    /// Nanoseconds of the monotonic clock, some milliseconds behind.
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        // ordering: Relaxed: a time publishes nothing.
        self.0.load(Ordering::Relaxed)
    }

    /// Somebody has read the clock: it is `now`.
    pub(crate) fn keep(&self, now: u64) {
        // ordering: Relaxed, as in `now`. One that was read earlier may overwrite a later one: no matter.
        self.0.store(now, Ordering::Relaxed);
    }

    /// Reads the clock for the others.
    pub(crate) fn refresh(&self) {
        self.keep(monotonic_ns());
    }
}
