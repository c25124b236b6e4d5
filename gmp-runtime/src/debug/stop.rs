//! Who may stop the world: one at a time in the process, which may do it again within.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::debug::running;
use crate::prim::process_wide::{AtomicU32, Ordering};
use crate::sched::stw::{self, Stopped};
use crate::sched::{Sched, Visit, current};
use crate::sync::{Permit, Semaphore};
use crate::sys::thread::gettid;

/// The turn to stop worlds.
static TURN: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(1));

/// The thread that has stopped them; 0: none.
static HOLDER: AtomicU32 = AtomicU32::new(0);

/// Worlds stand still while this lives, on the thread on which it was made.
#[derive(Debug)]
pub(crate) struct Stop {
    /// The world of the goroutine that stops it, or the one that a thread stops.
    own: Option<Stopped>,
    /// Those that another thread stops.
    all: Vec<World>,
    /// Given back last.
    _turn: Permit<'static>,
}

/// A runtime, and its world when that is stopped.
#[derive(Debug)]
struct World {
    stopped: Option<Stopped>,
    sched: &'static Sched,
    /// The runtime is there as long as this.
    _visit: Visit,
}

/// Stops the worlds that a call here stops, for the reason `why`; `None` if they stand still already, or there is none.
#[track_caller]
pub(crate) fn begin(why: &'static str) -> Option<Stop> {
    begin_by(why, None)
}

/// [`begin`], but not for longer than `patience`: `None`, too, if they have not stood still by then.
#[track_caller]
pub(super) fn begin_within(why: &'static str, patience: Duration) -> Option<Stop> {
    begin_by(why, Some(Instant::now() + patience))
}

/// For a thread that runs no goroutine: stops the world of `sched`, which is there, for the reason `why`; `None` if it
/// has not stood still after `patience`.
pub(crate) fn begin_of(
    sched: &'static Sched,
    why: &'static str,
    patience: Duration,
) -> Option<Stop> {
    let deadline = Some(Instant::now() + patience);
    let turn = turn(deadline)?;
    let stop = Stop {
        own: Some(stw::stop(sched, None, why, deadline)),
        all: Vec::new(),
        _turn: turn,
    };
    let stands = stop.own.as_ref().is_some_and(Stopped::is_whole);
    // ordering: Relaxed, as in `begin_by`.
    HOLDER.store(this_thread(), Ordering::Relaxed);
    stands.then_some(stop)
}

#[track_caller]
fn begin_by(why: &'static str, deadline: Option<Instant>) -> Option<Stop> {
    let me = current::goroutine();
    // ordering: Relaxed: a thread asks for its own number only.
    if HOLDER.load(Ordering::Relaxed) == this_thread() {
        return None;
    }
    let all = match me {
        Some(me) if has_world(me.sched) => Vec::new(),
        Some(_) => return None,
        None => all_worlds(),
    };
    if me.is_none() && all.is_empty() {
        return None;
    }
    let turn = turn(deadline)?;
    let own = me.map(|me| stw::stop(me.sched, Some(me), why, deadline));
    let mut stop = Stop {
        own,
        all,
        _turn: turn,
    };
    for world in &mut stop.all {
        world.stopped = Some(stw::stop(world.sched, None, why, deadline));
    }
    let worlds = stop.all.iter().filter_map(|world| world.stopped.as_ref());
    let all_stand = worlds.chain(&stop.own).all(Stopped::is_whole);
    // ordering: Relaxed, as above. A goroutine stays on its thread until its world goes on.
    HOLDER.store(this_thread(), Ordering::Relaxed);
    all_stand.then_some(stop)
}

/// The turn to stop worlds, if it can be had before `deadline`.
#[track_caller]
fn turn(deadline: Option<Instant>) -> Option<Permit<'static>> {
    const PAUSE: Duration = Duration::from_micros(500);
    let Some(deadline) = deadline else {
        return Some(TURN.acquire(1));
    };
    loop {
        match TURN.try_acquire(1) {
            None if Instant::now() < deadline => crate::time::sleep(PAUSE),
            turn => return turn,
        }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        // ordering: Relaxed, as in `begin`.
        HOLDER.store(0, Ordering::Relaxed);
        self.own = None;
        // Before any memory is freed.
        self.all.iter_mut().for_each(|world| world.stopped = None);
    }
}

fn this_thread() -> u32 {
    gettid().unsigned_abs()
}

/// Whether goroutines of `sched` run that could be stopped.
fn has_world(sched: &Sched) -> bool {
    !sched.stopping() && !sched.is_forked()
}

fn all_worlds() -> Vec<World> {
    running::visit_all()
        .into_iter()
        .filter(|(sched, _)| has_world(sched))
        .map(|(sched, visit)| World {
            stopped: None,
            sched,
            _visit: visit,
        })
        .collect()
}
