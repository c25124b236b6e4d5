//! Who runs here: the goroutine from the stack pointer, the M from the goroutine.
//!
//! Code of a goroutine moves between threads at its switches, so it must not find its M through a
//! thread-local: the compiler keeps the address of a thread-local in a register across a switch. It
//! finds its goroutine from the stack pointer, checked against the range of our stacks (code may run
//! on a stack that is not ours: one that a library made), and its M from the goroutine, read again
//! after every switch.

use std::cell::Cell;
use std::ptr;

use crate::lock;
use crate::sched::g::G;
use crate::sched::m::M;
use crate::sched::refs::{GRef, MRef};
use crate::stack;
use crate::switch::stack_pointer;

thread_local! {
    static CURRENT_M: Cell<*mut M> = const { Cell::new(ptr::null_mut()) };
}

/// The goroutine that runs here; `None` on a thread that runs none, and in a system call.
#[inline(always)]
pub(crate) fn goroutine() -> Option<GRef> {
    match stack::slot_of(stack_pointer()) {
        // ordering: Relaxed: written by the M that started the goroutine on this stack, before it ran.
        Some(slot) => GRef::from_ptr(
            slot.load(crate::prim::atomic::Ordering::Relaxed)
                .cast::<G>(),
        ),
        None => goroutine_of_thread(),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn outside_a_goroutine() -> ! {
    panic!("not on a goroutine: call this inside `Runtime::run`, and outside `blocking`")
}

/// The goroutine of the caller.
///
/// # Panics
/// If it runs on none.
#[track_caller]
#[inline(always)]
pub(crate) fn this_goroutine() -> GRef {
    match goroutine() {
        Some(g) => g,
        None => outside_a_goroutine(),
    }
}

/// The goroutine of the M of this thread, for code on a foreign stack.
#[cold]
#[inline(never)]
fn goroutine_of_thread() -> Option<GRef> {
    let m = thread_m()?;
    // In a system call this is a thread like any other.
    if m.call_p().is_some() {
        return None;
    }
    m.current()
}

/// The M that this thread is, if it is one. Never inlined, because the thread may be another one after
/// a switch.
#[inline(never)]
pub(crate) fn thread_m() -> Option<MRef> {
    MRef::from_ptr(CURRENT_M.get())
}

/// Says which M this thread is; null when it is none any more. Never inlined, because the thread may
/// be another one after a switch.
#[inline(never)]
pub(crate) fn set_m(m: Option<MRef>) {
    CURRENT_M.set(m.map_or(ptr::null_mut(), MRef::as_ptr));
    lock::watch_sections(m.map(|_| is_inside as fn() -> bool));
}

/// Whether this thread, an M, is inside the runtime.
fn is_inside() -> bool {
    let g = thread_m().and_then(|m| m.current());
    g.is_none_or(|g| g.mark.is_inside())
}

/// The M of the goroutine `g`, which runs here.
#[inline(always)]
pub(crate) fn m_of(g: GRef) -> MRef {
    match g.m() {
        Some(m) => m,
        None => crate::fatal::fatal!("goroutine {} runs on no M", g.id.get()),
    }
}
