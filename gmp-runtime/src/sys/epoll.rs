//! Readiness of descriptors: epoll, with an eventfd that ends a wait.
//!
//! Descriptors are watched edge-triggered, for reading and writing at once: an event comes when something
//! changes, not for as long as it is so. All functions are async-signal-safe but [`Epoll::new`].

use super::check;
use crate::fatal::fatal;
use crate::prim::process_wide::{AtomicBool, Ordering};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// How many events one wait takes (Go: 128).
const EVENTS_AT_ONCE: usize = 128;

/// The token of the eventfd; no descriptor may have it.
const INTERRUPT: u64 = 0;

/// Set when the kernel has no `epoll_pwait2` (before 5.11), or forbids it.
static NO_PWAIT2: AtomicBool = AtomicBool::new(false);

/// An epoll.
#[derive(Debug)]
pub(crate) struct Epoll {
    poll: OwnedFd,
    interrupt: OwnedFd,
}

/// Something happened to a descriptor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    /// What it was watched with.
    pub(crate) token: u64,
    /// It can be read from without waiting, or has come to its end.
    pub(crate) readable: bool,
    /// It can be written to without waiting.
    pub(crate) writable: bool,
    /// It has an error, or the other side has closed one or both directions: there may be no further event
    /// for reading.
    pub(crate) hung_up: bool,
}

/// What a wait brought.
#[derive(Debug)]
pub(crate) struct Events {
    buffer: [libc::epoll_event; EVENTS_AT_ONCE],
    len: usize,
    next: usize,
    /// Whether [`Epoll::interrupt`] ended it. Known when all events have been looked at.
    pub(crate) interrupted: bool,
}

