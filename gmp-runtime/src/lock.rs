//! Spin locks for the scheduler's own short sections, with an order that debug builds enforce.
//!
//! The scheduler cannot use std's locks: a thread that is stopped in the middle of a goroutine would keep
//! one for good. A [`Spin`] is taken only in sections during which a thread is never stopped, so whoever
//! spins waits for a few dozen instructions, and gives its time slice away if the holder's thread was
//! descheduled by the kernel.
//!
//! # Invariants
//!
//! * INV-LOCK-1: a thread takes locks in ascending [`Rank`], equal ranks only where [`Rank::may_nest`]
//!   says that their users have an order of their own. Otherwise two threads can wait for each other for
//!   good.
//! * INV-LOCK-2: a lock is released on the thread that took it. Another *goroutine* may do it: a goroutine
//!   that parks keeps the channel's lock until the goroutine after it, on the same thread, has left its
//!   stack behind. So ranks belong to threads, and are found by an accessor that is never inlined (an
//!   inlined one could keep the address of another thread's variable across a switch).
//! * INV-LOCK-3: a thread that is an M takes locks inside the runtime only, where it is never stopped
//!   ([`sched::mark`](crate::sched::mark)). Otherwise it could be stopped with a lock that everybody needs.

use crate::prim::atomic::{AtomicBool, Ordering};
use crate::prim::cell::UnsafeCell;
use crate::prim::{const_unless_loom, hint};
use crate::sched::fuzz;
#[cfg(not(loom))]
use crate::{fatal::fatal, sys::thread::is_child_of_fork};
use std::fmt;
use std::ops::{Deref, DerefMut};
#[cfg(not(loom))]
use std::time::{Duration, Instant};

/// Where a lock stands in the order of taking: a thread that holds one may take those *below* it in this
/// list only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Rank {
    /// Goroutines that wait for a collection cycle. First, because nothing is held when it is taken.
    Cycle,
    /// One channel's queues and buffer, or the schedule of one timer. A `select` holds those of several
    /// channels at once, taken by ascending address; a timer's is taken before its channel's.
    Channel,
    /// The timers of one P. Whoever holds two at once took them by ascending numbers of the Ps.
    Timers,
    /// The global queue, the idle lists, and everything else of the scheduler that all Ps share. Below
    /// channels and timers because making a goroutine ready may need it while either is held.
    Sched,
    /// The stacks that no P holds.
    StackPool,
    /// The tracer's buffers and tables: an event can be recorded while any other lock is held.
    Trace,
}

#[cfg(debug_assertions)]
impl Rank {
    /// Whether a thread may hold several locks of this rank, taken in an order of their own.
    pub(crate) fn may_nest(self) -> bool {
        matches!(self, Rank::Channel | Rank::Timers)
    }
}

/// How often a waiter looks before it gives its time slice to somebody else.
#[cfg(not(loom))]
const SPINS_BEFORE_YIELD: u32 = 60;

/// Whoever waits longer, in a child that `fork` made, waits for a thread that is not there.
#[cfg(not(loom))]
const LONGEST_IN_CHILD: Duration = Duration::from_secs(1);

/// A lock without data: one byte. Whoever locks must unlock, on the same thread.
pub(crate) struct Spin {
    locked: AtomicBool,
    #[cfg(debug_assertions)]
    rank: Rank,
    /// Those that wait, in a model.
    #[cfg(loom)]
    asleep: crate::prim::model::Sleepers,
}

impl Spin {
    const_unless_loom! {
        /// An unlocked lock of this rank.
        pub(crate) fn new(rank: Rank) -> Spin {
            #[cfg(not(debug_assertions))]
            let _ = rank;
            Spin {
                locked: AtomicBool::new(false),
                #[cfg(debug_assertions)]
                rank,
                #[cfg(loom)]
                asleep: Default::default(),
            }
        }
    }

