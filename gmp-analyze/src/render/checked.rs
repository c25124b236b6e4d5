//! The answer of `check`: anomalies, worst first, and a verdict.

use super::style::{self, paint};
use super::text::wrapped;
use crate::analysis::report::Report;
use crate::diag::{First, Severity};
use crate::units;
use std::io;

/// Columns of a line.
const WIDTH: usize = 100;

/// Writes every anomaly of the report and a verdict.
///
/// # Errors
///
/// What `out` fails with.
pub fn anomalies(out: &mut dyn io::Write, report: &Report) -> io::Result<()> {
    for anomaly in &report.anomalies {
        let severity = paint(style::severity(anomaly.severity), anomaly.severity.name());
        let first = match anomaly.first {
            First::Nowhere => String::new(),
            First::Offset(offset) => format!(", first at byte {offset}"),
            First::Event(order, time) => {
                let time = time.since(report.summary.begin);
                format!(", first at event {order} at {}", units::duration(time))
            }
        };
        let times = units::counted(anomaly.count, "time");
        writeln!(out, "{severity} {}: {times}{first}", anomaly.kind)?;
        wrapped(out, &anomaly.meaning, "  ", "  ", WIDTH, Some(style::QUIET))?;
    }
    let worst = report
        .anomalies
        .iter()
        .map(|anomaly| anomaly.severity)
        .max();
    let verdict = match worst {
        None => "no anomaly",
        Some(Severity::Info) => "sound; the remarks above are harmless",
        Some(Severity::DataLoss) => "something is missing",
        Some(Severity::Error) => "damaged or contradictory",
    };
    let events = units::counted(report.summary.events, "event");
    let generations = units::counted(report.trace.generations, "generation");
    writeln!(
        out,
        "{}: {events} in {generations}: {verdict}",
        report.trace.source
    )
}
