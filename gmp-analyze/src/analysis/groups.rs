//! Goroutines by start function and creation site: how many, and their time in each state.

use super::distribution::Distribution;
use crate::machine::{GoroutineBirth, GoroutineDeath, GoroutineSpan, GoroutineState, Place, Wake};
use gmp_trace::time::Nanos;
use rustc_hash::FxHashMap;

/// One group: goroutines with the same start function, made at the same place.
#[derive(Clone, Debug)]
pub struct Group {
    /// Where its goroutines were made; names their start function.
    pub made_at: Place,
    /// Goroutines made in the trace.
    pub made: u64,
    /// Goroutines that existed before their first event.
    pub existed: u64,
    /// Goroutines that ended.
    pub ended: u64,
    /// Goroutines that lived when the trace ended.
    pub alive: u64,
    /// Time of all of them in each state, by the state's number.
    pub time: [Nanos; GoroutineState::COUNT],
    /// How many spans of each state there were.
    pub spans: [u64; GoroutineState::COUNT],
    /// Lives, summed.
    pub life: Nanos,
    /// The longest life of one goroutine.
    pub longest_life: Nanos,
    /// The longest time that one goroutine ran in all.
    pub most_running: Nanos,
    /// Scheduling latencies.
    pub latency: Distribution,
}

impl Group {
    fn new(made_at: Place) -> Group {
        Group {
            made_at,
            made: 0,
            existed: 0,
            ended: 0,
            alive: 0,
            time: Default::default(),
            spans: Default::default(),
            life: Nanos::ZERO,
            longest_life: Nanos::ZERO,
            most_running: Nanos::ZERO,
            latency: Distribution::new(),
        }
    }

    /// Goroutines in all.
    pub fn goroutines(&self) -> u64 {
        self.made + self.existed
    }

    /// The time of all of them in `state`.
    pub fn of(&self, state: GoroutineState) -> Nanos {
        self.time[state as usize]
    }
}

/// One living goroutine's sums; folded into its group when it ends.
#[derive(Clone, Copy, Debug, Default)]
struct Living {
    group: u32,
    spans: [u32; GoroutineState::COUNT],
    time: [i64; GoroutineState::COUNT],
}

/// Collects goroutines by group. Memory is linear in groups and living goroutines.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    index: FxHashMap<Place, u32>,
    groups: Vec<Group>,
    living: Vec<Living>,
}

impl Groups {
    /// A goroutine appears.
    pub fn begin(&mut self, birth: &GoroutineBirth) {
        let next = self.groups.len() as u32;
        let group = *self.index.entry(birth.made_at).or_insert(next);
        if group == next {
            self.groups.push(Group::new(birth.made_at));
        }
        let entry = &mut self.groups[group as usize];
        if birth.existed {
            entry.existed += 1;
        } else {
            entry.made += 1;
        }
        if birth.slot >= self.living.len() {
            self.living.resize(birth.slot + 1, Living::default());
        }
        self.living[birth.slot] = Living {
            group,
            ..Living::default()
        };
    }

    /// A goroutine leaves a state.
    #[inline]
    pub fn span(&mut self, span: &GoroutineSpan) {
        let living = &mut self.living[span.slot];
        living.time[span.state as usize] += span.end.0 - span.begin.0;
        living.spans[span.state as usize] += 1;
    }

    /// A goroutine begins to run.
    #[inline]
    pub fn wake(&mut self, wake: &Wake) {
        let group = self.living[wake.slot].group as usize;
        self.groups[group].latency.record(wake.latency());
    }

    /// A goroutine ends, or the trace does.
    pub fn end(&mut self, death: &GoroutineDeath) {
        let living = self.living[death.slot];
        let group = &mut self.groups[living.group as usize];
        if death.alive {
            group.alive += 1;
        } else {
            group.ended += 1;
        }
        for state in 0..GoroutineState::COUNT {
            group.time[state] = group.time[state] + Nanos(living.time[state]);
            group.spans[state] += u64::from(living.spans[state]);
        }
        let life = death.time.since(death.born);
        group.life = group.life + life;
        group.longest_life = group.longest_life.max(life);
        let running = Nanos(living.time[GoroutineState::Running as usize]);
        group.most_running = group.most_running.max(running);
    }

    /// The number of the group of the living goroutine in `slot`.
    #[inline]
    pub fn of(&self, slot: usize) -> usize {
        self.living[slot].group as usize
    }

    /// The time in each state of the goroutine in `slot`, which lives or has just ended.
    pub fn time(&self, slot: usize) -> [Nanos; GoroutineState::COUNT] {
        self.living[slot].time.map(Nanos)
    }

    /// The groups, by their numbers.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
}
