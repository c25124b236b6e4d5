//! Where time went, as stacks for flame graphs: summed by group of goroutine, state, reason and
//! place while the trace is read.
//!
//! Memory is linear in distinct stacks and living goroutines, never in events. A stack of the trace
//! stays one number here; its frames come in when names do.

mod collect;

pub use collect::StackCollector;

use crate::machine::{Cause, GoroutineState, Place};
use gmp_trace::event::Found;
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;

/// What a flame graph is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackKind {
    /// The whole life of goroutines: every state.
    Wall,
    /// Samples of the CPU profiler where there are any, else running time by what ended the run.
    Cpu,
    /// Waiting, by reason.
    Block,
    /// Runnable: waiting for a P.
    Sched,
    /// System calls.
    Syscall,
    /// Running time by who made the goroutine.
    Create,
}

impl StackKind {
    /// Every kind.
    pub const ALL: &'static [StackKind] = &[
        StackKind::Wall,
        StackKind::Cpu,
        StackKind::Block,
        StackKind::Sched,
        StackKind::Syscall,
        StackKind::Create,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            StackKind::Wall => "wall",
            StackKind::Cpu => "cpu",
            StackKind::Block => "block",
            StackKind::Sched => "sched",
            StackKind::Syscall => "syscall",
            StackKind::Create => "create",
        }
    }

    /// True where spans of `state` are of this kind.
    const fn takes(self, state: GoroutineState) -> bool {
        match self {
            StackKind::Wall => true,
            StackKind::Cpu | StackKind::Create => matches!(state, GoroutineState::Running),
            StackKind::Block => matches!(state, GoroutineState::Waiting),
            StackKind::Sched => matches!(state, GoroutineState::Runnable),
            StackKind::Syscall => matches!(
                state,
                GoroutineState::Syscall | GoroutineState::SyscallWithoutP
            ),
        }
    }
}

/// What ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunEnd {
    /// The goroutine waits.
    Wait(Text),
    /// It gave up its P by its own will.
    Yield,
    /// It was made to give up its P.
    Preemption,
    /// It ended.
    Exit,
    /// It entered a system call.
    Syscall,
    /// The trace did.
    TraceEnd,
    /// The trace does not tell.
    Unknown,
}

/// What a stack says beside group and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Detail {
    /// The goroutine was in this state.
    State(GoroutineState),
    /// It waited, for this reason.
    Wait(Text),
    /// It ran until this.
    Run(RunEnd),
    /// It was runnable: what made it so (`None` where it never ran), and how it was found.
    Queue(Option<Cause>, Option<Found>),
    /// It was in a system call; true where its P was taken away meanwhile.
    Syscall(bool),
    /// The CPU profiler looked.
    Sample,
    /// Nothing: the chain of creators says it all.
    Ancestry,
}

/// One stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackKey {
    /// The number of its group in [`Stacks::groups`]; `None` for samples outside goroutines. For
    /// [`Detail::Ancestry`] a number in [`Stacks::lineages`].
    pub group: Option<u32>,
    /// What else it says.
    pub detail: Detail,
    /// Where.
    pub place: Place,
}

/// What is summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Time.
    pub time: Nanos,
    /// How often.
    pub count: u64,
}

impl Amount {
    fn add(&mut self, time: Nanos, count: u64) {
        self.time = self.time + time;
        self.count = self.count.saturating_add(count);
    }
}

/// Goroutines with the same start function, made at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackGroup {
    /// Where they were made.
    pub made_at: Place,
    /// True where one of them was made in the trace.
    pub made: bool,
    /// True where one of them existed before its first event.
    pub existed: bool,
}

/// A group and the lineage of the goroutine that made it; a creator stands before what it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lineage {
    /// The lineage of the creator; `None` where it is not known.
    pub creator: Option<u32>,
    /// The number of the group.
    pub group: u32,
}

/// What a [`StackCollector`] has collected.
#[derive(Clone, Debug)]
pub struct Stacks {
    /// What it is about.
    pub kind: StackKind,
    /// False where the trace has no events.
    pub begun: bool,
    /// Groups by their numbers.
    pub groups: Vec<StackGroup>,
    /// Lineages by their numbers; a creator's is smaller than those of what it made.
    pub lineages: Vec<Lineage>,
    /// Stacks of spans, in the order of their keys.
    pub sums: Vec<(StackKey, Amount)>,
    /// Stacks of CPU samples, in the order of their keys: counts only.
    pub samples: Vec<(StackKey, Amount)>,
}

impl Stacks {
    /// All spans together.
    pub fn total(&self) -> Amount {
        let mut total = Amount::default();
        for (_, amount) in &self.sums {
            total.add(amount.time, amount.count);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> =
            StackKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), 6);
    }
}
