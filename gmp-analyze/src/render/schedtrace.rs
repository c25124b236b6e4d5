//! The scheduler at moments: as Go's `SCHED` lines, as a table, and summed up.

use super::csv;
use super::json::{Row, Rows, SCHEMA};
use super::table::{Cell, Column, Show, Table, Unit};
use super::text::{self, Layout};
use crate::analysis::names;
use crate::analysis::schedtrace::{Captured, Moment, ProcMoment, Summary};
use crate::machine::{GoroutineState, ProcState, ThreadState};
use crate::units;
use gmp_trace::tables::Tables;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt::{self, Display};
use std::io;

/// Writes one moment as Go's line; with what was asked for in detail as Go's detailed lines. Fields
/// that a trace does not tell are left out.
///
/// # Errors
///
/// What `out` fails with.
pub fn lines(out: &mut dyn io::Write, moment: &Moment, tables: &Tables) -> io::Result<()> {
    write!(out, "SCHED {}ms:", moment.time.0 / 1_000_000)?;
    for (name, value) in moment.fields() {
        write!(out, " {name}={value}")?;
    }
    let Some(detail) = &moment.detail else {
        write!(out, " [")?;
        for proc in &moment.procs {
            write!(out, " {}", proc.queue)?;
        }
        write!(out, " ] schedticks=[")?;
        for proc in &moment.procs {
            write!(out, " {}", proc.sched_ticks)?;
        }
        return writeln!(out, " ]");
    };
    let stopped = |proc: &&_| is_stopped(proc);
    let running = moment.procs.len() - moment.procs.iter().filter(stopped).count();
    let waits = if moment.stopping { running } else { 0 };
    writeln!(out, " gcwaiting={} stopwait={waits}", moment.stopping)?;
    for proc in &moment.procs {
        writeln!(
            out,
            "  P{}: status={} schedtick={} syscalltick={} m={} runqsize={}",
            proc.now.proc,
            proc_status(proc.now.state),
            proc.sched_ticks,
            proc.syscall_ticks,
            or_nil(proc.now.thread),
            proc.queue,
        )?;
    }
    for thread in &detail.threads {
        let holds = |proc: &&ProcMoment| proc.now.thread == Some(thread.now.thread);
        let proc = moment.procs.iter().find(holds);
        writeln!(
            out,
            "  M{}: p={} curg={} spinning={} blocked={} lockedg={}",
            thread.now.thread,
            or_nil(proc.map(|proc| proc.now.proc)),
            or_nil(thread.now.goroutine),
            thread.now.state == ThreadState::Spinning,
            thread.now.state == ThreadState::Parked,
            or_nil(thread.locked),
        )?;
    }
    for goroutine in &detail.goroutines {
        let waits = goroutine.now.state == GoroutineState::Waiting;
        let reason = match waits {
            true => names::reason(tables, goroutine.now.reason),
            false => String::new(),
        };
        writeln!(
            out,
            "  G{}: status={}({}) m={} lockedm={}",
            goroutine.now.goroutine,
            goroutine_status(goroutine.now.state),
            super::shorten::printable(&reason),
            or_nil(goroutine.thread),
            or_nil(goroutine.locked_to),
        )?;
    }
    Ok(())
}

fn is_stopped(proc: &ProcMoment) -> bool {
    matches!(proc.now.state, ProcState::Stopped | ProcState::Idle)
}

fn or_nil(value: Option<impl Display>) -> String {
    value.map_or_else(|| "nil".to_owned(), |value| value.to_string())
}

/// Go's number of a P's state.
fn proc_status(state: ProcState) -> u8 {
    match state {
        ProcState::Idle => 0,
        ProcState::Running | ProcState::Scheduler | ProcState::Unknown => 1,
        ProcState::Syscall => 2,
        ProcState::Stopped => 3,
        ProcState::Absent => 4,
    }
}

/// Go's number of a goroutine's state.
fn goroutine_status(state: GoroutineState) -> u8 {
    match state {
        GoroutineState::Unknown => 0,
        GoroutineState::Runnable => 1,
        GoroutineState::Running => 2,
        GoroutineState::Syscall | GoroutineState::SyscallWithoutP => 3,
        GoroutineState::Waiting => 4,
    }
}

