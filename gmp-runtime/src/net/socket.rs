//! What all sockets have in common: trying, waiting, deadlines, closing.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::Location;
use std::time::{Duration, Instant};

use super::desc::{Direction, Slot};
use crate::prim::atomic::{AtomicU64, Ordering};
use crate::sched::timers::deadline_after;
use crate::sched::{current, netpoll};
use crate::sys::clock::monotonic_ns;
use crate::sys::epoll;

/// No deadline, no timeout.
const NEVER: u64 = u64::MAX;

/// The slot of a socket, as long as it is open.
#[derive(Debug)]
struct Registration {
    slot: &'static Slot,
    fd: RawFd,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.slot.give_back(self.fd);
    }
}

/// How long operations of one direction may take.
#[derive(Debug)]
struct Limits {
    /// Nanoseconds for each operation.
    timeout: AtomicU64,
    /// Until when, in nanoseconds of the monotonic clock.
    deadline: AtomicU64,
}

impl Limits {
    fn new() -> Limits {
        Limits {
            timeout: AtomicU64::new(NEVER),
            deadline: AtomicU64::new(NEVER),
        }
    }
}

/// A socket that does not block, and goroutines that wait for it.
#[derive(Debug)]
pub(super) struct Socket<S> {
    // First, so that it is gone when the descriptor is closed.
    registration: Registration,
    io: S,
    limits: [Limits; 2],
    /// One more than the count of changes at which the socket had nothing more to read; 0 for never.
    drained: AtomicU64,
}

/// One operation, which may take several attempts.
struct Operation {
    direction: Direction,
    site: &'static Location<'static>,
    /// When it must be over because of a timeout; known from its first attempt on.
    timeout: Option<u64>,
}

/// What an attempt saw before it tried.
struct Attempt {
    seen: u32,
    deadline: u64,
}

impl<S: AsRawFd> Socket<S> {
    /// A socket that was set not to block.
    pub(super) fn new(io: S) -> Socket<S> {
        let registration = Registration {
            slot: Slot::take(),
            fd: io.as_raw_fd(),
        };
        Socket {
            registration,
            io,
            limits: [Limits::new(), Limits::new()],
            drained: AtomicU64::new(0),
        }
    }

    /// The socket itself.
    #[inline]
    pub(super) fn io(&self) -> &S {
        &self.io
    }

    /// The socket itself, which nobody watches any more.
    pub(super) fn into_io(self) -> S {
        drop(self.registration);
        self.io
    }

    /// Does `operation`; waits while it would block.
    #[inline]
    pub(super) fn retry<T>(
        &self,
        direction: Direction,
        site: &'static Location<'static>,
        mut operation: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut whole = Operation::new(direction, site);
        loop {
            let attempt = self.begin(&mut whole)?;
            match operation(&self.io) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(&whole, &attempt)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Does `operation`, which reads at most `wanted` bytes from a stream of TCP; waits while there are none.
    ///
    /// A read that got less has emptied the socket, and an event comes when there is more (`epoll(7)`); so the
    /// next one waits without asking the kernel first.
    #[inline]
    pub(super) fn read_stream(
        &self,
        wanted: usize,
        site: &'static Location<'static>,
        mut operation: impl FnMut(&S) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut whole = Operation::new(Direction::Read, site);
        loop {
            let attempt = self.begin(&mut whole)?;
            let empty = u64::from(attempt.seen) + 1;
            // ordering: Relaxed: the count of changes orders it.
            if self.drained.load(Ordering::Relaxed) == empty && !self.slot().has_hung_up() {
                self.wait(&whole, &attempt)?;
                continue;
            }
            match operation(&self.io) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(&whole, &attempt)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(got) if 0 < got && got < wanted => {
                    // ordering: Relaxed, as above.
                    self.drained.store(empty, Ordering::Relaxed);
                    return Ok(got);
                }
                result => return result,
            }
        }
    }

    /// [`Socket::retry`] in the form of [`Socket::read_stream`], for streams whose reads end at the borders of
    /// control messages: one that got less need not have emptied the socket.
    #[inline]
    pub(super) fn read_messages(
        &self,
        _wanted: usize,
        site: &'static Location<'static>,
        operation: impl FnMut(&S) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.retry(Direction::Read, site, operation)
    }

    fn slot(&self) -> &'static Slot {
        self.registration.slot
    }

    fn limits(&self, direction: Direction) -> &Limits {
        &self.limits[direction as usize]
    }

