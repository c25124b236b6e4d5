//! The scheduler at moments, as Go's `schedtrace` shows it: rebuilt from a trace, or read back from
//! lines that a program printed.

mod lines;
mod queues;
mod summary;

pub use lines::{Captured, CapturedLine};
pub use queues::Queues;
pub use summary::{FieldSummary, Summary};

use super::window::Window;
use crate::diag::Counts;
use crate::machine::{
    GoroutineNow, GoroutineState, Machine, ProcNow, ProcState, ThreadNow, ThreadState,
};
use gmp_trace::event::PState;
use gmp_trace::id::{GId, MId, PId};
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// One P in a [`Moment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcMoment {
    /// The P, its state, its thread.
    pub now: ProcNow,
    /// Goroutines in its ring, `runnext` not counted.
    pub queue: u64,
    /// Time slices begun since the trace did.
    pub sched_ticks: u64,
    /// System calls that ended or lost the P since the trace began.
    pub syscall_ticks: u64,
}

/// One thread in a [`Moment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadMoment {
    /// The thread, its state, its goroutine.
    pub now: ThreadNow,
    /// The goroutine that is locked to it.
    pub locked: Option<GId>,
}

/// One goroutine in a [`Moment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoroutineMoment {
    /// The goroutine, its state, its reason.
    pub now: GoroutineNow,
    /// The thread that runs it.
    pub thread: Option<MId>,
    /// The thread that it is locked to.
    pub locked_to: Option<MId>,
}

/// What a detailed line says of threads and goroutines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Threads by number.
    pub threads: Vec<ThreadMoment>,
    /// Goroutines by number.
    pub goroutines: Vec<GoroutineMoment>,
}

/// The scheduler at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When, from the begin of the trace.
    pub time: Nanos,
    /// Ps without a thread.
    pub idle_procs: u64,
    /// Threads that the trace has told of and that did not end.
    pub threads: u64,
    /// Threads that look for work; `None` where the format does not tell.
    pub spinning: Option<u64>,
    /// Threads asleep; `None` where the format does not tell.
    pub idle_threads: Option<u64>,
    /// Goroutines in the global queue.
    pub global_queue: u64,
    /// Goroutines in all queues, `runnext` counted.
    pub queued: u64,
    /// True from the wish to stop the world until it goes on.
    pub stopping: bool,
    /// The Ps that exist, by number.
    pub procs: Vec<ProcMoment>,
    /// Threads and goroutines, where they were asked for.
    pub detail: Option<Detail>,
}

impl Moment {
    /// Adds a P that was not known at this moment and is known to have been in `state`.
    fn add_proc(&mut self, proc: PId, state: PState) {
        if self.procs.iter().any(|known| known.now.proc == proc) {
            return;
        }
        let state = match state {
            PState::Running => ProcState::Scheduler,
            PState::Idle => ProcState::Idle,
            PState::Syscall => ProcState::Syscall,
        };
        self.idle_procs += u64::from(state == ProcState::Idle);
        let now = ProcNow {
            proc,
            state,
            thread: None,
        };
        self.procs.push(ProcMoment {
            now,
            queue: 0,
            sched_ticks: 0,
            syscall_ticks: 0,
        });
    }
}

impl Detail {
    fn len(&self) -> usize {
        self.threads.len() + self.goroutines.len()
    }
}

/// What to sample.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The time between two moments; more than zero.
    pub every: Nanos,
    /// The part of the trace.
    pub window: Window,
    /// Whether threads and goroutines are wanted.
    pub detail: bool,
    /// True for traces of Go, which tell nothing of searching and sleeping threads.
    pub of_go: bool,
}

/// Moments that are given at most: a damaged time must not make output without end.
pub const MOST_MOMENTS: u64 = 1_000_000;

/// Rows of Ps, threads and goroutines that are held back at most.
const MOST_HELD: usize = 1 << 18;

/// Ps that are added to moments that were held back at most: a damaged trace may name any number.
const MOST_ADDED: usize = 1 << 22;

/// Takes what a [`Sampler`] gives; false ends it.
pub type Each<'a> = &'a mut dyn FnMut(&Moment) -> bool;

/// Takes a trace's events and gives moments.
///
/// A trace names a P when it is first used, and says then in which state it has been since the
/// generation began. So the moments of the first generation are held back, as long as they are few,
/// until every P of it is known.
#[derive(Debug)]
pub struct Sampler {
    request: Request,
    machine: Machine<Queues>,
    locked: FxHashMap<GId, MId>,
    next: Nanos,
    events: u64,
    moments: u64,
    stopped: bool,
    /// Moments of the first generation, and how much is in them; `None` once it is over.
    held: Option<(Vec<Moment>, usize)>,
    /// What was first said of each P, and how many moments were before that.
    first: BTreeMap<PId, (PState, u64)>,
    generations: u64,
}

impl Sampler {
    /// A sampler that has seen nothing.
    pub fn new(request: Request) -> Sampler {
        Sampler {
            machine: Machine::new(Queues::new(request.of_go)),
            locked: FxHashMap::default(),
            next: request.window.from.max(Nanos::ZERO),
            events: 0,
            moments: 0,
            stopped: false,
            held: Some((Vec::new(), 0)),
            first: BTreeMap::new(),
            generations: 0,
            request,
        }
    }

