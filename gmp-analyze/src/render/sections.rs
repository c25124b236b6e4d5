//! The report's tables and key figures: which columns there are, and what goes into them.

use super::table::{Cell, Column, Show, Table, Unit};
use crate::analysis::distribution::{Distribution, EXACT_UP_TO};
use crate::analysis::latency::found_name;
use crate::analysis::report::{Name, Overhead, Report, Summary};
use crate::diag::First;
use crate::machine::{GoroutineState, ProcState};
use crate::units;
use gmp_trace::event::ExitHow;
use gmp_trace::time::Nanos;

use Show::{Always, Never, WhenSet, Wide};

const fn column(
    name: &'static str,
    heading: &'static str,
    unit: Unit,
    show: Show,
    about: &'static str,
) -> Column {
    Column {
        name,
        heading,
        unit,
        show,
        about,
    }
}

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

/// The name of every table, with its columns.
pub fn columns() -> [(&'static str, &'static [Column]); 10] {
    [
        ("summary", SUMMARY),
        ("procs", PROCS),
        ("groups", GROUPS),
        ("latency", LATENCY),
        ("group_latency", GROUP_LATENCY),
        ("blocking", BLOCKING),
        ("longest_runs", LONGEST_RUNS),
        ("steals", STEALS),
        ("anomalies", ANOMALIES),
        ("goroutines", GOROUTINES),
    ]
}

#[rustfmt::skip]
const PROCS: &[Column] = &[
    column("p", "P", Unit::Count, Always, "number of the P"),
    column("running", "running", Unit::TimeAndShare, Always, "time in which a goroutine ran on it, and its share of the trace"),
    column("scheduler", "scheduler", Unit::TimeAndShare, Always, "time in which a thread held it and ran no goroutine"),
    column("syscall", "syscall", Unit::TimeAndShare, WhenSet, "time in which its goroutine was in a system call"),
    column("idle", "idle", Unit::TimeAndShare, Always, "time in the idle list"),
    column("stopped", "stopped", Unit::TimeAndShare, WhenSet, "time in which the world was stopped"),
    column("unknown", "unknown", Unit::TimeAndShare, WhenSet, "time of which the trace does not tell"),
    column("absent", "absent", Unit::TimeAndShare, WhenSet, "time in which there was no such P"),
    column("switches", "switches", Unit::Count, Always, "goroutines that began to run on it"),
    column("stolen", "stolen", Unit::Count, WhenSet, "goroutines that it stole from other Ps"),
    column("lost", "lost", Unit::Count, WhenSet, "goroutines that other Ps stole from it"),
];

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
            Cell::Count(row.stolen),
            Cell::Count(row.lost),
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

#[rustfmt::skip]
const GROUPS: &[Column] = &[
    column("goroutines", "made", Unit::Count, Always, "goroutines of the group, those included that existed before the trace"),
    column("existed", "before", Unit::Count, Wide, "those that existed before the trace"),
    column("ended", "ended", Unit::Count, Never, "those that ended"),
    column("alive", "alive", Unit::Count, WhenSet, "those that lived when the trace ended"),
    column("running", "running", Unit::TimeAndShare, Always, "time of all of them in state running, and its share of their lives"),
    column("runnable", "runnable", Unit::TimeAndShare, Always, "time in which they wanted to run"),
    column("waiting", "waiting", Unit::TimeAndShare, Always, "time in which they waited for something"),
    column("syscall", "syscall", Unit::TimeAndShare, WhenSet, "time in system calls"),
    column("syscall_without_p", "syscall, no P", Unit::TimeAndShare, Wide, "time in system calls after the P was taken"),
    column("unknown", "unknown", Unit::TimeAndShare, WhenSet, "time of which the trace does not tell"),
    column("runs", "runs", Unit::Count, Wide, "times that one began to run, or came back from a system call"),
    column("mean_running", "mean run.", Unit::Time, Never, "mean time that one ran in all"),
    column("most_running", "most run.", Unit::Time, Never, "longest time that one ran in all"),
    column("mean_life", "mean life", Unit::Time, Wide, "mean life of one"),
    column("longest_life", "longest life", Unit::Time, Never, "longest life of one"),
    column("total_life", "lives", Unit::Time, Never, "lives of all; the sum of the states"),
    column("function", "start function", Unit::Function, Always, "function with which they start"),
    column("made_at", "made at", Unit::Position, Always, "where they are made"),
];

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

macro_rules! with_percentiles {
    ($($before:expr),* ; $($after:expr),* $(,)?) => {
        &[
            $($before,)*
            column("count", "count", Unit::Count, Always, "how many"),
            column("total", "total", Unit::Time, Always, "their sum"),
            column("mean", "mean", Unit::Time, Wide, "their mean"),
            column("p50", "p50", Unit::Time, Always, "half are not longer"),
            column("p90", "p90", Unit::Time, Wide, "nine in ten are not longer"),
            column("p99", "p99", Unit::Time, Always, "99 in a hundred are not longer"),
            column("p999", "p99.9", Unit::Time, Wide, "999 in a thousand are not longer"),
            column("max", "max", Unit::Time, Always, "the longest"),
            column("percentiles_exact", "exact", Unit::Flag, Never, "true where percentiles are exact, false where they are at most 1 % too large"),
            $($after,)*
        ]
    };
}

