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
                Err(error) => return Err(self.unless_closed(error)),
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
            let is_empty = self.drained.load(Ordering::Relaxed) == empty;
            let result = if is_empty && !self.slot().has_hung_up() {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                operation(&self.io)
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(&whole, &attempt)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(got) if 0 < got && got < wanted => {
                    // ordering: Relaxed, as above.
                    self.drained.store(empty, Ordering::Relaxed);
                    return Ok(got);
                }
                Err(error) => return Err(self.unless_closed(error)),
                result => return self.unless_ended_here(result),
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
        self.unless_ended_here(self.retry(Direction::Read, site, operation))
    }

    /// `error`, unless the socket was closed in the middle of the operation: then the kernel speaks of that.
    #[cold]
    fn unless_closed(&self, error: io::Error) -> io::Error {
        if self.is_closed() { closed() } else { error }
    }

    /// What was read, unless it is the end that closing the socket in the middle of the operation made.
    #[inline]
    fn unless_ended_here(&self, read: io::Result<usize>) -> io::Result<usize> {
        match read {
            Ok(0) if self.is_closed() => Err(closed()),
            read => read,
        }
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

    /// Waits after an attempt that would have blocked. Inline, as all that parks: who goes on returns through none of
    /// our calls, because a processor predicts no return after a switch.
    #[inline(always)]
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
