//! The run queues rebuilt from events: which goroutine is in which queue.
//!
//! # The rule
//!
//! 1. A goroutine that is made or made ready by a thread with a P goes to `runnext` of that P; the
//!    one that was there goes to the tail of the P's ring. Without a P: to the global queue.
//! 2. A goroutine that yields goes to the tail of the ring of its P (in Go: to the global queue). One
//!    that is preempted, or comes back from a system call without a P, goes to the global queue.
//! 3. A steal of `n` takes the first `n` of the victim's ring (or its `runnext`) to the thief's ring;
//!    an overflow of `n` takes the first `n` of a ring to the global queue; a batch of `n` takes the
//!    first `n` of the global queue to a ring.
//! 4. A start takes the goroutine from wherever it is.
//!
//! Go's traces tell nothing of 3, so it is inferred as Go does it: a start of a goroutine that is in
//! the ring of another P takes the first half of that ring along; a start from the global queue on a
//! P whose ring is empty takes a fair share of it along; a ring of more than 256 gives half of itself
//! to the global queue. Goroutines that were runnable before the trace are in the global queue, since
//! nothing tells where they were.
//!
//! Otherwise than by rule 4 no goroutine leaves the queues, so their lengths always add up to the
//! number of runnable goroutines; where rule 3 takes another goroutine than the scheduler took, single
//! queues are off by one until it starts.

use crate::machine::Sink;
use gmp_trace::event::{Found, GState, RetakeReason, StealFrom};
use gmp_trace::id::{GId, PId};
use gmp_trace::{Body, Event};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Places of a ring in Go.
const RING: u64 = 256;

/// Where a runnable goroutine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Next(PId),
    Ring(PId),
    Global,
}

/// A runnable goroutine; `stamp` tells its entry in a line from older ones.
#[derive(Clone, Copy, Debug)]
struct Queued {
    place: Place,
    stamp: u64,
}

/// Goroutines in line. Those that left from the middle stay until they come to the front.
#[derive(Clone, Debug, Default)]
struct Line {
    entries: VecDeque<(GId, u64)>,
    length: u64,
}

/// One P's queue and counters.
#[derive(Clone, Debug, Default)]
struct Local {
    next: Option<GId>,
    ring: Line,
    sched_ticks: u64,
    syscall_ticks: u64,
}

/// One P's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LocalFigures {
    /// Goroutines in its ring, `runnext` not counted.
    pub(super) ring: u64,
    /// Time slices begun.
    pub(super) sched_ticks: u64,
    /// System calls that ended or lost the P.
    pub(super) syscall_ticks: u64,
}

/// The queues at one moment.
#[derive(Clone, Debug)]
pub struct Queues {
    /// True for traces of Go.
    of_go: bool,
    queued: FxHashMap<GId, Queued>,
    global: Line,
    locals: FxHashMap<PId, Local>,
    stamp: u64,
    stopping: bool,
}

impl Queues {
    /// Empty queues, of Go's scheduler or of ours.
    pub fn new(of_go: bool) -> Queues {
        Queues {
            of_go,
            queued: FxHashMap::default(),
            global: Line::default(),
            locals: FxHashMap::default(),
            stamp: 0,
            stopping: false,
        }
    }

    /// Goroutines in the global queue.
    pub(super) fn global(&self) -> u64 {
        self.global.length
    }

    /// Goroutines in all queues, `runnext` counted.
    pub fn total(&self) -> u64 {
        self.queued.len() as u64
    }

    /// True from the wish to stop the world until it goes on.
    pub(super) fn stopping(&self) -> bool {
        self.stopping
    }

    pub(super) fn local(&self, proc: PId) -> LocalFigures {
        let figures = |local: &Local| LocalFigures {
            ring: local.ring.length,
            sched_ticks: local.sched_ticks,
            syscall_ticks: local.syscall_ticks,
        };
        self.locals.get(&proc).map(figures).unwrap_or_default()
    }

