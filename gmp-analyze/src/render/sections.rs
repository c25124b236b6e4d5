//! The report's tables and key figures: what goes into their columns.

use super::columns::{
    ANOMALIES, BLOCKING, GOROUTINES, GROUP_LATENCY, GROUPS, LATENCY, LONGEST_RUNS, PROCS, STEALS,
    SUMMARY,
};
use super::table::{Cell, Table};
use crate::analysis::distribution::{Distribution, EXACT_UP_TO};
use crate::analysis::latency::found_name;
use crate::analysis::names;
use crate::analysis::report::{Name, Overhead, Report, Summary};
use crate::diag::First;
use crate::machine::{GoroutineState, ProcState};
use crate::units;
use gmp_trace::time::Nanos;

/// Every table of a report, in the order in which text shows them.
pub fn all(report: &Report) -> Vec<Table> {
    let mut tables = vec![
        procs(report),
        groups(report),
        latency(report),
        group_latency(report),
        blocking(report),
        longest_runs(report),
        steals(report),
        anomalies(report),
    ];
    tables.extend(goroutines(report));
    tables
}

/// Ps and their time in each state.
pub fn procs(report: &Report) -> Table {
    let span = report.summary.span;
    let row = |row: &crate::analysis::report::ProcRow| {
        let time = |state| {
            let time = row.times.of(state);
            Cell::TimeAndShare(time, units::share(time, span))
        };
        vec![
            Cell::Count(row.times.proc.get().into()),
            time(ProcState::Running),
            time(ProcState::Scheduler),
            time(ProcState::Syscall),
            time(ProcState::Idle),
            time(ProcState::Stopped),
            time(ProcState::Unknown),
            time(ProcState::Absent),
            Cell::Count(row.switches),
            of_runtime(report, Cell::Count(row.stolen)),
            of_runtime(report, Cell::Count(row.lost)),
        ]
    };
    Table {
        name: "procs",
        title: "Ps",
        note: String::new(),
        columns: PROCS,
        rows: report.procs.iter().map(row).collect(),
    }
}

/// Goroutines by start function and creation site, and their time in each state.
pub fn groups(report: &Report) -> Table {
    let row = |row: &crate::analysis::report::GroupRow| {
        let group = &row.group;
        let time = |state: GoroutineState| {
            let time = group.of(state);
            Cell::TimeAndShare(time, units::share(time, group.life))
        };
        let goroutines = group.goroutines();
        let mean =
            |total: Nanos| Cell::Time(Nanos(total.0.checked_div(goroutines as i64).unwrap_or(0)));
        vec![
            Cell::Count(goroutines),
            Cell::Count(group.existed),
            Cell::Count(group.ended),
            Cell::Count(group.alive),
            time(GoroutineState::Running),
            time(GoroutineState::Runnable),
            time(GoroutineState::Waiting),
            time(GoroutineState::Syscall),
            time(GoroutineState::SyscallWithoutP),
            time(GoroutineState::Unknown),
            Cell::Count(group.spans[GoroutineState::Running as usize]),
            mean(group.of(GoroutineState::Running)),
            Cell::Time(group.most_running),
            mean(group.life),
            Cell::Time(group.longest_life),
            Cell::Time(group.life),
            Cell::text(&row.name.function),
            Cell::text(&row.name.position),
        ]
    };
    Table {
        name: "groups",
        title: "Goroutines by start function",
        note: "Time of all goroutines of a group in each state; shares are of their lives."
            .to_owned(),
        columns: GROUPS,
        rows: report.groups.iter().map(row).collect(),
    }
}

pub(super) fn percentiles(distribution: &Distribution) -> Vec<Cell> {
    let quantile = |quantile| Cell::Time(distribution.quantile(quantile));
    vec![
        Cell::Count(distribution.count()),
        Cell::Time(distribution.total()),
        Cell::Time(distribution.mean()),
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        quantile(0.999),
        Cell::Time(distribution.max()),
        Cell::Flag(distribution.is_exact()),
    ]
}

