//! A build that perturbs schedules, `--cfg gmp_sched_fuzz`: it makes choices at random that are free, so that
//! tests see orders that are rare otherwise.
//!
//! | where | what may happen |
//! |---|---|
//! | a goroutine is made runnable or new | it goes to the tail of the ring and not into `runnext` (as Go's race build) |
//! | a goroutine leaves its M | the scheduler is asked, and not only the head of the ring |
//! | a spin lock is about to be taken | the thread gives up its processor |
//!
//! Each P draws from a generator that a seed begins: `GMP_SCHED_SEED`, or the clock. The seed is printed when the
//! first runtime is built. The same seed gives the same choices on one P; on several it gives the same numbers to
//! each, and the system decides the rest.
//!
//! In an ordinary build nothing of this is compiled.

use std::sync::OnceLock;

use crate::fatal::report;
use crate::sys::clock::monotonic_ns;

/// Whether this build perturbs.
pub(crate) const ON: bool = cfg!(gmp_sched_fuzz);

/// The seed of the process, which is printed once; zero in an ordinary build.
pub(crate) fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    if !ON {
        return 0;
    }
    *SEED.get_or_init(|| {
        let seed = std::env::var("GMP_SCHED_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(monotonic_ns);
        report(format_args!("gmp: schedules perturbed with GMP_SCHED_SEED={seed}\n"));
        seed
    })
}
