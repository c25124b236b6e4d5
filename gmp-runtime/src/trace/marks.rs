//! What the tracer notes on a goroutine and a P, and the words of its events that the scheduler uses.

#[cfg(feature = "trace")]
pub(crate) use gmp_trace::event::{
    ExitHow, Found, HandoffReason, PreemptReason, Preemption, StealFrom, Waker,
};
#[cfg(feature = "trace")]
pub(crate) use noted::{GoroutineTrace, ProcTrace};
#[cfg(not(feature = "trace"))]
pub(crate) use unnoted::{
    ExitHow, Found, GoroutineTrace, HandoffReason, PreemptReason, Preemption, ProcTrace, StealFrom,
    Waker,
};

/// How a goroutine leaves its M.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    /// It gives up its P and stays runnable.
    Yield,
    /// It was made to give up its P, and stays runnable.
    Preempted,
    /// It waits.
    Park,
    /// It has ended.
    Exit(ExitHow),
}

/// What is noted while a trace can be recorded.
#[cfg(feature = "trace")]
pub(super) mod noted {
    use std::cell::Cell;

    use gmp_trace::write::Seq;

    use crate::prim::atomic::{AtomicU32, Ordering};

    /// No M wrote the last record of a goroutine.
    const NOBODY: u32 = u32::MAX;

    /// What the tracer remembers of a goroutine: its owner's, but for the generation.
    #[derive(Debug, Default)]
    pub(crate) struct GoroutineTrace {
        /// The last generation that touched it. Written under the collector's lock, or at creation.
        generation: AtomicU32,
        /// The number of its last start or ready in that generation.
        pub(crate) sequence: Cell<u32>,
        /// The M that wrote that record.
        writer: Cell<u32>,
    }

    impl GoroutineTrace {
        /// The last generation that touched it.
        #[inline(always)]
        pub(crate) fn generation(&self) -> u32 {
            // ordering: Relaxed: the owner reads what was written before it became the owner; the collector
            // reads under the lock.
            self.generation.load(Ordering::Relaxed)
        }

        /// `generation` has touched it: numbers begin at 0, and the next one is written out.
        pub(crate) fn touch(&self, generation: u32) {
            self.sequence.set(0);
            self.writer.set(NOBODY);
            // ordering: Relaxed, as in `generation`.
            self.generation.store(generation, Ordering::Relaxed);
        }

        /// It was made by the M with this number, of which the lower half is enough to tell it from the next one.
        #[inline(always)]
        pub(crate) fn made_by(&self, m: u64) {
            self.writer.set(m as u32);
        }

        /// The number of the next start or ready, which the M with this number writes.
        #[inline(always)]
        pub(crate) fn next(&self, m: u64) -> Seq {
            self.next_by(m as u32)
        }

        /// As [`GoroutineTrace::next`], for a thread that is no M.
        pub(crate) fn next_from_outside(&self) -> Seq {
            self.next_by(NOBODY - 1)
        }

        #[inline(always)]
        fn next_by(&self, m: u32) -> Seq {
            let sequence = self.sequence.get() + 1;
            self.sequence.set(sequence);
            if self.writer.replace(m) == m {
                Seq::Local
            } else {
                Seq::Remote(sequence)
            }
        }
    }

    /// What the tracer remembers of a P: its holder's, but for the generation.
    #[derive(Debug, Default)]
    pub(crate) struct ProcTrace {
        /// The last generation that touched it. Written under the collector's lock.
        generation: AtomicU32,
        /// The number of its last start or taking in that generation.
        sequence: Cell<u32>,
    }

    impl ProcTrace {
        pub(crate) fn generation(&self) -> u32 {
            // ordering: Relaxed: as for goroutines.
            self.generation.load(Ordering::Relaxed)
        }

        pub(crate) fn touch(&self, generation: u32) {
            self.sequence.set(0);
            // ordering: Relaxed: as for goroutines.
            self.generation.store(generation, Ordering::Relaxed);
        }

        /// The number of the next start or taking.
        pub(crate) fn next(&self) -> u32 {
            let sequence = self.sequence.get() + 1;
            self.sequence.set(sequence);
            sequence
        }
    }
}

/// The same words, and nothing to note, for a runtime that cannot record.
#[cfg(not(feature = "trace"))]
mod unnoted {
    /// How the scheduler found a goroutine.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Found {
        Runnext,
        Local,
        Global,
        Stolen,
        StolenRunnext,
        Netpoll,
        Locked,
        Wired,
    }

    /// By what a goroutine was made to stop.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Preemption {
        Cooperative,
        Signal,
    }

    /// Why somebody wants a P back.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum PreemptReason {
        Slice,
        Urgent,
        Stop,
    }

    /// Why a P was given away.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum HandoffReason {
        Locked,
        Wired,
        Frozen,
    }

    /// Who made a goroutine runnable.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Waker {
        Goroutine,
        Netpoll,
        Timer,
        External,
        Runtime,
    }

    /// How a goroutine ended.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum ExitHow {
        Returned,
        Panicked,
        Goexit,
        Cancelled,
    }

    /// From where goroutines were stolen.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum StealFrom {
        Ring,
        Runnext,
        Timers,
    }

    /// What would be noted on a goroutine.
    #[derive(Debug, Default)]
    pub(crate) struct GoroutineTrace(());

    /// What would be noted on a P.
    #[derive(Debug, Default)]
    pub(crate) struct ProcTrace(());
}