    /// The next event; every moment before it is given to `each`.
    pub fn event(&mut self, event: &Event, each: Each<'_>) {
        if self.events > 0 {
            let until = event.time.since(self.machine.begin());
            // What has the time of the event comes with it or after it.
            self.give(Nanos(until.0 - 1), each);
        }
        self.events += 1;
        self.generations += u64::from(matches!(event.body, Body::Sync { .. }));
        if self.generations > 1 {
            self.release(each);
        }
        match (event.body, event.g, event.m) {
            (Body::ProcStatus { proc, state, .. }, _, _) if self.held.is_some() => {
                self.first.entry(proc).or_insert((state, self.moments));
            }
            (Body::MLock, Some(goroutine), Some(thread)) => {
                self.locked.insert(goroutine, thread);
            }
            (Body::MUnlock | Body::GoExit { .. }, Some(goroutine), _) => {
                self.locked.remove(&goroutine);
            }
            _ => {}
        }
        self.machine.event(event);
    }

    /// The trace has ended: the moments that are left, the end included.
    pub fn finish(&mut self, each: Each<'_>) {
        if self.events > 0 {
            self.give(self.end(), each);
            self.release(each);
        }
    }

    /// The end of the trace, from its begin.
    pub fn end(&self) -> Nanos {
        self.machine.latest().since(self.machine.begin())
    }

    /// How many events the trace has.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// What the machine could not make sense of.
    pub fn counts(&self) -> &Counts {
        self.machine.counts()
    }

    /// How many moments were given.
    pub fn moments(&self) -> u64 {
        self.moments
    }

    fn give(&mut self, until: Nanos, each: Each<'_>) {
        while self.next <= until && self.next < self.request.window.to && !self.stopped {
            self.moments += 1;
            let moment = self.moment(self.next);
            match &mut self.held {
                Some((moments, size)) => {
                    *size += 1 + moment.procs.len() + moment.detail.as_ref().map_or(0, Detail::len);
                    moments.push(moment);
                    if *size > MOST_HELD {
                        self.release(each);
                    }
                }
                None => self.stopped = !each(&moment),
            }
            self.stopped |= self.moments == MOST_MOMENTS;
            self.next = self.next + self.request.every;
        }
    }

    /// Gives the moments that were held back, with the Ps that were not known then.
    fn release(&mut self, each: Each<'_>) {
        let Some((moments, _)) = self.held.take() else {
            return;
        };
        let mut first = std::mem::take(&mut self.first);
        if first.len().saturating_mul(moments.len()) > MOST_ADDED {
            first.clear();
        }
        for (number, mut moment) in (0..).zip(moments) {
            for (&proc, &(state, before)) in &first {
                // From then on the moment itself knows whether the P is there.
                if number < before {
                    moment.add_proc(proc, state);
                }
            }
            moment.procs.sort_unstable_by_key(|proc| proc.now.proc);
            if !each(&moment) {
                self.stopped = true;
                return;
            }
        }
    }

    fn moment(&self, time: Nanos) -> Moment {
        let queues = self.machine.sink();
        let mut procs: Vec<ProcMoment> = self
            .machine
            .procs_now()
            .filter(|now| now.state != ProcState::Absent)
            .map(|now| {
                let figures = queues.local(now.proc);
                ProcMoment {
                    now,
                    queue: figures.ring,
                    sched_ticks: figures.sched_ticks,
                    syscall_ticks: figures.syscall_ticks,
                }
            })
            .collect();
        procs.sort_unstable_by_key(|proc| proc.now.proc);
        let (mut threads, mut spinning, mut idle) = (0, 0, 0);
        for thread in self.machine.threads_now() {
            threads += 1;
            spinning += u64::from(thread.state == ThreadState::Spinning);
            idle += u64::from(thread.state == ThreadState::Parked);
        }
        let told = !self.request.of_go;
        Moment {
            time,
            idle_procs: u64::from(self.machine.levels().procs(ProcState::Idle)),
            threads,
            spinning: told.then_some(spinning),
            idle_threads: told.then_some(idle),
            global_queue: queues.global(),
            queued: queues.total(),
            stopping: queues.stopping(),
            procs,
            detail: self.request.detail.then(|| self.detail()),
        }
    }

    fn detail(&self) -> Detail {
        let mut on: FxHashMap<GId, MId> = FxHashMap::default();
        let mut threads: Vec<ThreadMoment> = Vec::new();
        let holds: FxHashMap<MId, GId> = self.locked.iter().map(|(&g, &m)| (m, g)).collect();
        for now in self.machine.threads_now() {
            if let Some(goroutine) = now.goroutine {
                on.insert(goroutine, now.thread);
            }
            threads.push(ThreadMoment {
                now,
                locked: holds.get(&now.thread).copied(),
            });
        }
        threads.sort_unstable_by_key(|thread| thread.now.thread);
        let mut goroutines: Vec<GoroutineMoment> = self
            .machine
            .goroutines_now()
            .map(|now| GoroutineMoment {
                now,
                thread: match now.state {
                    GoroutineState::Runnable | GoroutineState::Waiting => None,
                    _ => on.get(&now.goroutine).copied(),
                },
                locked_to: self.locked.get(&now.goroutine).copied(),
            })
            .collect();
        goroutines.sort_unstable_by_key(|goroutine| goroutine.now.goroutine);
        Detail {
            threads,
            goroutines,
        }
    }
}
