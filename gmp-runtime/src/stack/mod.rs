//! Goroutine stacks: equal pieces of one reserved range of addresses, each with a guard at its low end.
//!
//! A stack cannot be moved (Rust has no maps of the pointers in it), so it is given all its address space
//! at once and memory page by page as it is touched. [`arena`] cuts the address space up and finds a stack
//! from an address, [`guard`] makes the low end fault and reports overflows, [`pool`] hands stacks out and
//! takes them back, [`release`] gives memory that they do not need back to the system.
//!
//! ```text
//! low address                                                             high address
//! | guard            | usable ................................. | colour | next stack's guard
//! ^ low              ^ limit()                                  ^ top()  ^ low + stride
//! ```
//!
//! The *colour* is at most 1984 bytes left unused at the top, different for neighbours: without it all tops
//! would fall into the same sets of the processor's caches, and a switch between a few dozen goroutines
//! would miss on each.

pub(crate) mod arena;
pub(crate) mod guard;
pub(crate) mod pool;
pub(crate) mod release;

#[cfg(test)]
mod overflow_tests;

pub(crate) use arena::{LARGEST, Stack, class_for, slot_of, stride};
pub(crate) use pool::{StackCache, StackPool};

use std::fmt;

/// Why there is no stack to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StackError {
    /// Not even a small range of addresses could be reserved; the system's error number.
    NoAddressSpace(i32),
    /// All stacks of the size class are in use: its stride in bytes, and how many there are.
    Exhausted {
        /// Bytes of address space of one stack.
        stride: usize,
        /// How many stacks of this size the process can have.
        count: u32,
    },
    /// The guard of a new stack could not be made because the process has as many mappings as it may have.
    TooManyMappings,
    /// The guard of a new stack could not be made; the system's error number.
    Guard(i32),
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            StackError::NoAddressSpace(errno) => write!(
                f,
                "no address space for goroutine stacks: {}; raise the limit (ulimit -v) or allow \
                 overcommit (vm.overcommit_memory)",
                std::io::Error::from_raw_os_error(errno)
            ),
            StackError::Exhausted { stride, count } => write!(
                f,
                "all {count} goroutine stacks of {} KiB are in use; smaller stacks \
                 (Builder::stack_size), fewer started goroutines, or more address space (ulimit -v) \
                 are needed",
                stride >> 10
            ),
            StackError::TooManyMappings => f.write_str(
                "no guard for another goroutine stack: the process has as many memory mappings as \
                 vm.max_map_count allows, and on this kernel (older than Linux 6.13) or with locked \
                 memory each stack needs two; raise it (sysctl vm.max_map_count=1000000) or run fewer \
                 goroutines at once",
            ),
            StackError::Guard(errno) => write!(
                f,
                "no guard for another goroutine stack: {}",
                std::io::Error::from_raw_os_error(errno)
            ),
        }
    }
}

impl std::error::Error for StackError {}