pub(super) fn percentile_note(distributions: &mut dyn Iterator<Item = &Distribution>) -> String {
    let mut distributions = distributions.peekable();
    if distributions.peek().is_none() {
        String::new()
    } else if distributions.all(Distribution::is_exact) {
        "Percentiles are exact.".to_owned()
    } else {
        format!("Percentiles of up to {EXACT_UP_TO} values are exact, others at most 1% too large.")
    }
}

/// Scheduling latency, all together and by cause.
pub fn latency(report: &Report) -> Table {
    let row = |latency: &Distribution, found: &str, cause: &str| {
        let mut row = percentiles(latency);
        row.extend([Cell::text(found), Cell::text(cause)]);
        row
    };
    let mut rows = Vec::new();
    if report.latency.count() > 0 {
        rows.push(row(&report.latency, "all", "all"));
    }
    for cause in &report.causes {
        rows.push(row(
            &cause.latency,
            found_name(cause.found),
            cause.cause.name(),
        ));
    }
    let exact = percentile_note(&mut report.causes.iter().map(|cause| &cause.latency));
    Table {
        name: "latency",
        title: "Scheduling latency by cause",
        note: format!("From runnable to running. {exact}")
            .trim_end()
            .to_owned(),
        columns: LATENCY,
        rows,
    }
}

/// Scheduling latency by group, the largest total first.
pub fn group_latency(report: &Report) -> Table {
    let mut groups: Vec<_> = report
        .groups
        .iter()
        .filter(|row| row.group.latency.count() > 0)
        .collect();
    groups.sort_by_key(|row| std::cmp::Reverse(row.group.latency.total()));
    let row = |row: &&crate::analysis::report::GroupRow| {
        let mut cells = percentiles(&row.group.latency);
        cells.extend(name_cells(&row.name));
        cells
    };
    Table {
        name: "group_latency",
        title: "Scheduling latency by start function",
        note: String::new(),
        columns: GROUP_LATENCY,
        rows: groups.iter().map(row).collect(),
    }
}

pub(super) fn name_cells(name: &Name) -> [Cell; 2] {
    [Cell::text(&name.function), Cell::text(&name.position)]
}

/// Blocking sites, the largest total first.
pub fn blocking(report: &Report) -> Table {
    let row = |row: &crate::analysis::report::BlockingRow| {
        let mut cells = percentiles(&row.waits);
        cells.extend([
            Cell::Count(row.still),
            Cell::Time(row.longest_ended),
            Cell::text(&row.reason),
        ]);
        cells.extend(name_cells(&row.name));
        cells
    };
    Table {
        name: "blocking",
        title: "Where goroutines wait",
        note: String::new(),
        columns: BLOCKING,
        rows: report.blocking.iter().map(row).collect(),
    }
}

/// The longest runs without a break.
pub fn longest_runs(report: &Report) -> Table {
    let begin = report.summary.begin;
    let row = |row: &crate::analysis::report::RunRow| {
        let mut cells = vec![
            Cell::Time(row.run.time),
            Cell::Time(row.run.begin.since(begin)),
            Cell::Count(row.run.goroutine.get()),
            row.run
                .proc
                .map_or(Cell::Nothing, |proc| Cell::Count(proc.get().into())),
            Cell::Flag(row.run.open),
        ];
        cells.extend(name_cells(&row.name));
        cells
    };
    let lengths = &report.run_lengths;
    let note = format!(
        "{}: mean {}, p50 {}, p99 {}.",
        units::counted(lengths.count(), "run"),
        units::duration(lengths.mean()),
        units::duration(lengths.quantile(0.5)),
        units::duration(lengths.quantile(0.99)),
    );
    Table {
        name: "longest_runs",
        title: "Longest runs without a break",
        note,
        columns: LONGEST_RUNS,
        rows: report.longest_runs.iter().map(row).collect(),
    }
}

