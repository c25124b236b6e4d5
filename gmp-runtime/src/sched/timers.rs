//! Sleeping goroutines: the timers of each P, who fires them, who sleeps for them.
//!
//! A sleeper's timer is a node on its own stack, linked into the heap of the P that it slept on. It is
//! fired by the M that holds that P, at a switch; by a thief in its last round; or, while some M has
//! nothing to do, by the *timekeeper*: one idle M that sleeps until the earliest deadline of all Ps.

use std::cell::Cell;
use std::panic::Location;
use std::ptr::NonNull;

use crate::fatal::fatal;
use crate::prim::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sched::Sched;
use crate::sched::current;
use crate::sched::g::{G, Wait, WaitReason};
use crate::sched::m::{M, PostSwitch};
use crate::sched::p::{NO_DEADLINE, P};
use crate::sched::park;
use crate::sched::refs::{GRef, PRef};
use crate::sched::ticket::{self, Ticket};
use crate::sys::clock::monotonic_ns;
use crate::sys::futex;
use crate::time::heap::TimerNode;
use crate::trace::marks::Waker;

/// What wakes a goroutine at a deadline. It lives on the goroutine's stack and does not move while it is
/// in a heap.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Alarm {
    /// First, so that the address of one is the address of the other.
    node: TimerNode,
    /// In whose heap it is, or was.
    p: Cell<Option<PRef>>,
    /// Where the goroutine waits for other things too: it is woken if this is the first one.
    ticket: Option<NonNull<Ticket>>,
}

impl Alarm {
    /// What wakes `g` at `deadline`, nanoseconds of the monotonic clock; where `g` waits for other things
    /// too, by the name [`ticket::TIMER`].
    pub(crate) fn new(g: GRef, deadline: u64, ticket: Option<&Ticket>) -> Alarm {
        Alarm {
            node: TimerNode::new(deadline, g.as_ptr() as u64),
            p: Cell::new(None),
            ticket: ticket.map(NonNull::from),
        }
    }

    /// Whether the goroutine is to be woken. Under the lock of the heap that it was in.
    fn claim(&self) -> bool {
        // SAFETY: the ticket is on the stack of a goroutine that takes this alarm out of its heap, under
        // the lock that is held here, before the ticket goes.
        self.ticket
            .is_none_or(|ticket| unsafe { ticket.as_ref() }.claim(ticket::TIMER))
    }

    fn goroutine(&self) -> GRef {
        match GRef::from_ptr(self.node.payload() as usize as *mut G) {
            Some(g) => g,
            None => fatal!("a timer without a goroutine"),
        }
    }
}

impl Drop for Alarm {
    /// A sleeper that is cancelled unwinds while its timer is still in a heap.
    fn drop(&mut self) {
        if let Some(p) = self.p.get() {
            let mut heap = p.timers.lock();
            if self.node.is_queued() {
                // SAFETY: it is in the heap of the P that it was put on.
                unsafe { heap.remove(NonNull::from(&self.node)) };
                p.publish_next_timer(&heap);
            }
        }
    }
}

/// Puts `g` to sleep until `deadline`, nanoseconds of the monotonic clock.
pub(crate) fn sleep_until(g: GRef, deadline: u64, site: &'static Location<'static>) {
    let mut timer = Alarm::new(g, deadline, None);
    let wait = Wait {
        reason: WaitReason::Sleep,
        object: 0,
        site,
    };
    park::park(g, current::m_of(g), wait, PostSwitch::Sleep(&raw mut timer));
}

/// Puts the alarm of a goroutine that waits, and has been left, on the heap of this P.
pub(crate) fn start(m: &M, timer: *mut Alarm) {
    let p = m.held_p();
    let deadline;
    {
        let mut heap = p.timers.lock();
        // SAFETY: the timer is on the stack of a goroutine that waits until it is fired; it is in no
        // heap yet.
        unsafe {
            deadline = (*timer).node.deadline_ns();
            (*timer).p.set(Some(p));
            heap.insert(NonNull::new_unchecked(&raw mut (*timer).node));
        }
        p.publish_next_timer(&heap);
    }
    m.sched.timekeeper.deadline_added(m.sched, deadline);
}

/// Fires the timers of `p` that are due; how many. The goroutines become runnable on `m`'s P.
pub(crate) fn run_due(m: &M, p: &P) -> u32 {
    let next = p.next_timer();
    if next == NO_DEADLINE {
        return 0;
    }
    let now = monotonic_ns();
    if next > now {
        return 0;
    }
    let mut fired = 0;
    loop {
        let (g, deadline, is_first) = {
            let mut heap = p.timers.lock();
            let Some(node) = heap.pop_due(now) else {
                p.publish_next_timer(&heap);
                return fired;
            };
            // SAFETY: every node in the heap is the first field of an `Alarm`, which its goroutine drops
            // under the lock that is held here.
            let alarm = unsafe { node.cast::<Alarm>().as_ref() };
            (alarm.goroutine(), alarm.node.deadline_ns(), alarm.claim())
        };
        if !is_first {
            continue;
        }
        m.tracer.timer_fired(m, g, now - deadline);
        park::ready(m, g, Waker::Timer);
        fired += 1;
    }
}

