//! The commands: each takes its arguments, asks the analysis, and has the answer rendered.

mod check;
mod convert;
mod damage;
mod events;
mod explain;
mod flamegraph;
mod latency;
mod picture;
mod query;
mod range;
mod report;
mod schedtrace;
mod timeline;

use super::args::Command;
use super::{Failure, Verdict};
use std::io::Write;

/// Runs `command` with its answer to `out`.
pub(super) fn run(command: Command, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match command {
        Command::Report(args) => report::run(&args, out),
        Command::Check(args) => check::run(&args, out),
        Command::Events(args) => events::run(&args, out),
        Command::Latency(args) => latency::run(&args, out),
        Command::Timeline(args) => timeline::run(&args, out),
        Command::Flamegraph(args) => flamegraph::run(&args, out),
        Command::Schedtrace(args) => schedtrace::run(&args, out),
        Command::Query(args) => query::run(&args, out),
        Command::Convert(args) => convert::run(&args),
        Command::Explain => explain::run(out),
    }
}
