//! An M: one thread, with or without a P.

use std::cell::Cell;

use crate::fatal::fatal;
use crate::prim::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use crate::sched::Sched;
use crate::sched::g::G;
use crate::sched::p::P;
use crate::sched::refs::{GRef, MRef, PRef};
use crate::sched::shown::ShownFlag;
use crate::switch::Context;
use crate::sys::futex;
use crate::trace::marks::{Found, HandoffReason};

/// What is to be done on the stack that was switched to, for the goroutine that was left: only now
/// is it complete, and may be seen by others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PostSwitch {
    /// Nothing: the scheduler itself was left.
    Nothing,
    /// It yielded: to the tail of the ring.
    Requeue(GRef),
    /// It was preempted: to the tail of the global queue.
    Preempted(GRef),
    /// It waits for something whose lock is held: unlock.
    Unlock(*const crate::lock::Spin),
    /// It sleeps: its timer goes on the heap of the P.
    Sleep(*mut crate::sched::timers::Alarm),
    /// It waits for several things: its alarm goes on the heap, and the locks are released.
    WaitForAny(*const crate::sched::ticket::AnyWait),
    /// It waits for a permit: see `sched::park`.
    AwaitPermit(GRef),
    /// It is back from a system call and has no P: to the global queue.
    WithoutP(GRef),
    /// It waits for the end of another one: see `spawn`.
    AwaitEnd(GRef, GRef),
    /// It has ended: its stack, and perhaps itself, are free.
    Free(GRef),
    /// The one that is resumed is to unwind.
    Cancel,
}

/// One M. What every call into the runtime touches is first, and in one cache line.
#[repr(C, align(128))]
pub(crate) struct M {
    /// Written by this M, and by whoever takes it from a goroutine that is outside the runtime; others read it.
    p: AtomicPtr<P>,
    /// The goroutine that runs here. Written by this M; dumps read it.
    current: AtomicPtr<G>,
    pub(crate) sched: &'static Sched,
    /// What the next stack is to do first. This M's.
    pub(crate) post: Cell<PostSwitch>,
    /// This thread's own stack, while a goroutine runs.
    pub(crate) context: Context,
    /// Counted from 0; 0 is the thread that called `run`.
    pub(crate) id: u64,
    /// Whether it looks for work that it does not know of. This M's; whoever wakes it sets it before.
    pub(crate) spinning: ShownFlag,
    /// Whether it has stolen goroutines since it last waited for some. This M's.
    pub(crate) has_stolen: Cell<bool>,
    /// While it is in a system call, the P that it entered it with, which may be somebody else's by now. This
    /// M's.
    call_p: Cell<Option<PRef>>,
    /// The goroutine that is locked to it: it runs no other one. Written by this M; dumps read it.
    locked: AtomicPtr<G>,
    /// Whether its thread is to end, since the goroutine that was locked to it has. This M's.
    pub(crate) must_end: Cell<bool>,
    /// What was taken from a queue and needs thought before it runs, and how it was found. This M's.
    pub(crate) chosen: Cell<Option<(GRef, Found)>>,
    /// The P that a waker gives. Written by the waker, taken by this M.
    next_p: AtomicPtr<P>,
    /// Counts wakes; the word this M sleeps on.
    parker: AtomicU32,
    /// The next one in the list of idle Ms. Under the scheduler's lock.
    pub(crate) idle_link: Cell<Option<MRef>>,
    /// How many goroutines went into the global queue before the one that is frozen here. Under the scheduler's
    /// lock.
    pub(crate) frozen_after: Cell<u64>,
    /// When the slice of its goroutine began that was asked for its P for somebody urgent. Under the scheduler's lock.
    pub(crate) interrupted_slice: Cell<Option<u64>>,
    /// The kernel's number of its thread. Written by the thread before it has a P.
    pub(crate) thread: AtomicI32,
    /// While its goroutine goes on without a P, the processor time that it had used, and when. The monitor's.
    pub(crate) seen_running: Cell<(u64, u64)>,
    /// Whether a signal of ours is under way to it.
    pub(crate) signal_sent: AtomicBool,
    /// The stop of the world at whose safe point it was last: see `sched::stw`. Written under the scheduler's lock, by
    /// this M.
    pub(crate) safe_point: AtomicU32,
    /// What this M records with. This M's, and the tracer's under its protocol.
    pub(crate) tracer: crate::trace::ThreadTrace,
}

