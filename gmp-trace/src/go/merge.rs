//! One generation in the order of cause: takes the events of all threads, the earliest that can come
//! next first.
//!
//! A thread whose next event has to wait is put aside under what it waits for, and comes back when
//! that has happened; it is not looked at in between.

use std::cmp::Reverse;
use std::sync::Arc;

use super::chunk::{Chunk, Then};
use super::cursor::Cursor;
use super::fault::Fault;
use super::feed::Feed;
use super::generation::{Generation, Names, Sample};
use super::order::{Order, Out, Step};
use super::states::Key;
use super::words::Words;
use crate::anomaly::{Anomalies, AnomalyKind};
use crate::error::Error;
use crate::event::{Body, Event};
use crate::id::{GId, MId, PId};
use crate::input::ReadAt;
use crate::time::Nanos;
use crate::tournament::{ABSENT, Tournament};

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
    /// Events that were decoded, and the next one of them.
    chunk: Chunk,
    next: usize,
    /// Time of the next event.
    time: i64,
    /// Slot of the thread.
    thread: u32,
    waits_for: Option<Key>,
}

impl Lane {
    /// Steps over an event, where there is another one decoded.
    fn step(&mut self) -> bool {
        self.next += 1;
        let time = self.chunk.time(self.next, self.time);
        self.time = time.unwrap_or(self.time);
        time.is_some()
    }
}

/// A generation that is being given.
#[derive(Debug)]
pub(crate) struct Merge {
    lanes: Vec<Lane>,
    feed: Feed,
    /// The lane that goes on, and up to when it can without a look at the others.
    current: Option<u32>,
    limit: u64,
    /// Lanes that could go on, by the time of their event; that of the one that goes on is an earlier
    /// one.
    ready: Tournament,
    /// Lanes that wait, in the order of their time; made only when nothing else can go on.
    stuck: Vec<u32>,
    samples: std::vec::IntoIter<Sample>,
    names: Names,
    /// Where in the file the generation begins.
    offset: u64,
}

impl Merge {
    /// Makes ready to give `generation`, whose events may be in `file`; with a thread that decodes
    /// ahead, where `threads` allows that.
    ///
    /// # Errors
    ///
    /// A strict reader finds that the first event of a thread is none.
    pub(crate) fn new(
        generation: Generation,
        file: Option<Arc<dyn ReadAt>>,
        threads: bool,
        shared: &mut Shared<'_>,
    ) -> Result<Merge, Error> {
        let of_thread = |m| shared.order.thread(m);
        let numbers = generation.threads.iter().map(|thread| thread.m);
        let slots: Vec<u32> = numbers.map(of_thread).collect();
        let cursors = generation.threads.into_iter().map(Cursor::new).collect();
        let (feed, chunks) = Feed::new(cursors, generation.clock, file, threads);
        let lanes = slots.into_iter().zip(chunks).map(|(thread, chunk)| Lane {
            chunk,
            next: 0,
            time: 0,
            thread,
            waits_for: None,
        });
        let mut merge = Merge {
            ready: Tournament::new(lanes.len()),
            lanes: lanes.collect(),
            feed,
            current: None,
            limit: 0,
            stuck: Vec::new(),
            samples: generation.samples.into_iter(),
            names: generation.names,
            offset: generation.offset,
        };
        for lane in 0..merge.lanes.len() as u32 {
            if merge.refill(lane, shared)? {
                merge.make_ready(lane);
            }
        }
        Ok(merge)
    }

    fn make_ready(&mut self, lane: u32) {
        if let Some(place) = self.lanes.get(lane as usize) {
            self.ready.set(lane, key(place.time));
        }
    }

    /// `lane` does not go on.
    fn stop(&mut self, lane: u32) {
        self.ready.set(lane, ABSENT);
        self.current = None;
    }

