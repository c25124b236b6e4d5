//! The goroutines' part of the machine: birth, the turns from state to state, death.

use super::Machine;
use super::goroutines::Goroutine;
use super::procs::ProcTurn;
use super::sink::{GoroutineBirth, GoroutineDeath, GoroutineSpan, Sink, Wake};
use super::state::{Cause, GoroutineState as G, Place, ProcState as P, ThreadState};
use crate::diag::Kind;
use gmp_trace::Event;
use gmp_trace::event::{ExitHow, Found, Waker};
use gmp_trace::id::{GId, MId, ObjectId};
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;

/// How a turn went.
struct Turned {
    /// The state that the closed span shows.
    shown: G,
    /// When the goroutine came into that state.
    since: Nanos,
    /// When it turned.
    now: Nanos,
}

/// Gives the span of `goroutine` up to `now`. An empty one of which nothing is known is not given.
#[inline]
fn close<S: Sink>(
    sink: &mut S,
    goroutine: &mut Goroutine,
    slot: usize,
    now: Nanos,
    shown: G,
    open: bool,
) {
    let begin = goroutine.since;
    goroutine.accounted += now.0 - begin.0;
    goroutine.since = now;
    if shown != G::Unknown || begin < now {
        sink.goroutine_span(&GoroutineSpan {
            goroutine: goroutine.id,
            slot,
            state: shown,
            begin,
            end: now,
            reason: goroutine.reason,
            object: goroutine.object,
            place: goroutine.place,
            proc: goroutine.proc,
            open,
        });
    }
}

impl<S: Sink> Machine<S> {
    /// A goroutine appears in `state`.
    pub(super) fn born(
        &mut self,
        id: GId,
        creator: Option<GId>,
        made_at: Place,
        existed: bool,
        time: Nanos,
        state: G,
    ) -> usize {
        let slot = self.goroutines.add(id, time, state);
        self.levels.goroutine_born(state);
        let birth = GoroutineBirth {
            goroutine: id,
            slot,
            time,
            creator,
            made_at,
            existed,
        };
        self.sink.goroutine_begin(&birth);
        slot
    }

    /// The slot of `id`. A goroutine not met before has been in an unknown state since the
    /// generation began.
    #[inline]
    fn slot_of(&mut self, id: GId, event: &Event) -> usize {
        match self.goroutines.find(id) {
            Some(slot) => slot,
            None => self.met_without_status(id, event),
        }
    }

    #[cold]
    fn met_without_status(&mut self, id: GId, event: &Event) -> usize {
        self.counts.add(Kind::StateNotGiven, Some(event));
        self.born(
            id,
            None,
            Place::Unknown,
            true,
            self.generation_begin,
            G::Unknown,
        )
    }

    /// The slot of the goroutine that the event's thread runs.
    #[inline]
    fn slot_on(&mut self, thread: Option<usize>, event: &Event) -> Option<usize> {
        let Some(id) = event.g else {
            self.counts.add(Kind::Incomplete, Some(event));
            return None;
        };
        if let Some(thread) = thread
            && let Some((running, slot)) = self.threads[thread].running
            && running == id
            && self.goroutines.at(slot).id == id
            && self.goroutines.at(slot).alive
        {
            return Some(slot);
        }
        Some(self.slot_of(id, event))
    }

    /// The goroutine in `slot` turns to `to`. Where its state is not one of `legal`, events are
    /// missing, and what it did since its last one is unknown.
    #[inline]
    pub(super) fn turn(&mut self, slot: usize, event: &Event, legal: u8, to: G) {
        self.turned(slot, event, legal, to);
    }

    #[inline]
    fn turned(&mut self, slot: usize, event: &Event, legal: u8, to: G) -> Turned {
        let goroutine = self.goroutines.at(slot);
        let (from, since) = (goroutine.state, goroutine.since);
        let mut shown = from;
        if (legal | G::Unknown.bit()) & from.bit() == 0 {
            self.counts.add(Kind::GoroutineSequence, Some(event));
            shown = G::Unknown;
        }
        let mut now = event.time;
        if now < since {
            self.counts.add_step_back(since.since(now), event);
            now = since;
        }
        goroutine.state = to;
        close(&mut self.sink, goroutine, slot, now, shown, false);
        self.levels.goroutine_turns(from, to);
        Turned { shown, since, now }
    }

