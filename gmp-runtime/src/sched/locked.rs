//! Goroutines that are locked to their thread: each runs on its own M only, and that M runs no other.
//!
//! # Protocol
//!
//! An M that finds a goroutine which is locked to another M gives that one its P ([`give_turn`]) and goes to sleep:
//! the *turn* is the P. An M whose goroutine has left it hands its P on and waits for its turn
//! ([`wait_for_turn`]); so of the two only one holds a P (Go's `startlockedm` and `stoplockedm`). Both go through
//! the M's own stack: a goroutine that is locked is never switched to straight from another one.
//!
//! The turn may be given before the M waits for it: it finds the P as soon as it does. Such an M is not on the list
//! of idle Ms, since nobody may give it other work; `Shared::waiting_locked` counts it as asleep.
//!
//! When a locked goroutine ends, its thread ends with it: the thread may have been changed in ways that the next
//! goroutine must not meet. The thread of `run` cannot end, and sleeps until the scheduler stops.

use crate::sched::m::M;
use crate::sched::refs::{GRef, MRef};
use crate::sched::{critical, current, deadlock, find, stw};
use crate::trace::marks::HandoffReason;

/// Locks `g`, which runs here, to its M, once more.
pub(crate) fn lock(g: GRef) {
    let _section = critical::enter(g);
    g.locks.set(g.locks.get() + 1);
    if g.locks.get() == 1 {
        let m = current::m_of(g);
        g.lock_to(Some(m));
        m.set_locked(Some(g));
        m.tracer.m_lock(&m);
    }
}

/// Takes one lock of `g`, which runs here, away; does nothing if there is none.
pub(crate) fn unlock(g: GRef) {
    let _section = critical::enter(g);
    let Some(left) = g.locks.get().checked_sub(1) else {
        return;
    };
    g.locks.set(left);
    if left == 0 {
        let m = current::m_of(g);
        g.lock_to(None);
        m.set_locked(None);
        m.tracer.m_unlock(&m);
    }
}

/// `g` has ended on `m`.
pub(crate) fn ends(m: &M, g: GRef) {
    if g.locked_to().is_some() {
        m.set_locked(None);
        m.must_end.set(true);
    }
}

/// Gives the P of `m`, which has taken a goroutine that is locked to `other`, to that one.
pub(crate) fn give_turn(m: &M, other: MRef) {
    find::found_work(m);
    let p = m.hand_p_to(other, HandoffReason::Locked);
    m.sched.shared.lock().waiting_locked -= 1;
    crate::trace::m_wake(other);
    other.wake_with(p);
}

/// Hands the P of `m` on, if it has one, and sleeps until it is given its turn. False when the scheduler stops.
pub(crate) fn wait_for_turn(m: &M) -> bool {
    if m.sched.stopping() {
        return false;
    }
    sleep(m);
    match m.sleep(|| m.sched.stopping()) {
        Some(p) => {
            stw::wait_to_take(m);
            m.acquire_p(p);
            true
        }
        None => false,
    }
}

/// Hands the P of `m` on, and counts it as one that sleeps.
fn sleep(m: &M) {
    let sched = m.sched;
    if m.p().is_some() {
        let p = m.release_p();
        sched.handoff(p);
    }
    m.tracer.m_park(m);
    let asleep = {
        let mut shared = sched.shared.lock();
        shared.add_waiting_locked();
        sched.is_asleep(&shared)
    };
    if asleep {
        deadlock::check(sched);
    }
}

/// The goroutine that was locked to `m` has ended: so does `m`, which hands its P on. The thread of `run` sleeps
/// until the scheduler stops.
pub(crate) fn wait_for_the_end(m: &M) {
    let sched = m.sched;
    if m.id == 0 {
        sleep(m);
        // Nobody gives it a P.
        while m.sleep(|| sched.stopping()).is_some() {}
        return;
    }
    let p = m.release_p();
    sched.handoff(p);
    sched.m_ends();
    deadlock::check_if_asleep(sched);
}
