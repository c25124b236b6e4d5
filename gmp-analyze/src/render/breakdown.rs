//! What `latency` prints: durations of states as text, JSON and CSV, and bins of histograms as CSV.

use super::columns::{column, with_percentiles};
use super::json::{Facts, Rows, SCHEMA};
use super::sections::{name_cells, percentile_note, percentiles};
use super::table::{Cell, Column, Show, Table, Unit};
use super::text::{self, Layout};
use crate::analysis::breakdown::{By, LatencyTable, Series};
use crate::analysis::latency::found_name;
use crate::input::TraceFacts;
use crate::units;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::io;

use Show::{Always, Never, WhenSet, Wide};

#[rustfmt::skip]
const BY_GROUP: &[Column] = with_percentiles!(
    column("state", "state", Unit::Text, Always, "state of the goroutine"); 
    column("function", "start function", Unit::Function, Always, "function with which the goroutines start; none in the rows of all together"),
    column("made_at", "made at", Unit::Position, Always, "where they are made"),
);

#[rustfmt::skip]
const BY_GOROUTINE: &[Column] = with_percentiles!(
    column("goroutine", "goroutine", Unit::Count, WhenSet, "number of the goroutine; none in the rows of all together"),
    column("state", "state", Unit::Text, Always, "state of the goroutine");
    column("function", "start function", Unit::Function, Always, "function with which it starts"),
    column("made_at", "made at", Unit::Position, Always, "where it was made"),
);

#[rustfmt::skip]
const BY_CAUSE: &[Column] = with_percentiles!(
    column("state", "state", Unit::Text, Never, "always runnable: from runnable to running");
    column("found", "found in", Unit::Text, Always, "where the scheduler found the goroutine; `all` in the row of all causes"),
    column("cause", "made runnable by", Unit::Text, Always, "what made the goroutine runnable"),
);

/// What rows stand for, in a word.
fn by_name(by: By) -> &'static str {
    match by {
        By::Group => "group",
        By::Goroutine => "goroutine",
        By::Cause => "cause",
    }
}

/// The table with the rows of all together and those of the first `top` groups, goroutines or
/// causes.
pub fn table(latency: &LatencyTable, top: usize) -> Table {
    let (title, columns) = match latency.by {
        By::Group => ("Time in each state by start function", BY_GROUP),
        By::Goroutine => ("Time in each state by goroutine", BY_GOROUTINE),
        By::Cause => ("Scheduling latency by cause", BY_CAUSE),
    };
    let shown = first(latency, top);
    let exact = percentile_note(&mut shown.iter().map(|series| series.durations));
    let what = match latency.by {
        By::Cause => "From runnable to running.",
        _ => "Each stay in a state counts once; stays that the end of the trace cuts are included.",
    };
    Table {
        name: "latency",
        title,
        note: format!("{what} {exact}").trim_end().to_owned(),
        columns,
        rows: shown.iter().map(|series| row(latency.by, series)).collect(),
    }
}

fn row(by: By, series: &Series<'_>) -> Vec<Cell> {
    let mut row = Vec::new();
    if by == By::Goroutine {
        let number = series
            .goroutine
            .map(|goroutine| Cell::Count(goroutine.get()));
        row.push(number.unwrap_or(Cell::Nothing));
    }
    row.push(Cell::text(series.state.name()));
    row.extend(percentiles(series.durations));
    match (by, series.cause, series.name) {
        (By::Cause, Some(cause), _) => row.extend([
            Cell::text(found_name(cause.found)),
            Cell::text(cause.cause.name()),
        ]),
        (By::Cause, None, _) => row.extend([Cell::text("all"), Cell::text("all")]),
        (_, _, Some(name)) => row.extend(name_cells(name)),
        (_, _, None) => row.extend([Cell::text(ALL), Cell::Nothing]),
    }
    row
}

/// What stands for a name in the rows of all goroutines together.
const ALL: &str = "(all)";

