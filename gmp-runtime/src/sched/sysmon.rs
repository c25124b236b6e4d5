//! The monitor: a thread without a P that looks after the others. So far it prints schedtrace lines.

use crate::debug::schedtrace::Snapshot;
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
        signal::write_stderr(format!("{}\n", snapshot(sched, (now - start) / 1_000_000)).as_bytes());
        next += interval_ms.max(1) * 1_000_000;
    }
}

/// What a line of schedtrace shows, `ms` after the first one.
fn snapshot(sched: &Sched, ms: u64) -> Snapshot {
    Snapshot {
        elapsed_ms: ms,
        gomaxprocs: sched.proc_count(),
        idleprocs: sched.idle.idle_ps(),
        // The spawner and this thread are not Ms, but threads of the runtime.
        threads: sched.m_count() as u32 + 2,
        spinningthreads: sched.idle.spinning(),
        needspinning: u32::from(sched.idle.need_spinning()),
        idlethreads: sched.idle_m_count(),
        runqueue: sched.global_len(),
        local: sched.procs().map(|p| p.runq.len() as u32).collect(),
        schedticks: sched.procs().map(|p| p.tick()).collect(),
    }
}
