//! Names to addresses.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::panic::Location;

use crate::sched::syscall;

/// The addresses that `address` stands for. A name is looked up by the C library, which blocks: as a system
/// call, so that other goroutines have the P meanwhile.
pub(super) fn resolve(
    address: impl ToSocketAddrs,
    site: &'static Location<'static>,
) -> io::Result<Vec<SocketAddr>> {
    syscall::blocking(site, || address.to_socket_addrs().map(Iterator::collect))
}

/// The result of `attempt` for the first address with which it succeeds.
///
/// # Errors
/// That of the last one.
pub(super) fn first_that<T>(
    addresses: Vec<SocketAddr>,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = io::Error::new(
        io::ErrorKind::InvalidInput,
        "expected an address, found a name without one",
    );
    for address in addresses {
        match attempt(address) {
            Err(error) => last = error,
            done => return done,
        }
    }
    Err(last)
}
