//! From the events of Go up to 1.21 to those of the model.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::kinds::{self, STOP_KINDS};
use super::parse::Raw;
use crate::event::{Body, Event, GState, PState, Preemption, Scope};
use crate::go::generation::Names;
use crate::go::header::Version;
use crate::go::merge::BATCH;
use crate::go::words::Words;
use crate::id::{GId, MId, PId, TaskId};
use crate::tables::{StackRef, Tables, Text};
use crate::time::Nanos;

/// Gives the events of a file.
#[derive(Debug)]
pub(super) struct Converter {
    events: std::vec::IntoIter<Raw>,
    names: Names,
    /// The first event's time, in ticks.
    first: u64,
    nanos_per_tick: f64,
    stops: [Text; STOP_KINDS.len()],
    version: Version,
    position: u64,
    /// Whether the events before the first `Gomaxprocs` are still to come: they say what was there
    /// when the trace began.
    starting: bool,
    /// Goroutines that were there, and of which nothing else was said yet.
    unsaid: BTreeSet<u64>,
    thread_of: HashMap<i32, u64>,
    /// Threads of the goroutines in system calls that block.
    called_on: HashMap<u64, u64>,
    seen: BTreeSet<i32>,
    collection: u64,
    /// Goroutines that were named before.
    known: HashSet<u64>,
}

/// Where an event happened.
#[derive(Clone, Copy)]
struct Place {
    m: Option<MId>,
    p: Option<PId>,
    g: Option<GId>,
}

const NOWHERE: Place = Place {
    m: None,
    p: None,
    g: None,
};

impl Converter {
    /// Gives nothing.
    pub(super) fn empty() -> Converter {
        Converter::new(
            Vec::new(),
            Names::empty(),
            1,
            Version(21),
            &mut Tables::new(),
        )
    }

    /// Gives `events`, which are in order.
    pub(super) fn new(
        mut events: Vec<Raw>,
        names: Names,
        frequency: u64,
        version: Version,
        tables: &mut Tables,
    ) -> Converter {
        mark_blocking_calls(&mut events);
        mark_takers(&mut events);
        Converter {
            first: events.first().map_or(0, |event| event.time),
            events: events.into_iter(),
            names,
            nanos_per_tick: 1e9 / frequency as f64,
            stops: STOP_KINDS.map(|kind| tables.intern_text(kind)),
            version,
            position: 0,
            starting: true,
            unsaid: BTreeSet::new(),
            thread_of: HashMap::new(),
            called_on: HashMap::new(),
            seen: BTreeSet::new(),
            collection: 0,
            known: HashSet::new(),
        }
    }

    /// Appends some events; none only at the end.
    pub(super) fn fill(&mut self, words: &Words, out: &mut Vec<Event>) {
        if self.position == 0 && !self.events.as_slice().is_empty() {
            let sync = Body::Sync {
                generation: 1,
                mono: None,
                wall: None,
            };
            self.give(Nanos::ZERO, NOWHERE, sync, out);
        }
        while out.len() < BATCH {
            let Some(event) = self.events.next() else {
                break;
            };
            self.convert(&event, words, out);
        }
    }

    fn give(&mut self, time: Nanos, place: Place, body: Body, out: &mut Vec<Event>) {
        let Place { m, p, g } = place;
        out.push(Event {
            time,
            order: self.position,
            m,
            p,
            g,
            body,
        });
        self.position += 1;
    }

    fn time(&self, event: &Raw) -> Nanos {
        Nanos((event.time.wrapping_sub(self.first) as f64 * self.nanos_per_tick) as i64)
    }

    fn place(&self, event: &Raw) -> Place {
        Place {
            m: self.thread_of.get(&event.p).copied().and_then(MId::new),
            p: p_id(event.p),
            g: GId::new(event.g),
        }
    }

    fn stack(&self, id: u64) -> Option<StackRef> {
        self.names.stack(id).ok().flatten()
    }

    fn text(&self, id: u64) -> Text {
        self.names.text(id).unwrap_or(Text::EMPTY)
    }

