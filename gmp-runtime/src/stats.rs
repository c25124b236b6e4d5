//! Durations, counted in classes: what the metrics show as histograms.

use std::fmt;

use ::histogram::{AtomicHistogram, Histogram};

use crate::fatal::fatal;

/// Classes are an eighth of their power of two wide, so a value is known to 12.5 %.
const GROUPING_POWER: u8 = 3;

/// Nanoseconds are told apart up to two to the power of this, 18 minutes; longer ones count as that.
const MAX_POWER: u8 = 40;

/// Durations in nanoseconds. Recording is one atomic addition.
pub(crate) struct Durations(AtomicHistogram);

impl Durations {
    pub(crate) fn new() -> Durations {
        match AtomicHistogram::new(GROUPING_POWER, MAX_POWER) {
            Ok(histogram) => Durations(histogram),
            Err(error) => fatal!("a histogram of durations: {error}"),
        }
    }

    /// Counts one.
    pub(crate) fn record(&self, ns: u64) {
        // All values up to the largest have a class.
        let _ = self.0.increment(ns.min((1 << MAX_POWER) - 1));
    }

    /// Everything that was counted in any of `all`.
    pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a Durations>) -> Histogram {
        all.map(|durations| durations.0.load())
            .reduce(|sum, next| sum.checked_add(&next).unwrap_or(sum))
            .unwrap_or_else(|| Durations::new().0.load())
    }
}

impl fmt::Debug for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durations").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_have_counted_is_in_the_sum() {
        let (one, other) = (Durations::new(), Durations::new());
        for ns in [0, 5, 1000] {
            one.record(ns);
        }
        other.record(1001);
        other.record(u64::MAX);
        let sum = Durations::sum([&one, &other].into_iter());
        let classes: Vec<_> = sum.iter().filter(|class| class.count() > 0).collect();
        let counts: Vec<_> = classes.iter().map(|class| class.count()).collect();
        assert_eq!(counts, [1, 1, 2, 1]);
        assert!(classes[2].range().contains(&1000) && classes[2].range().contains(&1001));
        assert_eq!(classes[3].end(), (1 << MAX_POWER) - 1);
        assert_eq!(
            Durations::sum(std::iter::empty()).iter().count(),
            sum.iter().count()
        );
    }
}
