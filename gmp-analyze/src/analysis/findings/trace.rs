//! Findings about the trace itself: what its numbers cannot be trusted for.

use super::{Evidence, Finding, Rule, Urgency, Value, since_begin};
use crate::analysis::report::{Report, sum};
use crate::diag::{Anomaly, Severity};
use crate::machine::GoroutineState;
use crate::units;
use gmp_trace::time::Nanos;

/// Kinds of anomalies that only say that clocks disagree.
const SKEW_KINDS: &[&str] = &["clock-skew", "time-went-back"];

/// Kinds of anomalies that come from a trace that was not finished.
const UNFINISHED_KINDS: &[&str] = &["truncated", "unsealed-block", "not-finished"];

/// Events are missing.
pub(super) struct LostEvents;

impl Rule for LostEvents {
    fn name(&self) -> &'static str {
        "lost-events"
    }

    fn about(&self) -> &'static str {
        "events are missing from the trace or contradict each other"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        let damage: Vec<&Anomaly> = report
            .anomalies
            .iter()
            .filter(|anomaly| anomaly.severity >= Severity::DataLoss)
            .filter(|anomaly| !UNFINISHED_KINDS.contains(&anomaly.kind.as_str()))
            .collect();
        let lost = report.summary.lost_events;
        if damage.is_empty() && lost == 0 {
            return Vec::new();
        }
        let unknown = unknown_time(report);
        let all = sum(report.groups.iter().map(|row| row.group.life));
        let mut evidence = vec![
            Evidence::new("events lost", Value::Count(lost)),
            Evidence::new("goroutine time unknown", Value::Duration(unknown)),
            Evidence::new("share unknown", Value::Share(units::share(unknown, all))),
        ];
        for anomaly in &damage {
            let text = format!("{} × {}", units::count(anomaly.count), anomaly.kind);
            evidence.push(Evidence::new("anomaly", Value::Text(text)));
        }
        let what = if lost > 0 {
            format!("The recorder lost {}", units::counted(lost, "event"))
        } else {
            "Parts of the trace are missing or damaged".to_owned()
        };
        let consequence = if unknown == Nanos::ZERO {
            "the states of goroutines fit together all the same".to_owned()
        } else {
            format!(
                "{} of the goroutines' time cannot be told and is shown as unknown",
                units::percent(units::share(unknown, all)),
            )
        };
        vec![Finding {
            rule: self.name(),
            urgency: Urgency::Warning,
            summary: format!("{what}; {consequence}."),
            evidence,
            next:
                "Counts are too low by what was lost; `gmp-analyze check` lists every broken rule \
                   with its place."
                    .to_owned(),
        }]
    }
}

fn unknown_time(report: &Report) -> Nanos {
    sum(report
        .groups
        .iter()
        .map(|row| row.group.of(GoroutineState::Unknown)))
}

/// The recorder did not finish the trace.
pub(super) struct Unfinished;

impl Rule for Unfinished {
    fn name(&self) -> &'static str {
        "unfinished-trace"
    }

    fn about(&self) -> &'static str {
        "the recorder did not finish the trace: the program was killed or the file was cut"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        let cut: Vec<&Anomaly> = report
            .anomalies
            .iter()
            .filter(|anomaly| UNFINISHED_KINDS.contains(&anomaly.kind.as_str()))
            .collect();
        if report.trace.finished != Some(false) && cut.is_empty() {
            return Vec::new();
        }
        let end = since_begin(report, report.summary.end());
        let mut evidence = vec![Evidence::new("last event", Value::Time(end))];
        for anomaly in &cut {
            let text = format!("{} × {}", units::count(anomaly.count), anomaly.kind);
            evidence.push(Evidence::new("anomaly", Value::Text(text)));
        }
        vec![Finding {
            rule: self.name(),
            urgency: Urgency::Note,
            summary: format!(
                "The trace was not finished: it ends {} after its begin, in the middle of what the \
                 program did.",
                units::duration(end),
            ),
            evidence,
            next: "Was the program killed, or the file cut? What waits at the end may only have \
                   been interrupted."
                .to_owned(),
        }]
    }
}

/// There is nothing to see.
pub(super) struct Empty;

impl Rule for Empty {
    fn name(&self) -> &'static str {
        "empty-trace"
    }

    fn about(&self) -> &'static str {
        "the trace has no events that could be read"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        if report.summary.events > 0 {
            return Vec::new();
        }
        vec![Finding {
            rule: self.name(),
            urgency: Urgency::Problem,
            summary: "The trace has no events that could be read: every figure below is zero."
                .to_owned(),
            evidence: vec![Evidence::new("bytes", Value::Count(report.trace.bytes))],
            next: "Did the program end before it began to record, or is the file damaged?"
                .to_owned(),
        }]
    }
}

/// Clocks of threads disagree.
pub(super) struct ClockSkew;

impl Rule for ClockSkew {
    fn name(&self) -> &'static str {
        "clock-skew"
    }

    fn about(&self) -> &'static str {
        "clocks of threads disagree, so short durations may be wrong"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        let skew: Vec<&Anomaly> = report
            .anomalies
            .iter()
            .filter(|anomaly| SKEW_KINDS.contains(&anomaly.kind.as_str()))
            .collect();
        if skew.is_empty() {
            return Vec::new();
        }
        let count: u64 = skew.iter().map(|anomaly| anomaly.count).sum();
        let evidence = skew.iter().map(|anomaly| {
            let text = format!("{} × {}", units::count(anomaly.count), anomaly.kind);
            Evidence::new("anomaly", Value::Text(text))
        });
        vec![Finding {
            rule: self.name(),
            urgency: Urgency::Note,
            summary: format!(
                "Clocks of threads disagree: time went back {}.",
                units::counted(count, "time"),
            ),
            evidence: evidence.collect(),
            next: "Events are in the order of their causes and no duration is negative; durations \
                   near the size of the skew are not exact."
                .to_owned(),
        }]
    }
}

/// The clock of the trace runs at another speed than that of the system.
pub(super) struct ClockRate;

impl Rule for ClockRate {
    fn name(&self) -> &'static str {
        "clock-rate"
    }

    fn about(&self) -> &'static str {
        "the clock of the trace does not run as fast as the system's, so durations are off"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        let found = report
            .anomalies
            .iter()
            .find(|anomaly| anomaly.kind == self.name());
        let Some(anomaly) = found else {
            return Vec::new();
        };
        vec![Finding {
            rule: self.name(),
            urgency: Urgency::Warning,
            summary:
                "The clock of the trace does not run as fast as the system's: all durations are \
                      off by the same factor."
                    .to_owned(),
            evidence: vec![Evidence::new("generations", Value::Count(anomaly.count))],
            next:
                "Shares and orders are right; compare the length of the trace with the time that \
                   the program took."
                    .to_owned(),
        }]
    }
}
