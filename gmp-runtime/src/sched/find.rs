//! Which goroutine runs next: the short answer and the long one.
//!
//! [`next_here`] is the short answer, asked on the stack of a goroutine that leaves: the head of this
//! P's own queue, when nothing else has to be looked at. [`find`] is the long one, asked on the M's own
//! stack, and has Go's order (`findRunnable`), top to bottom.

use crate::sched::g::transition;
use crate::sched::m::M;
use crate::sched::p::P;
use crate::sched::refs::{GRef, PRef};
use crate::sched::{deadlock, keeper, locked, netpoll, preempt, steal, stw, timers};
use crate::sys::clock::monotonic_ns;
use crate::trace::marks::{Found, Leave, Waker};

/// Every so many turns of a P the global queue comes first (Go's `schedule`: 61).
pub(crate) const GLOBAL_QUEUE_TICK: u32 = 61;

/// The next goroutine of this P, made ready to be switched to; `None` when the scheduler has to think.
/// Records that `leaving` leaves in the way `how`.
#[inline(always)]
pub(crate) fn next_here(m: &M, leaving: GRef, how: Leave) -> Option<GRef> {
    let p = m.held_p();
    if !needs_thought(m, &p)
        && let Some((next, from_runnext)) = p.take_next()
    {
        let found = if from_runnext {
            Found::Runnext
        } else {
            p.fetch_ahead();
            Found::Local
        };
        if next.locked_to().is_none() {
            m.tracer.switch(m, leaving, how, next, found);
            start_here(m, &p, next, from_runnext);
            settle_unless_exit(m, how);
            return Some(next);
        }
        m.chosen.set(Some((next, found)));
    }
    m.tracer.leave(m, leaving, how);
    m.set_current(None);
    settle_unless_exit(m, how);
    None
}

/// Makes `next`, which waits and which the caller has taken out of what it waited for, the one that runs on `m`
/// after `leaving`, as if it were made ready and came first by that. False, and nothing is done, when the scheduler
/// has to think.
#[inline(always)]
pub(crate) fn go_on_with(m: &M, leaving: GRef, how: Leave, next: GRef) -> bool {
    let p = m.held_p();
    if needs_thought(m, &p) || next.locked_to().is_some() {
        return false;
    }
    m.tracer.ready(m, next, Waker::Goroutine);
    next.wait.end();
    transition!(next, Waiting => Runnable);
    m.tracer.settle();
    m.tracer.switch(m, leaving, how, next, Found::Runnext);
    start_here(m, &p, next, true);
    settle_unless_exit(m, how);
    true
}

/// The change that was recorded is made; an exit is complete only when the stack has been left.
#[inline(always)]
fn settle_unless_exit(m: &M, how: Leave) {
    if !matches!(how, Leave::Exit(_)) {
        m.tracer.settle();
    }
}

/// Whether something other than the head of the queue may come first.
#[inline(always)]
fn needs_thought(m: &M, p: &P) -> bool {
    p.wants_attention()
        || p.perturbs(4)
        || m.locked().is_some()
        || p.slice_is_over()
        || (p.tick().is_multiple_of(GLOBAL_QUEUE_TICK)
            && (m.sched.global_len() != 0 || netpoll::has_waiters(m.sched)))
        || p.timers_may_be_due()
}

/// Counts how long `g` was runnable.
#[cold]
fn count_latency(p: &P, g: GRef) {
    let since = g.runnable_since.replace(0);
    p.latencies.record(monotonic_ns().saturating_sub(since));
}

/// Makes `g`, which was taken from a queue, the one that runs on `m` with `p`.
#[inline(always)]
pub(crate) fn start_here(m: &M, p: &P, g: GRef, inherits_slice: bool) {
    if !g.started.get() {
        crate::sched::life::give_stack(p, g);
    }
    if g.runnable_since.get() != 0 {
        count_latency(p, g);
    }
    g.mark.take_request();
    p.count_start(inherits_slice);
    g.set_m(m.reference());
    m.set_current(Some(g));
    transition!(g, Runnable => Running);
    g.claim.yield_to_owner();
}

/// A goroutine to run, and how it was found.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) g: GRef,
    pub(crate) found: Found,
    pub(crate) inherits_slice: bool,
}

impl Choice {
    fn new(g: GRef, found: Found) -> Choice {
        Choice {
            g,
            found,
            inherits_slice: found == Found::Runnext,
        }
    }
}

