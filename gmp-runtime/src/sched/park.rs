//! Leaving a goroutine and coming back: yield, park, ready.
//!
//! A goroutine that leaves switches straight to the next one of its P where there is one, and to the
//! scheduler's own stack where the choice needs thought (`sched::find`). Either way the stack that is
//! switched to completes the leave first: the *post-switch action* puts the goroutine on a queue,
//! unlocks what it waits for, frees it. Before that nobody else can see it, because it still runs.

use crate::lock::Spin;
use crate::prim::atomic::{AtomicU32, Ordering};
use crate::sched::Visit;
use crate::sched::critical;
use crate::sched::current;
use crate::sched::find;
use crate::sched::g::{AtEnd, Wait, transition};
use crate::sched::life;
use crate::sched::locked;
use crate::sched::m::{M, PostSwitch};
use crate::sched::refs::{GRef, MRef};
use crate::sched::ticket::AnyWait;
use crate::sched::timers;
use crate::switch;
use crate::sys::unwind;
use crate::trace::marks::{ExitHow, Leave, Waker};

/// The state of a permit for `park`: nobody waits, nothing was given.
const PERMIT_EMPTY: u32 = 0;
/// Given; the next `park` returns at once.
const PERMIT_GIVEN: u32 = 1;
/// The goroutine waits for it.
const PERMIT_AWAITED: u32 = 2;

/// The payload of the unwinding that ends a goroutine at shutdown.
#[derive(Debug)]
pub(crate) struct Cancelled;

/// Gives the P to another goroutine and stays runnable.
#[inline(always)]
pub(crate) fn yield_now(g: GRef) {
    let _section = critical::enter_to_wait(g);
    yield_inside(g, AtEnd::here());
}

/// At the end of a call that may block `g`: perhaps `g` yields, unless it may be who has stopped the world.
pub(crate) fn perturb(g: GRef) {
    let may_yield = !std::thread::panicking() && !g.sched.world.is_to_stop();
    if may_yield && current::m_of(g).held_p().perturbs(8) {
        yield_inside(g, AtEnd::GoesOn);
    }
}

#[inline(always)]
fn yield_inside(g: GRef, at_end: AtEnd) {
    let m = current::m_of(g);
    let p = m.held_p();
    if m.sched.can_drain_global() {
        // Nobody on the global queue starves while goroutines here yield to one another.
        m.sched.drain_global(&m, &p);
    }
    let pin = Pin::while_unwinding(g, at_end);
    transition!(g, Running => Runnable);
    leave(g, m, PostSwitch::Requeue(g), Leave::Yield);
    drop(pin);
}

/// Waits: `post` makes it possible to be woken, after the switch.
#[inline(always)]
pub(crate) fn park(g: GRef, m: MRef, wait: Wait, post: PostSwitch) {
    g.wait.begin(wait, g.sched.clock.now());
    let pin = Pin::while_unwinding(g, AtEnd::here());
    transition!(g, Running => Waiting);
    leave(g, m, post, Leave::Park);
    drop(pin);
}

/// A goroutine that unwinds stays on its M, and the M runs no other one: std counts panics by thread.
#[derive(Debug)]
pub(crate) struct Pin(GRef);

impl Pin {
    /// Pins `g`, which runs here and is about to leave its M, if it unwinds; and says what becomes of it
    /// `at_end`. At the end of the scheduler there is only one M left.
    #[inline(always)]
    pub(crate) fn while_unwinding(g: GRef, at_end: AtEnd) -> Option<Pin> {
        g.at_end.set(at_end);
        if at_end == AtEnd::Stays {
            Pin::new(g)
        } else {
            None
        }
    }

    #[cold]
    fn new(g: GRef) -> Option<Pin> {
        if g.sched.stopping() {
            return None;
        }
        locked::lock(g);
        Some(Pin(g))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        locked::unlock(self.0);
    }
}

