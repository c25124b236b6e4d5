//! Sleeping without keeping a thread.

use std::panic::Location;
use std::time::Duration;

use crate::sched::{current, park, timers};
use crate::sys::clock::monotonic_ns;

/// Pauses the calling goroutine for at least `duration`; other goroutines use its P meanwhile.
///
/// Blocks the goroutine (reason `sleep`), not its thread. A duration of zero yields. On a thread that
/// runs no goroutine it is [`std::thread::sleep`].
#[track_caller]
pub fn sleep(duration: Duration) {
    let Some(g) = current::goroutine() else {
        return std::thread::sleep(duration);
    };
    if duration.is_zero() {
        return park::yield_now(g);
    }
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    // The largest deadline means "none".
    let deadline = monotonic_ns().saturating_add(ns).min(u64::MAX - 1);
    timers::sleep_until(g, deadline, Location::caller());
}