    /// `child` is made by the event's goroutine.
    pub(super) fn goroutine_made(
        &mut self,
        child: GId,
        made_at: Place,
        runnable: bool,
        event: &Event,
    ) {
        if let Some(slot) = self.goroutines.find(child) {
            self.counts.add(Kind::MadeTwice, Some(event));
            let since = self.goroutines.at(slot).since;
            self.dies(slot, event.time.max(since), G::Unknown, None, false);
        }
        let state = if runnable { G::Runnable } else { G::Waiting };
        let time = event.time.max(self.begin);
        if event.time < self.begin {
            self.counts
                .add_step_back(self.begin.since(event.time), event);
        }
        let slot = self.born(child, event.g, made_at, false, time, state);
        let goroutine = self.goroutines.at(slot);
        goroutine.cause = Cause::Created;
        goroutine.waker = event.g;
    }

    /// The event's goroutine begins to run.
    #[inline]
    pub(super) fn goroutine_starts(
        &mut self,
        thread: Option<usize>,
        found: Option<Found>,
        event: &Event,
    ) {
        let Some(id) = event.g else {
            self.counts.add(Kind::Incomplete, Some(event));
            return;
        };
        let slot = self.slot_of(id, event);
        let turned = self.turned(slot, event, G::Runnable.bit(), G::Running);
        let goroutine = self.goroutines.at(slot);
        goroutine.proc = event.p;
        goroutine.place = Place::Unknown;
        goroutine.implicit = false;
        let (cause, waker) = (goroutine.cause, goroutine.waker);
        if turned.shown == G::Runnable && cause != Cause::Before {
            self.sink.wake(&Wake {
                goroutine: id,
                slot,
                ready: turned.since,
                start: turned.now,
                cause,
                waker,
                found,
                proc: event.p,
            });
        }
        self.proc_with(event.p, Some(id), event, P::Scheduler.bit(), P::Running);
        if let Some(thread) = thread {
            self.threads[thread].running = Some((id, slot));
            self.thread_turns(thread, event, ThreadState::Running);
        }
    }

    /// The event's goroutine stops to run: its P and thread are the scheduler's again.
    #[inline]
    fn leaves(&mut self, thread: Option<usize>, slot: usize, event: &Event, to: G) {
        let legal = if self.goroutines.at(slot).implicit {
            // Nobody records the moment when a call that was not announced returns.
            G::Running.bit() | G::SyscallWithoutP.bit()
        } else {
            G::Running.bit()
        };
        self.turn(slot, event, legal, to);
        self.goroutines.at(slot).implicit = false;
        self.scheduler_again(thread, event);
    }

    #[inline]
    fn scheduler_again(&mut self, thread: Option<usize>, event: &Event) {
        self.proc_to(event.p, event, P::Running.bit(), P::Scheduler);
        if let Some(thread) = thread {
            self.threads[thread].running = None;
            self.thread_turns(thread, event, ThreadState::Scheduler);
        }
    }

    /// The event's goroutine gives up its P and stays runnable.
    pub(super) fn goroutine_gives_up(
        &mut self,
        thread: Option<usize>,
        cause: Cause,
        event: &Event,
    ) {
        if let Some(slot) = self.slot_on(thread, event) {
            self.leaves(thread, slot, event, G::Runnable);
            let goroutine = self.goroutines.at(slot);
            goroutine.cause = cause;
            goroutine.waker = None;
        }
    }

    /// The event's goroutine waits.
    #[inline]
    pub(super) fn goroutine_parks(
        &mut self,
        thread: Option<usize>,
        reason: Text,
        object: Option<ObjectId>,
        place: Place,
        event: &Event,
    ) {
        if let Some(slot) = self.slot_on(thread, event) {
            self.leaves(thread, slot, event, G::Waiting);
            let goroutine = self.goroutines.at(slot);
            goroutine.reason = reason;
            goroutine.object = object;
            goroutine.place = place;
        }
    }

