//! Sleeping without keeping a thread.

use std::panic::Location;
use std::time::Duration;

use crate::sched::{current, park, timers};

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
    timers::sleep_until(g, timers::deadline_after(duration), Location::caller());
}
