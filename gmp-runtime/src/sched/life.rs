//! The life of a goroutine: its closure, its stack, its end, and what becomes of its result.
//!
//! # A goroutine's end
//!
//! The closure, and after it the result, live inside the goroutine ([`G::payload`]), or in a box when
//! they are larger than 80 bytes; so a goroutine with its handle needs no allocation. Three parties
//! have to be done before a goroutine can be used again; each says so with a bit of [`G::join`]:
//!
//! | bit | set by | meaning |
//! |---|---|---|
//! | `ENDED` | the goroutine, as its last act | the result is there, if anybody wants it |
//! | `LEFT` | the M, when it has left the goroutine's stack | the stack is free |
//! | `RELEASED` | the handle, when it is joined or dropped | nobody wants the result |
//! | `AWAITED` | a goroutine in `join` | [`G::joiner`] is to be made ready |
//! | `WATCHED` | a thread in `join` | a thread sleeps on the word |
//!
//! Who of `LEFT` and `RELEASED` comes second puts the goroutine into a pool. The result is dropped by
//! the handle if it is there, and else by the goroutine itself: never by the scheduler, because its
//! destructor is the program's code.
//!
//! A goroutine that ends while another one waits for it in `join` switches straight to that one, which sets `ENDED`
//! and `LEFT` on its behalf before it goes on. Nobody else can touch the word then, because the handle is with
//! the one that waits, so this takes no locked instruction. Nor does giving up a handle on a goroutine that sees
//! `LEFT`.

use std::panic::{self, AssertUnwindSafe, Location};
use std::thread;

use crate::fatal::fatal;
use crate::prim::atomic::{AtomicU32, Ordering};
use crate::sched::critical;
use crate::sched::current;
use crate::sched::g::{G, PAYLOAD_WORDS, Routine, Wait, WaitReason, transition};
use crate::sched::locked;
use crate::sched::m::{M, PostSwitch};
use crate::sched::p::P;
use crate::sched::park::{self, Cancelled};
use crate::sched::refs::GRef;
use crate::sched::{Sched, Visit};
use crate::stack::{Stack, StackError};
use crate::switch::Context;
use crate::sys::futex;
use crate::trace::marks::{ExitHow, Waker};

const ENDED: u32 = 1;
const LEFT: u32 = 2;
const RELEASED: u32 = 4;
const AWAITED: u32 = 8;
const WATCHED: u32 = 16;

// ---- the word

/// The goroutine has put its result: what the word was before. `None`: nobody wants the result.
#[inline(always)]
fn say_ended(join: &AtomicU32) -> Option<u32> {
    // ordering: Acquire; pairs with the AcqRel in `say_released`.
    if join.load(Ordering::Acquire) & RELEASED != 0 {
        return None;
    }
    // ordering: AcqRel; pairs with the Acquire loads of handles (the result is there) and with the
    // exchange that released it, or the joiner that was set.
    let before = join.fetch_or(ENDED, Ordering::AcqRel);
    (before & RELEASED == 0).then_some(before)
}

/// Whether a goroutine waits for the end of this one, whose result is there and not announced.
#[inline(always)]
fn is_awaited(join: &AtomicU32) -> bool {
    // ordering: Acquire; pairs with the AcqRel in `say_awaited`: the joiner is set.
    join.load(Ordering::Acquire) & (ENDED | AWAITED) == AWAITED
}

/// The M has left the goroutine, which has ended: whether that was the last thing to happen to it. If its
/// joiner is about to run on this M without having been told, the end is said, too.
#[inline(always)]
fn say_left(join: &AtomicU32) -> bool {
    // ordering: Acquire; pairs with the AcqRel in `say_released_after_end`: the handle is done with the payload.
    let seen = join.load(Ordering::Acquire);
    if seen & RELEASED != 0 {
        return true;
    }
    if seen & (ENDED | AWAITED) == AWAITED {
        // ordering: Release; pairs with the Acquire loads of handles. A store is enough: the only handle is with the
        // joiner, which does not run yet.
        join.store(ENDED | LEFT, Ordering::Release);
        return false;
    }
    // ordering: AcqRel; pairs with the one in `say_released_after_end`: who comes second frees.
    join.fetch_or(LEFT, Ordering::AcqRel) & RELEASED != 0
}

