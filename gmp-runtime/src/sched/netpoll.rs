//! The network poller: goroutines that wait for sockets, and how they become runnable again.
//!
//! A goroutine whose operation on a socket would block parks (reason `IO wait`) with a node in the
//! [slot](crate::net::desc) of the socket, and costs no thread. Events are taken from the kernel
//!
//! * by an M whose P has run dry, before it steals, without waiting ([`poll`]);
//! * by an M that is busy, from time to time, without waiting ([`poll_if_due`]);
//! * by the one idle M that sleeps until the next deadline ([`keeper`](crate::sched::keeper)): it sleeps in the
//!   kernel's poll;
//! * by the monitor, if nobody did for a while ([`poll_from_monitor`]).
//!
//! While one of them takes events, the others do not.

use std::io;
use std::os::fd::RawFd;
use std::panic::Location;
use std::sync::Arc;

use crate::net::desc::{Direction, Slot, Waiter};
use crate::prim::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sched::Sched;
use crate::sched::critical;
use crate::sched::current;
use crate::sched::g::{Wait, WaitReason, transition};
use crate::sched::inject::GList;
use crate::sched::m::M;
use crate::sched::p::{NO_DEADLINE, P};
use crate::sched::park;
use crate::sched::refs::GRef;
use crate::sched::ticket::{AnyWait, Ticket};
use crate::sched::timers::Alarm;
use crate::sys::clock::monotonic_ns;
use crate::sys::epoll::Epoll;
use crate::trace::marks::Waker;

/// A busy M polls when nobody has for so long.
const BUSY_INTERVAL_NS: u64 = 100_000;

/// The monitor polls when nobody has for so long (Go: 10 ms).
const MONITOR_INTERVAL_NS: u64 = 10_000_000;

/// The same while every P is busy, and perhaps with goroutines that do not let the scheduler look.
const MONITOR_INTERVAL_BUSY_NS: u64 = 1_000_000;

/// The poller of one scheduler.
#[derive(Debug)]
pub(crate) struct Netpoll {
    epoll: Arc<Epoll>,
    /// Whether somebody takes events.
    polling: AtomicBool,
    /// When events were taken last.
    last: AtomicU64,
    /// Whether an interruption is under way.
    interrupting: AtomicBool,
}

impl Netpoll {
    /// A poller without sockets.
    ///
    /// # Errors
    /// When the process or the system has too many descriptors.
    pub(crate) fn new() -> io::Result<Netpoll> {
        Ok(Netpoll {
            epoll: Arc::new(Epoll::new()?),
            polling: AtomicBool::new(false),
            last: AtomicU64::new(0),
            interrupting: AtomicBool::new(false),
        })
    }

    /// Becomes the one who takes events; false when somebody else is.
    fn begin(&self) -> bool {
        // ordering: Relaxed, to look without taking the word; then Acquire; pairs with the Release in `end`.
        !self.polling.load(Ordering::Relaxed) && !self.polling.swap(true, Ordering::Acquire)
    }

    fn end(&self) {
        // ordering: Relaxed: a hint.
        self.last.store(monotonic_ns(), Ordering::Relaxed);
        // ordering: Release; pairs with the Acquire in `begin`.
        self.polling.store(false, Ordering::Release);
    }

    /// Takes events, after waiting for some until `timeout_ns` have passed (`None`: without limit); the
    /// goroutines that they wake, which are the caller's.
    fn take_ready(&self, timeout_ns: Option<u64>) -> GList {
        let mut ready = GList::new();
        let mut events = self.epoll.wait(timeout_ns);
        // Many sockets at once are in no cache.
        events.tokens().for_each(Slot::fetch_ahead);
        for event in events.by_ref() {
            Slot::on_event(event, &mut ready);
        }
        if events.interrupted && timeout_ns != Some(0) {
            self.epoll.take_interruptions();
            // ordering: AcqRel; pairs with the one in `interrupt`: what the reason was is seen after this.
            self.interrupting.swap(false, Ordering::AcqRel);
        }
        ready
    }

