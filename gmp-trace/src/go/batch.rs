//! Batches: the frames that a Go trace consists of, and how reading goes on after a damaged one.

use super::fault::Fault;
use super::numbers::{Bytes, PADDING};
use super::spec;
use crate::anomaly::{Anomalies, AnomalyKind};
use crate::error::Error;
use crate::input::ReadAt;
use crate::native::source::Source;
use std::sync::Arc;

/// Bytes of the longest head of a batch.
const MAX_HEAD_BYTES: usize = 2 + 4 * 10;

/// What the head of a batch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The experiment that the data is of.
    pub(crate) experiment: Option<u8>,
    pub(crate) generation: u64,
    pub(crate) m: u64,
    /// Time of the batch, in units of the trace's clock.
    pub(crate) time: u64,
    size: usize,
    /// Bytes of the head itself.
    length: usize,
}

/// A batch: its head, and its data.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) head: Head,
    /// The type of the first event.
    pub(crate) first: Option<u8>,
    /// The data with [`PADDING`] zero bytes behind; nothing where it was left in the file.
    bytes: Option<Vec<u8>>,
    /// Where its data begins in the file.
    pub(crate) offset: u64,
}

impl Batch {
    /// The data without padding; empty where it was left in the file.
    pub(crate) fn data(&self) -> &[u8] {
        let bytes = self.bytes.as_deref().unwrap_or_default();
        bytes
            .get(..bytes.len().saturating_sub(PADDING))
            .unwrap_or_default()
    }

