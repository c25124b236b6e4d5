//! One generation in the order of cause: takes the events of all threads, the earliest that can come
//! next first.
//!
//! A thread whose next event has to wait is put aside under what it waits for, and comes back when
//! that has happened; it is not looked at in between.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::clock::Clock;
use super::cursor::Cursor;
use super::fault::Fault;
use super::generation::{Generation, Names, Sample};
use super::order::{Order, Out, Step};
use super::states::{Key, NOBODY, Thread};
use super::words::Words;
use crate::anomaly::{Anomalies, AnomalyKind};
use crate::error::Error;
use crate::event::{Body, Event};
use crate::id::{GId, MId, PId};

/// Events that are made before they are given on.
pub(crate) const BATCH: usize = 256;

/// What the merge needs that lives longer than a generation.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) order: &'a mut Order,
    pub(crate) words: &'a Words,
    pub(crate) anomalies: &'a mut Anomalies,
    pub(crate) origin: i64,
    pub(crate) position: &'a mut u64,
    /// The latest time so far.
    pub(crate) latest: &'a mut i64,
}

/// A thread's part of the generation.
#[derive(Debug)]
struct Lane {
    cursor: Cursor,
    /// Slot of the thread.
    thread: u32,
    waits_for: Option<Key>,
}

/// A generation that is being given.
#[derive(Debug)]
pub(crate) struct Merge {
    lanes: Vec<Lane>,
    /// Lanes that can be looked at, by the time of their event.
    ready: BinaryHeap<Reverse<(i64, u32)>>,
    /// Lanes that wait, in the order of their time; made only when nothing else can go on.
    stuck: Vec<u32>,
    samples: std::vec::IntoIter<Sample>,
    names: Names,
    clock: Clock,
}

impl Merge {
    /// Makes ready to give `generation`.
    ///
    /// # Errors
    ///
    /// A strict reader finds that the first event of a thread is none.
    pub(crate) fn new(generation: Generation, shared: &mut Shared<'_>) -> Result<Merge, Error> {
        let mut merge = Merge {
            lanes: Vec::with_capacity(generation.threads.len()),
            ready: BinaryHeap::new(),
            stuck: Vec::new(),
            samples: generation.samples.into_iter(),
            names: generation.names,
            clock: generation.clock,
        };
        for batches in generation.threads {
            let thread = shared.order.thread(batches.m);
            let lane = merge.lanes.len() as u32;
            merge.lanes.push(Lane {
                cursor: Cursor::new(batches),
                thread,
                waits_for: None,
            });
            merge.advance(lane, shared)?;
        }
        Ok(merge)
    }

    /// Decodes the next event of `lane` and makes the lane ready.
    fn advance(&mut self, lane: u32, shared: &mut Shared<'_>) -> Result<(), Error> {
        let Some(place) = self.lanes.get_mut(lane as usize) else {
            return Ok(());
        };
        if decode(&mut place.cursor, self.clock, shared)? {
            self.ready.push(Reverse((place.cursor.event.time, lane)));
        }
        Ok(())
    }

