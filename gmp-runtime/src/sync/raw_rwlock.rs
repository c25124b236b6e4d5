//! The word of a read-write lock, and its queue: first come, first served.
//!
//! The word counts the readers, and says whether somebody writes and whether somebody waits. While somebody
//! waits (`QUEUED`, changed under the lock of the queue only) nobody comes in but through the queue. Whoever
//! leaves as the last one then hands the lock over: to the first waiter, or to all readers before the first
//! writer.
//!
//! Nobody waits at a lock that is free: a waiter sets `QUEUED` in one step with seeing that it
//! cannot come in, so the last one to leave sees the bit and admits from the queue.

use std::panic::Location;

use crate::prim::atomic::{AtomicU32, Ordering};
use crate::prim::const_unless_loom;
use crate::sched::critical;
use crate::sched::g::{Wait, WaitReason};

use super::waiters::{self, Locked, Place, Waiter, Waiters};

const WRITER: u32 = 1;
const QUEUED: u32 = 2;
/// One reader; their number is the rest of the word.
const READER: u32 = 4;
/// A reader more would overflow.
const MOST_READERS: u32 = u32::MAX - (READER - 1);

/// Granted to a waiter: the lock is its own.
const ADMITTED: u32 = 1;

/// For what somebody locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Read,
    Write,
}

impl Access {
    /// What a lock of this kind adds to the word.
    #[inline(always)]
    fn unit(self) -> u32 {
        match self {
            Access::Read => READER,
            Access::Write => WRITER,
        }
    }

    /// Whether it can be had beside the locks in `word`, whoever waits.
    #[inline(always)]
    fn fits(self, word: u32) -> bool {
        match self {
            Access::Read => word & WRITER == 0 && word < MOST_READERS,
            Access::Write => word & !QUEUED == 0,
        }
    }

    fn reason(self) -> WaitReason {
        match self {
            Access::Read => WaitReason::RwLockRead,
            Access::Write => WaitReason::RwLockWrite,
        }
    }

    fn of(waiter: &Waiter) -> Access {
        if waiter.note() == u64::from(WRITER) {
            Access::Write
        } else {
            Access::Read
        }
    }
}

/// A read-write lock without data.
#[derive(Debug)]
pub(super) struct RawRwLock {
    word: AtomicU32,
    waiters: Waiters<()>,
}

impl RawRwLock {
    const_unless_loom! {
        /// An unlocked one.
        pub(super) fn new() -> RawRwLock {
            RawRwLock { word: AtomicU32::new(0), waiters: Waiters::new(()) }
        }
    }

    /// Locks if it can be had and nobody waits.
    #[inline(always)]
    pub(super) fn try_lock(&self, access: Access) -> bool {
        // ordering: Relaxed: the exchange decides.
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & QUEUED == 0 && access.fits(seen) {
            match self.take(seen, seen + access.unit()) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Locks, waiting at `site` if need be.
    #[inline(always)]
    #[track_caller]
    pub(super) fn lock(&self, access: Access, site: &'static Location<'static>) {
        if !self.try_lock(access) {
            self.queue(access, site);
        }
    }

    /// Unlocks. Never waits.
    ///
    /// # Safety
    /// The caller has locked it for `access`.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self, access: Access) {
        // ordering: Release; pairs with the Acquire in `take`.
        let before = self.word.fetch_sub(access.unit(), Ordering::Release);
        if before & QUEUED != 0 && before & !QUEUED == access.unit() {
            self.admit();
        }
    }

    /// Turns a lock for writing into one for reading.
    ///
    /// # Safety
    /// The caller has locked it for writing.
    pub(super) unsafe fn downgrade(&self) {
        // ordering: Release; pairs with the Acquire in `take`: readers see what was written.
        let before = self.word.fetch_add(READER - WRITER, Ordering::Release);
        if before & QUEUED != 0 {
            self.admit();
        }
    }

    /// Changes the word from `seen`, taking a lock; what it was, or what it is instead.
    #[inline(always)]
    fn take(&self, seen: u32, then: u32) -> Result<u32, u32> {
        // ordering: Acquire; pairs with the Release in `unlock` and `downgrade`. Relaxed on failure: nothing
        // was taken.
        self.word
            .compare_exchange(seen, then, Ordering::Acquire, Ordering::Relaxed)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn queue(&self, access: Access, site: &'static Location<'static>) {
        let me = waiters::me();
        let section = critical::enter_to_wait_if(me);
        let waiter = Waiter::new(me, u64::from(access.unit()));
        let locked = self.waiters.lock();
        // ordering: Relaxed: the exchange decides.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let comes_in = seen & QUEUED == 0 && access.fits(seen);
            if !comes_in && access == Access::Read && seen >= MOST_READERS {
                drop(locked);
                drop(section);
                panic!("a read-write lock with {} readers", seen / READER);
            }
            let then = if comes_in {
                seen + access.unit()
            } else {
                seen | QUEUED
            };
            match self.take(seen, then) {
                Ok(_) if comes_in => return,
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        let wait = Wait {
            reason: access.reason(),
            object: std::ptr::from_ref(self) as usize as u64,
            site,
        };
        self.waiters
            .wait(locked, &waiter, Place::Last, wait, |locked, granted| {
                self.cancelled(locked, granted, access);
            });
    }

    /// Lets in whoever is at the head of the queue and can come in.
    #[cold]
    #[inline(never)]
    fn admit(&self) {
        let me = waiters::me();
        loop {
            let _section = critical::enter_if(me);
            let mut locked = self.waiters.lock();
            let Some(access) = locked.queue.first().map(Access::of) else {
                return;
            };
            if !self.take_for(access, &locked) {
                return;
            }
            let wake = locked.queue.grant_first(me, ADMITTED);
            drop(locked);
            if let Some(wake) = wake {
                wake.wake();
            }
        }
    }

    /// Takes the lock for the first waiter, if it can come in.
    fn take_for(&self, access: Access, locked: &Locked<'_, ()>) -> bool {
        let last = locked.queue.has_one();
        // ordering: Relaxed: the exchange decides.
        let mut seen = self.word.load(Ordering::Relaxed);
        while access.fits(seen) {
            let rest = if last { seen & !QUEUED } else { seen };
            match self.take(seen, rest + access.unit()) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// A waiter was unwound: what it had been granted is given back, and those behind it may come in.
    fn cancelled(&self, locked: Locked<'_, ()>, granted: Option<u32>, access: Access) {
        if granted.is_some() {
            // ordering: Release, as in `unlock`.
            self.word.fetch_sub(access.unit(), Ordering::Release);
        } else if locked.queue.is_empty() {
            // ordering: Relaxed: nobody's lock changes.
            self.word.fetch_and(!QUEUED, Ordering::Relaxed);
        }
        drop(locked);
        self.admit();
    }
}
