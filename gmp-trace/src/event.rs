//! The event model: what every reader gives, whatever format the bytes were in.
//!
//! An [`Event`] says when, where (M, P, G) and what ([`Body`]). A format fills what it has; the rest
//! is `None`. Names of states and reasons are Go's, so that reports on both kinds of trace read
//! alike.
//!
//! # Context
//!
//! [`Event::m`], [`Event::p`] and [`Event::g`] are what the M held *when the event began*: the
//! goroutine of [`Body::GoPark`] is the one that parks. Where an event starts a goroutine
//! ([`Body::GoStart`]) or a P ([`Body::ProcStart`]), the field holds the started one.

use crate::id::{GId, MId, ObjectId, PId, TaskId};
use crate::tables::{SiteRef, StackRef, Text};
use crate::time::Nanos;

/// One event of a trace, in the order of cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When, from the first event of the trace, as the recording thread's clock had it. Clocks of two
    /// threads may disagree: `time` can go backwards from one event to the next, and [`Event::order`]
    /// never does.
    pub time: Nanos,
    /// Position in the order of cause, from 0.
    pub order: u64,
    /// The thread that recorded the event; `None` where a format does not tell.
    pub m: Option<MId>,
    /// The P that `m` held.
    pub p: Option<PId>,
    /// The goroutine that ran on `m`.
    pub g: Option<GId>,
    /// What happened.
    pub body: Body,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body {
    // ---- goroutines
    /// `g` (or the runtime, where `g` is `None`) made `child`.
    GoCreate {
        /// The new goroutine.
        child: GId,
        /// Where it was made; [`Site::function`](crate::tables::Site) is its start function.
        site: Option<SiteRef>,
        /// The stack of the creator.
        stack: Option<StackRef>,
        /// The start function as a stack of one frame (Go).
        start_stack: Option<StackRef>,
        /// False for a goroutine that is born waiting (a coroutine of Go's `iter.Pull`).
        runnable: bool,
    },
    /// `g` begins to run on `p`.
    GoStart {
        /// How the scheduler found it.
        found: Option<Found>,
    },
    /// `g` gives up its P by its own will and stays runnable.
    GoYield {
        /// Where.
        stack: Option<StackRef>,
    },
    /// `g` was made to give up its P and stays runnable.
    GoPreempted {
        /// By looking at the flag, or by a signal.
        how: Preemption,
        /// Where.
        stack: Option<StackRef>,
    },
    /// Somebody wants `g`'s P back. `Event::g` is who asked.
    GoPreemptRequested {
        /// The P that is to be given up.
        victim: PId,
        /// The goroutine that runs on it.
        goroutine: Option<GId>,
        /// Why.
        why: PreemptReason,
    },
    /// `g` waits.
    GoPark {
        /// For what kind of thing, in Go's words.
        reason: Text,
        /// For which one.
        object: Option<ObjectId>,
        /// Where.
        site: Option<SiteRef>,
        /// Where, in full.
        stack: Option<StackRef>,
    },
    /// `goroutine` stops waiting and becomes runnable.
    GoReady {
        /// Who becomes runnable.
        goroutine: GId,
        /// Who made it so.
        by: Option<Waker>,
        /// Where.
        stack: Option<StackRef>,
    },
    /// `g` ends.
    GoExit {
        /// How; `None` where a format does not tell.
        how: Option<ExitHow>,
    },
    /// `g` gets a label.
    GoLabel {
        /// The label; empty takes it away.
        label: Text,
    },
    /// What a goroutine was doing when a generation began.
    GoStatus {
        /// The goroutine; `Event::g` is not touched by this.
        goroutine: GId,
        /// Its state.
        state: GState,
        /// The thread it is bound to, in state running or syscall.
        on_m: Option<MId>,
        /// Why it waits.
        reason: Option<Text>,
        /// What it waits for.
        object: Option<ObjectId>,
        /// Where it waits.
        site: Option<SiteRef>,
        /// Where it was made.
        created_at: Option<SiteRef>,
        /// Its creator.
        creator: Option<GId>,
        /// Its label.
        label: Option<Text>,
        /// Where it is, in full.
        stack: Option<StackRef>,
    },

    // ---- system calls
    /// `g` enters a system call; its P may be taken away meanwhile.
    SyscallEnter {
        /// Where.
        site: Option<SiteRef>,
        /// Where, in full.
        stack: Option<StackRef>,
    },
    /// `g` is back from its system call and goes on with a P.
    SyscallExit,
    /// `g` is back from its system call, has no P and is runnable.
    SyscallExitBlocked,
    /// `goroutine` was found blocked in the kernel by its CPU clock and has lost its P.
    SyscallImplicit {
        /// Who.
        goroutine: GId,
        /// On which thread.
        on_m: MId,
    },

    // ---- Ps
    /// `p` begins to work on `m`.
    ProcStart,
    /// `p` becomes idle.
    ProcStop,
    /// `victim` was taken from `from_m`, whose goroutine is in a system call or was frozen.
    ProcSteal {
        /// The P that was taken.
        victim: PId,
        /// The thread that had it.
        from_m: Option<MId>,
        /// Why.
        why: Option<RetakeReason>,
    },
    /// `p` was given to another thread directly.
    ProcHandoff {
        /// To which thread.
        to_m: Option<MId>,
        /// Why.
        why: HandoffReason,
    },
    /// What a P was doing when a generation began.
    ProcStatus {
        /// The P; `Event::p` is not touched by this.
        proc: PId,
        /// Its state.
        state: PState,
        /// The thread that holds it.
        on_m: Option<MId>,
    },
    /// The number of Ps is now `procs`.
    ProcsChange {
        /// How many.
        procs: u32,
        /// Where it was changed.
        stack: Option<StackRef>,
    },
    /// `m` goes on in user code without a P, until it stops.
    RunWithoutP,

    // ---- queues and stealing
    /// The search of `m` for work took `n` goroutines from `victim`.
    Steal {
        /// From whom.
        victim: PId,
        /// How many goroutines, the one that is run included.
        n: u32,
        /// From where.
        what: StealFrom,
    },
    /// A search for work by stealing ended without a goroutine.
    StealFailed {
        /// How many queues were looked at.
        attempts: u32,
    },
    /// The full ring of `p` moved `n` goroutines to the global queue.
    RunqOverflow {
        /// How many.
        n: u32,
    },
    /// `p` took `n` goroutines from the global queue, the one that is run included.
    GlobalBatch {
        /// How many.
        n: u32,
    },

    // ---- Ms
    /// `m` had a thread made for `child`.
    MCreate {
        /// The new M.
        child: MId,
    },
    /// `m` ends.
    MExit,
    /// `m` goes to sleep: nothing to do.
    MPark,
    /// `m` wakes `target`.
    MWake {
        /// Which thread.
        target: MId,
    },
    /// `m` begins to spin: it looks for work that it does not know of.
    SpinBegin,
    /// `m` ends to spin.
    SpinEnd {
        /// Whether it found something.
        found: bool,
    },
    /// `g` was locked to `m`.
    MLock,
    /// `g` is no longer locked to `m`.
    MUnlock,
    /// CPU time that `m` has used so far.
    MCpu {
        /// Since the thread was made.
        cpu: Nanos,
    },
    /// The time that the scheduler took for the switch that ended here: an estimate from one switch
    /// in 64.
    SchedSample {
        /// How long.
        took: Nanos,
    },

    // ---- network and timers
    /// The network was polled.
    Netpoll {
        /// Whether the call could block.
        blocking: bool,
        /// How many goroutines became ready.
        ready: u32,
    },
    /// A timer fired.
    TimerFired {
        /// How late.
        late: Nanos,
        /// The goroutine it is for.
        goroutine: Option<GId>,
    },

    // ---- stop the world, collection
    /// `g` (or the runtime) wants the world stopped.
    StopRequested {
        /// For what, in Go's words.
        kind: Text,
        /// Where.
        stack: Option<StackRef>,
    },
    /// `m` has reached a safe point.
    SafePoint {
        /// By looking at the flag, or by a signal.
        how: Preemption,
    },
    /// Every M has reached a safe point.
    Stopped,
    /// The world goes on.
    Restarted,
    /// A range of time that a format names begins (`GC mark assist`, `GC incremental sweep`, …).
    RangeBegin {
        /// Its name, in Go's words.
        name: Text,
        /// What it belongs to.
        scope: Scope,
        /// Where.
        stack: Option<StackRef>,
        /// True where the range began before the trace or the generation.
        already_active: bool,
    },
    /// A range ends.
    RangeEnd {
        /// Its name.
        name: Text,
        /// What it belongs to.
        scope: Scope,
        /// Two figures that some ranges carry (a sweep: bytes swept and reclaimed).
        figures: Option<(u64, u64)>,
    },
    /// A collection cycle begins.
    GcBegin {
        /// Its number.
        cycle: u64,
        /// Where.
        stack: Option<StackRef>,
    },
    /// A collection cycle is running (first seen so).
    GcActive {
        /// Its number.
        cycle: u64,
    },
    /// A collection cycle ends.
    GcEnd {
        /// Its number.
        cycle: u64,
        /// Pages released, where the format tells.
        pages: Option<u64>,
        /// Stacks released, where the format tells.
        stacks: Option<u64>,
    },
    /// A figure of the program changed.
    Metric {
        /// Its name, as in Go's `runtime/metrics`.
        name: Text,
        /// Its new value.
        value: u64,
    },

    // ---- the program's own events
    /// A task begins.
    TaskBegin {
        /// Which.
        task: TaskId,
        /// The task it is part of.
        parent: Option<TaskId>,
        /// Its name.
        name: Text,
        /// Where.
        stack: Option<StackRef>,
    },
    /// A task ends.
    TaskEnd {
        /// Which.
        task: TaskId,
        /// Where.
        stack: Option<StackRef>,
    },
    /// A region of `g` begins.
    RegionBegin {
        /// The task it is part of.
        task: Option<TaskId>,
        /// Its name.
        name: Text,
        /// Where.
        stack: Option<StackRef>,
    },
    /// A region of `g` ends.
    RegionEnd {
        /// The task it is part of.
        task: Option<TaskId>,
        /// Its name.
        name: Text,
        /// Where.
        stack: Option<StackRef>,
    },
    /// The program says something.
    Log {
        /// The task it is about.
        task: Option<TaskId>,
        /// What kind of message.
        key: Text,
        /// The message.
        value: Text,
        /// Where.
        stack: Option<StackRef>,
    },

    // ---- samples
    /// The CPU profiler looked.
    CpuSample {
        /// At which stack.
        stack: Option<StackRef>,
    },

    // ---- the trace itself
    /// A generation begins. The three clocks were read together; what a format lacks is `None`.
    Sync {
        /// The number of the generation.
        generation: u64,
        /// The monotonic clock of the machine.
        mono: Option<Nanos>,
        /// The wall clock, since the Unix epoch.
        wall: Option<Nanos>,
    },
    /// Events were lost here: nobody could take them.
    Loss {
        /// How many.
        events: u64,
    },
    /// An event of an experiment or of a newer format, kept but not understood.
    Unknown {
        /// Its number in the format.
        kind: u16,
        /// Its first arguments.
        args: [u64; 4],
    },
}

