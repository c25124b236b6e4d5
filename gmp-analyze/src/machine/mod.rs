//! The state machine: events become spans. The only place that knows how one state follows
//! another.
//!
//! # Partitions
//!
//! 1. The spans of a goroutine follow each other without gap from its birth (or the begin of the
//!    trace) to its end (or the end of the trace). Otherwise "where did the time go" has no answer.
//! 2. The spans of a P do so from the begin of the trace to its end, those of a thread from the
//!    first that is heard of it to its end.
//! 3. No span is negative. Clocks of threads disagree, so the next event of a goroutine, P or thread
//!    can be earlier than its last one; it then counts as at the time of the last one, and is
//!    counted ([`Kind::TimeWentBack`](crate::diag::Kind)).
//! 4. What cannot be told is a span of state *unknown*, never a guess: the time before a goroutine
//!    is first met without a status, and the time between two events that do not fit together.
//!
//! Sums are kept for each goroutine, P and thread while the machine runs and compared at its end; a
//! difference is an anomaly of severity error.
//!
//! # Not here
//!
//! Sums, percentiles, groups: those are sinks ([`Sink`]), in [`analysis`](crate::analysis).

mod goroutines;
mod ids;
mod levels;
mod lives;
mod procs;
mod sink;
mod state;
mod threads;
mod view;

pub use levels::Levels;
pub use sink::{GoroutineBirth, GoroutineDeath, GoroutineSpan, ProcSpan, Sink, ThreadSpan, Wake};
pub use state::{Cause, GoroutineState, Place, ProcState, ThreadState};
pub use view::{GoroutineNow, ProcNow, ThreadNow};

use crate::diag::{Counts, Kind};
use gmp_trace::event::{GState, HandoffReason, PState, RetakeReason};
use gmp_trace::id::{GId, PId};
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use goroutines::Goroutines;
use ids::DenseIds;
use procs::{Proc, ProcTurn};
use threads::Thread;

use GoroutineState as G;
use ProcState as P;

/// Takes events in the order of cause and gives spans to a [`Sink`].
#[derive(Debug)]
pub struct Machine<S> {
    sink: S,
    goroutines: Goroutines,
    procs: Vec<Proc>,
    proc_ids: DenseIds,
    /// How many Ps there are, once an event has said so.
    procs_count: Option<u32>,
    threads: Vec<Thread>,
    thread_ids: DenseIds,
    levels: Levels,
    counts: Counts,
    started: bool,
    /// The time of the first event.
    begin: Nanos,
    /// The largest time so far.
    latest: Nanos,
    /// When the present generation began: statuses speak of this moment.
    generation_begin: Nanos,
}

/// What a machine leaves when the trace has ended.
#[derive(Debug)]
pub struct Outcome<S> {
    /// The sink.
    pub sink: S,
    /// The time of the first event.
    pub begin: Nanos,
    /// The largest time of an event.
    pub end: Nanos,
    /// What did not fit.
    pub counts: Counts,
    /// The largest number of goroutines that lived at one moment.
    pub peak_goroutines: u32,
}

impl<S> Outcome<S> {
    /// The same with what `of` makes of the sink.
    pub fn map<T>(self, of: impl FnOnce(S) -> T) -> Outcome<T> {
        Outcome {
            sink: of(self.sink),
            begin: self.begin,
            end: self.end,
            counts: self.counts,
            peak_goroutines: self.peak_goroutines,
        }
    }
}

/// Times beyond this many nanoseconds (73 years) are damage. Differences of smaller ones never
/// overflow.
const LARGEST_TIME: u64 = 1 << 61;

impl<S: Sink> Machine<S> {
    /// A machine that has seen nothing yet.
    pub fn new(sink: S) -> Machine<S> {
        Machine {
            sink,
            goroutines: Goroutines::default(),
            procs: Vec::new(),
            proc_ids: DenseIds::default(),
            procs_count: None,
            threads: Vec::new(),
            thread_ids: DenseIds::default(),
            levels: Levels::default(),
            counts: Counts::default(),
            started: false,
            begin: Nanos::ZERO,
            latest: Nanos::ZERO,
            generation_begin: Nanos::ZERO,
        }
    }

    /// The sink, as far as it has come.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// The sink, to be told what events do not say.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// The next event. The events before it in the order of cause have been given.
    pub fn event(&mut self, event: &Event) {
        if event.time.0.unsigned_abs() > LARGEST_TIME {
            self.counts.add(Kind::AbsurdTime, Some(event));
            let limit = LARGEST_TIME as i64;
            let time = Nanos(event.time.0.clamp(-limit, limit));
            return self.take(&Event { time, ..*event });
        }
        self.take(event);
    }