    /// Where an event needs a goroutine in some state and nothing was said of it, says that first.
    fn introduce(&mut self, event: &Raw, out: &mut Vec<Event>) {
        let (id, state) = match event.kind {
            kinds::GO_CREATE | kinds::GO_WAITING | kinds::GO_IN_SYSCALL => {
                self.known.insert(event.args[0]);
                return;
            }
            kinds::GO_UNBLOCK | kinds::GO_UNBLOCK_LOCAL => (event.args[0], GState::Waiting),
            kinds::GO_SYS_EXIT | kinds::GO_SYS_EXIT_LOCAL => (event.g, GState::Syscall),
            kinds::GO_START | kinds::GO_START_LOCAL | kinds::GO_START_LABEL => {
                (event.g, GState::Runnable)
            }
            _ => return,
        };
        let fresh = self.known.insert(id);
        if fresh && !self.starting {
            let status = GId::new(id).map(|g| go_status(g, state, None));
            let time = self.time(event);
            if let Some(status) = status {
                self.give(time, NOWHERE, status, out);
            }
        }
    }

    fn convert(&mut self, event: &Raw, words: &Words, out: &mut Vec<Event>) {
        self.introduce(event, out);
        let time = self.time(event);
        let place = self.place(event);
        let stack = self.stack(event.stack);
        let park = |reason| Body::GoPark {
            reason,
            object: None,
            site: None,
            stack,
        };
        let body = match event.kind {
            kinds::GO_SLEEP => park(Text::SLEEP),
            kinds::GO_BLOCK => park(Text::EMPTY),
            kinds::GO_STOP => park(words.forever),
            kinds::GO_BLOCK_SEND => park(Text::CHAN_SEND),
            kinds::GO_BLOCK_RECV => park(Text::CHAN_RECEIVE),
            kinds::GO_BLOCK_SELECT => park(Text::SELECT),
            kinds::GO_BLOCK_SYNC => park(words.sync),
            kinds::GO_BLOCK_COND => park(words.cond),
            kinds::GO_BLOCK_NET => park(words.network),
            kinds::GO_BLOCK_GC => park(words.assist_wait),
            kinds::GO_SCHED => Body::GoYield { stack },
            kinds::GO_PREEMPT => Body::GoPreempted {
                how: Preemption::Unknown,
                stack,
            },
            kinds::GO_END => Body::GoExit { how: None },
            kinds::GO_UNBLOCK | kinds::GO_UNBLOCK_LOCAL => match GId::new(event.args[0]) {
                Some(goroutine) => Body::GoReady {
                    goroutine,
                    by: None,
                    stack,
                },
                None => return,
            },
            kinds::GO_CREATE
            | kinds::GO_START
            | kinds::GO_START_LOCAL
            | kinds::GO_START_LABEL
            | kinds::GO_WAITING
            | kinds::GO_IN_SYSCALL
            | kinds::GOMAXPROCS
            | kinds::PROC_START
            | kinds::PROC_STOP => return self.convert_start(event, time, place, stack, out),
            kinds::GO_SYS_CALL => {
                self.give(time, place, Body::SyscallEnter { site: None, stack }, out);
                if event.args[0] != CALL_BLOCKS {
                    // An instant in this format: the shortest time there is.
                    let later = time + Nanos(1);
                    self.give(later, place, Body::SyscallExit, out);
                } else if let Some(&m) = self.thread_of.get(&event.p) {
                    self.called_on.insert(event.g, m);
                }
                return;
            }
            kinds::GO_SYS_BLOCK => return self.convert_taking(event, time, place, out),
            kinds::GO_SYS_EXIT | kinds::GO_SYS_EXIT_LOCAL => {
                // Recorded later and elsewhere: of where it was, only the goroutine is known.
                let place = Place {
                    g: place.g,
                    ..NOWHERE
                };
                return self.give(time, place, Body::SyscallExitBlocked, out);
            }
            _ => match self.convert_span(event, place, stack, words) {
                Some(body) => body,
                None => return,
            },
        };
        let place = match event.kind {
            kinds::CPU_SAMPLE => Place { m: None, ..place },
            _ => place,
        };
        self.give(time, place, body, out);
    }