/// Fires what is due on every P.
pub(crate) fn run_due_everywhere(m: &M) {
    for p in m.sched.procs() {
        run_due(m, p);
    }
}

/// The one idle M that sleeps until the next deadline.
#[derive(Debug)]
pub(crate) struct Timekeeper {
    /// Until when it sleeps; [`NO_DEADLINE`] while there is none.
    until: AtomicU64,
    /// Whether an M has the office.
    held: AtomicU32,
    /// Counts reasons to look again; the word it sleeps on.
    word: AtomicU32,
}

impl Timekeeper {
    pub(crate) fn new() -> Timekeeper {
        Timekeeper {
            until: AtomicU64::new(NO_DEADLINE),
            held: AtomicU32::new(0),
            word: AtomicU32::new(0),
        }
    }

    /// Wakes the timekeeper.
    pub(crate) fn wake(&self) {
        // ordering: Release; pairs with the Acquire load in `keep_time`.
        self.word.fetch_add(1, Ordering::Release);
        futex::wake(&self.word, 1);
    }

    /// Sleeps until the earliest deadline, and takes an idle P then.
    fn keep_time(&self, sched: &Sched) -> Option<PRef> {
        loop {
            // ordering: Acquire; pairs with the Release in `wake`.
            let seen = self.word.load(Ordering::Acquire);
            let announced = earliest(sched);
            // ordering: Relaxed: before the fence.
            self.until.store(announced, Ordering::Relaxed);
            // ordering: SeqCst; pairs with the fence in `deadline_added`.
            fence(Ordering::SeqCst);
            let deadline = earliest(sched);
            if deadline == NO_DEADLINE || sched.stopping() {
                return None;
            }
            if sched.spawner.is_short() && sched.work_waits() {
                // No thread can be made for that work, and this one sleeps.
                return sched.take_idle_p();
            }
            let now = monotonic_ns();
            if deadline <= now {
                // No P idle: all of them run, and look at the timers themselves.
                return sched.take_idle_p();
            }
            if deadline >= announced {
                futex::wait(&self.word, seen, Some(deadline - now));
            }
        }
    }

    /// A deadline was published while others may sleep: somebody awake must know of it (Go's
    /// `wakeNetPoller`).
    pub(crate) fn deadline_added(&self, sched: &Sched, deadline: u64) {
        // ordering: SeqCst; pairs with the fence in `keep_time`: either the timekeeper sees the
        // deadline that was published before, or its own is seen here; and with SleepFence: either an M
        // that releases its P sees the deadline, or its P is seen here.
        fence(Ordering::SeqCst);
        if sched.idle.idle_ps() == 0 {
            // Every P runs goroutines, and looks at its own timers.
            return;
        }
        // ordering: Relaxed: after the fence.
        if self.held.load(Ordering::Relaxed) == 0 {
            sched.wake_p_if_needed();
        // ordering: Relaxed: after the fence.
        } else if deadline < self.until.load(Ordering::Relaxed) {
            self.wake();
        }
    }
}

/// If no other M does so, sleeps until the earliest deadline of all Ps, and then takes an idle P.
/// `None` when there is no deadline, another M keeps the time, or no P is idle any more.
pub(crate) fn wait_for_next(m: &M) -> Option<PRef> {
    let sched = m.sched;
    let keeper = &sched.timekeeper;
    loop {
        // ordering: AcqRel; pairs with the swap below: one M at a time, and whoever came in vain has
        // published its idle P and its deadlines for the one that leaves.
        if keeper.held.swap(1, Ordering::AcqRel) != 0 {
            return None;
        }
        let taken = keeper.keep_time(sched);
        // ordering: Relaxed: before the swap.
        keeper.until.store(NO_DEADLINE, Ordering::Relaxed);
        // ordering: AcqRel; pairs with the swap above.
        keeper.held.swap(0, Ordering::AcqRel);
        // An M that gets a P spins, and so sees to it that another M comes here after it. One that
        // gets none must not leave while somebody needs a timekeeper that found the office taken.
        if taken.is_some()
            || sched.stopping()
            || earliest(sched) == NO_DEADLINE
            || sched.idle.idle_ps() == 0
        {
            return taken;
        }
    }
}

/// The earliest deadline of all Ps.
pub(crate) fn earliest(sched: &Sched) -> u64 {
    sched
        .procs()
        .map(|p| p.next_timer())
        .min()
        .unwrap_or(NO_DEADLINE)
}
