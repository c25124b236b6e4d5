//! The states at one moment, for whoever shows moments instead of spans.

use super::Machine;
use super::levels::Levels;
use super::sink::Sink;
use super::state::{GoroutineState, ProcState, ThreadState};
use crate::diag::Counts;
use gmp_trace::id::{GId, MId, PId};
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;

/// A P now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcNow {
    /// Which.
    pub proc: PId,
    /// Its state.
    pub state: ProcState,
    /// The thread that holds it.
    pub thread: Option<MId>,
}

/// A thread now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadNow {
    /// Which.
    pub thread: MId,
    /// Its state.
    pub state: ThreadState,
    /// The goroutine that it runs or is in a system call of.
    pub goroutine: Option<GId>,
}

/// A goroutine now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoroutineNow {
    /// Which.
    pub goroutine: GId,
    /// Its state.
    pub state: GoroutineState,
    /// Why it waits; of other states that of the last wait.
    pub reason: Text,
}

impl<S: Sink> Machine<S> {
    /// The time of the first event.
    pub fn begin(&self) -> Nanos {
        self.begin
    }

    /// The largest time of an event so far.
    pub fn latest(&self) -> Nanos {
        self.latest
    }

    /// What it could not make sense of so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many goroutines and Ps are in each state.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// The Ps, in the order in which they appeared.
    pub fn procs_now(&self) -> impl Iterator<Item = ProcNow> {
        self.procs.iter().map(|proc| ProcNow {
            proc: proc.id,
            state: proc.state,
            thread: proc.thread,
        })
    }

    /// The threads that live, in the order in which they appeared.
    pub fn threads_now(&self) -> impl Iterator<Item = ThreadNow> {
        let alive = self.threads.iter().filter(|thread| thread.alive);
        alive.map(|thread| ThreadNow {
            thread: thread.id,
            state: thread.state,
            goroutine: thread.running.map(|(goroutine, _)| goroutine),
        })
    }

    /// The goroutines that live, in no particular order.
    pub fn goroutines_now(&self) -> impl Iterator<Item = GoroutineNow> {
        self.goroutines.alive().map(|goroutine| GoroutineNow {
            goroutine: goroutine.id,
            state: goroutine.state,
            reason: goroutine.reason,
        })
    }
}
