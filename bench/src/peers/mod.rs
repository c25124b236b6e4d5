//! The runtimes that are compared, and how a measured program of each is started.

pub(crate) mod gmp;
pub(crate) mod go;
mod may;
mod tokio;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files;
use crate::outcome::Outcome;
use crate::rows::{Measure, Row, Work};

/// The bytes of a message of the row about TCP.
const MESSAGE: usize = 64;

/// The number at the beginning of a message.
fn number(message: &[u8; MESSAGE]) -> u64 {
    u64::from_le_bytes(message[..8].try_into().expect("eight bytes"))
}

/// What a peer says of a row that it has no part in.
const NO_PROGRAM: &str = "has no program for this row";

/// A runtime of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Peer {
    /// Our own runtime.
    Gmp,
    /// Go, by the program in `peers/go`.
    Go,
    /// The crate `may`: stackful coroutines.
    May,
    /// The crate `tokio`, scheduler of many threads.
    Tokio,
    /// The crate `tokio`, scheduler of one thread.
    TokioCurrentThread,
}

impl Peer {
    /// Every peer in the order in which a round runs them.
    pub(crate) const ALL: &[Peer] = &[
        Peer::Gmp,
        Peer::Go,
        Peer::May,
        Peer::Tokio,
        Peer::TokioCurrentThread,
    ];

    /// What the command line and the table call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Peer::Gmp => "gmp",
            Peer::Go => "go",
            Peer::May => "may",
            Peer::Tokio => "tokio",
            Peer::TokioCurrentThread => "tokio-current-thread",
        }
    }

    /// Where its program differs from what the row's title says, for the reader of the table.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            Peer::Gmp => {
                "stacks of the default size; the tracer is built in and off, but for the rows about it"
            }
            Peer::Go => "a wait group and a slot in a slice stand for the join handle",
            Peer::May => {
                "default settings (stacks of 32 kB, workers pinned); has no bounded channel, so its \
                 unbounded one stands in for both"
            }
            Peer::Tokio => {
                "worker threads as many as Ps; its timers have a resolution of 1 ms; the work runs on a worker, not on the thread that \
                 blocks; has no rendezvous channel, so one with room for 1 stands in"
            }
            Peer::TokioCurrentThread => "as tokio, but no thread besides the one that blocks",
        }
    }

    /// Whether this peer has something to measure in `row`.
    pub(crate) fn takes_part(self, row: &Row) -> bool {
        let timed = matches!(row.measure, Measure::Time { .. });
        // These have the same shape in Go alone.
        let has_program = !matches!(
            row.work,
            Work::Select | Work::Mutex { .. } | Work::Fib { .. }
        );
        match self {
            Peer::Gmp => true,
            Peer::Go => row.measure != Measure::IdleTracer,
            // Its sockets and timers are not measured.
            Peer::May if matches!(row.work, Work::Echo { .. } | Work::Sleep { .. }) => false,
            Peer::May | Peer::Tokio => timed && has_program,
            Peer::TokioCurrentThread => timed && has_program && row.procs == 1,
        }
    }

    /// The command that runs `row` once with `operations` and prints its outcome.
    ///
    /// Fails when the peer's program cannot be had, with the reason for the table.
    pub(crate) fn command(self, row: &Row, operations: u64) -> Result<Command, String> {
        if self == Peer::Go {
            return Ok(go::toolchain()?.workload(row, operations));
        }
        Ok(self.command_of(&files::own_program()?, row, operations))
    }

    /// As [`Peer::command`], by the harness at `program` instead of this one.
    pub(crate) fn command_of(self, program: &Path, row: &Row, operations: u64) -> Command {
        let mut command = Command::new(program);
        command.args(["run", self.name(), row.name, "--operations"]);
        command.arg(operations.to_string());
        // A failure goes into the table: its first line is wanted, not where it happened.
        command.env("RUST_BACKTRACE", "0");
        command.env_remove("GMPDEBUG").env_remove("GMPMAXPROCS");
        command
    }

    /// Where this peer's trace goes.
    ///
    /// Fails when the directory for it cannot be made.
    pub(crate) fn trace_file(self) -> Result<PathBuf, String> {
        Ok(files::directory()?.join(format!("{}.trace", self.name())))
    }

    /// Makes `command`, made by [`Peer::command`], record itself into the file at `path`.
    ///
    /// Fails when the peer has no tracer.
    pub(crate) fn record(self, command: &mut Command, path: &Path) -> Result<(), String> {
        match self {
            Peer::Gmp => gmp::record(command, path),
            Peer::Go => go::record(command, path),
            Peer::May | Peer::Tokio | Peer::TokioCurrentThread => {
                return Err("has no tracer".to_owned());
            }
        }
        Ok(())
    }

    /// The command that reads the trace at `path` with the peer's own reader and prints the number of
    /// events as its operations.
    ///
    /// Fails when the peer has no reader, or its program cannot be had.
    pub(crate) fn reader(self, path: &Path) -> Result<Command, String> {
        match self {
            Peer::Gmp => {
                let mut command = Command::new(files::own_program()?);
                command.arg("read").arg(path);
                Ok(command)
            }
            Peer::Go => Ok(go::toolchain()?.read(path)),
            Peer::May | Peer::Tokio | Peer::TokioCurrentThread => {
                Err("has no reader of traces".to_owned())
            }
        }
    }

    /// Runs the work in this process and says how it went.
    ///
    /// Fails for a peer whose program is not part of the harness.
    pub(crate) fn run_here(
        self,
        work: Work,
        procs: u64,
        operations: u64,
    ) -> Result<Outcome, String> {
        match self {
            Peer::Gmp => gmp::run(work, procs, operations),
            Peer::Go => Err("the Go program is a process of its own".to_owned()),
            Peer::May => may::run(work, procs, operations),
            Peer::Tokio => tokio::run(tokio::Flavor::ManyThreads, work, procs, operations),
            Peer::TokioCurrentThread => {
                tokio::run(tokio::Flavor::OneThread, work, procs, operations)
            }
        }
    }
}
