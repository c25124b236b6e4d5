//! Goroutines for Rust: a stackful M:N scheduler with Go's design that records what it does.
// A model of loom exercises one part of the crate; the ordinary build keeps the whole of it in use.
#![cfg_attr(loom, allow(dead_code, unused_imports, unused_macros))]

#[allow(
    dead_code,
    reason = "the scheduler above does not use every operation yet"
)]
mod fatal;
#[allow(
    dead_code,
    reason = "the scheduler above does not use every operation yet"
)]
mod lock;
#[allow(unused_imports, dead_code, reason = "a facade offers the whole set")]
mod prim;
#[allow(
    dead_code,
    reason = "the scheduler above does not use every operation yet"
)]
mod procs;
#[allow(
    dead_code,
    unused_imports,
    reason = "the scheduler above does not use every operation yet"
)]
mod stack;
#[allow(
    dead_code,
    reason = "the scheduler above does not use every operation yet"
)]
mod sys;
#[cfg(test)]
mod test_child;

use fatal::fatal;
#[allow(dead_code)]
mod switch;