    /// The data with padding; `None` where it was left in the file.
    pub(crate) fn padded(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// Bytes of the data, wherever it is.
    pub(crate) fn len(&self) -> usize {
        self.head.size
    }
}

/// What comes next in a trace.
#[derive(Debug)]
pub(crate) enum Record {
    Batch(Batch),
    EndOfGeneration,
    /// The file ends where a batch could begin.
    End,
    /// Something is wrong at this offset.
    Fault(Fault, u64),
}

enum Parsed {
    Head(Head),
    EndOfGeneration,
    Short,
    Bad(Fault),
}

/// Reads the head of a batch.
fn head(bytes: &[u8]) -> Parsed {
    match head_numbers(bytes) {
        Ok(parsed) => parsed,
        Err(_) if bytes.len() < MAX_HEAD_BYTES => Parsed::Short,
        Err(fault) => Parsed::Bad(fault),
    }
}

fn head_numbers(bytes: &[u8]) -> Result<Parsed, Fault> {
    let mut reader = Bytes::new(bytes);
    let experiment = match reader.byte() {
        Some(spec::EVENT_BATCH) => None,
        Some(spec::END_OF_GENERATION) => return Ok(Parsed::EndOfGeneration),
        Some(spec::EXPERIMENTAL_BATCH) => match reader.byte() {
            Some(experiment) => Some(experiment),
            None => return Ok(Parsed::Short),
        },
        Some(other) => return Ok(Parsed::Bad(Fault::NotABatch(other))),
        None => return Ok(Parsed::Short),
    };
    let generation = reader.number("the generation of a batch")?;
    let m = reader.number("the thread of a batch")?;
    let time = reader.number("the time of a batch")?;
    let size = reader.number("the size of a batch")?;
    if size > spec::MAX_BATCH_BYTES {
        return Ok(Parsed::Bad(Fault::BatchTooLarge(size)));
    }
    let length = reader.read();
    Ok(Parsed::Head(Head {
        experiment,
        generation,
        m,
        time,
        size: size as usize,
        length,
    }))
}

/// The batches of a file one after the other.
#[derive(Debug)]
pub(crate) struct Batches {
    source: Source,
}

impl Batches {
    /// The batches of `source`, of which the header has been read.
    pub(crate) fn new(source: Source) -> Batches {
        Batches { source }
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The next record. The events of threads are left in the file where they can be read later.
    ///
    /// # Errors
    ///
    /// Only what the source itself says.
    pub(crate) fn next(&mut self) -> Result<Record, Error> {
        let offset = self.source.offset();
        let bytes = self.source.fill(MAX_HEAD_BYTES)?;
        if bytes.is_empty() {
            return Ok(Record::End);
        }
        let head = match head(bytes) {
            Parsed::Head(head) => head,
            Parsed::EndOfGeneration => {
                self.source.consume(1);
                return Ok(Record::EndOfGeneration);
            }
            Parsed::Short => return Ok(Record::Fault(Fault::Truncated("a whole batch"), offset)),
            Parsed::Bad(fault) => return Ok(Record::Fault(fault, offset)),
        };
        self.source.consume(head.length);
        let data_offset = self.source.offset();
        let first = match head.size {
            0 => None,
            _ => self.source.fill(1)?.first().copied(),
        };
        let (whole, bytes) = if self.can_wait(&head, first) {
            (self.source.skip(head.size)? == head.size, None)
        } else {
            let mut bytes = Vec::with_capacity(head.size + PADDING);
            let whole = self.source.take_into(head.size, &mut bytes)?;
            bytes.resize(head.size + PADDING, 0);
            (whole, Some(bytes))
        };
        if !whole {
            return Ok(Record::Fault(Fault::Truncated("a whole batch"), offset));
        }
        Ok(Record::Batch(Batch {
            head,
            first,
            bytes,
            offset: data_offset,
        }))
    }

    /// Whether a batch holds events of a thread, which are not wanted before the generation is read.
    fn can_wait(&self, head: &Head, first: Option<u8>) -> bool {
        self.source.file().is_some()
            && head.experiment.is_none()
            && first.is_some_and(|first| spec::TIMED_ARGS[first as usize] != spec::NOT_TIMED)
    }

    /// The file of the batches that were left there.
    pub(crate) fn file(&self) -> Option<&Arc<dyn ReadAt>> {
        self.source.file()
    }

    /// The generation of the next batch, if that can be told.
    pub(crate) fn peek_generation(&mut self) -> Result<Option<u64>, Error> {
        let bytes = self.source.fill(MAX_HEAD_BYTES)?;
        Ok(match head(bytes) {
            Parsed::Head(head) => Some(head.generation),
            _ => None,
        })
    }

    /// Steps over bytes up to what looks like a batch of generation `now` or later, at least one.
    pub(crate) fn resynchronize(
        &mut self,
        now: Option<u64>,
        anomalies: &mut Anomalies,
    ) -> Result<(), Error> {
        let start = self.source.offset();
        self.source.fill(1)?;
        self.source.consume(1);
        loop {
            let window = 2 * MAX_HEAD_BYTES + spec::MAX_BATCH_BYTES as usize;
            let bytes = self.source.fill(window)?;
            let last = bytes.len() < window;
            let tried = if last {
                bytes.len()
            } else {
                bytes.len() - window + 1
            };
            let found =
                (0..tried).find(|&at| looks_right(bytes.get(at..).unwrap_or_default(), now));
            self.source.consume(found.unwrap_or(tried));
            if found.is_some() || last {
                break;
            }
        }
        anomalies.add(
            AnomalyKind::Resynchronized,
            start,
            self.source.offset() - start,
        );
        Ok(())
    }
}

/// Whether `bytes` begin with a batch and another one behind it, or with the last one.
fn looks_right(bytes: &[u8], now: Option<u64>) -> bool {
    let fits = |generation: u64| match now {
        Some(now) => (now..=now.saturating_add(2)).contains(&generation),
        None => generation > 0 && generation < 1 << 32,
    };
    let behind = match head(bytes) {
        Parsed::Head(head) if fits(head.generation) => bytes.get(head.length + head.size..),
        Parsed::EndOfGeneration => bytes.get(1..),
        _ => None,
    };
    let Some(behind) = behind else { return false };
    match head(behind) {
        Parsed::Head(head) => fits(head.generation),
        Parsed::EndOfGeneration => true,
        Parsed::Short => behind.is_empty(),
        Parsed::Bad(_) => false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::input::Input;
    use crate::varint;

    /// Appends a batch of `data`.
    pub(crate) fn push_batch(out: &mut Vec<u8>, generation: u64, m: u64, time: u64, data: &[u8]) {
        out.push(spec::EVENT_BATCH);
        for number in [generation, m, time, data.len() as u64] {
            varint::push(out, number);
        }
        out.extend_from_slice(data);
    }

    fn batches(bytes: &[u8]) -> Batches {
        let stream = Box::new(std::io::Cursor::new(bytes.to_vec()));
        Batches::new(Source::new(Input::Stream(stream)))
    }

    #[test]
    fn batches_come_in_order_of_the_file() {
        let mut bytes = Vec::new();
        push_batch(&mut bytes, 1, 7, 100, b"abc");
        bytes.push(spec::END_OF_GENERATION);
        push_batch(&mut bytes, 2, u64::MAX, 200, b"");
        let mut batches = batches(&bytes);
        let Record::Batch(first) = batches.next().expect("read") else {
            panic!("no batch")
        };
        assert_eq!(
            (first.data(), first.head.m, first.offset),
            (&b"abc"[..], 7, 5)
        );
        assert_eq!(first.padded().map(<[u8]>::len), Some(3 + PADDING));
        assert!(matches!(batches.next(), Ok(Record::EndOfGeneration)));
        assert_eq!(batches.peek_generation().expect("read"), Some(2));
        assert!(matches!(batches.next(), Ok(Record::Batch(b)) if b.head.m == u64::MAX));
        assert!(matches!(batches.next(), Ok(Record::End)));
    }

    #[test]
    fn damage_is_stepped_over() {
        let mut bytes = b"some output of the program".to_vec();
        let skipped = bytes.len() as u64;
        push_batch(&mut bytes, 3, 7, 100, b"\x01\x02");
        push_batch(&mut bytes, 3, 8, 100, b"\x01\x02");
        let mut batches = batches(&bytes);
        let mut anomalies = Anomalies::default();
        assert!(matches!(
            batches.next(),
            Ok(Record::Fault(Fault::NotABatch(b's'), 0))
        ));
        batches
            .resynchronize(Some(3), &mut anomalies)
            .expect("read");
        assert_eq!(batches.offset(), skipped);
        let amount = anomalies.get(AnomalyKind::Resynchronized).map(|a| a.amount);
        assert_eq!(amount, Some(skipped));
        assert!(matches!(batches.next(), Ok(Record::Batch(b)) if b.head.m == 7));
    }

    #[test]
    fn sizes_are_checked_before_memory_is_taken() {
        let mut bytes = vec![spec::EVENT_BATCH, 1, 1, 1];
        varint::push(&mut bytes, 1 << 63);
        bytes.resize(100, 0);
        let record = batches(&bytes).next().expect("read");
        assert!(matches!(record, Record::Fault(Fault::BatchTooLarge(n), 0) if n == 1 << 63));
        let mut bytes = vec![spec::EVENT_BATCH, 1, 1, 1, 0x85, 0x00];
        bytes.extend_from_slice(b"padds");
        assert!(matches!(batches(&bytes).next(), Ok(Record::Batch(b)) if b.data() == b"padds"));
        for cut in 1..bytes.len() {
            let record = batches(&bytes[..cut]).next().expect("read");
            assert!(
                matches!(record, Record::Fault(Fault::Truncated(_), 0)),
                "{cut}"
            );
        }
    }
}
