//! The tracer: the only place where the runtime speaks of its trace.
//!
//! The scheduler calls one method an event, on what it has at hand: [`ThreadTrace`] of the M. When the
//! feature `trace` is off the methods exist and do nothing.

#[cfg(feature = "trace")]
mod on;
#[cfg(feature = "trace")]
pub(crate) use on::*;

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
