//! Events of ours, and what is read back of them once they were written as a trace of Go: whether both
//! say the same.

use std::collections::{BTreeMap, VecDeque};

use gmp_trace::event::PState;
use gmp_trace::id::MId;
use gmp_trace::tables::{Frame, Site, SiteRef, StackRef, Tables, Text};
use gmp_trace::{Body, Event};

use super::written::{Written, frames};

/// Events of ours for which Go has nothing, or that it takes only sometimes.
const LEFT_OUT: &[&str] = &[
    "GoPreemptRequested",
    "RunWithoutP",
    "Steal",
    "StealFailed",
    "RunqOverflow",
    "GlobalBatch",
    "MCreate",
    "MExit",
    "MPark",
    "MWake",
    "SpinBegin",
    "SpinEnd",
    "MLock",
    "MUnlock",
    "MCpu",
    "SchedSample",
    "Netpoll",
    "TimerFired",
    "SafePoint",
    "Stopped",
    "Loss",
    "Unknown",
    // Other figures than those of the heap.
    "Metric",
    // An empty one.
    "GoLabel",
    // Of a collection that runs or does not, against what was said before.
    "GcBegin",
    "GcActive",
    "GcEnd",
    // Of one that has begun, or has not.
    "TaskBegin",
    "StopRequested",
    "Restarted",
    // Not the innermost.
    "RegionEnd",
];

fn place(site: Option<SiteRef>, tables: &Tables, name: bool) -> Vec<String> {
    let site = site.and_then(|site| tables.site(site));
    let place = |site: &Site| {
        let (function, file) = (tables.text(site.function), tables.text(site.file));
        let short = file.rsplit('/').next().unwrap_or(file);
        let named = if name && !function.is_empty() {
            function.to_owned()
        } else {
            format!("{short}:{}", site.line)
        };
        format!("{named} {file}:{}", site.line)
    };
    site.map(place).into_iter().collect()
}

/// What is to be read back of an event of ours.
fn as_go(event: &Event, tables: &Tables) -> String {
    let mut stacks = Vec::new();
    // A frame's function and address are those that it gets; its place stays.
    let kept = |stack: Option<StackRef>| {
        let frames = stack.map_or(&[][..], |stack| tables.stack(stack));
        let line = |frame: &Frame| format!("{:#x} ?:1", frame.pc);
        frames.iter().map(line).collect::<Vec<_>>()
    };
    match event.body {
        Body::GoCreate { site, stack, .. } => {
            stacks.push(place(site, tables, true));
            stacks.push(if stack.is_some() {
                kept(stack)
            } else {
                place(site, tables, false)
            });
        }
        Body::GoPark { site, stack, .. } | Body::SyscallEnter { site, stack } => {
            stacks.push(if stack.is_some() {
                kept(stack)
            } else {
                place(site, tables, true)
            });
        }
        Body::GoStatus {
            site,
            created_at,
            stack,
            ..
        } => {
            let at = if stack.is_some() {
                kept(stack)
            } else {
                place(site, tables, true)
            };
            stacks.push([at, place(created_at, tables, true)].concat());
        }
        other => stacks.extend(stack_of(other).map(kept)),
    }
    said(event, stacks, tables)
}

/// The stack of an event that can have one, and no other place.
fn stack_of(body: Body) -> Option<Option<StackRef>> {
    match body {
        Body::GoYield { stack }
        | Body::GoPreempted { stack, .. }
        | Body::GoReady { stack, .. }
        | Body::CpuSample { stack }
        | Body::StopRequested { stack, .. }
        | Body::TaskBegin { stack, .. }
        | Body::TaskEnd { stack, .. }
        | Body::RegionBegin { stack, .. }
        | Body::RegionEnd { stack, .. }
        | Body::Log { stack, .. } => Some(stack),
        _ => None,
    }
}

/// What was read back, in the same words.
fn of_go(event: &Event, tables: &Tables) -> String {
    let stacks = match event.body {
        Body::GoCreate {
            stack, start_stack, ..
        } => vec![start_stack, stack],
        Body::GoPark { stack, .. }
        | Body::SyscallEnter { stack, .. }
        | Body::GoStatus { stack, .. } => vec![stack],
        other => stack_of(other).into_iter().collect(),
    };
    let without_address = |line: String| line[..line.rfind(' ').expect("an address")].to_owned();
    let stacks = stacks.into_iter().map(|stack| {
        let lines = frames(stack, tables).into_iter();
        lines.map(without_address).collect()
    });
    said(event, stacks.collect(), tables)
}