/// Waits; `lock`, which the caller holds, is released once it can be woken.
#[inline(always)]
pub(crate) fn park_and_unlock(g: GRef, wait: Wait, lock: &Spin) {
    park(g, current::m_of(g), wait, PostSwitch::Unlock(lock));
}

/// Waits for several things, as `any` says.
pub(crate) fn park_for_any(g: GRef, wait: Wait, any: &AnyWait) {
    park(g, current::m_of(g), wait, PostSwitch::WaitForAny(any));
}

/// Starts the alarm and releases the locks of a goroutine that waits for several things.
fn begin_any_wait(m: &M, any: *const AnyWait) {
    // SAFETY: the goroutine waits; whatever wakes it, it takes every lock in the list before it goes on,
    // so all of this stays until the last lock is released, and nothing is read after that.
    unsafe {
        let (locks, count, alarm) = ((*any).locks, (*any).lock_count, (*any).alarm);
        if !alarm.is_null() {
            timers::start(m, alarm);
        }
        for i in 0..count {
            (**locks.add(i)).unlock();
        }
    }
}

/// A random number, for the goroutine `me`.
pub(crate) fn random(me: GRef) -> u32 {
    let _section = critical::enter(me);
    current::m_of(me).held_p().random()
}

/// Whether what `me` waits for may come about while it spins: another P runs goroutines, and no goroutine
/// waits for this one.
pub(crate) fn can_spin(me: GRef) -> bool {
    let m = current::m_of(me);
    let idle = &m.sched.idle;
    let others = m.sched.proc_count().saturating_sub(1);
    others > idle.idle_ps() + idle.spinning_ms() && m.held_p().runq.is_empty()
}

/// A goroutine that the caller has taken out of what it waited for, and is about to make runnable.
///
/// Made under the lock of what it waited for, and woken when that lock is free. In between the scheduler
/// of `g` may end: it ends `g` only after it took that lock, and then waits for the visit.
#[derive(Debug)]
pub(crate) struct Waking {
    g: GRef,
    by: WakenBy,
}

#[derive(Debug)]
enum WakenBy {
    /// A goroutine of the same scheduler.
    Goroutine(GRef),
    /// A timer that fires on this M, of the same scheduler.
    Timer(MRef),
    /// Somebody else.
    Visitor(Visit),
}

impl Waking {
    /// `me` is the goroutine of the caller, if it runs on one.
    #[inline(always)]
    pub(crate) fn new(me: Option<GRef>, g: GRef) -> Waking {
        let by = match me {
            Some(me) if std::ptr::eq(me.sched, g.sched) => WakenBy::Goroutine(me),
            _ => WakenBy::Visitor(Visit::new(g.sched)),
        };
        Waking { g, by }
    }

    /// For a timer that fires on `m`.
    pub(crate) fn by_timer(m: &M, g: GRef) -> Waking {
        let by = if std::ptr::eq(m.sched, g.sched) {
            WakenBy::Timer(m.reference())
        } else {
            WakenBy::Visitor(Visit::new(g.sched))
        };
        Waking { g, by }
    }

    /// Who is woken.
    pub(crate) fn goroutine(&self) -> GRef {
        self.g
    }

    /// Makes it runnable.
    #[inline(always)]
    pub(crate) fn wake(self) {
        match self.by {
            WakenBy::Timer(m) => ready(&m, self.g, Waker::Timer),
            WakenBy::Goroutine(me) => ready(&current::m_of(me), self.g, Waker::Goroutine),
            WakenBy::Visitor(visit) => ready_from_outside(visit, self.g),
        }
    }
}

/// Leaves for the next goroutine, or for the scheduler; returns when `g` runs again.
#[inline(always)]
pub(crate) fn leave(g: GRef, m: MRef, post: PostSwitch, how: Leave) {
    m.post.set(post);
    match find::next_here(&m, g, how) {
        // SAFETY: `g` runs on its own stack; `next` was taken from a queue, so it is suspended and
        // this M's alone.
        Some(next) => unsafe { switch::switch(&g.context, &next.context) },
        // SAFETY: `g` runs on its own stack; the M's stack waits in `worker::execute`.
        None => unsafe { switch::back(&g.context, &m.context) },
    }
    complete_switch(current::m_of(g));
}

