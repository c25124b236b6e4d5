//! One generation in the order of cause: takes records of all Ms, earliest first, and makes events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::anomaly::{Anomalies, AnomalyKind};
use crate::block::BlockKind;
use crate::event::{Body, Event, Found, PState};
use crate::id::{GId, MId};
use crate::info::TraceInfo;
use crate::native::bodies::{Meaning, nanos, optional_m, p_id};
use crate::native::clock::Clock;
use crate::native::cursor::{Cursor, Environment};
use crate::native::generation::Generation;
use crate::native::lookup::{Lookup, each_record};
use crate::native::order::{Held, Key, Order, Turn};
use crate::native::states::{GoState, NOBODY, ProcState};
use crate::small::Small;
use crate::spec::{Head, Kind};
use crate::tables::Tables;

/// Events that are made before they are given on.
pub(super) const BATCH: usize = 256;

/// What lives as long as the trace.
pub(super) struct Shared {
    pub(super) arities: Box<[u8; 256]>,
    pub(super) tables: Tables,
    pub(super) anomalies: Anomalies,
    pub(super) info: TraceInfo,
    pub(super) clock: Clock,
    /// Time of the last event, in units of the clock.
    pub(super) last_ticks: u64,
}

/// A generation that is being given.
pub(super) struct Merge {
    cursors: Vec<Cursor>,
    by_m: BTreeMap<MId, u32>,
    /// Control blocks, until their statuses were given: they come before everything else.
    control: Option<Cursor>,
    lookup: Lookup,
    order: Order,
    /// Cursors that can go on, by the time of their record.
    runnable: BinaryHeap<Reverse<(u64, u32)>>,
    /// Cursors that wait, by the time of their record, with the ticket of their wait; those with an
    /// old ticket wait no longer.
    blocked: BinaryHeap<Reverse<(u64, u32, u64)>>,
    /// The cursor that goes on, and whether whatever it has is let through.
    current: Option<(u32, bool)>,
    /// When the generation began.
    begin: u64,
}

impl Merge {
    /// Makes ready to give `generation`; gives its first event, the beginning.
    pub(super) fn new(generation: Generation, shared: &mut Shared, out: &mut Vec<Event>) -> Merge {
        let lookup = Lookup::read(
            &generation.tables,
            &shared.arities,
            &mut shared.tables,
            &mut shared.info.modules,
            &mut shared.anomalies,
        );
        let mut clocks = None;
        for block in &generation.control {
            each_record(block, &shared.arities, &mut None, |kind, args, _, _| {
                if kind == Kind::ClockPair && clocks.is_none() {
                    clocks = Some([args[0], args[1], args[2]]);
                }
            });
        }
        let base_times = generation
            .streams
            .values()
            .flatten()
            .map(|block| block.base_time);
        let begin = clocks.map_or_else(|| base_times.min(), |clocks| Some(clocks[0]));
        let mut cursors = Vec::new();
        let mut by_m = BTreeMap::new();
        for ((kind, m), blocks) in generation.streams {
            if let (BlockKind::Events, Some(m)) = (kind, m) {
                by_m.insert(m, cursors.len() as u32);
            }
            cursors.push(Cursor::new(m, blocks));
        }
        let merge = Merge {
            order: Order::new(cursors.len()),
            cursors,
            by_m,
            control: Some(Cursor::new(None, generation.control)),
            lookup,
            runnable: BinaryHeap::new(),
            blocked: BinaryHeap::new(),
            current: None,
            begin: begin.unwrap_or(shared.last_ticks),
        };
        shared.clock.set_origin(merge.begin);
        if let Some([_, _, wall]) = clocks {
            shared.info.wall_start.get_or_insert(nanos(wall));
        }
        let body = Body::Sync {
            generation: u64::from(generation.number),
            mono: clocks.map(|clocks| nanos(clocks[1])),
            wall: clocks.map(|clocks| nanos(clocks[2])),
        };
        merge.emit(shared, out, merge.begin, None, body, Held::NOTHING);
        shared.info.generations += 1;
        merge
    }