/// Whether the goroutine's M has left it, so that all that is left of it is its handle's.
#[inline(always)]
fn is_left(join: &AtomicU32) -> bool {
    // ordering: Acquire; pairs with the writes in `say_left`: the M is done with it.
    join.load(Ordering::Acquire) & LEFT != 0
}

/// A goroutine, which is set as joiner, waits for the end: true if that has come, and nobody will wake it.
#[inline(always)]
fn say_awaited(join: &AtomicU32) -> bool {
    // ordering: AcqRel; pairs with the AcqRel in `say_ended`: either it sees the joiner, or we see its end.
    join.fetch_or(AWAITED, Ordering::AcqRel) & ENDED != 0
}

/// A thread is about to sleep on the word until the end: the value to sleep on. `None`: the end has come.
fn say_watched(join: &AtomicU32) -> Option<u32> {
    // ordering: AcqRel; pairs with the AcqRel in `say_ended`: either it sees the thread, or we see its end.
    let before = join.fetch_or(WATCHED, Ordering::AcqRel);
    (before & ENDED == 0).then_some(before | WATCHED)
}

/// The handle is gone: true if the goroutine will see to its result. False when it has ended: the result is
/// the caller's, and [`say_released_after_end`] comes next.
#[inline(always)]
fn say_released(join: &AtomicU32) -> bool {
    // ordering: Acquire; pairs with the AcqRel in `say_ended`.
    let mut seen = join.load(Ordering::Acquire);
    while seen & ENDED == 0 {
        // A goroutine that was cancelled while it waited in `join` no longer does.
        let released = (seen | RELEASED) & !AWAITED;
        // ordering: AcqRel; pairs with the AcqRel in `say_ended`: the goroutine drops its own result. Acquire
        // on failure, as above.
        match join.compare_exchange_weak(seen, released, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
    false
}

/// The handle of a goroutine that has ended is done with the result: whether that was the last thing to happen
/// to it.
#[inline(always)]
fn say_released_after_end(join: &AtomicU32) -> bool {
    // ordering: AcqRel; pairs with the one in `say_left`: who comes second frees.
    join.fetch_or(RELEASED, Ordering::AcqRel) & LEFT != 0
}

// ---- the beginning

/// Puts the closure into a goroutine that nobody uses yet.
///
/// # Safety
/// `g` is the caller's alone. If `F` or `T` borrow, what they borrow outlives the goroutine.
pub(crate) unsafe fn prepare<F, T>(
    g: GRef,
    f: Packed<F>,
    creator: u64,
    created_at: &'static Location<'static>,
) where
    F: FnOnce() -> T + Send,
    T: Send,
{
    // SAFETY: the payload holds nothing.
    unsafe { f.put(&g) };
    g.routine.set(Some(const { &routine::<F, T>() }));
    g.created_at.set(Some(created_at));
    g.creator.set(creator);
    g.mark.reset();
}

const fn routine<F, T>() -> Routine
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    Routine {
        run: run::<F, T>,
        drop_closure: drop_value::<F>,
        drop_result: drop_value::<thread::Result<T>>,
        put_cancelled: put_cancelled::<T>,
        name: std::any::type_name::<F>,
    }
}

/// Calls the closure and keeps its result, or what it panicked with.
///
/// # Safety
/// The payload holds an `F`.
unsafe fn run<F, T>(g: &G) -> ExitHow
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    // SAFETY: the caller's contract.
    let f = unsafe { take::<F>(g) };
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    let how = match &result {
        Ok(_) => ExitHow::Returned,
        Err(payload) if payload.is::<Cancelled>() => ExitHow::Cancelled,
        Err(payload) if payload.is::<Goexit>() => ExitHow::Goexit,
        Err(_) => ExitHow::Panicked,
    };
    // SAFETY: the closure has been taken out.
    unsafe { put::<thread::Result<T>>(g, result) };
    how
}

