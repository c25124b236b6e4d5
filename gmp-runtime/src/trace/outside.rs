//! What threads that are no Ms record: with one writer, under the collector's lock.
//!
//! What such a thread changes is changed under the lock too, so that the collector is not in between.

use gmp_trace::event::{GState as Traced, PState, RetakeReason};
use gmp_trace::write::Encoder;

use super::marks::{PreemptReason, Waker};
use super::state::{State, Writer};
use crate::sched::Sched;
use crate::sched::refs::{GRef, MRef, PRef};

/// The trace that is being recorded, locked.
struct Recording<'a> {
    state: &'a mut State,
    generation: u32,
}

/// Calls `f` while the trace is locked; without one, and without the lock, if nothing is recorded.
fn with_recording<T>(sched: &Sched, f: impl FnOnce(Option<Recording<'_>>) -> T) -> T {
    if sched.tracer.generation() == 0 {
        return f(None);
    }
    let mut guard = sched.tracer.lock();
    let generation = sched.tracer.generation();
    let state = guard.as_mut().filter(|_| generation != 0);
    f(state.map(|state| Recording { state, generation }))
}

impl Recording<'_> {
    /// Calls `write` with the stamp, the generation, and the writer of threads that are no Ms.
    fn write(self, write: impl FnOnce(&mut State, &mut Writer, u64, u32)) {
        let Recording { state, generation } = self;
        let now = state.clock.now_units();
        let mut writer = std::mem::replace(&mut state.outside, Writer::new());
        if !writer.is_ready(generation) {
            state.open(&mut writer, generation, now, None);
        }
        write(state, &mut writer, now, generation);
        state.outside = writer;
    }
}

/// Records one event; the generation, 0 when nothing is recorded.
fn record(sched: &Sched, write: impl FnOnce(&mut Encoder, &mut [u8], u64)) -> u32 {
    with_recording(sched, |recording| {
        let Some(recording) = recording else { return 0 };
        let generation = recording.generation;
        recording.write(|_, writer, now, _| writer.write(1, |e, c| write(e, c, now)));
        generation
    })
}

/// A thread that is not an M makes `g`, which waits, runnable by `change`.
pub(crate) fn ready_from_outside(sched: &Sched, g: GRef, by: Waker, change: impl FnOnce()) {
    with_recording(sched, |recording| {
        if let Some(recording) = recording {
            recording.write(|state, writer, now, generation| {
                state.touch(writer, now, generation, &g, Traced::Waiting, None);
                let seq = g.traced.next_from_outside();
                writer.write(1, |e, c| e.ready(c, now, g.id.get(), by, seq));
            });
        }
        change();
    });
}

/// The monitor takes `p` away from the system call of `from`; `take` does it, and says whether it could.
pub(crate) fn retake(sched: &Sched, p: PRef, from: MRef, take: impl FnOnce() -> bool) -> bool {
    // Taken under the lock: see `ThreadTrace::open`.
    with_recording(sched, |recording| {
        let taken = take();
        if taken && let Some(recording) = recording {
            recording.write(|_, writer, now, generation| {
                let from = Some(from.id);
                writer.touch_p(now, generation, &p, PState::Syscall, from);
                let taken = (p.id, p.traced.next());
                let why = RetakeReason::Syscall;
                writer.write(1, |e, c| e.proc_steal(c, now, taken, from, why));
            });
        }
        taken
    })
}

/// The monitor takes `p` from `g`, which waits in the kernel on `m`, by `change`.
pub(crate) fn implicit_call(sched: &Sched, p: PRef, m: MRef, g: GRef, change: impl FnOnce()) {
    with_recording(sched, |recording| {
        if let Some(recording) = recording {
            recording.write(|state, writer, now, generation| {
                let from = Some(m.id);
                writer.touch_p(now, generation, &p, PState::Running, from);
                state.touch(writer, now, generation, &g, Traced::Running, from);
                let taken = (p.id, p.traced.next());
                let why = RetakeReason::ImplicitSyscall;
                writer.write(1, |e, c| e.syscall_implicit(c, now, g.id.get(), m.id));
                writer.write(1, |e, c| e.proc_steal(c, now, taken, from, why));
            });
        }
        change();
    });
}

/// A thread that is not an M wants the P with number `p` back, on which `g` runs.
pub(crate) fn preempt_requested(sched: &Sched, p: u32, g: GRef, why: PreemptReason) {
    record(sched, |e, c, now| {
        e.preempt_request(c, now, p, g.id.get(), why);
    });
}

/// A thread that is not an M wants the world stopped.
pub(crate) fn stop_requested(sched: &Sched, why: &'static str) {
    with_recording(sched, |recording| {
        if let Some(recording) = recording {
            recording.write(|state, writer, now, generation| {
                let why = state.text(generation, why);
                writer.write(1, |e, c| e.stop_requested(c, now, why));
            });
        }
    });
}

/// The world is stopped, which such a thread wanted.
pub(crate) fn stopped(sched: &Sched) {
    record(sched, |e, c, now| e.stopped(c, now));
}

/// Such a thread is about to let the world go on.
pub(crate) fn restarted(sched: &Sched) {
    record(sched, |e, c, now| e.restarted(c, now));
}

/// There are to be so many Ps. For any thread.
pub(crate) fn procs_change(sched: &Sched, procs: u32) {
    record(sched, |e, c, now| e.procs_change(c, now, procs));
}

/// A collection cycle begins; the generation that knows of it.
pub(crate) fn gc_begin(sched: &Sched, cycle: u64) -> u32 {
    record(sched, |e, c, now| e.gc_begin(c, now, cycle))
}

/// A collection cycle is running, which the generation `told` knows; the one that knows it after this.
pub(crate) fn gc_active(sched: &Sched, cycle: u64, told: u32) -> u32 {
    if sched.tracer.generation() == told {
        return told;
    }
    record(sched, |e, c, now| e.gc_active(c, now, cycle))
}

/// A collection cycle ends that gave back `pages` of so many `stacks`.
pub(crate) fn gc_end(sched: &Sched, cycle: u64, pages: u64, stacks: u64) {
    record(sched, |e, c, now| e.gc_end(c, now, cycle, (pages, stacks)));
}
