//! From units of the trace's clock to nanoseconds.

use crate::time::Nanos;

/// A clock with a constant rate, and the moment that is time zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Whole nanoseconds of a unit.
    whole: u64,
    /// The rest of them, in parts of 2 to the power of 64.
    parts: u64,
    origin: Option<u64>,
}

impl Clock {
    /// A clock of `ticks_per_second` units, which is not 0.
    pub(super) fn new(ticks_per_second: u64) -> Clock {
        const SECOND: u64 = 1_000_000_000;
        let rate = ticks_per_second.max(1);
        let (whole, rest) = (SECOND / rate, SECOND % rate);
        // The rest is below the rate, so that the quotient is below 2 to the power of 64. Rounded up,
        // or a rate that is no power of two would lose a nanosecond where the result is whole.
        let parts = (u128::from(rest) << 64).div_ceil(u128::from(rate));
        let parts = u64::try_from(parts).unwrap_or(u64::MAX);
        Clock {
            whole,
            parts,
            origin: None,
        }
    }

    /// Nanoseconds of one unit.
    pub(super) fn resolution(&self) -> f64 {
        self.whole as f64 + self.parts as f64 / 2f64.powi(64)
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
        let parts = ((u128::from(units) * u128::from(self.parts)) >> 64) as u64;
        let nanos = units
            .checked_mul(self.whole)
            .and_then(|whole| whole.checked_add(parts));
        Nanos(
            nanos
                .and_then(|nanos| i64::try_from(nanos).ok())
                .unwrap_or(i64::MAX),
        )
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
