//! What the Ms and the collector share, under the collector's lock: chunks, names, counts, and how blocks
//! are opened and sealed and statuses written.

use std::panic::Location;

use gmp_trace::event::{GState as Traced, PState};
use gmp_trace::id::{GId, MId, PId};
use gmp_trace::write::{BlockHead, BlockKind, Encoder, GoroutineStatus};

use super::chunks::{Chunk, Exchange};
use super::names::Names;
use crate::sched::g::{G, GState, Routine};
use crate::sched::m::M;
use crate::sched::p::P;
use crate::sys::tsc::ClockUnits;

/// What Ms and the collector share.
#[derive(Debug)]
pub(super) struct State {
    pub(super) exchange: Exchange,
    pub(super) names: Names,
    pub(super) clock: ClockUnits,
    /// Blocks, events and losses of the generation that is being recorded and of the one before.
    pub(super) counts: [Counts; 2],
    /// The control block that is open.
    pub(super) control: Control,
    /// What threads that are no Ms record with.
    pub(super) outside: Writer,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) blocks: u64,
    pub(super) events: u64,
    pub(super) lost: u64,
}

/// A writer of one block after the other.
#[derive(Debug)]
pub(super) struct Writer {
    encoder: Encoder,
    chunk: Option<Chunk>,
    /// The generation of its chunk, or of what it lost.
    pub(super) generation: u32,
    sequence: u32,
    /// Events that found no chunk since the last one.
    lost: u64,
}

impl Writer {
    pub(super) const fn new() -> Writer {
        Writer {
            encoder: Encoder::new(),
            chunk: None,
            generation: 0,
            sequence: 0,
            lost: 0,
        }
    }

    /// The encoder, and the bytes of its chunk, if it has one.
    #[inline(always)]
    pub(super) fn parts(&mut self) -> Option<(&mut Encoder, &mut [u8])> {
        let chunk = self.chunk?;
        // SAFETY: the writer holds the chunk, and lends it while it is borrowed itself.
        Some((&mut self.encoder, unsafe { chunk.bytes() }))
    }

    /// Whether it can write one more call in `generation`.
    #[inline(always)]
    pub(super) fn is_ready(&self, generation: u32) -> bool {
        // SAFETY: as in `parts`; only the length is looked at.
        self.generation == generation
            && self
                .chunk
                .is_some_and(|chunk| self.encoder.has_room(unsafe { chunk.bytes() }))
    }

    /// Writes `events` events with `write`, or counts them as lost.
    #[inline(always)]
    pub(super) fn write(&mut self, events: u64, write: impl FnOnce(&mut Encoder, &mut [u8])) {
        match self.parts() {
            Some((encoder, chunk)) => write(encoder, chunk),
            None => self.lost += events,
        }
    }

    /// Writes the status of `p`, unless `generation` has touched it. Under the collector's lock.
    pub(super) fn touch_p(
        &mut self,
        now: u64,
        generation: u32,
        p: &P,
        state: PState,
        on_m: Option<u64>,
    ) {
        if p.traced.generation() != generation {
            p.traced.touch(generation);
            self.write(1, |e, c| e.proc_status(c, now, p.id, state, on_m));
        }
    }
}

/// The writer of control blocks.
#[derive(Debug)]
pub(super) struct Control {
    generation: u32,
    sequence: u32,
    encoder: Encoder,
    chunk: Option<Chunk>,
    /// Statuses that found no chunk.
    pub(super) lost: u64,
    /// Bytes that restating took.
    pub(super) restated: u64,
}

impl Control {
    pub(super) fn new() -> Control {
        Control {
            generation: 0,
            sequence: 0,
            encoder: Encoder::new(),
            chunk: None,
            lost: 0,
            restated: 0,
        }
    }

    /// From now on it writes in `generation`.
    pub(super) fn begin(&mut self, exchange: &mut Exchange, generation: u32) {
        self.end(exchange);
        self.generation = generation;
        self.sequence = 0;
        self.lost = 0;
        self.restated = 0;
    }

