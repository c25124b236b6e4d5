//! Sockets of the local machine, with paths for addresses.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{self, SocketAddr};
use std::panic::Location;
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::desc::Direction;
use super::listen::{Accept, Incoming, private as listening};
use super::socket::{Socket, descriptor, limits, stream};
use super::split::{Halves, ReadHalf, WriteHalf, private as splitting, split};
use crate::sched::syscall;

/// A Unix stream socket that listens. Works as [`TcpListener`](super::TcpListener) does.
pub struct UnixListener {
    socket: Socket<net::UnixListener>,
}

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

    /// The connections that come, for ever.
    pub fn incoming(&self) -> Incoming<'_, UnixListener> {
        Incoming::new(self)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.io().local_addr()
    }

    /// The moment from which on accepting fails with `TimedOut`, also for those who wait already; `None` for no
    /// such moment.
    pub fn set_deadline(&self, deadline: Option<Instant>) {
        self.socket.set_deadline(Direction::Read, deadline);
    }

    /// Stops listening: connections are refused, and all calls fail, also those that wait already. The
    /// descriptor is given back when the listener is dropped; the path stays.
    pub fn close(&self) {
        self.socket.close();
        // A socket that listens has no other way to fail than not to listen.
        let _ = SockRef::from(self.socket.io()).shutdown(Shutdown::Both);
    }

    /// A listener made by std.
    ///
    /// # Errors
    /// When it cannot be set not to block.
    pub fn from_std(listener: net::UnixListener) -> io::Result<UnixListener> {
        listener.set_nonblocking(true)?;
        Ok(UnixListener {
            socket: Socket::new(listener),
        })
    }

    /// The listener for std. It does not block: see
    /// [`set_nonblocking`](net::UnixListener::set_nonblocking).
    pub fn into_std(self) -> net::UnixListener {
        self.socket.into_io()
    }
}

impl listening::Sealed for UnixListener {}

impl Accept for UnixListener {
    type Stream = UnixStream;

    #[track_caller]
    fn next_connection(&self) -> io::Result<UnixStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

descriptor!(UnixListener);

impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.io().fmt(f)
    }
}

/// A Unix stream socket. Works as [`TcpStream`](super::TcpStream) does.
pub struct UnixStream {
    socket: Socket<net::UnixStream>,
}

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

    /// Ends one direction, or both. Goroutines that wait to read then find the end.
    ///
    /// # Errors
    /// When it is not connected any more.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.io().shutdown(how)
    }

    /// Closes the connection: all calls fail from now on, also those that wait already, with
    /// `ConnectionAborted`. The descriptor is given back when the stream is dropped.
    pub fn close(&self) {
        self.socket.close();
        // The peer may have closed it before.
        let _ = self.shutdown(Shutdown::Both);
    }

    /// The two directions, each with an owner of its own.
    pub fn into_split(self) -> (ReadHalf<UnixStream>, WriteHalf<UnixStream>) {
        split(self)
    }

    /// The address of the other side.
    ///
    /// # Errors
    /// When it is not connected any more.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.io().peer_addr()
    }

    /// The address of this side.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.io().local_addr()
    }

    /// Another handle of the same connection, with deadlines of its own.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn try_clone(&self) -> io::Result<UnixStream> {
        Ok(UnixStream {
            socket: Socket::new(self.socket.io().try_clone()?),
        })
    }

    /// A stream made by std.
    ///
    /// # Errors
    /// When it cannot be set not to block.
    pub fn from_std(stream: net::UnixStream) -> io::Result<UnixStream> {
        stream.set_nonblocking(true)?;
        Ok(UnixStream {
            socket: Socket::new(stream),
        })
    }

    /// The stream for std. It does not block: see [`set_nonblocking`](net::UnixStream::set_nonblocking).
    pub fn into_std(self) -> net::UnixStream {
        self.socket.into_io()
    }

    limits!();
}

stream!(UnixStream, read_messages);
descriptor!(UnixStream);

impl splitting::Sealed for UnixStream {}

impl Halves for UnixStream {
    fn end_writing(&self) {
        // The peer may have closed it before.
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl fmt::Debug for UnixStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.io().fmt(f)
    }
}

/// A Unix datagram socket. Works as [`UdpSocket`](super::UdpSocket) does.
pub struct UnixDatagram {
    socket: Socket<net::UnixDatagram>,
}

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

    /// The address of this socket.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.io().local_addr()
    }

    /// The address that it is connected to.
    ///
    /// # Errors
    /// When it is not.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.io().peer_addr()
    }

    /// A socket made by std.
    ///
    /// # Errors
    /// When it cannot be set not to block.
    pub fn from_std(socket: net::UnixDatagram) -> io::Result<UnixDatagram> {
        socket.set_nonblocking(true)?;
        Ok(UnixDatagram {
            socket: Socket::new(socket),
        })
    }

    /// The socket for std. It does not block: see [`set_nonblocking`](net::UnixDatagram::set_nonblocking).
    pub fn into_std(self) -> net::UnixDatagram {
        self.socket.into_io()
    }

    limits!();
}

descriptor!(UnixDatagram);

impl fmt::Debug for UnixDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.io().fmt(f)
    }
}
