//! A number of permits that can be taken and given back: Go's `semaphore.Weighted`.

use std::fmt;
use std::panic::Location;

use super::waiters::{self, Locked, Place, Waiter, Waiters};
use crate::prim::const_unless_loom;
use crate::sched::critical;
use crate::sched::g::{Wait, WaitReason};

/// Granted to a waiter: what it asked for.
const ACQUIRED: u32 = 1;

/// Permits, of which callers take some and give them back.
///
/// First come, first served: while somebody waits for many, nobody who comes later gets few. So a large
/// request is not kept out by small ones; one that is larger than there will ever be keeps everybody
/// out.
///
/// # Examples
/// ```
/// use gmp_runtime::sync::Semaphore;
///
/// let slots = Semaphore::new(3);
/// let two = slots.acquire(2);
/// assert!(slots.try_acquire(2).is_none());
/// drop(two);
/// slots.acquire(3).forget(); // gone until somebody calls `release`
/// assert_eq!(slots.available(), 0);
/// slots.release(3);
/// assert_eq!(slots.available(), 3);
/// ```
pub struct Semaphore {
    /// The permits that nobody has.
    waiters: Waiters<usize>,
}

impl Semaphore {
    const_unless_loom! {
        /// So many permits.
        pub fn new(permits: usize) -> Semaphore {
            Semaphore { waiters: Waiters::new(permits) }
        }
    }

    /// Waits for `count` permits and takes them.
    ///
    /// Blocks the goroutine (reason `semacquire`); on a thread that runs none, the thread.
    #[track_caller]
    pub fn acquire(&self, count: usize) -> Permit<'_> {
        let _section = critical::enter_to_wait_if(waiters::me());
        let mut locked = self.waiters.lock();
        if !take(&mut locked, count) {
            self.wait(locked, count, Location::caller());
        }
        Permit {
            semaphore: self,
            count,
        }
    }

    /// Takes `count` permits if they are there and nobody waits. Never blocks.
    pub fn try_acquire(&self, count: usize) -> Option<Permit<'_>> {
        let _section = critical::enter_if(waiters::me());
        let taken = take(&mut self.waiters.lock(), count);
        taken.then(|| Permit {
            semaphore: self,
            count,
        })
    }

    /// Adds `count` permits: those of a [`Permit`] that was [forgotten](Permit::forget), or new ones. Never
    /// blocks.
    ///
    /// # Panics
    /// If there would be more than `usize::MAX`.
    #[track_caller]
    pub fn release(&self, count: usize) {
        let section = critical::enter_if(waiters::me());
        let mut locked = self.waiters.lock();
        match locked.state.checked_add(count) {
            Some(sum) => locked.state = sum,
            None => {
                drop(locked);
                drop(section);
                panic!("a semaphore with more than usize::MAX permits");
            }
        }
        self.serve(locked);
    }

    /// How many permits nobody has: a moment ago, it may have changed.
    pub fn available(&self) -> usize {
        let _section = critical::enter_if(waiters::me());
        self.waiters.lock().state
    }

    #[cold]
    #[inline(never)]
    fn wait<'a>(
        &'a self,
        locked: Locked<'a, usize>,
        count: usize,
        site: &'static Location<'static>,
    ) {
        let waiter = Waiter::new(waiters::me(), count as u64);
        let wait = Wait {
            reason: WaitReason::Semaphore,
            object: std::ptr::from_ref(self) as usize as u64,
            site,
        };
        self.waiters.wait(
            locked,
            &waiter,
            Place::Last,
            wait,
            |mut locked, acquired| {
                if acquired.is_some() {
                    locked.state += count;
                }
                // Those behind may ask for less.
                self.serve(locked);
            },
        );
    }

    /// Gives the first waiters what they ask for, as long as there is enough.
    fn serve<'a>(&'a self, mut locked: Locked<'a, usize>) {
        while let Some(first) = locked.queue.first() {
            let wanted = first.note() as usize;
            if locked.state < wanted {
                return;
            }
            locked.state -= wanted;
            let wake = locked.queue.grant_first(waiters::me(), ACQUIRED);
            drop(locked);
            if let Some(wake) = wake {
                wake.wake();
            }
            locked = self.waiters.lock();
        }
    }
}

/// Takes permits if they are there and nobody waits.
fn take(locked: &mut Locked<'_, usize>, count: usize) -> bool {
    let fits = locked.queue.is_empty() && locked.state >= count;
    if fits {
        locked.state -= count;
    }
    fits
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available())
            .finish_non_exhaustive()
    }
}

/// Permits of a [`Semaphore`] that somebody has. Dropping it gives them back, which never blocks.
#[must_use = "the permits are given back at once when this is dropped"]
#[derive(Debug)]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    count: usize,
}

impl Permit<'_> {
    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Does not give them back: that is left to [`Semaphore::release`].
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.release(self.count);
    }
}
