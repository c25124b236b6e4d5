//! When a timer fires next, and the lock on which `stop`, `reset` and firing agree.
//!
//! # Protocol
//!
//! A timer is *armed* or not, and has a *turn* that changes whenever it is armed, disarmed or fires. Both are
//! under the schedule's lock. Its alarm goes into a heap with the turn of that moment.
//!
//! * **Stopping** disarms it, and takes the alarm out of its heap, if it is still there.
//! * **Firing** is two steps: an M takes the alarm out of the heap, under the heap's lock, and then takes the
//!   schedule's lock and looks whether the timer is still armed for that turn. If somebody stopped or reset it
//!   in between, the turn is another one, and nothing happens.
//!
//! So exactly one of the two comes first: either the timer was stopped and does not fire for that turn, or it
//! has fired. What it does when it fires it does under the same lock, so that whoever stops it later sees the
//! whole of it.
//!
//! An M between the two steps still has the address of the timer. Dropping a schedule waits for it: a few
//! dozen instructions, in which an M is never stopped.

use std::cell::Cell;
use std::ptr::NonNull;
use std::time::Duration;

use crate::lock::{Rank, Spin};
use crate::sched::critical::{self, Section};
use crate::sched::current::{self, this_goroutine};
use crate::sched::refs::PRef;
use crate::sched::timers::{self, Action, Alarm};

/// The first field of a timer.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Schedule {
    alarm: Alarm,
    /// Taken before the lock of a channel that the timer sends to.
    lock: Spin,
    /// Under the lock.
    armed: Cell<bool>,
    /// Under the lock.
    turn: Cell<u64>,
}

// SAFETY: cells are under the lock.
unsafe impl Send for Schedule {}
// SAFETY: as above.
unsafe impl Sync for Schedule {}

impl Schedule {
    /// A timer of the scheduler of the calling goroutine, not armed.
    ///
    /// # Panics
    /// On a thread that runs no goroutine.
    #[track_caller]
    pub(super) fn new(action: &'static Action) -> Schedule {
        Schedule {
            alarm: Alarm::for_timer(this_goroutine().sched, action),
            lock: Spin::new(Rank::Channel),
            armed: Cell::new(false),
            turn: Cell::new(0),
        }
    }

    /// Waits for the lock and takes it.
    pub(super) fn lock(&self) -> Locked<'_> {
        let section = critical::enter_if(current::goroutine());
        self.lock.lock();
        Locked(self, section)
    }

    /// The last thing that firing does with the timer.
    pub(super) fn fired(&self) {
        self.alarm.fired();
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.lock().disarm();
        self.alarm.wait_until_fired();
    }
}

/// A schedule whose lock is held.
#[derive(Debug)]
pub(super) struct Locked<'a>(
    &'a Schedule,
    #[expect(dead_code, reason = "ends after the lock is released")] Option<Section<false>>,
);

impl Locked<'_> {
    /// Sees to it that it does not fire for any turn so far; whether it would have.
    pub(super) fn disarm(&self) -> bool {
        if !self.0.armed.replace(false) {
            return false;
        }
        self.next_turn();
        // If it is not there, an M has taken it out, and will find that its turn is over.
        self.0.alarm.take_out();
        true
    }

    /// Whether it fires now: it is armed for `turn`. It is disarmed then.
    pub(super) fn comes_due(&self, turn: u64) -> bool {
        if !self.0.armed.get() || self.0.turn.get() != turn {
            return false;
        }
        self.0.armed.set(false);
        self.next_turn();
        true
    }

    /// Makes it fire after `duration`, from the P of the calling goroutine. False, and it stays disarmed, when
    /// its scheduler ends.
    ///
    /// # Safety
    /// It is disarmed. `timer` is where the whole timer is, of which this schedule is the first field; it
    /// stays there until it is dropped.
    pub(super) unsafe fn arm<T>(&self, timer: NonNull<T>, duration: Duration) -> bool {
        let p = self.0.alarm.p_for(current::goroutine());
        // SAFETY: the caller's contract.
        unsafe { self.arm_at(timer, p, timers::deadline_after(duration)) }
    }

    /// Makes it fire at `deadline`, from `p`. Returns as [`Locked::arm`].
    ///
    /// # Safety
    /// As [`Locked::arm`].
    pub(super) unsafe fn arm_at<T>(&self, timer: NonNull<T>, p: PRef, deadline: u64) -> bool {
        self.next_turn();
        // SAFETY: the caller's contract; it is disarmed, so its alarm is in no heap.
        let armed = unsafe { Alarm::arm(timer.cast(), p, deadline, self.0.turn.get()) };
        self.0.armed.set(armed);
        armed
    }

    fn next_turn(&self) {
        self.0.turn.set(self.0.turn.get().wrapping_add(1));
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: it was taken when this was made, on this thread: nothing parks meanwhile.
        unsafe { self.0.lock.unlock() };
    }
}
