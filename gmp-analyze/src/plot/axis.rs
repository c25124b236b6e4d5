//! Axes of time: ticks at round durations, one unit for all labels.

use gmp_trace::time::Nanos;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// An axis of time from one moment to another, with its ticks.
#[derive(Clone, Debug)]
pub(super) struct TimeAxis {
    range: Range<i64>,
    ticks: Vec<i64>,
    unit: Unit,
    /// Digits after the point that tell two ticks apart.
    digits: usize,
}

/// The unit of an axis: its name and its nanoseconds.
type Unit = (&'static str, i64);

const UNITS: [Unit; 4] = [
    ("ns", 1),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// Steps between ticks within a power of ten.
const STEPS: [i64; 3] = [1, 2, 5];

impl TimeAxis {
    /// An axis from `from` to `to` with at most `most` ticks.
    pub(super) fn new(from: Nanos, to: Nanos, most: usize) -> TimeAxis {
        // An axis of no length still has two ends.
        let range = from.0..to.0.max(from.0.saturating_add(1));
        let step = step(range.end.saturating_sub(range.start), most.max(2) as i64);
        let first = range.start.div_euclid(step) * step;
        let ticks: Vec<i64> = (0..=most as i64 + 1)
            .map(|n| first.saturating_add(n.saturating_mul(step)))
            .filter(|tick| range.contains(tick) || *tick == range.end)
            .collect();
        let largest = range.start.abs().max(range.end.abs());
        let unit = *UNITS
            .iter()
            .rev()
            .find(|unit| largest >= unit.1)
            .unwrap_or(&UNITS[0]);
        let mut digits = 0;
        let mut fine = unit.1;
        while step % fine != 0 && fine > 1 {
            fine /= 10;
            digits += 1;
        }
        TimeAxis {
            range,
            ticks,
            unit,
            digits,
        }
    }

    /// The unit of the labels.
    pub(super) fn unit(&self) -> &'static str {
        self.unit.0
    }
}

/// The smallest round step that divides `length` into less than `most` parts.
fn step(length: i64, most: i64) -> i64 {
    let mut power = 1_i64;
    loop {
        for factor in STEPS {
            let step = power.saturating_mul(factor);
            if length / step < most {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

impl Ranged for TimeAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = i64;

    fn map(&self, value: &i64, limit: (i32, i32)) -> i32 {
        let length = (self.range.end - self.range.start) as f64;
        let share = (value - self.range.start) as f64 / length;
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<i64> {
        if hint.max_num_points() == 0 {
            Vec::new()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> Range<i64> {
        self.range.clone()
    }
}

impl ValueFormatter<i64> for TimeAxis {
    fn format_ext(&self, value: &i64) -> String {
        format!("{:.*}", self.digits, *value as f64 / self.unit.1 as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(from: i64, to: i64, most: usize) -> (Vec<String>, &'static str) {
        let axis = TimeAxis::new(Nanos(from), Nanos(to), most);
        let labels = axis
            .ticks
            .iter()
            .map(|tick| axis.format_ext(tick))
            .collect();
        (labels, axis.unit())
    }

    #[test]
    fn ticks_are_round_and_labels_differ() {
        let (ticks, unit) = labels(0, 242_000_000, 10);
        assert_eq!((ticks.len(), unit), (5, "ms"));
        assert_eq!(ticks, ["0", "50", "100", "150", "200"]);
        let (ticks, unit) = labels(1_000_200_000, 1_000_201_000, 6);
        assert_eq!(unit, "s");
        assert_eq!(ticks[..2], ["1.0002000", "1.0002002"]);
        assert_eq!(
            labels(0, 0, 5),
            (vec!["0".to_owned(), "1".to_owned()], "ns")
        );
        let mut checked = 0;
        for power in 0..60 {
            for most in [2, 5, 12] {
                let (ticks, _) = labels(0, 3 << power, most);
                let mut different = ticks.clone();
                different.dedup();
                assert_eq!(ticks, different);
                assert!((1..=most + 1).contains(&ticks.len()), "{power} {ticks:?}");
                checked += 1;
            }
        }
        assert_eq!(checked, 180);
    }
}