    /// Gives some events; none when the generation is over.
    ///
    /// # Errors
    ///
    /// A strict reader finds the trace broken.
    pub(crate) fn fill(
        &mut self,
        shared: &mut Shared<'_>,
        events: &mut Vec<Event>,
    ) -> Result<(), Error> {
        while events.len() < BATCH {
            let next = self.ready.pop();
            let lane_time = next.map(|Reverse((time, _))| time);
            if let Some(sample) = self.samples.as_slice().first().copied()
                && lane_time.is_none_or(|time| sample.time < time)
                && (next.is_some() || shared.order.waits.len() == 0)
            {
                self.ready.extend(next);
                self.samples.next();
                self.give_sample(sample, shared, events);
                continue;
            }
            match next {
                Some(Reverse((_, lane))) => self.run(lane, shared, events)?,
                None if shared.order.waits.len() > 0 => self.force(shared, events)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Gives events of `lane` until another one is earlier, it has to wait, it ends, or there are
    /// enough.
    fn run(
        &mut self,
        lane: u32,
        shared: &mut Shared<'_>,
        events: &mut Vec<Event>,
    ) -> Result<(), Error> {
        let Merge {
            lanes,
            ready,
            samples,
            names,
            clock,
            ..
        } = self;
        let Some(place) = lanes.get_mut(lane as usize) else {
            return Ok(());
        };
        let thread = place.thread;
        let first_sample = samples
            .as_slice()
            .first()
            .map_or(i64::MAX, |sample| sample.time);
        let first_ready = ready.peek().map_or(i64::MAX, |&Reverse((time, _))| time);
        let limit = first_sample.min(first_ready);
        loop {
            let mut out = Out {
                events: &mut *events,
                anomalies: &mut *shared.anomalies,
                names,
                words: shared.words,
                origin: shared.origin,
                order: &mut *shared.position,
            };
            shared.order.offset = place.cursor.offset();
            match shared
                .order
                .advance(&place.cursor.event, thread, false, &mut out)
            {
                Ok(Step::Done) => {
                    if place.cursor.event.time >= *shared.latest {
                        *shared.latest = place.cursor.event.time;
                    } else {
                        went_back(&place.cursor, *shared.latest, shared);
                    }
                }
                Ok(Step::Wait(key)) => {
                    place.waits_for = Some(key);
                    shared.order.wait(key, lane);
                    return Ok(());
                }
                Err(fault) => refuse(fault, shared)?,
            }
            if !decode(&mut place.cursor, *clock, shared)? {
                break;
            }
            let time = place.cursor.event.time;
            let woken = !shared.order.waits.woken.is_empty();
            if time > limit || woken || events.len() >= BATCH {
                ready.push(Reverse((time, lane)));
                break;
            }
        }
        self.take_woken(shared);
        Ok(())
    }

    fn take_woken(&mut self, shared: &mut Shared<'_>) {
        while let Some(lane) = shared.order.waits.woken.pop() {
            if let Some(place) = self.lanes.get_mut(lane as usize) {
                place.waits_for = None;
                self.ready.push(Reverse((place.cursor.event.time, lane)));
            }
        }
    }

    /// Every thread waits for an event that is not there: lets the earliest one through.
    #[cold]
    fn force(&mut self, shared: &mut Shared<'_>, events: &mut Vec<Event>) -> Result<(), Error> {
        let Some(lane) = self.earliest_waiting() else {
            return Ok(());
        };
        let Some(place) = self.lanes.get_mut(lane as usize) else {
            return Ok(());
        };
        let offset = place.cursor.offset();
        if shared.order.strict {
            let waiting = shared.order.waits.len();
            return Err(Fault::Stuck { waiting }.into_error(offset));
        }
        if let Some(key) = place.waits_for.take() {
            shared.order.end_wait(key, lane);
        }
        shared.anomalies.add(AnomalyKind::OrderForced, offset, 0);
        shared.order.damaged = true;
        shared.order.offset = offset;
        let mut out = Out {
            events,
            anomalies: &mut *shared.anomalies,
            names: &self.names,
            words: shared.words,
            origin: shared.origin,
            order: &mut *shared.position,
        };
        let verdict = shared
            .order
            .advance(&place.cursor.event, place.thread, true, &mut out);
        if let Err(fault) = verdict {
            refuse(fault, shared)?;
        }
        self.advance(lane, shared)?;
        self.take_woken(shared);
        Ok(())
    }

    /// The lane with the earliest event of those that wait.
    fn earliest_waiting(&mut self) -> Option<u32> {
        loop {
            if let Some(lane) = self.stuck.pop() {
                // Those that went on in the meantime are no longer where they were.
                match self.lanes.get(lane as usize) {
                    Some(place) if place.waits_for.is_some() => return Some(lane),
                    _ => continue,
                }
            }
            let lanes = &self.lanes;
            self.stuck = (0..lanes.len() as u32)
                .filter(|&lane| lanes[lane as usize].waits_for.is_some())
                .collect();
            self.stuck
                .sort_by_key(|&lane| Reverse(lanes[lane as usize].cursor.event.time));
            if self.stuck.is_empty() {
                return None;
            }
        }
    }

    fn give_sample(&mut self, sample: Sample, shared: &mut Shared<'_>, events: &mut Vec<Event>) {
        // Go does not mind a sample whose stack is not there, so a strict reader goes on too.
        let stack = self.names.stack(sample.stack).unwrap_or_else(|fault| {
            let offset = shared.order.offset;
            shared.anomalies.add(fault.kind(), offset, 0);
            None
        });
        let thread = Thread {
            m: MId::new(sample.m),
            p: u32::try_from(sample.p).ok().and_then(PId::new),
            g: GId::new(sample.g),
            p_slot: NOBODY,
            g_slot: NOBODY,
        };
        let mut out = Out {
            events,
            anomalies: &mut *shared.anomalies,
            names: &self.names,
            words: shared.words,
            origin: shared.origin,
            order: &mut *shared.position,
        };
        out.give(sample.time, &thread, Body::CpuSample { stack });
    }
}

/// Decodes the next event; what cannot be decoded is an error, or counted with the rest of its batch.
#[inline(always)]
fn decode(cursor: &mut Cursor, clock: Clock, shared: &mut Shared<'_>) -> Result<bool, Error> {
    match cursor.advance(clock) {
        Ok(more) => Ok(more),
        Err(fault) => decode_behind(fault, cursor, clock, shared),
    }
}

#[cold]
#[inline(never)]
fn decode_behind(
    mut fault: Fault,
    cursor: &mut Cursor,
    clock: Clock,
    shared: &mut Shared<'_>,
) -> Result<bool, Error> {
    loop {
        if shared.order.strict {
            return Err(fault.into_error(cursor.offset()));
        }
        shared
            .anomalies
            .add(fault.kind(), cursor.offset(), cursor.rest_of_batch());
        shared.order.damaged = true;
        cursor.skip_batch();
        match cursor.advance(clock) {
            Ok(more) => return Ok(more),
            Err(next) => fault = next,
        }
    }
}

/// Counts that an event is earlier than the one that caused it.
#[cold]
fn went_back(cursor: &Cursor, latest: i64, shared: &mut Shared<'_>) {
    let by = latest.saturating_sub(cursor.event.time);
    shared
        .anomalies
        .add(AnomalyKind::ClockSkew, cursor.offset(), by.unsigned_abs());
}

/// An event that cannot be: an error, or left out and counted.
#[cold]
fn refuse(fault: Fault, shared: &mut Shared<'_>) -> Result<(), Error> {
    let offset = shared.order.offset;
    if shared.order.strict {
        return Err(fault.into_error(offset));
    }
    shared.anomalies.add(fault.kind(), offset, 0);
    shared.order.damaged = true;
    Ok(())
}
