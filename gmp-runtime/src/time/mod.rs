//! Time for goroutines.

pub(crate) mod heap;
mod sleep;

pub use sleep::sleep;