/// How the scheduler found a goroutine that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Found {
    /// In `runnext`: made ready by the goroutine that ran before.
    Runnext = 0,
    /// In the ring of the P.
    Local = 1,
    /// In the global queue.
    Global = 2,
    /// In the ring of another P.
    Stolen = 3,
    /// In `runnext` of another P.
    StolenRunnext = 4,
    /// The netpoller made it ready.
    Netpoll = 5,
    /// A timer made it ready.
    Timer = 6,
    /// It came with a P that was handed off.
    Handoff = 7,
    /// It is locked to this thread.
    Locked = 8,
    /// It is wired to this thread: frozen here by a preemption.
    Wired = 9,
    /// In the list of urgent wakes.
    Urgent = 10,
}

/// Who made a goroutine runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Waker {
    /// Another goroutine.
    Goroutine = 0,
    /// The netpoller.
    Netpoll = 1,
    /// A timer.
    Timer = 2,
    /// sysmon.
    Sysmon = 3,
    /// A thread that is not of the runtime.
    External = 4,
    /// The runtime itself: start, shutdown, collection.
    Runtime = 5,
}

/// By what a goroutine was made to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Preemption {
    /// It looked at the flag.
    Cooperative = 0,
    /// A signal.
    Signal = 1,
    /// The format does not tell.
    Unknown = 2,
}

