//! What can be said on the command line. Parsing does nothing else.

use crate::analysis::findings::RULES;
use crate::render::sections;
use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Parser, Subcommand};
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
pub(super) struct EventsArgs {
    #[command(flatten)]
    pub(super) input: TraceArgs,

    /// The records as they are in the file, instead of what they mean.
    #[arg(long)]
    pub(super) raw: bool,
}

/// Tables that `--csv` takes.
fn tables() -> Vec<&'static str> {
    sections::columns()
        .into_iter()
        .map(|(name, _)| name)
        .collect()
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
