//! One generation in the order of cause: takes records of all Ms, earliest first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::anomaly::AnomalyKind;
use crate::block::BlockKind;
use crate::event::Body;
use crate::limits::MAX_MODULES;
use crate::native::bodies::nanos;
use crate::native::cursor::{Cursor, Environment};
use crate::native::generation::Generation;
use crate::native::lookup::{Lookup, each_record};
use crate::native::order::{Key, Order};
use crate::native::step::{Shared, Who, World};
use crate::spec::Kind;
use crate::tournament::{ABSENT, Tournament};

/// A generation that is being given.
pub(super) struct Merge {
    cursors: Vec<Cursor>,
    /// Control blocks, until their statuses were given: they come before everything else.
    control: Option<Cursor>,
    world: World,
    /// Cursors that can go on, by the time of their record; that of the one that goes on may be late.
    runnable: Tournament,
    /// Cursors that wait, by the time of their record, with the ticket of their wait; those with an
    /// old ticket wait no longer.
    blocked: BinaryHeap<Reverse<(u64, u32, u64)>>,
    /// The cursor that goes on.
    current: Option<u32>,
    /// When the generation began.
    begin: u64,
}

impl Merge {
    /// Makes ready to give `generation`; gives its first event, the beginning.
    pub(super) fn new(generation: Generation, shared: &mut Shared) -> Merge {
        let mut lookup = Lookup::read(
            &generation.tables,
            &shared.arities,
            &mut shared.tables,
            &mut shared.anomalies,
        );
        for module in std::mem::take(&mut lookup.modules) {
            if shared.info.modules.len() < MAX_MODULES {
                if shared.modules.insert(module) {
                    shared.info.modules.push(module);
                }
            } else if !shared.modules.contains(&module) {
                shared.anomalies.add(AnomalyKind::BadRecord, 0, 0);
            }
        }
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
        let begin = begin.unwrap_or(shared.last_ticks);
        let mut cursors = Vec::new();
        let mut by_m = BTreeMap::new();
        for ((kind, m), blocks) in generation.streams {
            if let (BlockKind::Events, Some(m)) = (kind, m) {
                by_m.insert(m, cursors.len() as u32);
            }
            cursors.push(Cursor::new(m, blocks));
        }
        shared.clock.set_origin(begin);
        if let Some([_, _, wall]) = clocks {
            shared.info.wall_start.get_or_insert(nanos(wall));
        }
        shared.info.generations += 1;
        let body = Body::Sync {
            generation: u64::from(generation.number),
            mono: clocks.map(|clocks| nanos(clocks[1])),
            wall: clocks.map(|clocks| nanos(clocks[2])),
        };
        shared.emit(begin, Who::NOBODY, body);
        Merge {
            world: World {
                by_m,
                lookup,
                order: Order::new(cursors.len()),
            },
            runnable: Tournament::new(cursors.len()),
            cursors,
            control: Some(Cursor::new(None, generation.control)),
            blocked: BinaryHeap::new(),
            current: None,
            begin,
        }
    }

    /// Gives some events; none when the generation is over.
    pub(super) fn fill(&mut self, shared: &mut Shared) {
        if let Some(mut control) = self.control.take() {
            if self.give_statuses(&mut control, shared) {
                self.control = Some(control);
                return;
            }
            self.begin_streams(shared);
        }
        while !shared.out.is_full() {
            if let Some(cursor) = self.current.or_else(|| self.runnable.first()) {
                self.current = Some(cursor);
                self.run(cursor, shared);
            } else if !self.force(shared) {
                return;
            }
        }
    }

    /// Decodes the first record of every stream.
    fn begin_streams(&mut self, shared: &mut Shared) {
        for place in 0..self.cursors.len() as u32 {
            if self.advance(place, shared) {
                self.make_runnable(place);
            }
        }
    }

    #[inline(always)]
    fn advance(&mut self, cursor: u32, shared: &mut Shared) -> bool {
        let mut environment = Environment {
            arities: &shared.arities,
            lookup: &self.world.lookup,
            anomalies: &mut shared.anomalies,
            file: shared.file.as_deref(),
            failed: &mut shared.failed,
        };
        self.cursors[cursor as usize].advance(&mut environment)
    }