    /// Events whose meaning depends on whether the trace is still starting.
    fn convert_start(
        &mut self,
        event: &Raw,
        time: Nanos,
        mut place: Place,
        stack: Option<StackRef>,
        out: &mut Vec<Event>,
    ) {
        let first = event.args[0];
        let status = |state, on_m| GId::new(first).map(|g| go_status(g, state, on_m));
        let body = match event.kind {
            kinds::GO_CREATE if self.starting => {
                self.unsaid.insert(first);
                return;
            }
            kinds::GO_CREATE => {
                let start_stack = self.stack(event.args[1]);
                GId::new(first).map(|child| Body::GoCreate {
                    child,
                    site: None,
                    stack,
                    start_stack,
                    runnable: true,
                })
            }
            kinds::GO_WAITING => {
                self.unsaid.remove(&first);
                place.g = None;
                status(GState::Waiting, None)
            }
            kinds::GO_IN_SYSCALL => {
                self.unsaid.remove(&first);
                place.g = None;
                status(GState::Syscall, None)
            }
            kinds::GOMAXPROCS if self.starting => return self.end_start(time, out),
            kinds::GOMAXPROCS => {
                let procs = u32::try_from(first).unwrap_or(u32::MAX);
                Some(Body::ProcsChange { procs, stack })
            }
            kinds::PROC_START | kinds::PROC_STOP => {
                return self.convert_proc(event, time, place, out);
            }
            _ if self.starting => {
                self.unsaid.remove(&first);
                status(GState::Running, place.m)
            }
            _ => {
                self.give(time, place, Body::GoStart { found: None }, out);
                let label = self.text(event.args[2]);
                (event.kind == kinds::GO_START_LABEL).then_some(Body::GoLabel { label })
            }
        };
        if let Some(body) = body {
            self.give(time, place, body, out);
        }
    }

    /// Everything that was there when the trace began has been named.
    fn end_start(&mut self, time: Nanos, out: &mut Vec<Event>) {
        self.starting = false;
        for id in std::mem::take(&mut self.unsaid) {
            if let Some(g) = GId::new(id) {
                self.give(time, NOWHERE, go_status(g, GState::Runnable, None), out);
            }
        }
    }

    fn convert_proc(&mut self, event: &Raw, time: Nanos, place: Place, out: &mut Vec<Event>) {
        let Some(proc) = p_id(event.p) else { return };
        let starts = event.kind == kinds::PROC_START;
        if starts {
            self.thread_of.insert(event.p, event.args[0]);
        }
        let known = !self.seen.insert(event.p);
        let m = self.thread_of.get(&event.p).copied().and_then(MId::new);
        let place = Place { m, ..place };
        let body = match (known, starts) {
            (true, true) => Body::ProcStart,
            (true, false) => Body::ProcStop,
            (false, true) => Body::ProcStatus {
                proc,
                state: PState::Running,
                on_m: m,
            },
            (false, false) => Body::ProcStatus {
                proc,
                state: PState::Idle,
                on_m: None,
            },
        };
        self.give(time, place, body, out);
        if !starts {
            self.thread_of.remove(&event.p);
        }
    }

    /// A system call has lost its P: to nobody, which a `ProcStop` says, or to the thread of a goroutine
    /// that is back from a call and goes on with it.
    fn convert_taking(&mut self, event: &Raw, time: Nanos, victim: Place, out: &mut Vec<Event>) {
        let (Some(taken), true) = (victim.p, event.args[0] != TAKEN_BY_NOBODY) else {
            return;
        };
        let thread = self.called_on.get(&event.args[0]).copied();
        match thread {
            Some(thread) => self.thread_of.insert(event.p, thread),
            None => self.thread_of.remove(&event.p),
        };
        let m = thread.and_then(MId::new);
        // Go's reader does not see this: its figures count the call as one that keeps its P.
        let steal = Body::ProcSteal {
            victim: taken,
            from_m: victim.m,
            why: None,
        };
        self.give(time, Place { m, ..NOWHERE }, steal, out);
        let p = Some(taken);
        self.give(time, Place { m, p, g: None }, Body::ProcStart, out);
    }

