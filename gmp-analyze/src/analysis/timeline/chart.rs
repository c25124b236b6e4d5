//! What a timeline shows in the end: lanes, plots and legend with names, in pixels of time.

use super::columns::Columns;
use super::lane::{Kept, Lane, Mark, OTHER, SLOTS, STATES};
use super::queues::stretch;
use super::tasks::OWN_LANES;
use super::{COLLECTION, Lanes, MAX_LANES, Options, STOP, Timeline};
use crate::analysis::names;
use crate::analysis::window::Window;
use crate::machine::{GoroutineState, ProcState, ThreadState};
use gmp_trace::id::GId;
use gmp_trace::tables::Tables;
use gmp_trace::time::Nanos;

/// Groups that have a colour of their own; others share one.
pub const COLOURS: usize = 6;

/// Pixels of a cell in which marks are counted, at least.
const MARK_CELL: usize = 6;

/// Cells of marks on all lanes together; cells become wider until they are no more.
const MARK_CELLS: usize = 3_500;

/// Spans that are drawn one by one on all lanes together; narrower ones are merged.
const SPANS: usize = 3_500;

/// What a span or a merged part of a lane is painted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Paint {
    /// A running goroutine of the group with this place in the legend.
    Group(usize),
    /// A running goroutine of a group that shares its colour with others.
    Others,
    /// A state of a goroutine.
    Goroutine(GoroutineState),
    /// A state of a P.
    Proc(ProcState),
    /// A state of a thread.
    Thread(ThreadState),
    /// The life of a task.
    Task,
    /// The world is being stopped or is stopped.
    Stop,
    /// The collector works.
    Collection,
}

impl Paint {
    /// Where it stands in a stack, from the bottom up, and in the legend: what runs first, what
    /// waits or is not known last.
    pub fn place(self) -> (u8, Paint) {
        let place = match self {
            Paint::Group(_) => 0,
            Paint::Others => 1,
            Paint::Goroutine(state) => match state {
                GoroutineState::Running => 2,
                GoroutineState::Syscall | GoroutineState::SyscallWithoutP => 3,
                GoroutineState::Runnable => 4,
                GoroutineState::Waiting => 5,
                GoroutineState::Unknown => 6,
            },
            Paint::Proc(ProcState::Unknown) | Paint::Thread(ThreadState::Unknown) => 6,
            _ => 3,
        };
        (place, self)
    }
}

/// A span that is drawn by itself.
#[derive(Clone, Debug)]
pub struct ChartSpan {
    /// From when, counted from the begin of the trace.
    pub begin: Nanos,
    /// Until when.
    pub end: Nanos,
    /// Its colour.
    pub paint: Paint,
    /// The place of the group in [`Chart::group_names`].
    pub group: Option<usize>,
    /// The goroutine.
    pub goroutine: Option<GId>,
}

/// The time of spans that are too narrow to be drawn, of one colour, by pixel.
#[derive(Clone, Debug)]
pub struct Merged {
    /// Their colour.
    pub paint: Paint,
    /// Nanoseconds in each pixel.
    pub pixels: Vec<i64>,
}

/// Marks of one kind by cell of [`Chart::mark_cell`] pixels.
#[derive(Clone, Debug)]
pub struct MarkCells {
    /// What.
    pub mark: Mark,
    /// How many in each cell.
    pub counts: Vec<u64>,
}

/// One lane.
#[derive(Clone, Debug)]
pub struct ChartLane {
    /// A short name.
    pub label: String,
    /// More about it; may be empty.
    pub about: String,
    /// Spans that are drawn one by one, in the order of their begins.
    pub spans: Vec<ChartSpan>,
    /// All others.
    pub merged: Vec<Merged>,
    /// Marks, of those kinds that there are.
    pub marks: Vec<MarkCells>,
    /// True where spans overlap in time.
    pub overlaps: bool,
}

impl ChartLane {
    /// The time that the lane shows as `paint`.
    pub fn time(&self, paint: Paint) -> Nanos {
        let spans = self.spans.iter().filter(|span| span.paint == paint);
        let kept: i64 = spans.map(|span| span.end.0 - span.begin.0).sum();
        let merged = self.merged.iter().filter(|merged| merged.paint == paint);
        let merged: i64 = merged.map(|merged| merged.pixels.iter().sum::<i64>()).sum();
        Nanos(kept + merged)
    }
}

/// One entry of the legend of groups.
#[derive(Clone, Debug)]
pub struct LegendGroup {
    /// Its name.
    pub name: String,
    /// How long its goroutines ran in the window.
    pub running: Nanos,
}

/// Lengths of run queues: goroutines times nanoseconds by pixel.
#[derive(Clone, Debug)]
pub struct QueueChart {
    /// The global queue.
    pub global: Vec<i64>,
    /// The queue of each P, by number.
    pub local: Vec<Vec<i64>>,
    /// Runnable goroutines of which the trace does not tell where they wait.
    pub elsewhere: Vec<i64>,
}

