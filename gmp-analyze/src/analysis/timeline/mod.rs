//! The sink of the timeline: one pass over the trace, memory bounded by pixels and lanes, not by
//! events.
//!
//! Spans as wide as a column are kept one by one, at most two for each column of a lane; the time of
//! all others is summed by column and colour. Nothing is sampled and nothing is left out: the sum
//! over a lane is the sum in the report.

mod chart;
mod columns;
mod lane;
mod queues;
mod slots;
mod tasks;

pub use chart::{
    COLOURS, Chart, ChartLane, ChartSpan, LegendGroup, MarkCells, Merged, Paint, QueueChart,
};
pub use lane::Mark;

use crate::analysis::window::Window;
use crate::machine::{
    GoroutineBirth, GoroutineDeath, GoroutineSpan, GoroutineState, Place, ProcSpan, ProcState,
    Sink, ThreadSpan, ThreadState,
};
use columns::{Columns, Scale};
use gmp_trace::id::{GId, MId, PId};
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use lane::{Kept, Lane, SLOTS, paint_of};
use queues::Queues;
use rustc_hash::FxHashMap;
use slots::Slots;
use tasks::Tasks;

/// What a lane stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// A P each.
    Procs,
    /// A thread (M) each.
    Threads,
    /// A group of goroutines each, by start function and creation site.
    Groups,
    /// A task of the program each.
    Tasks,
}

/// What gives running spans their colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// The group of the goroutine.
    Group,
    /// The state.
    State,
}

/// What is to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What lanes stand for.
    pub lanes: Lanes,
    /// What colours stand for.
    pub colour: Colour,
    /// The part of the trace.
    pub window: Window,
    /// How many pixels the time axis has.
    pub pixels: usize,
}

/// Lanes beyond this many share the last one.
pub const MAX_LANES: usize = 128;

/// Paint of the lane of the whole world: the state numbers of stops and collections.
const STOP: u8 = 0;
const COLLECTION: u8 = 1;

/// Collects what a timeline shows.
#[derive(Debug)]
pub struct Timeline {
    options: Options,
    /// Unknown until the first event.
    begin: Option<Nanos>,
    /// The part of the trace by its clock, not before its begin; nothing without events.
    window: Window,
    scale: Scale,
    lanes: Vec<Lane>,
    /// The number of each lane's P or thread.
    lane_ids: Vec<u64>,
    /// Lanes that share the last one.
    sharing: usize,
    group_of: FxHashMap<Place, u32>,
    places: Vec<Place>,
    slots: Slots,
    /// The group of the goroutine in each slot of the machine.
    of_slot: Vec<u32>,
    /// The group of each goroutine that lives.
    living: FxHashMap<GId, u32>,
    /// The goroutine that each thread runs, where lanes are threads.
    on_thread: FxHashMap<MId, GId>,
    /// By index of the P: its number and its running time.
    busy: Vec<(u64, Columns)>,
    by_state: [Columns; GoroutineState::COUNT],
    queues: Queues,
    world: Lane,
    stop_since: Option<Nanos>,
    collecting_since: Option<Nanos>,
    tasks: Tasks,
    events: u64,
}

impl Timeline {
    /// A timeline that has seen nothing.
    pub fn new(options: Options) -> Timeline {
        let lanes = match options.lanes {
            Lanes::Groups => (0..=SLOTS).map(|_| Lane::new(false)).collect(),
            _ => Vec::new(),
        };
        Timeline {
            options,
            begin: None,
            window: Window {
                from: Nanos::ZERO,
                to: Nanos::ZERO,
            },
            // Between one and two columns for each pixel in the end.
            scale: Scale::new(Nanos::ZERO, 2 * options.pixels),
            lanes,
            lane_ids: Vec::new(),
            sharing: 0,
            group_of: FxHashMap::default(),
            places: Vec::new(),
            slots: Slots::default(),
            of_slot: Vec::new(),
            living: FxHashMap::default(),
            on_thread: FxHashMap::default(),
            busy: Vec::new(),
            by_state: Default::default(),
            queues: Queues::default(),
            world: Lane::new(true),
            stop_since: None,
            collecting_since: None,
            tasks: Tasks::default(),
            events: 0,
        }
    }

    fn begins(&mut self, time: Nanos) {
        self.begin = Some(time);
        self.window = self.options.window.of_trace(time);
        self.window.from = self.window.from.max(time);
        self.scale = Scale::new(self.window.from, 2 * self.options.pixels);
    }

    /// Doubles columns until they reach `end`.
    #[inline]
    fn reach(&mut self, end: Nanos) {
        while !self.scale.reaches(end) {
            self.double();
        }
    }