/// A goroutine to run on `m`, which has a P when this returns; sleeps while there is none. `None` when the
/// scheduler stops: then `m` may have no P.
pub(crate) fn find(m: &M) -> Option<Choice> {
    loop {
        if let Some(g) = m.locked() {
            if !locked::wait_for_turn(m) {
                return None;
            }
            stw::stop_if_wanted(m);
            return Some(Choice::new(g, Found::Locked));
        }
        let choice = match m.chosen.take() {
            Some((g, found)) if !m.sched.stopping() => Choice::new(g, found),
            Some((g, _)) => {
                // As if it had not been taken.
                m.sched.put_global(g);
                return None;
            }
            None => search(m)?,
        };
        if let Some(other) = choice.g.frozen_on() {
            found_work(m);
            if !preempt::hand_p_to_frozen(m, other) {
                return None;
            }
            continue;
        }
        match choice.g.locked_to() {
            None => {
                stw::stop_if_wanted(m);
                return Some(choice);
            }
            Some(other) => locked::give_turn(m, other),
        }
    }
}

/// [`find`] for an M that no goroutine is locked to; what it finds may be locked to another one.
fn search(m: &M) -> Option<Choice> {
    let sched = m.sched;
    loop {
        // 1. The end of the scheduler comes before everything else.
        if sched.stopping() {
            return None;
        }
        let Some(p) = m.p() else {
            // Its goroutine came back from a system call and found no P.
            if !sleep(m) {
                return None;
            }
            continue;
        };
        stw::stop_if_wanted(m);
        if p.wants_attention() && p.take_attention() && sched.stopping() {
            // The end has begun since step 1; whoever gets the P next is to know, too.
            p.demand_attention();
            return None;
        }
        if sched.is_surplus(&p) {
            retire_p(m);
            continue;
        }

        // 2. Timers of this P that are due; of all Ps while one is late with its own.
        let timers_fired = if sched.timers_late() {
            timers::run_due_everywhere(m)
        } else {
            timers::run_due(m, &p)
        } != 0;

        // 3. Those whom no P ran at once when they were woken.
        if sched.urgent_waits()
            && let Some(g) = sched.get_global()
        {
            return Some(Choice::new(g, Found::Global));
        }

        // 4. The network, now and then, although there is other work. Go leaves that to its monitor.
        if p.tick().is_multiple_of(GLOBAL_QUEUE_TICK) {
            netpoll::poll_if_due(m);
        }

        // 5. The global queue, every 61st turn: two goroutines that ready one another for ever would
        // else keep it waiting for ever.
        if (p.tick().is_multiple_of(GLOBAL_QUEUE_TICK) || p.perturbs(4))
            && sched.global_len() != 0
            && p.takes_global(timers_fired)
            && let Some(g) = sched.get_global()
        {
            return Some(Choice::new(g, Found::Global));
        }

        // 6. After a long chain of goroutines that made one another ready, one that is not of it.
        let slice_is_over = p.slice_is_over();
        if slice_is_over {
            if let Some(g) = p.take_oldest() {
                return Some(Choice::new(g, Found::Local));
            }
            if sched.global_len() != 0
                && let Some(g) = sched.get_global()
            {
                return Some(Choice::new(g, Found::Global));
            }
        }

        // 7. This P's own queue.
        if p.perturbs(2)
            && let Some(g) = p.take_oldest()
        {
            if p.perturbs(2) {
                return Some(Choice::new(g, Found::Local));
            }
            sched.put_local(m, &p, g, false);
        }
        if let Some((g, from_runnext)) = p.take_next() {
            let found = if from_runnext {
                Found::Runnext
            } else {
                Found::Local
            };
            return Some(Choice {
                g,
                found,
                inherits_slice: from_runnext && !slice_is_over,
            });
        }

        // 8. The global queue, in a batch.
        if sched.global_len() != 0
            && let Some(g) = sched.get_global_batch(m, &p)
        {
            return Some(Choice::new(g, Found::Global));
        }

        // 9. The network.
        if let Some(g) = netpoll::poll(m) {
            return Some(Choice::new(g, Found::Netpoll));
        }

        // 10. The other Ps, while not too many look there already.
        if m.spinning.get() || sched.idle.begin_spinning(sched.proc_count()) {
            spins_now(m);
            match steal::steal_work(m, &p) {
                steal::Outcome::Stolen(g, found) => return Some(Choice::new(g, found)),
                steal::Outcome::TimersRan => continue,
                steal::Outcome::Nothing if steal::look_on(m, &p) => continue,
                steal::Outcome::Nothing => {}
            }
        }

        // 11. Nothing anywhere: give up the P, look once more, sleep.
        if !go_idle(m) {
            return None;
        }
    }
}

