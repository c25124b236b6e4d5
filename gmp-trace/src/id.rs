//! Identities of goroutines, threads, processors and user tasks.
//!
//! Every id is a newtype whose `Option` has the size of the id itself; absence is `None`, never a
//! magic number.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

macro_rules! complement_id {
    ($(#[$doc:meta])* $name:ident, $int:ty, $nonzero:ty, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name($nonzero);

        impl $name {
            /// The id with number `raw`; `None` for the largest number of the type, which both
            /// formats use for "none".
            pub const fn new(raw: $int) -> Option<$name> {
                // The complement is stored so that zero is a valid id and the largest is not.
                match <$nonzero>::new(!raw) {
                    Some(n) => Some($name(n)),
                    None => None,
                }
            }

            /// The number of the id.
            pub const fn get(self) -> $int {
                !self.0.get()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.get().cmp(&other.get())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.get())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.get())
            }
        }
    };
}

complement_id! {
    /// An M: one thread of the runtime.
    MId, u64, NonZeroU64, "M"
}

complement_id! {
    /// A P: the right to run goroutines, with its run queue and timers.
    PId, u32, NonZeroU32, "P"
}

/// A G: one goroutine. Numbers start at 1 and are never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GId(NonZeroU64);

impl GId {
    /// The goroutine with number `raw`; `None` for zero, which both formats use for "none".
    pub const fn new(raw: u64) -> Option<GId> {
        match NonZeroU64::new(raw) {
            Some(n) => Some(GId(n)),
            None => None,
        }
    }

    /// The number of the goroutine.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for GId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

impl fmt::Debug for GId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "G{}", self.get())
    }
}

/// A task of the program: work that spans goroutines, as `runtime/trace.Task` in Go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId(pub u64);

/// What a goroutine waits on: a channel, a timer, a lock. Only equality means anything; `0` is
/// never an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub NonZeroU64);

impl ObjectId {
    /// The object with number `raw`, `None` for zero.
    pub const fn new(raw: u64) -> Option<ObjectId> {
        match NonZeroU64::new(raw) {
            Some(n) => Some(ObjectId(n)),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_of_an_id_is_as_large_as_the_id() {
        assert_eq!(size_of::<Option<GId>>(), 8);
        assert_eq!(size_of::<Option<MId>>(), 8);
        assert_eq!(size_of::<Option<PId>>(), 4);
    }

    #[test]
    fn absent_ids() {
        assert_eq!(GId::new(0), None);
        assert_eq!(MId::new(u64::MAX), None);
        assert_eq!(PId::new(u32::MAX), None);
        assert_eq!(MId::new(0).map(MId::get), Some(0));
        assert!(PId::new(1) < PId::new(2));
        assert_eq!(
            format!("{:?} {}", MId::new(7), GId::new(9).expect("9")),
            "Some(M7) 9"
        );
    }
}
