//! The line about the scheduler that `GMPDEBUG=schedtrace=MS` prints: Go's, field by field.
//!
//! Tools that read Go's line read ours. This file only formats: a snapshot goes in, text comes out.
//!
//! # Not here
//!
//! Taking the snapshot and printing (sysmon does both); the detailed form.

use std::fmt;

/// The scheduler at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot<'a> {
    /// Milliseconds since the first line, which itself has 0.
    pub(crate) elapsed_ms: u64,
    /// Ps without an M.
    pub(crate) idle_ps: u32,
    /// All Ms that exist; sysmon's thread counts as one.
    pub(crate) threads: u64,
    /// Ms that look for work.
    pub(crate) spinning_threads: u32,
    /// Whether somebody with work found no idle P, so that the next M that runs dry looks once more.
    pub(crate) need_spinning: bool,
    /// Ms that are parked.
    pub(crate) idle_threads: u32,
    /// Goroutines in the global queue.
    pub(crate) run_queue: u32,
    /// Each P in order.
    pub(crate) ps: &'a [PSnapshot],
}

/// One P at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PSnapshot {
    /// Goroutines in its ring; the one that runs next is not counted.
    pub(crate) run_queue: u32,
    /// How many time slices it has started.
    pub(crate) sched_tick: u32,
}

impl fmt::Display for Snapshot<'_> {
    /// One line, without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SCHED {}ms: gomaxprocs={} idleprocs={} threads={} spinningthreads={} \
             needspinning={} idlethreads={} runqueue={} [",
            self.elapsed_ms,
            self.ps.len(),
            self.idle_ps,
            self.threads,
            self.spinning_threads,
            u32::from(self.need_spinning),
            self.idle_threads,
            self.run_queue,
        )?;
        for p in self.ps {
            write!(f, " {}", p.run_queue)?;
        }
        f.write_str(" ] schedticks=[")?;
        for p in self.ps {
            write!(f, " {}", p.sched_tick)?;
        }
        f.write_str(" ]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_gos() {
        let ps = [
            PSnapshot {
                run_queue: 3,
                sched_tick: 41,
            },
            PSnapshot {
                run_queue: 0,
                sched_tick: 4_294_967_295,
            },
        ];
        let snapshot = Snapshot {
            elapsed_ms: 1003,
            idle_ps: 1,
            threads: 5,
            spinning_threads: 1,
            need_spinning: true,
            idle_threads: 2,
            run_queue: 17,
            ps: &ps,
        };
        assert_eq!(
            snapshot.to_string(),
            "SCHED 1003ms: gomaxprocs=2 idleprocs=1 threads=5 spinningthreads=1 needspinning=1 \
             idlethreads=2 runqueue=17 [ 3 0 ] schedticks=[ 41 4294967295 ]"
        );
    }

    #[test]
    fn the_first_line_of_a_single_p() {
        let ps = [PSnapshot {
            run_queue: 0,
            sched_tick: 0,
        }];
        let snapshot = Snapshot {
            elapsed_ms: 0,
            idle_ps: 0,
            threads: 2,
            spinning_threads: 0,
            need_spinning: false,
            idle_threads: 0,
            run_queue: 0,
            ps: &ps,
        };
        assert_eq!(
            snapshot.to_string(),
            "SCHED 0ms: gomaxprocs=1 idleprocs=0 threads=2 spinningthreads=0 needspinning=0 \
             idlethreads=0 runqueue=0 [ 0 ] schedticks=[ 0 ]"
        );
    }
}
