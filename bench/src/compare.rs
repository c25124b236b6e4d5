//! Runs the peers of a row in turn, round after round, and collects the figures.
//!
//! A round runs every peer once, one after the other (A B C, A B C, …), so that a slow moment of the
//! machine falls on all of them, and each peer's figure has a neighbour of every other peer to be
//! compared with.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child;
use crate::files;
use crate::outcome::Outcome;
use crate::peers::Peer;
use crate::rows::{Measure, Row};

/// What one peer made of one row.
#[derive(Debug)]
pub(crate) struct PeerResult {
    /// Which peer.
    pub(crate) peer: Peer,
    /// One figure a round, or why there is none.
    pub(crate) figures: Result<Vec<f64>, String>,
}

/// One row with the results of everyone who takes part.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// What was measured.
    pub(crate) row: &'static Row,
    /// How many operations a run did.
    pub(crate) operations: u64,
    /// One result for each peer that takes part in the row.
    pub(crate) results: Vec<PeerResult>,
}

impl Comparison {
    /// The result of `peer`, if it takes part.
    pub(crate) fn result(&self, peer: Peer) -> Option<&PeerResult> {
        self.results.iter().find(|result| result.peer == peer)
    }
}

/// How every row is measured.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// Who is measured, in the order of a round.
    pub(crate) peers: &'a [Peer],
    /// How many rounds.
    pub(crate) rounds: usize,
    /// Factor on the number of operations.
    pub(crate) scale: f64,
    /// A harness that was built without the tracer.
    pub(crate) untraced: Option<&'a Path>,
}

/// Measures `row` for those peers of the plan that take part in it.
///
/// A peer that fails once is left out of the rest of the row, and its figures are dropped with it:
/// the reason takes their place.
pub(crate) fn compare(row: &'static Row, plan: &Plan<'_>) -> Comparison {
    let wanted = (row.operations as f64 * plan.scale) as u64;
    let operations = row.work.whole(wanted, row.procs);
    let mut results: Vec<PeerResult> = plan
        .peers
        .iter()
        .filter(|peer| peer.takes_part(row))
        .map(|&peer| PeerResult {
            peer,
            figures: Ok(Vec::with_capacity(plan.rounds)),
        })
        .collect();
    for _ in 0..plan.rounds {
        for result in &mut results {
            let Ok(figures) = &mut result.figures else {
                continue;
            };
            match figure(result.peer, row, operations, plan) {
                Ok(figure) => figures.push(figure),
                Err(reason) => result.figures = Err(reason),
            }
        }
    }
    Comparison {
        row,
        operations,
        results,
    }
}

/// One turn of one peer: the row's figure, in the row's unit.
fn figure(peer: Peer, row: &Row, operations: u64, plan: &Plan<'_>) -> Result<f64, String> {
    let per_operation = |nanoseconds: f64| nanoseconds / operations as f64;
    match row.measure {
        Measure::Time { per_processor } => {
            let elapsed = elapsed_ns(&work(peer, row, operations)?);
            let processors = if per_processor { row.procs } else { 1 };
            Ok(per_operation(elapsed * processors as f64))
        }
        Measure::IdleTracer => {
            let with = work(peer, row, operations)?;
            let program = plan
                .untraced
                .ok_or("needs --untraced with a harness without tracer")?;
            let without = verified(
                &mut peer.command_of(program, row, operations),
                row,
                operations,
            )?;
            Ok(per_operation(elapsed_ns(&with) - elapsed_ns(&without)))
        }
        Measure::RecordingCost => {
            let quiet = work(peer, row, operations)?;
            let trace = record(peer, row, operations)?;
            let events = events(peer, &trace.path, operations)?.operations;
            Ok((elapsed_ns(&trace.outcome) - elapsed_ns(&quiet)) / events as f64)
        }
        Measure::RecordedBytes => {
            let trace = record(peer, row, operations)?;
            let size = std::fs::metadata(&trace.path)
                .map_err(|error| format!("no trace at {}: {error}", trace.path.display()))?
                .len();
            let events = events(peer, &trace.path, operations)?.operations;
            Ok(size as f64 / events as f64)
        }
        Measure::ReadingSpeed => reading_speed(peer, peer, row, operations),
        Measure::ReadingSpeedOfGo => reading_speed(peer, Peer::Go, row, operations),
    }
}

/// How many millions of events a second the reader of `peer` takes from a trace of `recorder`.
fn reading_speed(peer: Peer, recorder: Peer, row: &Row, operations: u64) -> Result<f64, String> {
    let trace = record(recorder, row, operations)?;
    let read = events(peer, &trace.path, operations)?;
    Ok(read.operations as f64 * 1e3 / elapsed_ns(&read))
}

fn elapsed_ns(outcome: &Outcome) -> f64 {
    outcome.elapsed_ns as f64
}

/// Does the work of `row` once and verifies the result.
fn work(peer: Peer, row: &Row, operations: u64) -> Result<Outcome, String> {
    verified(&mut peer.command(row, operations)?, row, operations)
}

/// A run that recorded itself.
struct Recorded {
    outcome: Outcome,
    path: PathBuf,
}

/// Does the work of `row` once, recorded into the peer's trace file, and verifies the result.
fn record(peer: Peer, row: &Row, operations: u64) -> Result<Recorded, String> {
    let path = peer.trace_file()?;
    // A trace that an earlier run left behind must not be taken for this one's.
    files::remove(&path)?;
    let mut command = peer.command(row, operations)?;
    peer.record(&mut command, &path)?;
    let outcome = verified(&mut command, row, operations)?;
    Ok(Recorded { outcome, path })
}

/// Reads the trace at `path` with the reader of `peer`: the events that it counted, and its time.
fn events(peer: Peer, path: &Path, operations: u64) -> Result<Outcome, String> {
    let read = child::outcome_of(&mut peer.reader(path)?)?;
    if read.operations < operations {
        return Err(format!(
            "expected at least one event an operation ({operations}), found {} in the trace",
            read.operations
        ));
    }
    Ok(read)
}

/// Runs `command`, which does the work of `row`, and verifies the result.
fn verified(command: &mut Command, row: &Row, operations: u64) -> Result<Outcome, String> {
    let outcome = child::outcome_of(command)?;
    row.work
        .verify(operations, &outcome)
        .map_err(|wrong| format!("wrong result: {wrong}"))?;
    Ok(outcome)
}
