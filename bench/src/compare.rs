//! Runs the peers of a row in turn, round after round, and collects the figures.
//!
//! A round runs every peer once, one after the other (A B C, A B C, …), so that a slow moment of the
//! machine falls on all of them, and each peer's figure has a neighbour of every other peer to be
//! compared with.

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

/// Measures `row` for those of `peers` that take part in it, over `rounds` rounds.
///
/// `scale` multiplies the number of operations. A peer that fails once is left out of the rest of
/// the row, and its figures are dropped with it: the reason takes their place.
pub(crate) fn compare(row: &'static Row, peers: &[Peer], rounds: usize, scale: f64) -> Comparison {
    let wanted = (row.operations as f64 * scale) as u64;
    let operations = row.work.whole(wanted, row.procs);
    let mut results: Vec<PeerResult> = peers
        .iter()
        .filter(|peer| peer.takes_part(row))
        .map(|&peer| PeerResult {
            peer,
            figures: Ok(Vec::with_capacity(rounds)),
        })
        .collect();
    for _ in 0..rounds {
        for result in &mut results {
            let Ok(figures) = &mut result.figures else {
                continue;
            };
            match figure(result.peer, row, operations) {
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

/// One run of one peer: the row's figure, in the row's unit.
fn figure(peer: Peer, row: &Row, operations: u64) -> Result<f64, String> {
    if let Measure::Time { per_processor } = row.measure {
        let outcome = work(peer, row, operations, false)?;
        let processors = if per_processor { row.procs } else { 1 };
        return Ok((outcome.elapsed_ns * processors) as f64 / operations as f64);
    }
    let quiet = match row.measure {
        Measure::RecordingCost => Some(work(peer, row, operations, false)?),
        _ => None,
    };
    let recorded = work(peer, row, operations, true)?;
    let trace = peer.trace_file()?;
    let size = std::fs::metadata(&trace)
        .map_err(|error| format!("no trace at {}: {error}", trace.display()))?
        .len();
    let read = child::outcome_of(&mut peer.reader(&trace)?)?;
    if read.operations < operations {
        return Err(format!(
            "expected at least one event an operation ({operations}), found {} in the trace",
            read.operations
        ));
    }
    let events = read.operations as f64;
    Ok(match (row.measure, quiet) {
        (Measure::RecordingCost, Some(quiet)) => {
            (recorded.elapsed_ns as f64 - quiet.elapsed_ns as f64) / events
        }
        (Measure::RecordedBytes, _) => size as f64 / events,
        _ => events * 1e3 / read.elapsed_ns as f64,
    })
}

/// Does the work of `row` once, recorded into the peer's trace file or not, and verifies the result.
fn work(peer: Peer, row: &Row, operations: u64, recorded: bool) -> Result<Outcome, String> {
    let mut command = peer.command(row, operations)?;
    if recorded {
        let trace = peer.trace_file()?;
        // A trace that an earlier run left behind must not be taken for this one's.
        files::remove(&trace)?;
        peer.record(&mut command, &trace)?;
    }
    let outcome = child::outcome_of(&mut command)?;
    row.work
        .verify(operations, &outcome)
        .map_err(|wrong| format!("wrong result: {wrong}"))?;
    Ok(outcome)
}
