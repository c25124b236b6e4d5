//! The Ps: their states and how one state follows another.

use super::Machine;
use super::sink::{ProcSpan, Sink};
use super::state::ProcState;
use crate::diag::Kind;
use gmp_trace::Event;
use gmp_trace::id::{GId, MId, PId};
use gmp_trace::time::Nanos;

/// What the machine knows of one P.
#[derive(Clone, Debug)]
pub(super) struct Proc {
    pub(super) id: PId,
    /// The state that spans show.
    pub(super) state: ProcState,
    /// In state stopped: the state to go on with.
    resume: ProcState,
    pub(super) since: Nanos,
    accounted: i64,
    pub(super) goroutine: Option<GId>,
    pub(super) thread: Option<MId>,
}

impl Proc {
    /// The state, a stop of the world aside.
    pub(super) fn own_state(&self) -> ProcState {
        if self.state == ProcState::Stopped {
            self.resume
        } else {
            self.state
        }
    }
}

/// States from which a P may come into another one.
pub(super) type Legal = u8;

/// What a P is told to become.
#[derive(Clone, Copy)]
pub(super) struct ProcTurn {
    pub(super) legal: Legal,
    pub(super) to: ProcState,
    pub(super) goroutine: Option<GId>,
    pub(super) thread: Option<MId>,
}

/// Gives the span of `proc` up to `now`; empty spans say nothing and are not given.
#[inline]
fn close<S: Sink>(
    sink: &mut S,
    proc: &mut Proc,
    index: usize,
    now: Nanos,
    shown: ProcState,
    open: bool,
) {
    if proc.since < now {
        sink.proc_span(&ProcSpan {
            proc: proc.id,
            index,
            state: shown,
            begin: proc.since,
            end: now,
            goroutine: proc.goroutine,
            thread: proc.thread,
            open,
        });
        proc.accounted += now.0 - proc.since.0;
        proc.since = now;
    }
}

impl<S: Sink> Machine<S> {
    /// The index of `id`; a P not met before has been in an unknown state since `since`.
    #[inline]
    pub(super) fn proc_index(&mut self, id: PId, event: &Event) -> usize {
        match self.proc_ids.get(u64::from(id.get())) {
            Some(index) => index,
            None => {
                self.counts.add(Kind::StateNotGiven, Some(event));
                self.add_proc(id, ProcState::Unknown)
            }
        }
    }

    /// A new P, in `state` since the trace began.
    pub(super) fn add_proc(&mut self, id: PId, state: ProcState) -> usize {
        self.levels.proc_appears(state);
        self.procs.push(Proc {
            id,
            state,
            resume: state,
            since: self.begin,
            accounted: 0,
            goroutine: None,
            thread: None,
        });
        self.proc_ids.add(u64::from(id.get()))
    }

    /// P `index` turns at `event`.
    #[inline]
    pub(super) fn proc_turns(&mut self, index: usize, event: &Event, turn: ProcTurn) {
        let proc = &mut self.procs[index];
        if proc.state == ProcState::Stopped && turn.to != ProcState::Running {
            proc.resume = turn.to;
            (proc.goroutine, proc.thread) = (turn.goroutine, turn.thread);
            return;
        }
        // A P that runs a goroutine is not stopped any more, whoever says so first.
        let legal = turn.legal | ProcState::Unknown.bit() | ProcState::Stopped.bit();
        let mut shown = proc.state;
        if legal & shown.bit() == 0 {
            self.counts.add(Kind::ProcSequence, Some(event));
            shown = ProcState::Unknown;
        }
        let mut now = event.time;
        if now < proc.since {
            self.counts.add_step_back(proc.since.since(now), event);
            now = proc.since;
        }
        close(&mut self.sink, proc, index, now, shown, false);
        self.levels.proc_turns(proc.state, turn.to);
        proc.state = turn.to;
        (proc.goroutine, proc.thread) = (turn.goroutine, turn.thread);
    }

    fn close_proc(&mut self, index: usize, now: Nanos, shown: ProcState, open: bool) {
        close(
            &mut self.sink,
            &mut self.procs[index],
            index,
            now,
            shown,
            open,
        );
    }

