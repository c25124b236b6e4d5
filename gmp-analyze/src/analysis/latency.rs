//! Scheduling latency: from runnable to running, split by its cause.
//!
//! The cause is a pair: how the scheduler found the goroutine, and what made it runnable.

use super::distribution::Distribution;
use crate::machine::{Cause, Wake};
use gmp_trace::event::Found;

/// How many ways of being found there are, "not told" included.
const FOUND: usize = ALL_FOUND.len() + 1;

/// Every way of being found, in the order of their numbers.
pub const ALL_FOUND: [Found; 11] = [
    Found::Runnext,
    Found::Local,
    Found::Global,
    Found::Stolen,
    Found::StolenRunnext,
    Found::Netpoll,
    Found::Timer,
    Found::Handoff,
    Found::Locked,
    Found::Wired,
    Found::Urgent,
];

/// How a goroutine was found, in words.
pub fn found_name(found: Option<Found>) -> &'static str {
    match found {
        None => "not told",
        Some(Found::Runnext) => "runnext",
        Some(Found::Local) => "local queue",
        Some(Found::Global) => "global queue",
        Some(Found::Stolen) => "stolen",
        Some(Found::StolenRunnext) => "stolen runnext",
        Some(Found::Netpoll) => "netpoller",
        Some(Found::Timer) => "timer",
        Some(Found::Handoff) => "hand-off",
        Some(Found::Locked) => "locked thread",
        Some(Found::Wired) => "wired thread",
        Some(Found::Urgent) => "urgent list",
    }
}

/// Latencies of one cause.
#[derive(Clone, Debug)]
pub struct CauseLatency {
    /// How the goroutines were found; `None` where the trace does not tell.
    pub found: Option<Found>,
    /// What made them runnable.
    pub cause: Cause,
    /// The latencies.
    pub latency: Distribution,
}

/// Collects latencies by cause.
#[derive(Clone, Debug)]
pub struct Latencies {
    cells: Vec<Distribution>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            cells: vec![Distribution::new(); FOUND * Cause::COUNT],
        }
    }
}

impl Latencies {
    /// One more wake.
    #[inline]
    pub fn wake(&mut self, wake: &Wake) {
        let found = wake.found.map_or(FOUND - 1, |found| found as usize);
        self.cells[found * Cause::COUNT + wake.cause as usize].record(wake.latency());
    }

    /// All latencies together.
    pub fn overall(&self) -> Distribution {
        let mut overall = Distribution::new();
        for cell in &self.cells {
            overall.merge(cell);
        }
        overall
    }

    /// Those causes that occurred, the one with the largest total first.
    pub fn by_cause(&self) -> Vec<CauseLatency> {
        let mut causes = Vec::new();
        for (place, latency) in self.cells.iter().enumerate() {
            if latency.count() > 0 {
                causes.push(CauseLatency {
                    found: ALL_FOUND.get(place / Cause::COUNT).copied(),
                    cause: Cause::ALL[place % Cause::COUNT],
                    latency: latency.clone(),
                });
            }
        }
        causes.sort_by_key(|row| (std::cmp::Reverse(row.latency.total()), row.found, row.cause));
        causes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_of_being_found_are_in_the_order_of_their_numbers() {
        for (number, found) in ALL_FOUND.into_iter().enumerate() {
            assert_eq!(found as usize, number);
            assert_ne!(found_name(Some(found)), "not told");
        }
        assert_eq!(ALL_FOUND.len(), 11);
    }
}