/// A value on its way into a goroutine, which it may enter where nothing may allocate.
pub(crate) enum Packed<V> {
    Inline(V),
    Boxed(Box<V>),
}

impl<V> Packed<V> {
    /// Boxes `value` if it does not fit.
    #[inline(always)]
    pub(crate) fn new(value: V) -> Packed<V> {
        if fits::<V>() {
            Packed::Inline(value)
        } else {
            Packed::Boxed(Box::new(value))
        }
    }

    /// # Safety
    /// The payload holds nothing.
    #[inline(always)]
    unsafe fn put(self, g: &G) {
        match self {
            // SAFETY: it fits, and nothing is there.
            Packed::Inline(value) => unsafe { g.payload().cast::<V>().write(value) },
            Packed::Boxed(value) => {
                // SAFETY: an address fits.
                unsafe { g.payload().cast::<*mut V>().write(Box::into_raw(value)) }
            }
        }
    }
}

/// Whether a value fits into a goroutine.
const fn fits<V>() -> bool {
    size_of::<V>() <= PAYLOAD_WORDS * 8 && align_of::<V>() <= 8
}

/// # Safety
/// The payload holds nothing.
unsafe fn put<V>(g: &G, value: V) {
    // SAFETY: the caller's contract.
    unsafe { Packed::new(value).put(g) }
}

/// # Safety
/// The payload holds a `V`, and no longer after this.
unsafe fn take<V>(g: &G) -> V {
    if fits::<V>() {
        // SAFETY: the caller's contract.
        unsafe { g.payload().cast::<V>().read() }
    } else {
        // SAFETY: the caller's contract; the address came from `Box::into_raw`.
        unsafe { *Box::from_raw(g.payload().cast::<*mut V>().read()) }
    }
}

/// # Safety
/// As [`take`].
unsafe fn drop_value<V>(g: &G) {
    // SAFETY: the caller's contract.
    drop(unsafe { take::<V>(g) });
}

/// Makes a goroutine without a handle that runs `f`, from the scheduler, on the P of `m`; `f` comes back when
/// there can be no more goroutines. Allocates nothing: a closure that does not fit does not compile.
pub(crate) fn start_from_scheduler<F: FnOnce() + Send + 'static>(
    m: &M,
    f: F,
    site: &'static Location<'static>,
) -> Result<GRef, F> {
    const { assert!(fits::<F>(), "the closure must fit into a goroutine") };
    let p = m.held_p();
    let Some(g) = m.sched.take_free(&p) else {
        return Err(f);
    };
    g.id.set(p.next_goroutine_id(|| m.sched.goroutine_ids()));
    // SAFETY: the goroutine is fresh and ours, and `F` may go to another thread.
    unsafe { prepare(g, Packed::new(f), 0, site) };
    detach(g);
    m.tracer.create(m, g);
    transition!(g, Idle => Runnable);
    m.sched.put_local(m, &p, g, true);
    m.sched.wake_p_if_needed();
    Ok(g)
}

/// A stack of the size that goroutines have.
#[inline(always)]
fn take_stack(p: &P, sched: &Sched) -> Result<Stack, StackError> {
    // SAFETY: the M that holds a P is the only one to touch its stacks.
    let stacks = unsafe { &mut *p.stacks.get() };
    let class = sched.stack_class();
    if stacks.class() != class {
        stacks.change_class(sched.stacks, class);
    }
    stacks.take(sched.stacks)
}

/// Makes sure of a stack for `g`, which nobody else has yet.
pub(crate) fn reserve_stack(p: &P, g: GRef) -> Result<(), StackError> {
    g.stack.set(Some(take_stack(p, g.sched)?));
    Ok(())
}

