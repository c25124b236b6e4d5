//! Who waits at a channel, in the order of arrival: a list of nodes on the waiters' own stacks.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::sched::refs::GRef;
use crate::sched::ticket::Ticket;

/// What became of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Nothing yet.
    Pending,
    /// Its value was taken, or a value was given to it.
    Done,
    /// The channel was closed.
    Closed,
}

/// One waiting goroutine. All fields are under the channel's lock while it is in a queue, and the waiter's
/// own after that.
#[derive(Debug)]
pub(crate) struct Waiter<T> {
    g: GRef,
    /// Where the value to send is, or where the received one goes.
    place: *mut MaybeUninit<T>,
    outcome: Cell<Outcome>,
    queued: Cell<bool>,
    /// Where it waits for other things too: whoever takes it out must be the first one.
    ticket: Option<NonNull<Ticket>>,
    /// Its name on the ticket.
    case: u32,
    next: Cell<Option<NonNull<Waiter<T>>>>,
    previous: Cell<Option<NonNull<Waiter<T>>>>,
}

impl<T> Waiter<T> {
    /// A goroutine that waits for this alone.
    pub(super) fn new(g: GRef, place: *mut MaybeUninit<T>) -> Waiter<T> {
        Waiter {
            g,
            place,
            outcome: Cell::new(Outcome::Pending),
            queued: Cell::new(false),
            ticket: None,
            case: 0,
            next: Cell::new(None),
            previous: Cell::new(None),
        }
    }

    /// A goroutine that waits for this, by the name `case`, and for other things.
    pub(crate) fn with_ticket(
        g: GRef,
        place: *mut MaybeUninit<T>,
        ticket: &Ticket,
        case: u32,
    ) -> Waiter<T> {
        Waiter {
            ticket: Some(NonNull::from(ticket)),
            case,
            ..Waiter::new(g, place)
        }
    }

    /// What became of it.
    #[inline(always)]
    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome.get()
    }

    /// Gives it a value; its goroutine, to be made ready.
    ///
    /// # Safety
    /// It was taken out of the queue of receivers, under the lock.
    #[inline(always)]
    pub(super) unsafe fn give(&self, value: T) -> GRef {
        // SAFETY: the place is on the waiter's stack, which waits.
        unsafe { (*self.place).write(value) };
        self.outcome.set(Outcome::Done);
        self.g
    }

    /// Takes its value; its goroutine, to be made ready.
    ///
    /// # Safety
    /// It was taken out of the queue of senders, under the lock.
    #[inline(always)]
    pub(super) unsafe fn take(&self) -> (T, GRef) {
        // SAFETY: the place holds the value, on the waiter's stack, which waits.
        let value = unsafe { (*self.place).assume_init_read() };
        self.outcome.set(Outcome::Done);
        (value, self.g)
    }

    /// Ends its wait because the channel was closed; its goroutine, to be made ready.
    ///
    /// # Safety
    /// It was taken out of its queue, under the lock.
    pub(super) unsafe fn close(&self) -> GRef {
        self.outcome.set(Outcome::Closed);
        self.g
    }
}

/// Waiters, first come first served. Under the channel's lock.
#[derive(Debug)]
pub(super) struct WaitQueue<T> {
    first: Option<NonNull<Waiter<T>>>,
    last: Option<NonNull<Waiter<T>>>,
}

impl<T> WaitQueue<T> {
    pub(super) const fn new() -> WaitQueue<T> {
        WaitQueue {
            first: None,
            last: None,
        }
    }

    /// Puts `waiter` last.
    ///
    /// # Safety
    /// It is in no queue, and stays where it is until it is taken out.
    #[inline(always)]
    pub(super) unsafe fn push(&mut self, waiter: &Waiter<T>) {
        let node = NonNull::from(waiter);
        waiter.next.set(None);
        waiter.previous.set(self.last);
        waiter.queued.set(true);
        match self.last {
            // SAFETY: nodes in the queue stay where they are.
            Some(last) => unsafe { last.as_ref() }.next.set(Some(node)),
            None => self.first = Some(node),
        }
        self.last = Some(node);
    }

    /// Takes out the first one whose goroutine has not been woken by something else.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<NonNull<Waiter<T>>> {
        loop {
            let first = self.first?;
            // SAFETY: nodes in the queue stay where they are.
            let waiter = unsafe { first.as_ref() };
            self.first = waiter.next.get();
            match self.first {
                // SAFETY: as above.
                Some(next) => unsafe { next.as_ref() }.previous.set(None),
                None => self.last = None,
            }
            waiter.queued.set(false);
            match waiter.ticket {
                None => return Some(first),
                // SAFETY: a waiter that is in a queue has its ticket: it is taken out, under this lock,
                // before the ticket goes.
                Some(ticket) if unsafe { ticket.as_ref() }.claim(waiter.case) => {
                    return Some(first);
                }
                Some(_) => {}
            }
        }
    }

    /// Takes out `waiter`, if it is still there.
    ///
    /// # Safety
    /// It was put into this queue.
    pub(super) unsafe fn remove(&mut self, waiter: &Waiter<T>) {
        if !waiter.queued.replace(false) {
            return;
        }
        let (previous, next) = (waiter.previous.get(), waiter.next.get());
        match previous {
            // SAFETY: nodes in the queue stay where they are.
            Some(previous) => unsafe { previous.as_ref() }.next.set(next),
            None => self.first = next,
        }
        match next {
            // SAFETY: as above.
            Some(next) => unsafe { next.as_ref() }.previous.set(previous),
            None => self.last = previous,
        }
    }
}
