//! A scheduler that works more than its goroutines do.

use super::{Evidence, Finding, Rule, Urgency, Value};
use crate::analysis::report::{Overhead, Report};
use crate::machine::ProcState;
use crate::units;
use gmp_trace::time::Nanos;

/// Fewer switches say nothing.
const SWITCHES: u64 = 1000;

/// Runs of this mean length or longer are not the reason of overhead: a switch costs far less.
const SHORT_RUN: Nanos = Nanos(20_000);

/// Share of busy P time in the scheduler, estimated from measured switches, that is too much.
const ESTIMATED: f64 = 0.2;

/// The same by the time between two stamps, which contains searches for work.
const BETWEEN_STAMPS: f64 = 0.25;

/// Short runs, many switches.
pub(super) struct SchedulerOverhead;

impl Rule for SchedulerOverhead {
    fn name(&self) -> &'static str {
        "scheduler-overhead"
    }

    fn about(&self) -> &'static str {
        "goroutines run so shortly that the scheduler takes a large part of the time"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        let summary = &report.summary;
        let (running, scheduler) = (
            summary.of(ProcState::Running),
            summary.of(ProcState::Scheduler),
        );
        let between = units::share(scheduler, running + scheduler);
        let estimated = match summary.overhead {
            Overhead::Estimate { share, .. } => share,
            Overhead::NotInTrace => 0.0,
        };
        let mean_run = report.run_lengths.mean();
        let heavy = between >= BETWEEN_STAMPS || estimated >= ESTIMATED;
        if summary.switches < SWITCHES || mean_run >= SHORT_RUN || !heavy {
            return Vec::new();
        }
        let mut evidence = vec![
            Evidence::new("switches", Value::Count(summary.switches)),
            Evidence::new("mean run", Value::Duration(mean_run)),
            Evidence::new(
                "median run",
                Value::Duration(report.run_lengths.quantile(0.5)),
            ),
            Evidence::new("time in the scheduler", Value::Duration(scheduler)),
            Evidence::new("share of busy time", Value::Share(between)),
        ];
        if let Overhead::Estimate { samples, share, .. } = summary.overhead {
            evidence.push(Evidence::new(
                "estimated cost of switches",
                Value::Share(share),
            ));
            evidence.push(Evidence::new("switches measured", Value::Count(samples)));
        }
        vec![Finding {
            rule: self.name(),
            urgency: Urgency::Warning,
            summary: format!(
                "Goroutines ran for {} on average, {} times; {} of the busy time went to the \
                 scheduler.",
                units::duration(mean_run),
                units::count(summary.switches),
                units::percent(between.max(estimated)),
            ),
            evidence,
            next: "Give each goroutine more work: larger batches through channels, fewer \
                   goroutines, buffered channels."
                .to_owned(),
        }]
    }
}