    /// Takes events as the M that sleeps until the next deadline.
    pub(super) fn wait(&self, timeout_ns: Option<u64>) -> GList {
        let polls = self.begin();
        let ready = self.take_ready(timeout_ns);
        if polls {
            self.end();
        }
        ready
    }

    /// Ends the wait of that M, the present one or the next.
    pub(super) fn interrupt(&self) {
        // ordering: AcqRel; pairs with the one in `take_ready`: if an interruption is under way, what it will
        // end looks again after that.
        if !self.interrupting.swap(true, Ordering::AcqRel) {
            self.epoll.interrupt();
        }
    }

    fn since_last(&self, now: u64) -> u64 {
        // ordering: Relaxed: a hint.
        now.saturating_sub(self.last.load(Ordering::Relaxed))
    }
}

/// Whether some goroutine waits for a socket, or was woken from that and did not run yet.
///
/// Each P counts those that began to wait on it less those that went on on it ([`P::net_waiting`]): one word for all
/// would be where all of them meet. The count goes up before a goroutine parks and down when it runs again, so never
/// is one neither counted nor in a queue. The sum is right once no goroutine runs: while one does, it is a hint, but
/// the M of that one looks again before it sleeps, after SleepFence.
#[inline(never)]
pub(crate) fn has_waiters(sched: &Sched) -> bool {
    let counts = sched.made_procs().map(P::net_waiting);
    counts.fold(0, i32::wrapping_add) != 0
}

/// Takes the events that are there; a goroutine to run next, while the others are on the queue of `m`'s P.
pub(crate) fn poll(m: &M) -> Option<GRef> {
    let netpoll = &m.sched.netpoll;
    if !has_waiters(m.sched) || !netpoll.begin() {
        return None;
    }
    let mut ready = netpoll.take_ready(Some(0));
    netpoll.end();
    record(m, false, &ready);
    let first = ready.pop_front()?;
    make_runnable(m, first);
    put_on_queue(m, ready);
    Some(first)
}

/// Takes the events that are there, if nobody did for a while; the goroutines are on the queue of `m`'s P.
pub(crate) fn poll_if_due(m: &M) {
    let netpoll = &m.sched.netpoll;
    if netpoll.since_last(monotonic_ns()) >= BUSY_INTERVAL_NS
        && has_waiters(m.sched)
        && netpoll.begin()
    {
        let ready = netpoll.take_ready(Some(0));
        netpoll.end();
        record(m, false, &ready);
        put_on_queue(m, ready);
    }
}

/// How long the monitor leaves the network alone.
fn monitor_interval(sched: &Sched) -> u64 {
    if has_waiters(sched) && sched.idle.idle_ps() == 0 {
        MONITOR_INTERVAL_BUSY_NS
    } else {
        MONITOR_INTERVAL_NS
    }
}

/// Takes the events that are there, if nobody did for a while; the goroutines are on the global queue. On the
/// monitor's thread.
pub(crate) fn poll_from_monitor(sched: &Sched, now: u64) {
    let netpoll = &sched.netpoll;
    let is_due = netpoll.since_last(now) >= monitor_interval(sched);
    if !is_due || !has_waiters(sched) || !netpoll.begin() {
        return;
    }
    let mut ready = netpoll.take_ready(Some(0));
    netpoll.end();
    let found = ready.len() != 0;
    while let Some(g) = ready.pop_front() {
        sched.put_global_from_outside(g, Waker::Netpoll);
    }
    if found {
        sched.wake_p_if_needed();
    }
}

/// Puts goroutines that [`Netpoll::wait`] woke on the queue of `m`'s P.
pub(super) fn put_after_wait(m: &M, ready: GList) {
    record(m, true, &ready);
    put_on_queue(m, ready);
}

/// The same for an M that finds no P: on the global queue.
pub(super) fn put_global_after_wait(m: &M, mut ready: GList) {
    record(m, true, &ready);
    while let Some(g) = ready.pop_front() {
        make_runnable(m, g);
        m.sched.put_urgent(g);
    }
    m.sched.wake_p_if_needed();
    // A P may be in a long system call, or run a goroutine that does not let it go.
    if m.sched.sysmon.is_slow() {
        m.sched.sysmon.hurry();
    }
}

