//! Run queues: the ring of a P, the global queue, and what moves between them.

use std::ptr::NonNull;

use crate::fatal::fatal;
use crate::prim::atomic::Ordering;
use crate::sched::g::{self, G};
use crate::sched::m::M;
use crate::sched::p::P;
use crate::sched::refs::GRef;
use crate::sched::{Sched, Shared};
use crate::sys::clock::monotonic_ns;
use crate::trace::marks::Waker;

/// How many goroutines an M takes out of the global queue at most (Go: half a ring).
const GLOBAL_BATCH: u32 = 128;

/// From now on it is measured for how long `g` is runnable.
#[cold]
fn note_runnable(g: GRef) {
    g.runnable_since.set(monotonic_ns());
}

impl Sched {
    /// The length of the global queue.
    #[inline(always)]
    pub(crate) fn global_len(&self) -> u32 {
        // ordering: Relaxed: a hint; the queue itself is read under the lock, and an M that goes to
        // sleep reads this after SleepFence.
        self.global_len.load(Ordering::Relaxed)
    }

    /// Whether something of the global queue can be put into a ring.
    #[inline(always)]
    pub(crate) fn can_drain_global(&self) -> bool {
        // ordering: Relaxed: a hint.
        self.global_len() != self.frozen_len.load(Ordering::Relaxed)
    }

    /// Whether somebody was woken whom no P ran at once.
    #[inline(always)]
    pub(crate) fn urgent_waits(&self) -> bool {
        // ordering: Relaxed: a hint.
        self.urgent_len.load(Ordering::Relaxed) != 0
    }

    /// Whether timers of a P are due whose M does not look.
    #[inline(always)]
    pub(crate) fn timers_late(&self) -> bool {
        // ordering: Relaxed: a hint; the heaps are read under their locks.
        self.timers_late.load(Ordering::Relaxed)
    }

    /// Says so. For the monitor.
    pub(crate) fn set_timers_late(&self, late: bool) {
        // ordering: Relaxed, as in `timers_late`.
        if self.timers_late.load(Ordering::Relaxed) != late {
            // ordering: Relaxed, as above.
            self.timers_late.store(late, Ordering::Relaxed);
        }
    }

    pub(crate) fn publish_global_len(&self, shared: &Shared) {
        // ordering: Relaxed: SubmitFence comes after it where it matters.
        self.global_len.store(shared.queued(), Ordering::Relaxed);
        // ordering: Relaxed, as above.
        self.frozen_len
            .store(shared.frozen_count(), Ordering::Relaxed);
        // ordering: Relaxed, as above.
        self.urgent_len
            .store(shared.urgent.len(), Ordering::Relaxed);
    }

    /// Puts `g` on the queue of `p`: next (then the old `runnext` goes to the tail), or last. A full
    /// ring moves half of itself to the global queue.
    #[inline(always)]
    pub(crate) fn put_local(&self, m: &M, p: &P, g: GRef, next: bool) {
        if p.samples_latency() {
            note_runnable(g);
        }
        let next = next && !p.perturbs(2);
        p.queue()
            .put(g.as_non_null(), next, |batch| self.overflow(m, batch));
    }

    #[cold]
    #[inline(never)]
    fn overflow(&self, m: &M, batch: &[NonNull<G>]) {
        {
            let mut shared = self.shared.lock();
            for &g in batch {
                shared.put_queued(GRef::from_non_null(g));
            }
            self.publish_global_len(&shared);
        }
        m.tracer.overflow(m, batch.len() as u32);
    }

    /// Puts a waiting goroutine on the global queue, from a thread without a P. False, and nothing is
    /// done, when all that are left are being ended: this one too, whatever it waited for.
    pub(crate) fn put_global_from_outside(&self, g: GRef, by: Waker) -> bool {
        let mut shared = self.shared.lock();
        if shared.closed {
            return false;
        }
        crate::trace::ready_from_outside(self, g, by, || {
            g.wait.end();
            g::transition!(g, Waiting => Runnable);
        });
        if by == Waker::Netpoll {
            shared.put_urgent(g);
        } else {
            shared.put_queued(g);
        }
        self.publish_global_len(&shared);
        true
    }

