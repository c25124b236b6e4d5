//! The word of a mutex and the protocol around it: who gets the lock, who waits, who is woken.
//!
//! # Two modes
//!
//! In *normal* mode an unlocked mutex belongs to whoever takes it first. A waiter that is woken competes
//! with those who come by, and mostly loses: they run already. That is what makes it fast, because a lock
//! need not stay unused while its next owner is brought onto a processor. A woken waiter that loses
//! goes to the front of the queue.
//!
//! A waiter that lost after it had waited for a millisecond makes the mutex *starving*: from now on
//! the lock is handed from its owner to the first waiter, and those who come by queue at the end. The first
//! waiter that got it sooner than that, or the last one of the queue, ends the mode.
//!
//! # The word
//!
//! * `LOCKED`: somebody owns it.
//! * `QUEUED`: somebody waits. Changed under the lock of the queue only.
//! * `AWAKE`: somebody who waited or was about to, one at a time, competes: an unlock wakes nobody else.
//! * `STARVING`: the lock is handed over. Changed under the lock of the queue only.
//!
//! # Why nobody waits at a lock that is free
//!
//! A waiter sets `QUEUED` in one step with seeing that the lock is owned, or about to be handed over. So
//! whoever unlocks after that sees it, and settles the matter under the lock of the queue: hands over, or
//! wakes the first one unless somebody is `AWAKE`. Whoever is `AWAKE` takes the lock, and will unlock it in
//! turn; or finds it owned and queues, giving up `AWAKE` in one step with seeing the owner.

use std::panic::Location;

use crate::prim::atomic::{AtomicU32, Ordering};
use crate::prim::const_unless_loom;
use crate::sched::critical;
use crate::sched::g::{Wait, WaitReason};
use crate::sched::refs::GRef;

use super::spin;
use super::waiters::{self, Locked, Place, Waiter, Waiters, Wake};

const LOCKED: u32 = 1;
const QUEUED: u32 = 2;
const AWAKE: u32 = 4;
const STARVING: u32 = 8;

/// Granted to a waiter: it may compete, and is the one who is `AWAKE`.
const MAY_COMPETE: u32 = 1;
/// Granted to a waiter: it owns the lock.
const OWNS: u32 = 2;

/// How long a waiter may lose, as in Go.
#[cfg(not(loom))]
const PATIENCE_NS: u64 = 1_000_000;

/// A lock without data.
#[derive(Debug)]
pub(super) struct RawMutex {
    word: AtomicU32,
    waiters: Waiters<()>,
    #[cfg(loom)]
    model: Model,
}

/// What a model needs beside the lock.
#[cfg(loom)]
#[derive(Debug)]
struct Model {
    /// A model has no clock: 0 makes every loser starve, more makes none.
    patience_ns: u64,
    hand_overs: crate::prim::process_wide::AtomicUsize,
}

/// One call of `lock` that has to wait.
#[derive(Debug)]
struct Attempt {
    me: Option<GRef>,
    /// Whether it is the one who is `AWAKE`.
    awake: bool,
    /// When it first queued.
    since: Option<u64>,
    spins: u32,
    site: &'static Location<'static>,
}

impl RawMutex {
    const_unless_loom! {
        /// An unlocked one.
        pub(super) fn new() -> RawMutex {
            RawMutex {
                word: AtomicU32::new(0),
                waiters: Waiters::new(()),
                #[cfg(loom)]
                model: Model { patience_ns: u64::MAX, hand_overs: 0.into() },
            }
        }
    }

    /// One in which every waiter that loses starves.
    #[cfg(all(test, loom))]
    pub(super) fn impatient() -> RawMutex {
        let mut mutex = RawMutex::new();
        mutex.model.patience_ns = 0;
        mutex
    }

    /// How often it was handed over.
    #[cfg(all(test, loom))]
    pub(super) fn hand_overs(&self) -> usize {
        // ordering: Relaxed: asked when all others have ended.
        self.model.hand_overs.load(Ordering::Relaxed)
    }

