//! What the machine gives: spans as they close, wakes, and lives of goroutines; and the trait that
//! takes them.

use super::levels::Levels;
use super::state::{Cause, GoroutineState, Place, ProcState, ThreadState};
use gmp_trace::Event;
use gmp_trace::event::{ExitHow, Found};
use gmp_trace::id::{GId, MId, ObjectId, PId};
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;

/// A goroutine appears.
#[derive(Clone, Copy, Debug)]
pub struct GoroutineBirth {
    /// Which.
    pub goroutine: GId,
    /// A small number that is its alone while it lives; used again after its end.
    pub slot: usize,
    /// When its life begins in this trace.
    pub time: Nanos,
    /// Its creator.
    pub creator: Option<GId>,
    /// Where it was made; the site's function is its start function.
    pub made_at: Place,
    /// True where it existed before the trace (or before a gap in it) and its creation is not in
    /// the trace.
    pub existed: bool,
}

/// A goroutine was in one state from `begin` to `end`.
#[derive(Clone, Copy, Debug)]
pub struct GoroutineSpan {
    /// Which.
    pub goroutine: GId,
    /// Its slot, as in [`GoroutineBirth::slot`].
    pub slot: usize,
    /// The state.
    pub state: GoroutineState,
    /// From when.
    pub begin: Nanos,
    /// Until when; never before `begin`.
    pub end: Nanos,
    /// Why it waits; [`Text::EMPTY`] in other states.
    pub reason: Text,
    /// What it waits for.
    pub object: Option<ObjectId>,
    /// Where it waits or entered the system call.
    pub place: Place,
    /// The P that it ran on; in other states the last one.
    pub proc: Option<PId>,
    /// True where the trace ended first.
    pub open: bool,
}

/// A goroutine's life ends, or the trace does.
#[derive(Clone, Copy, Debug)]
pub struct GoroutineDeath {
    /// Which.
    pub goroutine: GId,
    /// Its slot, free from now on.
    pub slot: usize,
    /// When it was born.
    pub born: Nanos,
    /// When.
    pub time: Nanos,
    /// How it ended; `None` where it was alive at the end of the trace, or the format does not
    /// tell.
    pub how: Option<ExitHow>,
    /// True where the trace ended first.
    pub alive: bool,
}

/// A goroutine that was runnable began to run.
#[derive(Clone, Copy, Debug)]
pub struct Wake {
    /// Which.
    pub goroutine: GId,
    /// Its slot.
    pub slot: usize,
    /// When it became runnable.
    pub ready: Nanos,
    /// When it began to run; never before `ready`.
    pub start: Nanos,
    /// What made it runnable.
    pub cause: Cause,
    /// Which goroutine made it runnable, where one did.
    pub waker: Option<GId>,
    /// How the scheduler found it.
    pub found: Option<Found>,
    /// The P on which it runs.
    pub proc: Option<PId>,
}

impl Wake {
    /// The scheduling latency: from runnable to running.
    #[inline]
    pub fn latency(&self) -> Nanos {
        self.start.since(self.ready)
    }
}

/// A P was in one state from `begin` to `end`.
#[derive(Clone, Copy, Debug)]
pub struct ProcSpan {
    /// Which.
    pub proc: PId,
    /// A small number that is its alone.
    pub index: usize,
    /// The state.
    pub state: ProcState,
    /// From when.
    pub begin: Nanos,
    /// Until when; never before `begin`.
    pub end: Nanos,
    /// The goroutine that ran on it or is in the system call.
    pub goroutine: Option<GId>,
    /// The thread that held it.
    pub thread: Option<MId>,
    /// True where the trace ended first.
    pub open: bool,
}

/// A thread was in one state from `begin` to `end`.
#[derive(Clone, Copy, Debug)]
pub struct ThreadSpan {
    /// Which.
    pub thread: MId,
    /// A small number that is its alone.
    pub index: usize,
    /// The state.
    pub state: ThreadState,
    /// From when.
    pub begin: Nanos,
    /// Until when; never before `begin`.
    pub end: Nanos,
    /// True where the trace ended first.
    pub open: bool,
}

/// Takes what the machine gives. Every method does nothing unless it is written.
pub trait Sink {
    /// An event comes; the machine's states are still those before it.
    #[inline]
    fn event(&mut self, event: &Event) {
        let _ = event;
    }

    /// Between `from` and `to` nothing changed and the levels were `levels`.
    #[inline]
    fn elapsed(&mut self, from: Nanos, to: Nanos, levels: &Levels) {
        let _ = (from, to, levels);
    }

    /// A goroutine appears.
    #[inline]
    fn goroutine_begin(&mut self, birth: &GoroutineBirth) {
        let _ = birth;
    }

    /// A goroutine leaves a state.
    #[inline]
    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        let _ = span;
    }

    /// A goroutine's life ends, or the trace does.
    #[inline]
    fn goroutine_end(&mut self, death: &GoroutineDeath) {
        let _ = death;
    }

    /// A runnable goroutine begins to run. Its runnable span came just before.
    #[inline]
    fn wake(&mut self, wake: &Wake) {
        let _ = wake;
    }

    /// A P leaves a state.
    #[inline]
    fn proc_span(&mut self, span: &ProcSpan) {
        let _ = span;
    }

    /// A thread leaves a state.
    #[inline]
    fn thread_span(&mut self, span: &ThreadSpan) {
        let _ = span;
    }
}

/// Two sinks, one after the other.
impl<A: Sink, B: Sink> Sink for (A, B) {
    #[inline]
    fn event(&mut self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }

    #[inline]
    fn elapsed(&mut self, from: Nanos, to: Nanos, levels: &Levels) {
        self.0.elapsed(from, to, levels);
        self.1.elapsed(from, to, levels);
    }

    #[inline]
    fn goroutine_begin(&mut self, birth: &GoroutineBirth) {
        self.0.goroutine_begin(birth);
        self.1.goroutine_begin(birth);
    }

    #[inline]
    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        self.0.goroutine_span(span);
        self.1.goroutine_span(span);
    }

    #[inline]
    fn goroutine_end(&mut self, death: &GoroutineDeath) {
        self.0.goroutine_end(death);
        self.1.goroutine_end(death);
    }

    #[inline]
    fn wake(&mut self, wake: &Wake) {
        self.0.wake(wake);
        self.1.wake(wake);
    }

    #[inline]
    fn proc_span(&mut self, span: &ProcSpan) {
        self.0.proc_span(span);
        self.1.proc_span(span);
    }

    #[inline]
    fn thread_span(&mut self, span: &ThreadSpan) {
        self.0.thread_span(span);
        self.1.thread_span(span);
    }
}
