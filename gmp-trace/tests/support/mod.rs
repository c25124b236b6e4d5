//! What several tests need: reading everything, and taking a trace apart by its blocks.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test
#![allow(dead_code)] // each test uses its part

use std::io::Cursor;

use gmp_trace::anomaly::{Anomalies, AnomalyKind};
use gmp_trace::info::TraceInfo;
use gmp_trace::tables::Tables;
use gmp_trace::{Error, Event, Options};

/// All that a reader gives.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) events: Vec<Event>,
    pub(crate) tables: Tables,
    pub(crate) anomalies: Anomalies,
    pub(crate) info: TraceInfo,
}

impl Read {
    /// Kinds of anomalies that were met, with their counts.
    pub(crate) fn kinds(&self) -> Vec<(AnomalyKind, u64)> {
        self.anomalies.iter().map(|a| (a.kind, a.count)).collect()
    }
}

/// What reading a small trace may take, whatever is wrong with it.
const MEMORY: u64 = 64 << 20;

/// Reads `bytes` to the end, lenient.
pub(crate) fn read(bytes: &[u8]) -> Result<Read, Error> {
    read_with(bytes, Options::new())
}

pub(crate) fn read_with(bytes: &[u8], options: Options) -> Result<Read, Error> {
    let mut read = None;
    let memory = allocation_counter::measure(|| read = Some(read_all(bytes, options)));
    let whole = bytes.len() as u64;
    let most = memory.bytes_max;
    assert!((whole..MEMORY).contains(&most), "{most} bytes for {whole}");
    read.unwrap()
}

fn read_all(bytes: &[u8], options: Options) -> Result<Read, Error> {
    let mut reader = options.open(Cursor::new(bytes.to_vec()))?;
    let mut events = Vec::new();
    reader.for_each_event(|event, _| events.push(*event))?;
    Ok(Read {
        events,
        tables: reader.tables().clone(),
        anomalies: reader.anomalies().clone(),
        info: reader.info().clone(),
    })
}

/// Where the blocks of `bytes` are, by the capacity in their headers.
pub(crate) fn blocks(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut blocks = Vec::new();
    let mut at = gmp_trace::header::HEADER_BYTES;
    while at + gmp_trace::write::BLOCK_HEADER_BYTES <= bytes.len() {
        let capacity = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        assert!(
            capacity >= gmp_trace::write::BLOCK_HEADER_BYTES,
            "no block at {at}"
        );
        blocks.push(at..(at + capacity).min(bytes.len()));
        at += capacity;
    }
    blocks
}

/// What stands in the block at `block`: its kind as a number.
pub(crate) fn kind_of(bytes: &[u8], block: &std::ops::Range<usize>) -> u8 {
    bytes[block.start + 12]
}
