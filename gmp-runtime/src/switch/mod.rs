//! Switching between stacks: one contract, two backends.
//!
//! A [`Context`] is a suspended flow of control on a stack of its own. Two kinds exist: a
//! goroutine's, made by [`Context::prepare`], and an M's, which is the thread's own stack while a
//! goroutine runs on that thread.
//!
//! # Contract of a backend
//!
//! | operation | what happens to control |
//! |---|---|
//! | [`Context::prepare`] | a goroutine's stack is laid out so that the first switch to it calls `entry` |
//! | [`enter`] | the M leaves its own stack for a goroutine's; returns when somebody calls [`back`] |
//! | [`switch`] | a goroutine leaves for another one; returns when somebody switches to it again |
//! | [`leave`] | as [`switch`], from a goroutine that has ended |
//! | [`back`] | a goroutine leaves for the stack of the M that it runs on; returns as [`switch`] does |
//! | [`leave_to_scheduler`] | as [`back`], from a goroutine that has ended |
//!
//! Nothing is saved but what the calling convention says a callee preserves: no signal mask, no
//! floating point control words. The one that is left may be resumed by any thread, but only after
//! the switch away from it is complete: whoever makes it runnable does so *after* the switch, on the
//! stack that was switched to (the post-switch action of `sched::park`).
//!
//! Unwinding ends at `entry`: a backtrace taken inside a goroutine shows its frames and stops.
//!
//! # Backends
//!
//! `x86_64` switches symmetrically, in line, without a call or a return, because a switch made
//! of `call` and `ret` unbalances the processor's return predictor. `portable` is built on
//! corosensei and serves every other processor; `--cfg gmp_portable_switch` selects it on x86-64 too.

#[cfg(all(target_arch = "x86_64", not(gmp_portable_switch)))]
mod fiber;
#[cfg(all(target_arch = "x86_64", not(gmp_portable_switch)))]
mod x86_64;
#[cfg(all(target_arch = "x86_64", not(gmp_portable_switch)))]
pub(crate) use x86_64::{Context, back, enter, leave, leave_to_scheduler, switch};

#[cfg(not(all(target_arch = "x86_64", not(gmp_portable_switch))))]
mod portable;
#[cfg(not(all(target_arch = "x86_64", not(gmp_portable_switch))))]
pub(crate) use portable::{Context, back, enter, leave, leave_to_scheduler, switch};

/// Where code goes on, and its frame: what a walk over the frames of a stack begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers {
    pub(crate) pc: usize,
    pub(crate) sp: usize,
    /// The frame pointer, of code that has one.
    pub(crate) fp: usize,
}

/// Where the caller is; `None` on a processor that is not known here.
#[inline(always)]
pub(crate) fn registers() -> Option<Registers> {
    #[cfg(target_arch = "x86_64")]
    {
        let (pc, sp, fp): (usize, usize, usize);
        // SAFETY: reads registers.
        unsafe {
            std::arch::asm!(
                "lea {}, [rip]",
                "mov {}, rsp",
                "mov {}, rbp",
                out(reg) pc,
                out(reg) sp,
                out(reg) fp,
                options(nomem, nostack, preserves_flags)
            );
        }
        Some(Registers { pc, sp, fp })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Where the stack pointer is.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let sp: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let here = 0u8;
        sp = std::hint::black_box(&raw const here) as usize;
    }
    sp
}

#[cfg(test)]
mod tests;
