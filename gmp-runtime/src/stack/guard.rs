//! The low end of each stack that must not be touched, and what happens when it is.
//!
//! Rust's own frames touch every page on the way down, so one page would do for them. C's do not: the
//! guard must be wider than the largest frame that C code steps over, or an overflow would land in the
//! neighbour's stack unseen.

use super::StackError;
use super::arena::{self, Stack};
use crate::fatal::report;
use crate::prim::process_wide::{AtomicPtr, Ordering};
use crate::sys::memory::{self, Guard};
use crate::sys::signal::{self, Fault};
use std::panic::Location;
use std::ptr::null_mut;

/// Bytes of guard of a stack of `class`.
///
/// 32 KiB where that is an eighth of the stack or less. A stack of 64 or 128 KiB has half of that: with a
/// full guard the smallest stack would be half guard, and whoever chooses such stacks does so to have
/// many, not to call into deep C code. A guard is at least a page, and pages are not 4 KiB everywhere.
#[inline]
pub(crate) fn size(class: u8) -> usize {
    let wanted = if arena::stride(class) >= 256 << 10 {
        32 << 10
    } else {
        16 << 10
    };
    if cfg!(target_arch = "x86_64") {
        wanted
    } else {
        wanted.max(memory::page_size())
    }
}

/// Makes the guard of a stack that nobody uses. It stays for good.
pub(super) fn install(stack: &Stack) -> Result<Guard, StackError> {
    // SAFETY: the guard is whole pages of the stack's own piece of the reservation (a private mapping), and
    // the stack has not been handed out, so nobody stored anything there.
    unsafe { memory::install_guard(stack.guard_start(), size(stack.class())) }.map_err(|error| {
        if memory::is_out_of_mappings(&error) {
            StackError::TooManyMappings
        } else {
            StackError::Guard(error.raw_os_error().unwrap_or(0))
        }
    })
}

/// What an overflow report says about the goroutine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GoroutineFacts {
    /// Its number.
    pub(crate) id: u64,
    /// Where it was made.
    pub(crate) created_at: Option<&'static Location<'static>>,
    /// The goroutine that made it.
    pub(crate) created_by: Option<u64>,
}

/// Tells about goroutines by the pointer in a stack's slot (never null). Called in a signal handler.
#[derive(Debug)]
pub(crate) struct Teller {
    /// About the goroutine itself.
    pub(crate) describe: fn(*mut ()) -> GoroutineFacts,
    /// Prints the goroutine and all others.
    pub(crate) print_all: fn(*mut ()),
}

static TELLER: AtomicPtr<Teller> = AtomicPtr::new(null_mut());

/// From now on an access to the guard of the stack that a thread runs on ends the process with a report
/// about the goroutine. Threads that run goroutines also need an [`AlternateStack`](signal::AlternateStack).
///
/// # Errors
///
/// When the kernel refuses the handler.
pub(crate) fn report_overflows(teller: &'static Teller) -> std::io::Result<()> {
    // ordering: Release; pairs with the Acquire load in `on_fault`.
    TELLER.store(std::ptr::from_ref(teller).cast_mut(), Ordering::Release);
    signal::install_fault_handler(on_fault)
}

/// Ends the process if the fault is an overflow; returns if it is something else.
fn on_fault(fault: &Fault) {
    let Some(stack) = arena::stack_at(fault.stack_pointer) else {
        return;
    };
    if !stack.guard_contains(fault.address) {
        return;
    }
    let goroutine = stack.slot();
    // ordering: Acquire; pairs with the Release store of whoever gave the stack to the goroutine. (The same
    // thread runs it, so it has seen that store anyway.)
    let goroutine = goroutine.load(Ordering::Acquire);
    // ordering: Acquire; pairs with the store in `report_overflows`.
    let teller = TELLER.load(Ordering::Acquire);
    // SAFETY: null, or from a reference that lives as long as the process.
    let teller = unsafe { teller.as_ref() }.filter(|_| !goroutine.is_null());
    let facts = teller.map(|teller| (teller.describe)(goroutine));
    report_overflow(&stack, fault, facts);
    if let Some(teller) = teller {
        report(format_args!("\n"));
        (teller.print_all)(goroutine);
    }
    signal::abort()
}

fn report_overflow(stack: &Stack, fault: &Fault, facts: Option<GoroutineFacts>) {
    let limit = stack.size();
    match facts {
        Some(facts) => report(format_args!(
            "runtime: stack of goroutine {} exceeds its limit of {limit} bytes\n",
            facts.id
        )),
        None => report(format_args!(
            "runtime: a goroutine's stack exceeds its limit of {limit} bytes\n"
        )),
    }
    report(format_args!(
        "\tstack {:#x} to {:#x}, of {} KiB with its guard; access to {:#x}, stack pointer {:#x}\n",
        stack.limit(),
        stack.top(),
        arena::stride(stack.class()) >> 10,
        fault.address,
        fault.stack_pointer,
    ));
    if let Some(site) = facts.and_then(|facts| facts.created_at) {
        match facts.and_then(|facts| facts.created_by) {
            Some(creator) => report(format_args!("\tcreated at {site} by goroutine {creator}\n")),
            None => report(format_args!("\tcreated at {site}\n")),
        }
    }
    report(format_args!(
        "\tBuilder::stack_size gives goroutines larger stacks, up to 8 MiB\n\
         fatal error: stack overflow\n"
    ));
}