    fn line(&mut self, place: Place) -> Option<&mut Line> {
        match place {
            Place::Global => Some(&mut self.global),
            Place::Ring(proc) => Some(&mut self.locals.entry(proc).or_default().ring),
            Place::Next(_) => None,
        }
    }

    fn push(&mut self, id: GId, place: Place) {
        self.stamp += 1;
        let stamp = self.stamp;
        self.queued.insert(id, Queued { place, stamp });
        if let Some(line) = self.line(place) {
            line.entries.push_back((id, stamp));
            line.length += 1;
        }
    }

    /// `id` is runnable now and goes to `place`.
    fn put(&mut self, id: GId, place: Place) {
        self.take(id);
        if let Place::Next(proc) = place {
            let before = self.locals.entry(proc).or_default().next.replace(id);
            if let Some(before) = before {
                self.push(before, Place::Ring(proc));
                self.spill(proc);
            }
        }
        self.push(id, place);
        if let Place::Ring(proc) = place {
            self.spill(proc);
        }
    }

    /// A ring of Go that is full gives half of itself to the global queue.
    fn spill(&mut self, proc: PId) {
        if self.of_go && self.local(proc).ring > RING {
            self.carry(Place::Ring(proc), Place::Global, RING / 2 + 1);
        }
    }

    /// Takes `id` out of the queues.
    fn take(&mut self, id: GId) -> Option<Place> {
        let Queued { place, .. } = self.queued.remove(&id)?;
        if let Place::Next(proc) = place {
            self.locals.entry(proc).or_default().next = None;
        }
        if let Some(line) = self.line(place) {
            line.length -= 1;
            if line.length == 0 {
                line.entries.clear();
            } else if line.entries.len() as u64 > 2 * line.length + 64 {
                self.sweep(place);
            }
        }
        Some(place)
    }

    /// Forgets entries of goroutines that left from the middle of a line.
    fn sweep(&mut self, place: Place) {
        let entries = match self.line(place) {
            Some(line) => std::mem::take(&mut line.entries),
            None => return,
        };
        let stays = |(id, stamp): &(GId, u64)| {
            self.queued
                .get(id)
                .is_some_and(|queued| queued.stamp == *stamp)
        };
        let entries: VecDeque<_> = entries.into_iter().filter(stays).collect();
        if let Some(line) = self.line(place) {
            line.entries = entries;
        }
    }

    /// The first of a line.
    fn first(&mut self, place: Place) -> Option<GId> {
        loop {
            let (id, stamp) = self.line(place)?.entries.pop_front()?;
            if self
                .queued
                .get(&id)
                .is_some_and(|queued| queued.stamp == stamp)
            {
                return Some(id);
            }
        }
    }

    /// Carries the first `n` of one line to the tail of another.
    fn carry(&mut self, from: Place, to: Place, n: u64) {
        for _ in 0..n {
            let Some(id) = self.first(from) else { break };
            if let Some(line) = self.line(from) {
                line.length -= 1;
            }
            self.push(id, to);
        }
    }

    fn start(&mut self, id: GId, proc: Option<PId>, found: Option<Found>) {
        let Some(proc) = proc else {
            self.take(id);
            return;
        };
        if self.of_go {
            self.infer(id, proc);
        }
        let place = self.take(id);
        // A chain of goroutines through `runnext` shares one slice.
        let inherits = match found {
            Some(found) => found == Found::Runnext,
            None => place == Some(Place::Next(proc)),
        };
        self.locals.entry(proc).or_default().sched_ticks += u64::from(!inherits);
    }

    /// What Go's scheduler took along with `id`, which `proc` starts.
    fn infer(&mut self, id: GId, proc: PId) {
        let place = self.queued.get(&id).map(|queued| queued.place);
        match place {
            Some(Place::Ring(victim)) if victim != proc => {
                let length = self.local(victim).ring;
                self.carry(Place::Ring(victim), Place::Ring(proc), length - length / 2);
            }
            Some(Place::Global) if self.local(proc).ring == 0 => {
                let procs = self.locals.len().max(1) as u64;
                let share = (self.global.length / procs + 1).min(RING / 2);
                self.carry(
                    Place::Global,
                    Place::Ring(proc),
                    share.min(self.global.length),
                );
            }
            _ => {}
        }
    }

