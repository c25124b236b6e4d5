//! The memory of goroutines: one reserved range, used from its beginning, never moved.

use std::io;

use crate::prim::atomic::{AtomicU32, Ordering};
use crate::sched::Sched;
use crate::sched::g::{G, GState};
use crate::sched::refs::GRef;
use crate::sys::memory::Reservation;

/// How many goroutines a scheduler can hold at one time.
pub(crate) const MAX_GOROUTINES: usize = 16 << 20;

/// How many bytes of goroutines come into memory at once.
const POPULATED: usize = 64 << 10;

/// Every goroutine that a scheduler has ever made.
#[derive(Debug)]
pub(crate) struct GTable {
    memory: Reservation,
    /// How many are initialized.
    used: AtomicU32,
}

impl GTable {
    /// Reserves the range. Memory is used as goroutines are made.
    ///
    /// # Errors
    /// When the kernel does not give that much address space (`ulimit -v`).
    pub(crate) fn reserve() -> io::Result<GTable> {
        let memory = Reservation::reserve(MAX_GOROUTINES * size_of::<G>())?;
        memory.exclude_from_dumps();
        Ok(GTable {
            memory,
            used: AtomicU32::new(0),
        })
    }

    /// How many goroutines were ever needed at one time.
    pub(crate) fn len(&self) -> usize {
        // ordering: Acquire; pairs with the Release in `allocate`: those counted are initialized.
        self.used.load(Ordering::Acquire) as usize
    }

    /// The goroutine at `index`, which is below [`GTable::len`].
    pub(crate) fn get(&self, index: usize) -> GRef {
        assert!(index < self.len());
        // SAFETY: entries below `len` are initialized and stay where they are.
        unsafe { GRef::new(&*self.entry(index)) }
    }

    /// How many goroutines live: have been made and have not ended.
    pub(crate) fn living(&self) -> usize {
        let dead = [GState::Idle as u32, GState::Dead as u32];
        (0..self.len())
            .filter(|&index| !dead.contains(&self.get(index).state()))
            .count()
    }

    /// A fresh goroutine; `None` when all are in use. Under the scheduler's lock.
    pub(crate) fn allocate(&self, sched: &'static Sched) -> Option<GRef> {
        // ordering: Relaxed: only the holder of the scheduler's lock writes it.
        let index = self.used.load(Ordering::Relaxed) as usize;
        if index == MAX_GOROUTINES {
            return None;
        }
        if (index * size_of::<G>()).is_multiple_of(POPULATED) {
            self.memory.populate(index * size_of::<G>(), POPULATED);
        }
        let entry = self.entry(index);
        // SAFETY: the entry is inside the reservation, aligned, and nobody has it yet.
        let g = unsafe {
            entry.write(G::new(sched));
            GRef::new(&*entry)
        };
        // ordering: Release; pairs with the Acquire in `len`.
        self.used.store(index as u32 + 1, Ordering::Release);
        Some(g)
    }

    fn entry(&self, index: usize) -> *mut G {
        // The range begins at a page and holds MAX_GOROUTINES entries.
        self.memory.base().as_ptr().cast::<G>().wrapping_add(index)
    }
}
