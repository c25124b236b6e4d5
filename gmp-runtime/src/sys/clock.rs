//! The kernel's clocks in nanoseconds.
//!
//! All functions are async-signal-safe: they are vDSO calls or system calls without state.

/// Nanoseconds of the clock that no change of date moves; counted from an arbitrary point before the
/// process started. The time of deadlines.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970 by the wall clock.
#[inline]
pub(crate) fn wall_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

#[cfg_attr(not(feature = "trace"), allow(dead_code, reason = "only recorded"))]
/// Nanoseconds of processor time that the calling thread has used.
#[inline]
pub(crate) fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The processor time that the thread `tid` of this process has used, in nanoseconds; `None` if it is gone.
/// Async-signal-safe.
pub(crate) fn thread_cpu_ns_of(tid: i32) -> Option<u64> {
    // The kernel's rule for the clocks of threads (`MAKE_THREAD_CPUCLOCK`): the number inverted, then three bits, 4
    // for a thread and 2 for what the scheduler counts.
    read_clock((!tid << 3) | 4 | 2)
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    // These clocks exist on every Linux, so reading them cannot fail; zero would say so.
    read_clock(clock).unwrap_or(0)
}

#[inline]
fn read_clock(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing, because it is a local variable.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_another_thread_is_read() {
        let mine = crate::sys::thread::gettid();
        let before = thread_cpu_ns();
        let seen = std::thread::spawn(move || thread_cpu_ns_of(mine)).join();
        let seen = seen.unwrap().unwrap();
        assert!(before <= seen && seen <= thread_cpu_ns());
        assert_eq!(thread_cpu_ns_of(i32::MAX >> 4), None);
    }

    #[test]
    fn clocks_advance_and_do_not_go_back() {
        let before = (monotonic_ns(), wall_ns(), thread_cpu_ns());
        assert!(before.0 > 0);
        let mut rounds = 0_u64;
        while thread_cpu_ns() == before.2 || monotonic_ns() == before.0 {
            rounds += 1;
            assert!(rounds < 100_000_000, "a clock stands still");
        }
        assert!(monotonic_ns() > before.0);
        // 2020-01-01: the unit is nanoseconds since 1970.
        assert!(wall_ns() > 1_577_836_800 * 1_000_000_000);
    }
}
