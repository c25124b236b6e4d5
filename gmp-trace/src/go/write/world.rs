//! What every goroutine, P and thread does, as Go's reader will have it.

use std::collections::HashSet;

use super::file::{Batch, NO_THREAD};
use crate::go::states::{GStatus, Index, NOBODY, PStatus, Spans};
use crate::id::{GId, MId, PId};
use crate::tables::Text;

/// A goroutine.
#[derive(Debug)]
pub(super) struct Goroutine {
    pub(super) id: GId,
    pub(super) status: GStatus,
    /// Slot of the thread that it is on.
    pub(super) thread: u32,
    pub(super) sequence: u64,
    /// The last generation in which its status was written, or its making.
    pub(super) stated: u64,
    spans: Option<Box<Spans>>,
}

impl Goroutine {
    /// What is open in it.
    pub(super) fn spans(&mut self) -> &mut Spans {
        self.spans.get_or_insert_default()
    }

    /// The stops of the world that it asked for.
    pub(super) fn stops(&self) -> &[Text] {
        self.spans.as_ref().map_or(&[], |spans| &spans.stops)
    }

    pub(super) fn assists(&self) -> bool {
        self.spans.as_ref().is_some_and(|spans| spans.mark_assist)
    }
}

/// A P.
#[derive(Debug)]
pub(super) struct Proc {
    pub(super) id: PId,
    pub(super) status: PStatus,
    /// Slot of the thread that holds it.
    pub(super) thread: u32,
    pub(super) sequence: u64,
    /// The last generation in which its status was written.
    pub(super) stated: u64,
    pub(super) sweeping: bool,
}

/// A thread, and what of it is not written yet.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) id: u64,
    /// Slot of its goroutine.
    pub(super) g: u32,
    /// Slot of its P.
    pub(super) p: u32,
    pub(super) batch: Batch,
}

/// The slot of the thread that stands for none.
pub(super) const NO_SLOT: u32 = 0;

/// All of them.
#[derive(Debug)]
pub(super) struct World {
    pub(super) goroutines: Vec<Goroutine>,
    free: Vec<u32>,
    goroutine_index: Index,
    pub(super) procs: Vec<Proc>,
    proc_index: Index,
    pub(super) threads: Vec<Thread>,
    thread_index: Index,
    /// Tasks that have begun. One that has ended stays until the generation does: nothing tells Go's
    /// reader whether another one with its number comes later.
    pub(super) tasks: HashSet<u64>,
    pub(super) ended_tasks: Vec<u64>,
    /// Goroutines that have ended in this generation, for the same reason.
    pub(super) ended: HashSet<GId>,
}

impl World {
    pub(super) fn new() -> World {
        let mut world = World {
            goroutines: Vec::new(),
            free: Vec::new(),
            goroutine_index: Index::default(),
            procs: Vec::new(),
            proc_index: Index::default(),
            threads: Vec::new(),
            thread_index: Index::default(),
            tasks: HashSet::new(),
            ended_tasks: Vec::new(),
            ended: HashSet::new(),
        };
        world.thread_with(NO_THREAD);
        world
    }

    /// The slot of thread `m`.
    pub(super) fn thread(&mut self, m: Option<MId>) -> u32 {
        self.thread_with(m.map_or(NO_THREAD, MId::get))
    }

    pub(super) fn thread_with(&mut self, id: u64) -> u32 {
        if let Some(slot) = self.thread_index.get(id) {
            return slot;
        }
        let slot = self.threads.len() as u32;
        self.threads.push(Thread {
            id,
            g: NOBODY,
            p: NOBODY,
            batch: Batch::of_thread(id),
        });
        self.thread_index.insert(id, slot);
        slot
    }

    /// The slot of goroutine `id`, which is made where there is none.
    pub(super) fn goroutine(&mut self, id: GId) -> u32 {
        if let Some(slot) = self.goroutine_index.get(id.get()) {
            return slot;
        }
        let fresh = Goroutine {
            id,
            status: GStatus::Unknown,
            thread: NOBODY,
            sequence: 0,
            stated: 0,
            spans: None,
        };
        let slot = self.free.pop().unwrap_or(self.goroutines.len() as u32);
        match self.goroutines.get_mut(slot as usize) {
            Some(place) => *place = fresh,
            None => self.goroutines.push(fresh),
        }
        self.goroutine_index.insert(id.get(), slot);
        slot
    }

