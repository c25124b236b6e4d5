//! The report as JSON: one object, times in nanoseconds as integers, field names as the columns of
//! [`sections`].

use super::sections;
use super::table::{Cell, Field, Table};
use crate::analysis::findings::{Evidence, Finding, Value};
use crate::analysis::report::{GoroutineRow, Report};
use crate::input::TraceFacts;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::io;

/// The version of the names: larger when a field is taken away or changes its meaning.
pub const SCHEMA: u64 = 1;

/// Writes the report as one JSON object and a newline. At most `top` rows of each table are
/// written, where it is given; the list of goroutines is always whole.
///
/// # Errors
///
/// What `out` fails with.
pub fn report(out: &mut dyn io::Write, report: &Report, top: Option<usize>) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document { report, top })?;
    out.write_all(b"\n")
}

struct Document<'a> {
    report: &'a Report,
    top: Option<usize>,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.report;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("trace", &Facts(&report.trace))?;
        let summary = sections::summary(report);
        for row in &summary.rows {
            map.serialize_entry("summary", &Row(&summary, row))?;
        }
        map.serialize_entry("findings", &Findings(&report.findings))?;
        for mut table in sections::all(report) {
            match &report.goroutines {
                Some(goroutines) if table.name == "goroutines" => {
                    map.serialize_entry(table.name, &Goroutines(&table, goroutines))?;
                }
                _ => {
                    table.rows.truncate(self.top.unwrap_or(usize::MAX));
                    map.serialize_entry(table.name, &Rows(&table))?;
                }
            }
        }
        map.end()
    }
}

pub(super) struct Facts<'a>(pub(super) &'a TraceFacts);

impl Serialize for Facts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let facts = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("source", &facts.source)?;
        map.serialize_entry("format", &facts.format)?;
        map.serialize_entry("bytes", &facts.bytes)?;
        map.serialize_entry("generations", &facts.generations)?;
        map.serialize_entry("finished", &facts.finished)?;
        map.serialize_entry("started_at_unix_ns", &facts.started_at.map(|time| time.0))?;
        map.end()
    }
}

/// The rows of a table, each with the fields that CSV has.
pub(super) struct Rows<'a>(pub(super) &'a Table);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.rows.iter().map(|row| Row(self.0, row)))
    }
}

/// One row of a table.
pub(super) struct Row<'a>(pub(super) &'a Table, pub(super) &'a [Cell]);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.fields(self.1))
    }
}

/// The list of goroutines, which have one field more than the table: waits by reason.
struct Goroutines<'a>(&'a Table, &'a [GoroutineRow]);

impl Serialize for Goroutines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.0.rows.iter().zip(self.1);
        serializer.collect_seq(rows.map(|(row, goroutine)| Goroutine(self.0, row, goroutine)))
    }
}

struct Goroutine<'a>(&'a Table, &'a [Cell], &'a GoroutineRow);

impl Serialize for Goroutine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, field) in self.0.fields(self.1) {
            map.serialize_entry(&name, &field)?;
        }
        map.serialize_entry("block_ns_by_reason", &Waits(self.2))?;
        map.end()
    }
}

struct Waits<'a>(&'a GoroutineRow);

impl Serialize for Waits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.waits.iter().map(|(reason, time)| (reason, time.0)))
    }
}

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Field::Null => serializer.serialize_none(),
            Field::Text(text) => serializer.serialize_str(text),
            Field::Integer(number) => serializer.serialize_i64(number),
            Field::Number(number) => serializer.serialize_f64(number),
            Field::Flag(flag) => serializer.serialize_bool(flag),
        }
    }
}

struct Findings<'a>(&'a [Finding]);

impl Serialize for Findings<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(OneFinding))
    }
}

struct OneFinding<'a>(&'a Finding);

impl Serialize for OneFinding<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let finding = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("rule", finding.rule)?;
        map.serialize_entry("urgency", finding.urgency.name())?;
        map.serialize_entry("summary", &finding.summary)?;
        map.serialize_entry("evidence", &Evidences(&finding.evidence))?;
        map.serialize_entry("next", &finding.next)?;
        map.end()
    }
}

struct Evidences<'a>(&'a [Evidence]);

impl Serialize for Evidences<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(OneEvidence))
    }
}

struct OneEvidence<'a>(&'a Evidence);

impl Serialize for OneEvidence<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.0.name)?;
        match &self.0.value {
            Value::Duration(time) => map.serialize_entry("duration_ns", &time.0)?,
            Value::Time(time) => map.serialize_entry("time_ns", &time.0)?,
            Value::Count(count) => map.serialize_entry("count", count)?,
            Value::Share(share) => map.serialize_entry("share", &six_digits(*share))?,
            Value::Mean(mean) => map.serialize_entry("mean", &six_digits(*mean))?,
            Value::Text(text) => map.serialize_entry("text", text)?,
        }
        map.end()
    }
}

fn six_digits(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
