//! The sink of the report: hands every span, wake and event to those who sum it up.

use super::blocking::Blocking;
use super::distribution::Distribution;
use super::goroutines::Lives;
use super::groups::Groups;
use super::latency::Latencies;
use super::parallelism::Parallelism;
use super::rescues::Rescues;
use super::runs::Runs;
use super::steal::Steals;
use super::utilization::Utilization;
use crate::machine::{
    GoroutineBirth, GoroutineDeath, GoroutineSpan, GoroutineState, Levels, ProcSpan, Sink,
    ThreadSpan, Wake,
};
use gmp_trace::event::Preemption;
use gmp_trace::id::{GId, MId, PId};
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use std::collections::BTreeMap;

/// Counts of events that are about no single state.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Events of any kind.
    pub events: u64,
    /// Goroutines that began to run, by P.
    pub switches: Switches,
    /// System calls entered.
    pub syscalls: u64,
    /// Goroutines that gave up their P by their own will.
    pub yields: u64,
    /// Goroutines preempted.
    pub preempted: Preempted,
    /// Events that the recorder says are lost.
    pub lost: u64,
    /// Times that a switch took in the scheduler, from those that were measured.
    pub samples: Distribution,
    /// How late timers fired.
    pub timer_lateness: Distribution,
    /// How long the world was stopped, from request to restart.
    pub stops: Distribution,
    /// How long it took from the request until the world stood still.
    pub stop_delays: Distribution,
    /// Who came last in the stop that took longest to stand still, where the trace tells.
    pub last_to_stop: Option<SafePoint>,
    stop_requested: Option<Nanos>,
    safe_point: Option<SafePoint>,
    /// Collection cycles.
    pub collections: Collections,
}

/// A thread that stopped because the world was to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafePoint {
    /// How long after the request.
    pub after: Nanos,
    /// The thread.
    pub thread: Option<MId>,
    /// Its P.
    pub proc: Option<PId>,
    /// The goroutine that ran on it.
    pub goroutine: Option<GId>,
    /// By what it was made to stop.
    pub how: Preemption,
}

/// Collection cycles.
#[derive(Clone, Debug, Default)]
pub struct Collections {
    /// How long those took of which the trace has the beginning and the end.
    pub cycles: Distribution,
    /// Pages of memory that they gave back; Go's traces do not tell.
    pub pages: u64,
    /// How many stacks gave them, in all cycles; Go's traces do not tell.
    pub stacks: u64,
    begun: Option<Nanos>,
}

impl Collections {
    fn end(&mut self, now: Nanos, pages: Option<u64>, stacks: Option<u64>) {
        if let Some(begun) = self.begun.take() {
            self.cycles.record(now.since(begun));
        }
        self.pages = self.pages.saturating_add(pages.unwrap_or(0));
        self.stacks = self.stacks.saturating_add(stacks.unwrap_or(0));
    }
}

/// How many goroutines were made to give up their P, by how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preempted {
    flag: u64,
    signal: u64,
    not_told: u64,
}

impl Preempted {
    fn count(&mut self, how: Preemption) {
        match how {
            Preemption::Cooperative => self.flag += 1,
            Preemption::Signal => self.signal += 1,
            Preemption::Unknown => self.not_told += 1,
        }
    }

    /// However it was.
    pub fn all(&self) -> u64 {
        self.flag + self.signal + self.not_told
    }

    /// By a signal; `None` where the trace does not tell.
    pub fn signal(&self) -> Option<u64> {
        (self.not_told == 0).then_some(self.signal)
    }
}

/// How many goroutines began to run, by P.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    total: u64,
    direct: Vec<u64>,
    other: BTreeMap<u32, u64>,
}

/// Ps below this are counted in a vector.
const DIRECT: u32 = 1 << 12;

impl Switches {
    #[inline]
    fn count(&mut self, proc: Option<PId>) {
        self.total += 1;
        let Some(number) = proc.map(PId::get) else {
            return;
        };
        if let Some(count) = self.direct.get_mut(number as usize) {
            *count += 1;
        } else if number < DIRECT {
            self.direct.resize(number as usize + 1, 0);
            self.direct[number as usize] = 1;
        } else {
            *self.other.entry(number).or_default() += 1;
        }
    }

    /// On all Ps, and where the trace does not tell on which.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// On P `proc`.
    pub fn of(&self, proc: PId) -> u64 {
        let number = proc.get();
        let counted = self
            .direct
            .get(number as usize)
            .or_else(|| self.other.get(&number));
        counted.copied().unwrap_or(0)
    }
}