    /// Whether nobody owns it, waits or competes.
    #[cfg(all(test, loom))]
    pub(super) fn is_idle(&self) -> bool {
        // ordering: Relaxed: asked when all others have ended.
        self.word.load(Ordering::Relaxed) == 0 && self.waiters.lock().queue.is_empty()
    }

    #[cfg(not(loom))]
    fn patience_ns(&self) -> u64 {
        PATIENCE_NS
    }

    #[cfg(loom)]
    fn patience_ns(&self) -> u64 {
        self.model.patience_ns
    }

    /// Takes the lock if it is free and nobody starves.
    #[inline(always)]
    pub(super) fn try_lock(&self) -> bool {
        // ordering: Relaxed: the exchange decides.
        let seen = self.word.load(Ordering::Relaxed);
        seen & (LOCKED | STARVING) == 0 && self.take(seen, false)
    }

    /// Takes the lock, waiting for it at `site` if need be.
    #[inline(always)]
    pub(super) fn lock(&self, site: &'static Location<'static>) {
        // ordering: Acquire; pairs with the Release in `unlock`. Relaxed on failure: nothing was taken.
        let taken = self
            .word
            .compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            self.lock_slowly(site);
        }
    }

    /// Releases the lock. Never waits.
    ///
    /// # Safety
    /// The caller owns it.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self) {
        // ordering: Release; pairs with the Acquire of whoever takes the lock next.
        let before = self.word.fetch_sub(LOCKED, Ordering::Release);
        if before != LOCKED {
            self.unlock_slowly(before);
        }
    }

    /// Whether somebody owns it, a moment ago.
    pub(super) fn is_locked(&self) -> bool {
        // ordering: Relaxed: an answer that may be outdated publishes nothing.
        self.word.load(Ordering::Relaxed) & LOCKED != 0
    }

    /// Takes the lock, if the word still is `seen`, in which it is free; gives up `AWAKE` if it had that.
    #[inline(always)]
    fn take(&self, seen: u32, awake: bool) -> bool {
        let then = (seen | LOCKED) & if awake { !AWAKE } else { !0 };
        // ordering: Acquire; pairs with the Release in `unlock`. Relaxed on failure: nothing was taken.
        self.word
            .compare_exchange(seen, then, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Changes the word from `seen`. Of bits that order nothing by themselves.
    fn change(&self, seen: u32, then: u32) -> bool {
        // ordering: Relaxed: no owner changes; what waiters see of one another goes through the queue's lock.
        self.word
            .compare_exchange(seen, then, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly(&self, site: &'static Location<'static>) {
        if let Some((me, since)) = self.take_slowly(site) {
            me.sched.count_mutex_wait(now().saturating_sub(since));
        }
    }

    /// Takes the lock; if a goroutine had to wait for it, which one and since when.
    fn take_slowly(&self, site: &'static Location<'static>) -> Option<(GRef, u64)> {
        let mut attempt = Attempt {
            me: waiters::me(),
            awake: false,
            since: None,
            spins: 0,
            site,
        };
        let _section = critical::enter_to_wait_if(attempt.me);
        loop {
            // ordering: Relaxed: the exchange decides.
            let seen = self.word.load(Ordering::Relaxed);
            if seen & (LOCKED | STARVING) == 0 {
                if self.take(seen, attempt.awake) {
                    return attempt.me.zip(attempt.since);
                }
            } else if seen & STARVING == 0 && spin::may_help(attempt.me, attempt.spins) {
                // While it spins nobody else need be woken.
                if !attempt.awake && seen & (QUEUED | AWAKE) == QUEUED {
                    attempt.awake = self.change(seen, seen | AWAKE);
                }
                attempt.spins += 1;
                spin::once();
            } else if self.queue(&mut attempt) {
                return attempt.me.zip(attempt.since);
            }
        }
    }

    /// Queues, and waits until it is woken; true when it owns the lock then.
    fn queue(&self, attempt: &mut Attempt) -> bool {
        let now = now();
        let place = if attempt.since.is_some() {
            Place::First
        } else {
            Place::Last
        };
        let since = *attempt.since.get_or_insert(now);
        let starves = place == Place::First && now.saturating_sub(since) >= self.patience_ns();
        let locked = self.waiters.lock();
        loop {
            // ordering: Relaxed: the exchange decides.
            let seen = self.word.load(Ordering::Relaxed);
            if seen & (LOCKED | STARVING) == 0 {
                if self.take(seen, attempt.awake) {
                    return true;
                }
                continue;
            }
            let mut then = seen | QUEUED;
            if attempt.awake {
                then &= !AWAKE;
            }
            if starves {
                then |= STARVING;
            }
            if self.change(seen, then) {
                break;
            }
        }
        let waiter = Waiter::new(attempt.me, since);
        let wait = Wait {
            reason: WaitReason::MutexLock,
            object: std::ptr::from_ref(self) as usize as u64,
            site: attempt.site,
        };
        let granted = self
            .waiters
            .wait(locked, &waiter, place, wait, |locked, granted| {
                self.cancelled(locked, granted);
            });
        attempt.awake = true;
        attempt.spins = 0;
        granted == OWNS
    }

    #[cold]
    #[inline(never)]
    fn unlock_slowly(&self, before: u32) {
        if before & STARVING != 0 || before & (QUEUED | AWAKE) == QUEUED {
            let _section = critical::enter_if(waiters::me());
            self.settle(self.waiters.lock());
        }
    }

    /// Does what is due under the lock of the queue: hands the mutex over, or wakes the first waiter, or
    /// neither.
    fn settle(&self, mut locked: Locked<'_, ()>) {
        let wake = loop {
            // ordering: Relaxed: the exchange decides.
            let seen = self.word.load(Ordering::Relaxed);
            if seen & LOCKED != 0 || seen & QUEUED == 0 {
                break None; // its owner will come here, or there is nobody to serve
            }
            let rest = if locked.queue.has_one() {
                seen & !QUEUED
            } else {
                seen
            };
            if seen & STARVING != 0 {
                if let Some(wake) = self.hand_over(&mut locked, seen, rest) {
                    break Some(wake);
                }
            } else if seen & AWAKE != 0 {
                break None;
            } else if self.change(seen, rest | AWAKE) {
                break locked.queue.grant_first(waiters::me(), MAY_COMPETE);
            }
        };
        drop(locked);
        if let Some(wake) = wake {
            wake.wake();
        }
    }

    /// Makes the first waiter the owner; `rest` is the word without it. `None` if the word has changed.
    fn hand_over(&self, locked: &mut Locked<'_, ()>, seen: u32, rest: u32) -> Option<Wake> {
        let since = locked.queue.first()?.note();
        let goes_on = rest & QUEUED != 0 && now().saturating_sub(since) >= self.patience_ns();
        let then = LOCKED | if goes_on { rest } else { rest & !STARVING };
        // ordering: Acquire; pairs with the Release in `unlock`: the owner that ran before this one may not
        // be the caller. The new owner learns it through what it is granted. Relaxed on failure: tried again.
        self.word
            .compare_exchange(seen, then, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        #[cfg(loom)]
        // ordering: Relaxed: a count.
        self.model.hand_overs.fetch_add(1, Ordering::Relaxed);
        locked.queue.grant_first(waiters::me(), OWNS)
    }

    /// A waiter was unwound; what it had been granted is given on.
    fn cancelled(&self, locked: Locked<'_, ()>, granted: Option<u32>) {
        match granted {
            Some(OWNS) => {
                // ordering: Release, as in `unlock`.
                self.word.fetch_sub(LOCKED, Ordering::Release);
            }
            Some(_) => {
                // ordering: Relaxed, as in `change`.
                self.word.fetch_and(!AWAKE, Ordering::Relaxed);
            }
            None if locked.queue.is_empty() => {
                // ordering: Relaxed, as in `change`.
                self.word.fetch_and(!(QUEUED | STARVING), Ordering::Relaxed);
            }
            None => {}
        }
        self.settle(locked);
    }
}

/// The time by which waits are measured.
fn now() -> u64 {
    #[cfg(not(loom))]
    return crate::sys::clock::monotonic_ns();
    #[cfg(loom)]
    0
}
