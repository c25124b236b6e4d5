//! A barrier on every running thread of the process at once: membarrier.
//!
//! It makes pairs of cheap and dear: the frequent side of a protocol uses
//! [`compiler_fence`](crate::prim::atomic::compiler_fence) only, the rare side calls [`barrier`], and
//! together they order what two full fences would.

use super::check;
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
