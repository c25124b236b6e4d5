//! The command line: arguments, what they mean, commands.

mod args;
mod cmd;
mod config;

use anstream::AutoStream;
use clap::Parser;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// How a command ended that was no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing that the caller wants to hear of.
    Fine,
    /// A finding that the caller denies, or a broken rule.
    Denied,
}

/// Why a command could not do its work.
#[derive(Debug)]
enum Failure {
    /// The trace cannot be read.
    Input(crate::input::Error),
    /// The output cannot be written.
    Output(io::Error),
    /// Arguments that do not go together.
    Usage(String),
}

impl From<crate::input::Error> for Failure {
    fn from(error: crate::input::Error) -> Failure {
        Failure::Input(error)
    }
}

impl From<crate::plot::Error> for Failure {
    fn from(error: crate::plot::Error) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Input(error) => error.fmt(f),
            Failure::Output(error) => write!(f, "the output cannot be written: {error}"),
            Failure::Usage(message) => f.write_str(message),
        }
    }
}

/// Runs the command that the arguments of the process name. 0: fine; 1: a finding that `--deny`
/// names, or a broken rule; 2: an error, which is one line on standard error.
pub fn run() -> ExitCode {
    let args = args::Args::parse();
    let choice = config::colour(args.no_color);
    let mut out =
        io::BufWriter::with_capacity(1 << 16, AutoStream::new(io::stdout().lock(), choice));
    let verdict = cmd::run(args.command, &mut out).and_then(|verdict| {
        out.flush()?;
        Ok(verdict)
    });
    match verdict {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Denied) => ExitCode::from(1),
        // Whoever read the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            // Where even standard error is closed, the code is all that is left to say.
            let _ = writeln!(io::stderr(), "gmp-analyze: {failure}");
            ExitCode::from(2)
        }
    }
}
