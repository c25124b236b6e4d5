//! Sections of the runtime: what every call of a goroutine into it holds from its first step to its last.
//!
//! The goroutine is marked as being inside: see [`sched::mark`](crate::sched::mark) for how.
//!
//! # Rules of a section
//!
//! A goroutine may be outside with any lock of the program, of std and of libc. Whoever waits for one inside
//! a section waits with a P, perhaps the one that the owner of the lock needs. So in a section nothing
//! allocates or frees, prints, takes a lock of std, unwinds, or calls code of the program; it takes spin
//! locks only, and those are taken in sections only (debug builds look).
//!
//! A goroutine that is unwound while it waits, at the end of the scheduler, is the exception: no other runs
//! then.
//!
//! # Two kinds
//!
//! Where a section ends the goroutine may have to give up its P. A call that says that it blocks the goroutine
//! may come back on another thread, so there it yields ([`enter_to_wait`]). One that does not say so must not
//! move it, so there it is frozen ([`enter`]).

use std::marker::PhantomData;

use crate::sched::refs::GRef;
use crate::sched::{fuzz, park, preempt};

/// A section of the goroutine `g`; it ends when this is dropped. `MOVES`: the goroutine may be on another M
/// then than it was.
#[derive(Debug)]
pub(crate) struct Section<const MOVES: bool> {
    g: GRef,
    /// It ends on the goroutine that it began on.
    not_send: PhantomData<*const ()>,
}

/// Begins a section of `g`, the goroutine of the caller, in a call that leaves it where it is.
#[inline(always)]
#[must_use]
pub(crate) fn enter(g: GRef) -> Section<false> {
    Section::begin(g)
}

/// Begins a section of `g`, the goroutine of the caller, in a call that may move it to another thread.
#[inline(always)]
#[must_use]
pub(crate) fn enter_to_wait(g: GRef) -> Section<true> {
    Section::begin(g)
}

/// [`enter`] if the caller runs on a goroutine. A plain thread is never stopped by us.
#[inline(always)]
#[must_use]
pub(crate) fn enter_if(me: Option<GRef>) -> Option<Section<false>> {
    me.map(enter)
}

/// [`enter_to_wait`] if the caller runs on a goroutine.
#[inline(always)]
#[must_use]
pub(crate) fn enter_to_wait_if(me: Option<GRef>) -> Option<Section<true>> {
    me.map(enter_to_wait)
}

/// Ends the section in which a goroutine first comes to run.
#[inline(always)]
pub(crate) fn leave_first(g: GRef) {
    // It must not wait in a queue here: nothing catches what ends goroutines that wait when the scheduler ends.
    drop(Section::<false>::of(g));
}

/// Begins the section in which a goroutine ends.
#[inline(always)]
pub(crate) fn enter_last(g: GRef) {
    std::mem::forget(enter(g));
}

impl<const MOVES: bool> Section<MOVES> {
    #[inline(always)]
    fn of(g: GRef) -> Section<MOVES> {
        Section {
            g,
            not_send: PhantomData,
        }
    }

    #[inline(always)]
    fn begin(g: GRef) -> Section<MOVES> {
        g.mark.enter();
        Section::of(g)
    }
}

impl<const MOVES: bool> Drop for Section<MOVES> {
    #[inline(always)]
    fn drop(&mut self) {
        if fuzz::ON && MOVES {
            park::perturb(self.g);
        }
        if self.g.mark.leave() {
            preempt::comply(self.g, MOVES);
        }
    }
}
