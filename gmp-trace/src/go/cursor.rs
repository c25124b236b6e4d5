//! The events of one thread in one generation, decoded one at a time from the bytes of its batches.

use super::batch::Batch;
use super::clock::Clock;
use super::fault::Fault;
use super::generation::ThreadBatches;
use super::numbers::number_at;
use super::spec::{self, MAX_ARGS};
use std::collections::VecDeque;

/// An event as it stands in the file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawEvent {
    pub(crate) kind: u8,
    /// What follows the time; as many as the kind has.
    pub(crate) args: [u64; MAX_ARGS],
    /// In nanoseconds of the trace's clock.
    pub(crate) time: i64,
}

/// Steps through the batches of one thread.
#[derive(Debug)]
pub(crate) struct Cursor {
    batches: VecDeque<Batch>,
    current: Option<Batch>,
    at: usize,
    /// Where the data of the current batch ends.
    end: usize,
    event_at: usize,
    pub(crate) event: RawEvent,
}

impl Cursor {
    pub(crate) fn new(thread: ThreadBatches) -> Cursor {
        Cursor {
            batches: thread.batches,
            current: None,
            at: 0,
            end: 0,
            event_at: 0,
            event: RawEvent::default(),
        }
    }

    /// Where the current event is in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.current.as_ref().map_or(0, |batch| batch.offset) + self.event_at as u64
    }

    /// Bytes of the current batch from the current event on.
    pub(crate) fn rest_of_batch(&self) -> u64 {
        self.end.saturating_sub(self.event_at) as u64
    }

    /// Gives up what is left of the current batch.
    pub(crate) fn skip_batch(&mut self) {
        self.at = self.end;
    }

    /// Decodes the next event; false at the end.
    ///
    /// # Errors
    ///
    /// The bytes are no event. [`Cursor::skip_batch`] lets the next call go on.
    #[inline(always)]
    pub(crate) fn advance(&mut self, clock: Clock) -> Result<bool, Fault> {
        while self.at >= self.end {
            if !self.next_batch(clock) {
                return Ok(false);
            }
        }
        let Some(batch) = &self.current else {
            return Ok(false);
        };
        let bytes = batch.padded();
        let mut at = self.at;
        self.event_at = at;
        let kind = bytes.get(at).copied().unwrap_or(0);
        at += 1;
        let count = spec::TIMED_ARGS[kind as usize];
        if count == spec::NOT_TIMED {
            return Err(untimed(kind));
        }
        let elapsed = number_at(bytes, &mut at);
        let event = &mut self.event;
        let args = &mut event.args;
        if count > 0 {
            args[0] = number_at(bytes, &mut at);
        }
        if count > 1 {
            args[1] = number_at(bytes, &mut at);
        }
        if count > 2 {
            args[2] = number_at(bytes, &mut at);
        }
        if count > 3 {
            args[3] = number_at(bytes, &mut at);
        }
        if at > self.end {
            return Err(Fault::BadNumber("an event"));
        }
        event.kind = kind;
        event.time = event.time.saturating_add(clock.nanos(elapsed));
        self.at = at;
        Ok(true)
    }

    #[cold]
    #[inline(never)]
    fn next_batch(&mut self, clock: Clock) -> bool {
        self.current = self.batches.pop_front();
        let Some(batch) = &self.current else {
            return false;
        };
        self.at = 0;
        self.end = batch.len();
        self.event.time = clock.nanos(batch.head.time);
        true
    }
}

#[cold]
fn untimed(kind: u8) -> Fault {
    match spec::spec(kind) {
        Some(_) => Fault::UntimedEvent(kind),
        None => Fault::UnknownEvent(kind),
    }
}
