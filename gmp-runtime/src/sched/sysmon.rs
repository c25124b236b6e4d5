//! The monitor: a thread without a P that looks after the others.
//!
//! It goes round and does, in this order, what nobody else may be there to do: it takes Ps out of long system
//! calls ([`syscall`]), asks for Ps that goroutines had too long ([`preempt`]), sees to it that work does not wait
//! for a thread that could not be made, has the thread of the collection cycles look whether one is due and
//! the one that follows the process's quota at that, and prints schedtrace lines.
//!
//! Its pace is Go's (`sysmon`): 20 µs between rounds; after 50 rounds in a row in which there was nothing to
//! do, twice as long each time, 10 ms at most. While all Ps are idle it is eight times as long each time, and when
//! none has run anything for a whole round at the slowest pace, it sleeps until a P leaves the idle list
//! ([`Sysmon::p_left_idle`]). Go sleeps as soon as it sees all Ps idle, and is woken more often for it; and begins
//! with 50 fast rounds each time it is woken, which in a program that runs something now and then would be most of
//! what it uses. Here only rounds in which it took a P are followed by so many; the network, which it looks at by
//! the clock, is no reason for its fast rounds, in which it would take a tenth of a processor.
//!
//! It does not allocate after its start, and holds no lock of the scheduler while it prints.

use std::fmt;

use crate::debug::schedtrace::{Detail, GLine, MLine, OrNil, PLine, PSnapshot, Snapshot};
use crate::fatal;
use crate::prim::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::procs::MAX_PROCS;
use crate::sched::g::{G, GState};
use crate::sched::m::M;
use crate::sched::p::P;
use crate::sched::preempt::{self, Watch};
use crate::sched::{Sched, netpoll, shutdown, syscall};
use crate::sys::clock::monotonic_ns;
use crate::sys::futex;
use crate::sys::thread::{set_time_slice, set_timer_slack};

/// Between rounds, while there is something to do.
const SHORTEST_DELAY_NS: u64 = 20_000;

/// Between rounds at most.
const LONGEST_DELAY_NS: u64 = 10_000_000;

/// So many rounds without anything to do keep the shortest delay.
const ROUNDS_AT_SHORTEST: u32 = 50;

/// So many of them come after it was woken.
const ROUNDS_AFTER_WAKE: u32 = 2;

/// How much longer each delay is than the last one while all Ps are idle.
const FACTOR_WHILE_IDLE: u64 = 8;

/// How long it sleeps at most while every P is idle: a back-stop.
const DEEP_SLEEP_NS: u64 = 60_000_000_000;

/// The kernel lets it run for so long at a time: it needs little, at once.
const TIME_SLICE_NS: u64 = 100_000;

/// It does not sleep, or not long.
const AWAKE: u32 = 0;
/// It sleeps for the longest delay between rounds.
const SLOW: u32 = 1;
/// It sleeps until a P leaves the idle list.
const DEEP: u32 = 2;

/// How the monitor sleeps, and what wakes it.
#[derive(Debug, Default)]
pub(crate) struct Sysmon {
    /// Counts reasons to wake; the word it sleeps on.
    word: AtomicU32,
    /// [`AWAKE`], [`SLOW`] or [`DEEP`]. Set to `DEEP` under the scheduler's lock.
    sleep: AtomicU32,
    /// Whether no M has anything to run any more.
    ended: AtomicBool,
}

impl Sysmon {
    /// Wakes it to look around.
    pub(crate) fn wake(&self) {
        // ordering: Release; pairs with the Acquire load in `run`.
        self.word.fetch_add(1, Ordering::Release);
        futex::wake(&self.word, 1);
    }

