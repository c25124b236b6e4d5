//! Goroutines for Rust: a stackful M:N scheduler with Go's design that records what it does.
// A model of loom exercises one part of the crate; the ordinary build keeps the whole of it in use.
#![cfg_attr(loom, allow(dead_code, unused_imports, unused_macros))]
// Without the tracer nobody reads what the scheduler notes for it.
#![cfg_attr(not(feature = "trace"), allow(dead_code))]

mod builder;
mod chan;
mod debug;
mod fatal;
mod goroutine;
mod lock;
#[allow(unused_imports, dead_code, reason = "a facade offers the whole set")]
mod prim;
mod procs;
mod runtime;
mod sched;
mod spawn;
mod stack;
mod switch;
mod sys;
#[cfg(test)]
mod test_child;
mod time;
pub mod trace;

use fatal::fatal;

pub use builder::Builder;
pub use chan::{Iter, Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError, channel};
pub use goroutine::{Goroutine, current, park, proc_id, yield_now};
pub use runtime::Runtime;
pub use spawn::{JoinHandle, go};
pub use time::sleep;
