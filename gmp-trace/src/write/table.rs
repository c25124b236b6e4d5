//! Table blocks: strings, sites, stacks and modules of a generation.

use crate::block::{BLOCK_HEADER_BYTES, BlockKind};
use crate::limits::{MAX_STACK_FRAMES, MAX_STRING_BYTES};
use crate::spec::Kind;
use crate::varint;
use crate::write::encoder::{BlockHead, Encoder};
use crate::write::other::cut_text;

/// A place in the source; function and file are numbers of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The function: of a creation the start function, else the one that waits.
    pub function: u32,
    /// The file.
    pub file: u32,
    /// The line, from 1; 0 where it is not known.
    pub line: u32,
    /// The column, from 1; 0 where it is not known.
    pub column: u32,
}

/// A piece of a loaded file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Where in the file the piece begins.
    pub offset: u64,
    /// Path of the file, as the number of a text.
    pub path: u32,
    /// Its build id in hexadecimal, as the number of a text; 0 (the empty text) for none.
    pub build_id: u32,
}

/// Writes table blocks.
///
/// Each method returns false, and writes nothing, where the chunk has no room for the record: then
/// [`TableEncoder::seal`] it and begin the next.
#[derive(Debug, Clone, Default)]
pub struct TableEncoder {
    encoder: Encoder,
}

impl TableEncoder {
    /// An encoder without a block.
    pub const fn new() -> TableEncoder {
        TableEncoder {
            encoder: Encoder::new(),
        }
    }

    /// Opens a table block in `chunk`; as [`Encoder::begin`]. `sequence` counts the table blocks of
    /// the generation.
    pub fn begin(&mut self, chunk: &mut [u8], generation: u32, sequence: u32) {
        let head = BlockHead {
            kind: BlockKind::Table,
            generation,
            sequence,
            m: None,
            base_time: 0,
            g: None,
            p: None,
        };
        self.encoder.begin(chunk, &head);
    }

    /// Closes the block, as [`Encoder::seal`].
    pub fn seal(&mut self, chunk: &mut [u8], checksum: bool) {
        self.encoder.seal(chunk, checksum);
    }

    /// Bytes of the chunk that are used; 0 without a block.
    pub fn used(&self) -> usize {
        self.encoder.used()
    }

    /// Defines string `id` of the generation. One longer than [`MAX_STRING_BYTES`], or than an empty
    /// chunk of this size has room for, is cut and then ends in `…`.
    #[must_use]
    pub fn string(&mut self, chunk: &mut [u8], id: u32, text: &str) -> bool {
        // Head, length and id take up to 16 bytes.
        let longest = chunk
            .len()
            .saturating_sub(BLOCK_HEADER_BYTES + 16)
            .min(MAX_STRING_BYTES);
        let mut cut = Vec::new();
        if text.len() > longest {
            cut.resize(longest, 0);
        }
        let text = if cut.is_empty() {
            text.as_bytes()
        } else {
            cut_text(text, &mut cut)
        };
        self.encoder
            .long_record(chunk, Kind::String.head(0, false), [u64::from(id)], text, 0)
    }

    /// Defines site `id`; texts are numbers of strings, line and column are from 1 and 0 where they
    /// are not known. A site's number is not 0.
    #[must_use]
    pub fn site(&mut self, chunk: &mut [u8], id: u32, place: &Place) -> bool {
        if !self.encoder.has_room(chunk) {
            return false;
        }
        let args = [id, place.function, place.file, place.line, place.column].map(u64::from);
        self.encoder
            .record(chunk, Kind::Site.head(0, false), args, 0);
        true
    }

    /// Defines stack `id` by its addresses, leaf first; frames after the first
    /// [`MAX_STACK_FRAMES`] are left out. A stack's number is not 0.
    #[must_use]
    pub fn stack(&mut self, chunk: &mut [u8], id: u32, addresses: &[u64]) -> bool {
        let mut bytes = Vec::with_capacity(addresses.len() * 6);
        for &address in addresses.iter().take(MAX_STACK_FRAMES) {
            varint::push(&mut bytes, address);
        }
        self.encoder.long_record(
            chunk,
            Kind::Stack.head(0, false),
            [u64::from(id)],
            &bytes,
            0,
        )
    }

    /// Tells of a piece of a loaded file.
    #[must_use]
    pub fn module(&mut self, chunk: &mut [u8], module: &Module) -> bool {
        if !self.encoder.has_room(chunk) {
            return false;
        }
        let args = [
            module.start,
            module.end,
            module.offset,
            u64::from(module.path),
            u64::from(module.build_id),
        ];
        self.encoder
            .record(chunk, Kind::Module.head(0, false), args, 0);
        true
    }
}
