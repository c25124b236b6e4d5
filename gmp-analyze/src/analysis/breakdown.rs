//! The sink of `latency`: how long goroutines were in each state, by group, by goroutine or by cause.

use super::distribution::Distribution;
use super::latency::{CauseLatency, Latencies};
use super::report::Name;
use super::window::Window;
use crate::machine::{
    GoroutineBirth, GoroutineDeath, GoroutineSpan, GoroutineState, Place, Sink, Wake,
};
use gmp_trace::Event;
use gmp_trace::id::GId;
use gmp_trace::tables::Tables;
use gmp_trace::time::Nanos;
use rustc_hash::FxHashMap;

/// What rows stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A group of goroutines, by start function and creation site.
    Group,
    /// A goroutine.
    Goroutine,
    /// A cause of scheduling latency: how the goroutine was found and what made it runnable.
    Cause,
}

/// Durations in each state, by the state's number.
type States = [Distribution; GoroutineState::COUNT];

/// What a living goroutine adds to.
#[derive(Clone, Debug, Default)]
struct Living {
    group: u32,
    /// Its own durations, where rows are goroutines.
    own: States,
}

/// Collects durations of states.
#[derive(Debug)]
pub struct Breakdown {
    by: By,
    window: Window,
    /// True from the first event on: the window is by the trace's clock.
    begun: bool,
    all: States,
    group_of: FxHashMap<Place, u32>,
    groups: Vec<(Place, bool, States)>,
    living: Vec<Living>,
    ended: Vec<(GId, u32, States)>,
    causes: Latencies,
}

impl Breakdown {
    /// A breakdown that has seen nothing. Memory is linear in groups and living goroutines; in all
    /// goroutines where rows are goroutines.
    ///
    /// Of a stay in a state that `window` cuts, the part inside counts; a scheduling latency counts as
    /// a whole in the window in which the goroutine begins to run.
    pub fn new(by: By, window: Window) -> Breakdown {
        Breakdown {
            by,
            window,
            begun: false,
            all: States::default(),
            group_of: FxHashMap::default(),
            groups: Vec::new(),
            living: Vec::new(),
            ended: Vec::new(),
            causes: Latencies::default(),
        }
    }

    /// The rows, those that ran longest first; causes by their total.
    pub fn finish(self, tables: &Tables) -> LatencyTable {
        let name_of = |group: u32| {
            let (place, existed, _) = &self.groups[group as usize];
            Name::of_group(tables, *place, *existed)
        };
        let rows = match self.by {
            By::Cause => Vec::new(),
            By::Group => (0..self.groups.len())
                .map(|group| Row {
                    goroutine: None,
                    name: name_of(group as u32),
                    states: self.groups[group].2.clone(),
                })
                .collect(),
            By::Goroutine => self
                .ended
                .iter()
                .map(|(goroutine, group, states)| Row {
                    goroutine: Some(*goroutine),
                    name: name_of(*group),
                    states: states.clone(),
                })
                .collect(),
        };
        let mut rows: Vec<Row> = rows;
        // Nothing of the others is in the window.
        rows.retain(|row| row.states.iter().any(|durations| durations.count() > 0));
        rows.sort_by_cached_key(|row| {
            let time = |state: GoroutineState| row.states[state as usize].total();
            let life = row
                .states
                .iter()
                .fold(Nanos::ZERO, |sum, state| sum + state.total());
            (
                std::cmp::Reverse((time(GoroutineState::Running), life)),
                row.name.clone(),
                row.goroutine,
            )
        });
        LatencyTable {
            by: self.by,
            all: self.all,
            rows,
            causes: self.causes.by_cause(),
            latency: self.causes.overall(),
        }
    }
}

impl Sink for Breakdown {
    #[inline]
    fn event(&mut self, event: &Event) {
        if !self.begun {
            self.begun = true;
            self.window = self.window.of_trace(event.time);
        }
    }