/// Everything that a timeline shows.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What was asked for.
    pub options: Options,
    /// How long the trace is.
    pub trace: Nanos,
    /// Events in all.
    pub events: u64,
    /// Where the time axis begins, counted from the begin of the trace.
    pub from: Nanos,
    /// Where it ends.
    pub to: Nanos,
    /// True where nothing of the trace is between the two.
    pub is_empty: bool,
    /// The lanes from top to bottom.
    pub lanes: Vec<ChartLane>,
    /// P or threads or tasks that share the last lane.
    pub sharing: u64,
    /// Pixels of a cell in which marks are counted.
    pub mark_cell: usize,
    /// Stops of the world and collections, where there are any.
    pub world: Option<ChartLane>,
    /// Groups with a colour of their own, those that ran longest first.
    pub legend: Vec<LegendGroup>,
    /// How many groups share a colour, and how long they ran.
    pub others: (usize, Nanos),
    /// Names of all groups.
    pub group_names: Vec<String>,
    /// Each P's number and its running time by pixel.
    pub busy: Vec<(u64, Vec<i64>)>,
    /// Goroutines in each state, times nanoseconds, by pixel.
    pub states: [Vec<i64>; GoroutineState::COUNT],
    /// Run queues; `None` where the trace does not tell.
    pub queues: Option<QueueChart>,
}

impl Timeline {
    /// The trace ended at `end`: closes what is open and gives the picture in pixels.
    pub fn finish(mut self, end: Nanos, tables: &Tables) -> Chart {
        let begin = self.begin.unwrap_or(end);
        self.close(end);
        let options = self.options;
        let window = Nanos(self.window.to.0.min(end.0));
        let is_empty = window <= self.window.from;
        let (from, to) = if is_empty {
            let from = options.window.from.max(Nanos::ZERO);
            let length = end.since(begin).max(Nanos(1));
            let to = match options.window.to {
                to if to == Window::WHOLE.to => from + length,
                to => to,
            };
            (from, to.max(from))
        } else {
            (self.window.from - begin, window - begin)
        };
        let pixel = (to.0 - from.0) / options.pixels.max(1) as i64;
        self.merge_narrow(pixel.max(self.scale.width()));
        self.merge_beyond(SPANS);
        let view = View {
            begin,
            from: begin + from,
            to: begin + to,
            order: self.group_order(tables),
            mark_cell: self.mark_cell(),
            timeline: &self,
        };
        let (lanes, sharing) = view.lanes(tables);
        Chart {
            options,
            trace: end.since(begin),
            events: self.events,
            from,
            to,
            is_empty,
            lanes,
            sharing,
            mark_cell: view.mark_cell,
            world: view.world(),
            legend: view.legend(),
            others: view.others(),
            group_names: view.order.names.clone(),
            busy: view.busy(),
            states: std::array::from_fn(|state| view.pixels(&self.by_state[state])),
            queues: view.queues(),
        }
    }

    /// Merges all but the `most` longest spans.
    fn merge_beyond(&mut self, most: usize) {
        let kept = self.lanes.iter().flat_map(|lane| &lane.kept);
        let mut lengths: Vec<i64> = kept.map(|span| span.end.0 - span.begin.0).collect();
        if lengths.len() > most {
            lengths.sort_unstable_by(|a, b| b.cmp(a));
            self.merge_narrow(lengths[most].saturating_add(1));
        }
    }

    /// How wide cells of marks are.
    fn mark_cell(&self) -> usize {
        let rows = self.lanes.iter().flat_map(|lane| &lane.marks);
        let rows = rows.filter(|counts| counts.total() > 0).count();
        let mut cell = MARK_CELL;
        while rows * self.options.pixels / cell > MARK_CELLS {
            cell *= 2;
        }
        cell
    }

    fn close(&mut self, end: Nanos) {
        self.finish_tasks(end);
        if let Some(since) = self.stop_since.take() {
            self.world_span(STOP, since, end);
        }
        if let Some(since) = self.collecting_since.take() {
            self.world_span(COLLECTION, since, end);
        }
        let last = Nanos(self.window.to.0.min(end.0));
        if last > self.window.from {
            self.reach(last);
        }
        let (window, scale) = (self.window, self.scale);
        for level in self.queues.levels() {
            let clipped = stretch(level, end)
                .and_then(|(since, now, value)| Some((window.clip(since, now)?, value)));
            if let Some(((begin, end), value)) = clipped {
                level.columns_mut().add(&scale, begin, end, value);
            }
        }
    }

