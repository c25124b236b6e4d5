//! Whether a thread's next event can come next, and what it changes: the rules of the ordering.
//!
//! Each rule has three outcomes: the event was accepted, it has to wait for another thread's event
//! ([`Step::Wait`] says for which), or the trace is broken there ([`Fault`]). The rules of Ps and of
//! the collector are here; those of goroutines and of spans have files of their own.

use super::chunk::{Chunk, RawEvent};
use super::fault::Fault;
use super::generation::Names;
use super::spec;
use super::states::{GStatus, Goroutine, Index, Key, NOBODY, Proc, Sequence, Thread, Waits};
use super::words::Words;
use crate::anomaly::Anomalies;
use crate::event::{Body, Event};
use crate::id::{GId, MId, PId};
use crate::tables::StackRef;
use crate::time::Nanos;
use std::collections::HashSet;

/// What became of an event that is not broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It was accepted, and given.
    Done,
    /// It has to wait.
    Wait(Key),
}

pub(crate) type Verdict = Result<Step, Fault>;

/// What the rules need of the generation, and where events go.
#[derive(Debug)]
pub(crate) struct Out<'a> {
    pub(crate) events: &'a mut Vec<Event>,
    pub(crate) anomalies: &'a mut Anomalies,
    pub(crate) names: &'a Names,
    pub(crate) words: &'a Words,
    /// Time zero of the trace, in nanoseconds of its clock.
    pub(crate) origin: i64,
    /// The position of the next event.
    pub(crate) order: &'a mut u64,
    /// The events among which is the one that is looked at, and its number.
    pub(crate) chunk: &'a Chunk,
    pub(crate) number: usize,
}

impl Out<'_> {
    /// Where in the file the event is that is looked at.
    #[cold]
    pub(crate) fn offset(&self) -> u64 {
        self.chunk.offset(self.number)
    }

    #[inline(always)]
    pub(crate) fn give(&mut self, time: i64, thread: &Thread, body: Body) {
        self.give_to(time, (thread.m, thread.p, thread.g), body);
    }

    #[inline(always)]
    pub(crate) fn give_to(
        &mut self,
        time: i64,
        (m, p, g): (Option<MId>, Option<PId>, Option<GId>),
        body: Body,
    ) {
        self.events.push(Event {
            time: Nanos(time.saturating_sub(self.origin)),
            order: *self.order,
            m,
            p,
            g,
            body,
        });
        *self.order += 1;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collector {
    Undetermined,
    Resting,
    Running,
}

/// The states of all goroutines, Ps and threads.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) strict: bool,
    pub(super) goroutines: Vec<Goroutine>,
    free: Vec<u32>,
    goroutine_index: Index,
    pub(super) procs: Vec<Proc>,
    pub(super) proc_index: Index,
    pub(super) threads: Vec<Thread>,
    thread_index: Index,
    pub(crate) waits: Waits,
    pub(super) tasks: HashSet<u64>,
    /// Counts the generations.
    pub(super) generation: u32,
    /// Whether no generation came before.
    pub(super) first: bool,
    pub(super) collector: Collector,
    pub(super) collector_sequence: u64,
    pub(super) collector_cycle: u64,
    /// Whether something was let through that should not be.
    pub(crate) damaged: bool,
}

impl Order {
    pub(crate) fn new(strict: bool) -> Order {
        Order {
            strict,
            goroutines: Vec::new(),
            free: Vec::new(),
            goroutine_index: Index::default(),
            procs: Vec::new(),
            proc_index: Index::default(),
            threads: Vec::new(),
            thread_index: Index::default(),
            waits: Waits::default(),
            tasks: HashSet::new(),
            generation: 0,
            first: true,
            collector: Collector::Undetermined,
            collector_sequence: 0,
            collector_cycle: 0,
            damaged: false,
        }
    }

