//! The state of one block that is being written, and how a record gets into it.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::block::{BLOCK_HEADER_BYTES, BlockKind, MARKER, field, flag};
use crate::id::{GId, MId, PId};
use crate::limits::{MAX_BLOCK_BYTES, WAIT_SLOTS};
use crate::varint::zigzag;
use crate::write::scheduling::WaitWords;
use crate::write::seal::finish_block;

/// Room in a chunk that any one call of [`Encoder`] is content with, in bytes.
pub const CALL_BYTES: usize = WINDOW + 64;

/// The smallest chunk that [`Encoder::begin`] can use, in bytes.
pub const MIN_CHUNK_BYTES: usize = BLOCK_HEADER_BYTES + CALL_BYTES;

/// The piece of the chunk that one record is written into. Its places are exactly the values of a
/// `u8`, so the compiler sees that none is out of bounds.
const WINDOW: usize = 256;

/// What is known when a block is opened.
#[derive(Clone, Copy, Debug)]
pub struct BlockHead {
    /// What will stand in it.
    pub kind: BlockKind,
    /// Number of its generation.
    pub generation: u32,
    /// How many blocks of this kind this M began before in this generation: a reader takes a gap for
    /// a lost block. Table and control blocks are numbered over the whole generation.
    pub sequence: u32,
    /// The M whose events it holds; `None` for table and control blocks.
    pub m: Option<MId>,
    /// Time at its beginning, in units of the clock: not after its first event.
    pub base_time: u64,
    /// The goroutine that runs on the M at the block's beginning.
    pub g: Option<GId>,
    /// The P that the M holds at the block's beginning.
    pub p: Option<PId>,
}

/// Writes the records of one block at a time.
///
/// Every method that records something takes the chunk that [`Encoder::begin`] was given and, where
/// the record has a time, `now` in units of the trace's clock. A `now` before the block's last one
/// is written as the last one. No method panics; a record for which there is no room is left out and
/// counted in [`Encoder::refused`].
#[derive(Debug, Clone)]
pub struct Encoder {
    position: usize,
    last_time: u64,
    last_goroutine: u64,
    events: u64,
    refused: u64,
    waits: [WaitWords; WAIT_SLOTS],
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl Encoder {
    /// An encoder without a block: it has no room.
    pub const fn new() -> Encoder {
        Encoder {
            position: usize::MAX,
            last_time: 0,
            last_goroutine: 0,
            events: 0,
            refused: 0,
            waits: [WaitWords::UNDEFINED; WAIT_SLOTS],
        }
    }

    /// Opens a block in `chunk`, whose bytes must all be zero: a new piece of a file is, one that is
    /// used again must be cleared. A chunk shorter than [`MIN_CHUNK_BYTES`] or longer than
    /// [`MAX_BLOCK_BYTES`] is left alone, and there is no room in it.
    pub fn begin(&mut self, chunk: &mut [u8], head: &BlockHead) {
        let capacity = chunk.len();
        self.events = 0;
        self.position = usize::MAX;
        let Some(header) = chunk.first_chunk_mut::<BLOCK_HEADER_BYTES>() else {
            return;
        };
        if !(MIN_CHUNK_BYTES..=MAX_BLOCK_BYTES).contains(&capacity) {
            return;
        }
        self.position = BLOCK_HEADER_BYTES;
        self.last_time = head.base_time;
        self.last_goroutine = head.g.map_or(0, GId::get);
        self.waits = [WaitWords::UNDEFINED; WAIT_SLOTS];

        fill_open_part(header, head, capacity as u32);
    }

    /// Whether any one call has room in `chunk`. [`Encoder::log`] says itself whether it had.
    #[inline]
    pub fn has_room(&self, chunk: &[u8]) -> bool {
        chunk.len().saturating_sub(CALL_BYTES) >= self.position
    }

    /// Bytes of the chunk that are used; 0 without a block.
    #[inline]
    pub fn used(&self) -> usize {
        if self.position == usize::MAX {
            0
        } else {
            self.position
        }
    }

    /// Events in this block so far, as a reader counts them: a switch is two.
    #[inline]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Events that were left out for want of room, since the encoder was made. Not zero only where
    /// [`Encoder::has_room`] was not asked.
    #[inline]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The last time that was written, in units of the clock.
    #[inline]
    pub fn last_time(&self) -> u64 {
        self.last_time
    }

    /// Closes the block: writes its length and how many events are in it, and its checksum if
    /// `checksum` is set. The encoder has no room after that until the next [`Encoder::begin`].
    ///
    /// The checksum reads all that was written (some microseconds for 64 kB); [`finish_block`] does
    /// it later where that is too long.
    pub fn seal(&mut self, chunk: &mut [u8], checksum: bool) {
        let length = self.used().saturating_sub(BLOCK_HEADER_BYTES) as u32;
        let open = self.used() != 0;
        self.position = usize::MAX;
        let Some(header) = chunk.first_chunk_mut::<BLOCK_HEADER_BYTES>() else {
            return;
        };
        if !open {
            return;
        }
        header[field::LENGTH].copy_from_slice(&length.to_le_bytes());
        header[field::RAW_LENGTH].copy_from_slice(&length.to_le_bytes());
        header[field::EVENTS].copy_from_slice(&(self.events as u32).to_le_bytes());
        // ordering: Release for this thread's own stores; pairs with nothing but the end of the
        // process: a block that is marked as sealed has its length.
        compiler_fence(Ordering::Release);
        header[field::FLAGS].copy_from_slice(&flag::SEALED.to_le_bytes());
        if checksum {
            finish_block(chunk);
        }
    }

    /// Units of the clock since the last stamp, which is now `now`.
    #[inline]
    pub(super) fn delta(&mut self, now: u64) -> u64 {
        let delta = now.saturating_sub(self.last_time);
        self.last_time += delta;
        delta
    }

    /// Makes `time` the last stamp again, after a record that was not written.
    pub(super) fn restore_time(&mut self, time: u64) {
        self.last_time = time;
    }

    /// Difference of `g` to the last goroutine that was named, which is now `g`.
    #[inline]
    pub(super) fn relative(&mut self, g: u64) -> u64 {
        let difference = g.wrapping_sub(self.last_goroutine) as i64;
        self.last_goroutine = g;
        zigzag(difference)
    }

    /// The table of wait slots.
    #[inline]
    pub(super) fn wait_slot(&mut self, slot: usize) -> &mut WaitWords {
        // The slot is a hash of six bits; the remainder only tells the compiler so.
        &mut self.waits[slot % WAIT_SLOTS]
    }

    /// Writes one record that a reader makes `events` events of.
    #[inline(always)]
    pub(super) fn record<const N: usize>(
        &mut self,
        chunk: &mut [u8],
        head: u8,
        args: [u64; N],
        events: u64,
    ) {
        const { assert!(N * crate::varint::MAX_VARINT_BYTES < WINDOW) };
        let Some(window) = chunk
            .get_mut(self.position..)
            .and_then(<[u8]>::first_chunk_mut)
        else {
            return self.refuse(events);
        };
        let end = if args.iter().fold(0, |all, arg| all | arg) < 0x80 {
            for (place, arg) in args.iter().enumerate() {
                window[1 + place] = *arg as u8;
            }
            1 + N
        } else {
            put_all(window, &args)
        };
        // ordering: Release for this thread's own stores; pairs with nothing but the end of the
        // process: a record whose head is in the file has its arguments.
        compiler_fence(Ordering::Release);
        window[0] = head;
        self.position += end;
        self.events += events;
    }

    /// Writes a record with a length of its own: `args`, then `tail`. Returns false, and writes
    /// nothing, where the chunk has no room for it.
    pub(super) fn long_record<const N: usize>(
        &mut self,
        chunk: &mut [u8],
        head: u8,
        args: [u64; N],
        tail: &[u8],
        events: u64,
    ) -> bool {
        let mut numbers = [0; WINDOW];
        let numbers_end = put_all(&mut numbers, &args);
        let numbers = numbers.get(1..numbers_end).unwrap_or_default();
        let length = (numbers.len() + tail.len()) as u64;
        let mut prefix = [0; WINDOW];
        let prefix_end = put_all(&mut prefix, &[length]);
        let prefix = prefix.get(1..prefix_end).unwrap_or_default();

        let size = 1 + prefix.len() + numbers.len() + tail.len();
        let end = self.position.saturating_add(size);
        let Some([first, rest @ ..]) = chunk.get_mut(self.position..end) else {
            return false;
        };
        let (to_prefix, rest) = rest.split_at_mut(prefix.len());
        let (to_numbers, to_tail) = rest.split_at_mut(numbers.len());
        to_prefix.copy_from_slice(prefix);
        to_numbers.copy_from_slice(numbers);
        to_tail.copy_from_slice(tail);
        // ordering: Release, as in `record`.
        compiler_fence(Ordering::Release);
        *first = head;
        self.position = end;
        self.events += events;
        true
    }

    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&mut self, events: u64) {
        self.refused += events;
    }
}

