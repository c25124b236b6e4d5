//! What is known of one socket: what happened to it, and who waits for that.
//!
//! A *slot* is given to each socket. Slots are never freed, because an event that was taken out of the kernel
//! just before its socket was closed still has the address of its slot; it also has the number of the slot's
//! use, by which it is known to be stale (Go's `pollDesc` and its tag). A socket that another runtime watches
//! from now on is another use.
//!
//! # Protocol
//!
//! Readiness is a count of changes for each direction, not a flag, because several goroutines may wait for the
//! same direction:
//!
//! * **Whoever wants to wait** reads the count, looks at what could end it at once (closed, too late), tries
//!   the operation, and only if the kernel says that it would block takes the lock, compares the count with what
//!   it read, and waits if it is the same.
//! * **Whoever changes something** (the poller for an event; a deadline that is set; closing) adds one to the
//!   count under the lock and wakes everybody who waits for that direction, whoever came first first. They try
//!   again.
//!
//! An event between the first reading and the lock is seen by the comparison, so none is lost, whoever else
//! tries meanwhile.

use std::cell::{Cell, UnsafeCell};
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use crate::lock::{Rank, Spin, SpinLock};
use crate::prim::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::prim::hint;
use crate::sched::inject::GList;
use crate::sched::park::Waking;
use crate::sched::refs::GRef;
use crate::sched::ticket::Ticket;
use crate::sched::{critical, current};
use crate::sys::epoll::{Epoll, Event};

/// How many slots are made at once.
const SLOTS_AT_ONCE: usize = 64;

/// Bits of a token that number the use of a slot; the others are its address.
const USE_BITS: u32 = 16;

/// Reading (also: accepting) or writing (also: connecting).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A goroutine that waits for one direction of a socket, on its own stack.
#[derive(Debug)]
pub(crate) struct Waiter {
    g: GRef,
    /// The count of changes when it came.
    seen: u32,
    /// Where there is a deadline: who is first.
    ticket: Option<NonNull<Ticket>>,
    queued: Cell<bool>,
    next: Cell<Option<NonNull<Waiter>>>,
    previous: Cell<Option<NonNull<Waiter>>>,
}

/// What an event says on a ticket.
const EVENT: u32 = 1;

impl Waiter {
    /// `g`, which found that nothing has happened since the count of changes was `seen`.
    pub(crate) fn new(g: GRef, seen: u32, ticket: Option<&Ticket>) -> Waiter {
        Waiter {
            g,
            seen,
            ticket: ticket.map(NonNull::from),
            queued: Cell::new(false),
            next: Cell::new(None),
            previous: Cell::new(None),
        }
    }

    /// Whether it may wake its goroutine. Under the slot's lock.
    fn claim(&self) -> bool {
        // SAFETY: a waiter that is queued has its ticket: it is taken out, under the lock, before that goes.
        self.ticket
            .is_none_or(|ticket| unsafe { ticket.as_ref() }.claim(EVENT))
    }
}

/// One direction.
#[derive(Debug)]
struct Side {
    /// Counts what happened. Written under the lock.
    changes: AtomicU32,
    /// Who waits longest. Under the lock.
    first: Cell<Option<NonNull<Waiter>>>,
    /// Who came last. Under the lock.
    last: Cell<Option<NonNull<Waiter>>>,
}

/// A slot.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) lock: Spin,
    sides: [Side; 2],
    /// Nobody may use the socket any more. Written under the lock.
    closed: AtomicBool,
    /// There may be no further event for reading. Written under the lock.
    hung_up: AtomicBool,
    /// The number of this use, by this watcher. Under the lock.
    number: Cell<u64>,
    /// Who watches the socket. Under the lock.
    watcher: UnsafeCell<Option<Arc<Epoll>>>,
    /// The next one that nobody uses. Under the lock of the list.
    next_free: Cell<Option<&'static Slot>>,
}

// SAFETY: what is not atomic is under the lock.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

/// A slot whose lock is held.
#[derive(Debug)]
pub(crate) struct Locked<'a>(&'a Slot);

