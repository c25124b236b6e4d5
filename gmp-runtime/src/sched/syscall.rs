//! System calls that are announced: a goroutine blocks its thread, and the P goes on without them.
//!
//! # Protocol
//!
//! * **Enter**: the goroutine becomes *syscall*; the M no longer holds its P ([`M::begin_call`]), which says
//!   of itself in whose call it is ([`P::in_call_of`]). That is all: mostly the call is over before anybody
//!   needs the P.
//! * **The monitor** ([`take_from_long_calls`]) takes the P by an exchange when it saw the same call before, 20 µs
//!   ago or more, and either somebody could use the P (its queue is not empty, or nobody spins and no P is idle)
//!   or the call has lasted for 10 ms (Go's `retake`). It hands it on ([`Sched::handoff`]).
//! * **Exit**: the M exchanges the other way. If it has the P again, nothing else happened. Else it takes the P
//!   that it had from the idle list, or another one; and else the goroutine goes to the global queue and the M to
//!   sleep (Go's `exitsyscall`).
//!
//! The exchange decides who has the P: the M's release of everything that it did to the P is in the store that
//! begins the call, and whoever takes it acquires that.
//!
//! Between enter and exit the code is a thread's: the slot of the stack is empty, so that whatever asks who runs
//! here finds no goroutine ([`current::goroutine`]), and a call into the runtime does what it does on a thread
//! that is not the scheduler's.
//!
//! The whole call is a section (`sched::critical`), though the program's code runs in it: without a P there is nothing
//! that it could keep from others, so nobody need stop it.
//!
//! A goroutine in a call keeps its M off the list of idle Ms, so nothing is a deadlock meanwhile.

use std::panic::{self, AssertUnwindSafe, Location};

use crate::prim::atomic::Ordering;
use crate::sched::g::{AtEnd, transition};
use crate::sched::m::{M, PostSwitch};
use crate::sched::p::{NO_DEADLINE, P};
use crate::sched::refs::{GRef, PRef};
use crate::sched::{Sched, critical, current, park, stw};
use crate::stack;
use crate::switch;

/// How long a call keeps a P that nobody has a use for.
const LONGEST_UNUSED_NS: u64 = 10_000_000;

