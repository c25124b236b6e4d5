//! Named maxima of the native format: every length is held against one of these before memory is
//! taken for it.
//!
//! Making one of them smaller is a change of the format's major version.

/// Bytes of a block from its marker to the next one, at most.
pub const MAX_BLOCK_BYTES: usize = 4 << 20;

/// Bytes of a block's payload once it is no longer compressed, at most.
pub const MAX_PAYLOAD_BYTES: usize = MAX_BLOCK_BYTES;

/// Bytes that all compressed payloads of a trace may have once they are no longer compressed, besides
/// [`MAX_INFLATION`] times those that are stored. A block beyond that is a damaged one.
pub const MAX_INFLATED_BYTES: usize = 32 << 20;

/// See [`MAX_INFLATED_BYTES`].
pub const MAX_INFLATION: usize = 64;

/// The usual size of a block: what a thread writes before it needs another.
pub const DEFAULT_BLOCK_BYTES: usize = 64 << 10;

/// Bytes of one string, at most. A writer cuts a longer one.
pub const MAX_STRING_BYTES: usize = 64 << 10;

/// Bytes of one message of the program's log, at most. A writer cuts a longer one.
pub const MAX_LOG_BYTES: usize = 4 << 10;

/// Frames of one stack, at most. A writer leaves out the outermost ones.
pub const MAX_STACK_FRAMES: usize = 128;

/// Bytes of a record with a length of its own, the length not counted, at most.
pub const MAX_RECORD_BYTES: usize = MAX_STRING_BYTES + 64;

/// Arguments of one record, at most.
pub const MAX_ARGUMENTS: usize = 13;

/// Wait slots of a block.
pub const WAIT_SLOTS: usize = 64;

/// Pieces of loaded files that a reader keeps, at most; it counts the others as bad records.
pub const MAX_MODULES: usize = 1 << 16;

/// Where the first block begins, at most.
pub const MAX_FIRST_BLOCK: usize = MAX_BLOCK_BYTES;

/// The smallest number that stands for a string of the trace; below it are the strings that every
/// reader knows ([`KNOWN_TEXTS`](crate::tables::KNOWN_TEXTS)).
pub const FIRST_STRING: u32 = 256;
