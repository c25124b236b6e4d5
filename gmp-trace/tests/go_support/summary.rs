//! A summary of events in the way of Go's summarizer, to be held against what that says.
//!
//! It shares no code with the library: bodies are turned into Go's kinds and transitions, and times
//! are added up by goroutine as Go does it.

use std::collections::BTreeMap;

use gmp_trace::event::{GState, PState, Scope};
use gmp_trace::tables::{StackRef, Tables, Text};
use gmp_trace::{Body, Event};

use super::goroutine::{Goroutine, State};

/// By which clock a summary is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// As recorded, but no event before the one that it comes after.
    Recorded,
    /// As Go's reader shows them: no event at or before the time of the one before it.
    AsGo,
}

/// A goroutine turns from one state to another.
#[derive(Clone, Copy)]
struct Turn<'a> {
    id: u64,
    from: State,
    to: State,
    time: i64,
    reason: &'a str,
    stack: Option<StackRef>,
}

/// A task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) begin: Option<i64>,
    pub(crate) end: Option<i64>,
    pub(crate) parent: u64,
    pub(crate) logs: i64,
    pub(crate) regions: i64,
}

/// The summary of a trace.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) kinds: BTreeMap<String, i64>,
    pub(crate) transitions: BTreeMap<String, i64>,
    pub(crate) range_begins: BTreeMap<String, i64>,
    pub(crate) goroutines: BTreeMap<u64, Goroutine>,
    pub(crate) tasks: BTreeMap<u64, Task>,
    pub(crate) first: i64,
    pub(crate) last: i64,
    times: Times,
    started: bool,
    sync: i64,
    alive: BTreeMap<u64, State>,
    procs: BTreeMap<u32, State>,
    syscall_of_p: BTreeMap<Option<u32>, u64>,
    p_of_syscall: BTreeMap<u64, Option<u32>>,
    sweeps: BTreeMap<u32, u64>,
    /// A goroutine that was made waiting: it turns out at the next event whether it is in a system
    /// call.
    born: Option<Event>,
}

impl Summary {
    /// The summary of `events`.
    pub(crate) fn of(events: &[Event], tables: &Tables, times: Times) -> Summary {
        let mut summary = Summary {
            kinds: BTreeMap::new(),
            transitions: BTreeMap::new(),
            range_begins: BTreeMap::new(),
            goroutines: BTreeMap::new(),
            tasks: BTreeMap::new(),
            first: 0,
            last: 0,
            times,
            started: false,
            sync: 0,
            alive: BTreeMap::new(),
            procs: BTreeMap::new(),
            syscall_of_p: BTreeMap::new(),
            p_of_syscall: BTreeMap::new(),
            sweeps: BTreeMap::new(),
            born: None,
        };
        for event in events {
            summary.event(event, tables);
        }
        summary.flush_born(tables);
        // Go shows another synchronisation at the end.
        summary.last += 1;
        *summary.kinds.entry("Sync".into()).or_default() += 1;
        let end = summary.last;
        for goroutine in summary.goroutines.values_mut() {
            if !goroutine.ended {
                goroutine.finish(end);
            }
        }
        summary
    }

    fn event(&mut self, event: &Event, tables: &Tables) {
        if let Body::GoCreate {
            runnable: false, ..
        } = event.body
        {
            self.flush_born(tables);
            self.born = Some(*event);
            return;
        }
        if let (
            Some(born),
            Body::GoStatus {
                goroutine,
                state: GState::Syscall,
                ..
            },
        ) = (self.born, event.body)
            && matches!(born.body, Body::GoCreate { child, .. } if child == goroutine)
        {
            self.born = None;
            let time = self.clock(&born);
            self.count("StateTransition");
            return self.turn(
                &Turn {
                    id: goroutine.get(),
                    from: State::NotExist,
                    to: State::Syscall,
                    time,
                    reason: "",
                    stack: None,
                },
                event,
                tables,
            );
        }
        self.flush_born(tables);
        self.take(event, tables);
    }

