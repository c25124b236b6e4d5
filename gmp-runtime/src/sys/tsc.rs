//! The processor's time stamp counter as a clock, and what to use where there is none.
//!
//! A trace stamps every runtime call, so the stamp is its largest cost: reading the counter takes a third
//! of a `clock_gettime`. The counter is used where it runs at one rate in all states of the processor
//! (*invariant*), the kernel has not found it unstable and the program may read it.
//!
//! A stamp is in *units* of at most [`MAX_UNIT_NS`] nanoseconds: counter ticks without their lowest bits.
//! Coarser units make the differences in a trace one byte shorter; finer ones would be below the
//! reading's own noise.

use super::clock::monotonic_ns;
use std::time::Duration;

/// No unit is longer than this many nanoseconds.
pub(crate) const MAX_UNIT_NS: u64 = 16;

/// How long [`ClockUnits::detect`] measures the counter against the kernel's clock.
const CALIBRATION: Duration = Duration::from_millis(2);

/// Units of `clock_gettime` where there is no counter: nanoseconds without their lowest four bits.
const NANOSECOND_SHIFT: u32 = MAX_UNIT_NS.ilog2();

/// Where stamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The processor's counter.
    Counter,
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    Monotonic,
}

/// A source of stamps and the length of its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockUnits {
    source: Source,
    shift: u32,
    ticks_per_second: u64,
}

/// A stamp and the monotonic time at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StampPair {
    /// The stamp in units.
    pub(crate) units: u64,
    /// The monotonic clock in nanoseconds.
    pub(crate) monotonic_ns: u64,
}

impl ClockUnits {
    /// Units made of the kernel's clock: works everywhere, costs more.
    pub(crate) const MONOTONIC: ClockUnits = ClockUnits {
        source: Source::Monotonic,
        shift: NANOSECOND_SHIFT,
        ticks_per_second: 1_000_000_000,
    };

    /// The best clock of this machine. Takes a few milliseconds where a counter must be calibrated.
    pub(crate) fn detect() -> ClockUnits {
        if !counter::is_trustworthy() {
            return ClockUnits::MONOTONIC;
        }
        ClockUnits::of_counter(counter::frequency().unwrap_or_else(measure_frequency))
    }

    /// A counter of this frequency, or the kernel's clock if one tick is longer than a unit may be.
    fn of_counter(ticks_per_second: u64) -> ClockUnits {
        // Units of at most MAX_UNIT_NS: this many ticks fit into the longest unit.
        let ticks = ticks_per_second.saturating_mul(MAX_UNIT_NS) / 1_000_000_000;
        match ticks.checked_ilog2() {
            Some(shift) => ClockUnits {
                source: Source::Counter,
                shift,
                ticks_per_second,
            },
            None => ClockUnits::MONOTONIC,
        }
    }

    /// Now, in units. Two readings of one thread do not go back; those of two threads may differ by what
    /// the machine's counters differ.
    #[inline(always)]
    pub(crate) fn now_units(&self) -> u64 {
        match self.source {
            Source::Counter => counter::read() >> self.shift,
            Source::Monotonic => monotonic_ns() >> self.shift,
        }
    }

    #[cfg_attr(not(test), allow(dead_code, reason = "what tests look at"))]
    /// Where the stamps come from.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    #[cfg_attr(not(test), allow(dead_code, reason = "what tests look at"))]
    /// A unit is two to the power of this many ticks of the source.
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// Units in a second, rounded down: at least 62 500 000.
    pub(crate) fn units_per_second(&self) -> u64 {
        self.ticks_per_second >> self.shift
    }

    /// A duration in nanoseconds as units.
    pub(crate) fn units_of_ns(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.units_per_second()) / 1_000_000_000) as u64
    }

    /// A stamp and the monotonic clock, read as close together as three tries allow.
    pub(crate) fn pair(&self) -> StampPair {
        let (ticks, monotonic_ns) = match self.source {
            Source::Counter => tick_pair(),
            Source::Monotonic => {
                let now = monotonic_ns();
                (now, now)
            }
        };
        StampPair {
            units: ticks >> self.shift,
            monotonic_ns,
        }
    }
}

/// A counter value and the monotonic time of the same moment: the reading of the clock that had the
/// counter values around it closest together.
fn tick_pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..3 {
        let before = counter::read();
        let now = monotonic_ns();
        let after = counter::read();
        let width = after.wrapping_sub(before);
        if width < best.0 {
            best = (width, before.wrapping_add(width / 2), now);
        }
    }
    (best.1, best.2)
}

