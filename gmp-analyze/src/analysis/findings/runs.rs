//! Goroutines that keep their P for long.

use super::{Evidence, Finding, Rule, Urgency, Value, since_begin};
use crate::analysis::names::plain_function;
use crate::analysis::report::Report;
use crate::units;
use gmp_trace::time::Nanos;

/// Twice the time slice: preemption asks after one slice, and should have had effect by then.
const LONG: Nanos = Nanos(20_000_000);

/// Scheduling latency at the 99th percentile from which others have suffered: one time slice.
const OTHERS_WAIT: Nanos = Nanos(10_000_000);

/// How many runs the evidence lists.
const LISTED: usize = 3;

/// A long run without yielding.
pub(super) struct LongRun;

impl Rule for LongRun {
    fn name(&self) -> &'static str {
        "long-run"
    }

    fn about(&self) -> &'static str {
        "a goroutine keeps its P for more than twice the time slice"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        let long = || {
            report
                .longest_runs
                .iter()
                .filter(|row| row.run.time >= LONG)
        };
        let Some(longest) = long().next() else {
            return Vec::new();
        };
        let latency = report.latency.quantile(0.99);
        let suffer = latency >= OTHERS_WAIT;
        // Where nothing waited, nothing is said of waiting.
        let waited = report.latency.count() > 0;
        let mut evidence = vec![
            Evidence::new("longest", Value::Duration(longest.run.time)),
            Evidence::new(
                "begins",
                Value::Time(since_begin(report, longest.run.begin)),
            ),
        ];
        let mut longest_wait = String::new();
        if waited {
            let what = "scheduling latency p99";
            evidence.push(Evidence::new(what, Value::Duration(latency)));
            let wait = units::duration(report.latency.max());
            longest_wait = format!("; the longest that a goroutine waited to run is {wait}");
        }
        for row in long().take(LISTED) {
            let run = &row.run;
            evidence.push(Evidence::new(
                "run",
                Value::Text(format!(
                    "G{} {} for {} from {}",
                    run.goroutine,
                    plain_function(&row.name.function),
                    units::duration(run.time),
                    units::duration(since_begin(report, run.begin)),
                )),
            ));
        }
        vec![Finding {
            rule: self.name(),
            urgency: if suffer {
                Urgency::Warning
            } else {
                Urgency::Note
            },
            summary: format!(
                "G{} ({}) kept its P for {} without a break{longest_wait}.",
                longest.run.goroutine,
                plain_function(&longest.name.function),
                units::duration(longest.run.time),
            ),
            evidence,
            next: "Yield in that loop, or find out why preemption did not take the P.".to_owned(),
        }]
    }
}
