//! The goroutines that live: found by id, kept in slots that are used again, so that memory is
//! bounded by how many live at one moment.

use super::state::{Cause, GoroutineState, Place};
use gmp_trace::id::{GId, ObjectId, PId};
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;
use rustc_hash::FxHashMap;

/// What the machine knows of one goroutine.
#[derive(Clone, Debug)]
pub(super) struct Goroutine {
    pub(super) id: GId,
    pub(super) state: GoroutineState,
    /// What made it runnable, in that state.
    pub(super) cause: Cause,
    /// True in a system call that it did not announce.
    pub(super) implicit: bool,
    /// False in a slot that is free.
    pub(super) alive: bool,
    /// The P that it ran on last.
    pub(super) proc: Option<PId>,
    /// Why it waits.
    pub(super) reason: Text,
    /// Since when it is in its state: the time of its last event.
    pub(super) since: Nanos,
    pub(super) born: Nanos,
    /// The sum of its closed spans.
    pub(super) accounted: i64,
    /// Which goroutine made it runnable.
    pub(super) waker: Option<GId>,
    pub(super) object: Option<ObjectId>,
    pub(super) place: Place,
}

/// The goroutines that live.
#[derive(Debug)]
pub(super) struct Goroutines {
    by_id: FxHashMap<u64, u32>,
    /// By some low bits of ids, the last one that was found, with its slot; 0 is no id.
    recent: Box<[(u64, u32); RECENT]>,
    slots: Vec<Goroutine>,
    free: Vec<u32>,
}

/// Places of [`Goroutines::recent`].
const RECENT: usize = 1 << 10;

impl Default for Goroutines {
    fn default() -> Goroutines {
        Goroutines {
            by_id: FxHashMap::default(),
            recent: Box::new([(0, 0); RECENT]),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl Goroutines {
    /// The slot of `id`; `None` where it does not live.
    #[inline]
    pub(super) fn find(&mut self, id: GId) -> Option<usize> {
        let id = id.get();
        let recent = &mut self.recent[id as usize % RECENT];
        if recent.0 != id {
            *recent = (id, *self.by_id.get(&id)?);
        }
        Some(recent.1 as usize)
    }

    /// A slot for `id`, born at `born` in `state`.
    pub(super) fn add(&mut self, id: GId, born: Nanos, state: GoroutineState) -> usize {
        let goroutine = Goroutine {
            id,
            state,
            cause: Cause::Before,
            implicit: false,
            alive: true,
            proc: None,
            reason: Text::EMPTY,
            since: born,
            born,
            accounted: 0,
            waker: None,
            object: None,
            place: Place::Unknown,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = goroutine;
                slot
            }
            None => {
                self.slots.push(goroutine);
                (self.slots.len() - 1) as u32
            }
        };
        self.by_id.insert(id.get(), slot);
        slot as usize
    }

    /// Frees `slot`.
    pub(super) fn remove(&mut self, slot: usize) {
        let goroutine = &mut self.slots[slot];
        goroutine.alive = false;
        let id = goroutine.id.get();
        self.by_id.remove(&id);
        self.recent[id as usize % RECENT] = (0, 0);
        self.free.push(slot as u32);
    }

    /// The goroutine in `slot`.
    #[inline]
    pub(super) fn at(&mut self, slot: usize) -> &mut Goroutine {
        &mut self.slots[slot]
    }

    /// The goroutines that live.
    pub(super) fn alive(&self) -> impl Iterator<Item = &Goroutine> {
        self.slots.iter().filter(|goroutine| goroutine.alive)
    }

    /// How many slots there are, free ones included.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }
}
