//! The events of all Ps in the order of cause, in a trace up to Go 1.21.
//!
//! Events that change a goroutine's state carry its sequence number, or follow the one before on the
//! same P. A P whose next event has to wait is put aside under the state that it waits for.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::kinds;
use super::parse::{Index, Raw};
use crate::anomaly::{Anomalies, AnomalyKind};
use crate::error::Error;
use crate::go::fault::Fault;
use crate::tables::Tables;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Status {
    #[default]
    Dead,
    Runnable,
    Running,
    Waiting,
}

/// State of a goroutine for the ordering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    sequence: u64,
    status: Status,
}

/// What an event needs and makes: of which goroutine, after which sequence number (any, where it
/// follows on the same P), from which status, to which status, and by how much the sequence grows.
#[derive(Clone, Copy, Debug)]
struct Transition {
    g: u64,
    sequence: Option<u64>,
    from: Status,
    to: Status,
    step: u64,
}

/// Stands for the collector among goroutines.
const COLLECTOR: u64 = u64::MAX - 1;

fn transition(event: &Raw) -> Option<Transition> {
    use Status::{Dead, Runnable, Running, Waiting};
    let [first, second, ..] = event.args;
    let of = |g, sequence, from, to, step| {
        Some(Transition {
            g,
            sequence,
            from,
            to,
            step,
        })
    };
    match event.kind {
        kinds::GO_CREATE => of(first, Some(0), Dead, Runnable, 1),
        kinds::GO_WAITING | kinds::GO_IN_SYSCALL => of(event.g, Some(1), Runnable, Waiting, 1),
        kinds::GO_START | kinds::GO_START_LABEL => of(event.g, Some(second), Runnable, Running, 1),
        kinds::GO_START_LOCAL => of(event.g, None, Runnable, Running, 1),
        kinds::GO_SCHED | kinds::GO_PREEMPT => of(event.g, None, Running, Runnable, 0),
        kinds::GO_UNBLOCK | kinds::GO_SYS_EXIT => of(first, Some(second), Waiting, Runnable, 1),
        kinds::GO_UNBLOCK_LOCAL | kinds::GO_SYS_EXIT_LOCAL => of(first, None, Waiting, Runnable, 1),
        kinds::GC_START => of(COLLECTOR, Some(first), Dead, Dead, 1),
        kind if kinds::blocks(kind) => of(event.g, None, Running, Waiting, 0),
        _ => None,
    }
}

/// What a P waits for: that a goroutine is in a status, at a sequence number or at any.
type Key = (u64, Option<u64>, Status);

/// Puts events in order.
struct Merge<'a> {
    bytes: &'a [u8],
    strict: bool,
    index: Index,
    heads: Vec<Raw>,
    states: HashMap<u64, State>,
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: HashMap<Key, Vec<usize>>,
    events: Vec<Raw>,
}

/// All events of the file in order, those of the CPU profiler among them.
///
/// # Errors
///
/// A strict reader finds no order, or times that contradict it.
pub(super) fn in_order(
    bytes: &[u8],
    mut index: Index,
    strict: bool,
    tables: &mut Tables,
    anomalies: &mut Anomalies,
) -> Result<(Index, Vec<Raw>), Error> {
    let samples = std::mem::take(&mut index.samples);
    let mut merge = Merge {
        bytes,
        strict,
        heads: vec![Raw::default(); index.procs.len()],
        index,
        states: HashMap::new(),
        ready: BinaryHeap::new(),
        waiting: HashMap::new(),
        events: Vec::new(),
    };
    for place in 0..merge.heads.len() {
        merge.fetch(place, tables, anomalies)?;
    }
    merge.run(tables, anomalies)?;
    let mut events = merge.events;
    check_times(&mut events, strict, anomalies)?;
    true_syscall_exits(&mut events, strict, anomalies)?;
    // Samples have times of their own; a stable sort puts them behind events of the same time.
    events.extend(samples);
    events.sort_by_key(|event| event.time);
    Ok((merge.index, events))
}

