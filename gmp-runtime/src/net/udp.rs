//! UDP.

use std::fmt;
use std::io;
use std::net::{self, Shutdown, SocketAddr, ToSocketAddrs};
use std::panic::Location;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::desc::Direction;
use super::methods::{std_socket, two_way};
use super::resolve::{first_that, resolve};
use super::socket::Socket;

/// A UDP socket.
///
/// # Examples
/// ```
/// use gmp_runtime::net::UdpSocket;
///
/// let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| -> std::io::Result<()> {
///         let one = UdpSocket::bind("127.0.0.1:0")?;
///         let other = UdpSocket::bind("127.0.0.1:0")?;
///         one.send_to(b"hello", other.local_addr()?)?;
///         let mut buffer = [0; 16];
///         let (length, from) = other.recv_from(&mut buffer)?;
///         assert_eq!((&buffer[..length], from), (&b"hello"[..], one.local_addr()?));
///         Ok(())
///     })
/// }?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UdpSocket {
    socket: Socket<net::UdpSocket>,
}

std_socket!(UdpSocket);
two_way!(UdpSocket);

impl UdpSocket {
    /// A socket at `address`, the first one that works where it has several.
    ///
    /// Blocks the goroutine (a system call) while a name is resolved.
    ///
    /// # Errors
    /// When the name is not known, or no address works.
    #[track_caller]
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        first_that(resolve(address, Location::caller())?, |address| {
            UdpSocket::from_std(net::UdpSocket::bind(address)?)
        })
    }

    /// Makes `address` the only one that is sent to and received from.
    ///
    /// Blocks the goroutine (a system call) while a name is resolved.
    ///
    /// # Errors
    /// When the name is not known, or no address works.
    #[track_caller]
    pub fn connect(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        first_that(resolve(address, Location::caller())?, |address| {
            self.socket.io().connect(address)
        })
    }

    /// Sends to the address that it is [connected](UdpSocket::connect) to; how many bytes.
    ///
    /// Blocks the goroutine (reason `IO wait`), not its thread; on a plain thread, the thread.
    ///
    /// # Errors
    /// The kernel's.
    #[track_caller]
    pub fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        self.socket
            .retry(Direction::Write, Location::caller(), |io| io.send(buffer))
    }

    /// Sends to `address`, the first one where it has several; how many bytes. Blocks as
    /// [`send`](UdpSocket::send).
    ///
    /// # Errors
    /// When the name is not known; the kernel's.
    #[track_caller]
    pub fn send_to(&self, buffer: &[u8], address: impl ToSocketAddrs) -> io::Result<usize> {
        let site = Location::caller();
        let first = resolve(address, site)?.into_iter().take(1).collect();
        first_that(first, |address| {
            self.socket
                .retry(Direction::Write, site, |io| io.send_to(buffer, address))
        })
    }

    /// Receives from the address that it is [connected](UdpSocket::connect) to; how many bytes. What does not
    /// fit is lost. Blocks as [`send`](UdpSocket::send).
    ///
    /// # Errors
    /// The kernel's.
    #[track_caller]
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket
            .retry(Direction::Read, Location::caller(), |io| io.recv(buffer))
    }

    /// Receives; how many bytes, and from whom. What does not fit is lost. Blocks as
    /// [`send`](UdpSocket::send).
    ///
    /// # Errors
    /// The kernel's.
    #[track_caller]
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket
            .retry(Direction::Read, Location::caller(), |io| {
                io.recv_from(buffer)
            })
    }

    /// As [`recv`](UdpSocket::recv), without taking the datagram out.
    ///
    /// # Errors
    /// The kernel's.
    #[track_caller]
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket
            .retry(Direction::Read, Location::caller(), |io| io.peek(buffer))
    }

    /// As [`recv_from`](UdpSocket::recv_from), without taking the datagram out.
    ///
    /// # Errors
    /// The kernel's.
    #[track_caller]
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket
            .retry(Direction::Read, Location::caller(), |io| {
                io.peek_from(buffer)
            })
    }

    /// Ends it: all calls fail from now on, also those that wait already. The descriptor is given back when the
    /// socket is dropped.
    pub fn close(&self) {
        self.socket.close();
        // Wakes threads; a socket that is not connected says so after it has done that.
        let _ = SockRef::from(self.socket.io()).shutdown(Shutdown::Both);
    }

    /// Whether it may send to everybody on the local network.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.socket.io().set_broadcast(broadcast)
    }

    /// What was set by [`set_broadcast`](UdpSocket::set_broadcast).
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.socket.io().broadcast()
    }

    /// How many routers a packet may pass.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.io().set_ttl(ttl)
    }

    /// What was set by [`set_ttl`](UdpSocket::set_ttl).
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.io().ttl()
    }
}