    fn moved(&mut self, event: &Event) {
        let Some(here) = event.p else { return };
        match event.body {
            Body::Steal { victim, n, what } => match what {
                StealFrom::Ring => {
                    self.carry(Place::Ring(victim), Place::Ring(here), u64::from(n));
                }
                StealFrom::Runnext => {
                    let next = self.locals.get(&victim).and_then(|local| local.next);
                    if let Some(id) = next {
                        self.put(id, Place::Ring(here));
                    }
                }
                StealFrom::Timers => {}
            },
            Body::RunqOverflow { n } => {
                self.carry(Place::Ring(here), Place::Global, u64::from(n));
            }
            Body::GlobalBatch { n } => {
                self.carry(Place::Global, Place::Ring(here), u64::from(n));
            }
            _ => {}
        }
    }

    /// Ps from number `procs` on are gone: their goroutines are in the global queue.
    fn procs_change(&mut self, procs: u32) {
        let mut gone: Vec<PId> = self.locals.keys().copied().collect();
        gone.retain(|proc| proc.get() >= procs);
        gone.sort_unstable();
        for proc in gone {
            let next = self.locals.get(&proc).and_then(|local| local.next);
            if let Some(id) = next {
                self.put(id, Place::Global);
            }
            let length = self.local(proc).ring;
            self.carry(Place::Ring(proc), Place::Global, length);
        }
    }

    fn status(&mut self, id: GId, state: GState) {
        match state {
            GState::Runnable if !self.queued.contains_key(&id) => self.put(id, Place::Global),
            GState::Runnable => {}
            _ => {
                self.take(id);
            }
        }
    }

    fn other(&mut self, event: &Event) {
        match event.body {
            Body::GoStatus {
                goroutine, state, ..
            } => self.status(goroutine, state),
            Body::ProcStatus { proc, .. } => {
                self.locals.entry(proc).or_default();
            }
            Body::ProcsChange { procs, .. } => self.procs_change(procs),
            Body::SyscallExit => {
                if let Some(proc) = event.p {
                    self.locals.entry(proc).or_default().syscall_ticks += 1;
                }
            }
            Body::ProcSteal { victim, why, .. } => {
                let of_call = !matches!(why, Some(RetakeReason::Frozen));
                self.locals.entry(victim).or_default().syscall_ticks += u64::from(of_call);
            }
            Body::StopRequested { .. } => self.stopping = true,
            Body::Restarted => self.stopping = false,
            _ => self.moved(event),
        }
    }
}

impl Sink for Queues {
    fn event(&mut self, event: &Event) {
        let next = event.p.map_or(Place::Global, Place::Next);
        match (event.body, event.g) {
            (
                Body::GoCreate {
                    child,
                    runnable: true,
                    ..
                },
                _,
            ) => self.put(child, next),
            (Body::GoReady { goroutine, .. }, _) => self.put(goroutine, next),
            (Body::GoStart { found }, Some(id)) => self.start(id, event.p, found),
            (Body::GoYield { .. }, Some(id)) => match event.p {
                Some(proc) if !self.of_go => self.put(id, Place::Ring(proc)),
                _ => self.put(id, Place::Global),
            },
            (Body::GoPreempted { .. } | Body::SyscallExitBlocked, Some(id)) => {
                self.put(id, Place::Global);
            }
            // These are in no queue, whatever was missed.
            (Body::GoPark { .. } | Body::GoExit { .. } | Body::SyscallEnter { .. }, Some(id))
            | (Body::RunWithoutP, Some(id))
            | (Body::SyscallImplicit { goroutine: id, .. } | Body::GoCreate { child: id, .. }, _) =>
            {
                self.take(id);
            }
            (Body::SyscallExit, Some(id)) => {
                self.take(id);
                self.other(event);
            }
            _ => self.other(event),
        }
    }
}
