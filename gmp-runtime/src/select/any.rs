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
    let orders = Orders::new(cases, me);
    let _section = critical::enter_to_wait_if(me);
    lock_all(&orders.locks);
    for &index in &orders.polls {
        // SAFETY: all locks are held.
        if let Some(woken) = unsafe { cases[index].try_now() } {
            let waking = woken.0.map(|g| Waking::new(me, g));
            unlock_all(&orders.locks);
            if let Some(waking) = waking {
                waking.wake();
            }
            return Some(index);
        }
    }
    if let Until::Now = until {
        unlock_all(&orders.locks);
        return None;
    }
    let Some(me) = me else {
        unlock_all(&orders.locks);
        this_goroutine();
        return None;
    };
    wait(cases, &orders.locks, me, until, Location::caller())
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
    let mut leaving = Leaving {
        cases,
        locks,
        finished: false,
    };
    let reason = if leaving.cases.is_empty() && alarm.is_none() {
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
    leaving.finish();
    match ticket.winner() {
        ticket::TIMER => None,
        case => {
            let index = case as usize - 1;
            leaving.cases[index].keep();
            Some(index)
        }
    }
}

/// Takes the waiters out of the queues when the wait is over, also when the goroutine is unwound.
struct Leaving<'a, 'b> {
    cases: &'a mut [&'b mut dyn Case],
    locks: &'a [*const Spin],
    finished: bool,
}

impl Leaving<'_, '_> {
    fn finish(&mut self) {
        self.finished = true;
        lock_all(self.locks);
        for case in self.cases.iter_mut() {
            // SAFETY: all locks are held.
            unsafe { case.forget() };
        }
        unlock_all(self.locks);
    }
}

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        if !self.finished {
            self.finish();
        }
    }
}

/// The orders of a select: in which cases are tried, and in which channels are locked.
struct Orders {
    polls: SmallVec<[usize; FEW]>,
    locks: SmallVec<[*const Spin; FEW]>,
}

impl Orders {
    fn new(cases: &[&mut dyn Case], me: Option<GRef>) -> Orders {
        let mut polls: SmallVec<[usize; FEW]> = (0..cases.len()).collect();
        shuffle(&mut polls, me);
        let mut locks: SmallVec<[*const Spin; FEW]> = cases
            .iter()
            .map(|case| case.lock().0.as_ptr().cast_const())
            .collect();
        locks.sort_unstable();
        // A channel may be in several cases.
        locks.dedup();
        Orders { polls, locks }
    }
}

/// A random order, every one with the same probability (Fisher and Yates).
fn shuffle(polls: &mut [usize], me: Option<GRef>) {
    for last in (1..polls.len()).rev() {
        polls.swap(last, random_below(me, last as u32 + 1) as usize);
    }
}

/// A random number below `limit`.
fn random_below(me: Option<GRef>, limit: u32) -> u32 {
    let random = match me {
        Some(me) => park::random(me),
        // A thread that runs no goroutine only tries; its first case comes first.
        None => u32::MAX,
    };
    // The high half of the product is uniform up to one part in 2³²/limit.
    ((u64::from(random) * u64::from(limit)) >> 32) as u32
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