/// What is the same of an event of ours and of Go's.
fn said(event: &Event, stacks: Vec<Vec<String>>, tables: &Tables) -> String {
    let word = |of: Text| match tables.text(of) {
        "IO wait" => "network",
        "semacquire" => "sync",
        "join" => "sync.join",
        "wait for GC cycle" => "wait until GC ends",
        other => other,
    };
    let body = match event.body {
        Body::GoCreate { child, .. } => format!("create {child:?}"),
        Body::GoStart { .. } => "start".to_owned(),
        Body::GoYield { .. } => "yield".to_owned(),
        Body::GoPreempted { .. } => "preempted".to_owned(),
        Body::GoPark { reason, .. } => format!("park {}", word(reason)),
        Body::GoReady { goroutine, .. } => format!("ready {goroutine:?}"),
        Body::GoExit { .. } => "exit".to_owned(),
        Body::GoLabel { label } => format!("label {}", word(label)),
        Body::GoStatus {
            goroutine, state, ..
        } => format!("status {goroutine:?} {state:?}"),
        Body::SyscallEnter { .. } => "call".to_owned(),
        Body::SyscallExit => "call ends".to_owned(),
        Body::SyscallExitBlocked => "call ends without P".to_owned(),
        Body::ProcStart => "P starts".to_owned(),
        Body::ProcStop | Body::ProcHandoff { .. } => "P stops".to_owned(),
        Body::ProcSteal { victim, from_m, .. } => format!("{victim:?} stolen of {from_m:?}"),
        Body::ProcStatus { proc, state, on_m } => {
            let on_m = on_m.filter(|_| state != PState::Idle);
            format!("status {proc:?} {state:?} {on_m:?}")
        }
        Body::ProcsChange { procs, .. } => format!("{procs} Ps"),
        Body::StopRequested { kind, .. } => format!("stop {}", word(kind)),
        Body::Restarted => "restarted".to_owned(),
        Body::GcBegin { .. } | Body::GcActive { .. } => "collection begins".to_owned(),
        Body::GcEnd { .. } => "collection ends".to_owned(),
        Body::TaskBegin {
            task, parent, name, ..
        } => format!("task {task:?} {parent:?} {}", word(name)),
        Body::TaskEnd { task, .. } => format!("task ends {task:?}"),
        Body::RegionBegin { task, name, .. } => format!("region {task:?} {}", word(name)),
        Body::RegionEnd { task, name, .. } => format!("region ends {task:?} {}", word(name)),
        Body::Log {
            task, key, value, ..
        } => format!("log {task:?} {} {}", word(key), word(value)),
        Body::CpuSample { .. } => "sample".to_owned(),
        // The wall clock of played programs stands still, and Go wants it to go on.
        Body::Sync { mono, .. } => format!("generation {mono:?}"),
        other => format!("{other:?}"),
    };
    format!(
        "{:?} {:?} {:?} {body} {stacks:?}",
        event.time, event.p, event.g
    )
}

/// The name of the kind of an event.
pub(crate) fn name(body: &Body) -> String {
    let name = format!("{body:?}");
    let end = name
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(name.len());
    name[..end].to_owned()
}

/// Events of a lane keep their order: those of a thread, statuses of what a thread has among them, and
/// samples, which are in the order of their own times.
fn lane_of(event: &Event) -> (Option<MId>, bool) {
    let on_m = match event.body {
        Body::GoStatus { on_m, .. } => on_m,
        Body::ProcStatus { on_m, state, .. } if state != PState::Idle => on_m,
        _ => None,
    };
    (
        on_m.or(event.m),
        matches!(event.body, Body::CpuSample { .. }),
    )
}

/// What was read back, without the P and the goroutine that the thread has at a status that another
/// thread tells, or a control block, which is of no thread. The recorded event has what the one who
/// tells has; Go wants the status in the batch of the thread that it is about, and its reader gives
/// what that one has. What the status is about, its state and its thread are compared all the same.
fn told_by(recorded: &Event, back: &Event) -> Event {
    let mut back = *back;
    let is_status = |body| matches!(body, Body::GoStatus { .. } | Body::ProcStatus { .. });
    if recorded.m != back.m && is_status(recorded.body) && is_status(back.body) {
        (back.p, back.g) = (recorded.p, recorded.g);
    }
    back
}

/// Of each thread what is read back is what was written, less what is left out.
pub(crate) fn same_by_thread(written: &Written, what: &str) {
    assert!(
        written.outcome.added.is_empty(),
        "{what}: {:?}",
        written.outcome.added
    );
    assert_eq!(written.back.len() as u64, written.outcome.events, "{what}");
    same_events(written, what);
}

/// Events that say who holds which P.
const OF_PROCS: [&str; 5] = [
    "ProcHandoff",
    "ProcStart",
    "ProcStatus",
    "ProcSteal",
    "ProcStop",
];

/// As [`same_by_thread`], but for who holds which P.
pub(crate) fn same_but_for_procs(written: &mut Written, what: &str) {
    for events in [&mut written.events, &mut written.back] {
        events.retain(|event| !OF_PROCS.contains(&name(&event.body).as_str()));
        events.iter_mut().for_each(|event| event.p = None);
    }
    written
        .outcome
        .left_out
        .retain(|kind, _| !OF_PROCS.contains(kind));
    same_events(written, what);
}

/// Each event is read back, or left out and counted, in the order of its thread.
fn same_events(written: &Written, what: &str) {
    for kind in written.outcome.left_out.keys() {
        assert!(LEFT_OUT.contains(kind), "{what}: {kind}");
    }
    let mut got: BTreeMap<_, VecDeque<Event>> = BTreeMap::new();
    for event in &written.back {
        got.entry(lane_of(event)).or_default().push_back(*event);
    }
    let mut skipped: BTreeMap<String, u64> = BTreeMap::new();
    for event in &written.events {
        let lane = lane_of(event);
        let meant = as_go(event, &written.tables);
        let lane = got.entry(lane).or_default();
        let front = lane.front().map(|back| {
            let back = told_by(event, back);
            of_go(&back, &written.back_tables)
        });
        if front.as_ref() == Some(&meant) {
            lane.pop_front();
            continue;
        }
        let kind = name(&event.body);
        assert!(
            written.outcome.left_out.contains_key(kind.as_str()),
            "{what}: event {}: meant {meant}, read back {:?}",
            event.order,
            front
        );
        *skipped.entry(kind).or_default() += 1;
    }
    let left_out: BTreeMap<String, u64> = written
        .outcome
        .left_out
        .iter()
        .map(|(kind, count)| ((*kind).to_owned(), *count))
        .collect();
    assert_eq!(skipped, left_out, "{what}");
    let more: usize = got.values().map(VecDeque::len).sum();
    assert_eq!(more, 0, "{what}: read back and not written");
}
