//! How long goroutines run at a stretch, and the longest stretches.

use super::distribution::Distribution;
use crate::machine::{GoroutineSpan, GoroutineState};
use gmp_trace::id::{GId, PId};
use gmp_trace::time::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many of the longest runs are kept.
pub const LONGEST_KEPT: usize = 10;

/// One run: a goroutine had a P and did not give it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// How long.
    pub time: Nanos,
    /// From when.
    pub begin: Nanos,
    /// Which goroutine.
    pub goroutine: GId,
    /// The number of its group.
    pub group: usize,
    /// On which P.
    pub proc: Option<PId>,
    /// True where the trace ended first.
    pub open: bool,
}

/// Collects runs.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    lengths: Distribution,
    /// The longest, the shortest of them on top.
    longest: BinaryHeap<Reverse<Run>>,
    /// A run that is not longer than this is not among the longest.
    bar: i64,
}

impl Runs {
    /// A goroutine of group `group` leaves a state.
    #[inline]
    pub fn span(&mut self, span: &GoroutineSpan, group: usize) {
        if span.state != GoroutineState::Running {
            return;
        }
        let time = span.end.since(span.begin);
        self.lengths.record(time);
        if time.0 > self.bar {
            self.keep(Run {
                time,
                begin: span.begin,
                goroutine: span.goroutine,
                group,
                proc: span.proc,
                open: span.open,
            });
        }
    }

    fn keep(&mut self, run: Run) {
        self.longest.push(Reverse(run));
        if self.longest.len() > LONGEST_KEPT {
            self.longest.pop();
            self.bar = self.longest.peek().map_or(0, |shortest| shortest.0.time.0);
        }
    }

    /// The lengths of all runs.
    pub fn lengths(&self) -> &Distribution {
        &self.lengths
    }

    /// The longest runs, the longest first.
    pub fn longest(&self) -> Vec<Run> {
        let mut longest: Vec<Run> = self.longest.iter().map(|run| run.0).collect();
        longest.sort_by_key(|run| (Reverse(run.time), run.begin));
        longest
    }
}