    /// P `index` has reached a safe point of a stop.
    pub(super) fn stop_proc(&mut self, index: usize, event: &Event) {
        let proc = &self.procs[index];
        if matches!(proc.state, ProcState::Stopped | ProcState::Absent) {
            return;
        }
        let (resume, goroutine, thread) = (proc.state, proc.goroutine, proc.thread);
        let turn = ProcTurn {
            legal: Legal::MAX,
            to: ProcState::Stopped,
            goroutine,
            thread,
        };
        self.proc_turns(index, event, turn);
        self.procs[index].resume = resume;
    }

    /// The world is stopped: every P is.
    pub(super) fn stop_world(&mut self, event: &Event) {
        for index in 0..self.procs.len() {
            self.stop_proc(index, event);
        }
    }

    /// The world goes on: every P in the state that it has by itself.
    pub(super) fn restart_world(&mut self, event: &Event) {
        for index in 0..self.procs.len() {
            let proc = &mut self.procs[index];
            if proc.state != ProcState::Stopped {
                continue;
            }
            let now = event.time.max(proc.since);
            let to = proc.resume;
            self.close_proc(index, now, ProcState::Stopped, false);
            self.procs[index].state = to;
            self.levels.proc_turns(ProcState::Stopped, to);
        }
    }

    /// A status says that P `id` was in `state` when the generation began.
    pub(super) fn proc_status(
        &mut self,
        id: PId,
        state: ProcState,
        on: Option<MId>,
        event: &Event,
    ) {
        let Some(index) = self.proc_ids.get(u64::from(id.get())) else {
            let index = self.add_proc(id, ProcState::Unknown);
            let begin = Event {
                time: self.generation_begin,
                ..*event
            };
            let goroutine = self.goroutine_on(on);
            let turn = ProcTurn {
                legal: Legal::MAX,
                to: state,
                goroutine,
                thread: on,
            };
            self.proc_turns(index, &begin, turn);
            return;
        };
        let own = self.procs[index].own_state();
        // A P on its way to another thread is held by nobody, and idle is all a status can say.
        let on_its_way = own == ProcState::Scheduler && self.procs[index].thread.is_none();
        let same = own == state
            || (on_its_way && state == ProcState::Idle)
            || (matches!(own, ProcState::Running | ProcState::Scheduler)
                && matches!(state, ProcState::Running | ProcState::Scheduler));
        if !same {
            let now = self.generation_begin.max(self.procs[index].since);
            let begin = Event {
                time: now,
                ..*event
            };
            let goroutine = self.goroutine_on(on);
            let turn = ProcTurn {
                legal: 0,
                to: state,
                goroutine,
                thread: on,
            };
            self.proc_turns(index, &begin, turn);
        }
    }

    /// The number of Ps is now `procs`: those with larger numbers are gone, the others are there.
    pub(super) fn procs_change(&mut self, procs: u32, event: &Event) {
        // The first such event may only say what has been so for long: it makes no Ps.
        let before = self.procs_count.replace(procs).unwrap_or(procs);
        // A trace that claims more Ps than its events could name makes no rows for them.
        for number in before..procs.min(MAX_PROCS_MADE) {
            if let Some(id) = PId::new(number)
                && self.proc_ids.get(u64::from(number)).is_none()
            {
                self.add_proc(id, ProcState::Absent);
            }
        }
        for index in 0..self.procs.len() {
            let proc = &self.procs[index];
            let there = proc.id.get() < procs;
            let to = match (there, proc.own_state()) {
                (true, ProcState::Absent) => ProcState::Idle,
                (false, ProcState::Absent) | (true, _) => continue,
                (false, _) => ProcState::Absent,
            };
            let turn = ProcTurn {
                legal: Legal::MAX,
                to,
                goroutine: None,
                thread: None,
            };
            self.proc_turns(index, event, turn);
        }
    }

    /// The trace ends at `end`: every P's last span, and the check that its spans sum to the trace.
    pub(super) fn finish_procs(&mut self, end: Nanos) {
        for index in 0..self.procs.len() {
            let state = self.procs[index].state;
            self.close_proc(index, end, state, true);
            if self.procs[index].accounted != end.0 - self.begin.0 {
                self.counts.add(Kind::PartitionBroken, None);
            }
        }
    }
}

/// A change of the number of Ps makes rows up to this number; more appear when events name them.
const MAX_PROCS_MADE: u32 = 4096;
