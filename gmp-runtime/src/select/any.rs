//! The algorithm of a select, over cases of any kind.

use std::panic::Location;
use std::time::Duration;

use smallvec::SmallVec;

use super::case::Case;
use super::case::private::Waiting;
use crate::lock::Spin;
use crate::sched::critical;
use crate::sched::current::{self, this_goroutine};
use crate::sched::g::{Wait, WaitReason};
use crate::sched::park::{self, Waking};
use crate::sched::refs::GRef;
use crate::sched::ticket::{self, AnyWait, Ticket};
use crate::sched::timers::{Alarm, deadline_after};

/// How many cases need no allocation.
const FEW: usize = 16;

/// How long a select waits.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// Not at all: there is a default.
    Now,
    /// At most so long.
    Timeout(Duration),
    /// For ever.
    Done,
}

/// Does one of the cases; which one. `None` when there was nothing to do until the time was over.
///
/// # Panics
/// If it would have to wait on a thread that runs no goroutine.
#[track_caller]
pub fn run(cases: &mut [&mut dyn Case], until: Until) -> Option<usize> {
    let me = current::goroutine();
    // Filled where they are: they are too large to be moved.
    let mut order = SmallVec::new();
    let mut locks = SmallVec::new();
    order_of_cases(&mut order, cases.len(), me);
    order_of_locks(&mut locks, cases);
    let _section = critical::enter_to_wait_if(me);
    lock_all(&locks);
    for &index in &order {
        // SAFETY: all locks are held.
        if let Some(woken) = unsafe { cases[index].try_now() } {
            let waking = woken.0.map(|g| Waking::new(me, g));
            unlock_all(&locks);
            if let Some(waking) = waking {
                waking.wake();
            }
            return Some(index);
        }
    }
    if let Until::Now = until {
        unlock_all(&locks);
        return None;
    }
    let Some(me) = me else {
        unlock_all(&locks);
        this_goroutine();
        return None;
    };
    wait(cases, &locks, me, until, Location::caller())
}

/// Waits for one of the cases; the locks are held.
fn wait(
    cases: &mut [&mut dyn Case],
    locks: &[*const Spin],
    me: GRef,
    until: Until,
    site: &'static Location<'static>,
) -> Option<usize> {
    let ticket = Ticket::new();
    for (index, case) in cases.iter_mut().enumerate() {
        let waiting = Waiting {
            g: me,
            ticket: &ticket,
            case: index as u32 + 1,
        };
        // SAFETY: all locks are held, and the cases stay where they are until they are forgotten.
        unsafe { case.wait(waiting) };
    }
    let mut alarm = match until {
        Until::Timeout(duration) => Some(Alarm::new(me, deadline_after(duration), Some(&ticket))),
        Until::Now | Until::Done => None,
    };
    let any = AnyWait {
        locks: locks.as_ptr(),
        lock_count: locks.len(),
        alarm: alarm.as_mut().map_or(std::ptr::null_mut(), |alarm| alarm),
    };
    let mut leaving = Leaving(cases);
    let reason = if leaving.0.is_empty() && alarm.is_none() {
        WaitReason::SelectNoCases
    } else {
        WaitReason::Select
    };
    let wait = Wait {
        reason,
        object: 0,
        site,
    };
    park::park_for_any(me, wait, &any);
    let case = ticket.winner();
    leaving.forget_all_but(case);
    // They are forgotten already.
    let cases = std::mem::take(&mut leaving.0);
    if case == ticket::TIMER {
        return None;
    }
    let index = case as usize - 1;
    cases[index].keep();
    Some(index)
}

/// Takes the waiters out of the queues when the wait is over, also when the goroutine is unwound.
struct Leaving<'a, 'b>(&'a mut [&'b mut dyn Case]);

impl Leaving<'_, '_> {
    /// The one with the name `winner` was taken out by whoever woke this goroutine.
    fn forget_all_but(&mut self, winner: u32) {
        for (index, case) in self.0.iter_mut().enumerate() {
            if index as u32 + 1 != winner {
                case.forget();
            }
        }
    }
}

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        self.forget_all_but(0);
    }
}

/// The order in which cases are tried: a random one, each with the same probability (Fisher and Yates).
fn order_of_cases(order: &mut SmallVec<[usize; FEW]>, cases: usize, me: Option<GRef>) {
    order.extend(0..cases);
    // A thread that runs no goroutine only tries; its first case comes first.
    let Some(me) = me else { return };
    let mut random = Random::new(me);
    for last in (1..cases).rev() {
        order.swap(last, random.below(last as u32 + 1) as usize);
    }
}

/// The order in which channels are locked, each once, though it may be in several cases.
fn order_of_locks(locks: &mut SmallVec<[*const Spin; FEW]>, cases: &[&mut dyn Case]) {
    locks.extend(cases.iter().map(|case| case.lock().0.as_ptr().cast_const()));
    locks.sort_unstable();
    locks.dedup();
}

/// Small random numbers, several out of one.
struct Random {
    me: GRef,
    bits: u32,
    /// How many values `bits` may have.
    values: u64,
}

impl Random {
    fn new(me: GRef) -> Random {
        Random {
            me,
            bits: 0,
            values: 0,
        }
    }

    /// A number below `limit`; each with the same probability, up to one part in 2¹⁶.
    fn below(&mut self, limit: u32) -> u32 {
        if self.values >> 16 < u64::from(limit) {
            self.bits = park::random(self.me);
            self.values = 1 << 32;
        }
        // The high half of the product is the number, and the low half what is left of the random bits.
        let product = u64::from(self.bits) * u64::from(limit);
        self.bits = product as u32;
        self.values /= u64::from(limit);
        (product >> 32) as u32
    }
}

fn lock_all(locks: &[*const Spin]) {
    for &lock in locks {
        // SAFETY: the lock is in a channel that its case refers to.
        unsafe { (*lock).lock() };
    }
}

fn unlock_all(locks: &[*const Spin]) {
    for &lock in locks {
        // SAFETY: as above, and it was taken by `lock_all`.
        unsafe { (*lock).unlock() };
    }
}