    #[inline]
    fn take(&mut self, event: &Event) {
        self.advance(event);
        self.sink.event(event);
        let thread = event.m.map(|m| self.thread_index(m));
        // Statuses speak of the begin of the generation, not of what their thread does now.
        let is_status = matches!(event.body, Body::GoStatus { .. } | Body::ProcStatus { .. });
        if let Some(thread) = thread
            && !is_status
        {
            self.thread_heard(thread, event);
        }
        match event.body {
            Body::GoCreate {
                child, runnable, ..
            } => {
                let made_at = Place::of_birth(event).unwrap_or(Place::Unknown);
                self.goroutine_made(child, made_at, runnable, event);
            }
            Body::GoStart { found } => self.goroutine_starts(thread, found, event),
            Body::GoYield { .. } => self.goroutine_gives_up(thread, Cause::Yielded, event),
            Body::GoPreempted { .. } => self.goroutine_gives_up(thread, Cause::Preempted, event),
            Body::GoPark {
                reason,
                object,
                site,
                stack,
            } => {
                let place = Place::of(site, stack);
                self.goroutine_parks(thread, reason, object, place, event);
            }
            Body::GoReady { goroutine, by, .. } => self.goroutine_ready(goroutine, by, event),
            Body::GoExit { how } => self.goroutine_exits(thread, how, event),
            Body::GoStatus { .. } => self.goroutine_status(event),
            Body::SyscallEnter { site, stack } => {
                self.syscall_begins(thread, Place::of(site, stack), event);
            }
            Body::SyscallExit => self.syscall_ends(thread, event),
            Body::SyscallExitBlocked => self.syscall_ends_without_p(thread, event),
            Body::SyscallImplicit { goroutine, on_m } => {
                self.implicit_syscall(goroutine, on_m, event);
            }
            Body::RunWithoutP => self.runs_without_p(thread, event),
            _ => self.other(thread, event),
        }
    }

    /// Events that are about no goroutine's state.
    fn other(&mut self, thread: Option<usize>, event: &Event) {
        match event.body {
            Body::ProcStart => {
                self.proc_to(
                    event.p,
                    event,
                    P::Idle.bit() | P::Scheduler.bit(),
                    P::Scheduler,
                );
            }
            Body::ProcStop => self.proc_stops(event),
            Body::ProcSteal { victim, why, .. } => self.proc_stolen(victim, why, event),
            Body::ProcHandoff { why, .. } => self.proc_handed_off(thread, why, event),
            Body::ProcStatus { proc, state, on_m } => {
                let state = match state {
                    PState::Idle => P::Idle,
                    PState::Syscall => P::Syscall,
                    PState::Running if self.goroutine_on(on_m).is_some() => P::Running,
                    PState::Running => P::Scheduler,
                };
                self.proc_status(proc, state, on_m, event);
            }
            Body::ProcsChange { procs, .. } => self.procs_change(procs, event),
            Body::MCreate { child } => self.thread_made(child, event),
            Body::MExit => self.thread_turn_end(thread, event),
            Body::MPark => self.thread_to(thread, event, ThreadState::Parked),
            Body::MWake { target } => self.thread_woken(target, event),
            Body::SpinBegin => self.thread_to(thread, event, ThreadState::Spinning),
            Body::SpinEnd { .. } => self.thread_to(thread, event, ThreadState::Scheduler),
            Body::SafePoint { .. } => {
                if let Some(id) = event.p {
                    let index = self.proc_index(id, event);
                    self.stop_proc(index, event);
                }
            }
            Body::Stopped => self.stop_world(event),
            Body::Restarted => self.restart_world(event),
            Body::Sync { .. } => self.generation_begin = event.time.max(self.generation_begin),
            _ => {}
        }
    }

    /// Moves the clock to the event's time, where that is later.
    #[inline]
    fn advance(&mut self, event: &Event) {
        if event.time > self.latest && self.started {
            self.sink.elapsed(self.latest, event.time, &self.levels);
            self.latest = event.time;
        } else if !self.started {
            self.started = true;
            (self.begin, self.latest, self.generation_begin) = (event.time, event.time, event.time);
        }
    }

    /// Turns P `id`, where there is one.
    #[inline]
    fn proc_to(&mut self, id: Option<PId>, event: &Event, legal: u8, to: ProcState) {
        self.proc_with(id, None, event, legal, to);
    }

    /// Turns P `id`, where there is one, for `goroutine`.
    #[inline]
    fn proc_with(
        &mut self,
        id: Option<PId>,
        goroutine: Option<GId>,
        event: &Event,
        legal: u8,
        to: ProcState,
    ) {
        if let Some(id) = id {
            let index = self.proc_index(id, event);
            let thread = if matches!(to, P::Idle) { None } else { event.m };
            self.proc_turns(
                index,
                event,
                ProcTurn {
                    legal,
                    to,
                    goroutine,
                    thread,
                },
            );
        }
    }

