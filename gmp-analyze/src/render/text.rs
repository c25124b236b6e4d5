//! The report as text: findings first, then key figures, then tables. Colours are always written;
//! whoever prints to something that is no terminal strips them.

use super::overview;
use super::sections;
use super::shorten;
use super::style::{self, paint};
use super::table::{Cell, Show, Table, Unit};
use crate::analysis::findings::{Finding, Value};
use crate::analysis::report::Report;
use crate::machine::ProcState;
use crate::units;
use comfy_table::{CellAlignment, ContentArrangement, Table as Grid, presets};
use std::io;
use unicode_width::UnicodeWidthStr;

/// How the text is to look.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Columns of the output.
    pub width: usize,
    /// Rows of each table.
    pub top: usize,
}

/// Below this width shares beside times have no room.
const COMPACT: usize = 100;

/// Rows of the table of longest runs.
const LONGEST_RUNS: usize = 5;

/// Columns that a name gets at least.
const NAME_AT_LEAST: usize = 16;

/// Columns that a name should have before columns that are only good to have are shown.
const NAME_WANTED: usize = 36;

/// Columns between two columns of a table.
const GAP: usize = 2;

/// Everything is moved in by this.
const INDENT: &str = "  ";

/// Writes the whole report.
///
/// # Errors
///
/// What `out` fails with.
pub fn report(out: &mut dyn io::Write, report: &Report, layout: Layout) -> io::Result<()> {
    writeln!(out, "{}", paint(style::TITLE, &overview::headline(report)))?;
    findings(out, report, layout)?;
    overview::summary(out, report, layout.width)?;
    for table in sections::all(report) {
        match table.name {
            "anomalies" => anomalies(out, report, layout)?,
            _ => section(out, report, &table, layout)?,
        }
    }
    writeln!(out)?;
    let more =
        "More: --top N for more rows, --goroutines for every goroutine, --json for programs.";
    wrapped(out, more, "", "", layout.width, Some(style::QUIET))
}

pub(super) fn title(
    out: &mut dyn io::Write,
    title: &str,
    note: &str,
    width: usize,
) -> io::Result<()> {
    writeln!(out)?;
    let painted = paint(style::TITLE, title);
    if note.is_empty() {
        writeln!(out, "{painted}")
    } else if title.width() + 2 + note.width() <= width {
        writeln!(out, "{painted}  {}", paint(style::QUIET, note))
    } else {
        writeln!(out, "{painted}")?;
        wrapped(out, note, INDENT, INDENT, width, Some(style::QUIET))
    }
}

fn findings(out: &mut dyn io::Write, report: &Report, layout: Layout) -> io::Result<()> {
    title(out, "Findings", "", layout.width)?;
    if report.findings.is_empty() {
        return writeln!(out, "{INDENT}none: no rule found anything that stands out");
    }
    for finding in &report.findings {
        one_finding(out, finding, layout.width)?;
    }
    Ok(())
}

fn one_finding(out: &mut dyn io::Write, finding: &Finding, width: usize) -> io::Result<()> {
    let style = style::urgency(finding.urgency);
    let head = format!("{} {}", finding.urgency.name(), finding.rule);
    writeln!(out, "{INDENT}{}", paint(style, &head))?;
    wrapped(out, &finding.summary, "    ", "    ", width, None)?;
    let figures: Vec<String> = finding
        .evidence
        .iter()
        .filter_map(|evidence| {
            let value = match &evidence.value {
                Value::Duration(time) | Value::Time(time) => units::duration(*time),
                Value::Count(count) => units::count(*count),
                Value::Share(share) => units::percent(*share),
                Value::Mean(mean) => format!("{mean:.2}"),
                Value::Text(text) => text.clone(),
            };
            // The summary has said the figures that matter most.
            let said = finding.summary.contains(&value);
            (!said).then(|| format!("{} {value}", evidence.name))
        })
        .collect();
    if !figures.is_empty() {
        let figures = figures.join(" · ");
        wrapped(out, &figures, "    ", "    ", width, Some(style::QUIET))?;
    }
    wrapped(out, &finding.next, "    → ", "      ", width, None)
}

