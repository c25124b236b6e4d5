//! The switch on top of corosensei, for every processor it knows. The only file that names it.
//!
//! corosensei's coroutines are asymmetric: one is resumed, and suspends to whoever resumed it. The
//! symmetric contract is kept by a trampoline on the M's stack: a goroutine that leaves for another
//! one suspends with the name of the other, and [`enter`] resumes that.

use std::cell::{Cell, UnsafeCell};
use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};

use super::Registers;
use crate::prim::process_wide::{AtomicUsize, Ordering};
use crate::switch::stack_pointer;
use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// What a suspended goroutine asks the trampoline to do: resume this one, or (`None`) give control
/// to the scheduler.
type Next = Option<NonNull<Context>>;
type Routine = Coroutine<(), Next, (), Borrowed>;

/// What the first switch to a goroutine calls.
pub(crate) type Entry = extern "C" fn() -> !;

/// The stack of a goroutine, which the coroutine uses and does not own.
#[derive(Debug)]
struct Borrowed {
    top: NonZeroUsize,
    limit: NonZeroUsize,
}

// SAFETY: `Context::prepare` promises that the range is a writable stack of its own; its lower end
// has a guard.
unsafe impl Stack for Borrowed {
    fn base(&self) -> StackPointer {
        self.top
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}

/// A suspended flow of control.
pub(crate) struct Context {
    routine: UnsafeCell<Option<Routine>>,
    yielder: Cell<*const Yielder<(), Next>>,
    /// Where the goroutine was when it began to leave.
    left_from: Cell<usize>,
    /// The lowest address that it needs of its stack while it is suspended; 0 while it runs. The trampoline
    /// fills and empties it.
    in_use_from: AtomicUsize,
}

/// Bytes below `left_from` that the frames of corosensei may use; they need less than a tenth of it.
const FRAMES: usize = 4096;

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context {
    /// A context that nothing is suspended in yet.
    pub(crate) const fn new() -> Context {
        Context {
            routine: UnsafeCell::new(None),
            yielder: Cell::new(ptr::null()),
            left_from: Cell::new(0),
            in_use_from: AtomicUsize::new(0),
        }
    }

    /// The lowest address that a suspended flow of control needs of its stack; `None` while it runs, or is on
    /// its way off its stack. From any thread: a snapshot.
    pub(crate) fn in_use_from(&self) -> Option<usize> {
        // ordering: Acquire; pairs with the Release in `enter`.
        Some(self.in_use_from.load(Ordering::Acquire)).filter(|&at| at != 0)
    }

    /// Makes a coroutine on the stack between `limit` and `top` whose first resumption calls `entry`.
    ///
    /// # Safety
    /// `top` is 16-aligned and the end of a writable stack that nobody uses; `limit` its lowest
    /// usable address. The context does not move until the goroutine has ended.
    pub(crate) unsafe fn prepare(&self, top: *mut u8, limit: *mut u8, entry: Entry) {
        let stack = Borrowed {
            top: NonZeroUsize::new(top as usize).expect("a stack is not at address zero"),
            limit: NonZeroUsize::new(limit as usize).expect("a stack is not at address zero"),
        };
        let this = ptr::from_ref(self) as usize;
        let routine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Next>, ()| {
            // SAFETY: the context stays where it is while its goroutine lives.
            let this = unsafe { &*(this as *const Context) };
            this.yielder.set(yielder);
            entry()
        });
        // SAFETY: nobody else looks at a context that is being prepared. The coroutine that was here
        // before belonged to a goroutine that has ended without returning: its stack is already
        // somebody else's, so it is forgotten, not dropped.
        unsafe {
            if let Some(old) = (*self.routine.get()).take() {
                std::mem::forget(old);
            }
            *self.routine.get() = Some(routine);
        }
    }

    /// Where it goes on: corosensei does not say.
    pub(crate) fn suspended_at(&self, _word: impl Fn(usize) -> Option<usize>) -> Option<Registers> {
        None
    }

    /// It is left for good.
    pub(crate) fn forget(&self) {}

    /// Nothing: corosensei does not say what it needs first.
    pub(crate) fn fetch_ahead(&self) {}

    /// Where its stack ends: corosensei does not say.
    pub(crate) fn stack_pointer(&self) -> usize {
        0
    }

    /// Suspends the running goroutine, which is this one.
    fn suspend(&self, next: Next) {
        self.left_from.set(stack_pointer());
        // SAFETY: set by the coroutine itself when it first ran, and valid while it runs.
        unsafe { (*self.yielder.get()).suspend(next) }
    }
}

/// Leaves the goroutine `from` for `to`; returns when somebody switches to `from`.
///
/// # Safety
/// `from` is the running one, on its own stack. `to` is a suspended goroutine, and no other thread
/// resumes it.
#[inline(always)]
pub(crate) unsafe fn switch(from: &Context, to: &Context) {
    from.suspend(Some(NonNull::from(to)));
}

/// Leaves a goroutine that has ended for `to`; nobody resumes it.
///
/// # Safety
/// As [`switch`]; the stack of `from` is free as soon as `to` runs.
pub(crate) unsafe fn leave(from: &Context, to: &Context) -> ! {
    // SAFETY: the caller's contract.
    unsafe { switch(from, to) };
    unreachable!("a goroutine that has ended was resumed")
}

/// Leaves the M's own stack for the goroutine `to`; returns when a goroutine on this M calls
/// [`back`].
///
/// # Safety
/// As [`switch`].
pub(crate) unsafe fn enter(_scheduler: &Context, to: &Context) {
    let mut next = NonNull::from(to);
    loop {
        // SAFETY: the target is suspended and ours to resume, so nobody else touches its coroutine.
        let routine = unsafe { (*next.as_ref().routine.get()).as_mut() };
        let Some(routine) = routine else {
            unreachable!("switch to a goroutine without a stack")
        };
        // SAFETY: the context of a goroutine stays while it is not freed, and freeing comes after the switch.
        let context = unsafe { next.as_ref() };
        // ordering: Relaxed: who sees a state that the goroutine has after this sees it empty or filled again.
        context.in_use_from.store(0, Ordering::Relaxed);
        let result = routine.resume(());
        // ordering: Release; pairs with the Acquire in `in_use_from`: the stack has been left.
        context
            .in_use_from
            .store(context.left_from.get() - FRAMES, Ordering::Release);
        match result {
            CoroutineResult::Yield(Some(other)) => next = other,
            CoroutineResult::Yield(None) => return,
            CoroutineResult::Return(()) => unreachable!("the entry of a goroutine never returns"),
        }
    }
}

/// Leaves the goroutine `from` for the stack of the M that it runs on.
///
/// # Safety
/// As [`switch`].
#[inline(always)]
pub(crate) unsafe fn back(from: &Context, _scheduler: &Context) {
    from.suspend(None);
}

/// Leaves a goroutine that has ended for the stack of the M that it runs on.
///
/// # Safety
/// As [`leave`].
pub(crate) unsafe fn leave_to_scheduler(from: &Context, scheduler: &Context) -> ! {
    // SAFETY: the caller's contract.
    unsafe { back(from, scheduler) };
    unreachable!("a goroutine that has ended was resumed")
}