/// The series of all together and of the first `top` rows.
fn first(latency: &LatencyTable, top: usize) -> Vec<Series<'_>> {
    let mut series = latency.series();
    if latency.by == By::Cause {
        series.truncate(top.saturating_add(1));
        return series;
    }
    let states = |row: &crate::analysis::breakdown::Row| {
        let of_row = row.states.iter();
        of_row.filter(|durations| durations.count() > 0).count()
    };
    let all = series
        .iter()
        .take_while(|series| series.name.is_none())
        .count();
    let rows: usize = latency.rows.iter().take(top).map(states).sum();
    series.truncate(all + rows);
    series
}

/// Writes the table as text; `layout.top` is the number of groups, goroutines or causes.
///
/// # Errors
///
/// What `out` fails with.
pub fn text(out: &mut dyn io::Write, latency: &LatencyTable, layout: Layout) -> io::Result<()> {
    let table = table(latency, layout.top);
    if table.rows.is_empty() {
        return writeln!(out, "No goroutine was in any state.");
    }
    let all = Layout {
        top: usize::MAX,
        ..layout
    };
    text::table(out, &table, all)?;
    let rows = match latency.by {
        By::Cause => latency.causes.len(),
        _ => latency.rows.len(),
    };
    let hidden = rows.saturating_sub(layout.top);
    if hidden > 0 {
        let what = units::counted(hidden as u64, by_name(latency.by));
        writeln!(out, "  … and {what} more: --top N for more")?;
    }
    Ok(())
}

/// Writes one JSON object and a newline: what the trace says of itself, and the rows.
///
/// # Errors
///
/// What `out` fails with.
pub fn json(
    out: &mut dyn io::Write,
    facts: &TraceFacts,
    latency: &LatencyTable,
    top: usize,
) -> io::Result<()> {
    let document = Document {
        facts,
        by: by_name(latency.by),
        table: table(latency, top),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

struct Document<'a> {
    facts: &'a TraceFacts,
    by: &'static str,
    table: Table,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("trace", &Facts(self.facts))?;
        map.serialize_entry("by", self.by)?;
        map.serialize_entry(self.table.name, &Rows(&self.table))?;
        map.end()
    }
}

/// Writes the bins of every series as CSV: whose, of which state, from, to, how many.
///
/// # Errors
///
/// What `out` fails with.
pub fn bins(out: &mut dyn io::Write, latency: &LatencyTable) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let whose: &[&str] = match latency.by {
        By::Group => &["function", "made_at"],
        By::Goroutine => &["goroutine", "function", "made_at"],
        By::Cause => &["found", "cause"],
    };
    let fields = whose.iter().chain(&["state", "from_ns", "to_ns", "count"]);
    writer.write_record(fields)?;
    for series in latency.series() {
        let whose = match (latency.by, series.cause) {
            (By::Cause, Some(cause)) => vec![
                found_name(cause.found).to_owned(),
                cause.cause.name().to_owned(),
            ],
            (By::Cause, None) => vec!["all".to_owned(), "all".to_owned()],
            _ => whose_goroutines(latency.by, &series),
        };
        for bin in series.durations.bins() {
            let numbers = [bin.from, bin.to, bin.count].map(|number| number.to_string());
            let state = [series.state.name().to_owned()];
            writer.write_record(whose.iter().chain(&state).chain(&numbers))?;
        }
    }
    writer.flush()
}

fn whose_goroutines(by: By, series: &Series<'_>) -> Vec<String> {
    let mut whose = Vec::new();
    if by == By::Goroutine {
        let number = series.goroutine.map(|goroutine| goroutine.to_string());
        whose.push(number.unwrap_or_default());
    }
    whose.push(series.name.map_or(ALL, |name| &name.function).to_owned());
    whose.push(series.name.map_or("", |name| &name.position).to_owned());
    whose
}