    fn goroutine_begin(&mut self, birth: &GoroutineBirth) {
        let next = self.groups.len() as u32;
        let group = *self.group_of.entry(birth.made_at).or_insert(next);
        if group == next {
            self.groups
                .push((birth.made_at, birth.existed, States::default()));
        }
        self.groups[group as usize].1 &= birth.existed;
        if birth.slot >= self.living.len() {
            self.living.resize_with(birth.slot + 1, Living::default);
        }
        self.living[birth.slot].group = group;
    }

    #[inline]
    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        if self.by == By::Cause {
            return;
        }
        let Some((begin, end)) = self.window.clip(span.begin, span.end) else {
            return;
        };
        let (state, length) = (span.state as usize, end - begin);
        self.all[state].record(length);
        let living = &mut self.living[span.slot];
        if self.by == By::Group {
            self.groups[living.group as usize].2[state].record(length);
        } else {
            living.own[state].record(length);
        }
    }

    fn goroutine_end(&mut self, death: &GoroutineDeath) {
        if self.by == By::Goroutine {
            let living = &mut self.living[death.slot];
            let own = std::mem::take(&mut living.own);
            self.ended.push((death.goroutine, living.group, own));
        }
    }

    #[inline]
    fn wake(&mut self, wake: &Wake) {
        if self.window.holds(wake.start) {
            self.causes.wake(wake);
        }
    }
}

/// One row: a group or a goroutine.
#[derive(Clone, Debug)]
pub struct Row {
    /// The goroutine, where it is one.
    pub goroutine: Option<GId>,
    /// Its start function, and where it was made.
    pub name: Name,
    /// Durations in each state, by the state's number.
    pub states: States,
}

/// Durations of states.
#[derive(Clone, Debug)]
pub struct LatencyTable {
    /// What rows stand for.
    pub by: By,
    /// All goroutines together, by the state's number; empty where rows are causes.
    pub all: States,
    /// Rows; none where they are causes.
    pub rows: Vec<Row>,
    /// Scheduling latency by cause, the largest total first.
    pub causes: Vec<CauseLatency>,
    /// Scheduling latency of all causes.
    pub latency: Distribution,
}

/// States in the order in which they are shown: the scheduler's part first.
pub const STATE_ORDER: [GoroutineState; GoroutineState::COUNT] = [
    GoroutineState::Runnable,
    GoroutineState::Running,
    GoroutineState::Waiting,
    GoroutineState::Syscall,
    GoroutineState::SyscallWithoutP,
    GoroutineState::Unknown,
];

/// One curve or one line of a table: whose durations, of which state.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// The goroutine, where it is one.
    pub goroutine: Option<GId>,
    /// Whose they are; `None` for all together.
    pub name: Option<&'a Name>,
    /// How the goroutine was found and what made it runnable, where rows are causes.
    pub cause: Option<&'a CauseLatency>,
    /// The state.
    pub state: GoroutineState,
    /// The durations.
    pub durations: &'a Distribution,
}

impl LatencyTable {
    /// Every series that has a duration: all together first, then row by row.
    pub fn series(&self) -> Vec<Series<'_>> {
        let mut series = Vec::new();
        if self.by == By::Cause {
            let causes = self
                .causes
                .iter()
                .map(|cause| (Some(cause), &cause.latency));
            for (cause, durations) in std::iter::once((None, &self.latency)).chain(causes) {
                series.push(Series {
                    goroutine: None,
                    name: None,
                    cause,
                    state: GoroutineState::Runnable,
                    durations,
                });
            }
        }
        let rows = self
            .rows
            .iter()
            .map(|row| (row.goroutine, Some(&row.name), &row.states));
        for (goroutine, name, states) in std::iter::once((None, None, &self.all)).chain(rows) {
            for state in STATE_ORDER {
                series.push(Series {
                    goroutine,
                    name,
                    cause: None,
                    state,
                    durations: &states[state as usize],
                });
            }
        }
        series.retain(|series| series.durations.count() > 0);
        series
    }
}
