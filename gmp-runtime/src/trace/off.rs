//! The tracer that records nothing: the interface of the one that does, without a field or an instruction.

use std::panic::Location;
use std::path::Path;

use super::marks::{Found, HandoffReason, Leave, PreemptReason, Preemption, StealFrom, Waker};
use crate::sched::Sched;
use crate::sched::m::M;
use crate::sched::p::P;
use crate::sched::refs::{GRef, MRef, PRef};
use crate::sys::memory_barrier::Fences;

/// What would be remembered of a scheduler.
#[derive(Debug)]
pub(crate) struct SchedTrace;

impl SchedTrace {
    pub(crate) fn forget(&self) {}

    pub(crate) fn new(_: Fences) -> SchedTrace {
        SchedTrace
    }
}

/// What an M would record with.
#[derive(Debug)]
pub(crate) struct ThreadTrace;

macro_rules! nothing {
    ($($name:ident($($argument:ty),*);)*) => {
        $(#[inline(always)]
        pub(crate) fn $name(&self, _: &M $(, _: $argument)*) {})*
    };
}

impl ThreadTrace {
    pub(crate) fn new(_: u64) -> ThreadTrace {
        ThreadTrace
    }

    /// There is nothing to settle.
    #[inline(always)]
    pub(crate) fn settle(&self) {}

    /// Takes the P.
    #[inline(always)]
    pub(crate) fn syscall_exit_if(&self, _: &M, take: impl FnOnce() -> bool) -> bool {
        take()
    }

    nothing! {
        switch(GRef, Leave, GRef, Found);
        leave(GRef, Leave);
        start(GRef, Found);
        ready(GRef, Waker);
        create(GRef);
        steal(&P, u32, StealFrom);
        steal_failed(u32);
        overflow(u32);
        global_batch(u32);
        proc_start(PRef);
        proc_stop(PRef);
        preempted(Preemption);
        safe_point(Preemption);
        stop_requested(&'static str);
        stopped();
        restarted();
        proc_handoff(MRef, HandoffReason);
        m_lock();
        m_unlock();
        syscall_enter(&'static Location<'static>);
        syscall_exit();
        syscall_exit_blocked();
        run_without_p();
        m_begin();
        m_end();
        m_park();
        spin_begin();
        spin_end(bool);
        netpoll(bool, u32);
        timer_fired(Option<GRef>, u64);
    }
}

/// A thread that is perhaps not an M wakes an M.
#[inline(always)]
pub(crate) fn m_wake(_: MRef) {}

/// A thread that is not an M makes a goroutine runnable.
#[inline(always)]
pub(crate) fn ready_from_outside(_: &Sched, _: GRef, _: Waker, change: impl FnOnce()) {
    change();
}

/// Such a thread wants the world stopped.
pub(crate) fn stop_requested(_: &Sched, _: &'static str) {}

/// The world is stopped.
pub(crate) fn stopped(_: &Sched) {}

/// The world is about to go on.
pub(crate) fn restarted(_: &Sched) {}

/// There are to be so many Ps.
pub(crate) fn procs_change(_: &Sched, _: u32) {}

/// A collection cycle begins.
pub(crate) fn gc_begin(_: &Sched, _: u64) -> u32 {
    0
}

/// A collection cycle is running.
pub(crate) fn gc_active(_: &Sched, _: u64, told: u32) -> u32 {
    told
}

/// A collection cycle ends.
pub(crate) fn gc_end(_: &Sched, _: u64, _: u64, _: u64) {}

/// The monitor takes a P.
#[inline(always)]
pub(crate) fn retake(_: &Sched, _: PRef, _: MRef, take: impl FnOnce() -> bool) -> bool {
    take()
}

/// The monitor takes a P from a call that was not announced.
#[inline(always)]
pub(crate) fn implicit_call(_: &Sched, _: PRef, _: MRef, _: GRef, change: impl FnOnce()) {
    change();
}

/// A thread that is not an M wants a P back.
#[inline(always)]
pub(crate) fn preempt_requested(_: &Sched, _: u32, _: GRef, _: PreemptReason) {}

/// There is nothing to start: the builder has said that `trace` has no effect.
pub(crate) fn start_for_environment(_: &Sched, _: &Path) {}

/// There is nothing to end.
pub(crate) fn end(_: &Sched) {}
