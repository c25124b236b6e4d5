//! The file header: which format, which clock, and how long every record is.
//!
//! It is written twice, one copy after the other, so that damage to one of them costs nothing.

use crate::spec::VERSION;
#[cfg(feature = "write")]
use crate::spec::{ARITY_UNDEFINED, HEAD_TABLE};

/// The first bytes of a trace. The first is not ASCII and line ends of both kinds follow, so that a
/// transfer that takes the file for text shows.
pub const MAGIC: [u8; 8] = *b"\x8Egmp\r\n\x1a\n";

/// Bytes of one copy of the header.
pub const HEADER_COPY_BYTES: usize = 192;

/// Bytes of the header, both copies.
pub const HEADER_BYTES: usize = 2 * HEADER_COPY_BYTES;

/// Where the table of arities begins in a copy.
pub(crate) const ARITY_AT: usize = 48;

/// Where the checksum of a copy is: over everything before it.
pub(crate) const CHECKSUM_AT: usize = HEADER_COPY_BYTES - 4;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderInfo {
    /// Major and minor version of the format.
    pub version: (u16, u16),
    /// Units of the trace's clock in a second; never 0.
    pub ticks_per_second: u64,
    /// The process that was recorded, 0 where it is not known.
    pub process_id: u64,
    /// The distance between blocks in bytes where they all have the same size, else 0.
    pub block_bytes: u32,
    /// Where the first block begins, from the start of the file.
    pub first_block: u32,
    /// What the trace's clock said at time zero of the trace; 0 where that is not known: then it is
    /// the begin of the first generation that is read.
    pub start: u64,
}

impl HeaderInfo {
    /// A header of the version that this crate writes, for a stream whose first block follows at
    /// once.
    pub const fn new(ticks_per_second: u64) -> HeaderInfo {
        HeaderInfo {
            version: VERSION,
            ticks_per_second,
            process_id: 0,
            block_bytes: 0,
            first_block: HEADER_BYTES as u32,
            start: 0,
        }
    }
}

/// How many numbers follow each head in a trace of this version.
#[cfg(feature = "write")]
pub(crate) const fn arities() -> [u8; 256] {
    let mut arities = [ARITY_UNDEFINED; 256];
    arities[crate::spec::END_OF_DATA as usize] = 0;
    let mut head = 0;
    while head < 256 {
        if let Some(known) = HEAD_TABLE[head] {
            arities[head] = known.arity;
        }
        head += 1;
    }
    arities
}

/// The bytes of the header that says `info`.
///
/// A `ticks_per_second` of 0 is written as 1: there is no clock without units.
#[cfg(feature = "write")]
pub fn encode(info: &HeaderInfo) -> [u8; HEADER_BYTES] {
    encode_with(info, &arities())
}

/// [`encode`], for a trace whose records are as long as `arities` says: one of another version.
#[cfg(feature = "write")]
pub(crate) fn encode_with(info: &HeaderInfo, arities: &[u8; 256]) -> [u8; HEADER_BYTES] {
    let mut copy = Vec::with_capacity(HEADER_COPY_BYTES);
    copy.extend_from_slice(&MAGIC);
    copy.extend_from_slice(&info.version.0.to_le_bytes());
    copy.extend_from_slice(&info.version.1.to_le_bytes());
    copy.extend_from_slice(&0u32.to_le_bytes()); // flags
    copy.extend_from_slice(&info.ticks_per_second.max(1).to_le_bytes());
    copy.extend_from_slice(&info.process_id.to_le_bytes());
    copy.extend_from_slice(&info.block_bytes.to_le_bytes());
    copy.extend_from_slice(&info.first_block.max(HEADER_BYTES as u32).to_le_bytes());
    copy.extend_from_slice(&info.start.to_le_bytes());
    debug_assert_eq!(copy.len(), ARITY_AT);
    // Two heads a byte, the lower head in the lower half.
    copy.extend(
        arities
            .chunks_exact(2)
            .map(|pair| pair[0] & 15 | pair[1] << 4),
    );
    copy.resize(CHECKSUM_AT, 0);
    let checksum = crc32fast::hash(&copy);
    copy.extend_from_slice(&checksum.to_le_bytes());

    let mut bytes = [0; HEADER_BYTES];
    for half in bytes.chunks_exact_mut(HEADER_COPY_BYTES) {
        half.copy_from_slice(&copy);
    }
    bytes
}

#[cfg(all(test, feature = "write"))]
mod tests {
    use super::*;
    use crate::spec::Kind;

    #[test]
    fn a_header_is_two_copies_with_arities_and_checksum() {
        let bytes = encode(&HeaderInfo::new(62_500_000));
        let (a, b) = bytes.split_at(HEADER_COPY_BYTES);
        assert_eq!(a, b);
        assert!(a.starts_with(&MAGIC));
        assert_eq!(
            crc32fast::hash(&a[..CHECKSUM_AT]).to_le_bytes(),
            a[CHECKSUM_AT..]
        );
        let of = |head: u8| (a[ARITY_AT + head as usize / 2] >> (4 * (head % 2))) & 15;
        assert_eq!(of(0), 0);
        assert_eq!(of(Kind::ParkStart.head(0, false)), 3);
        assert_eq!(of(Kind::ParkStart.head(1, true)), 4);
        assert_eq!(of(Kind::Log.head(0, false)), 15);
        assert_eq!(of(0xff), 14);
    }
}