impl Epoll {
    /// A new one that watches nothing.
    ///
    /// # Errors
    /// When the process or the system has too many descriptors.
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: neither call touches memory of ours; what they return is nobody else's.
        let (poll, interrupt) = unsafe {
            let poll = OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?);
            let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
            (poll, OwnedFd::from_raw_fd(check(libc::eventfd(0, flags))?))
        };
        let epoll = Epoll { poll, interrupt };
        // Level-triggered: an interruption that comes before a wait ends it.
        epoll.control(
            libc::EPOLL_CTL_ADD,
            epoll.interrupt.as_raw_fd(),
            libc::EPOLLIN as u32,
            INTERRUPT,
        )?;
        Ok(epoll)
    }

    /// Watches `fd`; its events come with `token`, which is not 0. What is so already is an event, too.
    ///
    /// # Errors
    /// When the kernel refuses: the descriptor cannot be polled, or there are too many.
    pub(crate) fn watch(&self, fd: RawFd, token: u64) -> io::Result<()> {
        debug_assert_ne!(token, INTERRUPT);
        let flags = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.control(libc::EPOLL_CTL_ADD, fd, flags as u32, token)
    }

    /// Does not watch `fd` any more. Closing it is not enough while there are copies of it.
    pub(crate) fn forget(&self, fd: RawFd) {
        // Fails only if it is not watched.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    fn control(
        &self,
        operation: libc::c_int,
        fd: RawFd,
        events: u32,
        token: u64,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: the event is a local variable, which is only read.
        let result = unsafe { libc::epoll_ctl(self.poll.as_raw_fd(), operation, fd, &mut event) };
        check(result).map(drop)
    }

    /// Waits for events at most `timeout_ns` nanoseconds (`None`: without limit). A signal ends it too.
    pub(crate) fn wait(&self, timeout_ns: Option<u64>) -> Events {
        let mut events = Events {
            buffer: [libc::epoll_event { events: 0, u64: 0 }; EVENTS_AT_ONCE],
            len: 0,
            next: 0,
            interrupted: false,
        };
        let result = match timeout_ns {
            Some(0) => self.look(&mut events.buffer),
            // ordering: Relaxed: whoever reads it late tries once more.
            _ if NO_PWAIT2.load(Ordering::Relaxed) => {
                self.wait_in_two(&mut events.buffer, timeout_ns)
            }
            _ => self.wait_in_one(&mut events.buffer, timeout_ns),
        };
        events.len = match result {
            Ok(count) => count as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => fatal!("waiting for the network: {error}"),
        };
        events
    }

    /// The events that are there.
    fn look(&self, buffer: &mut [libc::epoll_event]) -> io::Result<libc::c_int> {
        // SAFETY: the buffer is valid for writing as many events as it has.
        check(unsafe {
            libc::epoll_wait(
                self.poll.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len() as libc::c_int,
                0,
            )
        })
    }

    fn wait_in_one(
        &self,
        buffer: &mut [libc::epoll_event],
        timeout_ns: Option<u64>,
    ) -> io::Result<libc::c_int> {
        let limit = timeout_ns.map(timespec);
        // SAFETY: the buffer is valid for writing as many events as it has; the limit, if there is one, is a
        // local variable; no set of signals is given.
        let result = check(unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.poll.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len() as libc::c_int,
                limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        } as libc::c_int);
        match result {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                // ordering: Relaxed, as in `wait`.
                NO_PWAIT2.store(true, Ordering::Relaxed);
                self.wait_in_two(buffer, timeout_ns)
            }
            result => result,
        }
    }

    /// Waits with `ppoll`, whose timeout is also in nanoseconds, and then looks.
    fn wait_in_two(
        &self,
        buffer: &mut [libc::epoll_event],
        timeout_ns: Option<u64>,
    ) -> io::Result<libc::c_int> {
        wait_for(self.poll.as_raw_fd(), libc::POLLIN, timeout_ns)?;
        self.look(buffer)
    }

    /// Ends a wait, the present or the next one.
    pub(crate) fn interrupt(&self) {
        let one = 1_u64;
        // SAFETY: the eight bytes of a local variable are read. The only failure is a counter that is full,
        // and then the wait ends, too.
        unsafe { libc::write(self.interrupt.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Takes back all interruptions so far.
    pub(crate) fn take_interruptions(&self) {
        let mut count = 0_u64;
        // SAFETY: the eight bytes of a local variable are written.
        let result = unsafe { libc::read(self.interrupt.as_raw_fd(), (&raw mut count).cast(), 8) };
        if result == -1 {
            let error = io::Error::last_os_error();
            let harmless = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
            if !harmless.contains(&error.kind()) {
                // Somebody closed a descriptor that is not theirs; going on would be a busy loop.
                fatal!("the eventfd of the network poller cannot be read: {error}");
            }
        }
    }
}

impl Events {
    /// The tokens of all of them.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u64> {
        self.buffer[..self.len]
            .iter()
            .map(|event| event.u64)
            .filter(|&token| token != INTERRUPT)
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if self.next == self.len {
                return None;
            }
            let event = self.buffer[self.next];
            self.next += 1;
            let (token, flags) = (event.u64, event.events as libc::c_int);
            if token == INTERRUPT {
                self.interrupted = true;
                continue;
            }
            let hung_up = flags & (libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) != 0;
            return Some(Event {
                token,
                readable: flags & libc::EPOLLIN != 0 || hung_up,
                writable: flags & (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) != 0,
                hung_up,
            });
        }
    }
}