/// Ends the goroutine `g`: it never runs again. Whoever waits for that goes on at once.
pub(crate) fn exit(g: GRef, how: ExitHow) -> ! {
    let m = current::m_of(g);
    m.post.set(PostSwitch::Free(g));
    let how = Leave::Exit(how);
    let joiner = life::take_unwoken_joiner(g);
    if let Some(joiner) = joiner {
        if find::go_on_with(&m, g, how, joiner) {
            // SAFETY: as in `leave`: `joiner` waits, for `g` alone. The stack is given back by the post-switch
            // action, after this.
            unsafe { switch::leave(&g.context, &joiner.context) }
        }
        life::wake_unwoken(&m, g, joiner);
    }
    match find::next_here(&m, g, how) {
        // SAFETY: as in `leave`, and above.
        Some(next) => unsafe { switch::leave(&g.context, &next.context) },
        // SAFETY: as above.
        None => unsafe { switch::leave_to_scheduler(&g.context, &m.context) },
    }
}

/// Does the post-switch action: the first thing after any switch.
#[inline(always)]
pub(crate) fn complete_switch(m: MRef) {
    // Looked at in place: a copy would read the words together that were just written one by one, which
    // the processor cannot forward.
    // SAFETY: the action is this M's, and nobody writes it before the match has read it.
    match unsafe { &*m.post.as_ptr() } {
        PostSwitch::Nothing => {}
        PostSwitch::Requeue(g) => requeue(&m, *g),
        // SAFETY: the goroutine that was left took the lock on this thread and handed it over.
        PostSwitch::Unlock(lock) => unsafe { (**lock).unlock() },
        PostSwitch::Free(g) => life::free_after_exit(&m, *g),
        PostSwitch::AwaitEnd(waiting, awaited) => life::await_end(&m, *waiting, *awaited),
        rare => complete_rare(&m, *rare),
    }
}

#[inline(never)]
fn complete_rare(m: &M, post: PostSwitch) {
    match post {
        PostSwitch::Sleep(alarm) => timers::start(m, alarm),
        PostSwitch::WaitForAny(any) => begin_any_wait(m, any),
        PostSwitch::AwaitPermit(g) => {
            if await_permit(&g.permit) {
                ready(m, g, Waker::Goroutine);
            }
        }
        PostSwitch::WithoutP(g) => crate::sched::syscall::wait_for_p(m.sched, g),
        PostSwitch::Preempted(g) => {
            m.sched.put_global(g);
            m.sched.wake_p_if_needed();
        }
        PostSwitch::Cancel => cancel(m),
        PostSwitch::Nothing
        | PostSwitch::Requeue(_)
        | PostSwitch::Unlock(_)
        | PostSwitch::Free(_)
        | PostSwitch::AwaitEnd(..) => {}
    }
}

/// Unwinds the goroutine that runs here, if that is possible; else it leaves for good.
#[cold]
#[inline(never)]
fn cancel(m: &M) {
    m.post.set(PostSwitch::Nothing);
    if unwind::can_unwind_to(life::first_function()) {
        std::panic::resume_unwind(Box::new(Cancelled));
    }
    let g = current::this_goroutine();
    g.at_end.set(AtEnd::CannotUnwind);
    transition!(g, Running => Waiting);
    leave(g, m.reference(), PostSwitch::Nothing, Leave::Park);
}

/// Puts a goroutine that yielded at the tail of the ring.
#[inline(always)]
fn requeue(m: &M, g: GRef) {
    let p = m.held_p();
    m.sched.put_local(m, &p, g, false);
    // A goroutine that yields to itself wakes nobody.
    if m.current().is_some() {
        m.sched.wake_p_if_needed();
    }
}