fn percentiles(distribution: &Distribution) -> Vec<Cell> {
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

fn percentile_note(distributions: &mut dyn Iterator<Item = &Distribution>) -> String {
    let mut distributions = distributions.peekable();
    if distributions.peek().is_none() {
        String::new()
    } else if distributions.all(Distribution::is_exact) {
        "Percentiles are exact.".to_owned()
    } else {
        format!("Percentiles of up to {EXACT_UP_TO} values are exact, others at most 1% too large.")
    }
}

#[rustfmt::skip]
const LATENCY: &[Column] = with_percentiles!(;
    column("found", "found in", Unit::Text, Always, "where the scheduler found the goroutine; `all` in the row of all causes"),
    column("cause", "made runnable by", Unit::Text, Always, "what made the goroutine runnable"),
);

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

#[rustfmt::skip]
const GROUP_LATENCY: &[Column] = with_percentiles!(;
    column("function", "start function", Unit::Function, Always, "function with which the goroutines start"),
    column("made_at", "made at", Unit::Position, Always, "where they are made"),
);

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

fn name_cells(name: &Name) -> [Cell; 2] {
    [Cell::text(&name.function), Cell::text(&name.position)]
}

#[rustfmt::skip]
const BLOCKING: &[Column] = with_percentiles!(;
    column("still", "still", Unit::Count, WhenSet, "goroutines that wait when the trace ends"),
    column("longest_ended", "longest ended", Unit::Time, Never, "the longest wait that ended"),
    column("reason", "waits in", Unit::Text, Always, "why they wait, in Go's words"),
    column("function", "where", Unit::Function, Always, "function that waits"),
    column("at", "at", Unit::Position, Always, "where it waits"),
);

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

#[rustfmt::skip]
const LONGEST_RUNS: &[Column] = &[
    column("time", "ran for", Unit::Time, Always, "how long it kept its P"),
    column("begin", "from", Unit::Time, Always, "from when, from the begin of the trace"),
    column("goroutine", "goroutine", Unit::Count, Always, "number of the goroutine"),
    column("p", "P", Unit::Count, Always, "number of the P"),
    column("open", "at end", Unit::Flag, WhenSet, "true where it still ran when the trace ended"),
    column("function", "start function", Unit::Function, Always, "function with which the goroutine starts"),
    column("made_at", "made at", Unit::Position, Always, "where it was made"),
];

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

#[rustfmt::skip]
const STEALS: &[Column] = &[
    column("thief", "thief P", Unit::Count, Always, "P that stole"),
    column("victim", "victim P", Unit::Count, Always, "P that it stole from"),
    column("steals", "steals", Unit::Count, Always, "successful steals"),
    column("goroutines", "goroutines", Unit::Count, Always, "goroutines that they took"),
    column("runnext", "of runnext", Unit::Count, Always, "steals that took the goroutine to run next"),
    column("timers", "of timers", Unit::Count, WhenSet, "steals that ran timers"),
];

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

#[rustfmt::skip]
const ANOMALIES: &[Column] = &[
    column("severity", "severity", Unit::Text, Always, "info, data loss or error"),
    column("count", "count", Unit::Count, Always, "how often"),
    column("kind", "kind", Unit::Text, Always, "what kind"),
    column("source", "seen by", Unit::Text, Never, "trace: the reader; analysis: the state machine"),
    column("first_offset", "first at", Unit::Count, Never, "byte of the trace where it was first seen"),
    column("first_event", "first at", Unit::Count, Never, "position of the event where it was first seen, in the order of cause"),
    column("first", "first at", Unit::Text, Always, "where it was first seen, in words"),
    column("meaning", "meaning", Unit::Text, Always, "what it means"),
];

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

#[rustfmt::skip]
const GOROUTINES: &[Column] = &[
    column("id", "id", Unit::Count, Always, "number of the goroutine"),
    column("exec", "running", Unit::Time, Always, "time in state running"),
    column("sched_wait", "runnable", Unit::Time, Always, "time in state runnable"),
    column("syscall", "syscall", Unit::Time, WhenSet, "time in system calls, with its P"),
    column("syscall_block", "syscall, no P", Unit::Time, WhenSet, "time in system calls, after its P was taken"),
    column("block", "waiting", Unit::Time, Always, "time in state waiting"),
    column("unknown", "unknown", Unit::Time, WhenSet, "time of which the trace does not tell"),
    column("total", "life", Unit::Time, Always, "its life in the trace; the sum of the states"),
    column("born", "born", Unit::Time, Wide, "when it appeared, from the begin of the trace"),
    column("alive", "alive", Unit::Flag, Never, "true where it lived when the trace ended"),
    column("exit", "exit", Unit::Text, Wide, "how it ended, where the trace tells"),
    column("name", "start function", Unit::Function, Always, "function with which it starts"),
    column("made_at", "made at", Unit::Position, Always, "where it was made"),
];

/// Every goroutine, where the report has them.
pub fn goroutines(report: &Report) -> Option<Table> {
    let rows = report.goroutines.as_ref()?.iter().map(|row| {
        let time = |state: GoroutineState| Cell::Time(row.time[state as usize]);
        let exit = match row.how {
            None => "",
            Some(ExitHow::Returned) => "returned",
            Some(ExitHow::Panicked) => "panicked",
            Some(ExitHow::Goexit) => "goexit",
            Some(ExitHow::Cancelled) => "cancelled",
        };
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

/// The key figures of the report: one row.
#[rustfmt::skip]
const SUMMARY: &[Column] = &[
    column("span", "", Unit::Time, Always, "from the first event to the last"),
    column("events", "", Unit::Count, Always, "events"),
    column("procs", "", Unit::Count, Always, "Ps that were there at some time"),
    column("threads", "", Unit::Count, Always, "threads (Ms) that did something"),
    column("goroutines_before", "", Unit::Count, Always, "goroutines that existed before the trace"),
    column("goroutines_made", "", Unit::Count, Always, "goroutines made"),
    column("goroutines_ended", "", Unit::Count, Always, "goroutines ended"),
    column("goroutines_alive", "", Unit::Count, Always, "goroutines alive at the end"),
    column("goroutines_peak", "", Unit::Count, Always, "the most alive at one moment"),
    column("running", "", Unit::TimeAndShare, Always, "P time in which goroutines ran, and its share of all P time"),
    column("scheduler", "", Unit::TimeAndShare, Always, "P time in the scheduler"),
    column("syscall", "", Unit::TimeAndShare, Always, "P time in system calls"),
    column("idle", "", Unit::TimeAndShare, Always, "P time in the idle list"),
    column("stopped", "", Unit::TimeAndShare, Always, "P time in which the world was stopped"),
    column("unknown", "", Unit::TimeAndShare, Always, "P time of which the trace does not tell"),
    column("parallelism", "", Unit::Mean, Always, "mean number of goroutines that ran at once"),
    column("runnable", "", Unit::Mean, Always, "mean number of goroutines that wanted to run"),
    column("idle_while_runnable", "", Unit::TimeAndShare, Always, "time with an idle P and a runnable goroutine, and its share of the trace"),
    column("switches", "", Unit::Count, Always, "goroutines that began to run"),
    column("yields", "", Unit::Count, Always, "goroutines that gave up their P by their own will"),
    column("preempted", "", Unit::Count, Always, "goroutines that were made to give up their P"),
    column("preempted_by_signal", "", Unit::Count, Always, "those of them that were by a signal; null where the trace does not tell"),
    column("syscalls", "", Unit::Count, Always, "system calls entered"),
    column("mean_run", "", Unit::Time, Always, "mean length of a run without a break"),
    column("overhead", "", Unit::TimeAndShare, Always, "estimated time that switches took, and its share of running and scheduler time; null where the trace has no samples"),
    column("overhead_samples", "", Unit::Count, Always, "switches that were measured for the estimate"),
    column("overhead_mean", "", Unit::Time, Always, "mean time that a measured switch took"),
    column("spinning", "", Unit::Time, Always, "time that threads looked for work that they did not know of"),
    column("steals", "", Unit::Count, Always, "successful steals"),
    column("stolen", "", Unit::Count, Always, "goroutines that they took"),
    column("stolen_runnext", "", Unit::Count, Always, "steals that took the goroutine to run next"),
    column("steal_searches_failed", "", Unit::Count, Always, "searches for work that found nothing to steal"),
    column("steal_attempts_failed", "", Unit::Count, Always, "queues that those searches looked at"),
    column("overflows", "", Unit::Count, Always, "times that a full queue moved goroutines to the global queue"),
    column("overflowed", "", Unit::Count, Always, "goroutines that they moved"),
    column("from_global", "", Unit::Count, Always, "goroutines taken from the global queue"),
    column("timers_fired", "", Unit::Count, Always, "timers that fired"),
    column("timer_lateness_p99", "", Unit::Time, Always, "how late they fired, 99th percentile"),
    column("stops", "", Unit::Count, Always, "times that the world was stopped"),
    column("stop_max", "", Unit::Time, Always, "the longest stop, from request to restart"),
    column("lost_events", "", Unit::Count, Always, "events that the recorder lost"),
];

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
        Cell::Count(summary.syscalls),
        Cell::Time(report.run_lengths.mean()),
        overhead,
        samples,
        mean,
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
        Cell::Time(summary.timer_lateness.quantile(0.99)),
        Cell::Count(summary.stops.count()),
        Cell::Time(summary.stops.max()),
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
