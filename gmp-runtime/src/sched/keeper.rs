//! The *timekeeper*: the one idle M that sleeps for all of them, until the earliest deadline of all Ps or an
//! event of the network, whichever comes first. It sleeps in the kernel's poll.
//!
//! # Protocol
//!
//! * **The timekeeper** says until when it sleeps · fence · looks at the deadlines once more, and begins again if
//!   they have changed · sleeps until just then.
//! * **Whoever publishes a deadline** while a P is idle · fence · wakes the timekeeper if it sleeps longer than
//!   that; if there is none, wakes an M, which becomes it when it finds nothing to do.
//! * **Whoever releases a P** · fence · wakes the timekeeper if it sleeps longer than until the earliest
//!   deadline: while no P was idle, nobody told it.
//!
//! * **The timekeeper that leaves** says that there is none · fence · looks whether one is needed and a P is idle,
//!   and then comes back.
//!
//! Of two fences one comes first, so either the timekeeper sees the deadline (or, as it leaves, the idle P) or the
//! other side sees until when it sleeps (or that there is none). The models in this file's tests search for a
//! counterexample. Sockets need nothing of the kind: one that is added to a poll that is under way is part of it.

use crate::prim::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sched::Sched;
use crate::sched::idle::IdleCounters;
use crate::sched::inject::GList;
use crate::sched::m::M;
use crate::sched::netpoll;
use crate::sched::p::NO_DEADLINE;
use crate::sched::refs::PRef;
use crate::sched::timers::earliest;
use crate::sys::clock::monotonic_ns;

/// The office.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// Until when it sleeps; [`NO_DEADLINE`] while there is none.
    until: AtomicU64,
    /// Whether an M has the office.
    held: AtomicU32,
}

/// Why the timekeeper is awake: a P to go on with, and goroutines that the network woke.
#[derive(Debug)]
pub(crate) struct Reason {
    pub(crate) p: PRef,
    pub(crate) ready: GList,
}

/// Who has to know of a deadline.
#[derive(Debug, PartialEq, Eq)]
enum Tell {
    /// Nobody more.
    Nobody,
    /// The monitor, if it comes round slowly: every P is busy.
    Monitor,
    /// An M that has nothing to do: there is no timekeeper.
    AnyM,
    /// The timekeeper, which sleeps longer.
    Keeper,
}

/// The protocol.
impl Keeper {
    pub(crate) fn new() -> Keeper {
        Keeper {
            until: AtomicU64::new(NO_DEADLINE),
            held: AtomicU32::new(0),
        }
    }

    /// Takes the office; false when another M has it.
    fn take_office(&self) -> bool {
        // ordering: AcqRel; pairs with the swap in `leave_office`: one M at a time, and whoever came in vain has
        // published its idle P, its deadlines and those who wait for the network for the one that leaves.
        self.held.swap(1, Ordering::AcqRel) == 0
    }

    /// Gives the office up. The caller looks after this whether a timekeeper is needed.
    fn leave_office(&self) {
        // ordering: Relaxed: before the swap.
        self.until.store(NO_DEADLINE, Ordering::Relaxed);
        // ordering: AcqRel; pairs with the swap in `take_office`.
        self.held.swap(0, Ordering::AcqRel);
        // ordering: SeqCst; pairs with the fence in `whom_to_tell`: either the deadline or the idle P is seen after
        // this, or that the office is free is seen there.
        fence(Ordering::SeqCst);
    }

    /// Says until when it sleeps, which is until the earliest deadline.
    fn announce(&self, earliest: impl Fn() -> u64) -> u64 {
        loop {
            let until = earliest();
            // ordering: Relaxed: before the fence.
            self.until.store(until, Ordering::Relaxed);
            // ordering: SeqCst; pairs with the fences in `whom_to_tell` and `sleeps_too_long`.
            fence(Ordering::SeqCst);
            // Not a later one either: who publishes one between the two would take the announced one for enough.
            if earliest() == until {
                return until;
            }
        }
    }

