//! How many Ps are idle and how many Ms look for work, and the protocol by which no work is left waiting
//! while a P is idle.
//!
//! An M *spins* when it has a P and looks for work that it does not know of. Work that is submitted wakes
//! an M only if nobody spins, and a spinning M that finds work wakes the next one: waking is a chain, one
//! at a time, so that a burst of work neither wakes everybody nor nobody.
//!
//! # Protocol
//!
//! Whoever submits work (makes a goroutine runnable):
//!
//! 1. puts it into a queue,
//! 2. **SubmitFence**,
//! 3. reads the counters: is a P idle and does nobody spin? Then it claims to be the one that wakes (a
//!    spinning M more), takes an idle P under the scheduler's lock and gives it to an M.
//!
//! An M that finds no work:
//!
//! 1. releases its P under the scheduler's lock (an idle P more),
//! 2. if it was spinning, stops (a spinning M less),
//! 3. **SleepFence**,
//! 4. looks at every queue once more. If there is something, it takes an idle P and spins; else it sleeps.
//!
//! # Why nothing is left waiting
//!
//! Submitting is frequent and going to sleep is rare, so SubmitFence is a compiler fence and SleepFence a
//! membarrier, where the kernel has one; else, and in the models, both are full fences.
//!
//! Both fences are sequentially consistent, so of a submission and an M that goes to sleep one comes
//! first. If SubmitFence is first, the M sees the work in its last look. If SleepFence is first, the
//! submitter sees the idle P and that this M does not spin; what can still keep it from waking somebody is
//! another M that spins. That M has yet to pass its own step 2, so its SleepFence comes after the
//! SubmitFence, and it sees the work; or it is one whose waking has been claimed and comes to nothing (no
//! P was idle any more): such a claim is withdrawn *under the scheduler's lock*, where the lack of an idle
//! P was seen, so whoever releases a P later does it after the claim is gone, and a submitter that sees
//! that P does not see the claim.
//!
//! An M looks at all queues before it sleeps whether it was spinning or not. Go saves that look for Ms that
//! did not spin, and pays with a check of `needspinning` at every release.
//!
//! The models in this file's tests search for a counterexample, with the real run queues.
//!
//! # Not here
//!
//! The lists of idle Ps and Ms, and parking: under the scheduler's lock, elsewhere.

use crate::prim::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::prim::const_unless_loom;
use crate::sys::memory_barrier::Fences;
use std::fmt;

/// The counters, shared by all Ps.
///
/// Idle Ps and spinning Ms are two halves of one word, so that a submitter reads both at one moment.
pub(crate) struct IdleCounters {
    word: AtomicU32,
    need_spinning: AtomicBool,
    fences: Fences,
}

/// The two halves of the word: idle Ps above [`IDLE_SHIFT`], spinning Ms below.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u32);

const IDLE_SHIFT: u32 = 16;
const ONE_IDLE: u32 = 1 << IDLE_SHIFT;
const ONE_SPINNING: u32 = 1;
const SPINNING_MASK: u32 = ONE_IDLE - 1;
const IDLE_MASK: u32 = !SPINNING_MASK;

/// No half can overflow: there is at most one spinning M for each P and one that a waker has claimed.
const _: () = assert!(crate::procs::MAX_PROCS + 1 < ONE_IDLE as usize);

impl Word {
    fn idle(self) -> u32 {
        (self.0 & IDLE_MASK) >> IDLE_SHIFT
    }

    fn spinning(self) -> u32 {
        self.0 & SPINNING_MASK
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} idle, {} spinning", self.idle(), self.spinning())
    }
}

impl fmt::Debug for IdleCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleCounters")
            .field("word", &self.word())
            .field("need_spinning", &self.need_spinning())
            .finish()
    }
}

impl IdleCounters {
    const_unless_loom! {
        /// No P is idle and no M spins. SubmitFence is the frequent one of `fences`, SleepFence the rare
        /// one.
        pub(crate) fn new(fences: Fences) -> IdleCounters {
            IdleCounters {
                word: AtomicU32::new(0),
                need_spinning: AtomicBool::new(false),
                fences,
            }
        }
    }

    /// How many Ps are idle. Outdated as soon as it is known, except under the scheduler's lock.
    #[inline]
    pub(crate) fn idle_ps(&self) -> u32 {
        self.word().idle()
    }

    /// How many Ms spin. Outdated as soon as it is known.
    #[inline]
    pub(crate) fn spinning_ms(&self) -> u32 {
        self.word().spinning()
    }

    #[inline]
    fn word(&self) -> Word {
        // ordering: Relaxed; the fences of the protocol order it where that matters.
        Word(self.word.load(Ordering::Relaxed))
    }

    /// After work was put into a queue: whether the caller must wake an M for it.
    ///
    /// `true` is a claim: one more M counts as spinning, and nobody else wakes one meanwhile. The caller
    /// takes an idle P and gives it to an M that starts out spinning, or withdraws the claim by
    /// [`cancel_wake`](Self::cancel_wake) under the same lock that showed it that no P is idle.
    #[inline]
    #[must_use]
    pub(crate) fn submit_needs_wake(&self) -> bool {
        // fence: SubmitFence; pairs with SleepFence in `recheck_before_sleep`.
        self.fences.frequent();
        let word = self.word();
        word.idle() != 0 && word.spinning() == 0 && self.claim_wake()
    }