/// Runs `f`, which may block the thread, as a system call of the goroutine of the caller; on a thread that runs
/// none, just runs it.
#[inline]
pub(crate) fn blocking<R>(site: &'static Location<'static>, f: impl FnOnce() -> R) -> R {
    let Some(g) = current::goroutine() else {
        return f();
    };
    let section = critical::enter_to_wait(g);
    let pin = park::Pin::while_unwinding(g, AtEnd::here());
    enter(g, site);
    // A panic is caught here, because the goroutine may go on on another thread: std counts panics by thread.
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    exit(g);
    drop(pin);
    drop(section);
    match result {
        Ok(value) => value,
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// The goroutine `g`, which runs here, enters a system call.
#[inline]
fn enter(g: GRef, site: &'static Location<'static>) {
    let m = current::m_of(g);
    m.tracer.syscall_enter(&m, site);
    transition!(g, Running => Syscall);
    show(g, false);
    let p = m.begin_call();
    m.tracer.settle();
    let sched = m.sched;
    if sched.sysmon.is_slow() && is_needed_soon(sched, &p) {
        sched.sysmon.hurry();
    }
}

/// Whether somebody will want `p`, which goes into a call: goroutines that wait, or timers for which nobody else
/// wakes.
fn is_needed_soon(sched: &Sched, p: &P) -> bool {
    let timers = p.next_timer() != NO_DEADLINE && sched.idle.idle_ps() == 0;
    timers || !p.runq.is_empty() || sched.global_len() != 0
}

/// The goroutine `g`, which runs here, is back from its system call; returns when it has a P.
#[inline]
fn exit(g: GRef) {
    // Still the thread on which it entered.
    let m = current::m_of(g);
    let Some(p) = m.call_p() else {
        crate::fatal::fatal!("goroutine {} leaves no system call", g.id.get())
    };
    let me = m.reference();
    if m.tracer.syscall_exit_if(&m, || p.take_from_call(me)) {
        m.end_call(Some(p));
        transition!(g, Syscall => Running);
        show(g, true);
        m.tracer.settle();
    } else {
        exit_without_p(g, &m, p);
    }
    let looks = current::m_of(g).held_p().wants_attention() && !std::thread::panicking();
    if looks && !g.sched.world.is_to_stop() {
        // The scheduler ends, or the P is to go: a goroutine that makes one call after the other would not notice.
        // (One that unwinds is being ended. While the world is to stop it is whoever stops it that comes back, and
        // must not wait, or one that is asked at the end of the section.)
        park::yield_now(g);
    }
}

/// [`exit`] when somebody else has taken the P that it `had`.
#[cold]
#[inline(never)]
fn exit_without_p(g: GRef, m: &M, had: PRef) {
    let sched = m.sched;
    if let Some((p, spinning)) = sched.take_p_after_call(had) {
        m.acquire_p(p);
        stw::stop_if_wanted(m);
        m.tracer.syscall_exit(m);
        m.end_call(None);
        p.count_start(false);
        transition!(g, Syscall => Running);
        show(g, true);
        m.tracer.settle();
        if spinning && sched.idle.end_spinning_with_work() {
            sched.wake_p();
        }
        return;
    }
    m.tracer.syscall_exit_blocked(m);
    m.end_call(None);
    m.set_current(None);
    transition!(g, Syscall => Runnable);
    show(g, true);
    m.tracer.settle();
    g.at_end.set(AtEnd::here());
    m.post.set(PostSwitch::WithoutP(g));
    // SAFETY: `g` runs on its own stack; the M's stack waits in `worker::enter`.
    unsafe { switch::back(&g.context, &m.context) };
    park::complete_switch(current::m_of(g));
}

/// The post-switch action of a goroutine that found no P: it waits for one in the global queue.
pub(crate) fn wait_for_p(sched: &Sched, g: GRef) {
    sched.put_global(g);
    sched.wake_p_if_needed();
    if sched.sysmon.is_slow() {
        // Every P may be in a call.
        sched.sysmon.hurry();
    }
}

/// Says who runs on the stack of `g`: itself, or nobody while it is in a system call.
#[inline(always)]
fn show(g: GRef, runs: bool) {
    let goroutine = if runs {
        g.as_ptr().cast()
    } else {
        std::ptr::null_mut()
    };
    // On a stack that other code made there is no slot, and the M says who runs.
    if let Some(slot) = stack::slot_of(switch::stack_pointer()) {
        // ordering: Relaxed: read by code on this stack, on this thread, or on another after the goroutine was
        // handed over.
        slot.store(goroutine, Ordering::Relaxed);
    }
}

/// Takes the Ps of long system calls and hands them on; whether there were any. For the monitor.
pub(crate) fn take_from_long_calls(sched: &Sched, now: u64) -> bool {
    let mut any = false;
    if sched.world.is_to_stop() {
        // What is left is a call of whoever stops it.
        return false;
    }
    for p in sched.procs() {
        let Some(m) = p.in_call_of() else { continue };
        if !is_long(sched, &p, now) {
            continue;
        }
        if crate::trace::retake(sched, p, m, || p.take_from_call(m)) {
            p.set_m(None);
            sched.handoff(p);
            any = true;
        }
    }
    any
}

/// Whether the call that `p` is in has lasted so long that the P is to be taken.
fn is_long(sched: &Sched, p: &P, now: u64) -> bool {
    let call = p.call_tick();
    let (seen, since) = p.seen_call.get();
    if seen != call {
        p.seen_call.set((call, now));
        return false;
    }
    let somebody_looks = sched.idle.idle_ps() + sched.idle.spinning_ms() > 0;
    !p.runq.is_empty() || !somebody_looks || now >= since + LONGEST_UNUSED_NS
}

#[cfg(all(test, loom))]
#[path = "syscall_tests.rs"]
mod tests;
