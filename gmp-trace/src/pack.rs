//! Making a trace smaller without changing what it says: blocks cut to their used size and
//! compressed.

use std::io::{self, Read, Write};

use crate::anomaly::Anomalies;
use crate::error::Error;
use crate::header::{HEADER_BYTES, HeaderInfo, encode_with};
use crate::input::Input;
use crate::native::blocks::{Block, BlockState, Blocks};
use crate::native::parse::{self, Stop};
use crate::spec::HEADS;
use crate::write::raw::RawBlock;

/// What packing did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Bytes that were read.
    pub bytes_in: u64,
    /// Bytes that were written.
    pub bytes_out: u64,
    /// Blocks that were written.
    pub blocks: u64,
    /// What was wrong with the blocks that were read. A damaged block is left out (a reader then
    /// finds that it is missing), one that was not closed is closed after its last whole record.
    pub anomalies: Anomalies,
}

/// Writes the trace in `source` to `sink`, packed. What was packed before stays as it is.
///
/// # Errors
///
/// When `source` is no trace or cannot be read, or `sink` cannot be written to.
pub fn pack(source: impl Read + Send + 'static, sink: &mut impl Write) -> Result<Packed, Error> {
    let mut anomalies = Anomalies::default();
    let (mut blocks, head) = Blocks::open(Input::Stream(Box::new(source)), &mut anomalies)?;
    let info = HeaderInfo {
        version: head.version,
        process_id: head.process_id,
        start: head.start.unwrap_or(0),
        ..HeaderInfo::new(head.ticks_per_second)
    };
    let mut written = HEADER_BYTES as u64;
    let mut count = 0;
    let failed = |written: u64| move |error: io::Error| Error::io(written, error);
    sink.write_all(&encode_with(&info, blocks.arities()))
        .map_err(failed(0))?;
    while let Some(block) = blocks.next(&mut anomalies)? {
        if block.state == BlockState::Damaged {
            continue;
        }
        let bytes = packed(&block, blocks.arities());
        sink.write_all(&bytes).map_err(failed(written))?;
        written += bytes.len() as u64;
        count += 1;
    }
    sink.flush().map_err(failed(written))?;
    Ok(Packed {
        bytes_in: blocks.offset(),
        bytes_out: written,
        blocks: count,
        anomalies,
    })
}

/// The bytes of `block`, compressed where that makes them fewer.
fn packed(block: &Block, arities: &[u8; 256]) -> Vec<u8> {
    let (length, events) = match block.state {
        BlockState::Whole { events } => (block.payload.len(), events),
        BlockState::Open | BlockState::Damaged => whole_records(&block.payload, arities),
    };
    let payload = block.payload.get(..length).unwrap_or_default();
    let compressed = deflate(payload);
    let smaller = compressed
        .as_deref()
        .filter(|bytes| bytes.len() < payload.len());
    let raw = RawBlock {
        kind: block.kind,
        generation: block.generation,
        sequence: block.sequence,
        m: block.m,
        base_time: block.base_time,
        g: block.g,
        p: block.p,
        stored: smaller.unwrap_or(payload),
        raw_length: smaller.map(|_| payload.len()),
        events: Some(events),
    };
    raw.to_bytes()
}

/// How many bytes the whole records at the beginning of `payload` take, and how many events they are.
fn whole_records(payload: &[u8], arities: &[u8; 256]) -> (usize, u32) {
    let (mut rest, mut args, mut events) = (payload, [0; 16], 0u32);
    loop {
        match parse::record(rest, arities, &mut args) {
            Ok(record) => {
                rest = record.rest;
                let of_head = HEADS[record.head as usize]
                    .as_ref()
                    .map_or(1, |head| head.events);
                events = events.saturating_add(u32::from(of_head));
            }
            // What is bad stays: the reader of the packed trace is to find it.
            Err(Stop::Bad) => return (payload.len(), events),
            Err(Stop::End | Stop::Cut) => return (payload.len() - rest.len(), events),
        }
    }
}

fn deflate(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder =
        flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}
