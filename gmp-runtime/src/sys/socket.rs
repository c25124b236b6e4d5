//! Receiving and sending without libc's own wrappers, which let a thread be cancelled in the middle: nobody cancels
//! ours, and preparing for it takes two locked instructions a call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Receives at most as many bytes as `buffer` has room for; how many. 0 is the end.
///
/// # Errors
/// The kernel's: `WouldBlock` when there are none and the socket does not block.
#[inline]
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for writing as many bytes as it is long; no address is asked for.
    bytes(unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            socket.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
            0,
            std::ptr::null_mut::<libc::sockaddr>(),
            std::ptr::null_mut::<libc::socklen_t>(),
        )
    })
}

/// Sends bytes of `buffer`; how many.
///
/// # Errors
/// The kernel's: `WouldBlock` when there is no room and the socket does not block, `BrokenPipe` (without a signal) when
/// nobody can receive them.
#[inline]
pub(crate) fn send(socket: BorrowedFd<'_>, buffer: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for reading as many bytes as it is long; no address is given.
    bytes(unsafe {
        libc::syscall(
            libc::SYS_sendto,
            socket.as_raw_fd(),
            buffer.as_ptr(),
            buffer.len(),
            libc::MSG_NOSIGNAL,
            std::ptr::null::<libc::sockaddr>(),
            0 as libc::socklen_t,
        )
    })
}

/// What a system call answered: a number of bytes, or -1.
#[inline]
fn bytes(answer: libc::c_long) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}
