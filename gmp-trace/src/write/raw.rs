//! Blocks whose records are given as bytes: what the text form and packing write.

use crate::block::{BLOCK_HEADER_BYTES, BlockKind, field, flag};
use crate::id::{GId, MId, PId};
use crate::write::encoder::BlockHead;
use crate::write::encoder::fill_open_part;
use crate::write::seal::finish_block;

/// What a block of given records is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawBlock<'a> {
    pub(crate) kind: BlockKind,
    pub(crate) generation: u32,
    pub(crate) sequence: u32,
    pub(crate) m: Option<MId>,
    pub(crate) base_time: u64,
    pub(crate) g: Option<GId>,
    pub(crate) p: Option<PId>,
    /// What is stored.
    pub(crate) stored: &'a [u8],
    /// Bytes that `stored` was compressed from, if it is compressed.
    pub(crate) raw_length: Option<usize>,
    /// How many events are in it; `None` for a block that is left open.
    pub(crate) events: Option<u32>,
}

impl RawBlock<'_> {
    /// The bytes of the block, with its checksum unless it is left open.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_HEADER_BYTES];
        bytes.extend_from_slice(self.stored);
        let capacity = bytes.len() as u32;
        let head = BlockHead {
            kind: self.kind,
            generation: self.generation,
            sequence: self.sequence,
            m: self.m,
            base_time: self.base_time,
            g: self.g,
            p: self.p,
        };
        let Some(header) = bytes.first_chunk_mut::<BLOCK_HEADER_BYTES>() else {
            return bytes;
        };
        fill_open_part(header, &head, capacity);
        if let Some(events) = self.events {
            let length = self.stored.len() as u32;
            let raw_length = self.raw_length.map_or(length, |raw| raw as u32);
            let compressed = if self.raw_length.is_some() {
                flag::COMPRESSED
            } else {
                0
            };
            header[field::LENGTH].copy_from_slice(&length.to_le_bytes());
            header[field::RAW_LENGTH].copy_from_slice(&raw_length.to_le_bytes());
            header[field::EVENTS].copy_from_slice(&events.to_le_bytes());
            header[field::FLAGS].copy_from_slice(&(flag::SEALED | compressed).to_le_bytes());
            finish_block(&mut bytes);
        }
        bytes
    }
}