/// Writes what is known when a block is opened, and its checksum.
pub(super) fn fill_open_part(
    header: &mut [u8; BLOCK_HEADER_BYTES],
    head: &BlockHead,
    capacity: u32,
) {
    header[field::CAPACITY].copy_from_slice(&capacity.to_le_bytes());
    header[field::KIND] = head.kind as u8;
    header[field::GENERATION].copy_from_slice(&head.generation.to_le_bytes());
    header[field::SEQUENCE].copy_from_slice(&head.sequence.to_le_bytes());
    header[field::M].copy_from_slice(&head.m.map_or(u64::MAX, MId::get).to_le_bytes());
    header[field::BASE_TIME].copy_from_slice(&head.base_time.to_le_bytes());
    header[field::G].copy_from_slice(&head.g.map_or(0, GId::get).to_le_bytes());
    header[field::P].copy_from_slice(&head.p.map_or(u32::MAX, PId::get).to_le_bytes());
    header[field::MARKER].copy_from_slice(&MARKER);
    let checksum = crc32fast::hash(&header[..field::OPEN_CHECKSUM.start]);
    header[field::OPEN_CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
}

/// Writes `args` from place 1 of the window on; returns the place after the last.
#[inline]
fn put_all(window: &mut [u8; WINDOW], args: &[u64]) -> usize {
    let mut at = 1u8;
    for &arg in args {
        let mut rest = arg;
        while rest >= 0x80 {
            window[at as usize] = rest as u8 | 0x80;
            at = at.wrapping_add(1);
            rest >>= 7;
        }
        window[at as usize] = rest as u8;
        at = at.wrapping_add(1);
    }
    at as usize
}
