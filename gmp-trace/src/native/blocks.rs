//! From the source to blocks: checksums, compression, finding the next block after damage.
//!
//! What is wrong with a block is counted here; what its records say is nobody's business here.

use std::io::Read;

use crate::anomaly::{Anomalies, AnomalyKind};
use crate::block::{BLOCK_HEADER_BYTES, BlockKind, MARKER, field, flag, seal_checksum};
use crate::error::Error;
use crate::header::{HEADER_BYTES, HEADER_COPY_BYTES, MAGIC};
use crate::id::{GId, MId, PId};
use crate::input::{Input, ReadAt, read_full};
use crate::limits::{
    MAX_BLOCK_BYTES, MAX_FIRST_BLOCK, MAX_INFLATED_BYTES, MAX_INFLATION, MAX_PAYLOAD_BYTES,
};
use crate::native::parse::{self, RawBlock, RawHeader};
use crate::native::source::{Source, WINDOW};
use crate::spec::VERSION;
use std::sync::Arc;

/// One block, its payload no longer compressed.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Where it begins in the file.
    pub(crate) offset: u64,
    pub(crate) kind: BlockKind,
    pub(crate) generation: u32,
    pub(crate) sequence: u32,
    pub(crate) m: Option<MId>,
    pub(crate) base_time: u64,
    pub(crate) g: Option<GId>,
    pub(crate) p: Option<PId>,
    /// Empty where it was left in the file.
    pub(crate) payload: Vec<u8>,
    /// Bytes of the payload that were left in the file, behind the header.
    pub(crate) left: usize,
    pub(crate) state: BlockState,
}

/// How far a block can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    /// Whole, with so many events.
    Whole {
        /// As its header says.
        events: u32,
    },
    /// Not closed, or cut: its payload ends at the last whole record.
    Open,
    /// Damaged: the payload was thrown away.
    Damaged,
}

/// Gives the blocks of a trace in the order of the file.
#[derive(Debug)]
pub(crate) struct Blocks {
    source: Source,
    arities: Box<[u8; 256]>,
    /// Bytes that were skipped in search of a block, not counted yet.
    skipped: Skipped,
    /// Bytes of all compressed payloads so far, as they were stored and as they were before.
    stored: usize,
    inflated: usize,
}

#[derive(Debug, Default)]
struct Skipped {
    at: u64,
    bytes: u64,
    /// Whether one of them was not zero: space that was never used is no damage.
    damage: bool,
}

/// What the file header says, once it was found good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceHead {
    pub(crate) version: (u16, u16),
    pub(crate) ticks_per_second: u64,
    pub(crate) process_id: u64,
    /// Time zero, if it is known.
    pub(crate) start: Option<u64>,
}

impl Blocks {
    /// Reads the file header.
    pub(crate) fn open(
        source: Input,
        anomalies: &mut Anomalies,
    ) -> Result<(Blocks, TraceHead), Error> {
        let mut source = Source::new(source);
        let bytes = source.fill(HEADER_BYTES)?;
        let header = choose_header(bytes, anomalies)?;
        let first = header.first_block as usize;
        if !(HEADER_BYTES..=MAX_FIRST_BLOCK).contains(&first) {
            let expected = format_args!("the first block at {HEADER_BYTES} to {MAX_FIRST_BLOCK}");
            return Err(Error::corrupt(36, expected, first));
        }
        if source.skip(first)? < first {
            anomalies.add(AnomalyKind::Truncated, source.offset(), 0);
        }
        let head = TraceHead {
            version: header.version,
            ticks_per_second: header.ticks_per_second,
            process_id: header.process_id,
            start: Some(header.start).filter(|start| *start != 0),
        };
        let arities = Box::new(header.arities);
        Ok((
            Blocks {
                source,
                arities,
                skipped: Skipped::default(),
                stored: 0,
                inflated: 0,
            },
            head,
        ))
    }

    /// How many numbers follow each head in this trace.
    pub(crate) fn arities(&self) -> &[u8; 256] {
        &self.arities
    }

    /// Bytes that were read.
    pub(crate) fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The next block; `None` at the end of the file.
    pub(crate) fn next(&mut self, anomalies: &mut Anomalies) -> Result<Option<Block>, Error> {
        loop {
            let bytes = self.source.fill(BLOCK_HEADER_BYTES)?;
            if bytes.len() < BLOCK_HEADER_BYTES {
                let (length, zero) = (bytes.len(), bytes.iter().all(|b| *b == 0));
                self.count_skipped(anomalies);
                if !zero {
                    let missing = (BLOCK_HEADER_BYTES - length) as u64;
                    anomalies.add(AnomalyKind::Truncated, self.source.offset(), missing);
                }
                self.source.consume(length);
                return Ok(None);
            }
            let Some(header) = parse::block_header(bytes).filter(has_possible_size) else {
                self.skip_to_marker()?;
                continue;
            };
            self.count_skipped(anomalies);
            if let Some(block) = self.block(&header, anomalies)? {
                return Ok(Some(block));
            }
        }
    }