impl Slot {
    /// A slot for a new socket. May allocate.
    pub(crate) fn take() -> &'static Slot {
        let free = free_list();
        loop {
            if let Some(slot) = free.pop() {
                return slot;
            }
            let slots: &'static [Slot] =
                Box::leak((0..SLOTS_AT_ONCE).map(|_| Slot::new()).collect());
            slots.iter().for_each(|slot| free.push(slot));
        }
    }

    fn new() -> Slot {
        let side = || Side {
            changes: AtomicU32::new(0),
            first: Cell::new(None),
            last: Cell::new(None),
        };
        Slot {
            lock: Spin::new(Rank::Channel),
            sides: [side(), side()],
            closed: AtomicBool::new(false),
            hung_up: AtomicBool::new(false),
            number: Cell::new(1),
            watcher: UnsafeCell::new(None),
            next_free: Cell::new(None),
        }
    }

    /// Gives the slot back; `fd` is about to be closed. Nobody waits, because nobody has the socket any more.
    pub(crate) fn give_back(&'static self, fd: RawFd) {
        let watcher = {
            let _section = critical::enter_if(current::goroutine());
            let locked = self.lock();
            // Events that are under way are stale from here on.
            self.number.set(self.number.get().wrapping_add(1));
            // ordering: Relaxed, both: under the lock, and nobody has the socket.
            self.closed.store(false, Ordering::Relaxed);
            // ordering: Relaxed, as above.
            self.hung_up.store(false, Ordering::Relaxed);
            // SAFETY: the lock is held.
            let watcher = unsafe { (*self.watcher.get()).take() };
            drop(locked);
            watcher
        };
        if let Some(watcher) = watcher {
            watcher.forget(fd);
        }
        free_list().push(self);
    }

    /// Waits for the lock and takes it. In a section of the goroutine, if the caller runs on one.
    pub(crate) fn lock(&self) -> Locked<'_> {
        self.lock.lock();
        Locked(self)
    }

    fn side(&self, direction: Direction) -> &Side {
        &self.sides[direction as usize]
    }

    /// How often something happened in this direction.
    #[inline]
    pub(crate) fn changes(&self, direction: Direction) -> u32 {
        // ordering: Acquire; pairs with the Release in `Locked::change`: what was changed is seen.
        self.side(direction).changes.load(Ordering::Acquire)
    }

    /// Whether it was closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // ordering: Relaxed: published by the count of changes.
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether there may be no further event for reading.
    #[inline]
    pub(crate) fn has_hung_up(&self) -> bool {
        // ordering: Relaxed: published by the count of changes.
        self.hung_up.load(Ordering::Relaxed)
    }

    /// What events of the socket come with in the use of this `number`.
    fn token(&self, number: u64) -> u64 {
        let address = std::ptr::from_ref(self).expose_provenance() as u64;
        address << USE_BITS | number & ((1 << USE_BITS) - 1)
    }

    /// The slot that events with this `token` are about.
    fn of_token(token: u64) -> *const Slot {
        std::ptr::with_exposed_provenance((token >> USE_BITS) as usize)
    }

    /// Brings the memory near that [`Slot::on_event`] begins with.
    pub(crate) fn fetch_ahead(token: u64) {
        hint::prefetch(Slot::of_token(token));
    }

    /// Puts whoever `event` wakes on the list `ready`. For the poller.
    pub(crate) fn on_event(event: Event, ready: &mut GList) {
        // SAFETY: tokens are made from the addresses of slots, which are never freed.
        let slot = unsafe { &*Slot::of_token(event.token) };
        let locked = slot.lock();
        if slot.token(slot.number.get()) != event.token {
            return; // of a socket that is closed, or watched by another runtime
        }
        if event.hung_up {
            // ordering: Relaxed: published by the count below.
            slot.hung_up.store(true, Ordering::Relaxed);
        }
        for (direction, happened) in [
            (Direction::Read, event.readable),
            (Direction::Write, event.writable),
        ] {
            if happened {
                locked.change(direction);
                while let Some(g) = locked.pop(direction) {
                    ready.push_back(g);
                }
            }
        }
    }

    /// Something changed that is no event: wakes whoever waits for this direction. `me` is the goroutine of
    /// the caller.
    pub(crate) fn wake_all(&self, direction: Direction, me: Option<GRef>) {
        let _section = critical::enter_if(me);
        let mut locked = self.lock();
        locked.change(direction);
        while let Some(g) = locked.pop(direction) {
            let waking = Waking::new(me, g);
            drop(locked);
            waking.wake();
            locked = self.lock();
        }
    }

    /// Closes it: whoever waits, and whoever comes later, is told.
    pub(crate) fn close(&self, me: Option<GRef>) {
        {
            let _section = critical::enter_if(me);
            let locked = self.lock();
            // ordering: Relaxed: published by the counts of changes.
            self.closed.store(true, Ordering::Relaxed);
            drop(locked);
        }
        self.wake_all(Direction::Read, me);
        self.wake_all(Direction::Write, me);
    }
}

