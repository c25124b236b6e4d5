//! Who waits at an object of this module, in the order of arrival: goroutines and plain threads alike.
//!
//! A waiter is a node on the waiter's own stack, linked into the object's queue under the object's spin
//! lock, so waiting allocates nothing. Whoever takes a node out *grants* it something, a number of the
//! object's choice, under the same lock, and wakes the waiter when the lock is free.
//!
//! # Invariants
//!
//! * INV-WAIT-1: a node is in the queue, or has been granted, or belongs to a waiter that has not begun or
//!   has ended its wait. All changes are made under the lock.
//! * INV-WAIT-2: a node stays where it is until it has been granted, or its own waiter has taken it out
//!   under the lock. [`Waiters::wait`] does not return before, and when its goroutine is unwound there (at
//!   the end of the scheduler) it takes the node out itself. What had been granted by then is given on by
//!   the object: nothing is lost with a goroutine that ends.
//! * INV-WAIT-3: the node of a thread is not touched after it was granted: the thread may be gone.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::lock::{Rank, Spin};
use crate::prim::atomic::{AtomicU32, Ordering};
use crate::prim::cell::UnsafeCell;
use crate::prim::const_unless_loom;
use crate::sched::critical;
use crate::sched::current;
use crate::sched::g::Wait;
use crate::sched::park::{self, Waking};
use crate::sched::refs::GRef;
use crate::sys::futex;

/// Nothing was granted yet.
const PENDING: u32 = 0;

/// The goroutine of the caller; `None` on a plain thread.
#[inline(always)]
pub(super) fn me() -> Option<GRef> {
    // In a model every waiter is a thread.
    if cfg!(loom) {
        None
    } else {
        current::goroutine()
    }
}

/// One waiting goroutine or thread. All fields but `word` are under the object's lock while it is in the
/// queue.
#[derive(Debug)]
pub(super) struct Waiter {
    /// `None` for a thread.
    g: Option<GRef>,
    /// Whether the goroutine has been left, or is about to be under the lock: only then it can be woken.
    parked: Cell<bool>,
    /// What was granted. Written under the lock; a thread sleeps on it.
    word: AtomicU32,
    /// What its object wants to know of it.
    note: u64,
    /// Its place in the order of arrival.
    number: Cell<u64>,
    queued: Cell<bool>,
    next: Cell<Option<NonNull<Waiter>>>,
    previous: Cell<Option<NonNull<Waiter>>>,
}

impl Waiter {
    /// The goroutine `me`, or this thread if it runs none.
    pub(super) fn new(me: Option<GRef>, note: u64) -> Waiter {
        Waiter {
            g: me,
            parked: Cell::new(false),
            word: AtomicU32::new(PENDING),
            note,
            number: Cell::new(0),
            queued: Cell::new(false),
            next: Cell::new(None),
            previous: Cell::new(None),
        }
    }

    /// What its object wanted to remember.
    pub(super) fn note(&self) -> u64 {
        self.note
    }

    /// Its place in the order of arrival, to be compared with a [mark](Queue::mark).
    pub(super) fn number(&self) -> u64 {
        self.number.get()
    }

    fn granted(&self) -> u32 {
        // ordering: Acquire; pairs with the Release in `grant`: what the granter did before is seen.
        self.word.load(Ordering::Acquire)
    }

    /// Ends its wait. Under the lock, when it has been taken out of the queue; it may be gone after this.
    fn grant(&self, me: Option<GRef>, what: u32) -> Wake {
        debug_assert_ne!(what, PENDING);
        let wake = match self.g {
            Some(g) if self.parked.get() => Wake(Whom::Goroutine(Waking::new(me, g))),
            // It looks under the lock before it parks.
            Some(_) => Wake(Whom::Nobody),
            None => Wake(Whom::Thread(&raw const self.word)),
        };
        // ordering: Release; pairs with the Acquire in `granted`.
        self.word.store(what, Ordering::Release);
        wake
    }
}

/// Somebody who is to be woken when the lock is free.
#[derive(Debug)]
#[must_use = "a waiter that nobody wakes waits for ever"]
pub(super) struct Wake(Whom);

#[derive(Debug)]
enum Whom {
    Nobody,
    Goroutine(Waking),
    /// The word that it sleeps on: an address, because it may be gone already.
    Thread(*const AtomicU32),
}

impl Wake {
    /// Wakes it. Not under the lock.
    #[inline]
    pub(super) fn wake(self) {
        match self.0 {
            Whom::Nobody => {}
            Whom::Goroutine(waking) => waking.wake(),
            Whom::Thread(word) => {
                futex::wake_address(word, 1);
            }
        }
    }
}

/// Where a waiter gets its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Before all others: it waited already.
    First,
    /// After all others.
    Last,
}

/// The waiters of one object. Under its lock.
#[derive(Debug)]
pub(super) struct Queue {
    first: Option<NonNull<Waiter>>,
    last: Option<NonNull<Waiter>>,
    arrivals: u64,
}

