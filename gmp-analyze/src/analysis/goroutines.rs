//! The list of every goroutine, for whoever asks for it: memory is linear in goroutines.

use crate::machine::{GoroutineDeath, GoroutineSpan, GoroutineState};
use gmp_trace::event::ExitHow;
use gmp_trace::id::GId;
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;

/// One goroutine's life in sums.
#[derive(Clone, Debug)]
pub struct Life {
    /// Which.
    pub goroutine: GId,
    /// The number of its group.
    pub group: usize,
    /// When it appeared.
    pub born: Nanos,
    /// When it ended, or the trace did.
    pub end: Nanos,
    /// True where the trace ended first.
    pub alive: bool,
    /// How it ended, where the trace tells.
    pub how: Option<ExitHow>,
    /// Time in each state, by the state's number. They sum to `end - born`.
    pub time: [Nanos; GoroutineState::COUNT],
    /// Waiting time by reason, in the order of first waits.
    pub waits: Vec<(Text, Nanos)>,
}

/// Collects lives.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    waits: Vec<Vec<(Text, Nanos)>>,
    ended: Vec<Life>,
}

impl Lives {
    /// A goroutine leaves a state.
    pub fn span(&mut self, span: &GoroutineSpan) {
        if span.slot >= self.waits.len() {
            self.waits.resize(span.slot + 1, Vec::new());
        }
        if span.state == GoroutineState::Waiting {
            let time = span.end.since(span.begin);
            let waits = &mut self.waits[span.slot];
            match waits.iter_mut().find(|(reason, _)| *reason == span.reason) {
                Some((_, sum)) => *sum = *sum + time,
                None => waits.push((span.reason, time)),
            }
        }
    }

    /// A goroutine of group `group` ends with `time` in each state.
    pub fn end(
        &mut self,
        death: &GoroutineDeath,
        group: usize,
        time: [Nanos; GoroutineState::COUNT],
    ) {
        let waits = self
            .waits
            .get_mut(death.slot)
            .map(std::mem::take)
            .unwrap_or_default();
        self.ended.push(Life {
            goroutine: death.goroutine,
            group,
            born: death.born,
            end: death.time,
            alive: death.alive,
            how: death.how,
            time,
            waits,
        });
    }

    /// Every goroutine, by number.
    pub fn into_lives(mut self) -> Vec<Life> {
        self.ended.sort_by_key(|life| (life.goroutine, life.born));
        self.ended
    }
}