/// Gives a goroutine that is about to run for the first time its stack.
#[inline(always)]
pub(crate) fn give_stack(p: &P, g: GRef) {
    let stack = match g.stack.take() {
        Some(stack) => stack,
        None => match take_stack(p, g.sched) {
            Ok(stack) => stack,
            Err(error) => fatal!("goroutine {} cannot start: {error}", g.id.get()),
        },
    };
    // ordering: Relaxed: read by code on this stack, which runs after this on this thread, or on
    // another after the goroutine was handed over.
    stack.slot().store(g.as_ptr().cast(), Ordering::Relaxed);
    let (top, limit) = (stack.top() as *mut u8, stack.limit() as *mut u8);
    // SAFETY: the stack is fresh from the pool, and this goroutine's until it has left it.
    unsafe { Context::prepare(&g.context, top, limit, goroutine_main) };
    g.stack.set(Some(stack));
    g.started.set(true);
}

/// The address of the function at the beginning of every goroutine's stack.
pub(crate) fn first_function() -> usize {
    goroutine_main as *const () as usize
}

/// Where every goroutine begins and ends.
extern "C" fn goroutine_main() -> ! {
    let g = current::this_goroutine();
    park::complete_switch(current::m_of(g));
    critical::leave_first(g);
    let Some(routine) = g.routine.get() else {
        fatal!("goroutine {} has no code", g.id.get())
    };
    // SAFETY: the payload holds the closure that the routine was made for.
    let how = unsafe { (routine.run)(&g) };
    drop_locals(g);
    end(g, routine);
    critical::enter_last(g);
    park::exit(g, how)
}

/// The payload of the unwinding that `goexit` begins.
#[derive(Debug)]
pub(crate) struct Goexit;

/// Drops the goroutine-locals of `g`, which ends.
#[inline(always)]
fn drop_locals(g: GRef) {
    // SAFETY: only the goroutine itself touches its values.
    if unsafe { (*g.locals.get()).is_some() } {
        drop_values(g);
    }
}

/// Drops the values of `g`: the last one made first. Destructors may make others, which are dropped too.
#[cold]
#[inline(never)]
fn drop_values(g: GRef) {
    loop {
        // SAFETY: only the goroutine itself touches its values; each is taken out before its destructor runs.
        let last = unsafe { (*g.locals.get()).as_mut() }.and_then(|locals| locals.0.pop());
        let Some((_, value)) = last else { break };
        // The panic hook has told of a panic in a destructor; nobody else is left to tell.
        std::mem::forget(panic::catch_unwind(AssertUnwindSafe(|| drop(value))));
    }
    // SAFETY: as above.
    unsafe { *g.locals.get() = None };
}

/// Says that the result is there, unless a goroutine waits for it already: [`park::exit`] sees to that.
#[inline(always)]
fn end(g: GRef, routine: &Routine) {
    if is_awaited(&g.join) {
        return;
    }
    match say_ended(&g.join) {
        None => drop_own_result(g, routine),
        Some(before) if before & (AWAITED | WATCHED) != 0 => wake_joiner(g, before),
        Some(_) => {}
    }
}

/// Drops the result on the goroutine that made it.
fn drop_own_result(g: GRef, routine: &Routine) {
    // SAFETY: the payload holds the result, and no handle will ask for it.
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| unsafe { (routine.drop_result)(&g) }));
    // The panic hook has told of a panic in the result's destructor; nobody else is left to tell.
    std::mem::forget(dropped);
}

#[cold]
#[inline(never)]
fn wake_joiner(g: GRef, before: u32) {
    let _section = critical::enter(g);
    if before & WATCHED != 0 {
        futex::wake(&g.join, u32::MAX);
    }
    if before & AWAITED != 0
        && let Some(joiner) = g.joiner.take()
    {
        park::ready(&current::m_of(g), joiner, Waker::Goroutine);
    }
}