/// Ticks per second, by watching both clocks for [`CALIBRATION`].
fn measure_frequency() -> u64 {
    let (first_ticks, first_ns) = tick_pair();
    std::thread::sleep(CALIBRATION);
    let (last_ticks, last_ns) = tick_pair();
    let ns = u128::from(last_ns.saturating_sub(first_ns).max(1));
    let ticks = u128::from(last_ticks.saturating_sub(first_ticks));
    u64::try_from(ticks * 1_000_000_000 / ns).unwrap_or(u64::MAX)
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// The counter of the processor this thread runs on.
    #[inline(always)]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction; where a process is forbidden to use it,
        // `is_trustworthy` said so and nothing gets here.
        unsafe { _rdtsc() }
    }

    /// Whether the counter runs at one rate always, agrees between processors and may be read.
    pub(super) fn is_trustworthy() -> bool {
        is_invariant() && kernel_trusts_it() && may_read()
    }

    /// The processor's promise: bit 8 of EDX of leaf 0x8000_0007.
    fn is_invariant() -> bool {
        // From Rust 1.94 on the intrinsic is safe; older compilers need the block.
        #[allow(unused_unsafe, reason = "the intrinsic is unsafe up to Rust 1.93")]
        // SAFETY: every x86-64 processor has CPUID, and the leaf is read only where it exists.
        unsafe {
            __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
        }
    }

    /// The kernel watches the counter and takes it off this list when processors disagree. Where the list
    /// cannot be read there is no verdict, and the processor's promise stands.
    fn kernel_trusts_it() -> bool {
        const LIST: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
        std::fs::read_to_string(LIST).map_or(true, |list| {
            list.split_whitespace().any(|name| name == "tsc")
        })
    }

    /// A process can be forbidden to read the counter (`PR_SET_TSC`): reading would be a SIGSEGV.
    fn may_read() -> bool {
        let mut mode: libc::c_int = libc::PR_TSC_ENABLE;
        // SAFETY: PR_GET_TSC writes one int to the address given, which is a local variable.
        let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
        result != 0 || mode == libc::PR_TSC_ENABLE
    }

    /// The frequency must be measured: the leaves that would tell are often empty in virtual machines.
    pub(super) fn frequency() -> Option<u64> {
        None
    }
}

#[cfg(target_arch = "aarch64")]
mod counter {
    use std::arch::asm;

    /// The virtual counter: one for the whole machine.
    #[inline(always)]
    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: the register is readable in user space on Linux, and reading has no effect on memory.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }

    /// The architecture promises one constant rate.
    pub(super) fn is_trustworthy() -> bool {
        true
    }

    /// The rate that the firmware wrote down.
    pub(super) fn frequency() -> Option<u64> {
        let frequency: u64;
        // SAFETY: as in `read`.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
        (frequency != 0).then_some(frequency)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod counter {
    /// No counter is known here; nothing calls this.
    pub(super) fn read() -> u64 {
        super::monotonic_ns()
    }

    /// Use the kernel's clock.
    pub(super) fn is_trustworthy() -> bool {
        false
    }

    /// No counter, no frequency.
    pub(super) fn frequency() -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_the_longest_power_of_two_ticks_within_the_limit() {
        let mut checked = 0;
        for (frequency, shift) in [
            (1_000_000_000, 4),
            (999_999_999, 3),
            (2_450_000_000, 5),
            (3_999_999_999, 5),
            (4_000_000_000, 6),
            (62_500_000, 0),
        ] {
            let units = ClockUnits::of_counter(frequency);
            assert_eq!(
                (units.source(), units.shift()),
                (Source::Counter, shift),
                "{frequency}"
            );
            let unit_ns = (1_u64 << shift) as f64 * 1e9 / frequency as f64;
            assert!(unit_ns <= MAX_UNIT_NS as f64 && 2.0 * unit_ns > MAX_UNIT_NS as f64);
            assert!(units.units_per_second() >= 62_499_999);
            checked += 1;
        }
        assert_eq!(checked, 6);
    }

    #[test]
    fn a_counter_too_slow_for_the_unit_is_not_used() {
        assert_eq!(ClockUnits::of_counter(24_000_000), ClockUnits::MONOTONIC);
        assert_eq!(ClockUnits::of_counter(0), ClockUnits::MONOTONIC);
    }

    #[test]
    fn stamps_measure_time_as_the_monotonic_clock_does() {
        for clock in [ClockUnits::detect(), ClockUnits::MONOTONIC] {
            let first = clock.pair();
            std::thread::sleep(Duration::from_millis(20));
            let last = clock.pair();
            let by_units = (last.units - first.units) as f64 / clock.units_per_second() as f64;
            let by_clock = (last.monotonic_ns - first.monotonic_ns) as f64 / 1e9;
            // Both measured the same interval, however long it really was.
            let error = (by_units / by_clock - 1.0).abs();
            assert!(
                error < 0.01,
                "{clock:?}: {by_units} s in units, {by_clock} s by the clock"
            );
        }
    }

    #[test]
    fn stamps_of_one_thread_do_not_go_back() {
        let clock = ClockUnits::detect();
        let mut last = clock.now_units();
        for _ in 0..100_000 {
            let now = clock.now_units();
            assert!(now >= last);
            last = now;
        }
    }
}
