//! Count, total, largest and percentiles of durations: exact while they are few, from a histogram
//! beyond.

use gmp_trace::time::Nanos;
use hdrhistogram::Histogram;

/// Up to this many values every percentile is exact.
pub const EXACT_UP_TO: usize = 512;

/// Beyond, a percentile is at most this much larger than the true one, as a share of it.
pub const RELATIVE_ERROR: f64 = 0.01;

/// Digits that the histogram keeps; two are an error of at most one in a hundred.
const DIGITS: u8 = 2;

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
    Many(Box<Histogram<u64>>),
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
            Values::Many(histogram) => add(histogram, value, 1),
            Values::Few(values) if values.len() < EXACT_UP_TO => values.push(value),
            Values::Few(_) => self.turn_to_histogram(value),
        }
    }

    #[cold]
    fn turn_to_histogram(&mut self, value: u64) {
        let mut histogram = empty_histogram();
        if let Values::Few(values) = &self.values {
            for &value in values {
                add(&mut histogram, value, 1);
            }
        }
        add(&mut histogram, value, 1);
        self.values = Values::Many(Box::new(histogram));
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
                if let Values::Few(values) = &self.values {
                    let mut histogram = empty_histogram();
                    for &value in values {
                        add(&mut histogram, value, 1);
                    }
                    self.values = Values::Many(Box::new(histogram));
                }
                if let Values::Many(histogram) = &mut self.values {
                    for step in more.iter_recorded() {
                        add(histogram, step.value_iterated_to(), step.count_at_value());
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
        let value = match &self.values {
            Values::Few(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                let rank = (quantile * sorted.len() as f64).ceil() as usize;
                sorted
                    .get(rank.clamp(1, sorted.len().max(1)) - 1)
                    .copied()
                    .unwrap_or(0)
            }
            Values::Many(histogram) => histogram.value_at_quantile(quantile).min(self.max),
        };
        Nanos(value as i64)
    }
}

#[inline]
fn add(histogram: &mut Histogram<u64>, value: u64, count: u64) {
    // A histogram that resizes by itself takes any value that two digits can tell.
    histogram
        .record_n(value, count)
        .expect("the histogram resizes by itself");
}

fn empty_histogram() -> Histogram<u64> {
    // The only way to fail is more digits than five.
    let mut histogram = Histogram::new(DIGITS).expect("two digits are allowed");
    histogram.auto(true);
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

    #[test]
    fn nothing_recorded() {
        let nothing = Distribution::new();
        assert_eq!(nothing.quantile(0.5), Nanos::ZERO);
        assert_eq!(nothing.mean(), Nanos::ZERO);
        assert_eq!(nothing.count(), 0);
    }
}
