//! A barrier on every running thread of the process at once: membarrier.
//!
//! It makes pairs of cheap and dear: the frequent side of a protocol uses
//! [`compiler_fence`] only, the rare side calls [`barrier`], and
//! together they order what two full fences would.

use super::check;
use crate::prim::atomic::{Ordering, compiler_fence, fence};
use std::io;

const QUERY: libc::c_int = 0;
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Prepares the process for [`barrier`]. Once is enough; more do no harm.
///
/// # Errors
///
/// When the kernel has no expedited barrier or a sandbox forbids it. The frequent sides then need full
/// fences, or the protocol must be off.
pub(crate) fn register() -> io::Result<()> {
    let offered = membarrier(QUERY)?;
    if offered & REGISTER_PRIVATE_EXPEDITED == 0 {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    membarrier(REGISTER_PRIVATE_EXPEDITED).map(drop)
}

/// Every other running thread of the process passes a full memory barrier before this returns, and so
/// does the caller. Async-signal-safe.
///
/// # Errors
///
/// When [`register`] has not succeeded.
pub(crate) fn barrier() -> io::Result<()> {
    membarrier(PRIVATE_EXPEDITED).map(drop)
}

/// A pair of fences, one for the frequent side of a protocol and one for the rare side: whatever the one
/// side did before its fence, or the other before its own, is seen by the other side after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fences {
    /// Whether the rare side has [`barrier`], so that the frequent one needs no instruction.
    asymmetric: bool,
}

impl Fences {
    /// Full fences on both sides.
    #[cfg(any(test, loom))]
    pub(crate) const SYMMETRIC: Fences = Fences { asymmetric: false };

    /// The cheapest pair that this kernel has.
    pub(crate) fn detect() -> Fences {
        Fences {
            asymmetric: !cfg!(loom) && register().is_ok(),
        }
    }

    /// Whether the rare side has [`barrier`]: then a frequent side that uses a compiler fence alone is enough.
    pub(crate) fn are_asymmetric(self) -> bool {
        self.asymmetric
    }

    /// The fence of the frequent side.
    #[inline(always)]
    pub(crate) fn frequent(self) {
        if self.asymmetric {
            // ordering: SeqCst, for the compiler only; pairs with the barrier in `rare`.
            compiler_fence(Ordering::SeqCst);
        } else {
            // ordering: SeqCst; pairs with the fence in `rare`.
            fence(Ordering::SeqCst);
        }
    }

    /// The fence of the rare side: up to ten microseconds.
    pub(crate) fn rare(self) {
        if self.asymmetric && barrier().is_ok() {
            return;
        }
        // ordering: SeqCst; pairs with the fence in `frequent`.
        fence(Ordering::SeqCst);
    }
}

fn membarrier(command: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: the commands used here take numbers and touch no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    check(result as libc::c_int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_works_once_registered() {
        // Sandboxes may forbid the call; then registering is what must say so.
        match register() {
            Ok(()) => barrier().unwrap(),
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }
}
