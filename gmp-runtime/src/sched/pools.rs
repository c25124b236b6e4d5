//! Free goroutines, and numbers for new ones: a few at each P, the rest with the scheduler.

use crate::prim::atomic::Ordering;
use crate::sched::Sched;
use crate::sched::inject::GList;
use crate::sched::p::P;
use crate::sched::refs::GRef;

/// How many numbers of goroutines a P takes at once (Go: 16).
const ID_BATCH: u64 = 16;

/// How many free goroutines a P keeps, and how many it gives away or takes at once (Go's `gfput`).
const FREE_GOROUTINES_KEPT: u32 = 64;
const FREE_GOROUTINES_MOVED: u32 = 32;

impl Sched {
    /// A goroutine that nobody uses, for the M that holds `p`; `None` when all are in use.
    #[inline(always)]
    pub(crate) fn take_free(&'static self, p: &P) -> Option<GRef> {
        // SAFETY: the M that holds a P is the only one to touch its free list.
        match unsafe { (*p.free.get()).pop_front() } {
            Some(g) => Some(g),
            None => self.refill_free(p),
        }
    }

    #[cold]
    #[inline(never)]
    fn refill_free(&'static self, p: &P) -> Option<GRef> {
        let mut shared = self.shared.lock();
        // SAFETY: as in `take_free`.
        let free = unsafe { &mut *p.free.get() };
        while free.len() < FREE_GOROUTINES_MOVED {
            let Some(g) = shared.free.pop_front() else {
                break;
            };
            free.push_back(g);
        }
        if free.len() == 0 {
            return self.table.allocate(self);
        }
        free.pop_front()
    }

    /// Gives back `g`, which is idle, to the pool of `p`.
    #[inline(always)]
    pub(crate) fn put_free(&self, p: &P, g: GRef) {
        // SAFETY: as in `take_free`.
        let free = unsafe { &mut *p.free.get() };
        free.push_front(g);
        if free.len() > FREE_GOROUTINES_KEPT {
            self.spill_free(free);
        }
    }

    #[cold]
    #[inline(never)]
    fn spill_free(&self, free: &mut GList) {
        let mut shared = self.shared.lock();
        while free.len() > FREE_GOROUTINES_MOVED {
            let Some(g) = free.pop_front() else { break };
            shared.free.push_back(g);
        }
    }

    /// Gives back `g`, which is idle, from a thread without a P.
    pub(crate) fn put_free_from_outside(&self, g: GRef) {
        self.shared.lock().free.push_back(g);
    }

    /// A goroutine that nobody uses, for a thread without a P.
    pub(crate) fn take_free_from_outside(&'static self) -> Option<GRef> {
        let mut shared = self.shared.lock();
        shared
            .free
            .pop_front()
            .or_else(|| self.table.allocate(self))
    }

    /// How many goroutines were made.
    pub(crate) fn goroutines_created(&self) -> u64 {
        // The main goroutine has a batch of numbers for itself.
        let unused = ID_BATCH - 1 + self.made_procs().map(|p| p.unused_ids()).sum::<u64>();
        // ordering: Relaxed: a count.
        let given = self.next_id.load(Ordering::Relaxed) - 1;
        given.saturating_sub(unused)
    }

    /// The next numbers for goroutines: the first and the end.
    pub(crate) fn goroutine_ids(&self) -> (u64, u64) {
        // ordering: Relaxed: numbers only have to differ.
        let first = self.next_id.fetch_add(ID_BATCH, Ordering::Relaxed);
        (first, first + ID_BATCH)
    }
}
