//! Starting and stopping a trace: from the program, and with its runtime.

use std::io;
use std::path::Path;

use super::collector::Summary;
use crate::sched::Sched;
use crate::sched::current::this_goroutine;

/// Begins to record what the scheduler of the calling goroutine does into a new file at `path`, until
/// [`stop`] or the end of the runtime. What is not a regular file (a pipe) is written to as a stream.
///
/// What is in the file survives the process: after a `kill -9` everything up to the last event of each
/// thread can be read. Recording costs one stamp of the clock and some nanoseconds a scheduler event;
/// events that find no room, because the disk is too slow or full, are counted and left out.
///
/// Blocks the thread for some milliseconds.
///
/// # Errors
/// `AlreadyExists` while a trace is being recorded; the kernel's error if the file cannot be made.
///
/// # Panics
/// On a thread that runs no goroutine.
///
/// # Examples
/// ```no_run
/// # let runtime = gmp_runtime::Runtime::new()?;
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// unsafe {
///     runtime.run(|| -> std::io::Result<()> {
///         gmp_runtime::trace::start("trace.bin")?;
///         gmp_runtime::go(|| ()).join().unwrap();
///         gmp_runtime::trace::stop()?;
///         Ok(())
///     })
/// }?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn start(path: impl AsRef<Path>) -> io::Result<()> {
    let sched = this_goroutine().sched;
    sched.tracer.start(sched, path.as_ref())
}

/// Ends the trace: everything that was recorded is in the file when this returns.
///
/// Blocks the thread for some milliseconds.
///
/// # Errors
/// `NotFound` when no trace is being recorded; the first error that writing it met.
///
/// # Panics
/// On a thread that runs no goroutine.
#[track_caller]
pub fn stop() -> io::Result<Summary> {
    let sched = this_goroutine().sched;
    match sched.tracer.stop(sched) {
        Some(result) => result,
        None => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "no trace is being recorded",
        )),
    }
}

/// Starts the trace that `GMPDEBUG` asks for. A program goes on without it where that fails.
pub(crate) fn start_for_environment(sched: &'static Sched, path: &Path) {
    if let Err(error) = sched.tracer.start(sched, path) {
        eprintln!(
            "gmp: cannot record a trace into {}: {error}",
            path.display()
        );
    }
}

/// Ends the trace, if there is one, with its scheduler.
pub(crate) fn end(sched: &Sched) {
    match sched.tracer.stop(sched) {
        None => {}
        Some(Err(error)) => eprintln!("gmp: the trace is not whole: {error}"),
        Some(Ok(summary)) if summary.lost > 0 => eprintln!(
            "gmp: the trace is not whole: {} of {} events found no room, because the disk was too slow",
            summary.lost,
            summary.lost + summary.events
        ),
        Some(Ok(_)) => {}
    }
}
