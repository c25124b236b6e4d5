//! The run queue of one P: a ring that its owner fills and thieves empty, and one place before the ring.
//!
//! The queue holds pointers to goroutines and never allocates. A pointer that is in the queue belongs to
//! the queue; taking it out makes the taker the owner of the goroutine.
//!
//! # Who may do what
//!
//! | handle | who has it | what it does |
//! |---|---|---|
//! | [`Owner`] | the M that holds the P | puts and takes |
//! | [`RunQueue`] by reference | everybody | steals, looks |
//!
//! # Invariants
//!
//! * INV-RUNQ-1: `tail - head` (wrapping) is the number of goroutines in the ring, and at most
//!   [`CAPACITY`]. Otherwise a slot is overwritten and a goroutine is lost.
//! * INV-RUNQ-2: only the owner writes `tail` and slots, and only slots from `tail` on. Otherwise a thief
//!   could read a slot that is being changed.
//! * INV-RUNQ-3: whoever advances `head` over slots has read them before, and read `head` before that.
//!   Otherwise two take the same goroutine.
//! * INV-RUNQ-4: only the owner puts a goroutine into `next`; thieves only take it. So an owner that reads
//!   `next` as empty may store without looking again.
//!
//! # Not here
//!
//! Which queue to look at when, the pause before a thief takes `next`, and waking other Ms.

use crate::prim::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

/// How many goroutines the ring has room for. Small in models, so that they meet its end.
pub(crate) const CAPACITY: usize = if cfg!(loom) { 4 } else { 256 };

/// The largest number of goroutines that move at once: half the ring and one more.
pub(crate) const MAX_OVERFLOW: usize = CAPACITY / 2 + 1;

const MASK: u32 = CAPACITY as u32 - 1;
const _: () = assert!(CAPACITY.is_power_of_two());

/// The run queue of one P.
#[derive(Debug)]
pub(crate) struct RunQueue<T> {
    /// The oldest goroutine's position. Advanced by whoever takes; in a cache line of its own.
    head: Line<AtomicU32>,
    owned: Line<Owned<T>>,
    ring: [AtomicPtr<T>; CAPACITY],
}

/// What the owner writes most.
#[derive(Debug)]
struct Owned<T> {
    /// The position after the youngest goroutine.
    tail: AtomicU32,
    /// The goroutine that runs next, before those in the ring; null for none.
    next: AtomicPtr<T>,
    /// Whether thieves exist. Changed only while no thief can run.
    shared: AtomicBool,
}

/// A cache line, and the one that the processor fetches with it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Line<T>(pub(crate) T);

/// The queue as the M that holds the P sees it. Copying it is harmless, sending it elsewhere is not.
#[derive(Debug)]
pub(crate) struct Owner<'a, T> {
    queue: &'a RunQueue<T>,
    /// The thread stays the owner only as long as it holds the P.
    not_send: PhantomData<*const ()>,
}

impl<T> Clone for Owner<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Owner<'_, T> {}

/// A goroutine that the owner took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken<T> {
    /// The goroutine.
    pub(crate) goroutine: NonNull<T>,
    /// Whether it goes on in the time slice of the goroutine before it: it was `next`, so a chain of
    /// goroutines that make each other ready shares one slice.
    pub(crate) inherit_time: bool,
}

/// What a thief got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stolen<T> {
    /// The one to run: the youngest of those stolen.
    pub(crate) goroutine: NonNull<T>,
    /// How many were stolen, that one included; the others are in the thief's own ring.
    pub(crate) count: u32,
}

impl<T> RunQueue<T> {
    /// An empty queue that thieves may use.
    pub(crate) fn new() -> RunQueue<T> {
        RunQueue {
            head: Line(AtomicU32::new(0)),
            owned: Line(Owned {
                tail: AtomicU32::new(0),
                next: AtomicPtr::new(null_mut()),
                shared: AtomicBool::new(true),
            }),
            ring: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
        }
    }

    /// Says whether there are thieves. With a single P there are none, and the owner then needs no locked
    /// instruction.
    ///
    /// # Safety
    ///
    /// No other thread uses the queue during the call, and while `false` is set no thread but the owner
    /// steals from it: change it only while the world is stopped, or before it starts.
    pub(crate) unsafe fn set_shared(&self, shared: bool) {
        // ordering: Relaxed; starting the world publishes it.
        self.owned.0.shared.store(shared, Ordering::Relaxed);
    }

