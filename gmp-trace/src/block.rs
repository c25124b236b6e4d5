//! The block header: where its fields are, for writer and reader.
//!
//! The first part is written when the block is opened and has a checksum of its own; the second part
//! is zero until the block is sealed, and its checksum covers the payload too.

/// The first bytes of every block; a reader that lost its place looks for them.
pub(crate) const MARKER: [u8; 8] = *b"\xF7\x9Cgmp\x00\xB1\x0C";

/// Bytes of a block header.
pub const BLOCK_HEADER_BYTES: usize = 80;

/// What stands in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum BlockKind {
    /// Events of one M.
    Events = 1,
    /// Strings, sites, stacks and modules.
    Table = 2,
    /// Clock pairs, statuses, begin and end of generations.
    Control = 3,
    /// CPU samples of one M.
    Samples = 4,
}

impl BlockKind {
    /// Every kind.
    pub const ALL: [BlockKind; 4] = [
        BlockKind::Events,
        BlockKind::Table,
        BlockKind::Control,
        BlockKind::Samples,
    ];
}

/// Places of the fields in a block header. The parser reads them in this order, one after the other;
/// only the writer needs the places of all.
pub(crate) mod field {
    use std::ops::Range;

    #[cfg(feature = "write")]
    pub(crate) const MARKER: Range<usize> = 0..8;
    #[cfg(feature = "write")]
    pub(crate) const CAPACITY: Range<usize> = 8..12;
    #[cfg(feature = "write")]
    pub(crate) const KIND: usize = 12;
    #[cfg(feature = "write")]
    pub(crate) const GENERATION: Range<usize> = 16..20;
    #[cfg(feature = "write")]
    pub(crate) const SEQUENCE: Range<usize> = 20..24;
    #[cfg(feature = "write")]
    pub(crate) const M: Range<usize> = 24..32;
    #[cfg(feature = "write")]
    pub(crate) const BASE_TIME: Range<usize> = 32..40;
    #[cfg(feature = "write")]
    pub(crate) const G: Range<usize> = 40..48;
    #[cfg(feature = "write")]
    pub(crate) const P: Range<usize> = 48..52;
    /// Checksum of everything before it.
    pub(crate) const OPEN_CHECKSUM: Range<usize> = 56..60;
    #[cfg(feature = "write")]
    pub(crate) const FLAGS: Range<usize> = 60..64;
    #[cfg(feature = "write")]
    pub(crate) const LENGTH: Range<usize> = 64..68;
    #[cfg(feature = "write")]
    pub(crate) const RAW_LENGTH: Range<usize> = 68..72;
    #[cfg(feature = "write")]
    pub(crate) const EVENTS: Range<usize> = 72..76;
    /// Checksum of the fields from the flags on, and of the payload.
    #[cfg(feature = "write")]
    pub(crate) const SEAL_CHECKSUM: Range<usize> = 76..80;
    /// What [`SEAL_CHECKSUM`] covers of the header.
    pub(crate) const SEAL: Range<usize> = 60..76;
}

/// Flags of a block.
pub(crate) mod flag {
    /// The length is right: no more will be written.
    pub(crate) const SEALED: u32 = 1;
    /// The payload is compressed with deflate.
    #[cfg(feature = "read")]
    pub(crate) const COMPRESSED: u32 = 2;
    /// The checksum of the payload was written.
    pub(crate) const CHECKED: u32 = 4;
    /// Every flag that this version knows.
    #[cfg(feature = "read")]
    pub(crate) const KNOWN: u32 = SEALED | COMPRESSED | CHECKED;
}

/// The checksum of a sealed block: of the fields of its seal, then of its stored payload.
pub(crate) fn seal_checksum(seal: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(seal);
    hasher.update(payload);
    hasher.finalize()
}
