//! TCP.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{self, Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::panic::Location;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Type};

use super::desc::Direction;
use super::listen::{Accept, Incoming, private as listening};
use super::methods::{listener, std_socket, stream, two_way};
use super::resolve::{first_that, resolve};
use super::socket::Socket;
use super::split::{Halves, ReadHalf, WriteHalf, private as splitting, split};
use crate::sys::epoll::is_connecting;
use crate::sys::socket::{receive, send};

/// How many connections may wait to be accepted; the kernel's `somaxconn`, mostly the same, is the other limit.
const BACKLOG: i32 = 4096;

/// A TCP socket that listens.
///
/// Several goroutines may accept from one listener at the same time. As all sockets here it can be used on
/// plain threads, too, which then block.
///
/// # Examples
/// ```
/// use std::io::{Read, Write};
/// use gmp_runtime::{go, net::{TcpListener, TcpStream}};
///
/// let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| -> std::io::Result<()> {
///         let listener = TcpListener::bind("127.0.0.1:0")?;
///         let address = listener.local_addr()?;
///         let server = go(move || -> std::io::Result<()> {
///             let (mut stream, _peer) = listener.accept()?;
///             std::io::copy(&mut &stream, &mut { &stream })?;
///             stream.flush()
///         });
///         let mut stream = TcpStream::connect(address)?;
///         stream.write_all(b"ping")?;
///         stream.shutdown(std::net::Shutdown::Write)?;
///         let mut answer = String::new();
///         stream.read_to_string(&mut answer)?;
///         assert_eq!(answer, "ping");
///         server.join().unwrap()
///     })
/// }
/// # ?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpListener {
    socket: Socket<net::TcpListener>,
}

std_socket!(TcpListener);
listener!(TcpListener, TcpStream);

impl TcpListener {
    /// A listener at `address`, the first one that works where it has several. The address can be used again
    /// at once after an earlier listener, and up to 4096 connections wait for being accepted, if the system
    /// allows so many (std: 128).
    ///
    /// Blocks the goroutine (a system call) while a name is resolved.
    ///
    /// # Errors
    /// When the name is not known, or no address works.
    #[track_caller]
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
        first_that(resolve(address, Location::caller())?, listen)
    }

    /// Waits for a connection; the stream and where it comes from.
    ///
    /// Blocks the goroutine (reason `IO wait`), not its thread; on a plain thread, the thread.
    ///
    /// # Errors
    /// When the process is out of descriptors: the connection waits in the kernel, and another call may get it
    /// later ([`incoming`](TcpListener::incoming) makes pauses). When the listener was closed. A connection
    /// that was given up by its peer before it was accepted is passed over.
    #[track_caller]
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let site = Location::caller();
        loop {
            let accepted = self
                .socket
                .retry(Direction::Read, site, net::TcpListener::accept);
            match accepted {
                Err(error)
                    if error.kind() == io::ErrorKind::ConnectionAborted
                        && !self.socket.is_closed() => {}
                Err(error) => return Err(error),
                Ok((stream, peer)) => return Ok((TcpStream::from_std(stream)?, peer)),
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// A TCP connection.
///
/// It is read from and written to through shared references too, so goroutines can share it; several may read,
/// and several write, at the same time. [`into_split`](TcpStream::into_split) gives each direction an owner.
pub struct TcpStream {
    socket: Socket<net::TcpStream>,
}

std_socket!(TcpStream);
two_way!(TcpStream);
stream!(TcpStream, read_stream);

impl TcpStream {
    /// Connects to `address`; where it has several, to the first one that answers.
    ///
    /// Blocks the goroutine (a system call while a name is resolved, then reason `IO wait`), not its thread; on
    /// a plain thread, the thread.
    ///
    /// # Errors
    /// When the name is not known, or the last address that was tried did not answer.
    #[track_caller]
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
        let site = Location::caller();
        first_that(resolve(address, site)?, |address| {
            connect(address, None, site)
        })
    }

    /// Connects to `address`; waits at most `timeout` for that.
    ///
    /// Blocks as [`connect`](TcpStream::connect).
    ///
    /// # Errors
    /// `TimedOut` when the time is over, `InvalidInput` for a timeout of zero, or what the connection failed
    /// with.
    #[track_caller]
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        connect(*address, Some(timeout), Location::caller())
    }

    /// Reads without taking the bytes out. Blocks as reading does.
    ///
    /// # Errors
    /// As for reading.
    #[track_caller]
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket
            .retry(Direction::Read, Location::caller(), |io| io.peek(buffer))
    }

    /// Whether small writes are sent at once. Off at first, as in std (and on in Go).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.io().set_nodelay(nodelay)
    }

    /// What was set by [`set_nodelay`](TcpStream::set_nodelay).
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.io().nodelay()
    }

    /// What dropping the stream does with bytes that are not sent: with `Some(Duration::ZERO)` the connection is
    /// reset. Other durations block the thread that drops it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        SockRef::from(self.socket.io()).set_linger(linger)
    }

    /// How many routers a packet may pass.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.io().set_ttl(ttl)
    }

    /// What was set by [`set_ttl`](TcpStream::set_ttl).
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.io().ttl()
    }
}

fn connect(
    address: SocketAddr,
    timeout: Option<Duration>,
    site: &'static Location<'static>,
) -> io::Result<TcpStream> {
    let raw = socket2::Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    raw.set_nonblocking(true)?;
    let socket = Socket::new(net::TcpStream::from(raw));
    socket.set_timeout(Direction::Write, timeout)?;
    let mut begun = false;
    socket.retry(Direction::Write, site, |io| {
        if !std::mem::replace(&mut begun, true) {
            return match SockRef::from(io).connect(&address.into()) {
                Err(error) if is_connecting(&error) => Err(io::ErrorKind::WouldBlock.into()),
                result => result,
            };
        }
        if let Some(error) = io.take_error()? {
            return Err(error);
        }
        match io.peer_addr() {
            Ok(_) => Ok(()),
            // Woken by something else.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => Err(error),
        }
    })?;
    socket.set_timeout(Direction::Write, None)?;
    Ok(TcpStream { socket })
}
