//! Goroutines for Rust: a stackful M:N scheduler with Go's design that records what it does.
//!
//! A goroutine ([`go`]) is a function with a stack of its own. It blocks like a thread, in [`channel`]s,
//! [`sleep`], [`park`], [`JoinHandle::join`], but what waits then is the goroutine (a **G**): its thread
//! (an **M**) takes the next goroutine from the run queue of the **P** that it holds. There are as many Ps
//! as goroutines can run at once.
//!
//! ```
//! use gmp_runtime::{Runtime, channel, go};
//!
//! let runtime = Runtime::builder().procs(2).build()?;
//! // SAFETY: nothing that belongs to a thread lives across a call that may park.
//! let sum = unsafe {
//!     runtime.run(|| {
//!         let (sender, receiver) = channel(0);
//!         for i in 1..=4u32 {
//!             let sender = sender.clone();
//!             go(move || sender.send(i * i).unwrap());
//!         }
//!         drop(sender);
//!         receiver.iter().sum::<u32>()
//!     })
//! };
//! assert_eq!(sum, 30);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What blocks what
//!
//! | call | blocks G | blocks M | blocks P |
//! |---|---|---|---|
//! | [`Sender::send`], [`Receiver::recv`], [`JoinHandle::join`], [`sleep`], [`park`] | yes | no | no |
//! | [`sync`]: `lock`, `read`, `write`, `wait`, `acquire`, `call_once` | yes | no | no |
//! | [`sync`]: dropping a guard, `try_…`, `done`, `notify_…`, `release` | no | no | no |
//! | receiving from a [`time::Timer`] or [`time::Ticker`] | yes | no | no |
//! | [`time`]: `new`, `after`, `after_func`, `stop`, `reset` | no | no | no |
//! | [`gc()`] | yes | no | no |
//! | [`yield_now`] | no: it stays runnable | no | no |
//! | [`go`], [`try_go`], [`Sender::try_send`], [`Receiver::try_recv`], [`Goroutine::unpark`] | no | no | no |
//! | [`lock_os_thread`], [`unlock_os_thread`] | no | no | no |
//! | [`trace::start`], [`trace::stop`] | yes | yes | yes |
//! | [`debug::dump`](debug::dump()) | yes | yes | yes |
//! | [`debug::stop_the_world`](debug::stop_the_world()) | while others stop it | no | yes, all of them |
//! | [`blocking`], [`fs`] | yes | yes | no, after 20 µs |
//! | a blocking call of std outside of those (`File::read`, `std::sync::Mutex::lock`, …) | yes | yes | yes |
//!
//! # Guarantees
//!
//! * A goroutine that is runnable runs after finitely many turns of the others: a chain of goroutines that
//!   wake one another shares one time slice, the global queue comes first every 61st turn, and goroutines
//!   that only yield let those on the global queue in.
//! * A panic ends its own goroutine, and reaches its [`JoinHandle`].
//! * A goroutine whose stack overflows ends the process with a report that names it. Memory is never
//!   corrupted.
//!
//! How calls of the outside world fit in is in `docs/scheduler.md`.
//!
//! How it works today, and not promised: the queues, the order of the search for work, stealing and
//! spinning are Go's, constant by constant; see `sched` in the sources.
//!
//! # Preemption
//!
//! A goroutine that has had its P for 10 ms while others wait (or for 1 ms while a timer of the P is due) gives it
//! up. It need not call the runtime for that: it is stopped where it is, in C code as well, and goes on later on
//! the same thread; whatever lock it holds it keeps meanwhile. This takes a signal, SIGURG as in Go: a system call
//! of the goroutine that the kernel does not restart (`poll`, `epoll_wait`) ends with `EINTR`. Signals that the
//! runtime did not send go to the handler that was there before. Each goroutine that is stopped so keeps a
//! thread. `GMPDEBUG=asyncpreemptoff=1` turns it off; then a goroutine that never calls the runtime keeps its P.
//!
//! # Environment
//!
//! `GMPMAXPROCS=N`: the number of Ps, unless the program sets it; without it, the processors of the process, no
//! more than its control group gives it time for. `GMPDEBUG=name=value,…`: `trace=FILE`
//! records into a file, `schedtrace=MS` prints Go's `SCHED` line every so many milliseconds, with `scheddetail=1`
//! also one for each P, M and goroutine, `gctrace=1` a line about each collection cycle. `GMPGC=PERCENT`: when there
//! is one (see [`mod@gc`]). What is not understood there is one line on standard error, and never stops a program.
//!
//! [`context`](mod@context) ends whole trees of goroutines: each of these calls takes a context, or has a variant that does.
//!
//! # Looking inside
//!
//! [`debug::dump`](debug::dump()) gives every goroutine as text, with what it waits for, since when, and where.
//! SIGQUIT (`kill -QUIT`, `^\`) prints the same to standard error and ends the process with exit code 2, as
//! Go does, unless the program handles or ignores that signal.
//!
//! # Migration
//!
//! A goroutine goes on on another thread after any call that may park. [`Runtime::run`] is where a program
//! accepts what that means for thread-locals and guards. The rule for a `thread_local!`: each use begins and ends
//! between two calls that may park (`KEY.with(|value| …)` whose closure calls nothing of this crate), and keeps nothing
//! of it. What is to follow the goroutine is a [`goroutine_local!`].
// A model of loom exercises one part of the crate; the ordinary build keeps the whole of it in use.
#![cfg_attr(loom, allow(dead_code, unused_imports, unused_macros))]
// Without the tracer nobody reads what the scheduler notes for it.
#![cfg_attr(not(feature = "trace"), allow(dead_code))]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "gmp-runtime runs on Linux only: it is built on epoll, futexes and signals of single threads"
);

mod builder;
mod chan;
pub mod context;
mod counts;
pub mod debug;
mod defer;
mod fatal;
pub mod fs;
pub mod gc;
mod goroutine;
mod local;
mod lock;
mod metrics;
pub mod net;
#[allow(unused_imports, dead_code, reason = "a facade offers the whole set")]
mod prim;
mod procs;
mod runtime;
mod sched;
pub mod select;
mod spawn;
mod stack;
mod stats;
mod switch;
pub mod sync;
mod sys;
#[cfg(test)]
mod test_child;
pub mod time;
pub mod trace;

use fatal::fatal;

pub use builder::Builder;
pub use chan::{
    Iter, Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError, channel, never,
};
pub use counts::{gomaxprocs, num_cpu, num_goroutine, set_max_threads};
pub use defer::{Deferred, goexit};
pub use gc::gc;
pub use goroutine::{
    Goroutine, blocking, current, lock_os_thread, park, proc_id, unlock_os_thread, yield_now,
};
pub use local::LocalKey;
pub use metrics::{Histogram as MetricHistogram, Metrics, Value as MetricValue, metrics};
pub use runtime::Runtime;
pub use select::Select;
pub use spawn::{GoError, JoinHandle, go, set_max_stack, try_go};
pub use time::sleep;

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
