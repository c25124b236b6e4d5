//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::peers::Peer;
use crate::rows::{ROWS, Row};

/// Measures gmp beside its peers, in turn, on one machine.
#[derive(Debug, Parser)]
#[command(name = "gmp-bench", version)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the harness can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure rows, peers in turn, and print the table.
    Compare(Compare),
    /// Read a trace, ours or Go's, with our reader, and print the number of events as result line.
    Read {
        /// The trace.
        trace: PathBuf,
    },
    /// Do the work of one row once, in this process, and print the result line.
    Run(Run),
    /// Print the names and titles of all rows.
    List,
}

/// The arguments of `compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Compare {
    /// Rows to measure [default: all].
    #[arg(value_parser = row)]
    pub(crate) rows: Vec<&'static Row>,
    /// How many rounds; each runs every peer once.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) rounds: u16,
    /// Peers to run, separated by commas [default: all].
    #[arg(long, value_delimiter = ',')]
    pub(crate) peers: Vec<Peer>,
    /// The peer that the others are compared with.
    #[arg(long, default_value = "gmp")]
    pub(crate) reference: Peer,
    /// Factor on the number of operations, for a quick look or a longer run.
    #[arg(long, default_value_t = 1.0, value_parser = factor)]
    pub(crate) scale: f64,
    /// A harness built without the tracer (`--no-default-features`), for the row `tracer-off`.
    #[arg(long)]
    pub(crate) untraced: Option<PathBuf>,
    /// File for the figures as JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// File for the table as Markdown.
    #[arg(long)]
    pub(crate) markdown: Option<PathBuf>,
}

/// The arguments of `run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// Whose program.
    pub(crate) peer: Peer,
    /// Which row's work.
    #[arg(value_parser = row)]
    pub(crate) row: &'static Row,
    /// How many operations [default: the row's].
    #[arg(long)]
    pub(crate) operations: Option<u64>,
}

fn row(name: &str) -> Result<&'static Row, String> {
    Row::find(name).ok_or_else(|| {
        let names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor <= 1000.0 => Ok(factor),
        _ => Err("expected a number above 0 and at most 1000".to_owned()),
    }
}
