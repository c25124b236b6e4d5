//! Waiting for a number of things to be done: Go's `sync.WaitGroup`.

use std::fmt;
use std::panic::Location;

use super::waiters::{self, Place, Waiter, Waiters, grant_all_before};
use crate::prim::atomic::{AtomicU64, Ordering};
use crate::prim::const_unless_loom;
use crate::sched::critical;
use crate::sched::g::{Wait, WaitReason};

/// Somebody waits. The counter is the upper half of the word.
const WAITING: u64 = 1;
const COUNTER_SHIFT: u32 = 32;

/// Granted to a waiter: everything was done.
const DONE: u32 = 1;

/// Counts what is under way; [`wait`](WaitGroup::wait) waits until nothing is.
///
/// Can be used again as soon as the counter has come to zero: whoever waited until then is released, also
/// when the counter goes up again before they run.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use gmp_runtime::sync::{Mutex, WaitGroup};
///
/// # let runtime = gmp_runtime::Runtime::builder().procs(2).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         let group = Arc::new(WaitGroup::new());
///         let sum = Arc::new(Mutex::new(0));
///         for i in 1..=4 {
///             let sum = Arc::clone(&sum);
///             group.go(move || *sum.lock() += i);
///         }
///         group.wait();
///         assert_eq!(*sum.lock(), 10);
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct WaitGroup {
    word: AtomicU64,
    waiters: Waiters<()>,
}

impl WaitGroup {
    const_unless_loom! {
        /// Nothing is under way.
        pub fn new() -> WaitGroup {
            WaitGroup { word: AtomicU64::new(0), waiters: Waiters::new(()) }
        }
    }

    /// Adds `delta`, which may be negative, to the counter. When it becomes zero, everybody who waits is
    /// released. Call it before what it counts begins, or [`wait`](WaitGroup::wait) may not see it. Never
    /// blocks.
    ///
    /// # Panics
    /// If the counter would become negative, or 2³¹: it then stays as it was.
    #[inline]
    #[track_caller]
    pub fn add(&self, delta: isize) {
        // ordering: Relaxed: the exchange decides.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let then = added(seen, delta);
            if then == WAITING {
                return self.add_last(delta);
            }
            match self.change(seen, then) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Says that one thing is done: takes one from the counter. Never blocks.
    ///
    /// # Panics
    /// If the counter is zero.
    #[inline]
    #[track_caller]
    pub fn done(&self) {
        self.add(-1);
    }

    /// Waits until the counter is zero.
    ///
    /// Blocks the goroutine (reason `sync.WaitGroup.Wait`); on a thread that runs none, the thread.
    #[inline]
    #[track_caller]
    pub fn wait(&self) {
        // ordering: Acquire; pairs with the Release in `change`: what was done is seen.
        if counter(self.word.load(Ordering::Acquire)) != 0 {
            self.wait_slowly(Location::caller());
        }
    }

    /// What is under way: a moment ago, it may have changed.
    pub fn count(&self) -> usize {
        // ordering: Relaxed: an answer that may be outdated publishes nothing.
        counter(self.word.load(Ordering::Relaxed)) as usize
    }

    /// Changes the word from `seen`; what it was, or what it is instead.
    #[inline(always)]
    fn change(&self, seen: u64, then: u64) -> Result<u64, u64> {
        // ordering: Release; pairs with the Acquire in `wait`: what was done before is seen there. Acquire:
        // whoever brings the counter to zero passes on what others did before. Relaxed on failure: nothing
        // is done yet.
        self.word
            .compare_exchange(seen, then, Ordering::AcqRel, Ordering::Relaxed)
    }

    /// `add` where the counter may come to zero while somebody waits: under the lock, so that those who
    /// come to wait for the next zero are not taken for them.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn add_last(&self, delta: isize) {
        let section = critical::enter_if(waiters::me());
        let locked = self.waiters.lock();
        // ordering: Relaxed: the exchange decides.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let Some(then) = try_added(seen, delta) else {
                drop(locked);
                drop(section);
                misuse(delta)
            };
            let is_last = then == WAITING;
            match self.change(seen, if is_last { 0 } else { then }) {
                Ok(_) if is_last => break,
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        let mark = locked.queue.mark();
        drop(locked);
        drop(section);
        grant_all_before(&self.waiters, mark, DONE);
    }

    #[cold]
    #[inline(never)]
    fn wait_slowly(&self, site: &'static Location<'static>) {
        let me = waiters::me();
        let _section = critical::enter_to_wait_if(me);
        let waiter = Waiter::new(me, 0);
        let locked = self.waiters.lock();
        // ordering: Acquire, as in `wait`.
        let mut seen = self.word.load(Ordering::Acquire);
        loop {
            if counter(seen) == 0 {
                return;
            }
            match self.change(seen, seen | WAITING) {
                Ok(_) => break,
                // ordering: Acquire, as in `wait`.
                Err(_) => seen = self.word.load(Ordering::Acquire),
            }
        }
        let wait = Wait {
            reason: WaitReason::WaitGroupWait,
            object: std::ptr::from_ref(self) as usize as u64,
            site,
        };
        // Nobody else loses anything by one that stops waiting.
        self.waiters
            .wait(locked, &waiter, Place::Last, wait, |locked, _| drop(locked));
    }
}

#[inline(always)]
fn counter(word: u64) -> u32 {
    (word >> COUNTER_SHIFT) as u32
}

/// `word` with `delta` added to its counter; `None` where the counter cannot be that.
#[inline(always)]
fn try_added(word: u64, delta: isize) -> Option<u64> {
    let counter = i64::from(counter(word)).checked_add(delta as i64)?;
    match i32::try_from(counter) {
        Ok(counter @ 0..) => Some((counter as u64) << COUNTER_SHIFT | word & WAITING),
        _ => None,
    }
}

/// As [`try_added`].
///
/// # Panics
/// Where the counter cannot be that.
#[inline(always)]
#[track_caller]
fn added(word: u64, delta: isize) -> u64 {
    match try_added(word, delta) {
        Some(word) => word,
        None => misuse(delta),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn misuse(delta: isize) -> ! {
    if delta < 0 {
        panic!("sync: negative WaitGroup counter");
    }
    panic!("sync: WaitGroup counter overflow");
}

impl Default for WaitGroup {
    fn default() -> WaitGroup {
        WaitGroup::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}