    /// Waits until the lock is free and takes it.
    #[inline(always)]
    pub(crate) fn lock(&self) {
        fuzz::before_lock();
        #[cfg(debug_assertions)]
        held::check(self.rank);
        if !self.take() {
            self.wait();
        }
        #[cfg(debug_assertions)]
        held::add(self.rank);
    }

    #[cfg_attr(not(test), allow(dead_code, reason = "what tests look at"))]
    /// Takes the lock if it is free. Never waits, so the order of ranks does not bind it.
    #[inline(always)]
    #[must_use]
    pub(crate) fn try_lock(&self) -> bool {
        let taken = self.take();
        #[cfg(debug_assertions)]
        if taken {
            held::add(self.rank);
        }
        taken
    }

    /// Releases the lock.
    ///
    /// # Safety
    ///
    /// The lock is held, and whatever it protects is left in order: the caller, or the goroutine that the
    /// caller continues, took it on this thread.
    #[inline(always)]
    pub(crate) unsafe fn unlock(&self) {
        #[cfg(debug_assertions)]
        held::remove(self.rank);
        // ordering: Release; pairs with the Acquire of the exchange in `take`.
        self.locked.store(false, Ordering::Release);
        #[cfg(loom)]
        self.asleep.wake_all();
    }

    /// Whether somebody holds the lock right now. For assertions.
    #[inline]
    pub(crate) fn is_locked(&self) -> bool {
        // ordering: Relaxed; an answer that may be outdated publishes nothing.
        self.locked.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn take(&self) -> bool {
        // ordering: Acquire; pairs with the Release store in `unlock`. Relaxed on failure: nothing was
        // taken, so nothing of the holder's may be read.
        self.locked
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    #[inline(never)]
    #[cfg(not(loom))]
    fn wait(&self) {
        let mut spins = 0;
        let mut since = None;
        loop {
            // Reading first keeps the cache line shared while it is of no use to own it.
            if !self.is_locked() && self.take() {
                return;
            }
            spins += 1;
            if spins < SPINS_BEFORE_YIELD {
                hint::spin_loop();
            } else {
                spins = 0;
                crate::sys::thread::sched_yield();
                if is_child_of_fork() {
                    let since = *since.get_or_insert_with(Instant::now);
                    if since.elapsed() > LONGEST_IN_CHILD {
                        fatal!(
                            "the runtime is used in a child that `fork` made while another thread had one of its locks: \
                             until the child calls `exec` or `_exit` it may run code of the program alone"
                        );
                    }
                }
            }
        }
    }

    #[cfg(loom)]
    fn wait(&self) {
        self.asleep.sleep_until(|| self.take());
    }
}

impl fmt::Debug for Spin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spin")
            .field("locked", &self.is_locked())
            .finish_non_exhaustive()
    }
}

/// A [`Spin`] with the data it protects.
pub(crate) struct SpinLock<T> {
    lock: Spin,
    data: UnsafeCell<T>,
}

// SAFETY: the data moves to the thread that takes the lock, one at a time, so `T: Send` is enough.
unsafe impl<T: Send> Sync for SpinLock<T> {}
// SAFETY: whoever owns the lock owns the data.
unsafe impl<T: Send> Send for SpinLock<T> {}

impl<T> SpinLock<T> {
    const_unless_loom! {
        /// A free lock of this rank around `data`.
        pub(crate) fn new(rank: Rank, data: T) -> SpinLock<T> {
            SpinLock { lock: Spin::new(rank), data: UnsafeCell::new(data) }
        }
    }

    /// Waits until the lock is free and takes it. Drop the guard on the same thread and before the goroutine
    /// parks.
    #[inline]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        self.lock.lock();
        SpinGuard {
            owner: self,
            not_send: std::marker::PhantomData,
        }
    }

    #[cfg_attr(not(test), allow(dead_code, reason = "what tests look at"))]
    /// Takes the lock if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.lock.try_lock().then(|| SpinGuard {
            owner: self,
            not_send: std::marker::PhantomData,
        })
    }
}

