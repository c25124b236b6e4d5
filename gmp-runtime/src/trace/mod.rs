//! Recording what the scheduler does: [`start`] and [`stop`], or `GMPDEBUG=trace=FILE`.
//!
//! # For the runtime
//!
//! This is the only place where it speaks of its trace.
//! The scheduler calls one method an event, on what it has at hand: [`ThreadTrace`] of the M. When the
//! feature `trace` is off the methods exist and do nothing.

#[cfg(feature = "trace")]
mod chunks;
#[cfg(feature = "trace")]
mod collector;
#[cfg(feature = "trace")]
mod control;
#[cfg(feature = "trace")]
mod names;
#[cfg(feature = "trace")]
mod on;
#[cfg(feature = "trace")]
pub(crate) use on::*;

#[cfg(feature = "trace")]
pub use control::{Summary, start, stop};

#[cfg(not(feature = "trace"))]
mod off;
#[cfg(not(feature = "trace"))]
pub(crate) use off::*;

/// How a goroutine leaves its M.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    /// It gives up its P and stays runnable.
    Yield,
    /// It waits.
    Park,
    /// It has ended.
    Exit(ExitHow),
}