// SAFETY: fields that are not atomic belong to the thread of the M, or to whoever holds the lock
// that they name.
unsafe impl Sync for M {}
// SAFETY: made by one thread and used by another.
unsafe impl Send for M {}

impl M {
    pub(crate) fn new(id: u64, sched: &'static Sched) -> M {
        M {
            id,
            sched,
            p: AtomicPtr::new(std::ptr::null_mut()),
            current: AtomicPtr::new(std::ptr::null_mut()),
            post: Cell::new(PostSwitch::Nothing),
            context: Context::new(),
            spinning: ShownFlag::new(false),
            has_stolen: Cell::new(false),
            call_p: Cell::new(None),
            locked: AtomicPtr::new(std::ptr::null_mut()),
            must_end: Cell::new(false),
            chosen: Cell::new(None),
            next_p: AtomicPtr::new(std::ptr::null_mut()),
            parker: AtomicU32::new(0),
            idle_link: Cell::new(None),
            frozen_after: Cell::new(0),
            interrupted_slice: Cell::new(None),
            thread: AtomicI32::new(0),
            seen_running: Cell::new((0, 0)),
            signal_sent: AtomicBool::new(false),
            safe_point: AtomicU32::new(0),
            tracer: crate::trace::ThreadTrace::new(id),
        }
    }

    /// The P it holds.
    #[inline(always)]
    pub(crate) fn p(&self) -> Option<PRef> {
        // ordering: Relaxed: this M reads its own value; others take a snapshot.
        PRef::from_ptr(self.p.load(Ordering::Relaxed))
    }

    /// The P of an M that runs a goroutine or looks for one.
    #[inline(always)]
    pub(crate) fn held_p(&self) -> PRef {
        match self.p() {
            Some(p) => p,
            None => no_p(self.id),
        }
    }

    /// Takes hold of `p`, which nobody else holds.
    pub(crate) fn acquire_p(&self, p: PRef) {
        self.tracer.proc_start(self, p);
        p.set_m(Some(self.reference()));
        // ordering: Relaxed: the P came through the scheduler's lock or `next_p`.
        self.p.store(p.as_ptr(), Ordering::Relaxed);
        self.tracer.settle();
    }

    /// Lets go of its P.
    pub(crate) fn release_p(&self) -> PRef {
        let p = self.held_p();
        self.tracer.proc_stop(self, p);
        p.set_m(None);
        // ordering: Relaxed, as in `acquire_p`.
        self.p.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.tracer.settle();
        p
    }