impl Merge<'_> {
    /// Decodes the next event of the P at `place`.
    fn fetch(
        &mut self,
        place: usize,
        tables: &mut Tables,
        anomalies: &mut Anomalies,
    ) -> Result<(), Error> {
        loop {
            let Some(proc) = self.index.procs.get_mut(place) else {
                return Ok(());
            };
            match proc.next(self.bytes, tables) {
                Ok(Some(event)) => {
                    self.heads[place] = event;
                    self.ready.push(Reverse((event.time, place)));
                    return Ok(());
                }
                Ok(None) => return Ok(()),
                Err((fault, offset)) if self.strict => return Err(fault.into_error(offset)),
                Err((fault, offset)) => anomalies.add(fault.kind(), offset, 0),
            }
        }
    }

    fn run(&mut self, tables: &mut Tables, anomalies: &mut Anomalies) -> Result<(), Error> {
        loop {
            let Some(Reverse((_, place))) = self.ready.pop() else {
                if !self.force(anomalies)? {
                    return Ok(());
                }
                continue;
            };
            let event = self.heads[place];
            if let Some(wanted) = transition(&event) {
                let state = self.states.get(&wanted.g).copied().unwrap_or_default();
                let fits = wanted
                    .sequence
                    .is_none_or(|sequence| sequence == state.sequence);
                if !fits || state.status != wanted.from {
                    let key = (wanted.g, wanted.sequence, wanted.from);
                    self.waiting.entry(key).or_default().push(place);
                    continue;
                }
                let sequence = state.sequence.wrapping_add(wanted.step);
                self.turn(
                    wanted.g,
                    State {
                        sequence,
                        status: wanted.to,
                    },
                );
            }
            self.events.push(event);
            self.fetch(place, tables, anomalies)?;
        }
    }

    /// Goroutine `g` is now in `state`: wakes a P that waited for that.
    fn turn(&mut self, g: u64, state: State) {
        self.states.insert(g, state);
        for sequence in [Some(state.sequence), None] {
            let key = (g, sequence, state.status);
            if let Some(list) = self.waiting.get_mut(&key) {
                if let Some(place) = list.pop() {
                    self.ready.push(Reverse((self.heads[place].time, place)));
                }
                if list.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
    }

    /// Every P waits for an event that is not there: acts as if it had been, for the earliest one.
    #[cold]
    fn force(&mut self, anomalies: &mut Anomalies) -> Result<bool, Error> {
        let heads = &self.heads;
        let all = self
            .waiting
            .iter()
            .flat_map(|(key, list)| list.iter().map(move |place| (*place, *key)));
        let Some((place, key)) = all.min_by_key(|&(place, _)| (heads[place].time, place)) else {
            return Ok(false);
        };
        let offset = heads[place].offset;
        if self.strict {
            let waiting = self.waiting.values().map(Vec::len).sum();
            return Err(Fault::Stuck { waiting }.into_error(offset));
        }
        anomalies.add(AnomalyKind::OrderForced, offset, 0);
        let (g, sequence, status) = key;
        let before = self.states.get(&g).copied().unwrap_or_default();
        self.turn(
            g,
            State {
                sequence: sequence.unwrap_or(before.sequence),
                status,
            },
        );
        Ok(true)
    }
}

/// Times must not contradict the order of cause: where they do, they are moved.
fn check_times(events: &mut [Raw], strict: bool, anomalies: &mut Anomalies) -> Result<(), Error> {
    let mut latest = 0;
    for event in events {
        if event.time < latest {
            if strict {
                return Err(Fault::TimesOutOfOrder.into_error(event.offset));
            }
            anomalies.add(AnomalyKind::ClockSkew, event.offset, latest - event.time);
            event.time = latest;
        }
        latest = event.time;
    }
    Ok(())
}

/// The end of a system call is recorded late, with the time at which it was: the event gets it.
fn true_syscall_exits(
    events: &mut [Raw],
    strict: bool,
    anomalies: &mut Anomalies,
) -> Result<(), Error> {
    let mut blocked = HashMap::new();
    for event in events.iter_mut() {
        let time = match event.kind {
            kinds::GO_SYS_BLOCK | kinds::GO_IN_SYSCALL => {
                blocked.insert(event.g, event.time);
                continue;
            }
            kinds::GO_SYS_EXIT => event.args[2],
            kinds::GO_SYS_EXIT_LOCAL => event.args[1],
            _ => continue,
        };
        if time == 0 {
            continue;
        }
        let fault = match blocked.get(&event.g) {
            Some(&since) if time >= since => {
                event.time = time;
                continue;
            }
            Some(_) => Fault::TimesOutOfOrder,
            None => Fault::Legacy("the end of a system call that has not begun"),
        };
        if strict {
            return Err(fault.into_error(event.offset));
        }
        anomalies.add(fault.kind(), event.offset, 0);
    }
    events.sort_by_key(|event| event.time);
    Ok(())
}
