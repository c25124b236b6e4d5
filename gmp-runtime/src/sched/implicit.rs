//! System calls that nobody announced: a goroutine blocks its thread, and the P goes on without them.
//!
//! The program's code may call anything: std's `sleep`, a read of a pipe, a contended lock of std. Then its thread
//! waits in the kernel, and its P would wait with it.
//!
//! # Protocol
//!
//! 1. The monitor sees a P in the turn in which it was half a millisecond ago, and that somebody could use it
//!    (`sched::preempt`). Its thread has used almost no processor time since then, *and* the kernel says that it
//!    waits ([`Suspect`]): by the clock alone, a thread that another process keeps from running looks the same.
//! 2. [`take`], under the scheduler's lock, while the goroutine is outside the runtime: the goroutine's mark says
//!    *taken* · membarrier · is the goroutine still outside? Then the P is the monitor's, which hands it on. Else
//!    the mark goes back.
//! 3. The goroutine enters the runtime: `inside` + 1 · EnterFence · reads *taken*. If that is set, [`come_back`]
//!    waits for the lock. Then either the mark is gone, and nothing has happened, or the P is: the goroutine takes
//!    an idle one, or is frozen until it is given one.
//! 4. A goroutine whose call is over may go on in the program's code for long, and so more goroutines run than there
//!    are Ps. The monitor sees by the clock of its thread that it does, and sends a signal; the handler is a way to
//!    enter the runtime, too ([`stop`]).
//!
//! # Why a P has one owner
//!
//! Of the membarrier and EnterFence one comes first. If EnterFence is first, the monitor sees the goroutine inside,
//! and takes nothing. If the membarrier is first, the goroutine sees the mark, and touches nothing of its P before
//! it has had the lock. What it did to the P before is in its last release of `inside`, which the monitor acquires.
//! The model in this file's tests searches for a counterexample.
//!
//! Without a membarrier every call into the runtime would need a full fence; there the P stays until the signal of
//! `sched::preempt` ends its turn.

use crate::fatal::fatal;
use crate::lock::SpinGuard;
use crate::prim::atomic::Ordering;
use crate::sched::g::transition;
use crate::sched::m::M;
use crate::sched::p::P;
use crate::sched::preempt;
use crate::sched::refs::{GRef, PRef};
use crate::sched::{Sched, Shared, current, stw};
use crate::sys::clock::thread_cpu_ns_of;
use crate::sys::memory_barrier;
use crate::sys::thread::TaskState;
use crate::trace::marks::Preemption;

/// How long a thread is watched at least, before it may count as one that waits.
const SHORTEST_NS: u64 = 500_000;

/// A thread that waits uses less than this part of the time.
const WAITS_BELOW: u64 = 50;

/// One that goes on without a P is seen when it uses more than this part.
const RUNS_ABOVE: u64 = 4;

/// So many threads without a P are looked at in one round.
const LOOKED_AT: usize = 64;

/// What the monitor remembers of a P whose thread may wait in the kernel.
#[derive(Debug, Default)]
pub(crate) struct Suspect {
    thread: i32,
    turn: u32,
    /// The processor time that the thread had used, and when that was.
    used: u64,
    at: u64,
    /// Where the kernel says what the thread does.
    state: Option<TaskState>,
}

impl Suspect {
    /// Whether `m`, which has been in this `turn` of its P, waits in the kernel, at `now`.
    pub(crate) fn waits(&mut self, m: &M, turn: u32, now: u64) -> bool {
        // ordering: Relaxed: written before the M had a P.
        let thread = m.thread.load(Ordering::Relaxed);
        let is_same = (self.thread, self.turn) == (thread, turn);
        let passed = now - self.at;
        if thread == 0 || is_same && passed < SHORTEST_NS {
            return false;
        }
        let Some(used) = thread_cpu_ns_of(thread) else {
            return false;
        };
        let since = used.saturating_sub(self.used);
        (self.turn, self.used, self.at) = (turn, used, now);
        if self.thread != thread {
            (self.thread, self.state) = (thread, None);
        }
        is_same && since < passed / WAITS_BELOW && self.is_waiting()
    }

    fn is_waiting(&mut self) -> bool {
        if self.state.is_none() {
            self.state = TaskState::of(self.thread);
        }
        self.state.as_ref().is_some_and(TaskState::is_waiting)
    }
}

