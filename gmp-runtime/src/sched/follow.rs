//! The number of Ps follows the processors and the quota of the process: when somebody looks at them again.
//!
//! Looking reads files, so it is done by a thread of its own, which the monitor wakes once a second while goroutines
//! run (Go: at most once a second). In a program that waits nobody looks.

use crate::prim::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sched::Sched;
use crate::sys::futex;

/// How often somebody looks. Short in unit tests.
const LOOK_NS: u64 = if cfg!(test) { 5_000_000 } else { 1_000_000_000 };

/// Whether the number follows, and the sleep of the thread that looks.
#[derive(Debug, Default)]
pub(crate) struct Follow {
    /// Nobody has said how many Ps there are to be.
    is_on: AtomicBool,
    /// Counts reasons to wake; the word the thread sleeps on.
    word: AtomicU32,
    /// When the monitor woke it last. The monitor's.
    last_look: AtomicU64,
}

impl Follow {
    /// Before the start: the number follows.
    pub(crate) fn begin(&self) {
        // ordering: Relaxed: before the start.
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Somebody has said how many there are to be. Whoever has the turn to stop the world.
    pub(crate) fn end(&self) {
        // ordering: Relaxed: the turn orders it.
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Whether the number follows: a hint, but for whoever has the turn to stop the world.
    pub(crate) fn is_on(&self) -> bool {
        // ordering: Relaxed, as in `end`.
        self.is_on.load(Ordering::Relaxed)
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        // ordering: Release; pairs with the Acquire in `wait`.
        self.word.fetch_add(1, Ordering::Release);
        futex::wake(&self.word, 1);
    }

    /// Has the thread look from time to time. For the monitor, at each round.
    pub(crate) fn poll(&self, now: u64) {
        // ordering: Relaxed: only the monitor uses it.
        if self.is_on() && now - self.last_look.load(Ordering::Relaxed) >= LOOK_NS {
            // ordering: as above.
            self.last_look.store(now, Ordering::Relaxed);
            self.wake();
        }
    }

    /// For the thread: waits until it is to look again. False when it need not any more. `seen` is its own.
    pub(crate) fn wait(&self, sched: &Sched, seen: &mut u32) -> bool {
        loop {
            if sched.stopping() || !self.is_on() {
                return false;
            }
            // ordering: Acquire; pairs with the Release in `wake`.
            let word = self.word.load(Ordering::Acquire);
            if word != std::mem::replace(seen, word) {
                return !sched.stopping();
            }
            futex::wait(&self.word, word, None);
        }
    }
}