    /// Gives some events; returns false, having given none, when the generation is over.
    pub(super) fn fill(&mut self, shared: &mut Shared, out: &mut Vec<Event>) -> bool {
        if let Some(mut control) = self.control.take() {
            if self.give_statuses(&mut control, shared, out) {
                self.control = Some(control);
                return true;
            }
            self.begin_streams(shared);
        }
        while out.len() < BATCH {
            let Some((cursor, force)) = self.current.or_else(|| self.choose()) else {
                break;
            };
            self.current = Some((cursor, force));
            if force {
                let offset = self.cursors[cursor as usize].offset();
                shared.anomalies.add(AnomalyKind::OrderForced, offset, 0);
            }
            self.run(cursor, force, shared, out);
        }
        !out.is_empty()
    }

    /// Decodes the first record of every stream.
    fn begin_streams(&mut self, shared: &mut Shared) {
        for place in 0..self.cursors.len() as u32 {
            if self.advance(place, shared) {
                self.runnable
                    .push(Reverse((self.cursors[place as usize].time, place)));
            }
        }
    }

    #[inline]
    fn advance(&mut self, cursor: u32, shared: &mut Shared) -> bool {
        let mut environment = Environment {
            arities: &shared.arities,
            lookup: &self.lookup,
            anomalies: &mut shared.anomalies,
        };
        self.cursors[cursor as usize].advance(&mut environment)
    }

    /// The cursor with the earliest record that can go; where none can, the earliest of all.
    fn choose(&mut self) -> Option<(u32, bool)> {
        if let Some(Reverse((_, cursor))) = self.runnable.pop() {
            return Some((cursor, false));
        }
        while let Some(Reverse((_, cursor, ticket))) = self.blocked.pop() {
            if self.order.is_waiting(cursor, ticket) {
                self.order.end_wait(cursor);
                return Some((cursor, true));
            }
        }
        None
    }

    /// Gives events of `cursor` until another one is earlier, it has to wait, it ends, or the batch
    /// is full.
    fn run(&mut self, cursor: u32, mut force: bool, shared: &mut Shared, out: &mut Vec<Event>) {
        let mut limit = self.limit();
        while out.len() < BATCH {
            let place = cursor as usize;
            if !self.cursors[place].ready && !self.advance(cursor, shared) {
                self.current = None;
                return;
            }
            let time = self.cursors[place].time;
            if time > limit && !force {
                // The earlier one goes on, and this one takes its place in the heap.
                if let Some(mut first) = self.runnable.peek_mut() {
                    let Reverse((_, next)) =
                        std::mem::replace(&mut *first, Reverse((time, cursor)));
                    self.current = Some((next, false));
                }
                return;
            }
            if let Err(key) = self.step(cursor, force, shared, out) {
                self.block(cursor, time, key);
                self.current = None;
                return;
            }
            self.cursors[place].ready = false;
            if force {
                force = false;
                self.current = Some((cursor, false));
            }
            if !self.order.woken.is_empty() {
                self.take_woken();
                limit = self.limit();
            }
        }
    }

    #[inline]
    fn limit(&self) -> u64 {
        self.runnable
            .peek()
            .map_or(u64::MAX, |Reverse((time, _))| *time)
    }

    fn take_woken(&mut self) {
        for cursor in self.order.woken.drain(..) {
            self.runnable
                .push(Reverse((self.cursors[cursor as usize].time, cursor)));
        }
    }

    #[cold]
    fn block(&mut self, cursor: u32, time: u64, key: Key) {
        let ticket = self.order.wait(key, cursor);
        self.blocked.push(Reverse((time, cursor, ticket)));
        if self.blocked.len() > 2 * self.cursors.len() + 64 {
            let order = &self.order;
            self.blocked
                .retain(|Reverse((_, cursor, ticket))| order.is_waiting(*cursor, *ticket));
        }
    }

