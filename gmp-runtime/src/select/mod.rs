//! Waiting for one of several channel operations: [`select!`](macro@crate::select) and [`Select`].
//!
//! # How
//!
//! 1. The cases are put into a random order, and all channels are locked, in the order of their addresses.
//! 2. The first case of that order that is possible is done, and nothing else happens.
//! 3. Else, with a default, nothing happens at all.
//! 4. Else the goroutine puts a waiter into the queue of each channel, all with one *ticket*, and parks;
//!    the locks are released after the switch. Whoever takes one of the waiters out of a queue, or whose
//!    deadline passes, *claims* the ticket: only the first one may hand over its value and wake the
//!    goroutine. The others pass on to the next waiter, so nothing is lost or done twice.
//! 5. Woken, the goroutine locks all channels again and takes its other waiters out.
//!
//! Nothing polls. Which of several possible cases is done is uniformly random.

mod any;
mod builder;
mod case;
mod macros;

pub use builder::Select;

/// What the expansion of [`select!`](macro@crate::select) names.
#[doc(hidden)]
pub mod expansion {
    pub use super::any::{Until, run};
    pub use super::case::{Case, ReceiveCase, SendCase};
}
