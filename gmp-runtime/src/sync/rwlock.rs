//! Many readers or one writer: Go's `sync.RWMutex` with data.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;

use super::raw_rwlock::{Access, RawRwLock};
use crate::prim::cell::UnsafeCell;
use crate::prim::const_unless_loom;

/// A lock around a value that many may read at once, or one may change.
///
/// First come, first served: while somebody waits, those who come queue behind, readers too, and the lock
/// is handed from its last owner to the first waiter, or to all readers at the head of the queue.
/// So neither writers nor readers are kept out. A consequence: who reads already must not lock for
/// reading again, because a writer may have queued in between (as in Go).
///
/// Not poisoned by panics, as [`Mutex`](super::Mutex).
///
/// # Examples
/// ```
/// use gmp_runtime::sync::RwLock;
///
/// let lock = RwLock::new(vec![1, 2]);
/// {
///     let (a, b) = (lock.read(), lock.read());
///     assert_eq!(a.len() + b.len(), 4);
/// }
/// lock.write().push(3);
/// assert_eq!(lock.into_inner(), [1, 2, 3]);
/// ```
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value goes along with the lock.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: a writer gets the value for itself, one at a time, from whatever thread; readers share it.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    const_unless_loom! {
        /// An unlocked lock around `value`.
        pub fn new(value: T) -> RwLock<T> {
            RwLock { raw: RawRwLock::new(), value: UnsafeCell::new(value) }
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes, or waits to, and locks for reading.
    ///
    /// Blocks the goroutine (reason `sync.RWMutex.RLock`); on a thread that runs none, the thread.
    ///
    /// # Panics
    /// When there are 2³⁰ readers.
    #[track_caller]
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.raw.lock(Access::Read, Location::caller());
        RwLockReadGuard::new(self)
    }

    /// Waits until nobody reads or writes, and locks for writing.
    ///
    /// Blocks the goroutine (reason `sync.RWMutex.Lock`); on a thread that runs none, the thread.
    #[track_caller]
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.raw.lock(Access::Write, Location::caller());
        RwLockWriteGuard::new(self)
    }

    /// Locks for reading if nobody writes, and nobody waits. Never blocks.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.raw
            .try_lock(Access::Read)
            .then(|| RwLockReadGuard::new(self))
    }

    /// Locks for writing if nobody reads or writes, and nobody waits. Never blocks.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.raw
            .try_lock(Access::Write)
            .then(|| RwLockWriteGuard::new(self))
    }

    /// The value, without locking: the borrow shows that nobody else has it.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: the lock is borrowed mutably, and so is the result.
        self.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RwLock");
        match self.try_read() {
            Some(guard) => shown.field("value", &&*guard),
            None => shown.field("value", &format_args!("<locked>")),
        };
        shown.finish()
    }
}

/// Access to the value of a [`RwLock`] that is locked for reading. Dropping it unlocks, which never blocks.
#[must_use = "the lock is released at once when the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    value: PhantomData<&'a T>,
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// For a lock that the caller has locked.
    #[inline(always)]
    fn new(lock: &'a RwLock<T>) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard {
            lock,
            value: PhantomData,
        }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is locked for reading.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the guard was made by locking for reading.
        unsafe { self.lock.raw.unlock(Access::Read) };
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Access to the value of a [`RwLock`] that is locked for writing. Dropping it unlocks, which never blocks.
#[must_use = "the lock is released at once when the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// Sharing the guard shares the value.
    value: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// For a lock that the caller has locked.
    #[inline(always)]
    fn new(lock: &'a RwLock<T>) -> RwLockWriteGuard<'a, T> {
        RwLockWriteGuard {
            lock,
            value: PhantomData,
        }
    }

    /// Goes from writing to reading: nobody writes in between. Readers at the head of the queue come in.
    /// Never blocks.
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        let lock = self.lock;
        std::mem::forget(self);
        // SAFETY: the guard was made by locking for writing, and does not unlock.
        unsafe { lock.raw.downgrade() };
        RwLockReadGuard::new(lock)
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is locked for writing, and by this guard.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the guard was made by locking for writing.
        unsafe { self.lock.raw.unlock(Access::Write) };
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