/// Blocks the thread until `fd` can be read from, or with `writing` be written to; false when `timeout_ns`
/// nanoseconds have passed first.
///
/// # Errors
/// The kernel's; a signal is none.
pub(crate) fn block_until_ready(
    fd: RawFd,
    writing: bool,
    timeout_ns: Option<u64>,
) -> io::Result<bool> {
    let events = if writing { libc::POLLOUT } else { libc::POLLIN };
    match wait_for(fd, events, timeout_ns) {
        Ok(count) => Ok(count != 0),
        // The caller looks at its clock again.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

fn wait_for(fd: RawFd, events: libc::c_short, timeout_ns: Option<u64>) -> io::Result<libc::c_int> {
    let mut watched = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let limit = timeout_ns.map(timespec);
    // SAFETY: one descriptor and the limit, if there is one, are local variables; no set of signals is given.
    check(unsafe {
        libc::ppoll(
            &mut watched,
            1,
            limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            std::ptr::null(),
        )
    })
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// Whether a connection is being made, which was begun on a socket that does not block.
pub(crate) fn is_connecting(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINPROGRESS | libc::EINTR | libc::EALREADY)
    )
}

/// Whether the process, or the system, is out of descriptors or of memory for sockets.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    /// Waits in one call, then in two, as on old kernels.
    fn in_both_ways(test: impl Fn(&Epoll)) {
        let epoll = Epoll::new().unwrap();
        test(&epoll);
        NO_PWAIT2.store(true, Ordering::Relaxed);
        test(&Epoll::new().unwrap());
        NO_PWAIT2.store(false, Ordering::Relaxed);
    }

    #[test]
    fn an_edge_comes_once() {
        in_both_ways(|epoll| {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            epoll.watch(theirs.as_raw_fd(), 7).unwrap();
            let first: Vec<Event> = epoll.wait(None).collect();
            assert_eq!(first.len(), 1);
            assert!(first[0].token == 7 && first[0].writable && !first[0].readable);
            ours.write_all(b"x").unwrap();
            let second: Vec<Event> = epoll.wait(None).collect();
            assert!(second[0].readable && !second[0].hung_up);
            assert_eq!(epoll.wait(Some(0)).count(), 0, "nothing changed");
            drop(ours);
            let third: Vec<Event> = epoll.wait(None).collect();
            assert!(third[0].readable && third[0].hung_up);
        });
    }

    #[test]
    fn a_copy_of_a_descriptor_that_is_forgotten_is_silent() {
        in_both_ways(|epoll| {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            let copy = theirs.try_clone().unwrap();
            epoll.watch(theirs.as_raw_fd(), 7).unwrap();
            epoll.forget(theirs.as_raw_fd());
            drop(theirs);
            ours.write_all(b"x").unwrap();
            assert_eq!(epoll.wait(Some(0)).count(), 0);
            drop(copy);
        });
    }

    #[test]
    fn an_interruption_ends_the_next_wait_and_no_other() {
        in_both_ways(|epoll| {
            epoll.interrupt();
            epoll.interrupt();
            let mut events = epoll.wait(None);
            assert!(events.next().is_none() && events.interrupted);
            epoll.take_interruptions();
            epoll.take_interruptions();
            let mut events = epoll.wait(Some(1_000));
            assert!(events.next().is_none() && !events.interrupted);
        });
    }

    /// The kernel may say more of the eventfd than that it can be read (go#72900).
    #[test]
    fn an_interruption_with_other_flags_is_one() {
        let mut checked = 0;
        for flags in [
            libc::EPOLLHUP,
            libc::EPOLLERR | libc::EPOLLHUP,
            libc::EPOLLOUT,
        ] {
            let event = libc::epoll_event {
                events: flags as u32,
                u64: INTERRUPT,
            };
            let mut events = Events {
                buffer: [event; EVENTS_AT_ONCE],
                len: 2,
                next: 0,
                interrupted: false,
            };
            assert_eq!(
                (events.tokens().count(), events.next().is_none()),
                (0, true)
            );
            assert!(events.interrupted);
            checked += 1;
        }
        assert_eq!(checked, 3);
    }

    #[test]
    fn a_timeout_is_not_rounded_down() {
        in_both_ways(|epoll| {
            for micros in [1, 150, 3_000] {
                let start = Instant::now();
                let wanted = Duration::from_micros(micros);
                assert_eq!(epoll.wait(Some(micros * 1_000)).count(), 0);
                assert!(start.elapsed() >= wanted);
            }
        });
    }

    #[test]
    fn a_thread_waits_for_one_descriptor() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        assert!(!block_until_ready(theirs.as_raw_fd(), false, Some(1_000)).unwrap());
        assert!(block_until_ready(theirs.as_raw_fd(), true, None).unwrap());
        ours.write_all(b"x").unwrap();
        assert!(block_until_ready(theirs.as_raw_fd(), false, None).unwrap());
    }
}
