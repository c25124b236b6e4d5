//! From units of the trace's clock to nanoseconds.

use crate::time::Nanos;

/// A clock with a constant rate, and the moment that is time zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Nanoseconds of a unit, times 2 to the power of `shift`.
    factor: u64,
    shift: u32,
    origin: Option<u64>,
}

impl Clock {
    /// A clock of `ticks_per_second` units, which is not 0.
    pub(super) fn new(ticks_per_second: u64) -> Clock {
        // As many fraction bits as a factor of 64 bits has room for.
        let mut shift = 64;
        let factor = loop {
            let factor = (1_000_000_000u128 << shift) / u128::from(ticks_per_second.max(1));
            match u64::try_from(factor) {
                Ok(factor) => break factor,
                Err(_) => shift -= 1,
            }
        };
        Clock {
            factor,
            shift,
            origin: None,
        }
    }

    /// Nanoseconds of one unit.
    pub(super) fn resolution(&self) -> f64 {
        self.factor as f64 / 2f64.powi(self.shift as i32)
    }

    /// Makes `ticks` time zero, if none is yet.
    pub(super) fn set_origin(&mut self, ticks: u64) {
        self.origin.get_or_insert(ticks);
    }

    /// The time at `ticks`.
    #[inline]
    pub(super) fn at(&self, ticks: u64) -> Nanos {
        let origin = self.origin.unwrap_or(0);
        if ticks >= origin {
            self.duration(ticks - origin)
        } else {
            Nanos(-self.duration(origin - ticks).0)
        }
    }

    /// How long `units` are; the longest time there is where they are more.
    #[inline]
    pub(super) fn duration(&self, units: u64) -> Nanos {
        let nanos = (u128::from(units) * u128::from(self.factor)) >> self.shift;
        Nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_is_exact_to_a_nanosecond_over_a_day() {
        let mut checked = 0;
        for rate in [
            1u64,
            32_768,
            62_500_000,
            1_000_000_000,
            3_000_000_000,
            u64::MAX,
        ] {
            let clock = Clock::new(rate);
            for seconds in [1u64, 60, 86_400] {
                let Some(ticks) = rate.checked_mul(seconds) else {
                    continue;
                };
                let error = clock.duration(ticks).0 - seconds as i64 * 1_000_000_000;
                assert!(error.abs() <= 1, "{rate} {seconds}: {error}");
                checked += 1;
            }
        }
        assert_eq!(checked, 16);
    }

    #[test]
    fn times_before_the_origin_are_negative() {
        let mut clock = Clock::new(1_000_000_000);
        clock.set_origin(500);
        clock.set_origin(700);
        assert_eq!(clock.at(500), Nanos(0));
        assert_eq!(clock.at(400), Nanos(-100));
        assert_eq!(clock.at(u64::MAX), Nanos(i64::MAX));
        assert!((clock.resolution() - 1.0).abs() < 1e-9);
    }
}
