//! What is done to a block after its last record: checksum, cutting to size.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::block::{BLOCK_HEADER_BYTES, field, flag, seal_checksum};

/// Writes the checksum of the sealed block in `chunk`; on any thread, once nobody writes to it any
/// more. Returns false, and changes nothing, where `chunk` holds no sealed block.
pub fn finish_block(chunk: &mut [u8]) -> bool {
    let Some((header, rest)) = chunk.split_first_chunk_mut::<BLOCK_HEADER_BYTES>() else {
        return false;
    };
    let flags = u32_at(header, field::FLAGS);
    let Some(payload) = rest.get(..u32_at(header, field::LENGTH) as usize) else {
        return false;
    };
    if flags & flag::SEALED == 0 {
        return false;
    }
    let flags = (flags | flag::CHECKED).to_le_bytes();
    let mut seal = [0; field::SEAL.end - field::SEAL.start];
    seal.copy_from_slice(&header[field::SEAL]);
    seal[..flags.len()].copy_from_slice(&flags);
    let checksum = seal_checksum(&seal, payload);
    header[field::SEAL_CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    // ordering: Release for this thread's own stores; pairs with nothing but the end of the process:
    // a block that is marked as checked has its checksum.
    compiler_fence(Ordering::Release);
    header[field::FLAGS].copy_from_slice(&flags);
    true
}

/// Cuts the sealed block in `chunk` to its used size, writes its checksum and returns its bytes: what
/// is written where blocks need not have the same size (a pipe). `None` where `chunk` holds no
/// sealed block.
pub fn tighten_block(chunk: &mut [u8]) -> Option<&[u8]> {
    let header = chunk.first_chunk_mut::<BLOCK_HEADER_BYTES>()?;
    let size = BLOCK_HEADER_BYTES.checked_add(u32_at(header, field::LENGTH) as usize)?;
    header[field::CAPACITY].copy_from_slice(&u32::try_from(size).ok()?.to_le_bytes());
    let checksum = crc32fast::hash(&header[..field::OPEN_CHECKSUM.start]);
    header[field::OPEN_CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    let chunk = chunk.get_mut(..size)?;
    finish_block(chunk).then_some(&*chunk)
}

fn u32_at(header: &[u8; BLOCK_HEADER_BYTES], place: std::ops::Range<usize>) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[place]);
    u32::from_le_bytes(bytes)
}