    /// Begins an attempt.
    ///
    /// # Errors
    /// When the socket is closed, or it is too late.
    #[inline]
    fn begin(&self, whole: &mut Operation) -> io::Result<Attempt> {
        let seen = self.slot().changes(whole.direction);
        if self.slot().is_closed() {
            return Err(closed());
        }
        let deadline = self.deadline(whole);
        if deadline != NEVER && deadline <= monotonic_ns() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Attempt { seen, deadline })
    }

    #[inline]
    fn deadline(&self, whole: &mut Operation) -> u64 {
        let limits = self.limits(whole.direction);
        // ordering: Relaxed, both: changes are published by the count of changes.
        let timeout = limits.timeout.load(Ordering::Relaxed);
        // ordering: Relaxed, as above.
        let deadline = limits.deadline.load(Ordering::Relaxed);
        if timeout == NEVER {
            return deadline;
        }
        let over = whole
            .timeout
            .get_or_insert_with(|| deadline_after(Duration::from_nanos(timeout)));
        deadline.min(*over)
    }

    #[cold]
    fn wait(&self, whole: &Operation, attempt: &Attempt) -> io::Result<()> {
        let socket = (self.slot(), self.registration.fd);
        let (direction, site) = (whole.direction, whole.site);
        let Some(me) = current::goroutine() else {
            let timeout = (attempt.deadline != NEVER)
                .then(|| attempt.deadline.saturating_sub(monotonic_ns()));
            let writing = direction == Direction::Write;
            epoll::block_until_ready(socket.1, writing, timeout)?;
            if !writing {
                // No change was counted, since nobody need watch the socket.
                // ordering: Relaxed: whoever reads the earlier value waits once more.
                self.drained.store(0, Ordering::Relaxed);
            }
            return Ok(());
        };
        netpoll::wait(me, socket, direction, attempt.seen, attempt.deadline, site).map_err(
            |error| match error.kind() {
                io::ErrorKind::ResourceBusy => io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "goroutines of another runtime wait at this socket",
                ),
                _ => error,
            },
        )
    }

    /// Sets how long each operation of this direction may take.
    pub(super) fn set_timeout(
        &self,
        direction: Direction,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let nanos = match timeout {
            Some(Duration::ZERO) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a timeout of zero: None is no timeout",
                ));
            }
            Some(timeout) => u64::try_from(timeout.as_nanos()).unwrap_or(NEVER),
            None => NEVER,
        };
        // ordering: Relaxed: whoever waits goes on with the timeout that it began with.
        self.limits(direction)
            .timeout
            .store(nanos, Ordering::Relaxed);
        Ok(())
    }

    /// How long each operation of this direction may take.
    pub(super) fn timeout(&self, direction: Direction) -> Option<Duration> {
        // ordering: Relaxed, as in `set_timeout`.
        let nanos = self.limits(direction).timeout.load(Ordering::Relaxed);
        (nanos != NEVER).then(|| Duration::from_nanos(nanos))
    }

    /// Sets until when operations of this direction may take, also of those who wait already.
    pub(super) fn set_deadline(&self, direction: Direction, deadline: Option<Instant>) {
        let nanos = deadline.map_or(NEVER, |deadline| {
            deadline_after(deadline.saturating_duration_since(Instant::now()))
        });
        // ordering: Relaxed: published by the count of changes.
        self.limits(direction)
            .deadline
            .store(nanos, Ordering::Relaxed);
        self.slot().wake_all(direction, current::goroutine());
    }

    /// Whether it was [closed](Socket::close).
    pub(super) fn is_closed(&self) -> bool {
        self.slot().is_closed()
    }

    /// Ends it: all operations, also of those who wait already, fail from now on.
    pub(super) fn close(&self) {
        self.slot().close(current::goroutine());
    }
}

impl Operation {
    #[inline]
    fn new(direction: Direction, site: &'static Location<'static>) -> Operation {
        Operation {
            direction,
            site,
            timeout: None,
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the socket was closed")
}

/// Methods about time and ending that all sockets with two directions have.
macro_rules! limits {
    () => {
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

        /// The pending error of the socket, which it then no longer has.
        ///
        /// # Errors
        /// When the kernel does not say.
        pub fn take_error(&self) -> io::Result<Option<io::Error>> {
            self.socket.io().take_error()
        }
    };
}
pub(super) use limits;

/// `AsFd` and `AsRawFd`.
macro_rules! descriptor {
    ($type:ty) => {
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
    };
}
pub(super) use descriptor;

/// Reading and writing, through a shared reference too. `$read` is the method of [`Socket`] that reads.
macro_rules! stream {
    ($type:ty, $read:ident) => {
        impl Read for &$type {
            /// Blocks the goroutine (reason `IO wait`), not its thread; on a thread that runs none, the thread.
            #[track_caller]
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let site = Location::caller();
                self.socket
                    .$read(buffer.len(), site, |mut io| io.read(buffer))
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
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                let site = Location::caller();
                self.socket
                    .retry(Direction::Write, site, |mut io| io.write(buffer))
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