impl Locked<'_> {
    /// Counts a change.
    fn change(&self, direction: Direction) {
        let changes = &self.0.side(direction).changes;
        // ordering: Relaxed: only whoever has the lock writes it.
        let next = changes.load(Ordering::Relaxed).wrapping_add(1);
        // ordering: Release; pairs with the Acquire in `changes`.
        changes.store(next, Ordering::Release);
    }

    /// Takes out who waits longest, since before the last change, and nothing else has woken; its goroutine.
    /// Those who tried again meanwhile and wait again are not woken again.
    fn pop(&self, direction: Direction) -> Option<GRef> {
        let side = self.0.side(direction);
        loop {
            // SAFETY: nodes that are queued stay where they are.
            let waiter = unsafe { side.first.get()?.as_ref() };
            // ordering: Relaxed: under the lock.
            if waiter.seen == side.changes.load(Ordering::Relaxed) {
                return None;
            }
            self.remove(direction, waiter);
            if waiter.claim() {
                return Some(waiter.g);
            }
        }
    }

    /// Puts `waiter` last.
    ///
    /// # Safety
    /// It is not queued, and stays where it is until it has been taken out.
    pub(crate) unsafe fn push(&self, direction: Direction, waiter: &Waiter) {
        let side = self.0.side(direction);
        let node = Some(NonNull::from(waiter));
        waiter.queued.set(true);
        waiter.next.set(None);
        waiter.previous.set(side.last.get());
        match side.last.replace(node) {
            // SAFETY: nodes that are queued stay where they are.
            Some(previous) => unsafe { previous.as_ref() }.next.set(node),
            None => side.first.set(node),
        }
    }

    /// Takes out `waiter`, if it is still there.
    pub(crate) fn remove(&self, direction: Direction, waiter: &Waiter) {
        if !waiter.queued.replace(false) {
            return;
        }
        let side = self.0.side(direction);
        let (previous, next) = (waiter.previous.get(), waiter.next.get());
        match previous {
            // SAFETY: nodes that are queued stay where they are.
            Some(previous) => unsafe { previous.as_ref() }.next.set(next),
            None => side.first.set(next),
        }
        match next {
            // SAFETY: as above.
            Some(next) => unsafe { next.as_ref() }.previous.set(previous),
            None => side.last.set(previous),
        }
    }

    /// Sees to it that `epoll` watches the socket `fd`, and nobody else does. Some(previous watcher) when that
    /// is new: the caller drops it outside and tries again.
    ///
    /// # Errors
    /// The kernel's. `ResourceBusy` when goroutines of another runtime wait at this socket.
    pub(crate) fn watch_with(
        &self,
        epoll: &Arc<Epoll>,
        fd: RawFd,
    ) -> io::Result<Option<Option<Arc<Epoll>>>> {
        // SAFETY: the lock is held.
        let watcher = unsafe { &mut *self.0.watcher.get() };
        if let Some(present) = watcher {
            if Arc::ptr_eq(present, epoll) {
                return Ok(None);
            }
            if self.0.sides.iter().any(|side| side.first.get().is_some()) {
                return Err(io::Error::from(io::ErrorKind::ResourceBusy));
            }
        }
        // Events that the present watcher has taken already are stale from here on: it would make goroutines
        // runnable that are not of its runtime.
        let number = self.0.number.get().wrapping_add(1);
        epoll.watch(fd, self.0.token(number))?;
        self.0.number.set(number);
        if let Some(present) = watcher {
            present.forget(fd);
        }
        Ok(Some(watcher.replace(Arc::clone(epoll))))
    }

    /// Keeps the lock, which the goroutine that runs next releases.
    pub(crate) fn hand_over(self) {
        std::mem::forget(self);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: it was taken when this was made, on this thread: nothing parks meanwhile.
        unsafe { self.0.lock.unlock() };
    }
}

/// Slots that nobody uses, last in first out.
struct FreeList {
    first: SpinLock<Option<&'static Slot>>,
}

impl FreeList {
    fn pop(&self) -> Option<&'static Slot> {
        let _section = critical::enter_if(current::goroutine());
        let mut first = self.first.lock();
        let slot = (*first)?;
        *first = slot.next_free.take();
        Some(slot)
    }

    fn push(&self, slot: &'static Slot) {
        let _section = critical::enter_if(current::goroutine());
        let mut first = self.first.lock();
        slot.next_free.set(first.replace(slot));
    }
}

fn free_list() -> &'static FreeList {
    static FREE: OnceLock<FreeList> = OnceLock::new();
    FREE.get_or_init(|| FreeList {
        first: SpinLock::new(Rank::Channel, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn events_that_an_earlier_watcher_has_taken_are_nobodys() {
        let (_ours, theirs) = UnixStream::pair().unwrap();
        let fd = theirs.as_raw_fd();
        let slot = Slot::take();
        let epolls = [(); 2].map(|()| Arc::new(Epoll::new().unwrap()));
        // That it can be written to is an event at once.
        let [early, late] = epolls.each_ref().map(|epoll| {
            slot.lock().watch_with(epoll, fd).unwrap();
            epoll.wait(None).collect::<Vec<_>>()
        });
        assert_eq!((early.len(), late.len()), (1, 1));
        let mut ready = GList::new();
        let last = late.last().copied();
        for (events, counted) in [(early, 0), (late, 1)] {
            let before = slot.changes(Direction::Write);
            for event in events {
                Slot::on_event(event, &mut ready);
            }
            assert_eq!(slot.changes(Direction::Write), before + counted);
        }
        assert_eq!(epolls[0].wait(Some(0)).count(), 0, "it is forgotten there");
        // One that was on its way when the socket was closed, and is not when somebody else has the slot.
        slot.give_back(fd);
        let before = slot.changes(Direction::Write);
        Slot::on_event(last.unwrap(), &mut ready);
        assert_eq!(slot.changes(Direction::Write), before);
    }
}
