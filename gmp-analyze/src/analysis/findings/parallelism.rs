//! Ps that do not run goroutines although goroutines want to run.

use super::{Evidence, Finding, Rule, Urgency, Value, since_begin};
use crate::analysis::report::{ProcRow, Report};
use crate::machine::ProcState;
use crate::units;
use gmp_trace::time::Nanos;

/// Share of the trace with an idle P and a runnable goroutine that is worth a word. To wake a
/// thread takes tens of microseconds, so a busy program is never at zero.
const IDLE_SHARE: f64 = 0.05;

/// One such stretch that is worth a word whatever its share.
const IDLE_STRETCH: Nanos = Nanos(10_000_000);

/// Share of the trace in which work must wait before low parallelism matters.
const WAITING_SHARE: f64 = 0.2;

/// Ps that run while work waits, as a share of all Ps: below this, parallelism is low.
const LOW: f64 = 0.5;

/// Difference between the busiest and the least busy P, as a share of the trace, that is worth a
/// word while goroutines wait.
const IMBALANCE: f64 = 0.4;

/// Runnable goroutines on average from which imbalance costs something.
const WAITING_ON_AVERAGE: f64 = 0.5;

/// A P is idle while a goroutine is runnable.
pub(super) struct IdleWhileRunnable;

impl Rule for IdleWhileRunnable {
    fn name(&self) -> &'static str {
        "idle-while-runnable"
    }

    fn about(&self) -> &'static str {
        "a P is idle while goroutines wait to run, for longer than a wake of a thread takes"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        let parallelism = &report.parallelism;
        let share = units::share(parallelism.idle_while_waiting, report.summary.span);
        let longest = parallelism.longest;
        if share < IDLE_SHARE && longest.length() < IDLE_STRETCH {
            return Vec::new();
        }
        let urgency = if share < IDLE_SHARE {
            Urgency::Note
        } else {
            Urgency::Warning
        };
        vec![Finding {
            rule: self.name(),
            urgency,
            summary: format!(
                "For {} ({} of the trace) at least one P was idle while goroutines waited to run; \
                 the longest stretch took {}.",
                units::duration(parallelism.idle_while_waiting),
                units::percent(share),
                units::duration(longest.length()),
            ),
            evidence: vec![
                Evidence::new("time", Value::Duration(parallelism.idle_while_waiting)),
                Evidence::new("share of trace", Value::Share(share)),
                Evidence::new("P time lost", Value::Duration(parallelism.lost)),
                Evidence::new("longest stretch", Value::Duration(longest.length())),
                Evidence::new(
                    "longest stretch begins at",
                    Value::Time(since_begin(report, longest.begin)),
                ),
            ],
            next: "See in the latency table which cause waits longest: a thread that is slow to \
                   wake, or work that is bound to one thread."
                .to_owned(),
        }]
    }
}

/// Few Ps run while goroutines wait, and not because they are idle.
pub(super) struct LowParallelism;

impl Rule for LowParallelism {
    fn name(&self) -> &'static str {
        "low-parallelism"
    }

    fn about(&self) -> &'static str {
        "goroutines wait to run while Ps are in system calls or in the scheduler"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        let parallelism = &report.parallelism;
        let mean = |state| parallelism.mean_procs_while_waiting(state);
        let running = mean(ProcState::Running);
        let idle = mean(ProcState::Idle);
        let others = [ProcState::Scheduler, ProcState::Syscall];
        let not_running: f64 = others.into_iter().map(mean).sum();
        let all = running + idle + not_running;
        let waiting = units::share(parallelism.waiting, report.summary.span);
        if waiting < WAITING_SHARE || running >= LOW * all || idle > not_running {
            return Vec::new();
        }
        let syscalls = mean(ProcState::Syscall) > mean(ProcState::Scheduler);
        let (where_else, next) = if syscalls {
            (
                "Ps are held by system calls",
                "Shorten those calls, or make them through the runtime's own I/O, which gives the \
                 P back.",
            )
        } else {
            (
                "Ps are in the scheduler",
                "See the steals and the mean run: the goroutines may be too short for their number.",
            )
        };
        vec![Finding {
            rule: self.name(),
            urgency: Urgency::Warning,
            summary: format!(
                "While goroutines waited to run ({} of the trace), {running:.1} of {all:.1} Ps ran \
                 any: {where_else}.",
                units::percent(waiting),
            ),
            evidence: vec![
                Evidence::new(
                    "time with work waiting",
                    Value::Duration(parallelism.waiting),
                ),
                Evidence::new("Ps running", Value::Mean(running)),
                Evidence::new("Ps in system calls", Value::Mean(mean(ProcState::Syscall))),
                Evidence::new(
                    "Ps in the scheduler",
                    Value::Mean(mean(ProcState::Scheduler)),
                ),
                Evidence::new("Ps idle", Value::Mean(idle)),
            ],
            next: next.to_owned(),
        }]
    }
}

/// One P works much more than another while goroutines wait.
pub(super) struct Imbalance;

impl Rule for Imbalance {
    fn name(&self) -> &'static str {
        "imbalance"
    }

    fn about(&self) -> &'static str {
        "one P runs much more than another while goroutines wait to run"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        let running = |row: &&ProcRow| row.times.of(ProcState::Running);
        let there = || {
            let whole = report.summary.span;
            report
                .procs
                .iter()
                .filter(move |row| row.times.of(ProcState::Absent) < whole)
        };
        let (Some(most), Some(least)) = (there().max_by_key(running), there().min_by_key(running))
        else {
            return Vec::new();
        };
        let span = report.summary.span;
        let gap = units::share(running(&most) - running(&least), span);
        if gap < IMBALANCE || report.summary.runnable < WAITING_ON_AVERAGE {
            return Vec::new();
        }
        let share = |row| units::percent(units::share(running(&row), span));
        vec![Finding {
            rule: self.name(),
            urgency: Urgency::Warning,
            summary: format!(
                "P{} ran goroutines {} of the time and P{} only {}, while {:.1} goroutines waited \
                 to run on average.",
                most.times.proc,
                share(most),
                least.times.proc,
                share(least),
                report.summary.runnable,
            ),
            evidence: vec![
                Evidence::new("most", Value::Duration(running(&most))),
                Evidence::new("least", Value::Duration(running(&least))),
                Evidence::new(
                    "goroutines waiting to run",
                    Value::Mean(report.summary.runnable),
                ),
                Evidence::new(
                    "goroutines stolen",
                    Value::Count(report.steals.total().goroutines),
                ),
            ],
            next: "See whether the idle P steals from the busy one; goroutines that are locked to \
                   a thread cannot move."
                .to_owned(),
        }]
    }
}
