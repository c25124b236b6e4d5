//! How many there are: goroutines, Ps, processors, threads.

use crate::procs::{self, MAX_PROCS};
use crate::sched::current::this_goroutine;

/// How many processors the process may use, by the affinity of the calling thread: at least 1 (Go's
/// `runtime.NumCPU`). How many goroutines run at once is [`gomaxprocs`].
///
/// Does not block.
pub fn num_cpu() -> usize {
    procs::available()
}

/// How many goroutines there are that have not ended, the caller included (Go's `runtime.NumGoroutine`).
///
/// Looks at each goroutine that ever lived at the same time as others; those that begin and end meanwhile are
/// counted or not. Does not block.
///
/// # Panics
/// On a thread that runs no goroutine.
pub fn num_goroutine() -> usize {
    this_goroutine().sched.table.living()
}

/// Makes `n` the number of Ps, which is how many goroutines run at once; how many it was before (Go's
/// `runtime.GOMAXPROCS`). 0 changes nothing and only asks. More than 4096 is 4096.
///
/// Nothing that is runnable or sleeps is lost: queues and timers of a P that goes are moved. A P that runs a
/// goroutine goes when that goroutine next calls into the runtime; until then one more runs than was asked for.
///
/// Does not block.
///
/// # Panics
/// On a thread that runs no goroutine.
///
/// # Examples
/// ```
/// let runtime = gmp_runtime::Runtime::builder().procs(4).build()?;
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         assert_eq!(gmp_runtime::gomaxprocs(2), 4);
///         assert_eq!(gmp_runtime::gomaxprocs(0), 2);
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn gomaxprocs(n: usize) -> usize {
    let g = this_goroutine();
    let before = if n == 0 {
        g.sched.procs.wanted()
    } else {
        g.sched.set_procs(g, n.min(MAX_PROCS) as u32)
    };
    before as usize
}

/// Makes `n` the largest number of threads that run goroutines or are blocked in system calls of goroutines; how
/// many it was before. It is 10 000 unless it is set (Go's `debug.SetMaxThreads`).
///
/// A program that needs more ends with a fatal error that says so: goroutines that block their threads without
/// bound would else take the machine down. At least 1.
///
/// Does not block.
///
/// # Panics
/// On a thread that runs no goroutine.
pub fn set_max_threads(n: usize) -> usize {
    let most = u32::try_from(n).unwrap_or(u32::MAX).max(1);
    this_goroutine().sched.spawner.set_most_threads(most) as usize
}