    /// A generation begins, which follows the one before or does not.
    pub(crate) fn begin_generation(&mut self, follows: bool) {
        self.generation = self.generation.wrapping_add(1);
        self.first = !follows || self.damaged;
        self.damaged = false;
        if self.first {
            self.goroutines.clear();
            self.free.clear();
            self.goroutine_index.clear();
            self.procs.clear();
            self.proc_index.clear();
            self.threads.clear();
            self.thread_index.clear();
            self.tasks.clear();
            self.collector = Collector::Undetermined;
        }
    }

    /// The slot of thread `m`.
    pub(crate) fn thread(&mut self, m: u64) -> u32 {
        if let Some(slot) = self.thread_index.get(m) {
            return slot;
        }
        let slot = self.threads.len() as u32;
        let m_id = MId::new(m);
        self.threads.push(Thread {
            m: m_id,
            p: None,
            g: None,
            p_slot: NOBODY,
            g_slot: NOBODY,
        });
        self.thread_index.insert(m, slot);
        slot
    }

    pub(super) fn find_thread(&mut self, m: u64) -> Option<u32> {
        self.thread_index.get(m)
    }

    /// Looks at `event` of the thread in slot `thread`; `force` lets it through whatever it waits for.
    #[inline(always)]
    pub(crate) fn advance(
        &mut self,
        event: &RawEvent,
        thread: u32,
        force: bool,
        out: &mut Out<'_>,
    ) -> Verdict {
        match event.kind {
            spec::GO_START => self.go_start(event, thread, force, out),
            spec::GO_BLOCK | spec::GO_STOP | spec::GO_DESTROY => self.go_stops(event, thread, out),
            spec::GO_UNBLOCK => self.go_unblock(event, thread, force, out),
            _ => self.advance_rarer(event, thread, force, out),
        }
    }

    /// As [`Order::advance`], of an event with large numbers.
    #[inline(never)]
    pub(crate) fn advance_wide(
        &mut self,
        event: &RawEvent,
        thread: u32,
        out: &mut Out<'_>,
    ) -> Verdict {
        self.advance(event, thread, false, out)
    }

    #[inline(never)]
    fn advance_rarer(
        &mut self,
        event: &RawEvent,
        thread: u32,
        force: bool,
        out: &mut Out<'_>,
    ) -> Verdict {
        match event.kind {
            spec::GO_CREATE | spec::GO_CREATE_BLOCKED => self.go_create(event, thread, out),
            spec::GO_SYSCALL_BEGIN => self.syscall_begin(event, thread, out),
            spec::GO_SYSCALL_END => self.syscall_end(event, thread, out),
            spec::GO_SYSCALL_END_BLOCKED => self.syscall_end_blocked(event, thread, force, out),
            spec::PROC_START => self.proc_start(event, thread, force, out),
            spec::PROC_STOP => self.proc_stop(event, thread, out),
            spec::PROC_STEAL => self.proc_steal(event, thread, force, out),
            spec::PROC_STATUS => self.proc_status(event, thread, out),
            spec::GO_STATUS | spec::GO_STATUS_STACK => self.go_status(event, thread, out),
            spec::GO_SWITCH | spec::GO_SWITCH_DESTROY => self.go_switch(event, thread, force, out),
            spec::GO_CREATE_SYSCALL => self.create_syscall(event, thread, out),
            spec::GO_DESTROY_SYSCALL => self.destroy_syscall(event, thread, out),
            spec::GC_ACTIVE | spec::GC_BEGIN | spec::GC_END => {
                self.collector(event, thread, force, out)
            }
            _ => self.annotation(event, thread, out),
        }
    }

    /// A strict reader stops at `fault`; another one counts it and goes on.
    #[cold]
    pub(super) fn tolerate(&mut self, fault: Fault, out: &mut Out<'_>) -> Result<(), Fault> {
        if self.strict {
            return Err(fault);
        }
        let offset = out.offset();
        out.anomalies.add(fault.kind(), offset, 0);
        Ok(())
    }

    // ---- goroutines

    pub(super) fn find_goroutine(&mut self, id: u64) -> Option<u32> {
        self.goroutine_index.get(id)
    }

