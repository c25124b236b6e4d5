//! The symmetric switch for x86-64 (System V), in line.
//!
//! # Stacks
//!
//! A suspended stack, low addresses first; `Context::stack_pointer` points at the first word:
//!
//! ```text
//!   +0   resume address    where a jump continues this stack
//!   +8   rbx
//!  +16   rbp
//!  +24   ...               the frame of the function that switched
//! ```
//!
//! A stack that has not run yet:
//!
//! ```text
//!   +0   address of `first_run`
//!   +8   address of `entry`            -> r12 in `first_run`
//!  +16   0                             frame-pointer walks end here
//!  +24   0                             return address of nobody
//!        top of the stack, 16-aligned
//! ```
//!
//! A switch leaves by `jmp` and comes back by `jmp`: no call, no return. What a resumed stack finds
//! in registers: nothing. All registers but rbx, rbp and rsp are declared as clobbered, so the
//! compiler itself keeps what it needs, and only that.

use super::Registers;
use super::fiber::Fiber;
use crate::prim::hint;
use crate::prim::process_wide::{AtomicUsize, Ordering};

/// A suspended flow of control.
#[derive(Debug)]
pub(crate) struct Context {
    /// Where its stack ends while it is suspended; 0 while it runs. Whoever switches to it empties it, and the
    /// last instruction on the stack that is left fills it. (Never loom's: an instruction of ours writes it.)
    stack_pointer: AtomicUsize,
    fiber: Fiber,
}

/// Bytes below the stack pointer that the calling convention lets a function use.
const RED_ZONE: usize = 128;

/// What the first switch to a goroutine calls.
pub(crate) type Entry = extern "C" fn() -> !;

impl Context {
    /// A context that nothing is suspended in yet.
    pub(crate) const fn new() -> Context {
        Context {
            stack_pointer: AtomicUsize::new(0),
            fiber: Fiber::new(),
        }
    }

    /// The lowest address that a suspended flow of control needs of its stack; `None` while it runs, or is on
    /// its way off its stack. From any thread: a snapshot.
    pub(crate) fn in_use_from(&self) -> Option<usize> {
        // ordering: Acquire; pairs with the store in `switch`, which on this processor is a Release.
        match self.stack_pointer.load(Ordering::Acquire) {
            0 => None,
            stack_pointer => Some(stack_pointer - RED_ZONE),
        }
    }

    /// Lays out the stack that ends at `top` so that the first switch to this context calls `entry`.
    ///
    /// # Safety
    /// `top` is 16-aligned and the end of a writable stack that nobody uses; `_limit` its lowest
    /// usable address.
    #[inline(always)]
    pub(crate) unsafe fn prepare(&self, top: *mut u8, _limit: *mut u8, entry: Entry) {
        // SAFETY: the caller owns the stack below `top`, which is 16-aligned.
        unsafe {
            let words = top.cast::<usize>().sub(4);
            words.write(first_run as *const () as usize);
            words.add(1).write(entry as *const () as usize);
            words.add(2).write(0);
            words.add(3).write(0);
            // ordering: Relaxed: whoever switches to it got it through a queue; dumps take a snapshot.
            self.stack_pointer.store(words as usize, Ordering::Relaxed);
        }
        self.fiber.renew();
    }

    /// Where it goes on, if it is suspended on the stack that `word` reads: for dumps. While it runs or is
    /// resumed the answer is of no use, and does no harm.
    pub(crate) fn suspended_at(&self, word: impl Fn(usize) -> Option<usize>) -> Option<Registers> {
        // ordering: Relaxed: a snapshot.
        let sp = self.stack_pointer.load(Ordering::Relaxed);
        Some(Registers {
            pc: word(sp)?,
            fp: word(sp + 16)?,
            // The three words of the picture are popped before the code goes on.
            sp: sp + 24,
        })
    }

    /// It is left for good: a dump finds nothing here.
    #[inline(always)]
    pub(crate) fn forget(&self) {
        // ordering: Relaxed: a snapshot.
        self.stack_pointer.store(0, Ordering::Relaxed);
    }

