//! Answers of SQL as an aligned table, CSV and JSON.

use super::json::{Facts, SCHEMA};
use super::shorten::printable;
use super::style::{self, paint};
use crate::input::TraceFacts;
use crate::tables::{Answer, Value};
use crate::units;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::io;
use unicode_width::UnicodeWidthStr;

/// Rows that text shows at most: what is longer is for programs.
const MOST_ROWS: usize = 1_000;

/// Columns of output between two columns.
const GAP: usize = 2;

/// Writes the rows aligned, numbers to the right; null is `-`.
///
/// # Errors
///
/// What `out` fails with.
pub fn text(out: &mut dyn io::Write, answer: &Answer) -> io::Result<()> {
    let shown: Vec<Vec<String>> = (0..answer.rows().min(MOST_ROWS))
        .map(|row| answer.row(row).iter().map(in_words).collect())
        .collect();
    let (names, numeric) = (answer.names(), answer.numeric());
    let heading: Vec<String> = names.iter().map(|name| printable(name)).collect();
    let widths: Vec<usize> = (0..names.len())
        .map(|column| {
            let cells = shown.iter().map(|row| row[column].width());
            cells.max().unwrap_or(0).max(heading[column].width())
        })
        .collect();
    let line = |cells: &[String]| {
        let mut line = String::new();
        for ((cell, width), number) in cells.iter().zip(&widths).zip(&numeric) {
            let fill = " ".repeat(width - cell.width());
            let (before, after) = if *number {
                (fill.as_str(), "")
            } else {
                ("", fill.as_str())
            };
            line.extend([before, cell, after, &" ".repeat(GAP)]);
        }
        line.trim_end().to_owned()
    };
    writeln!(out, "{}", paint(style::HEADING, &line(&heading)))?;
    for row in &shown {
        writeln!(out, "{}", line(row))?;
    }
    let rows = units::counted(answer.rows() as u64, "row");
    let more = match answer.rows() > shown.len() {
        true => format!(
            ", {} shown: LIMIT asks for fewer, --csv and --json give all",
            units::count(MOST_ROWS as u64)
        ),
        false => String::new(),
    };
    writeln!(out, "{}", paint(style::QUIET, &format!("({rows}{more})")))
}

fn in_words(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => printable(text),
        Value::Flag(flag) => flag.to_string(),
        Value::List(values) => {
            let values: Vec<String> = values.iter().map(in_words).collect();
            format!("[{}]", values.join(", "))
        }
    }
}

/// Writes a line of names and a line for each row (RFC 4180); null is empty.
///
/// # Errors
///
/// What `out` fails with.
pub fn csv(out: &mut dyn io::Write, answer: &Answer) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(answer.names())?;
    for row in 0..answer.rows() {
        let cells = answer.row(row).into_iter().map(|value| match value {
            Value::Null => String::new(),
            Value::Text(text) => text,
            other => in_words(&other),
        });
        writer.write_record(cells)?;
    }
    writer.flush()
}

/// Writes one JSON object and a newline: what the trace says of itself, and the rows.
///
/// # Errors
///
/// What `out` fails with.
pub fn json(out: &mut dyn io::Write, facts: &TraceFacts, answer: &Answer) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document { facts, answer })?;
    out.write_all(b"\n")
}

struct Document<'a> {
    facts: &'a TraceFacts,
    answer: &'a Answer,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("trace", &Facts(self.facts))?;
        map.serialize_entry("rows", &Rows(self.answer))?;
        map.end()
    }
}

struct Rows<'a>(&'a Answer);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = self.0.names();
        let rows = (0..self.0.rows()).map(|row| Row(&names, self.0.row(row)));
        serializer.collect_seq(rows)
    }
}

struct Row<'a>(&'a [String], Vec<Value>);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(&self.1))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_none(),
            Value::Integer(number) => serializer.serialize_i64(*number),
            Value::Number(number) => serializer.serialize_f64(*number),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Flag(flag) => serializer.serialize_bool(*flag),
            Value::List(values) => serializer.collect_seq(values),
        }
    }
}