    /// Writes into the control block, a new one if there is no room.
    pub(super) fn write(
        &mut self,
        exchange: &mut Exchange,
        now: u64,
        write: impl FnOnce(&mut Encoder, &mut [u8]),
    ) {
        self.write_into(exchange, Exchange::take, now, write);
    }

    /// [`Control::write`] for the beginning or the end of a generation.
    pub(super) fn write_bound(
        &mut self,
        exchange: &mut Exchange,
        now: u64,
        write: impl FnOnce(&mut Encoder, &mut [u8]),
    ) {
        self.write_into(exchange, Exchange::take_kept, now, write);
    }

    fn write_into(
        &mut self,
        exchange: &mut Exchange,
        take: fn(&mut Exchange) -> Option<Chunk>,
        now: u64,
        write: impl FnOnce(&mut Encoder, &mut [u8]),
    ) {
        // SAFETY: the chunk is held here.
        let room = self
            .chunk
            .is_some_and(|chunk| self.encoder.has_room(unsafe { chunk.bytes() }));
        if !room {
            self.end(exchange);
            let Some(chunk) = take(exchange) else {
                self.lost += 1;
                return;
            };
            let head = BlockHead {
                kind: BlockKind::Control,
                generation: self.generation,
                sequence: self.sequence,
                m: None,
                base_time: now,
                g: None,
                p: None,
            };
            self.sequence += 1;
            // SAFETY: the chunk was just taken.
            self.encoder.begin(unsafe { chunk.bytes() }, &head);
            self.chunk = Some(chunk);
        }
        let Some(chunk) = self.chunk else { return };
        let before = self.encoder.used();
        // SAFETY: the chunk is held here.
        write(&mut self.encoder, unsafe { chunk.bytes() });
        self.restated += (self.encoder.used() - before) as u64;
    }

    pub(super) fn end(&mut self, exchange: &mut Exchange) {
        if let Some(chunk) = self.chunk.take() {
            // SAFETY: the chunk is held here.
            self.encoder.seal(unsafe { chunk.bytes() }, false);
            exchange.give_back(chunk);
        }
    }
}

impl State {
    /// Opens a block for `writer` in `generation`, after sealing the one it has. False when there is no
    /// chunk.
    pub(super) fn open(
        &mut self,
        writer: &mut Writer,
        generation: u32,
        now: u64,
        m: Option<&M>,
    ) -> bool {
        self.seal(writer);
        if writer.generation != generation {
            writer.generation = generation;
            writer.sequence = 0;
        }
        let Some(chunk) = self.exchange.take() else {
            return false;
        };
        let head = BlockHead {
            kind: BlockKind::Events,
            generation,
            sequence: writer.sequence,
            m: m.and_then(|m| MId::new(m.id)),
            base_time: now,
            g: m.and_then(M::current).and_then(|g| GId::new(g.id.get())),
            p: m.and_then(M::traced_p).and_then(|p| PId::new(p.id)),
        };
        writer.sequence += 1;
        // SAFETY: the chunk was just taken.
        let bytes = unsafe { chunk.bytes() };
        writer.encoder.begin(bytes, &head);
        writer.chunk = Some(chunk);
        if writer.lost > 0 {
            writer.encoder.loss(bytes, writer.lost);
            self.counts_of(generation).lost += std::mem::take(&mut writer.lost);
        }
        true
    }

    /// Seals the block of `writer`.
    pub(super) fn seal(&mut self, writer: &mut Writer) {
        if let Some(chunk) = writer.chunk.take() {
            let counts = self.counts_of(writer.generation);
            counts.blocks += 1;
            counts.events += writer.encoder.events();
            // SAFETY: the writer gave the chunk up.
            writer.encoder.seal(unsafe { chunk.bytes() }, false);
            self.exchange.give_back(chunk);
        }
    }

    /// Seals the last block of `writer` in its generation, and counts what found no room in it.
    pub(super) fn close(&mut self, writer: &mut Writer) {
        self.seal(writer);
        self.counts_of(writer.generation).lost += std::mem::take(&mut writer.lost);
    }