/// The goroutine that waits for the end of `g`, which ends and has not said so.
#[inline(always)]
pub(crate) fn take_unwoken_joiner(g: GRef) -> Option<GRef> {
    if is_awaited(&g.join) {
        g.joiner.take()
    } else {
        None
    }
}

/// Says that `g`, which runs on `m`, has ended, and makes `joiner` ready, which was [taken](take_unwoken_joiner).
#[cold]
#[inline(never)]
pub(crate) fn wake_unwoken(m: &M, g: GRef, joiner: GRef) {
    if say_ended(&g.join).is_some() {
        park::ready(m, joiner, Waker::Goroutine);
    }
}

/// The post-switch action of an end: the stack is free, and so is the goroutine if its handle is gone.
#[inline(never)]
pub(crate) fn free_after_exit(m: &M, g: GRef) {
    locked::ends(m, g);
    let p = m.held_p();
    if let Some(stack) = g.stack.take() {
        g.context.forget();
        g.started.set(false);
        // SAFETY: the M that holds a P is the only one to touch its stacks; the goroutine has left
        // the stack for good.
        unsafe { (*p.stacks.get()).put(g.sched.stacks, stack) };
    }
    transition!(g, Running => Dead);
    m.tracer.settle();
    if say_left(&g.join) {
        recycle(g);
        m.sched.put_free(&p, g);
    }
}

/// Makes a dead goroutine an idle one.
#[inline(always)]
fn recycle(g: GRef) {
    g.routine.set(None);
    g.lock_to(None);
    g.locks.set(0);
    // ordering: Release; pairs with the Acquire load in `has_handle`: who sees the word empty sees that
    // there is no routine.
    g.join.store(0, Ordering::Release);
    // ordering: Relaxed: the goroutine is ours alone; its next user gets it through a pool.
    g.permit.store(0, Ordering::Relaxed);
    transition!(g, Dead => Idle);
}

/// The post-switch action of a goroutine that waits for the end of another one.
#[inline(always)]
pub(crate) fn await_end(m: &M, waiting: GRef, awaited: GRef) {
    awaited.joiner.set(Some(waiting));
    if say_awaited(&awaited.join) {
        awaited.joiner.set(None);
        park::ready(m, waiting, Waker::Goroutine);
    }
}

/// Whether a handle to `g` may still come back for its result.
pub(crate) fn has_handle(g: GRef) -> bool {
    // ordering: Acquire; pairs with the AcqRel of handles, and with the Release in `recycle`. The word comes
    // first: a handle that is being released elsewhere may be changing the rest.
    g.join.load(Ordering::Acquire) & RELEASED == 0 && g.routine.get().is_some()
}

/// Drops the closure of a goroutine that is dead without having run. Its handle, if there is one, finds
/// that it was cancelled.
pub(crate) fn drop_unstarted(g: GRef) {
    if let Some(stack) = g.stack.take() {
        g.sched.stacks.put(stack);
    }
    let Some(routine) = g.routine.get() else {
        fatal!("goroutine {} has no code", g.id.get())
    };
    // SAFETY: the closure is in the payload, since the goroutine never ran.
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| unsafe { (routine.drop_closure)(&g) }));
    std::mem::forget(dropped);
    // SAFETY: the payload is empty now.
    if unsafe { end_cancelled(g, routine, ENDED | LEFT) } {
        recycle(g);
    }
}

/// Says of a goroutine that stopped in the middle and never goes on that it was cancelled.
pub(crate) fn give_up(g: GRef) {
    let Some(routine) = g.routine.get() else {
        fatal!("goroutine {} has no code", g.id.get())
    };
    // SAFETY: the closure was taken out when it ran, and a result is put there only by a goroutine that
    // has nothing left to wait for, but in the destructor of a result that nobody wants, which is out, too.
    unsafe { end_cancelled(g, routine, ENDED) };
}