impl<T> fmt::Debug for SpinLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The data is not shown: a debugger's view must not wait for a lock.
        f.debug_struct("SpinLock")
            .field("lock", &self.lock)
            .finish_non_exhaustive()
    }
}

impl<'a, T> SpinGuard<'a, T> {
    /// Leaves the lock taken: whoever gets it releases it, on this thread.
    pub(crate) fn hand_over(self) -> &'a Spin {
        let lock = &self.owner.lock;
        std::mem::forget(self);
        lock
    }
}

/// Access to what a [`SpinLock`] protects; dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct SpinGuard<'a, T> {
    owner: &'a SpinLock<T>,
    /// INV-LOCK-2: the guard stays on its thread.
    not_send: std::marker::PhantomData<*const ()>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists while the lock is held, so nobody else has a reference to the data but
        // through this guard, whose borrow the result carries.
        self.owner.data.with(|data| unsafe { &*data })
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        self.owner.data.with_mut(|data| unsafe { &mut *data })
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was made by taking the lock on this thread (it cannot move to another).
        unsafe { self.owner.lock.unlock() };
    }
}

/// Says how to find out whether the calling thread, an M, is inside the runtime; `None` when it is no M any
/// more. Debug builds ask: INV-LOCK-3.
pub(crate) fn watch_sections(is_inside: Option<fn() -> bool>) {
    #[cfg(debug_assertions)]
    section::IS_INSIDE.set(is_inside);
    #[cfg(not(debug_assertions))]
    let _ = is_inside;
}

/// Whether the calling thread may be stopped at any instruction: debug builds only.
#[cfg(debug_assertions)]
mod section {
    use super::Rank;
    use crate::fatal::fatal;
    use std::cell::Cell;

    thread_local! {
        pub(super) static IS_INSIDE: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
    }

    /// INV-LOCK-3. Never inlined: INV-LOCK-2.
    #[inline(never)]
    pub(super) fn check(rank: Rank) {
        if IS_INSIDE.get().is_some_and(|is_inside| !is_inside()) {
            fatal!("lock order: takes {rank:?} on an M that is not in a section of the runtime");
        }
    }
}

/// The ranks that the calling thread holds: debug builds only.
#[cfg(debug_assertions)]
mod held {
    use super::Rank;
    use crate::fatal::fatal;
    use std::cell::Cell;

    const RANKS: [Rank; 6] = [
        Rank::Cycle,
        Rank::Channel,
        Rank::Timers,
        Rank::Sched,
        Rank::StackPool,
        Rank::Trace,
    ];

    thread_local! {
        /// How many locks of each rank. No destructor, so it works at any time of a thread's life.
        static HELD: Cell<[u8; RANKS.len()]> = const { Cell::new([0; RANKS.len()]) };
    }

    /// Never inlined: INV-LOCK-2.
    #[inline(never)]
    fn get() -> [u8; RANKS.len()] {
        HELD.get()
    }

    /// Never inlined: INV-LOCK-2.
    #[inline(never)]
    fn set(counts: [u8; RANKS.len()]) {
        HELD.set(counts);
    }

    /// INV-LOCK-1 and INV-LOCK-3 for a thread that is about to wait for a lock of `rank`.
    pub(super) fn check(rank: Rank) {
        super::section::check(rank);
        let counts = get();
        for held in RANKS.into_iter().rev().take_while(|held| *held >= rank) {
            if counts[held as usize] > 0 && !(held == rank && rank.may_nest()) {
                fatal!("lock order: takes {rank:?} while holding {held:?}, which comes after it");
            }
        }
    }

    pub(super) fn add(rank: Rank) {
        let mut counts = get();
        counts[rank as usize] += 1;
        set(counts);
    }