    /// Gets more events for `lane`, which has used its own; returns false where there are none.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, lane: u32, shared: &mut Shared<'_>) -> Result<bool, Error> {
        let Some(place) = self.lanes.get_mut(lane as usize) else {
            return Ok(false);
        };
        loop {
            match std::mem::replace(&mut place.chunk.then, Then::More) {
                Then::More => {}
                Then::End => return Ok(false),
                Then::Failed(error) => return Err(error),
                Then::Fault(fault, offset, _) if shared.order.strict => {
                    return Err(fault.into_error(offset));
                }
                Then::Fault(fault, offset, rest) => {
                    shared.anomalies.add(fault.kind(), offset, rest);
                    shared.order.damaged = true;
                }
            }
            self.feed.next(lane, &mut place.chunk);
            place.next = 0;
            if let Some(time) = place.chunk.first_time() {
                place.time = time;
                return Ok(true);
            }
        }
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
            let Some(lane) = self.current.or_else(|| self.choose()) else {
                if shared.order.waits.len() > 0 {
                    self.force(shared, events)?;
                } else if let Some(sample) = self.samples.next() {
                    self.give_sample(sample, shared, events);
                } else {
                    break;
                }
                continue;
            };
            let time = self.lanes.get(lane as usize).map_or(0, |place| place.time);
            let time = self.limit.min(key(time));
            let sample = self.samples.as_slice().first().copied();
            match sample.filter(|sample| key(sample.time) < time) {
                Some(sample) => {
                    self.samples.next();
                    self.give_sample(sample, shared, events);
                }
                None => self.run(lane, shared, events)?,
            }
        }
        Ok(())
    }

    /// The lane with the earliest event goes on. Often another one is earlier than its second event, so
    /// only then the others are looked at.
    #[inline(always)]
    fn choose(&mut self) -> Option<u32> {
        self.current = self.ready.first();
        let lane = self.current?;
        self.limit = self
            .lanes
            .get(lane as usize)
            .map_or(0, |place| key(place.time));
        Some(lane)
    }

    /// Gives events of `lane` until another one or a sample is earlier, it has to wait, it ends, or
    /// there are enough.
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
            current,
            limit,
            ..
        } = self;
        let Some(place) = lanes.get_mut(lane as usize) else {
            return Ok(());
        };
        let first_sample = samples.as_slice().first();
        let first_sample = first_sample.map_or(ABSENT, |sample| key(sample.time));
        let mut stop = first_sample.min(*limit);
        let order = &mut *shared.order;
        let mut latest = *shared.latest;
        let mut time = place.time;
        let mut out = Out {
            events,
            anomalies: &mut *shared.anomalies,
            names,
            words: shared.words,
            origin: shared.origin,
            order: &mut *shared.position,
            chunk: &place.chunk,
            number: place.next,
        };
        let used_up = loop {
            let Some(packed) = place.chunk.get(out.number) else {
                break true;
            };
            if key(time) > stop {
                ready.set(lane, key(time));
                // Of equal times that of the lane that goes on comes first, as in Go's reader.
                if ready.first_time() < key(time) {
                    *current = None;
                    break false;
                }
                *limit = ready.first_other(lane);
                stop = first_sample.min(*limit);
                if key(time) > stop {
                    break false;
                }
            }
            if out.events.len() >= BATCH {
                break false;
            }
            let verdict = match place.chunk.wide(packed) {
                None => order.advance(&packed.event(time), place.thread, false, &mut out),
                Some(event) => order.advance_wide(event, place.thread, &mut out),
            };
            match verdict {
                Ok(Step::Done) => {
                    if time >= latest {
                        latest = time;
                    } else {
                        went_back(latest.saturating_sub(time), &mut out);
                    }
                }
                Ok(Step::Wait(key)) => {
                    place.waits_for = Some(key);
                    order.wait(key, lane);
                    ready.set(lane, ABSENT);
                    *current = None;
                    break false;
                }
                Err(fault) => refuse(fault, order, &mut out)?,
            }
            out.number += 1;
            let next = place.chunk.time(out.number, time);
            time = next.unwrap_or(time);
            if next.is_none() || !order.waits.woken.is_empty() {
                break next.is_none();
            }
        };
        (place.next, place.time) = (out.number, time);
        *shared.latest = latest;
        if used_up && !self.refill(lane, shared)? {
            self.stop(lane);
        }
        if !shared.order.waits.woken.is_empty() {
            if self.current.take().is_some() {
                self.make_ready(lane);
            }
            self.take_woken(shared);
        }
        Ok(())
    }

    fn take_woken(&mut self, shared: &mut Shared<'_>) {
        while let Some(lane) = shared.order.waits.woken.pop() {
            if let Some(place) = self.lanes.get_mut(lane as usize) {
                place.waits_for = None;
            }
            self.make_ready(lane);
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
        let offset = place.chunk.offset(place.next);
        if shared.order.strict {
            let waiting = shared.order.waits.len();
            return Err(Fault::Stuck { waiting }.into_error(offset));
        }
        if let Some(key) = place.waits_for.take() {
            shared.order.end_wait(key, lane);
        }
        shared.anomalies.add(AnomalyKind::OrderForced, offset, 0);
        shared.order.damaged = true;
        let Some(event) = place.chunk.event(place.next, place.time) else {
            return Ok(());
        };
        let mut out = Out {
            events,
            anomalies: &mut *shared.anomalies,
            names: &self.names,
            words: shared.words,
            origin: shared.origin,
            order: &mut *shared.position,
            chunk: &place.chunk,
            number: place.next,
        };
        let verdict = shared.order.advance(&event, place.thread, true, &mut out);
        if let Err(fault) = verdict {
            refuse(fault, shared.order, &mut out)?;
        }
        if place.step() || self.refill(lane, shared)? {
            self.make_ready(lane);
        }
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
                .sort_by_key(|&lane| Reverse(lanes[lane as usize].time));
            if self.stuck.is_empty() {
                return None;
            }
        }
    }

    fn give_sample(&mut self, sample: Sample, shared: &mut Shared<'_>, events: &mut Vec<Event>) {
        // Go does not mind a sample whose stack is not there, so a strict reader goes on too.
        let stack = self.names.stack(sample.stack).unwrap_or_else(|fault| {
            shared.anomalies.add(fault.kind(), self.offset, 0);
            None
        });
        events.push(Event {
            time: Nanos(sample.time.saturating_sub(shared.origin)),
            order: *shared.position,
            m: MId::new(sample.m),
            p: u32::try_from(sample.p).ok().and_then(PId::new),
            g: GId::new(sample.g),
            body: Body::CpuSample { stack },
        });
        *shared.position += 1;
    }
}

/// `time` among those of lanes.
#[inline(always)]
fn key(time: i64) -> u64 {
    // In order, and never that of a lane which takes no part.
    ((time as u64) ^ (1 << 63)).min(ABSENT - 1)
}

/// Counts that an event is earlier than the one that caused it, by so much.
#[cold]
fn went_back(by: i64, out: &mut Out<'_>) {
    let offset = out.offset();
    out.anomalies
        .add(AnomalyKind::ClockSkew, offset, by.unsigned_abs());
}

/// An event that cannot be: an error, or left out and counted.
#[cold]
fn refuse(fault: Fault, order: &mut Order, out: &mut Out<'_>) -> Result<(), Error> {
    if order.strict {
        return Err(fault.into_error(out.offset()));
    }
    let offset = out.offset();
    out.anomalies.add(fault.kind(), offset, 0);
    order.damaged = true;
    Ok(())
}
