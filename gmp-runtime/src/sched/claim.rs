//! Who may touch the unused part of a suspended goroutine's stack: the claim of a collection cycle.
//!
//! A cycle gives back the pages below the stack pointer of goroutines that wait. Meanwhile others may make
//! such a goroutine runnable and start it, and a goroutine must not run on pages that are being dropped.
//! Starting one is the hottest path there is; a cycle is rare. So the whole cost is on the cycle's side: a
//! start has one load and a branch more.
//!
//! # Protocol
//!
//! Each goroutine has one word, with four values: *free*, *claimed* (somebody would like to drop its pages),
//! *dropping* (somebody does), *awaited* (somebody does, and somebody sleeps until it is done).
//!
//! * **The cycle**, for a batch of goroutines: sets each word to *claimed* · *ClaimFence* · of each, reads the
//!   state, and after it where the goroutine is suspended (`Context::in_use_from`). If the state is *waiting*
//!   and the place is not empty, it exchanges *claimed* for *dropping*; where that succeeds, it drops the pages
//!   below the place, and frees the word. Everything else it frees at once.
//! * **Whoever starts a goroutine**, having taken it from a queue: sets its state to *running* · *StartFence* ·
//!   reads the word. If it is *claimed*, it takes the claim back: exchanges it for *free*, and goes on at once.
//!   If it is *dropping*, it waits until the word is free: for the rest of one system call.
//! * **A switch** empties the place of the goroutine that it switches to, and fills that of the one it leaves
//!   as the last thing it does on its stack.
//!
//! StartFence is a fence for the compiler only and ClaimFence a membarrier. Where the kernel has none, or a
//! sandbox forbids it, no stack is claimed.
//!
//! # Why no goroutine runs while its pages are dropped
//!
//! Say that the cycle exchanged *claimed* for *dropping*, after it had read *waiting* and a place.
//!
//! 1. *The goroutine had been left when the state was read, or has been left since.* A place is empty from a
//!    start to the end of the next switch away. If the place that was read was older than the last start, then
//!    the cycle would have read it before that start emptied it; but the cycle read the state first, and the
//!    state *waiting* that belongs to that place was followed by *running*, then by the emptying. So either the
//!    state was read before that *running* was written, and then the start came after ClaimFence, which is
//!    the next case; or a later *waiting* was read, which was written after the emptying, and the place that was
//!    read after it is empty or that of the later switch.
//! 2. *Whoever starts it after the state was read sees the claim.* The two fences make it so: a start that wrote
//!    *running* before ClaimFence is seen by the cycle, which reads the state after it, as *running* or as
//!    something later; a start that wrote it after ClaimFence reads the word after that too, and finds *claimed*
//!    or *dropping*. If it found *claimed*, it exchanged it, and the cycle's exchange failed, against the
//!    assumption. So it finds *dropping*, and waits.
//!
//! The exchange is what keeps the wait short: a batch has many claims, and a thread that the kernel has put
//! aside may hold them for long; they bind nobody. Between *dropping* and *free* there is one `madvise`.
//!
//! A goroutine that is frozen by a signal or in a system call is not *waiting*, and goes on without looking at
//! the word, because it cannot become *waiting* without having run.
//!
//! What the cycle did is seen by whoever starts the goroutine after it: every value that the cycle writes is
//! written with Release after it has dropped pages, and read with Acquire.

use crate::prim::atomic::{AtomicU32, Ordering, compiler_fence};
use crate::prim::hint;
use crate::sys::futex;

/// Nobody but its owner has to do with the stack.
const FREE: u32 = 0;
/// A cycle would like to drop pages of it.
const CLAIMED: u32 = 1;
/// A cycle drops pages of it.
const DROPPING: u32 = 2;
/// As [`DROPPING`], and somebody sleeps on the word.
const AWAITED: u32 = 3;

/// How often a start looks at the word before it sleeps: about as long as a `madvise` takes.
const SPINS: u32 = if cfg!(loom) { 1 } else { 200 };

/// The word of one goroutine.
#[derive(Debug)]
pub(crate) struct Claim(AtomicU32);

impl Claim {
    pub(crate) fn new() -> Claim {
        Claim(AtomicU32::new(FREE))
    }

    // ---- whoever starts the goroutine

    /// Waits until nobody touches the stack, after the state says that the goroutine runs.
    #[inline(always)]
    pub(crate) fn yield_to_owner(&self) {
        // ordering: SeqCst, for the compiler only: StartFence; pairs with ClaimFence.
        compiler_fence(Ordering::SeqCst);
        // ordering: Acquire; pairs with the Release in `finish`: the pages are as they will stay.
        if self.0.load(Ordering::Acquire) != FREE {
            self.take_back();
        }
    }

    #[cold]
    #[inline(never)]
    fn take_back(&self) {
        let mut spins = 0;
        loop {
            // ordering: Acquire; pairs with the Release in `finish`.
            match self.0.load(Ordering::Acquire) {
                FREE => return,
                CLAIMED => {
                    // ordering: Acquire; pairs with the Release in `claim`: it may be a later claim than the one
                    // that was read, and pages were dropped between the two. Relaxed on failure: read again.
                    let taken = self.0.compare_exchange(
                        CLAIMED,
                        FREE,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    );
                    if taken.is_ok() {
                        return;
                    }
                }
                _ if spins < SPINS => {
                    spins += 1;
                    hint::spin_loop();
                }
                DROPPING => {
                    // ordering: Relaxed: it only says that somebody sleeps.
                    let _ = self.0.compare_exchange(
                        DROPPING,
                        AWAITED,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                }
                seen => {
                    futex::wait(&self.0, seen, None);
                }
            }
        }
    }

    // ---- the cycle: one at a time

    /// Claims the stack. Comes before ClaimFence.
    pub(crate) fn claim(&self) {
        // ordering: Release; pairs with the Acquire in `take_back`: who takes this claim back has not read
        // the word that `finish` freed before it. Nobody else changes a free word.
        self.0.store(CLAIMED, Ordering::Release);
    }

    /// Begins to drop pages of a goroutine that was seen to wait after ClaimFence; false when whoever starts it
    /// has taken the claim back.
    #[must_use]
    pub(crate) fn begin(&self) -> bool {
        // ordering: Relaxed: what was left on the stack was read with its place.
        self.0
            .compare_exchange(CLAIMED, DROPPING, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives up a claim that was not begun, unless it has been taken back.
    pub(crate) fn withdraw(&self) {
        // ordering: Relaxed: nothing has been done with the stack. Failing says that it is free already.
        let _ = self
            .0
            .compare_exchange(CLAIMED, FREE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The pages are dropped.
    pub(crate) fn finish(&self) {
        // ordering: Release; pairs with the Acquire loads of whoever starts the goroutine.
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            futex::wake(&self.0, u32::MAX);
        }
    }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