/// Takes `p` from the goroutine that waits in the kernel with it, if it still does, and hands it on.
#[cold]
pub(crate) fn take(sched: &Sched, p: PRef) -> bool {
    let shared = sched.shared.lock();
    let Some((m, g)) = p.m().and_then(|m| Some((m, m.current()?))) else {
        return false;
    };
    let is_outside =
        || !g.mark.is_inside() && g.m() == Some(m) && m.current() == Some(g) && m.p() == Some(p);
    if sched.stopping() || sched.world.is_to_stop() || !is_outside() {
        return false;
    }
    g.mark.set_taken(true);
    // fence: pairs with EnterFence in `Mark::enter`.
    if memory_barrier::barrier().is_err() || !is_outside() {
        g.mark.set_taken(false);
        return false;
    }
    crate::trace::implicit_call(sched, p, m, g, || {
        transition!(g, Running => Syscall);
        m.lose_p();
        p.set_m(None);
    });
    m.seen_running.set((0, 0));
    sched.add_without_p(1);
    drop(shared);
    sched.handoff(p);
    true
}

/// `g`, which runs here and has entered the runtime, may have lost its P; returns when it has one.
#[cold]
#[inline(never)]
pub(crate) fn come_back(g: GRef) {
    let m = &*current::m_of(g);
    let sched = m.sched;
    if sched.is_forked() {
        fatal!(
            "goroutine {} uses the runtime in a child that `fork` made, where no other thread of it is left: until the \
             child calls `exec` or `_exit` it may run code of the program alone",
            g.id.get()
        );
    }
    let mut shared = sched.shared.lock();
    if !g.mark.is_taken() {
        // The monitor has looked again.
        return;
    }
    g.mark.set_taken(false);
    sched.add_without_p(-1);
    if let Some(p) = sched.take_idle_p_locked(&mut shared) {
        drop(shared);
        m.acquire_p(p);
        stw::stop_if_wanted(m);
        m.tracer.syscall_exit(m);
        p.count_start(false);
        transition!(g, Syscall => Running);
        m.tracer.settle();
        return;
    }
    wait_for_p(m, g, shared);
}

/// `g`, which is here without a P outside the runtime, is stopped by a signal until it has one; or, where the world is
/// to stop, until that goes on, and then goes on without.
pub(crate) fn stop(m: &M, g: GRef) {
    let sched = m.sched;
    if sched.world.is_to_stop() {
        // Perhaps it has only waited in the kernel, and will again.
        return stw::stop_here(m, Preemption::Signal);
    }
    let shared = sched.shared.lock();
    // At the end nobody is frozen any more: the Ms that would give it a P may be gone.
    if !g.mark.is_taken() || sched.stopping() {
        return;
    }
    g.mark.set_taken(false);
    sched.add_without_p(-1);
    m.tracer.run_without_p(m);
    wait_for_p(m, g, shared);
}

/// Freezes `g`, which is back from its call on `m`, until there is a P.
fn wait_for_p(m: &M, g: GRef, shared: SpinGuard<'_, Shared>) {
    m.tracer.syscall_exit_blocked(m);
    m.set_current(None);
    transition!(g, Syscall => Preempted);
    m.tracer.settle();
    preempt::freeze_without_p(m, g, shared);
}

/// In a child that `fork` made on the thread of `m`: [`come_back`] ends the process when its goroutine enters the
/// runtime, whose queues have copies of goroutines that run in the parent, and whose locks may be those of threads that
/// are not here.
pub(crate) fn after_fork(m: &M) {
    if let Some(g) = m.current() {
        g.mark.set_taken(true);
    }
}

/// Sends a signal to threads that go on without a P. `next`: the number of the M to look at first, here and the
/// next time.
pub(crate) fn stop_those_that_run(sched: &Sched, next: &mut usize, now: u64) {
    if sched.without_p() == 0 {
        return;
    }
    for _ in 0..LOOKED_AT {
        let Some(m) = sched.m_at(*next) else {
            *next = 0;
            return;
        };
        *next += 1;
        // ordering: Relaxed: written before the M had a P.
        let thread = m.thread.load(Ordering::Relaxed);
        if !lacks_p(&m) {
            continue;
        }
        let (seen, at) = m.seen_running.get();
        if now < at + SHORTEST_NS {
            continue;
        }
        let Some(used) = thread_cpu_ns_of(thread) else {
            continue;
        };
        m.seen_running.set((used, now));
        if at != 0 && used.saturating_sub(seen) > (now - at) / RUNS_ABOVE {
            // Under the lock, without which it does not come back: so the thread is there.
            let shared = sched.shared.lock();
            if lacks_p(&m) {
                preempt::send(&m);
            }
            drop(shared);
        }
    }
}

/// Whether a goroutine that has lost its P is on `m`: a hint, except under the scheduler's lock.
pub(crate) fn lacks_p(m: &M) -> bool {
    m.current()
        .is_some_and(|g| g.mark.is_taken() && g.m() == Some(m.reference()))
}

/// Whether `p` is one that a call may have, that nobody announced.
pub(crate) fn is_possible(sched: &Sched, p: &P) -> bool {
    sched.finds_calls && p.in_call_of().is_none()
}

#[cfg(all(test, loom))]
#[path = "implicit_tests.rs"]
mod tests;