    /// From now on nobody outside makes a goroutine runnable; and all queues are empty, because their
    /// goroutines are found through the table. At the end, when no M runs.
    pub(crate) fn close_queues(&self) {
        self.shared.lock().closed = true;
        for p in self.procs() {
            self.forget_queued(&p);
        }
    }

    /// Takes everything out of the ring of `p` and the global queue: a goroutine that has ended must not
    /// be linked anywhere when it is used again. At the end, when no M runs.
    pub(crate) fn forget_queued(&self, p: &P) {
        while p.take_next().is_some() {}
        if self.global_len() != 0 {
            while self.get_global().is_some() {}
        }
    }

    /// Waits until nobody outside uses the scheduler any more. When nobody can begin to.
    pub(crate) fn wait_for_visitors(&self) {
        // ordering: Acquire; pairs with the Release in the drop of `Visit`.
        while self.visitors.load(Ordering::Acquire) != 0 {
            crate::sys::thread::sched_yield();
        }
    }

    /// Puts a goroutine that was woken before the others of the global queue, from an M without a P.
    pub(crate) fn put_urgent(&self, g: GRef) {
        let mut shared = self.shared.lock();
        shared.put_urgent(g);
        self.publish_global_len(&shared);
    }

    /// Puts a new goroutine on the global queue, from a thread without a P.
    pub(crate) fn put_global(&self, g: GRef) {
        let mut shared = self.shared.lock();
        shared.put_queued(g);
        self.publish_global_len(&shared);
    }

    /// Moves the queue of `p`, which the caller holds, to the global one. Under the lock.
    pub(crate) fn take_queue(&self, shared: &mut Shared, p: &P) {
        while let Some((g, _)) = p.take_next() {
            shared.put_queued(g);
        }
        self.publish_global_len(shared);
    }

    /// One goroutine of the global queue.
    pub(crate) fn get_global(&self) -> Option<GRef> {
        let mut shared = self.shared.lock();
        let g = shared.take_queued();
        self.publish_global_len(&shared);
        g
    }

    /// A fair share of the global queue: the first is returned, the others go to the ring of `p`.
    pub(crate) fn get_global_batch(&self, m: &M, p: &P) -> Option<GRef> {
        let mut shared = self.shared.lock();
        let share = self.global_share(&shared);
        let first = shared.take_queued();
        let moved = Self::move_to_ring(&mut shared, p, share.saturating_sub(1));
        self.publish_global_len(&shared);
        drop(shared);
        if first.is_some() {
            m.tracer.global_batch(m, moved + 1);
        }
        first
    }

    /// Moves a fair share of the global queue to the tail of the ring of `p`, before a goroutine that
    /// yields goes there.
    #[cold]
    #[inline(never)]
    pub(crate) fn drain_global(&self, m: &M, p: &P) {
        let mut shared = self.shared.lock();
        let share = self.global_share(&shared);
        let moved = Self::move_to_ring(&mut shared, p, share);
        self.publish_global_len(&shared);
        drop(shared);
        if moved > 0 {
            m.tracer.global_batch(m, moved);
        }
    }

    /// Go's `globrunqgetbatch`: the length divided by the number of Ps, plus one, half a ring at most. None, while
    /// so many are frozen that those are to take turns: in the ring the others would come before them, and be
    /// frozen in turn.
    fn global_share(&self, shared: &Shared) -> u32 {
        if shared.are_enough_frozen() {
            return 0;
        }
        let len = shared.global.len();
        (len / self.proc_count() + 1).min(len).min(GLOBAL_BATCH)
    }

    fn move_to_ring(shared: &mut Shared, p: &P, most: u32) -> u32 {
        let mut moved = 0;
        // Thieves can only make more room.
        let most = most.min(p.queue().room() as u32);
        while moved < most {
            let Some(g) = shared.take_unfrozen() else {
                break;
            };
            p.queue().put(g.as_non_null(), false, |_| {
                fatal!("a ring with room is full")
            });
            moved += 1;
        }
        moved
    }
}
