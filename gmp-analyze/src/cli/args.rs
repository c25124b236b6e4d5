//! What can be said on the command line. Parsing does nothing else.

use crate::analysis::findings::RULES;
use crate::render::columns;
use crate::units::parse_duration;
use clap::builder::PossibleValuesParser;
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

    /// From when, counted from the begin of the trace, as in 10ms.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) from: Option<Nanos>,

    /// Until when, counted from the begin of the trace.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) to: Option<Nanos>,

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
}