    pub(super) fn counts_of(&mut self, generation: u32) -> &mut Counts {
        &mut self.counts[generation as usize % 2]
    }

    /// The number of a place in `generation`.
    pub(super) fn site(
        &mut self,
        generation: u32,
        location: &'static Location<'static>,
        start: Option<&'static Routine>,
    ) -> u32 {
        self.names
            .site(&mut self.exchange, generation, location, start)
    }

    /// The number of a text.
    pub(super) fn text(&mut self, generation: u32, text: &'static str) -> u32 {
        self.names.text(&mut self.exchange, generation, text)
    }

    /// The status of `g`, which has `state`, for `generation`, which now has touched it. Of a goroutine
    /// that runs nothing is read that it may be changing.
    fn status(
        &mut self,
        generation: u32,
        g: &G,
        state: Traced,
        on_m: Option<u64>,
    ) -> GoroutineStatus {
        let wait = if state == Traced::Waiting {
            g.wait.get()
        } else {
            None
        };
        let site = wait.map_or(0, |wait| self.site(generation, wait.site, None));
        let created_at = g
            .created_at
            .get()
            .map_or(0, |at| self.site(generation, at, g.routine.get()));
        g.traced.touch(generation);
        GoroutineStatus {
            g: g.id.get(),
            state,
            on_m,
            reason: wait.map_or(0, |wait| wait.reason as u32),
            object: wait.map_or(0, |wait| wait.object),
            site,
            created_at,
            creator: g.creator.get(),
            label: 0,
        }
    }

    /// Writes the status of `g`, which has `state`, with `writer`, unless `generation` has touched it.
    pub(super) fn touch(
        &mut self,
        writer: &mut Writer,
        now: u64,
        generation: u32,
        g: &G,
        state: Traced,
        on_m: Option<u64>,
    ) {
        if g.traced.generation() != generation {
            let status = self.status(generation, g, state, on_m);
            writer.write(1, |e, c| e.go_status(c, now, &status));
        }
    }

    /// Writes the status of `g` into a control block, if `generation` has not touched it and it lives.
    pub(super) fn restate(&mut self, generation: u32, g: &G, runs_on: Option<u64>) {
        // The state first: a goroutine that is being made gets its mark before it becomes runnable, and
        // nobody takes the lock for that.
        let Some(state) = traced_state(g, runs_on) else {
            return;
        };
        if g.traced.generation() >= generation {
            return;
        }
        let on_m = runs_on.or_else(|| g.m().filter(|_| state == Traced::Syscall).map(|m| m.id));
        let status = self.status(generation, g, state, on_m);
        let now = self.clock.now_units();
        self.control
            .write(&mut self.exchange, now, |encoder, chunk| {
                encoder.go_status(chunk, now, &status);
            });
    }

    /// [`State::restate`] for a P.
    pub(super) fn restate_p(&mut self, generation: u32, p: &P) {
        if p.traced.generation() >= generation {
            return;
        }
        p.traced.touch(generation);
        let holder = p.m().map(|m| m.id);
        let state = if p.in_call_of().is_some() {
            PState::Syscall
        } else if holder.is_some() {
            PState::Running
        } else {
            PState::Idle
        };
        let now = self.clock.now_units();
        self.control
            .write(&mut self.exchange, now, |encoder, chunk| {
                encoder.proc_status(chunk, now, p.id, state, holder);
            });
    }
}

/// The state of a goroutine as the format has it; `None` for one that does not live.
fn traced_state(g: &G, runs_on: Option<u64>) -> Option<Traced> {
    let state = g.state();
    if runs_on.is_some() && state != GState::Syscall as u32 {
        return Some(Traced::Running);
    }
    [
        (GState::Runnable, Traced::Runnable),
        (GState::Preempted, Traced::Runnable),
        (GState::Running, Traced::Running),
        (GState::Syscall, Traced::Syscall),
        (GState::Waiting, Traced::Waiting),
    ]
    .into_iter()
    .find_map(|(of, traced)| (of as u32 == state).then_some(traced))
}
