//! Mutual exclusion with data: Go's `sync.Mutex`, and the guard that gives access.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;

use super::raw_mutex::RawMutex;
use crate::prim::cell::UnsafeCell;
use crate::prim::const_unless_loom;

/// A lock around a value, for goroutines and plain threads together.
///
/// [`lock`](Mutex::lock) blocks the goroutine, not its thread; on a thread that runs no goroutine it blocks
/// the thread. It is fair in the long run: who has waited for a millisecond in vain is served before those
/// who come by (Go's starvation mode).
///
/// There is no poisoning: when an owner panics, its guard unlocks, and the next owner sees the value as it
/// was left. Code that leaves a value half changed when it panics has to mend it, for instance with a guard
/// of its own.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use gmp_runtime::{go, sync::Mutex};
///
/// # let runtime = gmp_runtime::Runtime::builder().procs(2).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// let total = unsafe {
///     runtime.run(|| {
///         let total = Arc::new(Mutex::new(0));
///         let adders: Vec<_> = (1..=4)
///             .map(|i| {
///                 let total = Arc::clone(&total);
///                 go(move || *total.lock() += i)
///             })
///             .collect();
///         adders.into_iter().for_each(|adder| adder.join().unwrap());
///         *total.lock()
///     })
/// };
/// assert_eq!(total, 10);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value goes to whoever takes the lock, one at a time.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    const_unless_loom! {
        /// An unlocked mutex around `value`.
        pub fn new(value: T) -> Mutex<T> {
            Mutex { raw: RawMutex::new(), value: UnsafeCell::new(value) }
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free and locks it. To lock a mutex again that the caller has locked
    /// is a deadlock.
    ///
    /// Blocks the goroutine (reason `sync.Mutex.Lock`); on a thread that runs none, the thread.
    #[track_caller]
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.raw.lock(Location::caller());
        MutexGuard::new(self)
    }

    /// Locks the mutex if it is free, and is not about to be handed to somebody who waited long. Never
    /// blocks.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.raw.try_lock().then(|| MutexGuard::new(self))
    }

    /// Whether somebody holds the lock: a moment ago, it may have changed.
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    /// The value, without locking: the borrow shows that nobody else has it.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is borrowed mutably, and so is the result.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// Takes the lock back for a guard that was given up for a while.
    pub(super) fn lock_at(&self, site: &'static Location<'static>) -> MutexGuard<'_, T> {
        self.raw.lock(site);
        MutexGuard::new(self)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(guard) => shown.field("value", &&*guard),
            None => shown.field("value", &format_args!("<locked>")),
        };
        shown.finish()
    }
}

/// Access to the value of a locked [`Mutex`]. Dropping it unlocks, which never blocks.
///
/// It may be sent to another thread: a goroutine that holds one goes on wherever it is run.
#[must_use = "the mutex is unlocked at once when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Sharing the guard shares the value.
    value: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// For a mutex that the caller has locked.
    #[inline(always)]
    fn new(mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        MutexGuard {
            mutex,
            value: PhantomData,
        }
    }

    /// The mutex that it locks.
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the mutex is locked, and by this guard.
        self.mutex.value.with(|value| unsafe { &*value })
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        self.mutex.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the guard was made by locking.
        unsafe { self.mutex.raw.unlock() };
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