/// There are to be fewer Ps: the one of `m` goes.
#[cold]
#[inline(never)]
fn retire_p(m: &M) {
    let p = m.release_p();
    if m.spinning.replace(false) {
        m.tracer.spin_end(m, false);
        m.sched.idle.recheck_before_sleep(true);
    }
    m.sched.retire(p);
}

/// Gives the P to the idle list and sleeps until there may be work; comes back with a P. False when
/// the scheduler stops.
fn go_idle(m: &M) -> bool {
    let sched = m.sched;
    {
        let mut shared = sched.shared.lock();
        if shared.queued() != 0 || sched.stopping() {
            return !sched.stopping();
        }
        if !m.spinning.get() && sched.idle.take_need_spinning() {
            drop(shared);
            look_on(m);
            return true;
        }
        let p = m.release_p();
        shared.put_idle_p(p);
        sched.idle.p_became_idle();
    }
    let spun = m.spinning.replace(false);
    if spun {
        m.tracer.spin_end(m, false);
    }
    sched.idle.recheck_before_sleep(spun);
    if let Some(p) = look_once_more(m) {
        m.acquire_p(p);
        look_on(m);
        return true;
    }
    if let Some(reason) = keeper::wait(m) {
        m.acquire_p(reason.p);
        look_on(m);
        netpoll::put_after_wait(m, reason.ready);
        let _ = timers::run_due_everywhere(m);
        return true;
    }
    sleep(m)
}

/// The second look of the protocol in [`sched::idle`](crate::sched::idle): a P to go on with if some
/// queue is not empty.
fn look_once_more(m: &M) -> Option<PRef> {
    let sched = m.sched;
    if sched.work_waits() {
        sched.take_idle_p()
    } else {
        None
    }
}

/// Takes a P that waits for an M, or goes to the list of idle Ms and sleeps until it is given one. False when
/// the scheduler stops. `m` has no P.
fn sleep(m: &M) -> bool {
    go_to_sleep(m, || {})
}

/// [`sleep`] for an M that the spawner made ahead.
pub(crate) fn sleep_as_spare(m: &M) -> bool {
    go_to_sleep(m, || m.sched.spawner.spare_is_ready())
}

/// `counted` is called as soon as `m` is on the list, or will not be.
pub(crate) fn go_to_sleep(m: &M, counted: impl FnOnce()) -> bool {
    let sched = m.sched;
    m.tracer.m_park(m);
    let (awaiting, asleep) = {
        let mut shared = sched.shared.lock();
        match sched.take_awaiting_p_locked(&mut shared) {
            Some(p) => (Some(p), false),
            None => {
                shared.put_idle_m(m.reference());
                (None, sched.is_asleep(&shared))
            }
        }
    };
    counted();
    if asleep {
        deadlock::check(sched);
    }
    match awaiting {
        Some(p) => {
            m.spinning.set(p.awaits_spinning.get());
            begin_with(m, p);
            true
        }
        None => take_given_p(m),
    }
}

/// Sleeps until `m` is given a P. False when the scheduler stops.
pub(crate) fn take_given_p(m: &M) -> bool {
    match m.sleep(|| m.sched.stopping()) {
        Some(p) => {
            m.sched.clock.refresh();
            begin_with(m, p);
            true
        }
        None => false,
    }
}

fn begin_with(m: &M, p: PRef) {
    stw::wait_to_take(m);
    m.acquire_p(p);
    if m.spinning.get() {
        m.tracer.spin_begin(m);
    }
}

/// Spins without asking: there is work somewhere.
fn look_on(m: &M) {
    m.sched.idle.resume_spinning();
    spins_now(m);
}

/// Notes that `m` spins, which is counted already.
fn spins_now(m: &M) {
    if !m.spinning.replace(true) {
        m.tracer.spin_begin(m);
    }
}

/// An M that spun has found work: another one may look for more (Go's `resetspinning`).
pub(crate) fn found_work(m: &M) {
    if m.spinning.replace(false) {
        m.tracer.spin_end(m, true);
        if m.sched.idle.end_spinning_with_work() {
            m.sched.wake_p();
        }
    }
}
