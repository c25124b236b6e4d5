//! Sockets of the local machine, with paths for addresses.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{self, SocketAddr};
use std::panic::Location;
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::desc::Direction;
use super::listen::{Accept, Incoming, private as listening};
use super::methods::{listener, std_socket, stream, two_way};
use super::socket::Socket;
use super::split::{Halves, ReadHalf, WriteHalf, private as splitting, split};
use crate::sched::syscall;
use crate::sys::socket::{receive, send};

/// A Unix stream socket that listens. Works as [`TcpListener`](super::TcpListener) does.
pub struct UnixListener {
    socket: Socket<net::UnixListener>,
}

std_socket!(UnixListener);
listener!(UnixListener, UnixStream);

impl UnixListener {
    /// A listener at `path`, which is made. Does not block.
    ///
    /// # Errors
    /// `AddrInUse` when there is something; the kernel's.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        UnixListener::from_std(net::UnixListener::bind(path)?)
    }

    /// Waits for a connection; the stream and where it comes from.
    ///
    /// Blocks the goroutine (reason `IO wait`), not its thread; on a plain thread, the thread.
    ///
    /// # Errors
    /// When the process is out of descriptors: the connection waits in the kernel, and another call may get it
    /// later ([`incoming`](UnixListener::incoming) makes pauses). When the listener was closed.
    #[track_caller]
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let site = Location::caller();
        let (stream, peer) = self
            .socket
            .retry(Direction::Read, site, net::UnixListener::accept)?;
        Ok((UnixStream::from_std(stream)?, peer))
    }
}

/// A Unix stream socket. Works as [`TcpStream`](super::TcpStream) does.
pub struct UnixStream {
    socket: Socket<net::UnixStream>,
}

std_socket!(UnixStream);
two_way!(UnixStream);
stream!(UnixStream, read_messages);

impl UnixStream {
    /// Connects to the listener at `path`.
    ///
    /// Blocks the goroutine (a system call: where a listener is full, the kernel tells nobody when it is not any
    /// more); its thread, not its P.
    ///
    /// # Errors
    /// When nobody listens there.
    #[track_caller]
    pub fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        let path = path.as_ref();
        loop {
            match syscall::blocking(Location::caller(), || net::UnixStream::connect(path)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                stream => return UnixStream::from_std(stream?),
            }
        }
    }

    /// Two that are connected to each other. Does not block.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = net::UnixStream::pair()?;
        Ok((UnixStream::from_std(one)?, UnixStream::from_std(other)?))
    }
}

/// A Unix datagram socket. Works as [`UdpSocket`](super::UdpSocket) does.
pub struct UnixDatagram {
    socket: Socket<net::UnixDatagram>,
}

std_socket!(UnixDatagram);
two_way!(UnixDatagram);

impl UnixDatagram {
    /// A socket at `path`, which is made. Does not block.
    ///
    /// # Errors
    /// `AddrInUse` when there is something; the kernel's.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(net::UnixDatagram::bind(path)?)
    }

    /// A socket without an address. Does not block.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn unbound() -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(net::UnixDatagram::unbound()?)
    }

    /// Two that are connected to each other. Does not block.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, other) = net::UnixDatagram::pair()?;
        Ok((UnixDatagram::from_std(one)?, UnixDatagram::from_std(other)?))
    }

    /// Makes the socket at `path` the only one that is sent to and received from. Does not block.
    ///
    /// # Errors
    /// When there is none.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.socket.io().connect(path)
    }

    /// Sends to the socket that it is connected to; how many bytes. Waits while that has no room.
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

    /// Sends to the socket at `path`; how many bytes. Does not block.
    ///
    /// # Errors
    /// The kernel's. `WouldBlock` when the receiver has no room: the kernel tells only a socket that is
    /// [connected](UnixDatagram::connect) to it when it has again.
    #[track_caller]
    pub fn send_to(&self, buffer: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let path = path.as_ref();
        loop {
            match self.socket.io().send_to(buffer, path) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => return sent,
            }
        }
    }

    /// Receives; how many bytes. What does not fit is lost. Blocks as [`send`](UnixDatagram::send).
    ///
    /// # Errors
    /// The kernel's.
    #[track_caller]
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket
            .retry(Direction::Read, Location::caller(), |io| io.recv(buffer))
    }

    /// Receives; how many bytes, and from whom. What does not fit is lost. Blocks as
    /// [`send`](UnixDatagram::send).
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

    /// Ends it: all calls fail from now on, also those that wait already. The descriptor is given back when the
    /// socket is dropped; the path stays.
    pub fn close(&self) {
        self.socket.close();
        // Wakes threads.
        let _ = self.socket.io().shutdown(Shutdown::Both);
    }
}