    /// Claims to be the one that wakes, unless somebody spins or no P is idle by now.
    #[cold]
    fn claim_wake(&self) -> bool {
        let mut seen = self.word();
        while seen.idle() != 0 && seen.spinning() == 0 {
            // ordering: Relaxed; what the woken M must see comes to it by the lock and the parking. A
            // failure that shows somebody spinning is as good as having read it in the first place: the
            // fence came before.
            match self.word.compare_exchange_weak(
                seen.0,
                seen.0 + ONE_SPINNING,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => seen = Word(now),
            }
        }
        false
    }

    /// For a P that is handed on: whether nobody spins and no P is idle, so that nobody would find what is
    /// submitted next (Go's `handoffp`). `true` counts the M that gets the P as spinning. Under the
    /// scheduler's lock.
    #[must_use]
    pub(crate) fn claim_if_nobody_looks(&self) -> bool {
        // ordering: Relaxed, as in `claim_wake`.
        self.word
            .compare_exchange(0, ONE_SPINNING, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Withdraws the claim of [`submit_needs_wake`](Self::submit_needs_wake), because no P is idle any
    /// more, and notes that one was wanted. Under the scheduler's lock, the same section that found none.
    pub(crate) fn cancel_wake(&self) {
        self.set_need_spinning();
        self.stop_spinning();
    }

    /// Whether the calling M, which has a P and found nothing, may spin: at most half of the busy Ps' Ms
    /// do, since more find nothing but each other. `procs` is the number of Ps. `true` counts it.
    #[must_use]
    pub(crate) fn begin_spinning(&self, procs: u32) -> bool {
        let word = self.word();
        // Two that look at once may both go: the limit saves effort, nothing depends on it.
        let may = 2 * word.spinning() < procs.saturating_sub(word.idle());
        if may {
            self.resume_spinning();
        }
        may
    }

    /// Counts the calling M as spinning without asking: it knows of work. It has a P.
    pub(crate) fn resume_spinning(&self) {
        // ordering: Relaxed; being seen late only makes somebody wake one M more.
        let before = Word(self.word.fetch_add(ONE_SPINNING, Ordering::Relaxed));
        debug_assert!(before.spinning() < SPINNING_MASK, "{before:?}");
    }

    /// A spinning M found work and is going to run it. Returns what
    /// [`submit_needs_wake`](Self::submit_needs_wake) does: if it was the only one, another must look on
    /// for it, since work may have been submitted while nobody was woken because of it.
    #[must_use]
    pub(crate) fn end_spinning_with_work(&self) -> bool {
        self.stop_spinning();
        self.submit_needs_wake()
    }

    /// An M that found no work and has released its P stops spinning (if it was) and passes the fence.
    /// The caller must look at every queue, and every other source of work, *after* this and before it
    /// sleeps.
    pub(crate) fn recheck_before_sleep(&self, was_spinning: bool) {
        if was_spinning {
            self.stop_spinning();
        }
        // fence: SleepFence; pairs with SubmitFence in `submit_needs_wake`.
        self.fences.rare();
    }

    fn stop_spinning(&self) {
        // ordering: Relaxed; each caller has a fence after it or holds the lock.
        let before = Word(self.word.fetch_sub(ONE_SPINNING, Ordering::Relaxed));
        debug_assert!(before.spinning() > 0, "{before:?}");
    }

    /// A P was put into the list of idle ones. Under the scheduler's lock.
    pub(crate) fn p_became_idle(&self) {
        // ordering: Relaxed; the fence of the protocol comes after it.
        let before = Word(self.word.fetch_add(ONE_IDLE, Ordering::Relaxed));
        debug_assert!(before.idle() < IDLE_MASK >> IDLE_SHIFT, "{before:?}");
    }

    /// A P was taken from the list of idle ones. Under the scheduler's lock.
    pub(crate) fn p_left_idle(&self) {
        // ordering: Relaxed; the list itself is under the lock, and a submitter that still counts the P
        // withdraws its claim there.
        let before = Word(self.word.fetch_sub(ONE_IDLE, Ordering::Relaxed));
        debug_assert!(before.idle() > 0, "{before:?}");
    }

    /// Whether somebody wanted an idle P and found none since the flag was taken last.
    pub(crate) fn need_spinning(&self) -> bool {
        // ordering: Relaxed; a hint.
        self.need_spinning.load(Ordering::Relaxed)
    }

    /// Notes that an M should look once more before it releases its P: somebody found no idle P for work
    /// that it knows of.
    pub(crate) fn set_need_spinning(&self) {
        // ordering: Relaxed; a hint.
        self.need_spinning.store(true, Ordering::Relaxed);
    }

    /// Takes the note: the caller spins instead of releasing its P. Under the scheduler's lock.
    #[must_use]
    pub(crate) fn take_need_spinning(&self) -> bool {
        let needed = self.need_spinning();
        if needed {
            // ordering: Relaxed; a hint.
            self.need_spinning.store(false, Ordering::Relaxed);
        }
        needed
    }
}

#[cfg(test)]
#[path = "idle_tests.rs"]
mod tests;