    /// The owner's view.
    ///
    /// # Safety
    ///
    /// The calling thread holds the P, and does not use the value after it let the P go.
    #[inline(always)]
    pub(crate) unsafe fn owner(&self) -> Owner<'_, T> {
        Owner {
            queue: self,
            not_send: PhantomData,
        }
    }

    /// How many goroutines are in the ring; `next` is not counted. Outdated as soon as it is known.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        // ordering: Acquire; the head is read before the tail, so the difference is never negative by more
        // than what was taken between the two, and that is cut off.
        let head = self.head.0.load(Ordering::Acquire);
        // ordering: Relaxed; a number to look at publishes nothing.
        let tail = self.owned.0.tail.load(Ordering::Relaxed);
        tail.wrapping_sub(head).min(CAPACITY as u32)
    }

    /// Whether the queue held nothing at one moment during the call.
    ///
    /// Ring and `next` cannot be read at once: the owner may move a goroutine from `next` to the ring
    /// between two reads. The tail tells that, so it is read again.
    pub(crate) fn is_empty(&self) -> bool {
        loop {
            // ordering: Acquire for all; they keep the order of the reads. The read of `next` also pairs
            // with the Release of the owner's take of `next`: whoever sees it taken sees the tail as it
            // was then.
            let head = self.head.0.load(Ordering::Acquire);
            let tail = self.owned.0.tail.load(Ordering::Acquire);
            let next = self.owned.0.next.load(Ordering::Acquire);
            if tail == self.owned.0.tail.load(Ordering::Acquire) {
                return head == tail && next.is_null();
            }
        }
    }

    /// Steals half of the ring (rounded up), oldest first, into the thief's own ring. `None` when the ring
    /// is empty.
    ///
    /// The thief's ring must have room for half a ring: a thief steals when its own is empty.
    pub(crate) fn steal_into(&self, thief: Owner<'_, T>) -> Option<Stolen<T>> {
        debug_assert!(
            !std::ptr::eq(self, thief.queue),
            "a P does not steal from itself"
        );
        let own = thief.queue;
        // ordering: Relaxed; only the owner, which is the caller, writes its tail.
        let own_tail = own.owned.0.tail.load(Ordering::Relaxed);
        // INV-RUNQ-1 for the thief's ring.
        debug_assert!(
            own.len() as usize <= CAPACITY / 2,
            "a thief's ring must have room"
        );
        loop {
            // ordering: Acquire; pairs with the Release of those who advance the head: their reads of the
            // slots are over. Read before the tail, as INV-RUNQ-3 says.
            let head = self.head.0.load(Ordering::Acquire);
            // ordering: Acquire; pairs with the owner's Release store: the slots before it are written.
            let tail = self.owned.0.tail.load(Ordering::Acquire);
            let len = tail.wrapping_sub(head);
            let count = len - len / 2;
            if count == 0 {
                return None;
            }
            if count > CAPACITY as u32 / 2 {
                continue; // the head is older than the tail: read both again
            }
            for offset in 0..count {
                // ordering: Relaxed for both; the head's exchange decides whether this copy counts, and
                // the tail's store publishes it.
                let goroutine = self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
                own.slot(own_tail.wrapping_add(offset))
                    .store(goroutine, Ordering::Relaxed);
            }
            // ordering: Release; pairs with the Acquire loads of the head, so that the owner does not
            // overwrite the slots before they are read. Relaxed on failure: all is read again.
            if self
                .head
                .0
                .compare_exchange(
                    head,
                    head.wrapping_add(count),
                    Ordering::Release,
                    Ordering::Relaxed,
                )
                .is_ok()
            {
                let last = own_tail.wrapping_add(count - 1);
                // ordering: Relaxed; this thread wrote it.
                let goroutine = own.slot(last).load(Ordering::Relaxed);
                // ordering: Release; pairs with the Acquire loads of other thieves.
                own.owned.0.tail.store(last, Ordering::Release);
                return NonNull::new(goroutine).map(|goroutine| Stolen { goroutine, count });
            }
        }
    }

    /// The goroutine in `next`, for a thief that finds the ring empty: it pauses before it takes it, since
    /// the owner is about to run it.
    #[inline]
    pub(crate) fn peek_next(&self) -> Option<NonNull<T>> {
        // ordering: Relaxed; the pointer is only compared, by the exchange that takes it.
        NonNull::new(self.owned.0.next.load(Ordering::Relaxed))
    }

    /// Takes `goroutine` out of `next` if it is still there.
    #[inline]
    pub(crate) fn steal_next(&self, goroutine: NonNull<T>) -> bool {
        // ordering: Acquire pairs with the owner's Release when it put the goroutine there; Release keeps
        // the chain of `next` for `is_empty`. Relaxed on failure: nothing was taken.
        self.owned
            .0
            .next
            .compare_exchange(
                goroutine.as_ptr(),
                null_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    #[inline(always)]
    fn slot(&self, position: u32) -> &AtomicPtr<T> {
        &self.ring[(position & MASK) as usize]
    }
}

impl<T> Owner<'_, T> {
    /// Puts a goroutine into the queue: with `next` before all others (the one that was there goes to the
    /// end of the ring), else at the end of the ring.
    ///
    /// A full ring gives its older half and the goroutine that found no room, in this order, to `overflow`;
    /// they are no longer in this queue.
    #[inline]
    pub(crate) fn put(
        self,
        goroutine: NonNull<T>,
        next: bool,
        overflow: impl FnOnce(&[NonNull<T>]),
    ) {
        if !next {
            return self.put_last(goroutine, overflow);
        }
        if let Some(previous) = self.replace_next(goroutine) {
            self.put_last(previous, overflow);
        }
    }

    /// Takes the goroutine to run: `next`, else the oldest of the ring.
    #[inline]
    pub(crate) fn get(self) -> Option<Taken<T>> {
        if let Some(goroutine) = self.take_next() {
            return Some(Taken {
                goroutine,
                inherit_time: true,
            });
        }
        self.take_oldest().map(|goroutine| Taken {
            goroutine,
            inherit_time: false,
        })
    }

    /// Takes the oldest of the ring, before `next`.
    #[inline]
    pub(crate) fn get_oldest(self) -> Option<NonNull<T>> {
        self.take_oldest()
    }

    /// The goroutine in the ring that so many will be taken before, unless thieves take some: to prepare for it.
    #[inline]
    pub(crate) fn peek(self, before: u32) -> Option<NonNull<T>> {
        // ordering: Relaxed, all: a hint; the owner wrote the slot.
        let position = self
            .queue
            .head
            .0
            .load(Ordering::Relaxed)
            .wrapping_add(before);
        let left = self
            .queue
            .owned
            .0
            .tail
            .load(Ordering::Relaxed)
            .wrapping_sub(position);
        if left == 0 || left > CAPACITY as u32 {
            return None;
        }
        NonNull::new(self.queue.slot(position).load(Ordering::Relaxed))
    }

    /// How many goroutines the ring has room for before it overflows, at least.
    #[inline]
    pub(crate) fn room(self) -> usize {
        CAPACITY - self.queue.len() as usize
    }

    #[inline(always)]
    fn is_shared(self) -> bool {
        // ordering: Relaxed; it changes only while nobody uses the queue.
        self.queue.owned.0.shared.load(Ordering::Relaxed)
    }

    /// Puts a goroutine into `next`; the one that was there.
    #[inline]
    fn replace_next(self, goroutine: NonNull<T>) -> Option<NonNull<T>> {
        let next = &self.queue.owned.0.next;
        // ordering: Relaxed; INV-RUNQ-4: what is not empty was put there by this thread (or by an owner
        // before it, whose P came with an acquire).
        let previous = next.load(Ordering::Relaxed);
        if previous.is_null() || !self.is_shared() {
            // ordering: Release; pairs with the Acquire of a thief that takes it.
            next.store(goroutine.as_ptr(), Ordering::Release);
            return NonNull::new(previous);
        }
        // ordering: Release as above; Acquire is not needed for one's own pointer, and a thief that was
        // faster left null.
        NonNull::new(next.swap(goroutine.as_ptr(), Ordering::Release))
    }

    #[inline]
    fn take_next(self) -> Option<NonNull<T>> {
        let next = &self.queue.owned.0.next;
        // ordering: Relaxed; as in `replace_next`.
        let goroutine = NonNull::new(next.load(Ordering::Relaxed))?;
        if !self.is_shared() {
            // ordering: Release; pairs with the Acquire load in `is_empty`.
            next.store(null_mut(), Ordering::Release);
            return Some(goroutine);
        }
        // ordering: Release; as above. Failure means that a thief took it, and nothing is read of that.
        next.compare_exchange(
            goroutine.as_ptr(),
            null_mut(),
            Ordering::Release,
            Ordering::Relaxed,
        )
        .ok()
        .map(|_| goroutine)
    }

    #[inline]
    fn take_oldest(self) -> Option<NonNull<T>> {
        let queue = self.queue;
        loop {
            // ordering: Acquire; pairs with the Release of thieves that advanced it.
            let head = queue.head.0.load(Ordering::Acquire);
            // ordering: Relaxed; the owner's own.
            let tail = queue.owned.0.tail.load(Ordering::Relaxed);
            if head == tail {
                return None;
            }
            // ordering: Relaxed; the owner wrote the slot.
            let goroutine = queue.slot(head).load(Ordering::Relaxed);
            let after = head.wrapping_add(1);
            if !self.is_shared() {
                // ordering: Release; for whoever looks at the length.
                queue.head.0.store(after, Ordering::Release);
                return NonNull::new(goroutine);
            }
            // ordering: Release; pairs with the Acquire loads of the head. Relaxed on failure: all is read
            // again.
            if queue
                .head
                .0
                .compare_exchange_weak(head, after, Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                return NonNull::new(goroutine);
            }
        }
    }

    #[inline]
    fn put_last(self, goroutine: NonNull<T>, overflow: impl FnOnce(&[NonNull<T>])) {
        let queue = self.queue;
        // ordering: Acquire; pairs with the Release of thieves: the slot that is overwritten next has been
        // read.
        let head = queue.head.0.load(Ordering::Acquire);
        // ordering: Relaxed; the owner's own.
        let tail = queue.owned.0.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) < CAPACITY as u32 {
            self.publish(tail, goroutine);
        } else {
            self.put_slowly(goroutine, overflow);
        }
    }

    #[inline(always)]
    fn publish(self, tail: u32, goroutine: NonNull<T>) {
        // ordering: Relaxed; the tail publishes it.
        self.queue
            .slot(tail)
            .store(goroutine.as_ptr(), Ordering::Relaxed);
        // ordering: Release; pairs with the Acquire load of thieves.
        self.queue
            .owned
            .0
            .tail
            .store(tail.wrapping_add(1), Ordering::Release);
    }

    /// The ring looked full: gives half away, unless thieves made room meanwhile.
    #[cold]
    #[inline(never)]
    fn put_slowly(self, goroutine: NonNull<T>, overflow: impl FnOnce(&[NonNull<T>])) {
        let queue = self.queue;
        // ordering: as in `put_last`.
        let tail = queue.owned.0.tail.load(Ordering::Relaxed);
        loop {
            // ordering: Acquire; as in `put_last`.
            let head = queue.head.0.load(Ordering::Acquire);
            if tail.wrapping_sub(head) < CAPACITY as u32 {
                return self.publish(tail, goroutine);
            }
            let mut batch = [goroutine; MAX_OVERFLOW];
            for (offset, place) in batch.iter_mut().take(CAPACITY / 2).enumerate() {
                // ordering: Relaxed; the owner wrote the slots.
                let oldest = queue
                    .slot(head.wrapping_add(offset as u32))
                    .load(Ordering::Relaxed);
                if let Some(oldest) = NonNull::new(oldest) {
                    *place = oldest;
                }
            }
            let after = head.wrapping_add(CAPACITY as u32 / 2);
            // ordering: Release; pairs with the Acquire loads of the head. Relaxed on failure: read again.
            if queue
                .head
                .0
                .compare_exchange(head, after, Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                return overflow(&batch);
            }
        }
    }
}

#[cfg(test)]
#[path = "runq_tests.rs"]
mod tests;
