//! The events of one thread in one generation, decoded from the bytes of its batches some hundred at
//! a time.

use super::batch::Batch;
use super::chunk::{Chunk, RawEvent, Then};
use super::clock::Clock;
use super::fault::Fault;
use super::generation::ThreadBatches;
use super::numbers::{PADDING, number_at};
use super::spec::{self, MAX_ARGS, MAX_EVENT_BYTES};
use crate::error::Error;
use crate::input::{ReadAt, read_full};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a batch that are read at once.
const WINDOW: usize = 32 << 10;

/// Where the decoder of a generation finds batches that were left in the file.
pub(crate) struct Window {
    file: Option<Arc<dyn ReadAt>>,
    bytes: Vec<u8>,
}

impl Window {
    pub(crate) fn new(file: Option<Arc<dyn ReadAt>>) -> Window {
        Window {
            file,
            bytes: Vec::new(),
        }
    }

    /// Reads `n` bytes of the file at `offset`; they have [`PADDING`] behind.
    fn read(&mut self, offset: u64, n: usize) -> Result<&[u8], Then> {
        self.bytes.clear();
        self.bytes.resize(n + PADDING, 0);
        let Some(file) = &self.file else {
            return Ok(&self.bytes);
        };
        let into = self.bytes.get_mut(..n).unwrap_or_default();
        match read_full(&**file, into, offset) {
            Ok(got) if got == n => Ok(&self.bytes),
            Ok(got) => {
                let fault = Fault::Truncated("the batch that was there before");
                Err(Then::Fault(fault, offset + got as u64, (n - got) as u64))
            }
            Err(error) => Err(Then::Failed(Error::io(offset, error))),
        }
    }
}

/// Steps through the batches of one thread.
#[derive(Debug)]
pub(crate) struct Cursor {
    batches: VecDeque<Batch>,
    current: Option<Batch>,
    /// Where the next event begins in the data of the current batch.
    at: usize,
    /// Time of the event before.
    time: i64,
}

impl Cursor {
    pub(crate) fn new(thread: ThreadBatches) -> Cursor {
        Cursor {
            batches: thread.batches,
            current: None,
            at: 0,
            time: 0,
        }
    }

    /// Bytes of all its batches, of which none was stepped through yet.
    pub(crate) fn bytes(&self) -> usize {
        self.batches.iter().map(Batch::len).sum()
    }

    /// Puts the next events into `chunk`: at least one, unless something is wrong or there is none.
    pub(crate) fn fill(&mut self, chunk: &mut Chunk, clock: Clock, window: &mut Window) {
        chunk.begin(0, 0);
        while let Some(batch) = self.current.take().or_else(|| self.next_batch(clock)) {
            chunk.begin(self.time, batch.offset);
            chunk.then = self.decode_some(&batch, chunk, clock, window);
            if matches!(chunk.then, Then::More) && self.at < batch.len() {
                self.current = Some(batch);
            }
            if chunk.len() > 0 || !matches!(chunk.then, Then::More) {
                return;
            }
        }
        chunk.then = Then::End;
    }

    fn next_batch(&mut self, clock: Clock) -> Option<Batch> {
        let batch = self.batches.pop_front()?;
        self.at = 0;
        self.time = clock.nanos(batch.head.time);
        Some(batch)
    }

    /// Decodes events of `batch` until there are enough or no more.
    fn decode_some(
        &mut self,
        batch: &Batch,
        chunk: &mut Chunk,
        clock: Clock,
        window: &mut Window,
    ) -> Then {
        let end = batch.len();
        while self.at < end && chunk.room() > 0 {
            let base = self.at;
            let decoded = match batch.padded() {
                Some(bytes) => self.decode(bytes, 0, (end, end), chunk, clock),
                None => {
                    let room = chunk.room() * 16 + MAX_EVENT_BYTES;
                    let n = (end - base).min(room.min(WINDOW));
                    let bytes = match window.read(batch.offset + base as u64, n) {
                        Ok(bytes) => bytes,
                        Err(then) => return then,
                    };
                    // An event that may be cut by the window is left to the next one.
                    let last = if base + n < end {
                        n + 1 - MAX_EVENT_BYTES
                    } else {
                        n
                    };
                    self.decode(bytes, base, (last, n), chunk, clock)
                }
            };
            if let Err(fault) = decoded {
                let rest = (end - self.at) as u64;
                return Then::Fault(fault, batch.offset + self.at as u64, rest);
            }
        }
        Then::More
    }

    /// Decodes events of `bytes`, which are those of the batch from `base` on, as long as they begin
    /// before `last`; they end at `end`.
    #[inline(always)]
    fn decode(
        &mut self,
        bytes: &[u8],
        base: usize,
        (last, end): (usize, usize),
        chunk: &mut Chunk,
        clock: Clock,
    ) -> Result<(), Fault> {
        let mut at = self.at - base;
        let mut time = self.time;
        let mut begins = at;
        let mut done = 0;
        let mut result = Ok(());
        let mut rest = chunk.rest();
        while at < last
            && let Some((slot, place)) = rest.next()
        {
            begins = at;
            let kind = bytes.get(at).copied().unwrap_or(0);
            at += 1;
            let count = spec::TIMED_ARGS[kind as usize];
            if count == spec::NOT_TIMED {
                result = Err(untimed(kind));
                break;
            }
            let elapsed = number_at(bytes, &mut at);
            let mut args = [0; MAX_ARGS];
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
            if at > end {
                result = Err(Fault::BadNumber("an event"));
                break;
            }
            let before = time;
            time = time.saturating_add(clock.nanos(elapsed));
            // Within a batch, so there are no more than 64 KiB before it.
            *place = (base + begins) as u16;
            let event = RawEvent { time, args, kind };
            rest.put(slot, &event, time.wrapping_sub(before) as u64);
            done += 1;
            begins = at;
        }
        chunk.add(done);
        self.at = base + begins;
        self.time = time;
        result
    }
}

#[cold]
fn untimed(kind: u8) -> Fault {
    match spec::spec(kind) {
        Some(_) => Fault::UntimedEvent(kind),
        None => Fault::UnknownEvent(kind),
    }
}