/// Writes `text` in lines of at most `width` columns.
pub(super) fn wrapped(
    out: &mut dyn io::Write,
    text: &str,
    first: &str,
    others: &str,
    width: usize,
    style: Option<anstyle::Style>,
) -> io::Result<()> {
    let text = shorten::printable(text);
    let room = width.saturating_sub(others.width()).max(NAME_AT_LEAST);
    for (place, line) in textwrap::wrap(&text, room).iter().enumerate() {
        let indent = if place == 0 { first } else { others };
        match style {
            Some(style) => writeln!(out, "{indent}{}", paint(style, line))?,
            None => writeln!(out, "{indent}{line}")?,
        }
    }
    Ok(())
}

/// Writes one table with its title; nothing where it has no rows.
fn section(
    out: &mut dyn io::Write,
    report: &Report,
    table: &Table,
    layout: Layout,
) -> io::Result<()> {
    if table.rows.is_empty() {
        return Ok(());
    }
    title(out, table.title, &table.note, layout.width)?;
    let bars = (table.name == "procs").then(|| bars(report));
    let top = match table.name {
        // It was asked for.
        "goroutines" => usize::MAX,
        // There are always some; the first ones say it all.
        "longest_runs" => layout.top.min(LONGEST_RUNS),
        _ => layout.top,
    };
    grid(out, table, bars.as_deref(), Layout { top, ..layout })?;
    if table.name == "procs" {
        writeln!(out, "{INDENT}{}", bar_legend(report))?;
    }
    let hidden = table.rows.len().saturating_sub(top);
    if hidden > 0 && table.name != "longest_runs" {
        let more = format!("… and {} more", units::count(hidden as u64));
        writeln!(out, "{INDENT}{}", paint(style::QUIET, &more))?;
    }
    Ok(())
}

/// Writes one table with its title, at most `layout.top` rows.
pub(super) fn table(out: &mut dyn io::Write, table: &Table, layout: Layout) -> io::Result<()> {
    title(out, table.title, &table.note, layout.width)?;
    grid(out, table, None, layout)
}

/// The columns that are shown, by place, and whether shares are left out: what is only good to have
/// is dropped until names have room.
fn shown(table: &Table, layout: Layout) -> (Vec<usize>, bool) {
    let column = |place: usize| &table.columns[place];
    let wanted = |place: &usize| match column(*place).show {
        Show::Always => true,
        Show::Never => false,
        Show::WhenSet | Show::Wide => table.rows.iter().any(|row| row[*place].is_set()),
    };
    let mut shown: Vec<usize> = (0..table.columns.len()).filter(wanted).collect();
    let names = shown.iter().any(|&place| column(place).unit.is_name());
    let wanted_by_names = if names { NAME_WANTED } else { 0 };
    let fits = |shown: &[usize], compact| {
        used(table, shown, layout.top, compact) + wanted_by_names + INDENT.len() <= layout.width
    };
    let mut compact = layout.width < COMPACT;
    while !fits(&shown, compact) {
        match shown
            .iter()
            .rposition(|&place| column(place).show == Show::Wide)
        {
            Some(last) => drop(shown.remove(last)),
            None if compact => break,
            None => compact = true,
        }
    }
    (shown, compact)
}

/// The columns of output that the figures among `shown` take.
fn used(table: &Table, shown: &[usize], top: usize, compact: bool) -> usize {
    let width_of = |place: usize| {
        let heading = table.columns[place].heading.width();
        let rows = table.rows.iter().take(top);
        let cells = rows.map(|row| row[place].in_words(compact).width());
        cells.max().unwrap_or(0).max(heading) + GAP
    };
    let figures = shown
        .iter()
        .filter(|&&place| !table.columns[place].unit.is_name());
    figures.map(|&place| width_of(place)).sum()
}

