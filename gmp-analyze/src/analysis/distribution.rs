//! Count, total, largest and percentiles of durations: exact while they are few, from a histogram
//! beyond.

use super::histogram::{self, Histogram};
use gmp_trace::time::Nanos;

/// Up to this many values every percentile is exact.
pub const EXACT_UP_TO: usize = 512;

/// Beyond, a percentile is at most this much larger than the true one, as a share of it.
pub const RELATIVE_ERROR: f64 = 0.01;

/// Durations, summed up.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    count: u64,
    total: u64,
    max: u64,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    Few(Vec<u64>),
    Many(Histogram),
}

impl Default for Values {
    fn default() -> Values {
        Values::Few(Vec::new())
    }
}

impl Distribution {
    /// No duration.
    pub fn new() -> Distribution {
        Distribution::default()
    }

    /// One more. A negative one counts as zero.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        let value = value.0.max(0) as u64;
        self.count += 1;
        self.total = self.total.saturating_add(value);
        self.max = self.max.max(value);
        match &mut self.values {
            Values::Many(histogram) => histogram.record(value),
            Values::Few(_) => self.one_of_few(value),
        }
    }

    fn one_of_few(&mut self, value: u64) {
        if let Values::Few(values) = &mut self.values {
            if values.len() < EXACT_UP_TO {
                values.push(value);
            } else {
                let mut histogram = as_histogram(values);
                histogram.record(value);
                self.values = Values::Many(histogram);
            }
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Distribution) {
        match &other.values {
            Values::Few(values) => {
                for &value in values {
                    self.record(Nanos(value as i64));
                }
            }
            Values::Many(more) => {
                match &mut self.values {
                    Values::Many(histogram) => histogram.merge(more),
                    Values::Few(values) => {
                        let mut histogram = as_histogram(values);
                        histogram.merge(more);
                        self.values = Values::Many(histogram);
                    }
                }
                self.count += other.count;
                self.total = self.total.saturating_add(other.total);
                self.max = self.max.max(other.max);
            }
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn total(&self) -> Nanos {
        Nanos(self.total.min(i64::MAX as u64) as i64)
    }

    /// The largest; zero where there is none.
    pub fn max(&self) -> Nanos {
        Nanos(self.max as i64)
    }

    /// The mean, rounded down; zero where there is none.
    pub fn mean(&self) -> Nanos {
        Nanos(self.total.checked_div(self.count).unwrap_or(0) as i64)
    }

    /// True where percentiles are exact.
    pub fn is_exact(&self) -> bool {
        matches!(self.values, Values::Few(_))
    }

    /// The smallest value that at least the share `quantile` of all values does not exceed; zero
    /// where there is none.
    pub fn quantile(&self, quantile: f64) -> Nanos {
        let rank = ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let value = match &self.values {
            Values::Few(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                sorted.get(rank as usize - 1).copied().unwrap_or(0)
            }
            Values::Many(histogram) => histogram.at_rank(rank).min(self.max),
        };
        Nanos(value as i64)
    }
}

impl Distribution {
    /// How many values lie in each bin, for bins that have any, in the order of their size. There
    /// are four bins for each power of two, of about the same width on a logarithmic axis; counts
    /// are exact.
    pub fn bins(&self) -> Vec<Bin> {
        let mut bins: Vec<Bin> = Vec::new();
        let mut add = |value: u64, count: u64| {
            let (from, to) = histogram::bin_of(value);
            match bins.last_mut() {
                Some(bin) if bin.from == from => bin.count += count,
                _ => bins.push(Bin { from, to, count }),
            }
        };
        match &self.values {
            Values::Few(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                sorted.into_iter().for_each(|value| add(value, 1));
            }
            Values::Many(histogram) => histogram.each(&mut add),
        }
        bins
    }
}

/// A bin of a histogram: durations from `from` to below `to`, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The smallest duration in it.
    pub from: u64,
    /// The smallest duration beyond it.
    pub to: u64,
    /// How many there are.
    pub count: u64,
}

fn as_histogram(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    for &value in values {
        histogram.record(value);
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of very different sizes, always the same ones.
    fn values(n: u64) -> Vec<u64> {
        (0..n)
            .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) << (i % 17))
            .collect()
    }

    fn true_quantile(values: &[u64], quantile: f64) -> u64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        sorted[(quantile * sorted.len() as f64).ceil() as usize - 1]
    }

    #[test]
    fn few_values_are_exact_and_many_within_the_stated_error() {
        for n in [1, 2, 100, 512, 513, 20_000] {
            let values = values(n);
            let mut distribution = Distribution::new();
            for &value in &values {
                distribution.record(Nanos(value as i64));
            }
            assert_eq!(distribution.is_exact(), n <= EXACT_UP_TO as u64, "{n}");
            assert_eq!(distribution.count(), n);
            assert_eq!(distribution.total().0 as u64, values.iter().sum::<u64>());
            assert_eq!(distribution.max().0 as u64, *values.iter().max().unwrap());
            for quantile in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let truth = true_quantile(&values, quantile);
                let said = distribution.quantile(quantile).0 as u64;
                if distribution.is_exact() {
                    assert_eq!(said, truth, "{n} {quantile}");
                } else {
                    let limit = truth as f64 * (1.0 + RELATIVE_ERROR);
                    assert!(
                        said >= truth && said as f64 <= limit,
                        "{n} {quantile} {said} {truth}"
                    );
                }
            }
        }
    }

    #[test]
    fn merging_equals_recording_everything() {
        for (a, b) in [
            (10, 20),
            (10, 2_000),
            (2_000, 10),
            (2_000, 3_000),
            (400, 400),
        ] {
            let all = values(a + b);
            let (first, second) = all.split_at(a as usize);
            let (mut left, mut right, mut both) = (
                Distribution::new(),
                Distribution::new(),
                Distribution::new(),
            );
            first.iter().for_each(|&v| left.record(Nanos(v as i64)));
            second.iter().for_each(|&v| right.record(Nanos(v as i64)));
            all.iter().for_each(|&v| both.record(Nanos(v as i64)));
            left.merge(&right);
            assert_eq!(left.count(), both.count());
            assert_eq!(left.total(), both.total());
            assert_eq!(left.max(), both.max());
            assert_eq!(left.quantile(0.9), both.quantile(0.9), "{a} {b}");
        }
    }

    /// Bins hold every value once, few or many, and each value is inside its bin.
    #[test]
    fn bins_are_the_values_counted() {
        for n in [1, 100, 512, 20_000] {
            let values = values(n);
            let mut distribution = Distribution::new();
            for &value in &values {
                distribution.record(Nanos(value as i64));
            }
            let bins = distribution.bins();
            let inside = |bin: &Bin| {
                values
                    .iter()
                    .filter(|v| (bin.from..bin.to).contains(v))
                    .count()
            };
            for pair in bins.windows(2) {
                assert!(pair[0].to <= pair[1].from, "{pair:?}");
            }
            assert!(bins.iter().all(|bin| inside(bin) as u64 == bin.count));
            assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), n);
        }
        assert!(Distribution::new().bins().is_empty());
    }

    #[test]
    fn nothing_recorded() {
        let nothing = Distribution::new();
        assert_eq!(nothing.quantile(0.5), Nanos::ZERO);
        assert_eq!(nothing.mean(), Nanos::ZERO);
        assert_eq!(nothing.count(), 0);
    }
}