    #[cold]
    fn double(&mut self) {
        let old = self.scale;
        self.lanes.iter_mut().for_each(|lane| lane.fold(&old));
        self.world.fold(&old);
        self.busy
            .iter_mut()
            .for_each(|(_, columns)| columns.fold(&old));
        self.by_state
            .iter_mut()
            .for_each(|columns| columns.fold(&old));
        self.queues.fold(&old);
        self.scale.double();
        self.merge_narrow(self.scale.width());
    }

    fn merge_narrow(&mut self, width: i64) {
        let lanes = self.lanes.iter_mut().chain([&mut self.world]);
        for lane in lanes {
            lane.merge_narrow(&self.scale, width, self.slots.of_groups());
        }
    }

    /// The number of the lane with index `index`, of the P or thread `id`.
    #[inline]
    fn lane(&mut self, index: usize, id: u64) -> usize {
        while self.lanes.len() <= index.min(MAX_LANES) {
            self.lanes.push(Lane::new(self.lanes.len() < MAX_LANES));
            self.lane_ids.push(u64::MAX);
        }
        if index < MAX_LANES {
            self.lane_ids[index] = id;
            index
        } else {
            self.sharing = self.sharing.max(index + 1 - MAX_LANES);
            MAX_LANES
        }
    }

    /// Gives `kept`, which is inside the window, to a lane.
    #[inline]
    fn give(&mut self, lane: usize, kept: Kept) {
        self.reach(kept.end);
        let paint = paint_of(&kept, self.slots.of_groups());
        self.lanes[lane].add(&self.scale, kept, paint);
    }

    fn mark(&mut self, mark: Mark, id: Option<u64>, time: Nanos) {
        let inside = self.window.holds(time);
        let lane = id.and_then(|id| self.lane_ids.iter().position(|&of| of == id));
        if let (true, Some(lane)) = (inside, lane) {
            self.reach(time);
            self.lanes[lane].marks[mark as usize].add(&self.scale, time);
        }
    }

    /// A span of the whole world: a stop or a collection.
    fn world_span(&mut self, state: u8, begin: Nanos, end: Nanos) {
        if let Some((begin, end)) = self.window.clip(begin, end) {
            self.reach(end);
            let kept = Kept {
                begin,
                end,
                state,
                group: None,
                by_group: false,
                goroutine: None,
            };
            let paint = paint_of(&kept, &[]);
            self.world.add(&self.scale, kept, paint);
        }
    }

    /// Queues change at `event`, where it is about them.
    #[inline]
    fn queue_changes(&mut self, event: &Event) {
        for (which, by) in self.queues.changes(event).into_iter().flatten() {
            let level = self.queues.level(which);
            let stretch = queues::stretch(level, event.time);
            let clipped = stretch.and_then(|(since, now, value)| {
                let (begin, end) = self.window.clip(since, now)?;
                Some((begin, end, value))
            });
            if let Some((begin, end, value)) = clipped {
                self.reach(end);
                let level = self.queues.level(which);
                level.columns_mut().add(&self.scale, begin, end, value);
            }
            let level = self.queues.level(which);
            let at = event.time.max(level.open().0);
            level.set(at, level.now() + by);
        }
    }

    /// Events that are neither a goroutine's turn nor a queue's.
    fn other(&mut self, event: &Event) {
        let (by_proc, time) = (self.options.lanes == Lanes::Procs, event.time);
        let of = |p: Option<PId>, m: Option<MId>| {
            if by_proc {
                p.map(|p| u64::from(p.get()))
            } else {
                m.map(MId::get)
            }
        };
        match event.body {
            Body::Steal { .. } => self.mark(Mark::Steal, of(event.p, event.m), time),
            Body::ProcHandoff { .. } => self.mark(Mark::HandOff, of(event.p, event.m), time),
            Body::ProcSteal { victim, from_m, .. } => {
                self.mark(Mark::HandOff, of(Some(victim), from_m), time);
            }
            Body::GoPreempted { .. } => self.mark(Mark::Preemption, of(event.p, event.m), time),
            Body::StopRequested { .. } => self.stop_since = Some(time),
            Body::Restarted => {
                if let Some(since) = self.stop_since.take() {
                    self.world_span(STOP, since, time);
                }
            }
            Body::GcBegin { .. } => self.collecting_since = Some(time),
            Body::GcActive { .. } => self.collecting_since = self.collecting_since.or(self.begin),
            Body::GcEnd { .. } => {
                if let Some(since) = self.collecting_since.take() {
                    self.world_span(COLLECTION, since, time);
                }
            }
            Body::GoStatus {
                goroutine,
                on_m: Some(m),
                ..
            } if !by_proc => {
                self.on_thread.insert(m, goroutine);
            }
            _ => {}
        }
        if self.options.lanes == Lanes::Tasks {
            self.task_event(event);
        }
    }

    /// The group of `goroutine`, where it is known.
    #[inline]
    fn group_of_goroutine(&self, goroutine: Option<GId>) -> Option<u32> {
        self.living.get(&goroutine?).copied()
    }