/// Says with `bits` that `g` has ended, and was cancelled; true when no handle will ask for that.
///
/// # Safety
/// The payload holds nothing.
unsafe fn end_cancelled(g: GRef, routine: &Routine, bits: u32) -> bool {
    // SAFETY: the caller's contract.
    unsafe { (routine.put_cancelled)(&g) };
    // ordering: AcqRel; pairs with the exchange in `release`, and the Acquire loads of handles.
    let before = g.join.fetch_or(bits, Ordering::AcqRel);
    if before & RELEASED != 0 {
        // SAFETY: the result was put above, and no handle will ask for it.
        unsafe { (routine.drop_result)(&g) };
        return true;
    }
    if before & WATCHED != 0 {
        futex::wake(&g.join, u32::MAX);
    }
    false
}

/// Leaves as the result that the goroutine was cancelled.
///
/// # Safety
/// The payload holds nothing.
unsafe fn put_cancelled<T>(g: &G) {
    // SAFETY: the caller's contract.
    unsafe { put::<thread::Result<T>>(g, Err(Box::new(Cancelled))) };
}

/// Lets a goroutine that has not started run on its own: it has no handle.
pub(crate) fn detach(g: GRef) {
    // ordering: Relaxed: nobody else has the goroutine yet.
    g.join.store(RELEASED, Ordering::Relaxed);
}

// ---- the handle's side

/// Whether `g` has ended. For its handle.
#[inline]
pub(crate) fn has_ended(g: GRef) -> bool {
    // ordering: Acquire; pairs with the AcqRel in `end`.
    g.join.load(Ordering::Acquire) & ENDED != 0
}

/// Waits on the goroutine `me` until `g` has ended. For its handle.
#[inline(always)]
pub(crate) fn wait_for_end(me: GRef, g: GRef, site: &'static Location<'static>) {
    let wait = Wait {
        reason: WaitReason::Join,
        object: g.id.get(),
        site,
    };
    let _section = critical::enter_to_wait(me);
    park::park(me, current::m_of(me), wait, PostSwitch::AwaitEnd(me, g));
}

/// Waits on a thread that runs no goroutine until `g` has ended. For its handle.
pub(crate) fn wait_for_end_on_thread(g: GRef) {
    while let Some(word) = say_watched(&g.join) {
        futex::wait(&g.join, word, None);
    }
}

/// Takes the result of `g`, which has ended, and gives the goroutine up.
///
/// # Safety
/// `g` was made for a `T`, and this is the last thing its handle does.
pub(crate) unsafe fn take_result<T>(g: GRef) -> thread::Result<T> {
    // SAFETY: the goroutine has ended, so its result is there, and only the handle takes it.
    let result = unsafe { take::<thread::Result<T>>(&g) };
    release_ended(g);
    result
}

/// Gives `g` up without wanting its result.
///
/// # Safety
/// As [`take_result`], but `g` may still run.
pub(crate) unsafe fn release<T>(g: GRef) {
    if say_released(&g.join) {
        return;
    }
    // SAFETY: the goroutine has ended and its result has not been taken.
    let result = unsafe { take::<thread::Result<T>>(&g) };
    release_ended(g);
    // Last, because its destructor may panic.
    drop(result);
}

/// Drops the claim to the result of a goroutine that has ended, whose result is gone.
#[inline(always)]
fn release_ended(g: GRef) {
    let me = current::goroutine();
    let _section = critical::enter_if(me);
    match me {
        Some(me) if std::ptr::eq(me.sched, g.sched) => {
            if is_left(&g.join) || say_released_after_end(&g.join) {
                recycle(g);
                let m = current::m_of(me);
                m.sched.put_free(&m.held_p(), g);
            }
        }
        _ => release_from_outside(g),
    }
}

/// [`release_ended`] from outside the scheduler, whose end waits for the visit if it sees the word released.
#[cold]
#[inline(never)]
fn release_from_outside(g: GRef) {
    let _visit = Visit::new(g.sched);
    if say_released_after_end(&g.join) {
        recycle(g);
        g.sched.put_free_from_outside(g);
    }
}

#[cfg(all(test, loom))]
#[path = "life_tests.rs"]
mod tests;
