//! Time in a trace: clock units as recorded, nanoseconds as shown.

use std::fmt;
use std::ops::{Add, Sub};

/// Nanoseconds: a duration, or a point in time counted from the first event of the trace.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

impl Nanos {
    /// No time.
    pub const ZERO: Nanos = Nanos(0);

    /// `self - earlier`, or zero where the clocks disagree so much that it would be negative.
    #[inline]
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0).max(0))
    }
}

impl Add for Nanos {
    type Output = Nanos;

    #[inline]
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Nanos;

    #[inline]
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.0)
    }
}
