//! Every P there is, and changing how many there are while goroutines run.
//!
//! # Protocol
//!
//! A P is made once and stays in its slot until the scheduler ends; it is *live* or it is not. Fewer are wanted:
//! Ps with the highest numbers *retire*. The world is stopped meanwhile (`sched::stw`), which has made those idle
//! that were in system calls. One that is idle retires at once. One with an M at its safe point stays with it: the
//! goroutine may stand in the middle of the program's code. It is told to look at the scheduler
//! ([`P::demand_attention`]), and the P retires at its next switch (`sched::find`); until then a few more goroutines
//! run than are wanted.
//!
//! Whoever retires a P holds it: no M does, it is on no list and in no call. Its queue goes to the global one, its
//! timers to P 0, which never retires, its pools to the scheduler. The trace is told a new number when it is true: no
//! P with a larger number is live, and none with a smaller one has begun. A scan of all Ps that still sees it finds
//! nothing there. It is live until the same lock that shows it to be surplus says that it is not; so two
//! changes at once agree.

use crate::prim::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::procs::MAX_PROCS;
use crate::sched::p::P;
use crate::sched::refs::PRef;
use crate::sched::{Sched, Shared, timers};

/// The Ps of a scheduler by their numbers.
#[derive(Debug)]
pub(crate) struct Procs {
    slots: Box<[AtomicPtr<P>]>,
    stack_class: u8,
    /// How many there are to be: those with smaller numbers. Written under the scheduler's lock.
    wanted: AtomicU32,
    /// How many are live. Written under the scheduler's lock.
    live: AtomicU32,
    /// No P with this number or a larger one is live. Written under the scheduler's lock.
    span: AtomicU32,
    /// The number that the trace was told last. Under the scheduler's lock.
    told: AtomicU32,
}

impl Procs {
    pub(crate) fn new(count: u32, stack_class: u8) -> Procs {
        let empty = || AtomicPtr::new(std::ptr::null_mut());
        let procs = Procs {
            slots: (0..MAX_PROCS).map(|_| empty()).collect(),
            stack_class,
            wanted: AtomicU32::new(count),
            live: AtomicU32::new(0),
            span: AtomicU32::new(count),
            told: AtomicU32::new(count),
        };
        procs.make(count);
        procs
    }

    /// Makes what is missing of the first `count` Ps. Allocates.
    pub(crate) fn make(&self, count: u32) {
        for (id, slot) in (0..count).zip(&self.slots) {
            // ordering: Relaxed: the exchange decides.
            if !slot.load(Ordering::Relaxed).is_null() {
                continue;
            }
            let p = Box::into_raw(Box::new(P::new(id, self.stack_class)));
            // ordering: Release; pairs with the Acquire load in `get`. Relaxed on failure: it is not looked at.
            let placed = slot.compare_exchange(
                std::ptr::null_mut(),
                p,
                Ordering::Release,
                Ordering::Relaxed,
            );
            if placed.is_err() {
                // SAFETY: it came from a box just now, and nobody has seen it.
                drop(unsafe { Box::from_raw(p) });
            }
        }
    }

    /// The P with number `id`, if it was made.
    #[inline(always)]
    fn get(&self, id: u32) -> Option<PRef> {
        // ordering: Acquire; pairs with the Release in `make`.
        PRef::from_ptr(self.slots[id as usize].load(Ordering::Acquire))
    }

    /// How many there are to be.
    #[inline(always)]
    pub(crate) fn wanted(&self) -> u32 {
        // ordering: Relaxed: whoever acts on it does so under the lock, or again later.
        self.wanted.load(Ordering::Relaxed)
    }
}

impl Drop for Procs {
    fn drop(&mut self) {
        for slot in &self.slots {
            // ordering: Relaxed: nobody else has the scheduler any more.
            let p = slot.load(Ordering::Relaxed);
            if !p.is_null() {
                // SAFETY: it came from a box in `make`, and goes only here.
                drop(unsafe { Box::from_raw(p) });
            }
        }
    }
}

impl Sched {
    /// How many Ps are live.
    #[inline(always)]
    pub(crate) fn proc_count(&self) -> u32 {
        // ordering: Relaxed: a hint, but under the lock.
        self.procs.live.load(Ordering::Relaxed)
    }

    /// The numbers of all Ps that may be live are below this.
    #[inline(always)]
    pub(crate) fn proc_span(&self) -> u32 {
        // ordering: Relaxed: a P that becomes live is first put on the idle list, under the lock; whoever takes
        // it from there has seen the span.
        self.procs.span.load(Ordering::Relaxed)
    }

    /// Every P that may be live.
    #[inline(always)]
    pub(crate) fn procs(&self) -> impl Iterator<Item = PRef> {
        (0..self.proc_span()).filter_map(|id| self.procs.get(id))
    }

