//! Median, spread and ratios of the figures of several rounds.

/// The middle and the ends of a set of figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The middle figure; of an even number of figures the mean of the two in the middle.
    pub(crate) median: f64,
    /// The smallest figure.
    pub(crate) min: f64,
    /// The largest figure.
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of `figures`, or nothing if there are none.
    pub(crate) fn of(figures: &[f64]) -> Option<Spread> {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Spread { median, min, max })
    }
}

/// How many times better `ours` is than `theirs`, round by round: pairs measured next to each other
/// share the weather of the machine, so their ratios spread less than the figures do.
pub(crate) fn advantage(ours: &[f64], theirs: &[f64], larger_is_better: bool) -> Option<Spread> {
    let ratios: Vec<f64> = ours
        .iter()
        .zip(theirs)
        .map(|(ours, theirs)| {
            if larger_is_better {
                ours / theirs
            } else {
                theirs / ours
            }
        })
        .filter(|ratio| ratio.is_finite())
        .collect();
    Spread::of(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        let odd = Spread::of(&[9.0, 1.0, 5.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (5.0, 1.0, 9.0));
        let even = Spread::of(&[4.0, 1.0, 2.0, 100.0]).unwrap();
        assert_eq!((even.median, even.min, even.max), (3.0, 1.0, 100.0));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn the_advantage_is_taken_pair_by_pair() {
        // One slow moment of the machine hits both of the second round: the ratios stay the same.
        let time = advantage(&[10.0, 20.0, 10.0], &[40.0, 80.0, 40.0], false).unwrap();
        assert_eq!((time.median, time.min, time.max), (4.0, 4.0, 4.0));
        let speed = advantage(&[80.0], &[20.0], true).unwrap();
        assert_eq!(speed.median, 4.0);
        assert_eq!(advantage(&[], &[1.0], false), None);
        assert_eq!(advantage(&[0.0], &[1.0], false), None);
    }
}