    /// Its P is taken, while its goroutine is outside the runtime. On the taker's thread.
    pub(crate) fn lose_p(&self) {
        // ordering: Relaxed: this M reads it after it has had the scheduler's lock, which the taker holds.
        self.p.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Gives its P to `to`, which will run the goroutine that is locked to it.
    pub(crate) fn hand_p_to(&self, to: MRef, why: HandoffReason) -> PRef {
        let p = self.held_p();
        self.tracer.proc_handoff(self, to, why);
        p.set_m(None);
        // ordering: Relaxed, as in `acquire_p`.
        self.p.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.tracer.settle();
        p
    }

    /// The goroutine that is locked to it.
    #[inline(always)]
    pub(crate) fn locked(&self) -> Option<GRef> {
        // ordering: Relaxed: as in `p`.
        GRef::from_ptr(self.locked.load(Ordering::Relaxed))
    }

    /// Says which goroutine is locked to it.
    pub(crate) fn set_locked(&self, g: Option<GRef>) {
        let pointer = g.map_or(std::ptr::null_mut(), GRef::as_ptr);
        // ordering: Relaxed: as in `p`.
        self.locked.store(pointer, Ordering::Relaxed);
    }

    /// Enters a system call: from now on it holds no P, and anybody may take the one that it had.
    #[inline(always)]
    pub(crate) fn begin_call(&self) -> PRef {
        let p = self.held_p();
        self.call_p.set(Some(p));
        // ordering: Relaxed, as in `acquire_p`.
        self.p.store(std::ptr::null_mut(), Ordering::Relaxed);
        p.begin_call(self.reference());
        p
    }

    /// The P with which it entered the system call that it is in.
    #[inline(always)]
    pub(crate) fn call_p(&self) -> Option<PRef> {
        self.call_p.get()
    }

    /// The system call is over, with the P that it took back or without one.
    #[inline(always)]
    pub(crate) fn end_call(&self, taken_back: Option<PRef>) {
        self.call_p.set(None);
        if let Some(p) = taken_back {
            // ordering: Relaxed, as in `acquire_p`.
            self.p.store(p.as_ptr(), Ordering::Relaxed);
        }
    }

    /// The P that it holds as far as a trace is concerned: in a system call, until somebody takes it.
    pub(crate) fn traced_p(&self) -> Option<PRef> {
        let in_call = || {
            self.call_p
                .get()
                .filter(|p| p.in_call_of() == Some(self.reference()))
        };
        self.p().or_else(in_call)
    }

    /// The goroutine that runs here.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<GRef> {
        // ordering: Relaxed: as in `p`.
        GRef::from_ptr(self.current.load(Ordering::Relaxed))
    }

    /// Says which goroutine runs here.
    #[inline(always)]
    pub(crate) fn set_current(&self, g: Option<GRef>) {
        let pointer = g.map_or(std::ptr::null_mut(), GRef::as_ptr);
        // ordering: Relaxed: as in `p`.
        self.current.store(pointer, Ordering::Relaxed);
    }

    /// Itself.
    #[inline(always)]
    pub(crate) fn reference(&self) -> MRef {
        // SAFETY: every M is in its scheduler's list.
        unsafe { MRef::new(self) }
    }

    /// Gives it a P and wakes it.
    pub(crate) fn wake_with(&self, p: PRef) {
        // What the waker did to the P, and to `spinning`, comes along.
        self.set_next_p(p);
        self.wake();
    }

    /// Gives a P to an M whose thread does not run yet.
    pub(crate) fn set_next_p(&self, p: PRef) {
        // ordering: Release; pairs with the Acquire swap in `sleep`.
        self.next_p.store(p.as_ptr(), Ordering::Release);
    }

    /// Wakes it to look around.
    pub(crate) fn wake(&self) {
        // ordering: Release; pairs with the Acquire load in `sleep`.
        self.parker.fetch_add(1, Ordering::Release);
        futex::wake(&self.parker, 1);
    }

    /// Sleeps until it is given a P, which is returned, or until `stop` says so.
    pub(crate) fn sleep(&self, stop: impl Fn() -> bool) -> Option<PRef> {
        loop {
            // ordering: Acquire; pairs with the Release in `wake`.
            let seen = self.parker.load(Ordering::Acquire);
            // ordering: Acquire; pairs with the Release store in `wake_with`.
            let given = self.next_p.swap(std::ptr::null_mut(), Ordering::Acquire);
            if let Some(p) = PRef::from_ptr(given) {
                return Some(p);
            }
            if stop() {
                return None;
            }
            futex::wait(&self.parker, seen, None);
        }
    }
}

impl std::fmt::Debug for M {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("M")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cold]
#[inline(never)]
fn no_p(m: u64) -> ! {
    fatal!("M {m} has no P where it needs one")
}