    /// `id` stops waiting.
    #[inline]
    pub(super) fn goroutine_ready(&mut self, id: GId, by: Option<Waker>, event: &Event) {
        let slot = self.slot_of(id, event);
        self.turn(slot, event, G::Waiting.bit(), G::Runnable);
        let by_goroutine = matches!(by, Some(Waker::Goroutine) | None);
        let goroutine = self.goroutines.at(slot);
        goroutine.cause = Cause::of_waker(by);
        goroutine.waker = if by_goroutine { event.g } else { None };
        goroutine.reason = Text::EMPTY;
        goroutine.object = None;
        goroutine.place = Place::Unknown;
    }

    /// The event's goroutine ends.
    pub(super) fn goroutine_exits(
        &mut self,
        thread: Option<usize>,
        how: Option<ExitHow>,
        event: &Event,
    ) {
        if let Some(slot) = self.slot_on(thread, event) {
            self.leaves(thread, slot, event, G::Unknown);
            let now = self.goroutines.at(slot).since;
            self.dies(slot, now, G::Unknown, how, false);
        }
    }

    /// The goroutine in `slot` is no more; its last span shows `shown` where it is not empty.
    fn dies(&mut self, slot: usize, now: Nanos, shown: G, how: Option<ExitHow>, alive: bool) {
        self.close_goroutine_last(slot, now, shown, alive);
        let goroutine = self.goroutines.at(slot);
        let death = GoroutineDeath {
            goroutine: goroutine.id,
            slot,
            born: goroutine.born,
            time: now,
            how,
            alive,
        };
        if goroutine.accounted != now.0 - goroutine.born.0 {
            self.counts.add(Kind::PartitionBroken, None);
        }
        self.levels.goroutine_dies(self.goroutines.at(slot).state);
        self.goroutines.remove(slot);
        self.sink.goroutine_end(&death);
    }

    fn close_goroutine_last(&mut self, slot: usize, now: Nanos, shown: G, alive: bool) {
        let goroutine = self.goroutines.at(slot);
        if alive || goroutine.since < now {
            close(&mut self.sink, goroutine, slot, now, shown, alive);
        }
    }

    /// The event's goroutine enters a system call.
    pub(super) fn syscall_begins(&mut self, thread: Option<usize>, place: Place, event: &Event) {
        let Some(slot) = self.slot_on(thread, event) else {
            return;
        };
        let to = if event.p.is_some() {
            G::Syscall
        } else {
            G::SyscallWithoutP
        };
        self.turn(slot, event, G::Running.bit(), to);
        self.goroutines.at(slot).place = place;
        self.proc_with(event.p, event.g, event, P::Running.bit(), P::Syscall);
        self.thread_to(thread, event, ThreadState::Syscall);
    }

    /// The event's goroutine is back from its system call with a P.
    pub(super) fn syscall_ends(&mut self, thread: Option<usize>, event: &Event) {
        let Some(slot) = self.slot_on(thread, event) else {
            return;
        };
        self.turn(
            slot,
            event,
            G::Syscall.bit() | G::SyscallWithoutP.bit(),
            G::Running,
        );
        let goroutine = self.goroutines.at(slot);
        goroutine.place = Place::Unknown;
        goroutine.proc = event.p;
        let legal = P::Syscall.bit() | P::Scheduler.bit();
        self.proc_with(event.p, event.g, event, legal, P::Running);
        self.running_again(thread, slot, event);
    }

    fn running_again(&mut self, thread: Option<usize>, slot: usize, event: &Event) {
        if let Some(thread) = thread {
            self.threads[thread].running = event.g.map(|id| (id, slot));
            self.thread_turns(thread, event, ThreadState::Running);
        }
    }

