//! The operating system: the only place of the crate that names libc.
//!
//! Each module wraps one service of Linux. Functions report failure as [`std::io::Error`] with the cause
//! the kernel gave, and say in their docs whether a signal handler may call them.

pub(crate) mod clock;
pub(crate) mod epoll;
pub(crate) mod foreign;
pub(crate) mod futex;
pub(crate) mod mapping;
pub(crate) mod memory;
pub(crate) mod memory_barrier;
pub(crate) mod modules;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) mod thread;
pub(crate) mod tsc;
pub(crate) mod unwind;

use std::io;

/// Turns the `-1` of a libc function into the error it left in `errno`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