impl Tally {
    /// Counts an event that is none of the most frequent ones.
    fn event(&mut self, event: &Event) {
        match event.body {
            Body::GoPreempted { how, .. } => self.preempted.count(how),
            Body::SyscallEnter { .. } => self.syscalls += 1,
            Body::SchedSample { took } => self.samples.record(took),
            Body::TimerFired { late, .. } => self.timer_lateness.record(late),
            Body::StopRequested { .. } => {
                self.stop_requested = Some(event.time);
                self.safe_point = None;
            }
            Body::SafePoint { how } => {
                self.safe_point = self.stop_requested.map(|begin| SafePoint {
                    after: event.time.since(begin),
                    thread: event.m,
                    proc: event.p,
                    goroutine: event.g,
                    how,
                });
            }
            Body::Stopped => self.stands_still(event.time),
            Body::Restarted => {
                if let Some(begin) = self.stop_requested.take() {
                    self.stops.record(event.time.since(begin));
                }
            }
            Body::GcBegin { .. } => self.collections.begun = Some(event.time),
            Body::GcEnd { pages, stacks, .. } => self.collections.end(event.time, pages, stacks),
            Body::Loss { events } => self.lost = self.lost.saturating_add(events),
            _ => {}
        }
    }

    /// The world, which was to stop, stands still at `now`.
    fn stands_still(&mut self, now: Nanos) {
        let Some(begin) = self.stop_requested else {
            return;
        };
        let delay = now.since(begin);
        if self.stop_delays.count() == 0 || delay > self.stop_delays.max() {
            self.last_to_stop = self.safe_point;
        }
        self.stop_delays.record(delay);
    }
}

/// Everything that the report sums up.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    /// Counts of events.
    pub tally: Tally,
    /// Ps and threads.
    pub utilization: Utilization,
    /// Goroutines by group.
    pub groups: Groups,
    /// Scheduling latency by cause.
    pub latencies: Latencies,
    /// Waits by reason and place.
    pub blocking: Blocking,
    /// Steals and queues.
    pub steals: Steals,
    /// Ps that were asked for, taken and handed on.
    pub rescues: Rescues,
    /// Running Ps and waiting work over time.
    pub parallelism: Parallelism,
    /// Lengths of runs.
    pub runs: Runs,
    /// Every goroutine, where it was asked for.
    pub lives: Option<Lives>,
}

impl Collector {
    /// A collector that has seen nothing; `lives` asks for the list of every goroutine.
    pub fn new(lives: bool) -> Collector {
        Collector {
            lives: lives.then(Lives::default),
            ..Collector::default()
        }
    }
}

impl Sink for Collector {
    #[inline]
    fn event(&mut self, event: &Event) {
        self.tally.events += 1;
        match event.body {
            Body::GoStart { .. } => {
                self.tally.switches.count(event.p);
                self.rescues.turn(event.p);
            }
            Body::GoYield { .. } => self.tally.yields += 1,
            Body::GoPark { .. }
            | Body::GoReady { .. }
            | Body::GoCreate { .. }
            | Body::GoExit { .. }
            | Body::ProcStart
            | Body::ProcStop => {}
            _ => {
                self.tally.event(event);
                self.steals.event(event);
                self.rescues.event(event);
            }
        }
    }

    #[inline]
    fn elapsed(&mut self, from: Nanos, to: Nanos, levels: &Levels) {
        self.parallelism.elapsed(from, to, levels);
    }

    fn goroutine_begin(&mut self, birth: &GoroutineBirth) {
        self.groups.begin(birth);
    }

    #[inline]
    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        self.groups.span(span);
        match span.state {
            GoroutineState::Waiting => self.blocking.span(span, self.groups.of(span.slot)),
            GoroutineState::Running => self.runs.span(span, self.groups.of(span.slot)),
            _ => {}
        }
        if let Some(lives) = &mut self.lives {
            lives.span(span);
        }
    }

    fn goroutine_end(&mut self, death: &GoroutineDeath) {
        self.groups.end(death);
        if let Some(lives) = &mut self.lives {
            lives.end(
                death,
                self.groups.of(death.slot),
                self.groups.time(death.slot),
            );
        }
    }

    #[inline]
    fn wake(&mut self, wake: &Wake) {
        self.latencies.wake(wake);
        self.groups.wake(wake);
    }

    #[inline]
    fn proc_span(&mut self, span: &ProcSpan) {
        self.utilization.proc_span(span);
    }

    #[inline]
    fn thread_span(&mut self, span: &ThreadSpan) {
        self.utilization.thread_span(span);
    }
}