/// Makes `g`, which waits and which the caller has taken out of what it waited for, runnable: the next
/// one on this P.
#[inline(always)]
pub(crate) fn ready(m: &M, g: GRef, by: Waker) {
    m.tracer.ready(m, g, by);
    g.wait.end();
    transition!(g, Waiting => Runnable);
    m.tracer.settle();
    let p = m.held_p();
    m.sched.put_local(m, &p, g, true);
    m.sched.wake_p_if_needed();
}

/// [`ready`] from a thread that has no P: to the global queue.
#[cold]
#[inline(never)]
fn ready_from_outside(visit: Visit, g: GRef) {
    let sched = g.sched;
    if sched.put_global_from_outside(g, Waker::External) {
        sched.wake_p_if_needed();
    }
    drop(visit);
}

/// Waits for a permit, or takes the one that was given.
pub(crate) fn park_for_permit(g: GRef, wait: Wait) {
    let _section = critical::enter_to_wait(g);
    if take_permit(&g.permit) {
        return;
    }
    park(g, current::m_of(g), wait, PostSwitch::AwaitPermit(g));
}

/// Gives `g` a permit, which wakes it if it waits for one. From any thread.
pub(crate) fn give_permit(g: GRef) {
    let me = current::goroutine();
    let _section = critical::enter_if(me);
    if put_permit(&g.permit) {
        Waking::new(me, g).wake();
    }
}

/// Takes the permit if it was given.
fn take_permit(permit: &AtomicU32) -> bool {
    // ordering: Acquire; pairs with the Release in `put_permit`. Relaxed on failure: nothing was taken.
    permit
        .compare_exchange(
            PERMIT_GIVEN,
            PERMIT_EMPTY,
            Ordering::Acquire,
            Ordering::Relaxed,
        )
        .is_ok()
}

/// Begins to wait for the permit, or takes the one that was given meanwhile: then the caller makes the
/// goroutine ready. The word says `AWAITED` only while nobody has undertaken to do that: otherwise two
/// givers, or a giver and the caller, would both do it.
fn await_permit(permit: &AtomicU32) -> bool {
    // ordering: Release; pairs with the Acquire in `put_permit`: the goroutine has been left. Relaxed on
    // failure: taken below.
    if permit
        .compare_exchange(
            PERMIT_EMPTY,
            PERMIT_AWAITED,
            Ordering::Release,
            Ordering::Relaxed,
        )
        .is_ok()
    {
        return false;
    }
    // ordering: Acquire; pairs with the Release in `put_permit`. Only the waiter takes a permit, so the
    // word still says that one was given.
    let was = permit.swap(PERMIT_EMPTY, Ordering::Acquire);
    debug_assert_eq!(was, PERMIT_GIVEN);
    true
}

/// Gives the permit; true when the waiter must be made ready, which is then the caller's to do.
fn put_permit(permit: &AtomicU32) -> bool {
    // ordering: Relaxed: the exchange decides.
    let mut seen = permit.load(Ordering::Relaxed);
    loop {
        let (then, wakes) = match seen {
            PERMIT_AWAITED => (PERMIT_EMPTY, true),
            _ => (PERMIT_GIVEN, false),
        };
        // ordering: AcqRel; pairs with the Acquire in `take_permit` and `await_permit` (what the giver did
        // before is seen), and with the Release there. A permit that was given before is given again, so
        // that the taker sees what this giver did, too. Relaxed on failure: it is tried again.
        match permit.compare_exchange_weak(seen, then, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return wakes,
            Err(now) => seen = now,
        }
    }
}

/// Forgets that `g`, which is about to be unwound, waits for a permit: whoever gives it one from now on
/// wakes nobody.
pub(crate) fn forget_permit(g: GRef) {
    // ordering: Relaxed: givers only look whether somebody waits.
    g.permit.store(PERMIT_EMPTY, Ordering::Relaxed);
}

#[cfg(all(test, loom))]
#[path = "park_tests.rs"]
mod tests;
