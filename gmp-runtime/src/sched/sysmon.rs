//! The monitor: a thread without a P that looks after the others. So far it prints schedtrace lines.

use crate::debug::schedtrace::{PSnapshot, Snapshot};
use crate::prim::atomic::{AtomicU32, Ordering};
use crate::sched::Sched;
use crate::sys::clock::monotonic_ns;
use crate::sys::{futex, signal};

/// What wakes the monitor.
#[derive(Debug, Default)]
pub(crate) struct Sysmon {
    /// Counts reasons to wake; the word it sleeps on.
    word: AtomicU32,
}

impl Sysmon {
    /// Wakes it to look whether the scheduler stops.
    pub(crate) fn wake(&self) {
        // ordering: Release; pairs with the Acquire load in `run`.
        self.word.fetch_add(1, Ordering::Release);
        futex::wake(&self.word, 1);
    }
}

/// Prints a line every `interval_ms` milliseconds, the first one at once, until the scheduler stops.
pub(crate) fn run(sched: &Sched, interval_ms: u64) {
    let start = monotonic_ns();
    let mut next = start;
    loop {
        // ordering: Acquire; pairs with the Release in `wake`.
        let seen = sched.sysmon.word.load(Ordering::Acquire);
        if sched.stopping() {
            return;
        }
        let now = monotonic_ns();
        if now < next {
            futex::wait(&sched.sysmon.word, seen, Some(next - now));
            continue;
        }
        let line = line(sched, (now - start) / 1_000_000);
        signal::write_stderr(line.as_bytes());
        next += interval_ms.max(1) * 1_000_000;
    }
}

/// A line of schedtrace, `ms` after the first one.
fn line(sched: &Sched, ms: u64) -> String {
    let ps: Vec<PSnapshot> = sched
        .procs()
        .map(|p| PSnapshot {
            run_queue: p.runq.len(),
            sched_tick: p.tick(),
        })
        .collect();
    let snapshot = Snapshot {
        elapsed_ms: ms,
        idle_ps: sched.idle.idle_ps(),
        // This thread counts, as Go's sysmon does; those that only serve the runtime do not.
        threads: sched.m_count() as u64 + 1,
        spinning_threads: sched.idle.spinning_ms(),
        need_spinning: sched.idle.need_spinning(),
        idle_threads: sched.idle_m_count(),
        run_queue: sched.global_len(),
        ps: &ps,
    };
    format!("{snapshot}\n")
}