    /// Every M has come to its end.
    pub(crate) fn end(&self) {
        // ordering: Relaxed: `wake` releases it.
        self.ended.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Sleeps until [`end`](Self::end), for `patience` nanoseconds at most; whether it has come.
    pub(crate) fn sleep_until_the_end(&self, patience: u64) -> bool {
        let until = monotonic_ns() + patience;
        loop {
            // ordering: Acquire; pairs with the Release in `wake`.
            let seen = self.word.load(Ordering::Acquire);
            // ordering: Relaxed: after the Acquire.
            if self.ended.load(Ordering::Relaxed) {
                return true;
            }
            let left = until.saturating_sub(monotonic_ns());
            if left == 0 {
                return false;
            }
            futex::wait(&self.word, seen, Some(left));
        }
    }

    /// A P has left the idle list. Under the scheduler's lock.
    #[inline(always)]
    pub(crate) fn p_left_idle(&self) {
        // ordering: Relaxed: set under the lock that is held here, when every P was idle.
        if self.sleep.load(Ordering::Relaxed) == DEEP {
            // ordering: Relaxed, as above.
            self.sleep.store(AWAKE, Ordering::Relaxed);
            self.wake();
        }
    }

    /// Whether it comes round at its slowest pace. A hint for whoever has something to do for it.
    #[inline(always)]
    pub(crate) fn is_slow(&self) -> bool {
        // ordering: Relaxed: who reads it late waits for the longest delay.
        self.sleep.load(Ordering::Relaxed) == SLOW
    }

    /// Makes it come round soon, if it is slow.
    #[cold]
    #[inline(never)]
    pub(crate) fn hurry(&self) {
        // ordering: Relaxed: one of those who see it slow wakes it.
        if self
            .sleep
            .compare_exchange(SLOW, AWAKE, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            self.wake();
        }
    }

    /// Sleeps for `delay` at most; whether somebody hurried it.
    fn sleep(&self, seen: u32, delay: u64) -> bool {
        if delay < LONGEST_DELAY_NS {
            futex::wait(&self.word, seen, Some(delay));
            return false;
        }
        // ordering: Relaxed: only the monitor makes it slow.
        self.sleep.store(SLOW, Ordering::Relaxed);
        futex::wait(&self.word, seen, Some(delay));
        // ordering: Relaxed, as in `hurry`.
        self.sleep.swap(AWAKE, Ordering::Relaxed) != SLOW
    }

    /// Sleeps until a P leaves the idle list, if all are on it.
    fn sleep_deeply(&self, sched: &Sched, seen: u32) {
        {
            let _shared = sched.shared.lock();
            if sched.idle.idle_ps() != sched.proc_count() || sched.stopping() {
                return;
            }
            // ordering: Relaxed: under the lock.
            self.sleep.store(DEEP, Ordering::Relaxed);
        }
        futex::wait(&self.word, seen, Some(DEEP_SLEEP_NS));
        // ordering: Relaxed: whoever reads DEEP late wakes it once more.
        self.sleep.store(AWAKE, Ordering::Relaxed);
    }
}

/// How long the monitor waits between rounds.
#[derive(Debug)]
struct Pace {
    delay: u64,
    idle_rounds: u32,
}

impl Pace {
    fn new() -> Pace {
        Pace {
            delay: SHORTEST_DELAY_NS,
            idle_rounds: 0,
        }
    }

    /// After a wake.
    fn woken() -> Pace {
        Pace {
            delay: SHORTEST_DELAY_NS,
            idle_rounds: ROUNDS_AT_SHORTEST - ROUNDS_AFTER_WAKE,
        }
    }

    /// After a round: the delay before the next one. `all_idle`: no P runs anything.
    fn next(&mut self, did_something: bool, all_idle: bool) -> u64 {
        if did_something {
            *self = Pace::new();
            return self.delay;
        }
        self.idle_rounds += 1;
        let factor = match all_idle {
            true => FACTOR_WHILE_IDLE,
            false if self.idle_rounds > ROUNDS_AT_SHORTEST => 2,
            false => 1,
        };
        self.delay = (self.delay * factor).min(LONGEST_DELAY_NS);
        self.delay
    }

