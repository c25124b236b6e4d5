//! Methods that several kinds of sockets have, each written once.
//!
//! They are macros, because the types of std have no trait in common. What a macro names (`net`, `SocketAddr`) is
//! what the file has under that name in which it is used.

/// What all sockets have. `$type` has the name of the type of std in `net`.
macro_rules! std_socket {
    ($type:ident) => {
        impl $type {
            /// The address of this side.
            ///
            /// # Errors
            /// When the kernel does not say.
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                self.socket.io().local_addr()
            }

            /// Another handle of the same socket, with deadlines of its own.
            ///
            /// # Errors
            /// When the process is out of descriptors.
            pub fn try_clone(&self) -> io::Result<$type> {
                $type::from_std(self.socket.io().try_clone()?)
            }

            /// One made by std, on which what is not offered here may have been set.
            ///
            /// # Errors
            /// When it cannot be set not to block.
            pub fn from_std(socket: net::$type) -> io::Result<$type> {
                socket.set_nonblocking(true)?;
                Ok($type {
                    socket: Socket::new(socket),
                })
            }

            /// The same for std. It does not block, unless it is set to with std's `set_nonblocking`.
            pub fn into_std(self) -> net::$type {
                self.socket.into_io()
            }

            /// The pending error of the socket, which it then no longer has.
            ///
            /// # Errors
            /// When the kernel does not say.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.socket.io().take_error()
            }
        }

        impl std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.socket.io().as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $type {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.socket.io().as_raw_fd()
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.socket.io().fmt(f)
            }
        }
    };
}
pub(super) use std_socket;

/// What sockets with two directions and another side have.
macro_rules! two_way {
    ($type:ident) => {
        impl $type {
            /// The address of the other side.
            ///
            /// # Errors
            /// When it is not connected.
            pub fn peer_addr(&self) -> io::Result<SocketAddr> {
                self.socket.io().peer_addr()
            }

            /// Sets how long each read (receive, peek) may take; `None` for no limit. Then it fails with
            /// `TimedOut`. A read that waits already keeps the timeout that it began with. Does not block.
            ///
            /// # Errors
            /// `InvalidInput` for a timeout of zero.
            pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.socket.set_timeout(Direction::Read, timeout)
            }

            /// Sets how long each write (send) may take, as
            /// [`set_read_timeout`](Self::set_read_timeout).
            ///
            /// # Errors
            /// `InvalidInput` for a timeout of zero.
            pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.socket.set_timeout(Direction::Write, timeout)
            }

            /// What was set by [`set_read_timeout`](Self::set_read_timeout).
            ///
            /// # Errors
            /// None; it is std's signature.
            pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.socket.timeout(Direction::Read))
            }

            /// What was set by [`set_write_timeout`](Self::set_write_timeout).
            ///
            /// # Errors
            /// None; it is std's signature.
            pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.socket.timeout(Direction::Write))
            }

            /// Sets the moment from which on reads fail with `TimedOut`, also those that wait already; `None` for
            /// no such moment (Go's `SetReadDeadline`). One that has passed ends all of them at once. Where there
            /// is a timeout, too, the earlier one counts. Does not block.
            ///
            /// A plain thread that waits looks at it at its next call.
            pub fn set_read_deadline(&self, deadline: Option<Instant>) {
                self.socket.set_deadline(Direction::Read, deadline);
            }

            /// The same for writes.
            pub fn set_write_deadline(&self, deadline: Option<Instant>) {
                self.socket.set_deadline(Direction::Write, deadline);
            }
        }
    };
}
pub(super) use two_way;

/// What streams have besides. `$read` is the method of [`Socket`](super::socket::Socket) that reads.
macro_rules! stream {
    ($type:ident, $read:ident) => {
        impl $type {
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
            pub fn into_split(self) -> (ReadHalf<$type>, WriteHalf<$type>) {
                split(self)
            }
        }

        impl splitting::Sealed for $type {}

        impl Halves for $type {
            fn end_writing(&self) {
                // The peer may have closed it before.
                let _ = self.shutdown(Shutdown::Write);
            }
        }

        impl Read for &$type {
            /// Blocks the goroutine (reason `IO wait`), not its thread; on a thread that runs none, the thread.
            #[track_caller]
            #[inline]
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let site = Location::caller();
                self.socket
                    .$read(buffer.len(), site, |io| receive(AsFd::as_fd(io), buffer))
            }

            #[track_caller]
            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                let site = Location::caller();
                let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
                self.socket
                    .$read(wanted, site, |mut io| io.read_vectored(buffers))
            }
        }

        impl Read for $type {
            #[track_caller]
            #[inline]
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                (&*self).read(buffer)
            }

            #[track_caller]
            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                (&*self).read_vectored(buffers)
            }
        }

        impl Write for &$type {
            /// Blocks the goroutine (reason `IO wait`), not its thread; on a thread that runs none, the thread.
            #[track_caller]
            #[inline]
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                let site = Location::caller();
                self.socket
                    .retry(Direction::Write, site, |io| send(AsFd::as_fd(io), buffer))
            }

            #[track_caller]
            fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                let site = Location::caller();
                self.socket
                    .retry(Direction::Write, site, |mut io| io.write_vectored(buffers))
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        impl Write for $type {
            #[track_caller]
            #[inline]
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                (&*self).write(buffer)
            }

            #[track_caller]
            fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                (&*self).write_vectored(buffers)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    };
}
pub(super) use stream;

/// What listeners have besides.
macro_rules! listener {
    ($type:ident, $stream:ident) => {
        impl $type {
            /// The connections that come, for ever.
            pub fn incoming(&self) -> Incoming<'_, $type> {
                Incoming::new(self)
            }

            /// The moment from which on accepting fails with `TimedOut`, also for those who wait already (Go's
            /// `SetDeadline`); `None` for no such moment.
            pub fn set_deadline(&self, deadline: Option<Instant>) {
                self.socket.set_deadline(Direction::Read, deadline);
            }

            /// Stops listening: connections are refused, and all calls fail, also those that wait already. The
            /// descriptor is given back when the listener is dropped; a path stays.
            pub fn close(&self) {
                self.socket.close();
                // A socket that listens has no other way to fail than not to listen.
                let _ = SockRef::from(self.socket.io()).shutdown(Shutdown::Both);
            }
        }

        impl listening::Sealed for $type {}

        impl Accept for $type {
            type Stream = $stream;

            #[track_caller]
            fn next_connection(&self) -> io::Result<$stream> {
                self.accept().map(|(stream, _)| stream)
            }
        }
    };
}
pub(super) use listener;