/// Steals by thief and victim, the largest number of goroutines first.
pub fn steals(report: &Report) -> Table {
    let mut pairs: Vec<_> = report.steals.pairs.iter().collect();
    pairs.sort_by_key(|(_, count)| std::cmp::Reverse((count.goroutines, count.steals)));
    let rows = pairs.into_iter().map(|((thief, victim), count)| {
        vec![
            thief.map_or(Cell::Nothing, |thief| Cell::Count(thief.get().into())),
            Cell::Count(victim.get().into()),
            Cell::Count(count.steals),
            Cell::Count(count.goroutines),
            Cell::Count(count.runnext),
            Cell::Count(count.timers),
        ]
    });
    Table {
        name: "steals",
        title: "Steals",
        note: String::new(),
        columns: STEALS,
        rows: rows.collect(),
    }
}

/// What is wrong with the trace or could not be told from it.
pub fn anomalies(report: &Report) -> Table {
    let row = |anomaly: &crate::diag::Anomaly| {
        let (offset, event, words) = match anomaly.first {
            First::Nowhere => (Cell::Nothing, Cell::Nothing, Cell::Nothing),
            First::Offset(offset) => (
                Cell::Count(offset),
                Cell::Nothing,
                Cell::Text(format!("byte {offset}")),
            ),
            First::Event(order, _) => (
                Cell::Nothing,
                Cell::Count(order),
                Cell::Text(format!("event {order}")),
            ),
        };
        vec![
            Cell::text(anomaly.severity.name()),
            Cell::Count(anomaly.count),
            Cell::text(&anomaly.kind),
            Cell::text(anomaly.source.name()),
            offset,
            event,
            words,
            Cell::text(&anomaly.meaning),
        ]
    };
    Table {
        name: "anomalies",
        title: "Anomalies of the trace",
        note: String::new(),
        columns: ANOMALIES,
        rows: report.anomalies.iter().map(row).collect(),
    }
}

/// Every goroutine, where the report has them.
pub fn goroutines(report: &Report) -> Option<Table> {
    let rows = report.goroutines.as_ref()?.iter().map(|row| {
        let time = |state: GoroutineState| Cell::Time(row.time[state as usize]);
        let exit = row.how.map_or("", names::exit);
        vec![
            Cell::Count(row.id.get()),
            time(GoroutineState::Running),
            time(GoroutineState::Runnable),
            time(GoroutineState::Syscall),
            time(GoroutineState::SyscallWithoutP),
            time(GoroutineState::Waiting),
            time(GoroutineState::Unknown),
            Cell::Time(row.total),
            Cell::Time(row.born),
            Cell::Flag(row.alive),
            Cell::text(exit),
            Cell::text(&row.name.function),
            Cell::text(&row.name.position),
        ]
    });
    Some(Table {
        name: "goroutines",
        title: "Goroutines",
        note: String::new(),
        columns: GOROUTINES,
        rows: rows.collect(),
    })
}