    fn is_slowest(&self) -> bool {
        self.delay == LONGEST_DELAY_NS
    }
}

/// Goes round until the scheduler stops. Prints a line every `schedtrace_ms` milliseconds, the first one at
/// once, and in `detail` if that is wanted.
pub(crate) fn run(sched: &Sched, schedtrace_ms: Option<u64>, detail: bool) {
    // Where the kernel refuses, it is late.
    let _ = set_timer_slack(1);
    let _ = set_time_slice(TIME_SLICE_NS);
    let sysmon = &sched.sysmon;
    let mut pace = Pace::new();
    let mut lines = schedtrace_ms.map(|ms| Lines::new(ms, detail));
    let mut ticks = 0;
    let mut watch = Watch::new();
    loop {
        // ordering: Acquire; pairs with the Release in `wake`.
        let seen = sysmon.word.load(Ordering::Acquire);
        if sched.stopping() {
            return shutdown::watch(sched);
        }
        let now = monotonic_ns();
        sched.clock.keep(now);
        let took = syscall::take_from_long_calls(sched, now);
        retry_wake(sched);
        let before = std::mem::replace(&mut ticks, ticks_of_all(sched));
        sched.collection.poll(now, ticks);
        sched.follow.poll(now);
        netpoll::poll_from_monitor(sched, now);
        let next_look = preempt::look(sched, &mut watch, now);
        let all_idle = all_are_idle(sched);
        let mut delay = pace.next(took, all_idle).min(next_look);
        if let Some(lines) = &mut lines {
            delay = delay.min(lines.print_if_due(sched, now));
        }
        if lines.is_none() && all_idle && pace.is_slowest() && ticks == before {
            sysmon.sleep_deeply(sched, seen);
            pace = Pace::woken();
        } else if sysmon.sleep(seen, delay) {
            pace = Pace::woken();
        }
    }
}

/// A thread could not be made, so work may wait with nobody awake who knows of it: tries again.
fn retry_wake(sched: &Sched) {
    if sched.spawner.is_short() && sched.work_waits() {
        sched.wake_p_if_needed();
    }
}

/// Whether all Ps are idle, and there is nothing to come back for.
fn all_are_idle(sched: &Sched) -> bool {
    sched.idle.idle_ps() == sched.proc_count() && !sched.work_waits()
}

/// A number that changes when a P runs something.
fn ticks_of_all(sched: &Sched) -> u32 {
    sched.procs().fold(0, |sum, p| sum.wrapping_add(p.tick()))
}

/// The lines of schedtrace.
#[derive(Debug)]
struct Lines {
    /// When the first line was printed: that is of 0 ms, as Go's is.
    start: Option<u64>,
    next: u64,
    interval: u64,
    detail: bool,
    ps: Vec<PSnapshot>,
}

impl Lines {
    fn new(interval_ms: u64, detail: bool) -> Lines {
        Lines {
            start: None,
            next: 0,
            interval: interval_ms.max(1) * 1_000_000,
            detail,
            // There may be more Ps later.
            ps: Vec::with_capacity(MAX_PROCS),
        }
    }

    /// Prints a line if it is time; how long it is until the next one.
    fn print_if_due(&mut self, sched: &Sched, now: u64) -> u64 {
        if self.start.is_none() {
            (self.start, self.next) = (Some(now), now);
        }
        if now >= self.next {
            let snapshot = self.snapshot(sched, now);
            print(&snapshot);
            if self.detail {
                print_detail(sched);
            }
            self.next += self.interval;
        }
        self.next.saturating_sub(now).max(1)
    }

