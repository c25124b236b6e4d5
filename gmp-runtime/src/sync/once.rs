//! Doing something once: Go's `sync.Once`, and a cell that is filled once.

use std::fmt;
use std::mem::MaybeUninit;
use std::panic::Location;

use super::waiters::{self, Place, Waiter, Waiters, grant_all_before};
use crate::prim::atomic::{AtomicU32, Ordering};
use crate::prim::cell::UnsafeCell;
use crate::prim::const_unless_loom;
use crate::sched::critical;
use crate::sched::g::{Wait, WaitReason};

/// Nobody has done it.
const OPEN: u32 = 0;
/// Somebody does it. Changed under the lock of the queue only, as the others.
const RUNNING: u32 = 1;
/// It is done.
const COMPLETE: u32 = 2;

/// Granted to a waiter: look again.
const CHANGED: u32 = 1;

/// Something that is to be done once.
///
/// If it panics it is not done: the next caller, or one of those who wait, does it in turn. (Go counts it as
/// done, and others go on without what it was to make; std's `Once` makes all of them panic.)
///
/// # Examples
/// ```
/// use gmp_runtime::sync::Once;
///
/// static START: Once = Once::new();
/// let mut calls = 0;
/// for _ in 0..3 {
///     START.call_once(|| calls += 1);
/// }
/// assert_eq!(calls, 1);
/// ```
pub struct Once {
    state: AtomicU32,
    waiters: Waiters<()>,
}

impl Once {
    const_unless_loom! {
        /// Nothing is done yet.
        pub fn new() -> Once {
            Once { state: AtomicU32::new(OPEN), waiters: Waiters::new(()) }
        }
    }

    /// Calls `f`, unless that or another call here has been done before; waits for one that is under way.
    /// When it returns, it is done, and seen by the caller.
    ///
    /// Calling it from `f` on the same `Once` is a deadlock.
    ///
    /// Blocks the goroutine (reason `semacquire`); on a thread that runs none, the thread.
    ///
    /// # Panics
    /// If `f` does.
    #[inline]
    #[track_caller]
    pub fn call_once(&self, f: impl FnOnce()) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call_slowly(Location::caller(), &mut || {
                if let Some(f) = f.take() {
                    f();
                }
            });
        }
    }

    /// Whether it is done; then what it did is seen by the caller.
    #[inline(always)]
    pub fn is_completed(&self) -> bool {
        // ordering: Acquire; pairs with the Release in `Finish`.
        self.state.load(Ordering::Acquire) == COMPLETE
    }

    #[cold]
    #[inline(never)]
    fn call_slowly(&self, site: &'static Location<'static>, f: &mut dyn FnMut()) {
        let me = waiters::me();
        loop {
            let section = critical::enter_to_wait_if(me);
            let locked = self.waiters.lock();
            // ordering: Acquire, as in `is_completed`.
            match self.state.load(Ordering::Acquire) {
                COMPLETE => return,
                RUNNING => {
                    let waiter = Waiter::new(me, 0);
                    let wait = Wait {
                        reason: WaitReason::Semaphore,
                        object: std::ptr::from_ref(self) as usize as u64,
                        site,
                    };
                    // All of them are told to look again, so nobody else needs to be.
                    self.waiters
                        .wait(locked, &waiter, Place::Last, wait, |locked, _| drop(locked));
                }
                _ => {
                    // ordering: Relaxed: under the lock, and nothing is done yet.
                    self.state.store(RUNNING, Ordering::Relaxed);
                    drop(locked);
                    drop(section);
                    let mut finish = Finish {
                        once: self,
                        then: OPEN,
                    };
                    f();
                    finish.then = COMPLETE;
                    return;
                }
            }
        }
    }
}

/// Says how it ended, also by a panic.
struct Finish<'a> {
    once: &'a Once,
    then: u32,
}

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let section = critical::enter_if(waiters::me());
        let locked = self.once.waiters.lock();
        // ordering: Release; pairs with the Acquire in `is_completed`.
        self.once.state.store(self.then, Ordering::Release);
        let mark = locked.queue.mark();
        drop(locked);
        drop(section);
        grant_all_before(&self.once.waiters, mark, CHANGED);
    }
}

impl Default for Once {
    fn default() -> Once {
        Once::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once")
            .field("completed", &self.is_completed())
            .finish_non_exhaustive()
    }
}

/// A place for a value that is made once, by whoever needs it first (Go's `sync.OnceValue`).
///
/// # Examples
/// ```
/// use gmp_runtime::sync::OnceLock;
///
/// static TABLE: OnceLock<Vec<u32>> = OnceLock::new();
/// assert_eq!(TABLE.get_or_init(|| (0..3).collect())[2], 2);
/// assert_eq!(TABLE.get().map(Vec::len), Some(3));
/// ```
pub struct OnceLock<T> {
    once: Once,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value goes along.
unsafe impl<T: Send> Send for OnceLock<T> {}
// SAFETY: the value may be made by one thread and dropped by another, and is shared when it is made.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    const_unless_loom! {
        /// Without a value.
        pub fn new() -> OnceLock<T> {
            OnceLock { once: Once::new(), value: UnsafeCell::new(MaybeUninit::uninit()) }
        }
    }

    /// The value, if it was made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.once.is_completed().then(|| {
            // SAFETY: it was written before, and is not written again.
            self.value
                .with(|value| unsafe { (*value).assume_init_ref() })
        })
    }

    /// The value; made by `make` if it was not before. When `make` panics there is none, and the next
    /// caller makes it.
    ///
    /// Blocks as [`Once::call_once`] while another caller makes it.
    ///
    /// # Panics
    /// If `make` does.
    #[inline]
    #[track_caller]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.once.call_once(|| {
            let made = make();
            // SAFETY: one caller at a time comes here, and nobody reads before it is complete.
            self.value.with_mut(|value| unsafe { (*value).write(made) });
        });
        // SAFETY: it is complete, and is not written again.
        self.value
            .with(|value| unsafe { (*value).assume_init_ref() })
    }

    /// Puts `value` there, or gives it back if there is one, or comes to be one meanwhile.
    ///
    /// Blocks as [`Once::call_once`] while another caller makes one.
    ///
    /// # Errors
    /// `value`, if there was one before.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.once.call_once(|| {
            if let Some(given) = value.take() {
                // SAFETY: as in `get_or_init`.
                self.value
                    .with_mut(|place| unsafe { (*place).write(given) });
            }
        });
        value.map_or(Ok(()), Err)
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        if self.once.is_completed() {
            // SAFETY: it was written, and nobody else has a reference.
            self.value
                .with_mut(|value| unsafe { (*value).assume_init_drop() });
        }
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceLock").field(&self.get()).finish()
    }
}