    /// Does what the record of `cursor` says, or tells what it has to wait for.
    #[inline]
    fn step(
        &mut self,
        cursor: u32,
        force: bool,
        shared: &mut Shared,
        out: &mut Vec<Event>,
    ) -> Result<(), Key> {
        let place = cursor as usize;
        if let Some(opened) = self.cursors[place].opened.take() {
            self.order.opened(cursor, opened);
        }
        let source = &self.cursors[place];
        let Some(head) = source.record.head else {
            let [a, b, c, d, ..] = source.record.args;
            let body = Body::Unknown {
                kind: u16::from(source.record.byte),
                args: [a, b, c, d],
            };
            let (time, m, held) = (source.time, source.m, self.order.held[place]);
            self.emit(shared, out, time, m, body, held);
            return Ok(());
        };
        let (time, m, offset) = (source.time, source.m, source.offset());
        let before = self.order.held[place];
        let mut turn = Turn {
            cursor,
            force,
            anomalies: &mut shared.anomalies,
            offset,
        };
        apply(
            &mut self.order,
            &self.by_m,
            head,
            &source.record.args,
            &mut turn,
        )?;
        let mut meaning = Meaning {
            lookup: &self.lookup,
            clock: &shared.clock,
            tables: &mut shared.tables,
            anomalies: &mut shared.anomalies,
            offset,
            stack: source.stack,
        };
        let first = match head.kind {
            Kind::ParkStart => Some(meaning.park(source, source.record.args[1])),
            Kind::YieldStart => Some(Body::GoYield {
                stack: source.stack,
            }),
            Kind::ExitStart => Some(Body::GoExit {
                how: Small::from_number(0),
            }),
            _ => None,
        };
        let after = self.order.held[place];
        if let Some(first) = first {
            let found = if head.value == 0 {
                Found::Runnext
            } else {
                Found::Local
            };
            let started = Held::shown(after.p, after.g);
            self.cursors[place].stack = None;
            self.emit(shared, out, time, m, first, before);
            self.emit(
                shared,
                out,
                time,
                m,
                Body::GoStart { found: Some(found) },
                started,
            );
            return Ok(());
        }
        let Some(body) = meaning.body(head, source) else {
            shared.anomalies.add(AnomalyKind::BadRecord, offset, 0);
            return Ok(());
        };
        let (m, held) = match head.kind {
            Kind::Start => (m, Held::shown(before.p, after.g)),
            Kind::ProcStart => (m, Held::shown(after.p, before.g)),
            Kind::CpuSample => sampled(&source.record.args),
            _ => (m, before),
        };
        self.cursors[place].stack = None;
        self.emit(shared, out, time, m, body, held);
        Ok(())
    }

    /// Gives the statuses and losses of control blocks; returns whether there are more.
    fn give_statuses(
        &mut self,
        control: &mut Cursor,
        shared: &mut Shared,
        out: &mut Vec<Event>,
    ) -> bool {
        loop {
            let mut environment = Environment {
                arities: &shared.arities,
                lookup: &self.lookup,
                anomalies: &mut shared.anomalies,
            };
            if !control.advance(&mut environment) {
                return false;
            }
            control.opened = None;
            let Some(head) = control.record.head else {
                continue;
            };
            let offset = control.offset();
            match head.kind {
                Kind::GoStatus | Kind::ProcStatus | Kind::Loss => {}
                Kind::GenBegin | Kind::GenEnd | Kind::ClockPair | Kind::TraceEnd => continue,
                _ => {
                    shared.anomalies.add(AnomalyKind::BadRecord, offset, 0);
                    continue;
                }
            }
            let anomalies = &mut shared.anomalies;
            let mut turn = Turn {
                cursor: NOBODY,
                force: false,
                anomalies,
                offset,
            };
            // None of these ever waits.
            let _ = apply(
                &mut self.order,
                &self.by_m,
                head,
                &control.record.args,
                &mut turn,
            );
            let mut meaning = Meaning {
                lookup: &self.lookup,
                clock: &shared.clock,
                tables: &mut shared.tables,
                anomalies: &mut shared.anomalies,
                offset,
                stack: control.stack.take(),
            };
            match meaning.body(head, control) {
                Some(body) => self.emit(shared, out, self.begin, None, body, Held::NOTHING),
                None => shared.anomalies.add(AnomalyKind::BadRecord, offset, 0),
            }
            if out.len() >= BATCH {
                return true;
            }
        }
    }

