//! Who waits at a channel, in the order of arrival: a list of nodes on the waiters' own stacks.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::sched::refs::GRef;

/// What became of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// Nothing yet: it is in a queue.
    Pending,
    /// Its value was taken, or a value was given to it.
    Done,
    /// The channel was closed.
    Closed,
}

/// One waiting goroutine. All fields are under the channel's lock while the outcome is pending, and
/// the waiter's own after that.
#[derive(Debug)]
pub(super) struct Waiter<T> {
    g: GRef,
    /// Where the value to send is, or where the received one goes.
    place: *mut MaybeUninit<T>,
    outcome: Cell<Outcome>,
    next: Cell<Option<NonNull<Waiter<T>>>>,
    previous: Cell<Option<NonNull<Waiter<T>>>>,
}

impl<T> Waiter<T> {
    pub(super) fn new(g: GRef, place: &mut MaybeUninit<T>) -> Waiter<T> {
        Waiter {
            g,
            place,
            outcome: Cell::new(Outcome::Pending),
            next: Cell::new(None),
            previous: Cell::new(None),
        }
    }

    /// What became of it.
    #[inline(always)]
    pub(super) fn outcome(&self) -> Outcome {
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

    /// Ends its wait without a value; its goroutine, to be made ready.
    ///
    /// # Safety
    /// It was taken out of its queue, under the lock.
    pub(super) unsafe fn finish(&self, outcome: Outcome) -> GRef {
        self.outcome.set(outcome);
        self.g
    }

    /// The value that was given to it.
    ///
    /// # Safety
    /// One was, and this is called once.
    #[inline(always)]
    pub(super) unsafe fn received(&self) -> T {
        // SAFETY: the caller's contract.
        unsafe { (*self.place).assume_init_read() }
    }

    /// Drops the value that it wanted to send.
    ///
    /// # Safety
    /// Nobody took the value, and nobody looks at the waiter any more.
    pub(super) unsafe fn drop_value(&self) {
        // SAFETY: the caller's contract.
        unsafe { (*self.place).assume_init_drop() }
    }

    /// Drops what a goroutine that unwinds leaves behind: a value it was given, or one it could not
    /// send.
    ///
    /// # Safety
    /// It has its outcome, and its goroutine has not acted on it.
    pub(super) unsafe fn drop_unclaimed(&self, sending: bool) {
        if sending == (self.outcome() == Outcome::Closed) {
            // SAFETY: a receiver whose outcome is `Done` has a value, a sender whose outcome is
            // `Closed` still has its own.
            unsafe { self.drop_value() };
        }
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
        match self.last {
            // SAFETY: nodes in the queue stay where they are.
            Some(last) => unsafe { last.as_ref() }.next.set(Some(node)),
            None => self.first = Some(node),
        }
        self.last = Some(node);
    }

    /// Takes out the first one.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<NonNull<Waiter<T>>> {
        let first = self.first?;
        // SAFETY: nodes in the queue stay where they are.
        self.first = unsafe { first.as_ref() }.next.get();
        match self.first {
            // SAFETY: as above.
            Some(next) => unsafe { next.as_ref() }.previous.set(None),
            None => self.last = None,
        }
        Some(first)
    }

    /// Takes out `waiter`.
    ///
    /// # Safety
    /// It is in this queue.
    pub(super) unsafe fn remove(&mut self, waiter: &Waiter<T>) {
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