    fn flush_born(&mut self, tables: &Tables) {
        if let Some(born) = self.born.take() {
            self.take(&born, tables);
        }
    }

    fn clock(&mut self, event: &Event) -> i64 {
        let mut time = event.time.0;
        if !self.started {
            (self.started, self.first, self.last, self.sync) = (true, time, time, time);
            return time;
        }
        if time <= self.last {
            time = self.last + i64::from(self.times == Times::AsGo);
        }
        self.last = time;
        time
    }

    fn count(&mut self, kind: &str) {
        *self.kinds.entry(kind.into()).or_default() += 1;
    }

    fn take(&mut self, event: &Event, tables: &Tables) {
        let time = self.clock(event);
        let g = event.g.map_or(0, |g| g.get());
        self.count(kind_of(&event.body));
        if let Some(turn) = self.turn_of(event, time, tables) {
            self.turn(&turn, event, tables);
        } else {
            self.take_rest(event, time, g, tables);
        }
        if let Some(goroutine) = self.goroutines.get_mut(&g) {
            goroutine.events += 1;
        }
    }

    /// How the event turns its goroutine, if it does.
    fn turn_of<'a>(&self, event: &Event, time: i64, tables: &'a Tables) -> Option<Turn<'a>> {
        let g = event.g.map_or(0, |g| g.get());
        let turn = |id, from, to, stack| Turn {
            id,
            from,
            to,
            time,
            reason: "",
            stack,
        };
        Some(match event.body {
            Body::GoCreate {
                child,
                start_stack,
                runnable,
                ..
            } => {
                let to = if runnable {
                    State::Runnable
                } else {
                    State::Waiting
                };
                turn(child.get(), State::NotExist, to, start_stack)
            }
            Body::GoStart { .. } => turn(g, State::Runnable, State::Running, None),
            Body::GoYield { stack } | Body::GoPreempted { stack, .. } => {
                turn(g, State::Running, State::Runnable, stack)
            }
            Body::GoPark { reason, stack, .. } => Turn {
                reason: tables.text(reason),
                ..turn(g, State::Running, State::Waiting, stack)
            },
            Body::GoReady { goroutine, .. } => {
                turn(goroutine.get(), State::Waiting, State::Runnable, None)
            }
            Body::GoExit { .. } => {
                let from = self.alive.get(&g).copied().unwrap_or(State::Running);
                turn(g, from, State::NotExist, None)
            }
            Body::SyscallEnter { stack, .. } => turn(g, State::Running, State::Syscall, stack),
            Body::SyscallExit => turn(g, State::Syscall, State::Running, None),
            Body::SyscallExitBlocked => turn(g, State::Syscall, State::Runnable, None),
            Body::GoStatus {
                goroutine,
                state,
                stack,
                ..
            } => {
                let to = match state {
                    GState::Runnable => State::Runnable,
                    GState::Running => State::Running,
                    GState::Syscall => State::Syscall,
                    GState::Waiting => State::Waiting,
                };
                let from = if self.alive.contains_key(&goroutine.get()) {
                    to
                } else {
                    State::Undetermined
                };
                turn(goroutine.get(), from, to, stack)
            }
            _ => return None,
        })
    }

    fn take_rest(&mut self, event: &Event, time: i64, g: u64, tables: &Tables) {
        match event.body {
            Body::Sync { .. } => self.sync = time,
            Body::ProcStart => self.turn_proc(event.p, State::Idle, State::Running, time),
            Body::ProcStop => self.turn_proc(event.p, State::Running, State::Idle, time),
            Body::ProcSteal { victim, from_m, .. } => {
                let from = if from_m.is_some() {
                    State::Running
                } else {
                    State::Idle
                };
                self.turn_proc(Some(victim), from, State::Idle, time);
            }
            Body::ProcStatus { proc, state, .. } => {
                let to = if state == PState::Idle {
                    State::Idle
                } else {
                    State::Running
                };
                let from = match self.procs.get(&proc.get()) {
                    Some(_) => to,
                    None => State::Undetermined,
                };
                self.turn_proc(Some(proc), from, to, time);
            }
            _ => self.take_span(event, time, g, tables),
        }
    }

    fn turn_proc(&mut self, p: Option<gmp_trace::id::PId>, from: State, to: State, time: i64) {
        let p = p.expect("a P").get();
        *self
            .transitions
            .entry(format!("p:{from:?}->{to:?}"))
            .or_default() += 1;
        self.procs.insert(p, to);
        if from != to
            && to == State::Idle
            && let Some(g) = self.syscall_of_p.remove(&Some(p))
            && let Some(goroutine) = self.goroutines.get_mut(&g)
        {
            goroutine.last_syscall_block = Some(time);
            goroutine.events += 1;
        }
    }

    fn turn(&mut self, turn: &Turn<'_>, event: &Event, tables: &Tables) {
        let Turn {
            id,
            from,
            to,
            time,
            reason,
            stack,
        } = *turn;
        *self
            .transitions
            .entry(format!("g:{from:?}->{to:?}"))
            .or_default() += 1;
        if to == State::Waiting {
            *self
                .transitions
                .entry(format!("wait:{reason}"))
                .or_default() += 1;
        }
        match to {
            State::NotExist => self.alive.remove(&id),
            _ => self.alive.insert(id, to),
        };
        if from == to {
            return;
        }
        match from {
            State::Undetermined => {
                let mut goroutine = Goroutine::new(self.sync);
                let before = time - self.sync;
                match to {
                    State::Running => goroutine.exec += before,
                    State::Waiting => *goroutine.block.entry(reason.into()).or_default() += before,
                    State::Runnable => goroutine.sched_wait += before,
                    State::Syscall if event.p.is_none() => goroutine.syscall_block += before,
                    _ => goroutine.syscall += before,
                }
                self.goroutines.insert(id, goroutine);
            }
            State::NotExist => {
                let creator = event.g.map_or(0, |g| g.get());
                let inherited = self
                    .goroutines
                    .get(&creator)
                    .and_then(|c| c.open_regions.last());
                let mut goroutine = Goroutine::new(time);
                goroutine.open_regions.extend(inherited.copied());
                self.goroutines.insert(id, goroutine);
            }
            State::Syscall => {
                let p = self.p_of_syscall.remove(&id);
                if let Some(p) = p {
                    self.syscall_of_p.remove(&p);
                }
            }
            _ => {}
        }
        let goroutine = self.goroutines.get_mut(&id).expect("a known goroutine");
        goroutine.events += 1;
        goroutine.leave(from, time);
        if goroutine.name.is_empty()
            && let Some(stack) = stack
            && let Some(frame) = tables.stack(stack).last()
        {
            goroutine.name = tables.text(frame.function).to_owned();
        }
        goroutine.enter(to, time, reason);
        if to == State::Syscall {
            let p = event.p.map(|p| p.get());
            self.syscall_of_p.insert(p, id);
            self.p_of_syscall.insert(id, p);
        }
    }

    fn take_span(&mut self, event: &Event, time: i64, g: u64, tables: &Tables) {
        let text = |text: Text| tables.text(text).to_owned();
        match event.body {
            Body::StopRequested { kind, .. } => {
                let name = format!("stop-the-world ({})", tables.text(kind));
                self.range_begins(&name, Some(g), time, false);
                if let Some(goroutine) = self.goroutines.get_mut(&g) {
                    goroutine.stops.push(name);
                }
            }
            Body::Restarted => {
                if let Some(goroutine) = self.goroutines.get_mut(&g)
                    && let Some(name) = goroutine.stops.pop()
                {
                    goroutine.range_ends(&name, time);
                }
            }
            Body::GcBegin { .. } => {
                self.range_begins("GC concurrent mark phase", None, time, false)
            }
            Body::RangeBegin {
                name,
                scope,
                already_active,
                ..
            } => {
                let name = text(name);
                let of = match scope {
                    Scope::Goroutine(g) => Some(g.get()),
                    Scope::Proc(p) => {
                        if self.goroutines.contains_key(&g) {
                            self.sweeps.insert(p.get(), g);
                        }
                        Some(g)
                    }
                    Scope::Global => None,
                };
                self.range_begins(&name, of, time, already_active);
            }
            Body::RangeEnd { name, scope, .. } => {
                let of = match scope {
                    Scope::Goroutine(g) => Some(g.get()),
                    Scope::Proc(p) => self.sweeps.remove(&p.get()).filter(|&begun| begun == g),
                    Scope::Global => None,
                };
                if let Some(goroutine) = of.and_then(|g| self.goroutines.get_mut(&g)) {
                    goroutine.range_ends(&text(name), time);
                }
            }
            Body::RegionBegin { task, .. } => {
                let task = task.map_or(0, |task| task.0);
                self.tasks.entry(task).or_default().regions += 1;
                let goroutine = self.goroutines.get_mut(&g).expect("a known goroutine");
                goroutine.open_regions.push(task);
            }
            Body::RegionEnd { task, .. } => {
                let goroutine = self.goroutines.get_mut(&g).expect("a known goroutine");
                goroutine.regions += 1;
                if goroutine.open_regions.pop().is_none() {
                    self.tasks
                        .entry(task.map_or(0, |task| task.0))
                        .or_default()
                        .regions += 1;
                }
            }
            Body::TaskBegin {
                task, parent, name, ..
            } => {
                let parent = parent.map_or(0, |parent| parent.0);
                let entry = self.tasks.entry(task.0).or_default();
                (entry.name, entry.begin, entry.parent) = (text(name), Some(time), parent);
                if parent != 0 {
                    self.tasks.entry(parent).or_default();
                }
            }
            Body::TaskEnd { task, .. } => {
                self.tasks.entry(task.0).or_default().end = Some(time);
            }
            Body::Log { task, .. } => {
                self.tasks
                    .entry(task.map_or(0, |task| task.0))
                    .or_default()
                    .logs += 1;
            }
            _ => {}
        }
    }

    fn range_begins(&mut self, name: &str, g: Option<u64>, time: i64, active: bool) {
        if !active {
            *self.range_begins.entry(name.into()).or_default() += 1;
        }
        let Some(goroutine) = g.and_then(|g| self.goroutines.get_mut(&g)) else {
            return;
        };
        let since = if active { self.sync } else { time };
        let before = goroutine.last_range.insert(name.into(), since);
        if active && let Some(before) = before {
            *goroutine.ranges.entry(name.into()).or_default() += since - before;
        }
    }
}

/// Go's name for the kind of an event.
fn kind_of(body: &Body) -> &'static str {
    match body {
        Body::Sync { .. } => "Sync",
        Body::Metric { .. } | Body::ProcsChange { .. } => "Metric",
        Body::GoLabel { .. } => "Label",
        Body::RangeBegin {
            already_active: true,
            ..
        }
        | Body::GcActive { .. } => "RangeActive",
        Body::RangeBegin { .. } | Body::GcBegin { .. } | Body::StopRequested { .. } => "RangeBegin",
        Body::RangeEnd { .. } | Body::GcEnd { .. } | Body::Restarted => "RangeEnd",
        Body::TaskBegin { .. } => "TaskBegin",
        Body::TaskEnd { .. } => "TaskEnd",
        Body::RegionBegin { .. } => "RegionBegin",
        Body::RegionEnd { .. } => "RegionEnd",
        Body::Log { .. } => "Log",
        Body::CpuSample { .. } => "StackSample",
        Body::Unknown { .. } => "Experimental",
        _ => "StateTransition",
    }
}