    fn convert_span(
        &mut self,
        event: &Raw,
        place: Place,
        stack: Option<StackRef>,
        words: &Words,
    ) -> Option<Body> {
        let [first, second, third, _] = event.args;
        let sweep = place.p.map(Scope::Proc);
        let assist = place.g.map(Scope::Goroutine);
        let begin = |name, scope: Option<Scope>| {
            scope.map(|scope| Body::RangeBegin {
                name,
                scope,
                stack,
                already_active: false,
            })
        };
        match event.kind {
            kinds::GC_START => {
                self.collection = first;
                Some(Body::GcBegin {
                    cycle: first,
                    stack,
                })
            }
            kinds::GC_DONE => Some(Body::GcEnd {
                cycle: self.collection,
                pages: None,
                stacks: None,
            }),
            kinds::STW_START => Some(Body::StopRequested {
                kind: self.stop_kind(first),
                stack,
            }),
            kinds::STW_DONE => Some(Body::Restarted),
            kinds::GC_SWEEP_START => begin(words.sweep, sweep),
            kinds::GC_SWEEP_DONE => {
                let figures = Some((first, second));
                sweep.map(|scope| Body::RangeEnd {
                    name: words.sweep,
                    scope,
                    figures,
                })
            }
            kinds::GC_MARK_ASSIST_START => begin(words.mark_assist, assist),
            kinds::GC_MARK_ASSIST_DONE => assist.map(|scope| Body::RangeEnd {
                name: words.mark_assist,
                scope,
                figures: None,
            }),
            kinds::HEAP_ALLOC => Some(Body::Metric {
                name: words.heap_objects,
                value: first,
            }),
            kinds::HEAP_GOAL => Some(Body::Metric {
                name: words.heap_goal,
                value: first,
            }),
            kinds::USER_TASK_CREATE => {
                let name = self.text(third);
                let parent = task_id(second);
                Some(Body::TaskBegin {
                    task: TaskId(first),
                    parent,
                    name,
                    stack,
                })
            }
            kinds::USER_TASK_END => Some(Body::TaskEnd {
                task: TaskId(first),
                stack,
            }),
            kinds::USER_REGION => {
                let (task, name) = (task_id(first), self.text(third));
                match second {
                    0 => Some(Body::RegionBegin { task, name, stack }),
                    1 => Some(Body::RegionEnd { task, name, stack }),
                    _ => None,
                }
            }
            kinds::USER_LOG => {
                let (key, value) = (self.text(second), Text(event.message));
                Some(Body::Log {
                    task: task_id(first),
                    key,
                    value,
                    stack,
                })
            }
            kinds::CPU_SAMPLE => Some(Body::CpuSample { stack }),
            // A remark on the wake before it, which was for nothing.
            kinds::FUTILE_WAKEUP => None,
            _ => None,
        }
    }

    fn stop_kind(&self, number: u64) -> Text {
        let number = match (self.version.0 < 21, number) {
            (true, 0 | 1) => number + 1,
            (true, _) => 0,
            (false, _) => number,
        };
        usize::try_from(number)
            .ok()
            .and_then(|at| self.stops.get(at))
            .copied()
            .unwrap_or(Text::EMPTY)
    }
}

/// Stands in the arguments of a system call that blocks.
const CALL_BLOCKS: u64 = 1;

/// Marks the system calls of which the goroutine's next event is that it blocks.
fn mark_blocking_calls(events: &mut [Raw]) {
    let mut next: HashMap<u64, u8> = HashMap::new();
    for event in events.iter_mut().rev() {
        // A sample interrupts what the goroutine does and changes nothing of it.
        if event.kind == kinds::CPU_SAMPLE {
            continue;
        }
        let after = next.insert(event.g, event.kind);
        if event.kind == kinds::GO_SYS_CALL && after == Some(kinds::GO_SYS_BLOCK) {
            event.args[0] = CALL_BLOCKS;
        }
    }
}

/// Stands in the arguments of the loss of a P where no goroutine goes on with it at once.
const TAKEN_BY_NOBODY: u64 = 0;

/// Marks the losses of a P with the goroutine that goes on with it although the P did not stop.
fn mark_takers(events: &mut [Raw]) {
    let mut next: HashMap<i32, u64> = HashMap::new();
    for event in events.iter_mut().rev() {
        match event.kind {
            // These name a goroutine that is elsewhere.
            kinds::CPU_SAMPLE | kinds::GO_SYS_EXIT | kinds::GO_SYS_EXIT_LOCAL => {}
            kinds::GO_SYS_BLOCK => {
                let taker = next.insert(event.p, TAKEN_BY_NOBODY);
                event.args[0] = taker.unwrap_or(TAKEN_BY_NOBODY);
            }
            kinds::GO_START | kinds::GO_START_LOCAL | kinds::GO_START_LABEL => {
                next.insert(event.p, event.g);
            }
            _ => {
                next.insert(event.p, TAKEN_BY_NOBODY);
            }
        }
    }
}

fn p_id(p: i32) -> Option<PId> {
    u32::try_from(p).ok().and_then(PId::new)
}

fn task_id(id: u64) -> Option<TaskId> {
    (id != 0).then_some(TaskId(id))
}

fn go_status(goroutine: GId, state: GState, on_m: Option<MId>) -> Body {
    Body::GoStatus {
        goroutine,
        state,
        on_m,
        reason: None,
        object: None,
        site: None,
        created_at: None,
        creator: None,
        label: None,
        stack: None,
    }
}
