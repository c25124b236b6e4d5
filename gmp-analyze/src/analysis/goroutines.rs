//! The list of every goroutine, for whoever asks for it: memory is linear in goroutines.

use crate::machine::{GoroutineDeath, GoroutineSpan, GoroutineState, Place};
use gmp_trace::event::ExitHow;
use gmp_trace::id::GId;
use gmp_trace::tables::{StackRef, Text};
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
    /// The first stack that was seen of it. Its outermost frame is the start function.
    pub seen_at: Option<StackRef>,
}

/// What is known of a goroutine that lives.
#[derive(Clone, Debug, Default)]
struct Living {
    waits: Vec<(Text, Nanos)>,
    seen_at: Option<StackRef>,
}

/// Collects lives.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    /// By slot.
    living: Vec<Living>,
    ended: Vec<Life>,
}

impl Lives {
    /// A goroutine leaves a state.
    pub fn span(&mut self, span: &GoroutineSpan) {
        if span.slot >= self.living.len() {
            self.living.resize(span.slot + 1, Living::default());
        }
        let living = &mut self.living[span.slot];
        if let (None, Place::Stack(stack)) = (living.seen_at, span.place) {
            living.seen_at = Some(stack);
        }
        if span.state == GoroutineState::Waiting {
            let time = span.end.since(span.begin);
            let waits = &mut living.waits;
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
        let living = self
            .living
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
            waits: living.waits,
            seen_at: living.seen_at,
        });
    }

    /// Every goroutine, by number.
    pub fn into_lives(mut self) -> Vec<Life> {
        self.ended.sort_by_key(|life| (life.goroutine, life.born));
        self.ended
    }
}
