//! Who stole from whom, and what the queues did.

use gmp_trace::event::StealFrom;
use gmp_trace::id::PId;
use gmp_trace::{Body, Event};
use std::collections::BTreeMap;

/// Steals of one thief from one victim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StealCount {
    /// Successful steals.
    pub steals: u64,
    /// Goroutines that they took.
    pub goroutines: u64,
    /// Those of the steals that took `runnext`.
    pub runnext: u64,
    /// Those of the steals that took timers.
    pub timers: u64,
}

/// Collects steals.
#[derive(Clone, Debug, Default)]
pub struct Steals {
    /// By thief (`None` where the trace does not tell) and victim.
    pub pairs: BTreeMap<(Option<PId>, PId), StealCount>,
    /// Searches that ended without a goroutine.
    pub failed_searches: u64,
    /// Queues that those searches looked at.
    pub failed_attempts: u64,
    /// Times that a full ring moved goroutines to the global queue.
    pub overflows: u64,
    /// Goroutines that they moved.
    pub overflowed: u64,
    /// Times that goroutines were taken from the global queue.
    pub global_batches: u64,
    /// Goroutines that they took.
    pub from_global: u64,
}

impl Steals {
    /// One more event, of any kind.
    pub fn event(&mut self, event: &Event) {
        match event.body {
            Body::Steal { victim, n, what } => self.steal(event.p, victim, n, what),
            Body::StealFailed { attempts } => {
                self.failed_searches += 1;
                self.failed_attempts += u64::from(attempts);
            }
            Body::RunqOverflow { n } => {
                self.overflows += 1;
                self.overflowed += u64::from(n);
            }
            Body::GlobalBatch { n } => {
                self.global_batches += 1;
                self.from_global += u64::from(n);
            }
            _ => {}
        }
    }

    fn steal(&mut self, thief: Option<PId>, victim: PId, n: u32, what: StealFrom) {
        let pair = self.pairs.entry((thief, victim)).or_default();
        pair.steals += 1;
        match what {
            StealFrom::Ring => pair.goroutines += u64::from(n),
            StealFrom::Runnext => {
                pair.goroutines += u64::from(n);
                pair.runnext += 1;
            }
            StealFrom::Timers => pair.timers += 1,
        }
    }

    /// All steals together.
    pub fn total(&self) -> StealCount {
        let mut total = StealCount::default();
        for pair in self.pairs.values() {
            total.steals += pair.steals;
            total.goroutines += pair.goroutines;
            total.runnext += pair.runnext;
            total.timers += pair.timers;
        }
        total
    }

    /// Goroutines that P `proc` took from others, and that others took from it.
    pub fn in_and_out(&self, proc: PId) -> (u64, u64) {
        let (mut taken, mut lost) = (0, 0);
        for (&(thief, victim), pair) in &self.pairs {
            if thief == Some(proc) {
                taken += pair.goroutines;
            }
            if victim == proc {
                lost += pair.goroutines;
            }
        }
        (taken, lost)
    }
}