    /// Who has to know of a `deadline` that was published before this.
    fn whom_to_tell(&self, idle: &IdleCounters, deadline: u64) -> Tell {
        // ordering: SeqCst; pairs with the fence in `announce`: either the timekeeper sees the deadline, or its own
        // is seen here; with the one in `leave_office`; and with SleepFence: either an M that releases its P sees
        // the deadline, or its P is seen here.
        fence(Ordering::SeqCst);
        if idle.idle_ps() == 0 {
            // Every P runs goroutines, and looks at its own timers, or the monitor does.
            Tell::Monitor
        // ordering: Relaxed: after the fence.
        } else if self.held.load(Ordering::Relaxed) == 0 {
            Tell::AnyM
        // ordering: Relaxed: after the fence.
        } else if deadline < self.until.load(Ordering::Relaxed) {
            Tell::Keeper
        } else {
            Tell::Nobody
        }
    }

    /// Whether the timekeeper sleeps longer than until the earliest deadline. For an M that has released its P
    /// and found the office taken.
    fn sleeps_too_long(&self, earliest: impl Fn() -> u64) -> bool {
        // ordering: SeqCst; pairs with the fence in `announce`, as in `whom_to_tell`. A deadline that is published
        // from now on finds an idle P.
        fence(Ordering::SeqCst);
        // ordering: Relaxed: after the fence.
        earliest() < self.until.load(Ordering::Relaxed)
    }
}

impl Keeper {
    /// Sleeps until there is a reason, and takes an idle P then.
    fn keep(&self, m: &M) -> Option<Reason> {
        let sched = m.sched;
        loop {
            let deadline = self.announce(|| earliest(sched));
            if !is_needed(sched) {
                return None;
            }
            if sched.spawner.is_short() && sched.work_waits() {
                // No thread can be made for that work, and this one sleeps.
                let ready = GList::new();
                return sched.take_idle_p().map(|p| Reason { p, ready });
            }
            let now = monotonic_ns();
            sched.clock.keep(now);
            let mut ready = GList::new();
            if deadline > now {
                let timeout = (deadline != NO_DEADLINE).then(|| deadline - now);
                ready = sched.netpoll.wait(timeout);
                if ready.len() == 0 {
                    continue;
                }
            }
            // No P idle: all of them run, and look at the timers and the global queue themselves.
            let p = sched.take_idle_p();
            if p.is_none() && ready.len() != 0 {
                netpoll::put_global_after_wait(m, ready);
                return None;
            }
            return p.map(|p| Reason { p, ready });
        }
    }

    /// A deadline was published while others may sleep: somebody awake must know of it (Go's
    /// `wakeNetPoller`).
    pub(crate) fn deadline_added(&self, sched: &Sched, deadline: u64) {
        match self.whom_to_tell(&sched.idle, deadline) {
            Tell::Nobody => {}
            Tell::Monitor => {
                if sched.sysmon.is_slow() {
                    sched.sysmon.hurry();
                }
            }
            Tell::AnyM => sched.wake_p_if_needed(),
            Tell::Keeper => sched.netpoll.interrupt(),
        }
    }

    /// A P was put on the idle list by somebody who does not become the timekeeper: there must be one, and it
    /// must know the deadlines.
    pub(crate) fn p_was_given_up(&self, sched: &Sched) {
        if is_needed(sched) {
            self.deadline_added(sched, earliest(sched));
        }
    }
}

/// Whether somebody has to sleep for the others.
fn is_needed(sched: &Sched) -> bool {
    !sched.stopping() && (earliest(sched) != NO_DEADLINE || netpoll::has_waiters(sched))
}

/// If no other M does so, sleeps until a deadline or an event, and then takes an idle P. `None` when there is
/// nothing to wait for, another M keeps the time, or no P is idle any more.
pub(crate) fn wait(m: &M) -> Option<Reason> {
    let sched = m.sched;
    let keeper = &sched.keeper;
    loop {
        if !keeper.take_office() {
            if keeper.sleeps_too_long(|| earliest(sched)) {
                sched.netpoll.interrupt();
            }
            return None;
        }
        let reason = keeper.keep(m);
        keeper.leave_office();
        // An M that gets a P spins, and so sees to it that another M comes here after it. One that
        // gets none must not leave while somebody needs a timekeeper that found the office taken.
        // While the world is to stop no P can be had; whoever lets it go on looks for a timekeeper.
        let none_to_have = sched.idle.idle_ps() == 0 || sched.world.is_to_stop();
        if reason.is_some() || !is_needed(sched) || none_to_have {
            return reason;
        }
    }
}

#[cfg(all(test, loom))]
#[path = "keeper_tests.rs"]
mod tests;
