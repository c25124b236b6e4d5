//! Whether a goroutine is inside the runtime.
//!
//! A goroutine runs the program's code until it calls into the runtime, and may be in the middle of
//! anything: in a loop, in C code, in `malloc`. In the runtime it holds spin locks, touches what belongs to
//! its P, and is for a moment half on one stack and half on another. So it has a mark that says where it is.
//!
//! # Protocol
//!
//! The goroutine, at each call into the runtime ([`sched::critical`](crate::sched::critical) has the guard):
//!
//! 1. **enters**: `inside` + 1 · *EnterFence* · reads `taken`. If somebody took its P while it was in the kernel, it
//!    waits for another one ([`sched::implicit`](crate::sched::implicit)).
//! 2. does its work. It may leave its M for another goroutine: it does so inside, and comes back inside,
//!    perhaps on another M. An M without a goroutine is inside, too: it has nothing but runtime to run.
//! 3. **leaves**: *LeaveFence* · `inside` − 1 · *LeaveFence* · reads `request`. If somebody wants its P, it
//!    gives it up ([`sched::preempt`](crate::sched::preempt)).
//!
//! So a goroutine that waits or is runnable is always inside, a new one as well, and sections may be nested.
//!
//! A signal handler runs on the goroutine's own thread, between two of its instructions, so program order is
//! all there is; the fences keep the compiler from moving what belongs into the section across its ends.
//! Inside, it leaves the request for step 3. Outside, it enters in the goroutine's name and does what was
//! requested; if that was between the two halves of step 3, there is no request any more when it is read.
//!
//! A request is for the turn of the goroutine: whoever starts it takes what was left of the last one away. One
//! that is written at that very moment is for nothing, and costs a yield at most.

use crate::prim::atomic::{AtomicBool, AtomicU8, Ordering, compiler_fence};

/// The mark of one goroutine.
#[derive(Debug)]
pub(crate) struct Mark {
    /// Sections that it is in. Written by the goroutine, and by its maker.
    inside: AtomicU8,
    /// Whether its P is wanted. Written by the monitor, taken by the goroutine and whoever starts it.
    request: AtomicBool,
    /// Whether its P was taken while it was outside. Under the scheduler's lock.
    taken: AtomicBool,
}

impl Mark {
    /// Of a goroutine that has not run yet.
    pub(crate) fn new() -> Mark {
        Mark {
            inside: AtomicU8::new(1),
            request: AtomicBool::new(false),
            taken: AtomicBool::new(false),
        }
    }

    /// For a goroutine that is made: it begins inside.
    #[inline(always)]
    pub(crate) fn reset(&self) {
        // ordering: Relaxed: its first M gets it through a queue.
        self.inside.store(1, Ordering::Relaxed);
    }

    /// The goroutine enters; whether its P may have been taken.
    #[inline(always)]
    #[must_use]
    pub(crate) fn enter(&self) -> bool {
        // ordering: Relaxed, both: only the goroutine writes it.
        let sections = self.inside.load(Ordering::Relaxed) + 1;
        // ordering: Relaxed, as above.
        self.inside.store(sections, Ordering::Relaxed);
        // fence: EnterFence, for the handler on this thread; pairs with the membarrier in `implicit::take`.
        compiler_fence(Ordering::SeqCst);
        self.is_taken()
    }

    /// The goroutine leaves; whether its P is wanted, and it is in no other section.
    #[inline(always)]
    pub(crate) fn leave(&self) -> bool {
        // fence: LeaveFence, for the handler on this thread.
        compiler_fence(Ordering::SeqCst);
        // ordering: Relaxed, as in `enter`.
        let sections = self.inside.load(Ordering::Relaxed) - 1;
        // ordering: Release: who sees it sees what was done in the section.
        self.inside.store(sections, Ordering::Release);
        // fence: LeaveFence, as above.
        compiler_fence(Ordering::SeqCst);
        // ordering: Relaxed: a flag; what is done because of it is decided under the scheduler's lock.
        self.request.load(Ordering::Relaxed) && sections == 0
    }

    /// Says that its P is wanted.
    pub(crate) fn request(&self) {
        // ordering: Relaxed, as in `leave`.
        self.request.store(true, Ordering::Relaxed);
    }

    /// Takes the request away; whether there was one.
    #[inline(always)]
    pub(crate) fn take_request(&self) -> bool {
        // ordering: Relaxed, both: as in `leave`.
        let requested = self.request.load(Ordering::Relaxed);
        if requested {
            // ordering: Relaxed, as above.
            self.request.store(false, Ordering::Relaxed);
        }
        requested
    }

    /// Says whether its P was taken. Under the scheduler's lock.
    pub(crate) fn set_taken(&self, taken: bool) {
        // ordering: Relaxed: the membarrier comes after it, or the goroutine reads it under the lock.
        self.taken.store(taken, Ordering::Relaxed);
    }

    /// Whether its P was taken: a hint, except under the scheduler's lock.
    #[inline(always)]
    pub(crate) fn is_taken(&self) -> bool {
        // ordering: Relaxed: after EnterFence; what is done because of it is decided under the lock.
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether it is in the runtime.
    pub(crate) fn is_inside(&self) -> bool {
        // ordering: Acquire; pairs with the Release in `leave`.
        self.inside.load(Ordering::Acquire) != 0
    }
}