    #[inline]
    fn thread_to(&mut self, thread: Option<usize>, event: &Event, to: ThreadState) {
        if let Some(thread) = thread {
            self.thread_turns(thread, event, to);
        }
    }

    fn thread_turn_end(&mut self, thread: Option<usize>, event: &Event) {
        if let Some(thread) = thread {
            self.thread_ends(thread, event);
        }
    }

    /// The event's P becomes idle.
    fn proc_stops(&mut self, event: &Event) {
        let Some(id) = event.p else {
            self.counts.add(Kind::Incomplete, Some(event));
            return;
        };
        let index = self.proc_index(id, event);
        if self.procs[index].own_state() == P::Syscall {
            // Old traces of Go tell so that a P was taken from a system call.
            self.proc_stolen(id, Some(RetakeReason::Syscall), event);
        } else {
            self.proc_to(event.p, event, P::Scheduler.bit(), P::Idle);
        }
    }

    /// P `victim` was taken from the thread that had it; it is idle until a thread begins with it.
    /// Where a format does not tell why (Go up to 1.21), its system call counts on as one with a P, as
    /// in Go's own figures.
    fn proc_stolen(&mut self, victim: PId, why: Option<RetakeReason>, event: &Event) {
        let index = self.proc_index(victim, event);
        if why.is_some()
            && self.procs[index].own_state() == P::Syscall
            && let Some(goroutine) = self.procs[index].goroutine
        {
            self.syscall_loses_p(goroutine, event);
        }
        let turn = ProcTurn {
            legal: u8::MAX,
            to: P::Idle,
            goroutine: None,
            thread: None,
        };
        self.proc_turns(index, event, turn);
    }

    /// The event's P is on its way to another thread: not idle, and no goroutine runs on it.
    fn proc_handed_off(&mut self, thread: Option<usize>, why: HandoffReason, event: &Event) {
        let Some(id) = event.p else {
            self.counts.add(Kind::Incomplete, Some(event));
            return;
        };
        let index = self.proc_index(id, event);
        if self.procs[index].own_state() == P::Syscall
            && let Some(goroutine) = self.procs[index].goroutine
        {
            self.syscall_loses_p(goroutine, event);
        }
        let legal = P::Running.bit() | P::Scheduler.bit() | P::Syscall.bit();
        let turn = ProcTurn {
            legal,
            to: P::Scheduler,
            goroutine: None,
            thread: None,
        };
        self.proc_turns(index, event, turn);
        if why == HandoffReason::Frozen {
            self.thread_to(thread, event, ThreadState::Parked);
        }
    }

    /// A status: what a goroutine did when the generation began.
    fn goroutine_status(&mut self, event: &Event) {
        let Body::GoStatus {
            goroutine,
            state,
            on_m,
            reason,
            object,
            site,
            creator,
            stack,
            ..
        } = event.body
        else {
            return;
        };
        let state = match state {
            GState::Runnable => G::Runnable,
            GState::Running => G::Running,
            // A thread that says so of its own goroutine and holds no P has lost it.
            GState::Syscall if on_m.is_some() && on_m == event.m && event.p.is_none() => {
                G::SyscallWithoutP
            }
            GState::Syscall => G::Syscall,
            GState::Waiting => G::Waiting,
        };
        let known = self.goroutines.find(goroutine);
        let slot = match known {
            Some(slot) => {
                let now = self.goroutines.at(slot).state;
                let in_syscall = |state| matches!(state, G::Syscall | G::SyscallWithoutP);
                if now == state || (in_syscall(now) && in_syscall(state)) {
                    return;
                }
                let begin = self.generation_begin.max(self.goroutines.at(slot).since);
                self.turn(
                    slot,
                    &Event {
                        time: begin,
                        ..*event
                    },
                    0,
                    state,
                );
                slot
            }
            None => {
                let made_at = Place::of_birth(event).unwrap_or(Place::Unknown);
                self.born(
                    goroutine,
                    creator,
                    made_at,
                    true,
                    self.generation_begin,
                    state,
                )
            }
        };
        let entry = self.goroutines.at(slot);
        entry.cause = Cause::Before;
        entry.reason = if state == G::Waiting {
            reason.unwrap_or(Text::EMPTY)
        } else {
            Text::EMPTY
        };
        entry.object = object;
        entry.place = Place::of(site, stack);
        if state != G::Runnable
            && state != G::Waiting
            && let Some(m) = on_m
        {
            self.status_on_thread(goroutine, slot, m, state, event);
        }
    }

    /// The trace has ended: every open span is closed, and the sums are checked.
    pub fn finish(mut self) -> Outcome<S> {
        let end = self.latest;
        self.finish_goroutines(end);
        self.finish_procs(end);
        self.finish_threads(end);
        Outcome {
            sink: self.sink,
            begin: self.begin,
            end,
            counts: self.counts,
            peak_goroutines: self.levels.peak(),
        }
    }
}
