//! What can be said on the command line. Parsing does nothing else.

use crate::analysis::filter::Condition;
use crate::analysis::findings::RULES;
use crate::analysis::stacks::StackKind;
use crate::flame::By;
use crate::render::columns;
use crate::units::parse_duration;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use gmp_trace::time::Nanos;
use std::ffi::OsString;

/// Explains traces of goroutine schedulers.
#[derive(Debug, Parser)]
#[command(name = "gmp-analyze", version, about, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 fine, 1 a finding that --deny names or a broken rule, 2 error."
)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,

    /// No colours, also on a terminal (as the variable NO_COLOR).
    #[arg(long, global = true)]
    pub(super) no_color: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// The whole picture on one page: findings, Ps, goroutines, latency, waits, steals.
    Report(ReportArgs),
    /// Every rule that a trace breaks, counted, with the first place.
    Check(TraceArgs),
    /// A picture of what ran where and when: lanes, utilization, run queues, states (SVG).
    Timeline(TimelineArgs),
    /// How long goroutines were in each state: percentiles by start function, goroutine or cause.
    Latency(LatencyArgs),
    /// One line an event, in the order of cause.
    Events(EventsArgs),
    /// A flame graph: where goroutines spend their time, as SVG or folded text.
    Flamegraph(FlamegraphArgs),
    /// Go's SCHED lines rebuilt from a trace, or captured ones summed up.
    Schedtrace(SchedtraceArgs),
    /// SQL over tables of the trace: goroutines, spans, starts, steals.
    Query(QueryArgs),
    /// The trace in another format: as one that go tool trace opens.
    Convert(ConvertArgs),
    /// What the columns of tables, the fields of JSON and the rules of findings mean.
    Explain,
}

#[derive(Debug, ClapArgs)]
pub(super) struct TraceArgs {
    /// Traces, gzip or not; - for standard input.
    #[arg(required = true, value_name = "TRACE")]
    pub(super) traces: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    pub(super) input: TraceArgs,

    /// One JSON document for each trace: times in nanoseconds, all rows of every table.
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,

    /// One table as CSV.
    #[arg(long, value_name = "TABLE", value_parser = PossibleValuesParser::new(tables()))]
    pub(super) csv: Option<String>,

    /// Rows of each table [default: 10 in text, all in JSON and CSV].
    #[arg(long, value_name = "N")]
    pub(super) top: Option<usize>,

    /// The list of every goroutine as well.
    #[arg(long)]
    pub(super) goroutines: bool,

    /// Columns of text [default: those of the terminal, at most 120; 100 without one].
    #[arg(long, value_name = "COLUMNS")]
    pub(super) width: Option<usize>,

    /// Exit code 1 where this rule finds something; may be given more than once.
    #[arg(long, value_name = "RULE", value_parser = PossibleValuesParser::new(rules()))]
    pub(super) deny: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct TimelineArgs {
    /// A trace, gzip or not; - for standard input.
    #[arg(value_name = "TRACE")]
    pub(super) trace: OsString,

    /// The file that is written; - for standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(super) output: OsString,

    /// What a lane stands for.
    #[arg(long, value_enum, default_value = "p")]
    pub(super) lanes: LanesArg,

    /// What colours stand for: start functions of goroutines, or states. In lanes of groups they
    /// are always states, in lanes of tasks regions.
    #[arg(long, value_enum, default_value = "group")]
    pub(super) color: ColourArg,

    #[command(flatten)]
    pub(super) range: RangeArgs,

    #[command(flatten)]
    pub(super) filter: FilterArgs,

    /// Width of the picture in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = 1400, value_parser = clap::value_parser!(u32).range(300..=8000))]
    pub(super) width: u32,

    /// Height of the picture in pixels [default: what the lanes need to be read; never less than
    /// they need to be seen].
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(100..=8000))]
    pub(super) height: Option<u32>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct LatencyArgs {
    /// A trace, gzip or not; - for standard input.
    #[arg(value_name = "TRACE")]
    pub(super) trace: OsString,

    /// What rows stand for.
    #[arg(long, value_enum, default_value = "group")]
    pub(super) by: ByArg,

    #[command(flatten)]
    pub(super) range: RangeArgs,

    #[command(flatten)]
    pub(super) filter: FilterArgs,

    /// One JSON document: times in nanoseconds.
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,

    /// The table as CSV: times in nanoseconds.
    #[arg(long)]
    pub(super) csv: bool,

    /// Groups, goroutines or causes that are shown [default: 10 in text, all in JSON and CSV].
    #[arg(long, value_name = "N")]
    pub(super) top: Option<usize>,

    /// Columns of text [default: those of the terminal, at most 120; 100 without one].
    #[arg(long, value_name = "COLUMNS")]
    pub(super) width: Option<usize>,

    /// A picture of the durations on logarithmic axes (SVG) in this file.
    #[arg(long, value_name = "FILE")]
    pub(super) histogram: Option<OsString>,

    /// Width of that picture in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(400..=8000))]
    pub(super) picture_width: u32,

    /// The bins of the histograms as CSV in this file.
    #[arg(long, value_name = "FILE")]
    pub(super) bins: Option<OsString>,
}

/// What rows stand for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ByArg {
    /// A group of goroutines with the same start function, made at the same place.
    Group,
    /// A goroutine.
    Goroutine,
    /// How a goroutine was found and what made it runnable; scheduling latency alone.
    Cause,
}

/// What a lane stands for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LanesArg {
    /// A P.
    P,
    /// A thread.
    M,
    /// A group of goroutines with the same start function, made at the same place.
    Group,
    /// A task of the program.
    Task,
}