/// Writes the rows as a grid: numbers to the right, the name last and cut to the width.
pub(super) fn grid(
    out: &mut dyn io::Write,
    table: &Table,
    bars: Option<&[String]>,
    layout: Layout,
) -> io::Result<()> {
    let (shown, compact) = shown(table, layout);
    let is_name = |place: &usize| table.columns[*place].unit.is_name();
    let (names, figures): (Vec<usize>, Vec<usize>) = shown.into_iter().partition(is_name);
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    let mut heading: Vec<String> = figures
        .iter()
        .map(|&place| paint(style::HEADING, table.columns[place].heading))
        .collect();
    if bars.is_some() {
        heading.push(String::new());
    }
    let rows: Vec<&Vec<Cell>> = table.rows.iter().take(layout.top).collect();
    let texts: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            figures
                .iter()
                .map(|&place| row[place].in_words(compact))
                .collect()
        })
        .collect();
    let room = name_room(table, &figures, &texts, layout.width);
    if let Some(&first) = names.first() {
        heading.push(paint(style::HEADING, table.columns[first].heading));
    }
    grid.set_header(heading);
    for (number, (row, mut texts)) in rows.iter().zip(texts).enumerate() {
        if let Some(bars) = bars {
            texts.push(bars.get(number).cloned().unwrap_or_default());
        }
        if !names.is_empty() {
            let part = |unit| {
                let place = names
                    .iter()
                    .find(|&&place| table.columns[place].unit == unit);
                match place.map(|&place| &row[place]) {
                    Some(Cell::Text(text)) => text.as_str(),
                    _ => "",
                }
            };
            texts.push(shorten::name(
                part(Unit::Function),
                part(Unit::Position),
                room,
            ));
        }
        grid.add_row(texts);
    }
    for (place, &figure) in figures.iter().enumerate() {
        if let Some(column) = grid.column_mut(place) {
            let right = table.columns[figure].unit != Unit::Text;
            let side = if right {
                CellAlignment::Right
            } else {
                CellAlignment::Left
            };
            column.set_cell_alignment(side);
        }
    }
    for line in grid.lines() {
        writeln!(out, " {}", line.trim_end())?;
    }
    Ok(())
}

/// The columns that are left for the name.
fn name_room(table: &Table, figures: &[usize], texts: &[Vec<String>], width: usize) -> usize {
    let used: usize = figures
        .iter()
        .enumerate()
        .map(|(number, &place)| {
            let heading = table.columns[place].heading.width();
            texts
                .iter()
                .map(|row| row[number].width())
                .max()
                .unwrap_or(0)
                .max(heading)
                + 2
        })
        .sum();
    width.saturating_sub(used + 3).max(NAME_AT_LEAST)
}

/// Characters of a bar.
const BAR: usize = 20;

/// A bar for each P: what part of the trace it was in each state.
fn bars(report: &Report) -> Vec<String> {
    let span = report.summary.span.0.max(1) as f64;
    let bar = |row: &crate::analysis::report::ProcRow| {
        let mut bar = String::new();
        let (mut so_far, mut drawn) = (0.0, 0);
        for state in BAR_ORDER {
            so_far += row.times.of(state).0 as f64 / span;
            let until = ((so_far * BAR as f64).round() as usize).min(BAR);
            let (style, character) = style::proc_state(state);
            let length = until.saturating_sub(drawn);
            if length > 0 {
                bar.push_str(&paint(style, &character.to_string().repeat(length)));
            }
            drawn = until.max(drawn);
        }
        bar
    };
    report.procs.iter().map(bar).collect()
}

const BAR_ORDER: [ProcState; ProcState::COUNT] = [
    ProcState::Running,
    ProcState::Scheduler,
    ProcState::Syscall,
    ProcState::Stopped,
    ProcState::Unknown,
    ProcState::Idle,
    ProcState::Absent,
];

fn bar_legend(report: &Report) -> String {
    let used = BAR_ORDER
        .into_iter()
        .filter(|&state| state != ProcState::Absent && report.summary.of(state).0 > 0);
    let entries: Vec<String> = used
        .map(|state| {
            let (style, character) = style::proc_state(state);
            format!("{} {}", paint(style, &character.to_string()), state.name())
        })
        .collect();
    entries.join("  ")
}

/// Anomalies as a list: their meaning is a sentence.
fn anomalies(out: &mut dyn io::Write, report: &Report, layout: Layout) -> io::Result<()> {
    if report.anomalies.is_empty() {
        return Ok(());
    }
    let table = sections::anomalies(report);
    title(out, table.title, &table.note, layout.width)?;
    for (anomaly, row) in report.anomalies.iter().zip(&table.rows) {
        let severity = paint(style::severity(anomaly.severity), anomaly.severity.name());
        let first = match &row[6] {
            Cell::Text(first) => format!(", first at {first}"),
            _ => String::new(),
        };
        let times = units::counted(anomaly.count, "time");
        writeln!(out, "{INDENT}{severity} {}: {times}{first}", anomaly.kind)?;
        wrapped(
            out,
            &anomaly.meaning,
            "    ",
            "    ",
            layout.width,
            Some(style::QUIET),
        )?;
    }
    Ok(())
}
