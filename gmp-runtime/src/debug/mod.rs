//! Looking at a program that runs: every goroutine, what it waits for and where.
//!
//! The same text comes from [`dump`](dump()), at SIGQUIT (`kill -QUIT`, or `^\` on a terminal), with the
//! report of a deadlock, and with that of a stack overflow.

pub(crate) mod config;
pub(crate) mod dump;
pub(crate) mod running;
pub(crate) mod schedtrace;
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
/// The program goes on meanwhile. Each goroutine is shown as it was at some moment of the call, and these
/// moments differ.
///
/// Blocks the thread: for milliseconds the first time, while symbols are read, and for microseconds a
/// goroutine after that. Works on any thread.
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
