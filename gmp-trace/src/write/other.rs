//! Records of Ms, system calls, network, timers, stops, collection, and the program's own events.

use crate::event::Preemption;
use crate::limits::MAX_LOG_BYTES;
use crate::spec::Kind;
use crate::write::encoder::Encoder;
use crate::write::scheduling::optional_m;

impl Encoder {
    /// This M had a thread made for M `child`.
    #[inline]
    pub fn m_create(&mut self, chunk: &mut [u8], now: u64, child: u64) {
        self.counted(chunk, now, Kind::MCreate, child);
    }

    /// This M ends.
    #[inline]
    pub fn m_exit(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::MExit, 0);
    }

    /// This M goes to sleep.
    #[inline]
    pub fn m_park(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::MPark, 0);
    }

    /// This M wakes M `target`.
    #[inline]
    pub fn m_wake(&mut self, chunk: &mut [u8], now: u64, target: u64) {
        self.counted(chunk, now, Kind::MWake, target);
    }

    /// This M begins to look for work that it does not know of.
    #[inline]
    pub fn spin_begin(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::SpinBegin, 0);
    }

    /// This M ends to look for work; `found` tells whether it has some.
    #[inline]
    pub fn spin_end(&mut self, chunk: &mut [u8], now: u64, found: bool) {
        self.stamped(chunk, now, Kind::SpinEnd, u8::from(found));
    }

    /// The current goroutine was locked to this M.
    #[inline]
    pub fn m_lock(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::MLock, 0);
    }

    /// The current goroutine is no longer locked to this M.
    #[inline]
    pub fn m_unlock(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::MUnlock, 0);
    }

    /// This M has used `nanos` of CPU time since its thread was made.
    #[inline]
    pub fn m_cpu(&mut self, chunk: &mut [u8], now: u64, nanos: u64) {
        self.counted(chunk, now, Kind::MCpu, nanos);
    }

    /// The switch that ended here took the scheduler `units` of the clock.
    #[inline]
    pub fn sched_sample(&mut self, chunk: &mut [u8], now: u64, units: u64) {
        self.counted(chunk, now, Kind::SchedSample, units);
    }

    /// The current goroutine enters a system call, at site `site` and stack `stack` (0: none). Takes the
    /// next sequence number of this M's P (see [`Encoder::proc_start`]), without writing it.
    #[inline]
    pub fn syscall_enter(&mut self, chunk: &mut [u8], now: u64, site: u32, stack: u32) {
        let args = [self.delta(now), u64::from(site), u64::from(stack)];
        self.record(chunk, Kind::SyscallEnter.head(0, false), args, 1);
    }

    /// The current goroutine is back from its system call and goes on with a P.
    #[inline]
    pub fn syscall_exit(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::SyscallExit, 0);
    }

    /// The current goroutine is back from its system call, has no P and is runnable.
    #[inline]
    pub fn syscall_exit_blocked(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::SyscallExitBlocked, 0);
    }

    /// Goroutine `g` was found blocked in the kernel on M `on_m` by its CPU clock.
    #[inline]
    pub fn syscall_implicit(&mut self, chunk: &mut [u8], now: u64, g: u64, on_m: u64) {
        let args = [self.delta(now), self.relative(g), on_m];
        self.record(chunk, Kind::SyscallImplicit.head(0, false), args, 1);
    }

    /// The network was polled; `blocking` tells whether the call could wait, `ready` how many
    /// goroutines became ready.
    #[inline]
    pub fn netpoll(&mut self, chunk: &mut [u8], now: u64, blocking: bool, ready: u32) {
        let args = [self.delta(now), u64::from(ready)];
        self.record(
            chunk,
            Kind::Netpoll.head(u8::from(blocking), false),
            args,
            1,
        );
    }

    /// A timer fired, `late` units of the clock after it should have, for goroutine `g` (0: none).
    #[inline]
    pub fn timer_fired(&mut self, chunk: &mut [u8], now: u64, late: u64, g: u64) {
        let args = [self.delta(now), late, g];
        self.record(chunk, Kind::TimerFired.head(0, false), args, 1);
    }

    /// The current goroutine (or the runtime) wants the world stopped, for what text `what` says.
    #[inline]
    pub fn stop_requested(&mut self, chunk: &mut [u8], now: u64, what: u32) {
        self.counted(chunk, now, Kind::StopRequested, u64::from(what));
    }

    /// This M has reached a safe point.
    #[inline]
    pub fn safe_point(&mut self, chunk: &mut [u8], now: u64, how: Preemption) {
        self.stamped(chunk, now, Kind::SafePoint, how as u8);
    }

    /// Every M has reached a safe point.
    #[inline]
    pub fn stopped(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::Stopped, 0);
    }

    /// The world goes on.
    #[inline]
    pub fn restarted(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::Restarted, 0);
    }

    /// Collection cycle `cycle` begins.
    #[inline]
    pub fn gc_begin(&mut self, chunk: &mut [u8], now: u64, cycle: u64) {
        self.counted(chunk, now, Kind::GcBegin, cycle);
    }

    /// Collection cycle `cycle` is running already.
    #[inline]
    pub fn gc_active(&mut self, chunk: &mut [u8], now: u64, cycle: u64) {
        self.counted(chunk, now, Kind::GcActive, cycle);
    }

    /// Collection cycle `cycle` ends, having released `pages` and `stacks`.
    #[inline]
    pub fn gc_end(&mut self, chunk: &mut [u8], now: u64, cycle: u64, (pages, stacks): (u64, u64)) {
        let args = [self.delta(now), cycle, pages, stacks];
        self.record(chunk, Kind::GcEnd.head(0, false), args, 1);
    }

    /// The figure called by text `name` is now `value`.
    #[inline]
    pub fn metric(&mut self, chunk: &mut [u8], now: u64, name: u32, value: u64) {
        let args = [self.delta(now), u64::from(name), value];
        self.record(chunk, Kind::Metric.head(0, false), args, 1);
    }

    /// Task `task`, part of `parent` (0: of none), begins and is called by text `name`. A task's
    /// number is not 0.
    #[inline]
    pub fn task_begin(&mut self, chunk: &mut [u8], now: u64, task: u64, parent: u64, name: u32) {
        let args = [self.delta(now), task, parent, u64::from(name)];
        self.record(chunk, Kind::TaskBegin.head(0, false), args, 1);
    }

    /// Task `task` ends.
    #[inline]
    pub fn task_end(&mut self, chunk: &mut [u8], now: u64, task: u64) {
        self.counted(chunk, now, Kind::TaskEnd, task);
    }

    /// A region of the current goroutine begins, part of `task` (0: of none), called by text `name`.
    #[inline]
    pub fn region_begin(&mut self, chunk: &mut [u8], now: u64, task: u64, name: u32) {
        let args = [self.delta(now), task, u64::from(name)];
        self.record(chunk, Kind::RegionBegin.head(0, false), args, 1);
    }

    /// The innermost region of the current goroutine ends.
    #[inline]
    pub fn region_end(&mut self, chunk: &mut [u8], now: u64, task: u64, name: u32) {
        let args = [self.delta(now), task, u64::from(name)];
        self.record(chunk, Kind::RegionEnd.head(0, false), args, 1);
    }

    /// The program says `message` about `task` (0: none), of the kind that text `key` names. A
    /// message longer than [`MAX_LOG_BYTES`] is cut and then ends in `…`.
    ///
    /// Returns false, and records nothing, where the chunk has no room for it.
    #[must_use]
    pub fn log(&mut self, chunk: &mut [u8], now: u64, task: u64, key: u32, message: &str) -> bool {
        let (before, mut cut) = (self.last_time(), [0; MAX_LOG_BYTES]);
        let message = cut_text(message, &mut cut);
        let args = [self.delta(now), task, u64::from(key)];
        let written = self.long_record(chunk, Kind::Log.head(0, false), args, message, 1);
        if !written {
            self.restore_time(before);
        }
        written
    }

    /// The CPU profiler saw goroutine `g` (0: none) at stack `stack` (0: none) at time `at`, on P
    /// `p` and M `m`. For blocks of kind [`Samples`](crate::write::BlockKind::Samples).
    #[inline]
    pub fn cpu_sample(
        &mut self,
        chunk: &mut [u8],
        at: u64,
        (m, p): (Option<u64>, Option<u32>),
        g: u64,
        stack: u32,
    ) {
        let p = p.map_or(0, |p| u64::from(p) + 1);
        let args = [at, p, optional_m(m), g, u64::from(stack)];
        self.record(chunk, Kind::CpuSample.head(0, false), args, 1);
    }
}

/// What marks a text that was cut.
pub(super) const ELLIPSIS: &str = "…";

/// The bytes of `text`, cut to the size of `buffer` where it is longer: then the last character is
/// an ellipsis.
pub(super) fn cut_text<'a>(text: &'a str, buffer: &'a mut [u8]) -> &'a [u8] {
    if text.len() <= buffer.len() {
        return text.as_bytes();
    }
    let mut keep = buffer.len().saturating_sub(ELLIPSIS.len());
    while !text.is_char_boundary(keep) {
        keep -= 1;
    }
    let (kept, rest) = buffer.split_at_mut(keep);
    kept.copy_from_slice(&text.as_bytes()[..keep]);
    let mark = rest.len().min(ELLIPSIS.len());
    rest[..mark].copy_from_slice(&ELLIPSIS.as_bytes()[..mark]);
    &buffer[..keep + mark]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut buffer = [0; 10];
        assert_eq!(cut_text("0123456789", &mut buffer), b"0123456789");
        assert_eq!(cut_text("0123456789a", &mut buffer), "0123456…".as_bytes());
        assert_eq!(cut_text("012345éééé", &mut buffer), "012345…".as_bytes());
    }
}