    /// Every P that ever was: for what adds up.
    pub(crate) fn made_procs(&self) -> impl Iterator<Item = &P> {
        self.procs.slots.iter().map_while(|slot| {
            // ordering: Acquire, as in `get`.
            let p = slot.load(Ordering::Acquire);
            // SAFETY: null, or it came from a box that stays as long as `self`.
            unsafe { p.as_ref() }
        })
    }

    /// The P with number `id`, which was made.
    pub(crate) fn proc_at(&self, id: u32) -> PRef {
        match self.procs.get(id) {
            Some(p) => p,
            None => crate::fatal::fatal!("there is no P {id}"),
        }
    }

    /// Puts every P on the idle list, the first one first. Once, before anything else.
    pub(crate) fn make_procs_idle(&'static self) {
        let mut shared = self.shared.lock();
        let count = self.procs.wanted();
        for id in (0..count).rev() {
            let p = self.proc_at(id);
            // SAFETY: no M exists yet, and where more Ps come later it is changed before.
            unsafe { p.runq.set_shared(count > 1) };
            self.make_live(&mut shared, p);
        }
    }

    fn make_live(&self, shared: &mut Shared, p: PRef) {
        if !p.live.replace(true) {
            // ordering: Relaxed: under the lock.
            self.procs.live.fetch_add(1, Ordering::Relaxed);
            shared.put_idle_p(p);
            self.idle.p_became_idle();
        }
    }

    /// Whether `p` is to retire.
    #[inline(always)]
    pub(crate) fn is_surplus(&self, p: &P) -> bool {
        p.id >= self.procs.wanted()
    }

    /// From now on there are to be `wanted` Ps, 1 to [`MAX_PROCS`], which are [made](Procs::make); how many there
    /// were to be before. While the world is stopped, or in the one goroutine that runs at its end.
    pub(crate) fn set_procs(&'static self, wanted: u32) -> u32 {
        if wanted > 1 && self.proc_count() == 1 {
            // SAFETY: nobody uses P 0 but perhaps the caller, and there is no other P, so there is no thief yet.
            unsafe { self.proc_at(0).runq.set_shared(true) };
        }
        let (before, mut retiring) = {
            let mut shared = self.shared.lock();
            let before = self.procs.wanted();
            // ordering: Relaxed: under the lock.
            self.procs.wanted.store(wanted, Ordering::Relaxed);
            self.update_span();
            for id in before..wanted {
                self.make_live(&mut shared, self.proc_at(id));
            }
            (before, self.take_surplus(&mut shared))
        };
        while let Some(p) = retiring {
            retiring = p.link.take();
            self.retire(p);
        }
        for id in wanted..before {
            self.proc_at(id).demand_attention();
        }
        before
    }

    /// Takes the Ps that are to retire out of the lists: a list of them. Under the lock.
    fn take_surplus(&self, shared: &mut Shared) -> Option<PRef> {
        let mut surplus = None;
        let mut keep = None;
        while let Some(p) = shared.take_idle_p() {
            let list = if self.is_surplus(&p) {
                self.idle.p_left_idle();
                &mut surplus
            } else {
                &mut keep
            };
            p.link.set(*list);
            *list = Some(p);
        }
        while let Some(p) = keep {
            keep = p.link.take();
            shared.put_idle_p(p);
        }
        surplus
    }

    /// Ends the use of `p`, which nobody holds, if it is to retire; else it becomes idle.
    pub(crate) fn retire(&self, p: PRef) {
        // SAFETY: the caller holds the P.
        unsafe { (*p.stacks.get()).flush(self.stacks) };
        if p.id != 0 {
            timers::move_all(p, self.proc_at(0));
        }
        {
            let mut shared = self.shared.lock();
            if self.is_surplus(&p) {
                self.take_queue(&mut shared, &p);
                // SAFETY: the caller holds the P.
                let free = unsafe { &mut *p.free.get() };
                while let Some(g) = free.pop() {
                    shared.free.push_back(g);
                }
                p.live.set(false);
                // ordering: Relaxed: under the lock.
                self.procs.live.fetch_sub(1, Ordering::Relaxed);
                self.update_span();
            } else {
                shared.put_idle_p(p);
                self.idle.p_became_idle();
            }
        }
        self.look_after_handoff();
    }

    /// Finds the span again, and tells the trace when there are as many Ps as are wanted. Under the lock.
    fn update_span(&self) {
        let wanted = self.procs.wanted();
        let mut span = self.proc_span().max(wanted);
        while span > wanted && self.procs.get(span - 1).is_none_or(|p| !p.live.get()) {
            span -= 1;
        }
        // ordering: Relaxed: as in `proc_span`.
        self.procs.span.store(span, Ordering::Relaxed);
        // ordering: Relaxed: under the lock.
        if span == wanted && self.procs.told.swap(wanted, Ordering::Relaxed) != wanted {
            crate::trace::procs_change(self, wanted);
        }
    }
}