const fn column(name: &'static str, unit: Unit, about: &'static str) -> Column {
    Column {
        name,
        heading: name,
        unit,
        show: Show::Always,
        about,
    }
}

/// Columns of the table of moments.
pub const MOMENTS: &[Column] = &[
    column("time", Unit::Time, "From the begin of the trace."),
    column("gomaxprocs", Unit::Count, "Ps that exist."),
    column("idleprocs", Unit::Count, "Ps without a thread."),
    column(
        "threads",
        Unit::Count,
        "Threads that the trace has told of.",
    ),
    column(
        "spinningthreads",
        Unit::Count,
        "Threads that look for work.",
    ),
    column("idlethreads", Unit::Count, "Threads asleep."),
    column("runqueue", Unit::Count, "Goroutines in the global queue."),
    column(
        "queues",
        Unit::Count,
        "Goroutines in the rings of all Ps, runnext not counted.",
    ),
    column(
        "runnable",
        Unit::Count,
        "Goroutines in all queues, runnext counted.",
    ),
    column("queue_by_p", Unit::Text, "Goroutines in each ring."),
    column(
        "schedticks_by_p",
        Unit::Text,
        "Time slices begun on each P since the trace did.",
    ),
];

/// The moment as a row of the table of moments.
pub fn row(moment: &Moment) -> Vec<Cell> {
    let count = |value: Option<u64>| value.map_or(Cell::Nothing, Cell::Count);
    let list = |of: fn(&ProcMoment) -> u64| {
        let figures: Vec<String> = moment.procs.iter().map(|p| of(p).to_string()).collect();
        Cell::text(&figures.join(" "))
    };
    vec![
        Cell::Time(moment.time),
        Cell::Count(moment.procs.len() as u64),
        Cell::Count(moment.idle_procs),
        Cell::Count(moment.threads),
        count(moment.spinning),
        count(moment.idle_threads),
        Cell::Count(moment.global_queue),
        Cell::Count(moment.procs.iter().map(|proc| proc.queue).sum()),
        Cell::Count(moment.queued),
        list(|proc| proc.queue),
        list(|proc| proc.sched_ticks),
    ]
}

/// How moments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Go's lines.
    Lines,
    /// One object with a list of rows.
    Json,
    /// A line of names and a line for each moment.
    Csv,
}

/// Writes moments one by one, in memory that does not grow with them.
pub struct MomentWriter<'a> {
    out: &'a mut dyn io::Write,
    form: Form,
    source: String,
    written: u64,
    result: io::Result<()>,
}

