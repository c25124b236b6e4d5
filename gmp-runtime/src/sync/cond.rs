//! Waiting for a change of what a mutex protects: Go's `sync.Cond`.

use std::fmt;
use std::panic::Location;

use super::mutex::MutexGuard;
use super::waiters::{self, Waiter, Waiters, grant_all_before};
use crate::prim::const_unless_loom;
use crate::sched::critical;
use crate::sched::g::{Wait, WaitReason};

/// Granted to a waiter.
const NOTIFIED: u32 = 1;

/// A condition: who waits for a change of the value in a [`Mutex`](super::Mutex), and is notified of it.
///
/// Nobody is woken for no reason, but between a notification and the return of [`wait`](Cond::wait)
/// others may have had the mutex: look at the value again, as [`wait_while`](Cond::wait_while) does.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use gmp_runtime::{go, sync::{Cond, Mutex}};
///
/// # let runtime = gmp_runtime::Runtime::builder().procs(2).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         let shared = Arc::new((Mutex::new(None), Cond::new()));
///         let other = Arc::clone(&shared);
///         go(move || {
///             *other.0.lock() = Some("ready");
///             other.1.notify_one();
///         });
///         let value = shared.1.wait_while(shared.0.lock(), |value| value.is_none());
///         assert_eq!(*value, Some("ready"));
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Cond {
    waiters: Waiters<()>,
}

impl Cond {
    const_unless_loom! {
        /// Nobody waits.
        pub fn new() -> Cond {
            Cond { waiters: Waiters::new(()) }
        }
    }

    /// Unlocks the mutex, waits to be notified, and locks it again. A notification after the unlocking is
    /// not missed.
    ///
    /// Blocks the goroutine (reason `sync.Cond.Wait`, then `sync.Mutex.Lock`); on a thread that runs none,
    /// the thread.
    #[track_caller]
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_at(guard, Location::caller())
    }

    /// Waits until `condition` is false; returns at once if it is. It is called with the mutex locked.
    ///
    /// Blocks as [`wait`](Cond::wait).
    #[track_caller]
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let site = Location::caller();
        while condition(&mut guard) {
            guard = self.wait_at(guard, site);
        }
        guard
    }

    /// Ends the wait of whoever waits longest. Never blocks.
    pub fn notify_one(&self) {
        let me = waiters::me();
        let _section = critical::enter_if(me);
        let wake = self.waiters.lock().queue.grant_first(me, NOTIFIED);
        if let Some(wake) = wake {
            wake.wake();
        }
    }

    /// Ends the wait of everybody who waits now. Never blocks.
    pub fn notify_all(&self) {
        let section = critical::enter_if(waiters::me());
        let mark = self.waiters.lock().queue.mark();
        drop(section);
        grant_all_before(&self.waiters, mark, NOTIFIED);
    }

    fn wait_at<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        site: &'static Location<'static>,
    ) -> MutexGuard<'a, T> {
        let mutex = guard.mutex();
        let me = waiters::me();
        let _section = critical::enter_to_wait_if(me);
        let waiter = Waiter::new(me, 0);
        let wait = Wait {
            reason: WaitReason::CondWait,
            object: std::ptr::from_ref(self) as usize as u64,
            site,
        };
        self.waiters.wait_after(
            &waiter,
            wait,
            || drop(guard),
            |locked, granted| {
                drop(locked);
                // One notification wakes one that goes on.
                if granted.is_some() {
                    self.notify_one();
                }
            },
        );
        mutex.lock_at(site)
    }
}

impl Default for Cond {
    fn default() -> Cond {
        Cond::new()
    }
}

impl fmt::Debug for Cond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cond").finish_non_exhaustive()
    }
}
