//! The end of a scheduler: main has returned.
//!
//! 1. [`begin`], on the goroutine that ends it: from now on nobody is given anything to run. Every M is
//!    woken, comes to the top of `find`, and its thread ends. A goroutine that runs is waited for until
//!    its next call into the runtime.
//! 2. [`finish`], on the thread of `run` when all other threads have ended: goroutines that never ran
//!    lose their closures; those that stopped in the middle are resumed to unwind, so that destructors
//!    run, and one that gave up its P at the end of a call first goes on to its next: what the call gave it
//!    would be lost if it unwound from there. Some cannot be unwound ([`Why`]): the handle of such a one says that it
//!    was cancelled, and all memory of the scheduler is kept, because others may still find it where it waits. They are
//!    counted and named on standard error.

use std::collections::BTreeMap;

use crate::fatal;
use crate::prim::atomic::Ordering;
use crate::sched::Sched;
use crate::sched::g::{AtEnd, GState, transition};
use crate::sched::m::{M, PostSwitch};
use crate::sched::refs::GRef;
use crate::sched::{critical, current, life, park, worker};
use crate::sys::unwind;
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
    sched.follow.wake();
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

/// Why a goroutine could not be ended.
#[derive(Debug, Clone, Copy)]
enum Why {
    /// It waits while it unwinds from a panic of its own.
    Unwinds,
    /// It was unwound, and waits again, in a destructor or after it caught that.
    WaitsAgain,
    /// A function on its stack is one that nothing may unwind through.
    Stack,
    /// Panics end the process.
    Abort,
}

impl Why {
    fn words(self) -> &'static str {
        match self {
            Why::Unwinds => "it waits while it unwinds from a panic",
            Why::WaitsAgain => "it waits again after it was unwound",
            Why::Stack => "a function on its stack, of C perhaps, cannot be unwound",
            Why::Abort => "the program is built to abort instead of unwinding",
        }
    }
}

/// Ends every goroutine that is left; how many could not be ended, which are told on standard error. `m` has a P, and
/// is the only M.
pub(crate) fn finish(m: &M) -> usize {
    let table = &m.sched.table;
    m.sched.close_queues();
    let mut left = BTreeMap::new();
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
                        && !left.contains_key(&index) =>
                {
                    match cancel(m, g) {
                        Ok(()) => ended += 1,
                        Err(why) => {
                            life::give_up(g);
                            left.insert(index, (g, why));
                        }
                    }
                }
                _ => {}
            }
            index += 1;
        }
        if ended == 0 {
            tell(left.values().copied());
            return left.len();
        }
    }
}

/// Says which goroutines could not be ended.
fn tell(left: impl ExactSizeIterator<Item = (GRef, Why)>) {
    let count = left.len();
    if count == 0 {
        return;
    }
    fatal::report_by(|out| {
        let goroutines = if count == 1 {
            "goroutine"
        } else {
            "goroutines"
        };
        writeln!(
            out,
            "gmp: main has returned; {count} {goroutines} could not be ended, and the rest of their destructors will not run:"
        )?;
        for (g, why) in left.take(MOST_SHOWN) {
            let status = match g.wait.get() {
                Some(wait) => wait.reason.name(),
                None => GState::name(g.state()),
            };
            write!(out, "goroutine {} [{status}]", g.id.get())?;
            if let Some(site) = g.created_at.get() {
                write!(out, ", created at {}:{}", site.file(), site.line())?;
            }
            writeln!(out, ": {}", why.words())?;
        }
        if count > MOST_SHOWN {
            writeln!(out, "and {} more", count - MOST_SHOWN)?;
        }
        Ok(())
    });
}

/// Whether some goroutine stopped in the middle. When no M runs.
pub(crate) fn must_unwind(sched: &Sched) -> bool {
    (0..sched.table.len()).any(|index| sched.table.get(index).started.get())
}

/// Drops the closure of a goroutine that never ran.
fn drop_unstarted(g: GRef) {
    transition!(g, Runnable => Dead);
    life::drop_unstarted(g);
}

/// Resumes `g` to unwind, after it has gone on to its next call if its last one was done. An error if it has not
/// ended.
fn cancel(m: &M, g: GRef) -> Result<(), Why> {
    while g.at_end.get() == AtEnd::GoesOn {
        if resume(m, g, PostSwitch::Nothing) {
            return Ok(());
        }
        // Where it yielded.
        m.sched.forget_queued(&m.held_p());
    }
    if cfg!(not(panic = "unwind")) {
        return Err(Why::Abort);
    }
    if g.at_end.get() == AtEnd::Stays {
        return Err(Why::Unwinds);
    }
    // Not on the stack of the goroutine, which may have little room.
    unwind::prepare();
    if resume(m, g, PostSwitch::Cancel) {
        return Ok(());
    }
    Err(match g.at_end.get() {
        AtEnd::CannotUnwind => Why::Stack,
        _ => Why::WaitsAgain,
    })
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
    (0..sched.table.len()).any(|index| life::has_handle(sched.table.get(index)))
        // ordering: Acquire; pairs with the Release of handles that are dropped.
        || sched.handles.load(Ordering::Acquire) != 0
}
