//! A build that perturbs schedules, `--cfg gmp_sched_fuzz`: choices that are free are made at random, so that tests see
//! orders that are rare otherwise.
//!
//! | where | what may happen |
//! |---|---|
//! | a call that may block its goroutine ends | the goroutine yields |
//! | a goroutine becomes runnable | it goes to the tail of the ring and not into `runnext` (as Go's race build) |
//! | a goroutine leaves its M | the scheduler is asked, and not only the head of the ring |
//! | the scheduler searches | the global queue comes first; the ring comes before `runnext`, and is turned by one |
//! | a thief looks at a P | it takes `runnext` at once; the order of the victims is always random |
//! | a spin lock is about to be taken | the thread gives up its processor |
//!
//! Each P draws from a generator that a seed begins: `GMP_SCHED_SEED`, or else the clock, and then the seed is printed
//! when the first scheduler is made. The same seed gives the same choices where there is one P; with several it gives
//! each the same numbers, and the system decides the rest.
//!
//! In an ordinary build nothing of this is compiled.

use std::sync::OnceLock;

use crate::fatal::report;
use crate::prim::process_wide::{AtomicU32, Ordering};
use crate::sys::clock::monotonic_ns;
use crate::sys::thread::sched_yield;

/// Whether this build perturbs.
pub(crate) const ON: bool = cfg!(gmp_sched_fuzz);

/// One lock in so many is taken by another thread first, perhaps.
const LOCKS_BETWEEN_YIELDS: u32 = 32;

/// The seed of the process; zero in an ordinary build.
pub(crate) fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    if !ON {
        return 0;
    }
    *SEED.get_or_init(|| {
        let given = std::env::var("GMP_SCHED_SEED").ok();
        given.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
            let seed = monotonic_ns();
            report(format_args!(
                "gmp: schedules perturbed with GMP_SCHED_SEED={seed}\n"
            ));
            seed
        })
    })
}

/// Before a spin lock is taken.
#[inline(always)]
pub(crate) fn before_lock() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // ordering: Relaxed: any number will do. Multiples of the golden ratio fall evenly.
    if ON
        && COUNT
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_mul(0x9e37_79b9)
            < u32::MAX / LOCKS_BETWEEN_YIELDS
    {
        sched_yield();
    }
}