/// The key figures: a table of one row.
pub fn summary(report: &Report) -> Table {
    let summary = &report.summary;
    let steals = report.steals.total();
    let (overhead, samples, mean) = match summary.overhead {
        Overhead::NotInTrace => (Cell::Nothing, Cell::Count(0), Cell::Nothing),
        Overhead::Estimate {
            samples,
            mean,
            time,
            share,
        } => (
            Cell::TimeAndShare(time, share),
            Cell::Count(samples),
            Cell::Time(mean),
        ),
    };
    let idle_while_runnable = report.parallelism.idle_while_waiting;
    let mut row = totals(summary);
    row.extend([
        Cell::Mean(summary.parallelism),
        Cell::Mean(summary.runnable),
        Cell::TimeAndShare(
            idle_while_runnable,
            units::share(idle_while_runnable, summary.span),
        ),
        Cell::Count(summary.switches),
        Cell::Count(summary.yields),
        Cell::Count(summary.preempted.all()),
        summary
            .preempted
            .signal()
            .map_or(Cell::Nothing, Cell::Count),
    ]);
    row.extend(rescues(report));
    row.extend([
        some(report.run_lengths.count(), report.run_lengths.mean()),
        overhead,
        samples,
        mean,
    ]);
    let of_search = [
        Cell::Time(summary.spinning),
        Cell::Count(steals.steals),
        Cell::Count(steals.goroutines),
        Cell::Count(steals.runnext),
        Cell::Count(report.steals.failed_searches),
        Cell::Count(report.steals.failed_attempts),
        Cell::Count(report.steals.overflows),
        Cell::Count(report.steals.overflowed),
        Cell::Count(report.steals.from_global),
        Cell::Count(summary.timer_lateness.count()),
    ];
    row.extend(of_search.map(|cell| of_runtime(report, cell)));
    let (late, stops) = (&summary.timer_lateness, &summary.stops);
    let collections = &summary.collections;
    row.extend([
        some(late.count(), late.quantile(0.99)),
        Cell::Count(stops.count()),
        some(stops.count(), stops.max()),
    ]);
    row.extend(standstill(summary));
    row.extend([
        Cell::Count(collections.cycles.count()),
        some(collections.cycles.count(), collections.cycles.max()),
        of_runtime(report, Cell::Count(collections.pages)),
        of_runtime(report, Cell::Count(collections.stacks)),
        Cell::Count(summary.lost_events),
    ]);
    Table {
        name: "summary",
        title: "Summary",
        note: String::new(),
        columns: SUMMARY,
        rows: vec![row],
    }
}

/// Ps that were asked for, taken and handed on; and system calls, in which they are taken.
fn rescues(report: &Report) -> [Cell; 11] {
    let rescues = &report.rescues;
    let delays = &rescues.delays;
    [
        of_runtime(report, Cell::Count(rescues.asked())),
        of_runtime(report, Cell::Count(rescues.asked_urgently)),
        of_runtime(report, Cell::Count(delays.count())),
        some(delays.count(), delays.quantile(0.5)),
        some(delays.count(), delays.max()),
        Cell::Count(report.summary.syscalls),
        Cell::Count(rescues.from_calls),
        of_runtime(report, Cell::Count(rescues.from_unannounced)),
        of_runtime(report, Cell::Count(rescues.by_frozen)),
        of_runtime(report, Cell::Count(rescues.to_frozen)),
        of_runtime(report, Cell::Count(rescues.to_locked)),
    ]
}

/// How long the world took to stand still, and who came last.
fn standstill(summary: &Summary) -> [Cell; 5] {
    let delays = &summary.stop_delays;
    let last = summary.last_to_stop;
    let number = |of: Option<u64>| of.map_or(Cell::Nothing, Cell::Count);
    [
        some(delays.count(), delays.quantile(0.5)),
        some(delays.count(), delays.max()),
        number(last.and_then(|last| Some(last.thread?.get()))),
        number(last.and_then(|last| Some(u64::from(last.proc?.get())))),
        number(last.and_then(|last| Some(last.goroutine?.get()))),
    ]
}

/// What only our runtime's traces tell; of Go's it is not known.
fn of_runtime(report: &Report, cell: Cell) -> Cell {
    if report.trace.of_go {
        Cell::Nothing
    } else {
        cell
    }
}

/// A figure of `count` times; of none there is no figure.
fn some(count: u64, time: Nanos) -> Cell {
    if count == 0 {
        Cell::Nothing
    } else {
        Cell::Time(time)
    }
}

fn totals(summary: &Summary) -> Vec<Cell> {
    let available = summary.available();
    let time = |state| {
        let time = summary.of(state);
        Cell::TimeAndShare(time, units::share(time, available))
    };
    vec![
        Cell::Time(summary.span),
        Cell::Count(summary.events),
        Cell::Count(summary.procs),
        Cell::Count(summary.threads),
        Cell::Count(summary.existed),
        Cell::Count(summary.made),
        Cell::Count(summary.ended),
        Cell::Count(summary.alive),
        Cell::Count(summary.peak),
        time(ProcState::Running),
        time(ProcState::Scheduler),
        time(ProcState::Syscall),
        time(ProcState::Idle),
        time(ProcState::Stopped),
        time(ProcState::Unknown),
    ]
}