impl Queue {
    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether one waits, and no other.
    pub(super) fn has_one(&self) -> bool {
        self.first.is_some() && self.first == self.last
    }

    /// Whoever waits longest.
    pub(super) fn first(&self) -> Option<&Waiter> {
        // SAFETY: nodes in the queue stay where they are (INV-WAIT-2), and leave it only through a unique
        // reference to the queue.
        self.first.map(|first| unsafe { first.as_ref() })
    }

    /// How many have come so far: a mark between those who wait now and those who will.
    pub(super) fn mark(&self) -> u64 {
        self.arrivals
    }

    /// Takes out whoever waits longest and grants it `what`. `me` is the goroutine of the caller.
    pub(super) fn grant_first(&mut self, me: Option<GRef>, what: u32) -> Option<Wake> {
        let first = self.first?;
        // SAFETY: as in `first`; the caller has the lock.
        let waiter = unsafe { first.as_ref() };
        self.unlink(waiter);
        Some(waiter.grant(me, what))
    }

    /// [`Queue::grant_first`] if it came before `mark`.
    pub(super) fn grant_before(&mut self, mark: u64, me: Option<GRef>, what: u32) -> Option<Wake> {
        if self.first()?.number() >= mark {
            return None;
        }
        self.grant_first(me, what)
    }

    /// Links `waiter`.
    ///
    /// # Safety
    /// It is in no queue, and keeps to INV-WAIT-2.
    unsafe fn push(&mut self, waiter: &Waiter, place: Place) {
        let node = Some(NonNull::from(waiter));
        let (previous, next) = match place {
            Place::First => (None, self.first),
            Place::Last => (self.last, None),
        };
        waiter.number.set(self.arrivals);
        self.arrivals += 1;
        waiter.previous.set(previous);
        waiter.next.set(next);
        waiter.queued.set(true);
        self.set_next_of(previous, node);
        self.set_previous_of(next, node);
    }

    /// Takes out `waiter`, which is in this queue.
    fn unlink(&mut self, waiter: &Waiter) {
        waiter.queued.set(false);
        let (previous, next) = (waiter.previous.get(), waiter.next.get());
        self.set_next_of(previous, next);
        self.set_previous_of(next, previous);
    }

    fn set_next_of(&mut self, node: Option<NonNull<Waiter>>, next: Option<NonNull<Waiter>>) {
        match node {
            // SAFETY: as in `first`.
            Some(node) => unsafe { node.as_ref() }.next.set(next),
            None => self.first = next,
        }
    }

    fn set_previous_of(&mut self, node: Option<NonNull<Waiter>>, to: Option<NonNull<Waiter>>) {
        match node {
            // SAFETY: as in `first`.
            Some(node) => unsafe { node.as_ref() }.previous.set(to),
            None => self.last = to,
        }
    }
}

/// A lock, the queue under it, and what else the object keeps there.
#[derive(Debug)]
pub(super) struct Waiters<S> {
    lock: Spin,
    guarded: UnsafeCell<Guarded<S>>,
}

/// What is under the lock of a [`Waiters`].
#[derive(Debug)]
pub(super) struct Guarded<S> {
    /// Who waits.
    pub(super) queue: Queue,
    /// The object's own.
    pub(super) state: S,
}

// SAFETY: everything is under the lock; nodes are reached under the lock only, and hold a goroutine's
// reference, numbers and a word.
unsafe impl<S: Send> Sync for Waiters<S> {}
// SAFETY: an object is moved only while it is not borrowed, so nobody waits at it and its queue is empty.
unsafe impl<S: Send> Send for Waiters<S> {}

impl<S> Waiters<S> {
    const_unless_loom! {
        /// Nobody waits.
        pub(super) fn new(state: S) -> Waiters<S> {
            Waiters {
                lock: Spin::new(Rank::Channel),
                guarded: UnsafeCell::new(Guarded {
                    queue: Queue { first: None, last: None, arrivals: 0 },
                    state,
                }),
            }
        }
    }