    /// The slot of goroutine `id`, which is made where there is none.
    pub(super) fn goroutine(&mut self, id: GId) -> u32 {
        if let Some(slot) = self.goroutine_index.get(id.get()) {
            return slot;
        }
        let fresh = Goroutine {
            id,
            status: GStatus::Unknown,
            waiters: 0,
            sequence: Sequence::default(),
            spans: None,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.goroutines[slot as usize] = fresh;
                slot
            }
            None => {
                self.goroutines.push(fresh);
                (self.goroutines.len() - 1) as u32
            }
        };
        self.goroutine_index.insert(id.get(), slot);
        slot
    }

    /// The goroutine in `slot` is no more.
    pub(super) fn forget_goroutine(&mut self, slot: u32) {
        let Some(goroutine) = self.goroutines.get_mut(slot as usize) else {
            return;
        };
        goroutine.status = GStatus::Unknown;
        goroutine.spans = None;
        let id = goroutine.id.get();
        // Of a broken trace two threads may have had it, and the slot is free already.
        if goroutine.waiters == 0 && self.goroutine_index.get(id) == Some(slot) {
            self.goroutine_index.remove(id);
            self.free.push(slot);
        }
    }

    /// The goroutine in `slot` has changed: those who waited for that go on.
    #[inline(always)]
    pub(super) fn goroutine_changed(&mut self, slot: u32) {
        if self.goroutines[slot as usize].waiters != 0 {
            self.wake_for_goroutine(slot);
        }
    }

    #[cold]
    fn wake_for_goroutine(&mut self, slot: u32) {
        let goroutine = &mut self.goroutines[slot as usize];
        if goroutine.sequence.generation == self.generation {
            let next = goroutine.sequence.number.wrapping_add(1);
            goroutine.waiters -= self.waits.wake(Key::Goroutine(slot, next));
        }
    }

    // ---- waiting

    /// `cursor` waits for `key`.
    pub(crate) fn wait(&mut self, key: Key, cursor: u32) {
        match key {
            Key::Goroutine(slot, _) => self.goroutines[slot as usize].waiters += 1,
            Key::Proc(slot, _) | Key::Loss(slot) => self.procs[slot as usize].waiters += 1,
            Key::Collector(_) => {}
        }
        self.waits.add(key, cursor);
    }

    /// `cursor` no longer waits for `key`, which did not come.
    pub(crate) fn end_wait(&mut self, key: Key, cursor: u32) {
        self.waits.remove(key, cursor);
        match key {
            Key::Goroutine(slot, _) => self.goroutines[slot as usize].waiters -= 1,
            Key::Proc(slot, _) | Key::Loss(slot) => self.procs[slot as usize].waiters -= 1,
            Key::Collector(_) => {}
        }
    }

    // ---- what several rules use

    pub(super) fn sequence(&self, number: u64) -> Sequence {
        Sequence {
            generation: self.generation,
            number,
        }
    }

    /// Whether the thread runs a goroutine on a P, as most events need.
    #[inline(always)]
    pub(super) fn in_user_code(
        &mut self,
        context: &Thread,
        out: &mut Out<'_>,
    ) -> Result<(), Fault> {
        if context.p_slot != NOBODY && context.g_slot != NOBODY {
            return Ok(());
        }
        self.not_in_user_code(context, out)
    }

    #[cold]
    fn not_in_user_code(&mut self, context: &Thread, out: &mut Out<'_>) -> Result<(), Fault> {
        if context.m.is_none() {
            return Err(Fault::NeedsThread);
        }
        if context.p.is_none() {
            self.tolerate(Fault::NeedsProc, out)?;
        }
        match context.g {
            Some(_) => Ok(()),
            None => Err(Fault::NeedsGoroutine),
        }
    }

    /// The stack with `id`.
    #[inline(always)]
    pub(super) fn stack(&mut self, id: u64, out: &mut Out<'_>) -> Result<Option<StackRef>, Fault> {
        match out.names.stack(id) {
            Ok(stack) => Ok(stack),
            Err(fault) => {
                self.tolerate(fault, out)?;
                Ok(None)
            }
        }
    }
}