    /// The goroutine in `slot` is no more.
    pub(super) fn forget(&mut self, slot: u32) {
        self.unbind(slot);
        let goroutine = self.g(slot);
        let id = goroutine.id;
        (goroutine.status, goroutine.spans) = (GStatus::Unknown, None);
        self.goroutine_index.remove(id.get());
        self.free.push(slot);
        self.ended.insert(id);
    }

    /// A generation begins, before which everything of the last one comes.
    pub(super) fn begin_generation(&mut self) {
        self.ended.clear();
        for task in self.ended_tasks.drain(..) {
            self.tasks.remove(&task);
        }
    }

    /// The slot of P `id`, which is made where there is none.
    pub(super) fn proc(&mut self, id: PId) -> u32 {
        let number = u64::from(id.get());
        if let Some(slot) = self.proc_index.get(number) {
            return slot;
        }
        let slot = self.procs.len() as u32;
        self.procs.push(Proc {
            id,
            status: PStatus::Unknown,
            thread: NOBODY,
            sequence: 0,
            stated: 0,
            sweeping: false,
        });
        self.proc_index.insert(number, slot);
        slot
    }

    // The slots that are handed in are those that this world gave.

    pub(super) fn g(&mut self, slot: u32) -> &mut Goroutine {
        &mut self.goroutines[slot as usize]
    }

    pub(super) fn p(&mut self, slot: u32) -> &mut Proc {
        &mut self.procs[slot as usize]
    }

    pub(super) fn m(&mut self, slot: u32) -> &mut Thread {
        &mut self.threads[slot as usize]
    }

    /// The goroutine in slot `g` is on the thread in slot `m`.
    pub(super) fn bind(&mut self, g: u32, m: u32, status: GStatus) {
        let goroutine = self.g(g);
        (goroutine.thread, goroutine.status) = (m, status);
        self.m(m).g = g;
    }

    /// The goroutine in slot `g` is on no thread.
    pub(super) fn unbind(&mut self, g: u32) {
        let thread = std::mem::replace(&mut self.g(g).thread, NOBODY);
        if let Some(thread) = self.threads.get_mut(thread as usize)
            && thread.g == g
        {
            thread.g = NOBODY;
        }
    }

    /// The thread in slot `m` holds the P in slot `p`.
    pub(super) fn give(&mut self, p: u32, m: u32, status: PStatus) {
        let proc = self.p(p);
        (proc.thread, proc.status) = (m, status);
        self.m(m).p = p;
    }

    /// No thread holds the P in slot `p`.
    pub(super) fn take(&mut self, p: u32, status: PStatus) {
        let proc = self.p(p);
        proc.status = status;
        let thread = std::mem::replace(&mut proc.thread, NOBODY);
        if let Some(thread) = self.threads.get_mut(thread as usize)
            && thread.p == p
        {
            thread.p = NOBODY;
        }
    }

    /// The first thread that holds a P and for whose goroutine `fits` holds.
    pub(super) fn thread_that(&self, fits: impl Fn(Option<GStatus>) -> bool) -> Option<u32> {
        let fits = |thread: &Thread| {
            let goroutine = self.goroutines.get(thread.g as usize);
            thread.p != NOBODY && fits(goroutine.map(|g| g.status))
        };
        self.threads.iter().position(fits).map(|slot| slot as u32)
    }

    /// The first P that is idle, else one that there was not.
    pub(super) fn spare_proc(&mut self) -> u32 {
        let idle = |proc: &Proc| proc.status == PStatus::Idle;
        if let Some(slot) = self.procs.iter().position(idle) {
            return slot as u32;
        }
        let highest = self.procs.iter().map(|proc| proc.id.get()).max();
        let next = PId::new(highest.map_or(0, |p| p.saturating_add(1).min(u32::MAX - 1)));
        next.map_or(0, |id| self.proc(id))
    }
}