    /// Waits until the lock is free and takes it.
    #[inline(always)]
    pub(super) fn lock(&self) -> Locked<'_, S> {
        self.lock.lock();
        Locked {
            owner: self,
            not_send: PhantomData,
        }
    }

    /// Queues `waiter`, releases the lock and waits; what was granted.
    ///
    /// `on_cancel` is called, with the lock, when the goroutine is unwound instead: with what had been
    /// granted by then, if anything.
    pub(super) fn wait<'a>(
        &'a self,
        locked: Locked<'a, S>,
        waiter: &Waiter,
        place: Place,
        wait: Wait,
        on_cancel: impl FnOnce(Locked<'a, S>, Option<u32>),
    ) -> u32 {
        let mut locked = locked;
        // SAFETY: the lock is held; `finish` keeps to INV-WAIT-2.
        unsafe { locked.queue.push(waiter, place) };
        self.finish(locked, waiter, wait, on_cancel)
    }

    /// [`Waiters::wait`] with `between` after it was queued and the lock was released, before it parks:
    /// what happens in consequence of `between` finds it waiting.
    pub(super) fn wait_after<'a>(
        &'a self,
        waiter: &Waiter,
        wait: Wait,
        between: impl FnOnce(),
        on_cancel: impl FnOnce(Locked<'a, S>, Option<u32>),
    ) -> u32 {
        let mut locked = self.lock();
        // SAFETY: the lock is held; `finish` keeps to INV-WAIT-2, and before it nothing unwinds or
        // returns but a panic of `between`, which ends the process.
        unsafe { locked.queue.push(waiter, Place::Last) };
        drop(locked);
        let no_unwinding = EndsProcess;
        between();
        std::mem::forget(no_unwinding);
        let locked = self.lock();
        let granted = waiter.granted();
        if granted != PENDING {
            return granted;
        }
        self.finish(locked, waiter, wait, on_cancel)
    }

    /// Waits, being queued.
    fn finish<'a>(
        &'a self,
        locked: Locked<'a, S>,
        waiter: &Waiter,
        wait: Wait,
        on_cancel: impl FnOnce(Locked<'a, S>, Option<u32>),
    ) -> u32 {
        let Some(g) = waiter.g else {
            drop(locked);
            return sleep(&waiter.word);
        };
        waiter.parked.set(true);
        let leaving = Leaving {
            owner: self,
            waiter,
            on_cancel: ManuallyDrop::new(on_cancel),
        };
        // The lock is released when the goroutine has been left.
        std::mem::forget(locked);
        park::park_and_unlock(g, wait, &self.lock);
        leaving.end();
        waiter.granted()
    }
}

/// Blocks this thread until something is granted.
fn sleep(word: &AtomicU32) -> u32 {
    loop {
        // ordering: Acquire; pairs with the Release in `Waiter::grant`.
        let granted = word.load(Ordering::Acquire);
        if granted != PENDING {
            return granted;
        }
        futex::wait(word, PENDING, None);
    }
}

/// A node must not be left in a queue by unwinding.
struct EndsProcess;

impl Drop for EndsProcess {
    fn drop(&mut self) {
        crate::fatal::fatal!("a panic between queueing and waiting");
    }
}

/// Takes the node out when its goroutine is unwound while it waits.
struct Leaving<'a, 'w, S, F: FnOnce(Locked<'a, S>, Option<u32>)> {
    owner: &'a Waiters<S>,
    waiter: &'w Waiter,
    /// Taken in `drop`, or dropped in `end`.
    on_cancel: ManuallyDrop<F>,
}

impl<'a, S, F: FnOnce(Locked<'a, S>, Option<u32>)> Leaving<'a, '_, S, F> {
    /// The wait ended in the ordinary way.
    fn end(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `drop` does not run, so it is dropped once.
        unsafe { ManuallyDrop::drop(&mut this.on_cancel) };
    }
}

impl<'a, S, F: FnOnce(Locked<'a, S>, Option<u32>)> Drop for Leaving<'a, '_, S, F> {
    #[cold]
    fn drop(&mut self) {
        // A thread that is no M may be granting it something right now.
        let mut locked = self.owner.lock();
        if self.waiter.queued.get() {
            locked.queue.unlink(self.waiter);
        }
        let granted = self.waiter.granted();
        // SAFETY: taken once, because `drop` runs once and `end` forgets.
        let on_cancel = unsafe { ManuallyDrop::take(&mut self.on_cancel) };
        on_cancel(locked, (granted != PENDING).then_some(granted));
    }
}

/// The lock of a [`Waiters`], held. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct Locked<'a, S> {
    owner: &'a Waiters<S>,
    /// The lock is released on the thread that took it.
    not_send: PhantomData<*const ()>,
}

impl<S> Deref for Locked<'_, S> {
    type Target = Guarded<S>;

    #[inline(always)]
    fn deref(&self) -> &Guarded<S> {
        // SAFETY: the lock is held while this exists.
        self.owner.guarded.with(|guarded| unsafe { &*guarded })
    }
}

impl<S> DerefMut for Locked<'_, S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Guarded<S> {
        // SAFETY: as in `deref`, and this is borrowed mutably.
        self.owner
            .guarded
            .with_mut(|guarded| unsafe { &mut *guarded })
    }
}

impl<S> Drop for Locked<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: it was made by taking the lock on this thread.
        unsafe { self.owner.lock.unlock() };
    }
}

/// Grants `what` to everybody who came before `mark`, one after the other, and wakes them. The lock is free
/// when this is called, and in between.
pub(super) fn grant_all_before<S>(waiters: &Waiters<S>, mark: u64, what: u32) {
    let me = me();
    loop {
        let _section = critical::enter_if(me);
        let wake = waiters.lock().queue.grant_before(mark, me, what);
        match wake {
            Some(wake) => wake.wake(),
            None => return,
        }
    }
}