    /// Steps over at least one byte, to where the next marker may be.
    fn skip_to_marker(&mut self) -> Result<(), Error> {
        let bytes = self.source.fill(WINDOW)?;
        let found = bytes
            .windows(MARKER.len())
            .skip(1)
            .position(|w| w == MARKER)
            .map(|at| at + 1);
        let step = found.unwrap_or_else(|| bytes.len().saturating_sub(MARKER.len() - 1).max(1));
        let damage = bytes[..step.min(bytes.len())].iter().any(|b| *b != 0);
        if self.skipped.bytes == 0 {
            self.skipped.at = self.source.offset();
        }
        self.skipped.bytes += step as u64;
        self.skipped.damage |= damage;
        self.source.consume(step);
        Ok(())
    }

    fn count_skipped(&mut self, anomalies: &mut Anomalies) {
        let skipped = std::mem::take(&mut self.skipped);
        if skipped.damage {
            anomalies.add(AnomalyKind::Resynchronized, skipped.at, skipped.bytes);
        }
    }

    /// Reads the block whose header is next; `None` for one of a kind that this version lacks.
    fn block(
        &mut self,
        header: &RawBlock,
        anomalies: &mut Anomalies,
    ) -> Result<Option<Block>, Error> {
        let offset = self.source.offset();
        let seal = {
            let bytes = self.source.fill(BLOCK_HEADER_BYTES)?;
            let mut seal = [0; field::SEAL.end - field::SEAL.start];
            seal.copy_from_slice(&bytes[field::SEAL]);
            seal
        };
        self.source.consume(BLOCK_HEADER_BYTES);
        let room = header.capacity as usize - BLOCK_HEADER_BYTES;
        let sealed = header.flags & flag::SEALED != 0;
        let stored = if sealed {
            (header.length as usize).min(room)
        } else {
            room
        };
        let payload = self.source.take(stored)?;
        let missing = stored - payload.len();
        self.source.skip(room - stored)?;
        let Some(kind) = BlockKind::ALL
            .into_iter()
            .find(|kind| *kind as u8 == header.kind)
        else {
            anomalies.add(AnomalyKind::UnknownKind, offset, 0);
            return Ok(None);
        };
        let mut block = Block {
            offset,
            kind,
            generation: header.generation,
            sequence: header.sequence,
            m: MId::new(header.m),
            base_time: header.base_time,
            g: GId::new(header.g),
            p: PId::new(header.p),
            payload,
            left: 0,
            state: BlockState::Open,
        };
        let compressed = header.flags & flag::COMPRESSED != 0;
        if compressed {
            self.stored = self.stored.saturating_add(block.payload.len());
        }
        let room = self.room_to_inflate();
        block.state = block.judge(header, (&seal, missing), room, anomalies);
        if block.state == BlockState::Damaged {
            block.payload = Vec::new();
        }
        if compressed {
            self.inflated = self.inflated.saturating_add(block.payload.len());
        }
        if self.leaves(header, &block) {
            block.left = block.payload.len();
            block.payload = Vec::new();
        }
        Ok(Some(block))
    }
}

impl Blocks {
    /// How large the next payload that was compressed may be, so that a few bytes cannot take much
    /// memory.
    fn room_to_inflate(&self) -> usize {
        let most = self.stored.saturating_mul(MAX_INFLATION);
        let most = most.saturating_add(MAX_INFLATED_BYTES);
        most.saturating_sub(self.inflated).min(MAX_PAYLOAD_BYTES)
    }

    /// Whether the payload of a block that was found whole is read again when its turn comes: the
    /// events of a file are not held.
    fn leaves(&self, header: &RawBlock, block: &Block) -> bool {
        self.source.file().is_some()
            && matches!(block.kind, BlockKind::Events | BlockKind::Samples)
            && matches!(block.state, BlockState::Whole { .. })
            && header.flags & flag::COMPRESSED == 0
    }

    /// The file of payloads that were left there.
    pub(crate) fn file(&self) -> Option<&Arc<dyn ReadAt>> {
        self.source.file()
    }
}

fn has_possible_size(header: &RawBlock) -> bool {
    (BLOCK_HEADER_BYTES..=MAX_BLOCK_BYTES).contains(&(header.capacity as usize))
}

impl Block {
    /// The payload, which `file` has where it was left there. Of a file that has become shorter it
    /// may be less.
    pub(crate) fn payload(&mut self, file: Option<&dyn ReadAt>) -> std::io::Result<Vec<u8>> {
        let mut payload = std::mem::take(&mut self.payload);
        if let Some(file) = file.filter(|_| self.left > 0) {
            payload.resize(self.left, 0);
            let begin = self.offset + BLOCK_HEADER_BYTES as u64;
            let got = read_full(file, &mut payload, begin)?;
            payload.truncate(got);
        }
        Ok(payload)
    }