    #[inline(always)]
    fn make_runnable(&mut self, cursor: u32) {
        let time = self.cursors[cursor as usize].time;
        self.runnable.set(cursor, key(time));
    }

    /// Nothing may go: lets the earliest record of all through. Returns false where there is none.
    #[cold]
    fn force(&mut self, shared: &mut Shared) -> bool {
        while let Some(Reverse((_, cursor, ticket))) = self.blocked.pop() {
            if !self.world.order.is_waiting(cursor, ticket) {
                continue;
            }
            self.world.order.end_wait(cursor);
            let source = &mut self.cursors[cursor as usize];
            shared
                .anomalies
                .add(AnomalyKind::OrderForced, source.offset(), 0);
            shared.offset = source.offset();
            // A forced record never waits.
            let _ = self.world.step(source, cursor, true, shared);
            source.ready = false;
            self.make_runnable(cursor);
            self.take_woken();
            self.current = Some(cursor);
            return true;
        }
        false
    }

    /// Gives events of `cursor` until another one is earlier, it has to wait, it ends, or the batch
    /// is full.
    fn run(&mut self, cursor: u32, shared: &mut Shared) {
        let mut limit = self.runnable.first_other(cursor);
        shared.offset = self.cursors[cursor as usize].offset();
        while !shared.out.is_full() {
            let place = cursor as usize;
            if !self.cursors[place].ready && !self.advance(cursor, shared) {
                return self.stop(cursor);
            }
            let source = &mut self.cursors[place];
            let time = source.time;
            if key(time) > limit {
                self.make_runnable(cursor);
                self.current = self.runnable.first();
                return;
            }
            if let Err(key) = self.world.step(source, cursor, false, shared) {
                self.block(cursor, time, key);
                return self.stop(cursor);
            }
            source.ready = false;
            if !self.world.order.woken.is_empty() {
                self.take_woken();
                limit = self.runnable.first_other(cursor);
            }
        }
    }

    /// `cursor` does not go on.
    fn stop(&mut self, cursor: u32) {
        self.runnable.set(cursor, ABSENT);
        self.current = None;
    }

    fn take_woken(&mut self) {
        while let Some(cursor) = self.world.order.woken.pop() {
            self.make_runnable(cursor);
        }
    }

    #[cold]
    fn block(&mut self, cursor: u32, time: u64, key: Key) {
        let ticket = self.world.order.wait(key, cursor);
        self.blocked.push(Reverse((time, cursor, ticket)));
        if self.blocked.len() > 2 * self.cursors.len() + 64 {
            let order = &self.world.order;
            self.blocked
                .retain(|Reverse((_, cursor, ticket))| order.is_waiting(*cursor, *ticket));
        }
    }

    /// Gives the statuses and losses of control blocks; returns whether there are more.
    fn give_statuses(&mut self, control: &mut Cursor, shared: &mut Shared) -> bool {
        loop {
            if shared.out.is_full() {
                return true;
            }
            let mut environment = Environment {
                arities: &shared.arities,
                lookup: &self.world.lookup,
                anomalies: &mut shared.anomalies,
                file: shared.file.as_deref(),
                failed: &mut shared.failed,
            };
            if !control.advance(&mut environment) {
                return false;
            }
            control.opened = None;
            let Some(head) = control.record.head else {
                continue;
            };
            match head.kind {
                Kind::GoStatus | Kind::ProcStatus | Kind::Loss => {
                    self.world.status(head, control, self.begin, shared);
                }
                Kind::GenBegin | Kind::GenEnd | Kind::ClockPair | Kind::TraceEnd => {}
                _ => shared
                    .anomalies
                    .add(AnomalyKind::BadRecord, control.offset(), 0),
            }
        }
    }
}

/// `time` among those of cursors: never that of one which takes no part.
#[inline(always)]
fn key(time: u64) -> u64 {
    time.min(ABSENT - 1)
}