    fn snapshot(&mut self, sched: &Sched, now: u64) -> Snapshot<'_> {
        self.ps.clear();
        self.ps.extend(sched.procs().map(|p| PSnapshot {
            run_queue: p.runq.len(),
            sched_tick: p.tick(),
        }));
        Snapshot {
            elapsed_ms: (now - self.start.unwrap_or(now)) / 1_000_000,
            idle_ps: sched.idle.idle_ps(),
            // This thread counts, as Go's sysmon does; those that only serve the runtime do not.
            threads: sched.m_count() as u64 + 1,
            spinning_threads: sched.idle.spinning_ms(),
            need_spinning: sched.idle.need_spinning(),
            idle_threads: sched.idle_m_count(),
            run_queue: sched.global_len(),
            ps: &self.ps,
            detail: self.detail.then_some(Detail {
                gc_waiting: false,
                locked_idle_threads: sched.waiting_locked(),
                stop_wait: 0,
                // It is the monitor that prints.
                sysmon_waits: false,
            }),
        }
    }
}

fn print(line: &impl fmt::Display) {
    fatal::report(format_args!("{line}\n"));
}

/// A line for each P, M and goroutine.
fn print_detail(sched: &Sched) {
    fatal::report_by(|out| {
        for p in sched.procs() {
            writeln!(out, "{}", p_line(&p))?;
        }
        for index in 0.. {
            let Some(m) = sched.m_at(index) else { break };
            writeln!(out, "{}", m_line(&m))?;
        }
        for index in 0..sched.table.len() {
            let g = sched.table.get(index);
            if g.state() != GState::Idle as u32 {
                writeln!(out, "{}", g_line(&g))?;
            }
        }
        Ok(())
    });
}

fn p_line(p: &P) -> PLine {
    let m = p.m();
    PLine {
        id: p.id,
        status: u32::from(m.is_some()),
        sched_tick: p.tick(),
        syscall_tick: p.call_tick(),
        m: OrNil(m.map(|m| m.id)),
        run_queue: p.runq.len(),
        free_goroutines: p.free_count(),
        timers: p.timers.lock().len(),
    }
}

fn m_line(m: &M) -> MLine {
    let (p, current) = (m.p(), m.current());
    MLine {
        id: m.id,
        p: OrNil(p.map(|p| u64::from(p.id))),
        current: OrNil(current.map(|g| g.id.get())),
        locks: 0,
        spinning: m.spinning.get(),
        blocked: p.is_none() && current.is_none(),
        locked_goroutine: OrNil(m.locked().map(|g| g.id.get())),
    }
}

fn g_line(g: &G) -> GLine {
    let state = g.state();
    let is_on_m = [GState::Running, GState::Syscall, GState::Preempted]
        .iter()
        .any(|on_m| *on_m as u32 == state);
    let wait = (state == GState::Waiting as u32)
        .then(|| g.wait.look())
        .flatten();
    GLine {
        id: g.id.get(),
        status: state,
        wait_reason: wait.map_or("", |(wait, _)| wait.reason.name()),
        m: OrNil(g.m().filter(|_| is_on_m).map(|m| m.id)),
        locked_m: OrNil(g.locked_to().map(|m| m.id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_gos() {
        let mut pace = Pace::new();
        for round in 0..50 {
            assert_eq!(pace.next(false, false), 20_000, "round {round}");
        }
        let slower: Vec<u64> = (0..10).map(|_| pace.next(false, false)).collect();
        assert_eq!(slower[..3], [40_000, 80_000, 160_000]);
        assert_eq!(slower[8..], [10_000_000, 10_000_000]);
        assert!(pace.is_slowest());
        assert_eq!(pace.next(true, false), 20_000);
        assert_eq!(pace.next(false, false), 20_000);
        let mut woken = Pace::woken();
        let delays: Vec<u64> = (0..4).map(|_| woken.next(false, false)).collect();
        assert_eq!(delays, [20_000, 20_000, 40_000, 80_000]);
    }

    #[test]
    fn a_program_that_runs_something_now_and_then_has_few_rounds_for_it() {
        let mut woken = Pace::woken();
        assert_eq!(woken.next(false, false), 20_000);
        let mut rounds = 0;
        while !woken.is_slowest() {
            woken.next(false, true);
            rounds += 1;
        }
        assert_eq!(rounds, 3);
    }
}
