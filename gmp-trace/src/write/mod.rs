//! Writing the native format: what a runtime needs to record, without allocation, lock or system
//! call for an event.
//!
//! An [`Encoder`] writes the records of one block into a chunk of memory that the caller passes to
//! each call: usually a piece of the trace file, mapped. One thread owns an encoder and its chunk:
//!
//! 1. [`Encoder::begin`] with the block's head;
//! 2. one call for each event while [`Encoder::has_room`];
//! 3. [`Encoder::seal`]; where that did not compute the checksum, [`finish_block`] does later, on any
//!    thread;
//! 4. again from 1 with the next chunk.
//!
//! The file begins with [`header`](fn@header); the chunks follow in any order, each beginning where
//! the one before it ends.
//!
//! # Killed in the middle
//!
//! The head byte of a record is written after its arguments, and a reader of a block that was never
//! sealed stops at the first zero head. So whatever the moment at which the process dies, whole
//! events are in the file.
//!
//! # Not here
//!
//! Where chunks come from, and which thread writes what when: that is the recorder's business.
//! [`Recorder`] is a simple one for one thread and any [`io::Write`](std::io::Write).

mod control;
mod encoder;
mod other;
#[cfg(feature = "read")]
pub(crate) mod raw;
mod recorder;
mod scheduling;
mod seal;
mod table;

pub use crate::block::{BLOCK_HEADER_BYTES, BlockKind};
pub use crate::header::{HEADER_BYTES, HeaderInfo, encode as header};
pub use control::{ClockPair, GenerationEnd, GoroutineStatus, TraceEnd};
pub use encoder::{BlockHead, CALL_BYTES, Encoder, MIN_CHUNK_BYTES};
pub use recorder::{Context, Recorder};
pub use scheduling::{Seq, Wait};
pub use seal::{finish_block, tighten_block};
pub use table::{Module, Place, TableEncoder};

/// The number that stands for string `id` of the generation in every argument that is a text.
/// Strings that every reader knows ([`KNOWN_TEXTS`](crate::tables::KNOWN_TEXTS)) have their own
/// number there, as in [`Text`](crate::tables::Text): the wait reason `chan receive` is
/// `Text::CHAN_RECEIVE.0`.
pub const fn text_number(id: u32) -> u32 {
    id.saturating_add(crate::limits::FIRST_STRING)
}
