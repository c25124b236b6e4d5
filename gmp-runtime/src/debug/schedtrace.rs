//! The lines about the scheduler that `GMPDEBUG=schedtrace=MS` prints, and with `scheddetail=1` those about
//! each P, M and G: Go's, field by field.
//!
//! Tools that read Go's lines read ours. This file only formats: a snapshot goes in, text comes out. What a
//! field of Go's has no meaning for here (`mallocing`, `throwing`, `preemptoff`, `dying`) has the value that
//! it has in Go when nothing is wrong.
//!
//! # Not here
//!
//! Taking the snapshot and printing: sysmon does both.

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
    /// What comes instead of the figures of each P when lines of their own follow.
    pub(crate) detail: Option<Detail>,
}

/// The end of the first line of the detailed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Detail {
    /// Whether somebody stops the world.
    pub(crate) gc_waiting: bool,
    /// Ms that wait for the goroutine that is locked to them.
    pub(crate) locked_idle_threads: u32,
    /// Ps that have not stopped yet.
    pub(crate) stop_wait: u32,
    /// Whether the monitor sleeps until it is woken.
    pub(crate) sysmon_waits: bool,
}

/// A number, or `nil` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrNil(pub(crate) Option<u64>);

impl fmt::Display for OrNil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(f, "{number}"),
            None => f.write_str("nil"),
        }
    }
}

/// A P in the detailed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PLine {
    pub(crate) id: u32,
    /// 0 idle, 1 running.
    pub(crate) status: u32,
    pub(crate) sched_tick: u32,
    pub(crate) syscall_tick: u32,
    pub(crate) m: OrNil,
    pub(crate) run_queue: u32,
    pub(crate) free_goroutines: u32,
    pub(crate) timers: u32,
}

impl fmt::Display for PLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  P{}: status={} schedtick={} syscalltick={} m={} runqsize={} gfreecnt={} timerslen={}",
            self.id,
            self.status,
            self.sched_tick,
            self.syscall_tick,
            self.m,
            self.run_queue,
            self.free_goroutines,
            self.timers,
        )
    }
}

/// An M in the detailed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MLine {
    pub(crate) id: u64,
    pub(crate) p: OrNil,
    /// The goroutine that runs there.
    pub(crate) current: OrNil,
    /// How many reasons there are not to stop it.
    pub(crate) locks: u32,
    pub(crate) spinning: bool,
    /// Whether it sleeps.
    pub(crate) blocked: bool,
    pub(crate) locked_goroutine: OrNil,
}

impl fmt::Display for MLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  M{}: p={} curg={} mallocing=0 throwing=0 preemptoff= locks={} dying=0 spinning={} \
             blocked={} lockedg={}",
            self.id,
            self.p,
            self.current,
            self.locks,
            self.spinning,
            self.blocked,
            self.locked_goroutine,
        )
    }
}

/// A goroutine in the detailed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GLine {
    pub(crate) id: u64,
    /// The number of its state, which is Go's.
    pub(crate) status: u32,
    /// Empty when it does not wait.
    pub(crate) wait_reason: &'static str,
    pub(crate) m: OrNil,
    pub(crate) locked_m: OrNil,
}

impl fmt::Display for GLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  G{}: status={}({}) m={} lockedm={}",
            self.id, self.status, self.wait_reason, self.m, self.locked_m,
        )
    }
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
             needspinning={} idlethreads={} runqueue={}",
            self.elapsed_ms,
            self.ps.len(),
            self.idle_ps,
            self.threads,
            self.spinning_threads,
            u32::from(self.need_spinning),
            self.idle_threads,
            self.run_queue,
        )?;
        if let Some(detail) = &self.detail {
            return write!(
                f,
                " gcwaiting={} nmidlelocked={} stopwait={} sysmonwait={}",
                detail.gc_waiting,
                detail.locked_idle_threads,
                detail.stop_wait,
                detail.sysmon_waits,
            );
        }
        f.write_str(" [")?;
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
            detail: None,
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
            detail: None,
        };
        assert_eq!(
            snapshot.to_string(),
            "SCHED 0ms: gomaxprocs=1 idleprocs=0 threads=2 spinningthreads=0 needspinning=0 \
             idlethreads=0 runqueue=0 [ 0 ] schedticks=[ 0 ]"
        );
        let detailed = Snapshot {
            detail: Some(Detail {
                gc_waiting: false,
                locked_idle_threads: 1,
                stop_wait: 0,
                sysmon_waits: true,
            }),
            ..snapshot
        };
        assert_eq!(
            detailed.to_string(),
            "SCHED 0ms: gomaxprocs=1 idleprocs=0 threads=2 spinningthreads=0 needspinning=0 \
             idlethreads=0 runqueue=0 gcwaiting=false nmidlelocked=1 stopwait=0 sysmonwait=true"
        );
    }

    #[test]
    fn the_lines_of_the_detailed_form_are_gos() {
        let p = PLine {
            id: 0,
            status: 1,
            sched_tick: 12,
            syscall_tick: 3,
            m: OrNil(Some(4)),
            run_queue: 2,
            free_goroutines: 31,
            timers: 1,
        };
        assert_eq!(
            p.to_string(),
            "  P0: status=1 schedtick=12 syscalltick=3 m=4 runqsize=2 gfreecnt=31 timerslen=1"
        );
        let m = MLine {
            id: 4,
            p: OrNil(Some(0)),
            current: OrNil(None),
            locks: 0,
            spinning: false,
            blocked: true,
            locked_goroutine: OrNil(None),
        };
        assert_eq!(
            m.to_string(),
            "  M4: p=0 curg=nil mallocing=0 throwing=0 preemptoff= locks=0 dying=0 spinning=false \
             blocked=true lockedg=nil"
        );
        let g = GLine {
            id: 18,
            status: 4,
            wait_reason: "chan receive",
            m: OrNil(None),
            locked_m: OrNil(None),
        };
        assert_eq!(
            g.to_string(),
            "  G18: status=4(chan receive) m=nil lockedm=nil"
        );
    }
}