    pub(super) fn remove(rank: Rank) {
        let mut counts = get();
        match counts[rank as usize].checked_sub(1) {
            Some(left) => counts[rank as usize] = left,
            None => fatal!("lock order: releases {rank:?}, which this thread does not hold"),
        }
        set(counts);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::test_child;
    use std::sync::Arc;

    /// A thread that has a lock is not in a child that `fork` makes meanwhile.
    #[test]
    fn a_lock_of_a_thread_that_fork_left_behind_ends_the_child() {
        const NAME: &str = "lock::tests::a_lock_of_a_thread_that_fork_left_behind_ends_the_child";
        if test_child::requested_case().is_some() {
            crate::sys::thread::call_in_children(|| ()).unwrap();
            static LOCK: Spin = Spin::new(Rank::Sched);
            std::thread::spawn(|| LOCK.lock()).join().unwrap();
            // SAFETY: the child takes a lock and ends.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                LOCK.lock();
                // SAFETY: it ends here.
                unsafe { libc::_exit(7) };
            }
            let mut status = 0;
            // SAFETY: the child is ours, and the status is there.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert_eq!(libc::WTERMSIG(status), libc::SIGABRT);
            return;
        }
        let output = test_child::run(NAME, "fork");
        let text = test_child::stderr(&output);
        assert!(output.status.success(), "{text}");
        let message = "fatal error: the runtime is used in a child that `fork` made while another thread had one of its";
        assert!(text.contains(message), "{text}");
    }

    #[test]
    fn one_thread_at_a_time_changes_the_data() {
        const THREADS: usize = 4;
        const ROUNDS: usize = 20_000;
        let total = Arc::new(SpinLock::new(Rank::Sched, 0_usize));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let total = Arc::clone(&total);
                std::thread::spawn(move || {
                    for _ in 0..ROUNDS {
                        *total.lock() += 1;
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*total.lock(), THREADS * ROUNDS);
    }

    #[test]
    fn a_held_lock_cannot_be_tried() {
        let lock = SpinLock::new(Rank::Sched, ());
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn ascending_ranks_and_nested_channels_are_in_order() {
        let channels = [Spin::new(Rank::Channel), Spin::new(Rank::Channel)];
        let sched = SpinLock::new(Rank::Sched, ());
        channels[0].lock();
        channels[1].lock();
        let guard = sched.lock();
        // Out of order, but it does not wait.
        let timers = Spin::new(Rank::Timers);
        assert!(timers.try_lock());
        // SAFETY: all three were taken above, on this thread.
        unsafe {
            channels[0].unlock();
            timers.unlock();
            channels[1].unlock();
        }
        drop(guard);
        channels[0].lock();
        assert!(channels[0].is_locked());
        // SAFETY: taken above.
        unsafe { channels[0].unlock() };
    }

    /// The end of a process that breaks a rule of locks; what it wrote.
    #[cfg(debug_assertions)]
    fn broken(case: &str) -> String {
        let output = test_child::run("lock::tests::breaking_the_order_is_fatal", case);
        assert_eq!(test_child::signal(&output), Some(6), "{output:?}");
        test_child::stderr(&output)
    }

    #[test]
    #[cfg(debug_assertions)]
    fn breaking_the_order_is_fatal() {
        match test_child::requested_case().as_deref() {
            Some("descending") => {
                let (sched, channel) = (Spin::new(Rank::Sched), Spin::new(Rank::Channel));
                sched.lock();
                channel.lock();
            }
            Some("equal") => {
                let (one, other) = (Spin::new(Rank::Sched), Spin::new(Rank::Sched));
                one.lock();
                other.lock();
            }
            Some("not held") => {
                // SAFETY: it is not held: that is the case, and the check comes before the store.
                unsafe { Spin::new(Rank::Trace).unlock() };
            }
            Some("outside") => {
                watch_sections(Some(|| false));
                Spin::new(Rank::Sched).lock();
            }
            _ => {
                let text = broken("descending");
                assert!(
                    text.contains("fatal error: lock order: takes Channel while holding Sched"),
                    "{text}"
                );
                assert!(broken("equal").contains("takes Sched while holding Sched"));
                assert!(broken("not held").contains("releases Trace, which this thread"));
                assert!(broken("outside").contains("takes Sched on an M that is not in a section"));
            }
        }
    }
}
