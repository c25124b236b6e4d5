//! From units of a Go trace's clock to nanoseconds, as Go's reader does it.

/// The clock of a generation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Clock {
    nanos_per_unit: f64,
    /// The same, where it is a whole number.
    whole: u64,
}

/// The longest time that is multiplied with whole numbers: the product has an exact `f64`, so both
/// ways agree.
const WHOLE_LIMIT: u64 = 1 << 40;

impl Clock {
    /// The clock with `frequency` units a second, which is not 0.
    pub(crate) fn new(frequency: u64) -> Clock {
        let nanos_per_unit = 1.0 / (frequency as f64 / 1e9);
        let exact = nanos_per_unit.fract() == 0.0 && (1.0..4096.0).contains(&nanos_per_unit);
        Clock {
            nanos_per_unit,
            whole: if exact { nanos_per_unit as u64 } else { 0 },
        }
    }

    /// Nanoseconds of one unit.
    pub(crate) fn resolution(self) -> f64 {
        self.nanos_per_unit
    }

    /// `units` in nanoseconds, without the fraction.
    #[inline(always)]
    pub(crate) fn nanos(self, units: u64) -> i64 {
        if self.whole != 0 && units < WHOLE_LIMIT {
            (units * self.whole) as i64
        } else {
            (units as f64 * self.nanos_per_unit) as i64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree() {
        let usual = Clock::new(15_625_000);
        assert_eq!((usual.whole, usual.nanos(3)), (64, 192));
        for units in [0, 1, 1 << 20, WHOLE_LIMIT - 1, WHOLE_LIMIT, 1 << 46] {
            assert_eq!(usual.nanos(units), (units * 64) as i64, "{units}");
        }
        let odd = Clock::new(3_000_000);
        assert_eq!((odd.whole, odd.nanos(3), odd.nanos(10)), (0, 1000, 3333));
        assert_eq!(Clock::new(1).nanos(u64::MAX), i64::MAX, "saturates");
    }
}