    /// `group` ran for `time` in the window.
    #[inline]
    fn group_ran(&mut self, group: u32, time: i64) {
        let Some(slot) = self.slots.took(group, time) else {
            return;
        };
        if self.options.lanes == Lanes::Groups {
            let mut merged = std::mem::take(&mut self.lanes[slot].merged);
            for (paint, columns) in merged.iter_mut().enumerate() {
                self.lanes[SLOTS].merged[paint].take(columns);
            }
            self.lanes[slot].merged = merged;
        } else {
            for lane in &mut self.lanes {
                lane.give_to_others(slot);
            }
        }
    }
}

impl Sink for Timeline {
    #[inline]
    fn event(&mut self, event: &Event) {
        if self.begin.is_none() {
            self.begins(event.time);
        }
        self.events += 1;
        match event.body {
            Body::GoPark { .. } | Body::GoExit { .. } => {}
            Body::GoStart { .. } => {
                if self.options.lanes == Lanes::Threads
                    && let (Some(m), Some(g)) = (event.m, event.g)
                {
                    self.on_thread.insert(m, g);
                }
                self.queue_changes(event);
            }
            Body::GoReady { .. } | Body::GoCreate { .. } | Body::GoYield { .. } => {
                self.queue_changes(event);
            }
            _ => {
                self.queue_changes(event);
                self.other(event);
            }
        }
    }

    fn goroutine_begin(&mut self, birth: &GoroutineBirth) {
        let next = self.places.len() as u32;
        let group = *self.group_of.entry(birth.made_at).or_insert(next);
        if group == next {
            self.places.push(birth.made_at);
            if self.options.lanes != Lanes::Tasks {
                self.slots.appear(group);
            }
        }
        if birth.slot >= self.of_slot.len() {
            self.of_slot.resize(birth.slot + 1, 0);
        }
        self.of_slot[birth.slot] = group;
        self.living.insert(birth.goroutine, group);
    }

    #[inline]
    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        let Some((begin, end)) = self.window.clip(span.begin, span.end) else {
            return;
        };
        self.reach(end);
        self.by_state[span.state as usize].add(&self.scale, begin, end, 1);
        if self.options.lanes == Lanes::Tasks {
            return;
        }
        let group = self.of_slot[span.slot];
        if self.options.lanes == Lanes::Groups {
            let lane = usize::from(self.slots.of_groups()[group as usize]);
            let kept = Kept {
                begin,
                end,
                state: span.state as u8,
                group: None,
                by_group: false,
                goroutine: Some(span.goroutine),
            };
            let paint = paint_of(&kept, &[]);
            self.lanes[lane].add(&self.scale, kept, paint);
        }
        if span.state == GoroutineState::Running {
            self.group_ran(group, end.0 - begin.0);
        }
    }

    fn goroutine_end(&mut self, death: &GoroutineDeath) {
        // At the end of the trace the spans of Ps, which name goroutines, come after their deaths.
        if !death.alive {
            self.living.remove(&death.goroutine);
        }
    }

    #[inline]
    fn proc_span(&mut self, span: &ProcSpan) {
        let lane = (self.options.lanes == Lanes::Procs)
            .then(|| self.lane(span.index, span.proc.get().into()));
        let Some((begin, end)) = self.window.clip(span.begin, span.end) else {
            return;
        };
        let running = span.state == ProcState::Running;
        if span.index < MAX_LANES {
            self.reach(end);
            if span.index >= self.busy.len() {
                self.busy.resize_with(span.index + 1, Default::default);
            }
            let (id, busy) = &mut self.busy[span.index];
            *id = span.proc.get().into();
            if running {
                busy.add(&self.scale, begin, end, 1);
            }
        }
        if let Some(lane) = lane {
            let group = self.group_of_goroutine(span.goroutine);
            let kept = Kept {
                begin,
                end,
                state: span.state as u8,
                group,
                by_group: running && self.options.colour == Colour::Group,
                goroutine: span.goroutine,
            };
            self.give(lane, kept);
        }
    }

    #[inline]
    fn thread_span(&mut self, span: &ThreadSpan) {
        if self.options.lanes != Lanes::Threads {
            return;
        }
        let lane = self.lane(span.index, span.thread.get());
        let Some((begin, end)) = self.window.clip(span.begin, span.end) else {
            return;
        };
        let on_it = matches!(span.state, ThreadState::Running | ThreadState::Syscall);
        let goroutine = self.on_thread.get(&span.thread).copied().filter(|_| on_it);
        let running = span.state == ThreadState::Running;
        let group = self.group_of_goroutine(goroutine);
        let kept = Kept {
            begin,
            end,
            state: span.state as u8,
            group,
            by_group: running && self.options.colour == Colour::Group,
            goroutine,
        };
        self.give(lane, kept);
    }
}
