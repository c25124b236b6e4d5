//! How many Ps run at once, and whether Ps were idle while goroutines waited to run.

use crate::machine::{GoroutineState, Levels, ProcState};
use gmp_trace::time::Nanos;

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stretch {
    /// From when.
    pub begin: Nanos,
    /// Until when.
    pub end: Nanos,
}

impl Stretch {
    /// How long.
    #[inline]
    pub fn length(&self) -> Nanos {
        self.end.since(self.begin)
    }
}

/// Integrals over time of how many goroutines and Ps were in which state.
#[derive(Clone, Debug, Default)]
pub struct Parallelism {
    /// Time that was looked at.
    pub time: Nanos,
    /// Time with at least one goroutine runnable and the world not stopped.
    pub waiting: Nanos,
    /// In that time: P-time running, in the scheduler, in system calls and idle, by the state's
    /// number.
    pub procs_while_waiting: [i128; ProcState::COUNT],
    /// Runnable goroutines, summed over time.
    pub runnable_time: i128,
    /// Running goroutines, summed over time.
    pub running_time: i128,
    /// Time in which a P was idle while a goroutine was runnable.
    pub idle_while_waiting: Nanos,
    /// P-time in such times that runnable goroutines could have had.
    pub lost: Nanos,
    /// The longest such stretch.
    pub longest: Stretch,
    /// How long the stretch that is under way has taken.
    current: Nanos,
}

impl Parallelism {
    /// Nothing changed between `from` and `to`.
    #[inline]
    pub fn elapsed(&mut self, from: Nanos, to: Nanos, levels: &Levels) {
        let time = to.0 - from.0;
        self.time.0 += time;
        let runnable = levels.goroutines(GoroutineState::Runnable);
        let running = levels.goroutines(GoroutineState::Running);
        self.running_time += product(running, time);
        self.runnable_time += product(runnable, time);
        if runnable == 0 || levels.procs(ProcState::Stopped) > 0 {
            self.current = Nanos::ZERO;
            return;
        }
        self.waiting.0 += time;
        for state in PROC_STATES {
            self.procs_while_waiting[state as usize] += product(levels.procs(state), time);
        }
        let idle = levels.procs(ProcState::Idle);
        if idle == 0 {
            self.current = Nanos::ZERO;
            return;
        }
        self.idle_while_waiting.0 += time;
        self.lost.0 = self
            .lost
            .0
            .saturating_add(time.saturating_mul(idle.min(runnable).into()));
        self.current.0 += time;
        if self.current > self.longest.length() {
            self.longest = Stretch {
                begin: to - self.current,
                end: to,
            };
        }
    }

    /// The mean number of goroutines that ran at once.
    pub fn mean_running(&self) -> f64 {
        ratio(self.running_time, self.time)
    }

    /// The mean number of goroutines that wanted a P.
    pub fn mean_runnable(&self) -> f64 {
        ratio(self.runnable_time, self.time)
    }

    /// While at least one goroutine wanted a P: the mean number of Ps in `state`.
    pub fn mean_procs_while_waiting(&self, state: ProcState) -> f64 {
        ratio(self.procs_while_waiting[state as usize], self.waiting)
    }
}

/// States of Ps that are looked at while work waits.
const PROC_STATES: [ProcState; 4] = [
    ProcState::Running,
    ProcState::Scheduler,
    ProcState::Syscall,
    ProcState::Idle,
];

/// So many things for so long.
#[inline]
fn product(things: u32, time: i64) -> i128 {
    if time < SHORT {
        i128::from(i64::from(things) * time)
    } else {
        long_product(things, time)
    }
}

/// Below this many nanoseconds the product with any number of things fits a word.
const SHORT: i64 = 1 << 31;

#[cold]
fn long_product(things: u32, time: i64) -> i128 {
    i128::from(things) * i128::from(time)
}

fn ratio(part: i128, whole: Nanos) -> f64 {
    if whole.0 <= 0 {
        0.0
    } else {
        part as f64 / whole.0 as f64
    }
}
