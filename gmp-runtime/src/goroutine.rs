//! What a goroutine can do to itself and to others: yield, park, unpark.

use std::fmt;
use std::panic::Location;

use crate::prim::atomic::Ordering;
use crate::sched::critical;
use crate::sched::current;
use crate::sched::current::this_goroutine;
use crate::sched::g::{Wait, WaitReason};
use crate::sched::locked;
use crate::sched::park;
use crate::sched::refs::GRef;
use crate::sched::syscall;

/// Lets other goroutines run: the caller goes to the end of its P's queue (Go's `runtime.Gosched`).
///
/// Blocks neither G, M nor P. On a thread that runs no goroutine it is [`std::thread::yield_now`].
#[inline]
pub fn yield_now() {
    match current::goroutine() {
        Some(g) => park::yield_now(g),
        None => std::thread::yield_now(),
    }
}

/// Waits until somebody [unparks](Goroutine::unpark) this goroutine; returns at once if somebody did
/// since it last parked. As [`std::thread::park`], it may also return for no reason.
///
/// Blocks the goroutine (reason `park`), not its thread.
///
/// # Panics
/// On a thread that runs no goroutine.
#[track_caller]
pub fn park() {
    let g = this_goroutine();
    let wait = Wait {
        reason: WaitReason::Park,
        object: 0,
        site: Location::caller(),
    };
    park::park_for_permit(g, wait);
}

/// Runs `f`, which may block its thread: a system call, a lock of std, a call into a library that waits. The P
/// goes on with other goroutines when it takes long (Go's `entersyscall` and `exitsyscall`).
///
/// Blocks the goroutine and its thread, not the P: the P stays with the call for 20 µs at least, and is then given
/// to another thread as soon as somebody could use it. Not worth while for what never takes so long; the cost of a
/// call that is short is a few nanoseconds.
///
/// Inside `f` the caller is a thread that runs no goroutine: [`current()`] is `None`, what would block a goroutine
/// panics, and sending, waking and joining do what they do on any thread. After `f` the goroutine may go on on
/// another thread.
///
/// On a thread that runs no goroutine it just calls `f`.
///
/// # Panics
/// With the panic of `f`.
///
/// # Examples
/// ```
/// let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// let status = unsafe {
///     runtime.run(|| gmp_runtime::blocking(|| std::process::Command::new("true").status()))
/// };
/// assert!(status?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
#[inline]
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    syscall::blocking(Location::caller(), f)
}

/// Locks the calling goroutine to its thread: until [`unlock_os_thread`] was called as often, it runs on that thread
/// only, and nothing else does (Go's `runtime.LockOSThread`). For what belongs to a thread: its namespaces and
/// credentials, a library with state of its own in each thread, a user interface.
///
/// When a goroutine ends while it is locked, its thread ends with it. The main goroutine begins on the thread that
/// called [`Runtime::run`](crate::Runtime::run): locked first of all, it stays there.
///
/// Does not block. Each time a locked goroutine goes on after it has waited costs two switches of threads.
///
/// # Panics
/// On a thread that runs no goroutine.
///
/// # Examples
/// ```
/// use std::thread;
/// use gmp_runtime::{lock_os_thread, unlock_os_thread, yield_now};
///
/// let runtime = gmp_runtime::Runtime::builder().procs(2).build()?;
/// let caller = thread::current().id();
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// unsafe {
///     runtime.run(move || {
///         lock_os_thread();
///         yield_now();
///         assert_eq!(thread::current().id(), caller);
///         unlock_os_thread();
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn lock_os_thread() {
    locked::lock(this_goroutine());
}

/// Undoes one [`lock_os_thread`] of the calling goroutine; does nothing if there is none left.
///
/// Does not block.
///
/// # Panics
/// On a thread that runs no goroutine.
pub fn unlock_os_thread() {
    locked::unlock(this_goroutine());
}

/// The goroutine of the caller; `None` on a thread that runs none.
pub fn current() -> Option<Goroutine> {
    current::goroutine().map(Goroutine::new)
}

/// The number of the P that the caller runs on, from 0; `None` on a thread that runs no goroutine. It
/// is another one, perhaps, after every call that may park.
pub fn proc_id() -> Option<u32> {
    let g = current::goroutine()?;
    let _section = critical::enter(g);
    current::m_of(g).p().map(|p| p.id)
}

/// A goroutine, to be unparked.
pub struct Goroutine {
    g: GRef,
    id: u64,
}

impl Goroutine {
    pub(crate) fn new(g: GRef) -> Goroutine {
        // ordering: Relaxed: the scheduler is alive while one of its goroutines makes a handle.
        g.sched.handles.fetch_add(1, Ordering::Relaxed);
        Goroutine { g, id: g.id.get() }
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Makes its next (or present) [`park()`] return. Works on any thread; does not block. After the
    /// goroutine has ended it does nothing, or wakes another one from [`park()`] for no reason.
    pub fn unpark(&self) {
        park::give_permit(self.g);
    }
}

impl Clone for Goroutine {
    fn clone(&self) -> Goroutine {
        Goroutine::new(self.g)
    }
}

impl Drop for Goroutine {
    fn drop(&mut self) {
        // ordering: Release; pairs with the Acquire load in `sched::shutdown`.
        self.g.sched.handles.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Debug for Goroutine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Goroutine({})", self.id)
    }
}
