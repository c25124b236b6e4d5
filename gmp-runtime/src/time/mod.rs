//! Time for goroutines: [`sleep()`], [`Timer`], [`Ticker`], [`after`], [`after_func`].
//!
//! Times are by the monotonic clock. A timer never fires early; how late it fires is in the trace. Each P has
//! a heap of timers, and an M that finds one due fires it: the M of that P at a switch, one that looks for
//! work, or one that has nothing to do and sleeps until the next deadline.

mod func;
pub(crate) mod heap;
mod schedule;
mod sleep;
mod timer;

pub use func::{FuncTimer, after_func};
pub use sleep::sleep;
pub use timer::{Ticker, Timer, after};