fn record(m: &M, blocking: bool, ready: &GList) {
    if ready.len() != 0 {
        m.tracer.netpoll(m, blocking, ready.len());
    }
}

fn make_runnable(m: &M, g: GRef) {
    m.tracer.ready(m, g, Waker::Netpoll);
    g.wait.end();
    transition!(g, Waiting => Runnable);
    m.tracer.settle();
}

/// In the order of the events.
fn put_on_queue(m: &M, mut ready: GList) {
    if ready.len() == 0 {
        return;
    }
    let p = m.held_p();
    while let Some(g) = ready.pop_front() {
        make_runnable(m, g);
        m.sched.put_local(m, &p, g, false);
    }
    m.sched.wake_p_if_needed();
}

/// One goroutine that waits, counted. Made and dropped in its section.
struct Counted(GRef);

impl Counted {
    fn new(me: GRef) -> Counted {
        current::m_of(me).held_p().count_net_waiting(1);
        Counted(me)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        current::m_of(self.0).held_p().count_net_waiting(-1);
    }
}

/// Waits, as the goroutine `me`, for something to happen in this `direction` of the socket `fd` with this
/// `slot`, since its count of changes was `seen`; at most until `deadline`. Then, or when something may have
/// happened, the caller tries again.
///
/// # Errors
/// When the socket cannot be watched.
#[inline(always)]
pub(crate) fn wait(
    me: GRef,
    socket: (&'static Slot, RawFd),
    direction: Direction,
    seen: u32,
    deadline: u64,
    site: &'static Location<'static>,
) -> io::Result<()> {
    // What is dropped may free memory: outside of the section.
    let _previous = wait_in_section(me, socket, direction, seen, deadline, site)?;
    Ok(())
}

/// [`wait`]; who watched the socket before, if it was another runtime.
#[inline(always)]
fn wait_in_section(
    me: GRef,
    socket: (&'static Slot, RawFd),
    direction: Direction,
    seen: u32,
    deadline: u64,
    site: &'static Location<'static>,
) -> io::Result<Option<Arc<Epoll>>> {
    let (slot, fd) = socket;
    let netpoll = &me.sched.netpoll;
    let _section = critical::enter_to_wait(me);
    let locked = slot.lock();
    if let Some(previous) = locked.watch_with(&netpoll.epoll, fd)? {
        return Ok(previous);
    }
    if slot.changes(direction) != seen {
        return Ok(None);
    }
    let _counted = Counted::new(me);
    let wait = Wait {
        reason: WaitReason::IoWait,
        object: fd as u64,
        site,
    };
    if deadline == NO_DEADLINE {
        let waiter = Waiter::new(me, seen, None);
        // SAFETY: it stays on this stack until it has been taken out.
        unsafe { locked.push(direction, &waiter) };
        let leaving = Leaving(slot, direction, &waiter);
        locked.hand_over();
        park::park_and_unlock(me, wait, &slot.lock);
        // Whoever woke it took it out.
        std::mem::forget(leaving);
    } else {
        let ticket = Ticket::new();
        let mut alarm = Alarm::new(me, deadline, Some(&ticket));
        let waiter = Waiter::new(me, seen, Some(&ticket));
        // SAFETY: as above.
        unsafe { locked.push(direction, &waiter) };
        let lock = &raw const slot.lock;
        let any = AnyWait {
            locks: &raw const lock,
            lock_count: 1,
            alarm: &raw mut alarm,
        };
        let _leaving = Leaving(slot, direction, &waiter);
        locked.hand_over();
        park::park_for_any(me, wait, &any);
    }
    Ok(None)
}

/// Takes a waiter out when its wait is over by something else than an event: a deadline, or the end of the
/// scheduler.
struct Leaving<'a>(&'static Slot, Direction, &'a Waiter);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(self.1, self.2);
    }
}