    /// How far the block can be believed; a compressed payload is replaced by what it was made of, for
    /// which there are `room` bytes.
    fn judge(
        &mut self,
        header: &RawBlock,
        (seal, missing): (&[u8], usize),
        room: usize,
        anomalies: &mut Anomalies,
    ) -> BlockState {
        let events = u64::from(header.events);
        if missing > 0 {
            anomalies.add(AnomalyKind::Truncated, self.offset, missing as u64);
        }
        if header.flags & flag::SEALED == 0 {
            if header.flags != 0 {
                anomalies.add(AnomalyKind::BadChecksum, self.offset, events);
                return BlockState::Damaged;
            }
            anomalies.add(AnomalyKind::UnsealedBlock, self.offset, 0);
            return BlockState::Open;
        }
        let damaged = if header.flags & !flag::KNOWN != 0
            || header.length as usize > header.capacity as usize - BLOCK_HEADER_BYTES
        {
            true
        } else if missing > 0 {
            false
        } else if header.flags & flag::CHECKED == 0 {
            anomalies.add(AnomalyKind::UncheckedBlock, self.offset, 0);
            false
        } else {
            seal_checksum(seal, &self.payload) != header.seal_checksum
        };
        if damaged {
            anomalies.add(AnomalyKind::BadChecksum, self.offset, events);
            return BlockState::Damaged;
        }
        if header.flags & flag::COMPRESSED != 0 {
            let inflated = inflate(&self.payload, room.min(header.raw_length as usize));
            let whole = inflated.len() == header.raw_length as usize;
            self.payload = inflated;
            if !whole && missing == 0 {
                anomalies.add(AnomalyKind::BadChecksum, self.offset, events);
                return BlockState::Damaged;
            }
        }
        if missing > 0 {
            BlockState::Open
        } else {
            BlockState::Whole {
                events: header.events,
            }
        }
    }
}

/// What `bytes` was compressed from, up to a byte more than `length`; less where it is damaged.
fn inflate(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    // One byte more than expected is enough to see that the length is wrong. An error leaves what
    // was inflated before it, which the caller finds too short.
    let mut limited = flate2::read::DeflateDecoder::new(bytes).take(length as u64 + 1);
    if limited.read_to_end(&mut out).is_err() {
        out.truncate(length);
    }
    out
}

/// The better copy of the header.
fn choose_header(bytes: &[u8], anomalies: &mut Anomalies) -> Result<RawHeader, Error> {
    if bytes.is_empty() {
        return Err(Error::not_a_trace("an empty file"));
    }
    let first = parse::file_header(bytes);
    let second = bytes.get(HEADER_COPY_BYTES..).and_then(parse::file_header);
    let both =
        first.as_ref().is_some_and(|h| h.intact) && second.as_ref().is_some_and(|h| h.intact);
    let whole = bytes.len() >= HEADER_BYTES;
    let seen = first.as_ref().or(second.as_ref()).map(|h| h.version);
    let intact = [first, second]
        .into_iter()
        .flatten()
        .find(|header| header.intact);
    let version = intact.as_ref().map(|h| h.version).or(seen);
    if let Some((major, minor)) = version.filter(|version| version.0 != VERSION.0) {
        let known = format_args!("version {}", VERSION.0);
        return Err(Error::unsupported(
            format_args!("version {major}.{minor}"),
            known,
        ));
    }
    let Some(header) = intact else {
        let begins = &bytes[..bytes.len().min(MAGIC.len())];
        return Err(if seen.is_some() {
            Error::corrupt(
                0,
                "a header with its checksum",
                "two copies with wrong ones",
            )
        } else if !MAGIC.starts_with(begins) {
            Error::not_a_trace(format_args!("a file that begins with {begins:02x?}"))
        } else {
            let expected = format_args!("a header of {HEADER_BYTES} bytes");
            Error::truncated(0, expected, format_args!("{} bytes", bytes.len()))
        });
    };
    if !both && whole {
        anomalies.add(AnomalyKind::DamagedHeader, 0, 0);
    }
    check_header(&header)?;
    Ok(header)
}

/// Refuses a header that its writer cannot have meant.
fn check_header(header: &RawHeader) -> Result<(), Error> {
    if header.ticks_per_second == 0 {
        return Err(Error::corrupt(
            16,
            "a clock with at least one unit a second",
            0,
        ));
    }
    for (byte, head) in crate::spec::HEADS.iter().enumerate() {
        let (Some(head), declared) = (head, header.arities[byte]) else {
            continue;
        };
        let fits = match head.arity {
            crate::spec::ARITY_LENGTH => declared == crate::spec::ARITY_LENGTH,
            known => (known..crate::spec::ARITY_UNDEFINED).contains(&declared),
        };
        if !fits {
            let expected = format_args!("{} arguments of {:?}", head.arity, head.kind);
            return Err(Error::corrupt(48 + byte as u64 / 2, expected, declared));
        }
    }
    Ok(())
}