    /// The event's goroutine is back from its system call and has no P.
    pub(super) fn syscall_ends_without_p(&mut self, thread: Option<usize>, event: &Event) {
        let Some(slot) = self.slot_on(thread, event) else {
            return;
        };
        let mut legal = G::Syscall.bit() | G::SyscallWithoutP.bit();
        if self.goroutines.at(slot).implicit {
            // It may have gone on without a P meanwhile.
            legal |= G::Running.bit();
        }
        self.turn(slot, event, legal, G::Runnable);
        let goroutine = self.goroutines.at(slot);
        goroutine.cause = Cause::SyscallReturn;
        goroutine.waker = None;
        goroutine.place = Place::Unknown;
        goroutine.implicit = false;
        self.proc_to(
            event.p,
            event,
            P::Syscall.bit() | P::Scheduler.bit(),
            P::Scheduler,
        );
        if let Some(thread) = thread {
            self.threads[thread].running = None;
            self.thread_turns(thread, event, ThreadState::Scheduler);
        }
    }

    /// The goroutine `id`, which is in a system call, loses its P.
    pub(super) fn syscall_loses_p(&mut self, id: GId, event: &Event) {
        if let Some(slot) = self.goroutines.find(id)
            && self.goroutines.at(slot).state == G::Syscall
        {
            self.turn(slot, event, G::Syscall.bit(), G::SyscallWithoutP);
        }
    }

    /// The goroutine `id` was found in the kernel and has lost its P.
    pub(super) fn implicit_syscall(&mut self, id: GId, on_m: MId, event: &Event) {
        let slot = self.slot_of(id, event);
        self.turn(
            slot,
            event,
            G::Running.bit() | G::Syscall.bit(),
            G::SyscallWithoutP,
        );
        self.goroutines.at(slot).implicit = true;
        let thread = self.thread_index(on_m);
        self.thread_turns(thread, event, ThreadState::Syscall);
    }

    /// The event's goroutine goes on in user code without a P.
    pub(super) fn runs_without_p(&mut self, thread: Option<usize>, event: &Event) {
        let Some(slot) = self.slot_on(thread, event) else {
            return;
        };
        let legal = G::Syscall.bit() | G::SyscallWithoutP.bit() | G::Running.bit();
        if self.goroutines.at(slot).state != G::Running {
            self.turn(slot, event, legal, G::Running);
        }
        let goroutine = self.goroutines.at(slot);
        goroutine.proc = None;
        // Its call may have begun before the trace.
        goroutine.implicit = true;
        self.running_again(thread, slot, event);
    }

    /// A status says that the goroutine in `slot` is on thread `m`.
    pub(super) fn status_on_thread(
        &mut self,
        id: GId,
        slot: usize,
        m: MId,
        state: G,
        event: &Event,
    ) {
        let thread = self.thread_index(m);
        self.threads[thread].running = Some((id, slot));
        let (of_thread, of_proc) = if state == G::Running {
            (ThreadState::Running, P::Running)
        } else {
            (ThreadState::Syscall, P::Syscall)
        };
        let time = self.generation_begin.max(self.threads[thread].since);
        let begin = Event { time, ..*event };
        self.thread_turns(thread, &begin, of_thread);
        // Where the status of the thread's P came first, it could not tell that a goroutine runs.
        let held = self.procs.iter().position(|proc| proc.thread == Some(m));
        if let Some(index) = held {
            let proc = &self.procs[index];
            self.goroutines.at(slot).proc = Some(proc.id);
            if matches!(proc.own_state(), P::Scheduler | P::Syscall) {
                let time = self.generation_begin.max(proc.since);
                let goroutine = Some(id);
                let turn = ProcTurn {
                    legal: u8::MAX,
                    to: of_proc,
                    goroutine,
                    thread: Some(m),
                };
                self.proc_turns(index, &Event { time, ..*event }, turn);
            }
        }
    }

    /// The trace ends at `end`: every living goroutine's last span.
    pub(super) fn finish_goroutines(&mut self, end: Nanos) {
        for slot in 0..self.goroutines.slots() {
            let goroutine = self.goroutines.at(slot);
            if goroutine.alive {
                let shown = goroutine.state;
                self.dies(slot, end, shown, None, true);
            }
        }
    }
}