/// Why somebody wants a P back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum PreemptReason {
    /// The time slice is over.
    Slice = 0,
    /// An urgent goroutine waits.
    Urgent = 1,
    /// The world is to stop.
    Stop = 2,
}

/// Why a P was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RetakeReason {
    /// Its goroutine is in a system call that was announced.
    Syscall = 0,
    /// Its goroutine is in a system call that was not.
    ImplicitSyscall = 1,
    /// Its goroutine was frozen.
    Frozen = 2,
}

/// Why a P was given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum HandoffReason {
    /// A system call that is known to block.
    Syscall = 0,
    /// To the thread that a goroutine is locked to.
    Locked = 1,
    /// To the thread that a goroutine is wired to.
    Wired = 2,
    /// A preemption: the thread is frozen.
    Frozen = 3,
}

/// How a goroutine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ExitHow {
    /// Its function returned.
    Returned = 0,
    /// It panicked.
    Panicked = 1,
    /// It called `goexit`.
    Goexit = 2,
    /// It was cancelled at shutdown.
    Cancelled = 3,
}

/// From where goroutines were stolen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum StealFrom {
    /// The ring.
    Ring = 0,
    /// `runnext`.
    Runnext = 1,
    /// Timers.
    Timers = 2,
}

/// What a range belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One goroutine.
    Goroutine(GId),
    /// One P.
    Proc(PId),
    /// The program.
    Global,
}

/// A state of a goroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum GState {
    /// On a queue, wants a P.
    Runnable = 1,
    /// On a P.
    Running = 2,
    /// In a system call.
    Syscall = 3,
    /// Waits for something.
    Waiting = 4,
}

/// A state of a P.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum PState {
    /// Held by a thread that runs goroutines or looks for them.
    Running = 1,
    /// In the idle list.
    Idle = 2,
    /// Held by a thread whose goroutine is in a system call.
    Syscall = 3,
}