    /// Brings the memory near that it needs first when it goes on, if it is suspended.
    #[inline]
    pub(crate) fn fetch_ahead(&self) {
        let stack = self.stack_pointer() as *const u8;
        if !stack.is_null() {
            for line in 0..4 {
                hint::prefetch(stack.wrapping_add(line * 64));
            }
        }
    }

    /// Where its stack ends.
    pub(crate) fn stack_pointer(&self) -> usize {
        // ordering: Relaxed: a snapshot.
        self.stack_pointer.load(Ordering::Relaxed)
    }
}

/// Where a stack that has never run begins: calls the entry, with unwind information that says that
/// there is no caller.
#[unsafe(naked)]
unsafe extern "C" fn first_run() {
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip", // an unwinder that comes here stops
        ".cfi_undefined rbp",
        // rsp is at +8 of the picture: the resume address was popped by the jump.
        "pop r12",      // r12 = entry; rsp 16-aligned, two zero words left above it
        "xor ebp, ebp", // frame-pointer walks stop
        "call r12",     // never returns
        "ud2",
        ".cfi_endproc",
    )
}

/// Leaves the flow of control `from` for `to`; returns when somebody switches to `from`.
///
/// # Safety
/// `from` is the running one, on its own stack. `to` is suspended, and no other thread resumes it.
#[inline(always)]
pub(crate) unsafe fn switch(from: &Context, to: &Context) {
    // ordering: Relaxed: the caller owns it.
    let target = to.stack_pointer.load(Ordering::Relaxed);
    // ordering: Relaxed: who sees a state that `to` has after this sees it empty or filled again.
    to.stack_pointer.store(0, Ordering::Relaxed);
    from.fiber.leave_for(&to.fiber);
    // SAFETY: the caller's contract; the stack of `from` is used below its pointer only (the compiler
    // keeps no red zone around a block that may push), and every register that the code of `to` may
    // change is declared.
    unsafe {
        std::arch::asm!(
            "lea rax, [rip + 2f]",   // where we go on
            "push rbp",
            "push rbx",
            "push rax",
            "mov [rdi], rsp",        // suspended: `from` may be resumed once the target publishes it
            "mov rsp, rsi",
            "pop rax",               // where the target goes on
            "jmp rax",
            "2:",                    // resumed, by any thread
            "pop rbx",
            "pop rbp",
            inlateout("rdi") from.stack_pointer.as_ptr() => _,
            inlateout("rsi") target => _,
            out("rax") _, out("rcx") _, out("rdx") _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// Leaves a goroutine that has ended for `to`; nobody resumes it.
///
/// # Safety
/// As [`switch`]; the stack of `from` is free as soon as `to` runs.
#[inline(always)]
pub(crate) unsafe fn leave(from: &Context, to: &Context) -> ! {
    // SAFETY: the caller's contract.
    unsafe {
        switch(from, to);
        std::hint::unreachable_unchecked()
    }
}

/// Leaves the M's own stack `scheduler` for the goroutine `to`; returns when a goroutine on this M
/// calls [`back`].
///
/// # Safety
/// As [`switch`].
#[inline(always)]
pub(crate) unsafe fn enter(scheduler: &Context, to: &Context) {
    // SAFETY: the caller's contract.
    unsafe { switch(scheduler, to) }
}

/// Leaves the goroutine `from` for the stack of the M that it runs on.
///
/// # Safety
/// As [`switch`]; `scheduler` is the context of the M that the caller runs on.
#[inline(always)]
pub(crate) unsafe fn back(from: &Context, scheduler: &Context) {
    // SAFETY: the caller's contract.
    unsafe { switch(from, scheduler) }
}

/// Leaves a goroutine that has ended for the stack of the M that it runs on.
///
/// # Safety
/// As [`leave`] and [`back`].
#[inline(always)]
pub(crate) unsafe fn leave_to_scheduler(from: &Context, scheduler: &Context) -> ! {
    // SAFETY: the caller's contract.
    unsafe { leave(from, scheduler) }
}
