//! What each P and the threads did with their time.

use crate::machine::{ProcSpan, ProcState, ThreadSpan, ThreadState};
use gmp_trace::id::PId;
use gmp_trace::time::Nanos;

/// One P's time by state.
#[derive(Clone, Debug)]
pub struct ProcTime {
    /// Which.
    pub proc: PId,
    /// Time in each state, by the state's number.
    pub time: [Nanos; ProcState::COUNT],
}

impl ProcTime {
    /// The time in `state`.
    pub fn of(&self, state: ProcState) -> Nanos {
        self.time[state as usize]
    }
}

/// Sums spans of Ps and threads.
#[derive(Clone, Debug, Default)]
pub struct Utilization {
    procs: Vec<Option<ProcTime>>,
    /// Threads have numbers below this.
    threads: usize,
    thread_time: [Nanos; ThreadState::COUNT],
}

impl Utilization {
    /// One more span of a P.
    #[inline]
    pub fn proc_span(&mut self, span: &ProcSpan) {
        if span.index >= self.procs.len() {
            self.procs.resize(span.index + 1, None);
        }
        let time = span.end - span.begin;
        let row = self.procs[span.index].get_or_insert_with(|| ProcTime {
            proc: span.proc,
            time: Default::default(),
        });
        row.time[span.state as usize].0 += time.0;
    }

    /// One more span of a thread.
    #[inline]
    pub fn thread_span(&mut self, span: &ThreadSpan) {
        self.threads = self.threads.max(span.index + 1);
        let sum = &mut self.thread_time[span.state as usize];
        *sum = *sum + (span.end - span.begin);
    }

    /// The Ps in the order of their numbers.
    pub fn procs(&self) -> Vec<ProcTime> {
        let mut procs: Vec<_> = self.procs.iter().flatten().cloned().collect();
        procs.sort_by_key(|row| row.proc);
        procs
    }

    /// How many threads there were.
    pub fn threads(&self) -> u64 {
        self.threads as u64
    }

    /// The time of all threads in `state`.
    pub fn thread_time(&self, state: ThreadState) -> Nanos {
        self.thread_time[state as usize]
    }
}
