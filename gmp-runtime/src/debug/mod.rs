//! Looking at a program that runs: every goroutine, what it waits for and where.
//!
//! The same text comes from [`dump`](dump()), at SIGQUIT (`kill -QUIT`, or `^\` on a terminal), with the
//! report of a deadlock, and with that of a stack overflow.

pub(crate) mod config;
pub(crate) mod dump;
pub(crate) mod running;
pub(crate) mod schedtrace;
pub(crate) mod stop;
pub(crate) mod symbols;
pub(crate) mod walk;

/// Every goroutine of the caller's runtime, the caller first, in the form of Go's dumps. On a thread that
/// runs no goroutine: every goroutine of every runtime that runs.
///
/// ```text
/// goroutine 18 [chan receive, 5 minutes]:
/// server::worker(...)
///         src/server.rs:61 waits 301.2s for 0x7f21c0a04c10
/// created by server::main in goroutine 1
///         src/server.rs:30
/// ```
///
/// The header has the number, the wait reason or the state, and for how many minutes it has waited, if that
/// is one or more. The first frame also says for how long in seconds (to some milliseconds), and the object:
/// a number that is the same for everybody who waits for the same thing. Frames of the runtime itself are
/// left out at both ends.
///
/// Frames are found by the unwind tables of the program, with or without frame pointers; names and lines
/// need symbols and line tables. Where there are none, on processors other than x86-64, and with the
/// portable switch, the start function and the place of the wait stand there instead. There are no frames
/// of a goroutine that runs on another thread.
///
/// All are shown as they were at one moment: the world is stopped for some microseconds a goroutine, while they are looked
/// at (reason `dump` in the trace), and goes on while names are found and the text is made. Where it does not stand still
/// within 100 ms, because a goroutine computes that cannot be stopped or others stop the world for longer, they are
/// looked at as they run, and the moments differ.
///
/// Blocks the goroutine while others stop the world, and then the thread: for milliseconds the first time, while symbols
/// are read, and for microseconds a goroutine after that. Works on any thread.
///
/// # Examples
/// ```
/// # let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// let text = unsafe { runtime.run(gmp_runtime::debug::dump) };
/// assert!(text.starts_with("goroutine 1 [running]:\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn dump() -> String {
    running::dump()
}

/// Stops the world of the caller's runtime, calls `f` while it stands still, and lets it go on: no other goroutine of
/// the runtime runs meanwhile. On a thread that runs no goroutine: of all runtimes of the process. `why` is recorded in
/// the trace, with the safe point of each thread.
///
/// A goroutine stops where it next calls the runtime, or within microseconds anywhere else, by the signal of
/// preemption; one that waits in the kernel there goes on waiting when the world goes on. Where that is off
/// (`asyncpreemptoff=1`, or a thread that blocks the signal) this waits until each has called the runtime.
/// Threads that run no goroutine, and calls of [`blocking`](crate::blocking) and [`fs`](crate::fs) that are under way, go
/// on; those return when the world does.
///
/// # What `f` must not do
/// Goroutines stand anywhere, perhaps in the middle of `malloc` or with a lock. So `f` allocates and frees nothing,
/// prints nothing, and takes no lock of any kind, or the program may stand still for good. Nor does it wait
/// for a goroutine.
///
/// Blocks the goroutine (reason `semacquire`), or the thread, while others stop the world: there is one stop at a time, in
/// the order in which they were asked for. Within `f` it may be called again, which stops nothing more. A runtime that
/// is about to end, whose main has returned, and one in a child that `fork` made, is not stopped.
///
/// # Aborts
/// If `f` waits for another goroutine.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// static STEPS: AtomicU64 = AtomicU64::new(0);
/// # let runtime = gmp_runtime::Runtime::builder().procs(2).build()?;
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         gmp_runtime::go(|| for _ in 0..100_000 { STEPS.fetch_add(1, Ordering::Relaxed); });
///         let look = || STEPS.load(Ordering::Relaxed);
///         let (first, second) = gmp_runtime::debug::stop_the_world("two looks", || (look(), look()));
///         assert_eq!(first, second);
///     });
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn stop_the_world<R>(why: &'static str, f: impl FnOnce() -> R) -> R {
    let _stopped = stop::begin(why);
    f()
}
