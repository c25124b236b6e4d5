//! Free goroutines, and numbers for new ones: a few at each P, the rest with the scheduler.

use crate::prim::atomic::Ordering;
use crate::sched::Sched;
use crate::sched::inject::GStack;
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
        match unsafe { (*p.free.get()).pop() } {
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
            free.push(g);
        }
        if free.len() == 0 {
            return self.table.allocate(self);
        }
        free.pop()
    }

    /// Gives back `g`, which is idle, to the pool of `p`.
    #[inline(always)]
    pub(crate) fn put_free(&self, p: &P, g: GRef) {
        // SAFETY: as in `take_free`.
        let free = unsafe { &mut *p.free.get() };
        free.push(g);
        if free.len() > FREE_GOROUTINES_KEPT {
            self.spill_free(free);
        }
    }

    #[cold]
    #[inline(never)]
    fn spill_free(&self, free: &mut GStack) {
        let mut shared = self.shared.lock();
        while free.len() > FREE_GOROUTINES_MOVED {
            let Some(g) = free.pop() else { break };
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// How many goroutines are free: at each P, and with the scheduler.
    fn free(sched: &Sched, ps: [&P; 2]) -> [u32; 3] {
        let [one, other] = ps.map(P::free_count);
        [one, other, sched.shared.lock().free.len()]
    }

    #[test]
    fn a_p_keeps_64_free_goroutines_and_moves_32() {
        let sched: &'static Sched = Box::leak(Box::new(Sched::new(2, 0).unwrap()));
        sched.make_procs_idle();
        let [p, other] = [(); 2].map(|()| sched.take_idle_p().unwrap());
        let free = || free(sched, [&p, &other]);
        // From the table, one by one.
        let used: Vec<_> = (0..100).map(|_| sched.take_free(&p).unwrap()).collect();
        assert_eq!((free(), sched.table.len()), ([0, 0, 0], 100));
        for (index, &g) in used.iter().enumerate() {
            sched.put_free(&p, g);
            let expected = match index + 1 {
                put @ ..=64 => [put as u32, 0, 0],
                // One more than it keeps: down to 32.
                put @ ..=97 => [put as u32 - 33, 0, 33],
                put => [put as u32 - 66, 0, 66],
            };
            assert_eq!(free(), expected, "{} put", index + 1);
        }
        // The last one back is the first one out.
        assert_eq!(sched.take_free(&p), used.last().copied());
        // A P without any takes 32 from the scheduler.
        let mut taken = vec![sched.take_free(&other).unwrap()];
        assert_eq!(free(), [33, 31, 34]);
        taken.extend((0..65).map(|_| sched.take_free(&other).unwrap()));
        assert_eq!((free(), sched.table.len()), ([33, 0, 0], 100));
        // None of the first P's is taken: a new one is made.
        taken.push(sched.take_free(&other).unwrap());
        assert_eq!((free(), sched.table.len()), ([33, 0, 0], 101));
        let numbers: std::collections::HashSet<_> = taken.iter().map(|g| g.as_ptr()).collect();
        assert_eq!(numbers.len(), 67, "one was given out twice");
    }
}