    /// Groups in the order of the legend.
    fn group_order(&self, tables: &Tables) -> Order {
        let names: Vec<String> = if self.options.lanes == Lanes::Tasks {
            let names = self.tasks.region_names.iter();
            names.map(|&name| tables.text(name).to_owned()).collect()
        } else {
            names::short_names(tables, &self.places)
        };
        let mut order: Vec<usize> = (0..self.slots.groups()).collect();
        order.sort_by(|&a, &b| {
            let key = |group: usize| (std::cmp::Reverse(self.slots.total(group)), &names[group]);
            key(a).cmp(&key(b))
        });
        let mut rank = vec![0; order.len()];
        for (place, &group) in order.iter().enumerate() {
            rank[group] = place;
        }
        Order { order, rank, names }
    }
}

/// Groups by running time.
struct Order {
    /// Groups, the one that ran longest first.
    order: Vec<usize>,
    /// By group: its place in that order.
    rank: Vec<usize>,
    /// By group.
    names: Vec<String>,
}

/// A finished timeline, looked at.
struct View<'a> {
    begin: Nanos,
    from: Nanos,
    to: Nanos,
    order: Order,
    mark_cell: usize,
    timeline: &'a Timeline,
}

impl View<'_> {
    fn pixels(&self, columns: &Columns) -> Vec<i64> {
        let timeline = self.timeline;
        columns.resampled(&timeline.scale, self.from, self.to, timeline.options.pixels)
    }

    fn of_group(&self, group: usize) -> Paint {
        // Only those that ran in the window have a colour.
        let ran = self.timeline.slots.total(group) > 0;
        match self.order.rank[group] {
            rank if rank < COLOURS && ran => Paint::Group(rank),
            _ => Paint::Others,
        }
    }

    fn of_state(&self, state: usize) -> Paint {
        match self.timeline.options.lanes {
            Lanes::Procs => Paint::Proc(ProcState::ALL[state]),
            Lanes::Threads => Paint::Thread(ThreadState::ALL[state]),
            Lanes::Groups => Paint::Goroutine(GoroutineState::ALL[state]),
            Lanes::Tasks => Paint::Task,
        }
    }

    fn of_paint(&self, paint: usize) -> Paint {
        match self.timeline.slots.holder(paint) {
            Some(group) => self.of_group(group as usize),
            None if paint <= OTHER => Paint::Others,
            None => self.of_state(paint - STATES),
        }
    }

    fn span(&self, kept: &Kept, paint: Paint) -> ChartSpan {
        ChartSpan {
            begin: kept.begin - self.begin,
            end: kept.end - self.begin,
            paint,
            group: kept.group.map(|group| group as usize),
            goroutine: kept.goroutine,
        }
    }

    fn lane(&self, lane: &Lane, of_state: impl Fn(usize) -> Paint) -> ChartLane {
        let mut spans: Vec<ChartSpan> = lane
            .kept
            .iter()
            .map(|kept| {
                let paint = match kept.group {
                    Some(group) if kept.by_group => self.of_group(group as usize),
                    _ => of_state(kept.state.into()),
                };
                self.span(kept, paint)
            })
            .collect();
        spans.sort_by_key(|span| (span.begin, std::cmp::Reverse(span.end)));
        let mut merged: Vec<Merged> = Vec::new();
        for (paint, columns) in lane.merged.iter().enumerate() {
            let pixels = self.pixels(columns);
            if pixels.iter().all(|&pixel| pixel == 0) {
                continue;
            }
            let paint = if paint >= STATES {
                of_state(paint - STATES)
            } else {
                self.of_paint(paint)
            };
            match merged.iter_mut().find(|merged| merged.paint == paint) {
                Some(merged) => add(&mut merged.pixels, &pixels),
                None => merged.push(Merged { paint, pixels }),
            }
        }
        merged.sort_by_key(|merged| merged.paint.place());
        let cells = self.timeline.options.pixels.div_ceil(self.mark_cell);
        let marks = Mark::ALL.into_iter().filter_map(|mark| {
            let counts = &lane.marks[mark as usize];
            (counts.total() > 0).then(|| MarkCells {
                mark,
                counts: counts.resampled(&self.timeline.scale, self.from, self.to, cells),
            })
        });
        ChartLane {
            label: String::new(),
            about: String::new(),
            spans,
            merged,
            marks: marks.collect(),
            overlaps: false,
        }
    }

    fn lanes(&self, tables: &Tables) -> (Vec<ChartLane>, u64) {
        let timeline = self.timeline;
        let of_state = |state| self.of_state(state);
        let draw = |lane: &Lane, label: String| ChartLane {
            label,
            ..self.lane(lane, of_state)
        };
        match timeline.options.lanes {
            Lanes::Groups => (self.group_lanes(), 0),
            Lanes::Tasks => {
                let lanes = timeline.lanes.iter().enumerate().map(|(number, lane)| {
                    let label = match timeline.tasks.named.get(number) {
                        Some((task, name)) if number < OWN_LANES => {
                            format!("{} {}", tables.text(*name), task.0)
                        }
                        _ => format!("{} more", timeline.tasks.sharing),
                    };
                    ChartLane {
                        overlaps: number == OWN_LANES,
                        ..draw(lane, label)
                    }
                });
                (lanes.collect(), timeline.tasks.sharing)
            }
            Lanes::Procs | Lanes::Threads => {
                let letter = match timeline.options.lanes {
                    Lanes::Procs => "P",
                    _ => "M",
                };
                let mut order: Vec<usize> = (0..timeline.lanes.len()).collect();
                order.sort_by_key(|&lane| timeline.lane_ids[lane]);
                let lanes = order.into_iter().map(|number| {
                    let lane = &timeline.lanes[number];
                    let is_last = number >= MAX_LANES;
                    let label = if is_last {
                        format!("{} more", timeline.sharing)
                    } else {
                        format!("{letter}{}", timeline.lane_ids[number])
                    };
                    ChartLane {
                        overlaps: is_last,
                        ..draw(lane, label)
                    }
                });
                (lanes.collect(), timeline.sharing as u64)
            }
        }
    }

    /// A lane for each group with a slot, those that ran longest first, and one for the others.
    fn group_lanes(&self) -> Vec<ChartLane> {
        let timeline = self.timeline;
        let slots = timeline.slots.of_groups();
        let mut lanes = Vec::new();
        for &group in &self.order.order {
            let slot = usize::from(slots[group]);
            if slot == OTHER {
                continue;
            }
            let lane = self.lane(&timeline.lanes[slot], |state| self.of_state(state));
            if !lane.merged.is_empty() {
                lanes.push(ChartLane {
                    label: self.order.names[group].clone(),
                    overlaps: true,
                    ..lane
                });
            }
        }
        let others = self.lane(&timeline.lanes[SLOTS], |state| self.of_state(state));
        if !others.merged.is_empty() {
            let count = slots
                .iter()
                .filter(|&&slot| usize::from(slot) == OTHER)
                .count();
            lanes.push(ChartLane {
                label: format!("{count} other groups"),
                overlaps: true,
                ..others
            });
        }
        lanes
    }

    fn world(&self) -> Option<ChartLane> {
        let of_state = |state: usize| {
            if state == usize::from(STOP) {
                Paint::Stop
            } else {
                Paint::Collection
            }
        };
        let lane = self.lane(&self.timeline.world, of_state);
        (!lane.spans.is_empty() || !lane.merged.is_empty()).then(|| ChartLane {
            label: "world".to_owned(),
            about: "stops of the world and collections".to_owned(),
            overlaps: true,
            ..lane
        })
    }

    fn legend(&self) -> Vec<LegendGroup> {
        let coloured = self.order.order.iter().take(COLOURS);
        coloured
            .map(|&group| LegendGroup {
                name: self.order.names[group].clone(),
                running: Nanos(self.timeline.slots.total(group)),
            })
            .filter(|entry| entry.running > Nanos::ZERO)
            .collect()
    }

    fn others(&self) -> (usize, Nanos) {
        let others = self.order.order.iter().skip(COLOURS);
        let running = others.map(|&group| self.timeline.slots.total(group));
        running
            .filter(|&time| time > 0)
            .fold((0, Nanos::ZERO), |(count, sum), time| {
                (count + 1, sum + Nanos(time))
            })
    }

    fn busy(&self) -> Vec<(u64, Vec<i64>)> {
        let busy = self.timeline.busy.iter();
        let mut busy: Vec<(u64, Vec<i64>)> = busy
            .map(|(id, columns)| (*id, self.pixels(columns)))
            .collect();
        busy.sort_by_key(|(id, _)| *id);
        busy
    }

    fn queues(&self) -> Option<QueueChart> {
        let queues = &self.timeline.queues;
        if !queues.are_derivable() {
            return None;
        }
        // Two threads' clocks may disagree by a little, and with them what came first.
        let not_negative = |columns: &Columns| -> Vec<i64> {
            let pixels = self.pixels(columns);
            pixels.into_iter().map(|pixel| pixel.max(0)).collect()
        };
        let global = not_negative(queues.global());
        let local: Vec<Vec<i64>> = queues.local().map(not_negative).collect();
        let runnable = &self.timeline.by_state[GoroutineState::Runnable as usize];
        let mut elsewhere = self.pixels(runnable);
        for (pixel, left) in elsewhere.iter_mut().enumerate() {
            let queued: i64 = local.iter().map(|pixels| pixels[pixel]).sum();
            *left = (*left - global[pixel] - queued).max(0);
        }
        Some(QueueChart {
            global,
            local,
            elsewhere,
        })
    }
}

fn add(sums: &mut [i64], more: &[i64]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}
