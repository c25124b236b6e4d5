//! Handing a P on: what becomes of a P whose M cannot go on with it.
//!
//! # Contract
//!
//! [`Sched::handoff`] takes a P that nobody holds: `M::p` of the M that had it no longer names it, and the
//! caller is the only one who could (it released the P, or took it away by an exchange that its M would
//! notice). Afterwards the P is the scheduler's. In the order of Go's `handoffp`:
//!
//! 1. there is work, in the P's own queue or in the global one: an M gets the P;
//! 2. nobody looks for work and no P is idle: an M gets it, and counts as spinning;
//! 3. else it becomes idle, and whoever hands it on does what an M does that goes to sleep
//!    (`sched::idle`): looks once more at every queue, and sees to it that somebody keeps the time of its
//!    timers.
//!
//! *An M gets it* means: the one that went idle last, which is woken; else the P waits, and the first of the
//! spawner's next M and an M that runs out of work takes it ([`Sched::take_awaiting_p`]). When the scheduler
//! stops a P becomes idle, unless a goroutine is frozen: then its M gets the P (`sched::preempt`).
//!
//! Nothing here allocates, prints, or takes another lock than the scheduler's, for a few dozen instructions.
//! The caller holds no lock of a rank at or below it. It may be any thread, with or without an M.

use crate::sched::refs::{MRef, PRef};
use crate::sched::{Sched, Shared};

/// What became of a P; completed without the lock.
#[derive(Debug)]
#[must_use]
pub(crate) enum Given {
    /// This M is to be woken with it; so many others sleep.
    To(MRef, PRef, u32),
    /// It waits for an M.
    Awaiting,
}

impl Sched {
    /// Gives `p`, which nobody holds, to an M or to the idle list: see the module.
    pub(crate) fn handoff(&self, p: PRef) {
        let given = {
            let mut shared = self.shared.lock();
            match self.wants_m(&shared, &p) {
                Some(spinning) => Ok(self.give(&mut shared, p, spinning)),
                None => Err(self.leave(&mut shared, p)),
            }
        };
        match given {
            Ok(given) => self.complete_handoff(given),
            Err(Some(frozen)) => frozen.wake_with(p),
            Err(None) => self.look_after_handoff(),
        }
    }

    /// Leaves `p`, which nobody has a use for: it becomes idle, but at the end it goes to the M of a goroutine that
    /// is frozen, if there is one. The caller wakes that one with it.
    pub(crate) fn leave(&self, shared: &mut Shared, p: PRef) -> Option<MRef> {
        let frozen = shared.take_frozen_m();
        if frozen.is_some() {
            self.publish_global_len(shared);
        } else {
            shared.put_idle_p(p);
            self.idle.p_became_idle();
        }
        frozen
    }

    /// Whether an M is to have `p`, and whether that one spins. Under the lock.
    fn wants_m(&self, shared: &Shared, p: &PRef) -> Option<bool> {
        if self.stopping() {
            None
        } else if !p.runq.is_empty() || shared.queued() != 0 {
            Some(false)
        } else {
            self.idle.claim_if_nobody_looks().then_some(true)
        }
    }

    /// Gives `p` to an idle M, or lets it wait for one. `spinning`: the M is counted as one that spins.
    pub(crate) fn give(&self, shared: &mut Shared, p: PRef, spinning: bool) -> Given {
        match shared.take_idle_m() {
            Some(m) => {
                m.spinning.set(spinning);
                Given::To(m, p, shared.idle_m_count)
            }
            None => {
                p.awaits_spinning.set(spinning);
                shared.put_awaiting_p(p);
                Given::Awaiting
            }
        }
    }

    /// What [`Sched::give`] could not do under the lock.
    pub(crate) fn complete(&self, given: Given) {
        match given {
            Given::To(m, p, _) => {
                crate::trace::m_wake(m);
                m.wake_with(p);
            }
            Given::Awaiting => self.spawner.notify(),
        }
    }

    /// [`Sched::complete`] for the P of an M that is blocked: one M more is needed, and others may be soon.
    fn complete_handoff(&self, given: Given) {
        let left = match given {
            Given::To(_, _, left) => Some(left),
            Given::Awaiting => {
                self.spawner.spare_was_missing();
                None
            }
        };
        self.complete(given);
        // After the M is awake: the spawner would use this processor.
        if let Some(left) = left {
            self.spawner.spare_was_used(left);
        }
    }

    /// The second look of whoever made a P idle, as in `sched::find`.
    pub(crate) fn look_after_handoff(&self) {
        self.idle.recheck_before_sleep(false);
        if self.work_waits() {
            self.wake_p_if_needed();
        }
        self.keeper.p_was_given_up(self);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sched::g::transition;

    /// A scheduler of two Ps without threads; both Ps are taken.
    fn two_ps() -> (&'static Sched, PRef, PRef) {
        let sched: &'static Sched = Box::leak(Box::new(Sched::new(2, 0).expect("a scheduler")));
        sched.make_procs_idle();
        (
            sched,
            sched.take_idle_p().expect("an idle P"),
            sched.take_idle_p().expect("an idle P"),
        )
    }

    fn put_work(sched: &'static Sched) {
        let g = sched.take_free_from_outside().expect("a goroutine");
        transition!(g, Idle => Runnable);
        sched.put_global(g);
    }

    fn put_idle_m(sched: &'static Sched) -> MRef {
        let m = sched.new_m();
        sched.shared.lock().put_idle_m(m);
        m
    }

    #[test]
    fn the_p_goes_to_an_idle_m_where_there_is_work() {
        let (sched, p, _) = two_ps();
        let (first, last) = (put_idle_m(sched), put_idle_m(sched));
        put_work(sched);
        sched.handoff(p);
        assert_eq!(last.sleep(|| true), Some(p));
        assert!(!last.spinning.get());
        assert_eq!(first.sleep(|| true), None);
        assert_eq!((sched.idle.idle_ps(), sched.idle.spinning_ms()), (0, 0));
    }

    #[test]
    fn without_an_idle_m_the_p_waits_for_one() {
        let (sched, p, _) = two_ps();
        put_work(sched);
        sched.handoff(p);
        assert_eq!(sched.take_awaiting_p(), Some(p));
        assert!(!p.awaits_spinning.get());
    }

    #[test]
    fn somebody_looks_for_work_if_nobody_else_does() {
        let (sched, p, other) = two_ps();
        let m = put_idle_m(sched);
        sched.handoff(p);
        assert_eq!(m.sleep(|| true), Some(p));
        assert!(m.spinning.get());
        assert_eq!(sched.idle.spinning_ms(), 1);
        // One looks, so the other P is not needed.
        put_idle_m(sched);
        sched.handoff(other);
        assert_eq!((sched.idle.idle_ps(), sched.idle.spinning_ms()), (1, 1));
        assert_eq!(sched.take_idle_p(), Some(other));
    }

    #[test]
    fn at_the_end_the_p_becomes_idle() {
        let (sched, p, _) = two_ps();
        let m = put_idle_m(sched);
        put_work(sched);
        sched.begin_stop();
        sched.handoff(p);
        assert_eq!(m.sleep(|| true), None);
        assert_eq!(sched.take_idle_p(), Some(p));
    }

    #[test]
    fn a_missing_spare_is_remembered() {
        let (sched, p, other) = two_ps();
        put_work(sched);
        assert_eq!(sched.spawner.wanted(), 2);
        sched.handoff(p);
        assert_eq!(sched.spawner.wanted(), 4);
        put_idle_m(sched);
        sched.handoff(other);
        assert_eq!(sched.spawner.wanted(), 4, "an M was idle");
    }
}
