//! Recording what the scheduler does: [`start`] and [`stop`], or `GMPDEBUG=trace=FILE`.
//!
//! # For the runtime
//!
//! This is the only place where it speaks of its trace.
//! The scheduler calls one method an event, on what it has at hand: [`ThreadTrace`] of the M. When the
//! feature `trace` is off the methods exist and do nothing.

pub(crate) mod marks;

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
mod outside;
#[cfg(feature = "trace")]
mod state;
#[cfg(feature = "trace")]
pub(crate) use {
    control::{end, start_for_environment},
    on::*,
    outside::*,
};

#[cfg(feature = "trace")]
pub use collector::Summary;
#[cfg(feature = "trace")]
pub use control::{start, stop};

#[cfg(not(feature = "trace"))]
mod off;
#[cfg(not(feature = "trace"))]
pub(crate) use off::*;

#[cfg(all(test, feature = "trace", not(loom)))]
mod tests;