/// What colours stand for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ColourArg {
    /// Start functions of goroutines.
    Group,
    /// States.
    State,
}

#[derive(Debug, ClapArgs)]
pub(super) struct EventsArgs {
    #[command(flatten)]
    pub(super) input: TraceArgs,

    /// The records as they are in the file, instead of what they mean.
    #[arg(long)]
    pub(super) raw: bool,
}

/// A part of the trace.
#[derive(Debug, ClapArgs)]
pub(super) struct RangeArgs {
    /// From this time on, from the begin of the trace (10ms, 1s 500us) [default: the begin].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) from: Option<Nanos>,

    /// Up to this time [default: the end].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) to: Option<Nanos>,
}

/// Which goroutines.
#[derive(Debug, ClapArgs)]
pub(super) struct FilterArgs {
    /// Only goroutines with this start function (function=TEXT is a part of its name), made at this place
    /// (made_at=main.rs:7) or with this number (goroutine=7); Ps and threads stay whole. Of several of one
    /// kind one has to hold, of several kinds all.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) filter: Vec<Condition>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct FlamegraphArgs {
    #[command(flatten)]
    pub(super) input: TraceArgs,

    /// What it is about: wall (every state), cpu (samples, or running time by what ended the run),
    /// block (waiting), sched (waiting for a P), syscall, create (running time by creators).
    #[arg(long, value_name = "KIND", default_value = "wall", value_parser = kinds())]
    pub(super) kind: StackKind,

    /// What widths are [default: time; count for cpu where the trace has samples].
    #[arg(long, value_name = "WHAT", value_parser = weights())]
    pub(super) by: Option<By>,

    /// Where to write; - for standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(super) output: OsString,

    /// Folded text in place of a picture: a line for each stack, nanoseconds or a count at its end.
    #[arg(long)]
    pub(super) folded: bool,

    /// Compare with this trace: red is more than there, blue is less.
    #[arg(long, value_name = "TRACE")]
    pub(super) diff: Option<OsString>,

    #[command(flatten)]
    pub(super) range: RangeArgs,

    #[command(flatten)]
    pub(super) filter: FilterArgs,

    /// Frames beyond this depth become one.
    #[arg(long, value_name = "N", default_value = "512",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) depth: u32,
}

#[derive(Debug, ClapArgs)]
pub(super) struct SchedtraceArgs {
    /// A trace, or text with SCHED lines (of Go or of ours); - for standard input.
    #[arg(required = true, value_name = "TRACE")]
    pub(super) trace: OsString,

    /// Time between two lines.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_every)]
    pub(super) every: Nanos,

    /// A line for each P, M and G as well.
    #[arg(long, conflicts_with_all = ["json", "csv", "summary"])]
    pub(super) detail: bool,

    /// Least, mean and largest of every figure in place of lines (of text always).
    #[arg(long)]
    pub(super) summary: bool,

    /// JSON: times in nanoseconds.
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,

    /// CSV, with the fields of JSON.
    #[arg(long)]
    pub(super) csv: bool,

    #[command(flatten)]
    pub(super) range: RangeArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct QueryArgs {
    /// A trace, gzip or not; - for standard input.
    #[arg(value_name = "TRACE", required_unless_present = "tables")]
    pub(super) trace: Option<OsString>,

    /// The query, as in "SELECT function, SUM(running_ns) FROM goroutines GROUP BY function".
    #[arg(value_name = "SQL", required_unless_present = "tables")]
    pub(super) sql: Option<String>,

    /// The tables and their columns, with types and units, in place of an answer: the same for every trace.
    #[arg(long, conflicts_with_all = ["sql", "json", "csv"])]
    pub(super) tables: bool,

    /// One JSON document with all rows.
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,

    /// All rows as CSV.
    #[arg(long)]
    pub(super) csv: bool,

    #[command(flatten)]
    pub(super) range: RangeArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ConvertArgs {
    /// A trace, gzip or not; - for standard input.
    #[arg(value_name = "TRACE")]
    pub(super) trace: OsString,

    /// The format.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) to: FormatArg,

    /// The file that is written; - for standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(super) output: OsString,
}

/// A format that traces are written in.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum FormatArg {
    /// Go's execution trace.
    Go,
}

/// A time that is not zero.
fn parse_every(text: &str) -> Result<Nanos, String> {
    match parse_duration(text)? {
        Nanos::ZERO => Err("expected more than no time".to_owned()),
        time => Ok(time),
    }
}

fn kinds() -> impl TypedValueParser<Value = StackKind> {
    let names = StackKind::ALL.iter().map(|kind| kind.name());
    PossibleValuesParser::new(names).map(|name| {
        let kind = StackKind::ALL.iter().find(|kind| kind.name() == name);
        kind.copied().unwrap_or(StackKind::Wall)
    })
}

fn weights() -> impl TypedValueParser<Value = By> {
    PossibleValuesParser::new(["time", "count"]).map(|name| match name.as_str() {
        "count" => By::Count,
        _ => By::Time,
    })
}

/// Tables that `--csv` takes.
fn tables() -> Vec<&'static str> {
    columns::all().into_iter().map(|(name, _)| name).collect()
}

/// Rules that `--deny` takes: those of the registry, and `all` for any of them.
fn rules() -> Vec<&'static str> {
    RULES
        .iter()
        .map(|rule| rule.name())
        .chain(["all"])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn moments_are_some_time_apart() {
        assert_eq!(parse_every("10ms"), Ok(Nanos(10_000_000)));
        assert!(parse_every("0s").is_err());
    }
}