impl fmt::Debug for MomentWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MomentWriter")
            .field("form", &self.form)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl<'a> MomentWriter<'a> {
    /// Writes to `out` moments of the trace from `source`.
    pub fn new(out: &'a mut dyn io::Write, form: Form, source: String) -> MomentWriter<'a> {
        MomentWriter {
            out,
            form,
            source,
            written: 0,
            result: Ok(()),
        }
    }

    /// Writes one moment; false where that failed, which [`MomentWriter::finish`] tells of.
    pub fn moment(&mut self, moment: &Moment, tables: &Tables) -> bool {
        if self.result.is_ok() {
            self.result = self.write(moment, tables);
        }
        self.written += 1;
        self.result.is_ok()
    }

    fn write(&mut self, moment: &Moment, tables: &Tables) -> io::Result<()> {
        if self.written == 0 {
            self.begin()?;
        }
        let table = Table {
            name: "moments",
            title: "",
            note: String::new(),
            columns: MOMENTS,
            rows: vec![row(moment)],
        };
        match self.form {
            Form::Lines => lines(self.out, moment, tables),
            Form::Json => {
                let comma = if self.written > 0 { "," } else { "" };
                write!(self.out, "{comma}\n    ")?;
                serde_json::to_writer(&mut *self.out, &Row(&table, &table.rows[0]))?;
                Ok(())
            }
            Form::Csv => csv::rows(self.out, &table),
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        match self.form {
            Form::Lines => Ok(()),
            Form::Json => {
                write!(self.out, "{{\n  \"schema\": {SCHEMA},\n  \"source\": ")?;
                serde_json::to_writer(&mut *self.out, &self.source)?;
                write!(self.out, ",\n  \"moments\": [")
            }
            Form::Csv => csv::names(self.out, MOMENTS),
        }
    }

    /// Writes what comes after the last moment.
    ///
    /// # Errors
    ///
    /// What the output failed with, now or before.
    pub fn finish(mut self) -> io::Result<()> {
        std::mem::replace(&mut self.result, Ok(()))?;
        if self.written == 0 {
            self.begin()?;
        }
        match self.form {
            Form::Json => self.out.write_all(b"\n  ]\n}\n"),
            _ => Ok(()),
        }
    }
}

/// What lines rebuilt from a trace leave out, in words.
pub fn untold(of_go: bool, detail: bool) -> String {
    let mut left_out = vec!["needspinning"];
    if of_go {
        left_out.extend(["spinningthreads", "idlethreads"]);
    }
    if detail {
        left_out.extend([
            "nmidlelocked",
            "sysmonwait",
            "gfreecnt",
            "timerslen",
            "mallocing",
            "throwing",
            "preemptoff",
            "locks",
            "dying",
        ]);
    }
    format!(
        "left out, because the trace does not tell: {}; threads are those that it names, and \
         schedticks count from its begin",
        left_out.join(", ")
    )
}

const FIELDS: &[Column] = &[
    column(
        "field",
        Unit::Text,
        "The figure, as in Go's line; queues are all rings together.",
    ),
    column("lines", Unit::Count, "Lines that have it."),
    column("min", Unit::Count, "The least."),
    column("mean", Unit::Mean, "The mean."),
    column("max", Unit::Count, "The largest."),
    column("first", Unit::Count, "That of the first line."),
    column("last", Unit::Count, "That of the last line."),
];

/// The summary as a table.
pub fn summary(summary: &Summary, note: String) -> Table {
    let fields = summary.fields();
    let rows = fields
        .into_iter()
        .map(|field| {
            vec![
                Cell::Text(field.name),
                Cell::Count(field.lines),
                Cell::Count(field.min),
                Cell::Mean(field.mean),
                Cell::Count(field.max),
                Cell::Count(field.first),
                Cell::Count(field.last),
            ]
        })
        .collect();
    Table {
        name: "fields",
        title: "SCHED lines",
        note,
        columns: FIELDS,
        rows,
    }
}

/// What captured text holds, in words.
pub fn note(captured: &Captured) -> String {
    let mut note = units::counted(captured.sched_lines, "line");
    if let Some((first, last)) = captured.between_ms {
        note.push_str(&format!(" between {first}ms and {last}ms"));
    }
    let of = |count, what: &str| (count > 0).then(|| format!(" · {} {what}", units::count(count)));
    let others = captured.lines - captured.sched_lines - captured.detail_lines - captured.garbled;
    let more = [
        of(captured.garbled, "cut or garbled, left out"),
        of(captured.restarts, "times the clock began anew"),
        of(captured.detail_lines, "lines of detail"),
        of(others, "other lines"),
        of(
            captured.summary.left_out(),
            "figures without room, left out",
        ),
    ];
    note.extend(more.into_iter().flatten());
    note
}

/// Writes a table with its title.
///
/// # Errors
///
/// What `out` fails with.
pub fn text(out: &mut dyn io::Write, table: &Table, layout: Layout) -> io::Result<()> {
    text::title(out, table.title, &table.note, layout.width)?;
    let top = usize::MAX;
    text::grid(out, table, None, Layout { top, ..layout })
}

/// Writes a table as one JSON object and a newline, with where it comes from.
///
/// # Errors
///
/// What `out` fails with.
pub fn json(out: &mut dyn io::Write, source: &str, table: &Table) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document { source, table })?;
    out.write_all(b"\n")
}

struct Document<'a> {
    source: &'a str,
    table: &'a Table,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("source", self.source)?;
        map.serialize_entry(self.table.name, &Rows(self.table))?;
        map.end()
    }
}
