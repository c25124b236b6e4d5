//! The end of a scheduler: main has returned.
//!
//! 1. [`begin`], on the goroutine that ends it: from now on nobody is given anything to run. Every M is
//!    woken, comes to the top of `find`, and its thread ends. A goroutine that runs is waited for until
//!    its next call into the runtime.
//! 2. [`finish`], on the thread of `run` when all other threads have ended: goroutines that never ran
//!    lose their closures; those that stopped in the middle are resumed to unwind, so that destructors
//!    run, and one that gave up its P at the end of a call first goes on to its next: what the call gave it
//!    would be lost if it unwound from there. One that parks again while it unwinds, or had parked while it
//!    unwound from a panic of its own, cannot be unwound: its handle says that it was cancelled, and all memory
//!    of the scheduler is kept, because others may still find it where it waits.

use std::collections::HashSet;

use crate::fatal;
use crate::prim::atomic::Ordering;
use crate::sched::Sched;
use crate::sched::g::{AtEnd, GState, transition};
use crate::sched::m::{M, PostSwitch};
use crate::sched::refs::GRef;
use crate::sched::{critical, current, park, worker};
use crate::trace::marks::{Found, Waker};

/// Tells everybody that the scheduler stops. On any thread.
pub(crate) fn begin(sched: &Sched) {
    let _section = critical::enter_if(current::goroutine());
    sched.begin_stop();
    for p in sched.procs() {
        p.demand_attention();
    }
    sched.for_each_m(|m| m.wake());
    sched.netpoll.interrupt();
    sched.spawner.notify();
    sched.sysmon.wake();
    sched.collection.wake();
}

/// How long goroutines that run are waited for before that is said.
const PATIENCE_NS: u64 = 1_000_000_000;

/// On the monitor's thread, from [`begin`] on: waits until all Ms have come to their ends, and says which ones have
/// not if that takes long.
pub(crate) fn watch(sched: &Sched) {
    if sched.sysmon.sleep_until_the_end(PATIENCE_NS) {
        return;
    }
    fatal::report_by(|out| {
        writeln!(
            out,
            "gmp: main has returned; goroutines that run are waited for until they call the runtime or return:"
        )?;
        for g in running(sched).take(MOST_SHOWN) {
            write!(
                out,
                "goroutine {} [{}]",
                g.id.get(),
                GState::name(g.state())
            )?;
            match g.created_at.get() {
                Some(site) => writeln!(out, ", created at {}:{}", site.file(), site.line())?,
                None => writeln!(out)?,
            }
        }
        Ok(())
    });
}

/// So many goroutines are named.
const MOST_SHOWN: usize = 10;

/// The goroutines that Ms have.
fn running(sched: &Sched) -> impl Iterator<Item = GRef> {
    (0..)
        .map_while(|index| sched.m_at(index))
        .filter_map(|m| m.current())
}

/// Ends every goroutine that is left; how many could not be ended. `m` has a P, and is the only M.
pub(crate) fn finish(m: &M) -> usize {
    let table = &m.sched.table;
    m.sched.close_queues();
    // Those that parked again while they unwound.
    let mut leaked = HashSet::new();
    // Destructors may make goroutines: look again until a pass finds none.
    loop {
        let mut ended = 0;
        let mut index = 0;
        while index < table.len() {
            let g = table.get(index);
            // What destructors made runnable, before one of them ends.
            m.sched.forget_queued(&m.held_p());
            match g.state() {
                state if state == GState::Runnable as u32 && !g.started.get() => {
                    drop_unstarted(g);
                    ended += 1;
                }
                state
                    if (state == GState::Runnable as u32 || state == GState::Waiting as u32)
                        && !leaked.contains(&index) =>
                {
                    if cancel(m, g) {
                        ended += 1;
                    } else {
                        crate::sched::life::give_up(g);
                        leaked.insert(index);
                    }
                }
                _ => {}
            }
            index += 1;
        }
        if ended == 0 {
            return leaked.len();
        }
    }
}

/// Whether some goroutine stopped in the middle. When no M runs.
pub(crate) fn must_unwind(sched: &Sched) -> bool {
    (0..sched.table.len()).any(|index| sched.table.get(index).started.get())
}

/// Drops the closure of a goroutine that never ran.
fn drop_unstarted(g: GRef) {
    transition!(g, Runnable => Dead);
    crate::sched::life::drop_unstarted(g);
}

/// Resumes `g` to unwind, after it has gone on to its next call if its last one was done; whether it ended.
fn cancel(m: &M, g: GRef) -> bool {
    while g.at_end.get() == AtEnd::GoesOn {
        if resume(m, g, PostSwitch::Nothing) {
            return true;
        }
        // Where it yielded.
        m.sched.forget_queued(&m.held_p());
    }
    if cfg!(not(panic = "unwind")) || g.at_end.get() == AtEnd::Stays {
        return false;
    }
    resume(m, g, PostSwitch::Cancel)
}

/// Runs `g`, which does `post` first, until it leaves; whether it ended.
fn resume(m: &M, g: GRef, post: PostSwitch) -> bool {
    park::forget_permit(g);
    if g.state() == GState::Waiting as u32 {
        m.tracer.ready(m, g, Waker::Runtime);
        transition!(g, Waiting => Runnable);
        m.tracer.settle();
    }
    m.tracer.start(m, g, Found::Local);
    g.set_m(m.reference());
    m.set_current(Some(g));
    transition!(g, Runnable => Running);
    m.tracer.settle();
    worker::enter(m, g, post);
    let state = g.state();
    state == GState::Dead as u32 || state == GState::Idle as u32
}

/// Whether anything outside may still reach into the scheduler's memory.
pub(crate) fn is_reachable(sched: &Sched) -> bool {
    // First the handles of results: who gives one up may have made a handle to unpark from it before.
    (0..sched.table.len()).any(|index| crate::sched::life::has_handle(sched.table.get(index)))
        // ordering: Acquire; pairs with the Release of handles that are dropped.
        || sched.handles.load(Ordering::Acquire) != 0
}