    #[inline]
    fn emit(
        &self,
        shared: &mut Shared,
        out: &mut Vec<Event>,
        ticks: u64,
        m: Option<MId>,
        body: Body,
        held: Held,
    ) {
        if ticks < shared.last_ticks {
            count_skew(shared, ticks);
        }
        shared.last_ticks = ticks;
        let (time, order) = (shared.clock.at(ticks), shared.info.events);
        shared.info.events += 1;
        out.push(Event {
            time,
            order,
            m,
            p: held.p,
            g: held.g,
            body,
        });
    }
}

#[cold]
#[inline(never)]
fn count_skew(shared: &mut Shared, ticks: u64) {
    let back = shared.clock.duration(shared.last_ticks - ticks).0;
    let offset = 0;
    shared
        .anomalies
        .add(AnomalyKind::ClockSkew, offset, back as u64);
}

/// Whom a CPU sample is about.
fn sampled(args: &[u64; crate::limits::MAX_ARGUMENTS]) -> (Option<MId>, Held) {
    let p = args[1].checked_sub(1).and_then(p_id);
    (optional_m(args[2]), Held::shown(p, GId::new(args[3])))
}

/// Brings the states up to the record, or tells what it has to wait for.
#[inline]
fn apply(
    order: &mut Order,
    by_m: &BTreeMap<MId, u32>,
    head: Head,
    args: &[u64; crate::limits::MAX_ARGUMENTS],
    turn: &mut Turn<'_>,
) -> Result<(), Key> {
    let seq_at = |place: usize| head.with_seq.then(|| seq(args[place]));
    let cursor_of = |m: u64| {
        optional_m(m)
            .and_then(|m| by_m.get(&m))
            .copied()
            .unwrap_or(NOBODY)
    };
    match head.kind {
        Kind::ParkStart => order.switch(GoState::Waiting, args[2], seq_at(3), turn)?,
        Kind::YieldStart => order.switch(GoState::Runnable, args[1], seq_at(2), turn)?,
        Kind::ExitStart => order.switch(GoState::Dead, args[1], seq_at(2), turn)?,
        Kind::Start => order.start(args[1], seq_at(2), turn)?,
        Kind::Ready => order.ready(args[1], seq_at(2), turn)?,
        Kind::Park => order.leave(GoState::Waiting, turn),
        Kind::Yield | Kind::Preempted => order.leave(GoState::Runnable, turn),
        Kind::Exit => order.leave(GoState::Dead, turn),
        Kind::Create => order.create(args[1], turn),
        Kind::GoStatus => {
            let state = match head.value {
                1 => GoState::Runnable,
                2 => GoState::Running,
                3 => GoState::Syscall,
                _ => GoState::Waiting,
            };
            order.go_status(args[1], state, cursor_of(args[2]), turn);
        }
        Kind::SyscallEnter => order.syscall(true, turn),
        Kind::SyscallExit => order.syscall(false, turn),
        Kind::SyscallExitBlocked => order.syscall_exit_blocked(turn)?,
        Kind::SyscallImplicit => order.syscall_implicit(args[1], turn)?,
        Kind::RunWithoutP => order.without_p(turn)?,
        Kind::ProcStart => {
            if let Some(p) = p_id(args[1]) {
                order.proc_start(p.get(), seq(args[2]), turn)?;
            }
        }
        Kind::ProcStop | Kind::ProcHandoff => order.proc_stop(turn),
        Kind::ProcSteal => {
            if let Some(p) = p_id(args[1]) {
                let why = Small::from_number(head.value);
                order.proc_steal(p.get(), seq(args[2]), why, turn)?;
            }
        }
        Kind::ProcStatus => {
            if let Some(p) = p_id(args[1]) {
                let state = match PState::from_number(head.value) {
                    Some(PState::Running) => ProcState::Running,
                    Some(PState::Syscall) => ProcState::Syscall,
                    Some(PState::Idle) | None => ProcState::Idle,
                };
                order.proc_status(p.get(), state, cursor_of(args[2]), turn);
            }
        }
        _ => {}
    }
    Ok(())
}

/// A sequence number as read; one that is too large never comes.
fn seq(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX - 1)
}
