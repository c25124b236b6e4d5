//! Where chunks come from and where they go: a file that is mapped piece by piece, or a stream.
//!
//! A thread that needs a chunk takes a prepared one; it never waits for the file system. The collector's
//! own thread prepares chunks ahead, and takes care of those that are full.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;

use gmp_trace::write::{HeaderInfo, finish_block, header, tighten_block};

use crate::sys::mapping::FileMapping;
use crate::sys::memory::Reservation;
use crate::sys::tsc::ClockUnits;

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Chunks that are prepared at once.
const CHUNKS_PER_SEGMENT: usize = 16;

/// Chunks that are kept ready.
const READY_CHUNKS: usize = 64;

/// Of those, chunks that only the beginning and the end of a generation get: a reader needs them most.
const KEPT_CHUNKS: usize = 4;

/// Full chunks that can wait for the collector's thread.
const FULL_CHUNKS: usize = 4096;

/// Where the first block of a file is: blocks begin at a page.
const FIRST_BLOCK: u64 = 4096;

/// A chunk of the trace: memory that one thread at a time writes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    base: NonNull<u8>,
    segment: u32,
}

// SAFETY: an address; whoever holds the chunk is the only one to use it.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Its bytes.
    ///
    /// # Safety
    /// The caller holds the chunk, and nothing else refers to its bytes.
    #[inline(always)]
    pub(super) unsafe fn bytes<'a>(self) -> &'a mut [u8] {
        // SAFETY: a chunk is CHUNK_BYTES of mapped memory, the caller's alone.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), CHUNK_BYTES) }
    }
}

/// Chunks on their way to threads and back. Under the collector's lock; nothing here allocates.
#[derive(Debug)]
pub(super) struct Exchange {
    ready: Vec<Chunk>,
    full: Vec<Chunk>,
}

impl Exchange {
    pub(super) fn new() -> Exchange {
        Exchange {
            ready: Vec::with_capacity(READY_CHUNKS + CHUNKS_PER_SEGMENT),
            full: Vec::with_capacity(FULL_CHUNKS),
        }
    }

    /// A chunk of zeros; `None` when none is prepared.
    pub(super) fn take(&mut self) -> Option<Chunk> {
        if self.ready.len() <= KEPT_CHUNKS {
            return None;
        }
        self.ready.pop()
    }

    /// [`Exchange::take`] for the beginning or the end of a generation.
    pub(super) fn take_kept(&mut self) -> Option<Chunk> {
        self.ready.pop()
    }

    /// Whether more should be prepared.
    pub(super) fn runs_low(&self) -> bool {
        self.ready.len() < READY_CHUNKS / 2
    }

    /// Gives back a chunk with a sealed block. Where too many wait already, this one stays without its
    /// checksum, which a reader can do without.
    pub(super) fn give_back(&mut self, chunk: Chunk) {
        if self.full.len() < FULL_CHUNKS {
            self.full.push(chunk);
        }
    }

    /// How many more the collector's thread should prepare.
    fn missing(&self) -> usize {
        READY_CHUNKS.saturating_sub(self.ready.len())
    }

    /// Adds prepared chunks, those that come first in the file on top.
    fn add(&mut self, chunks: &[Chunk]) {
        // Chunks that are ready now come before the new ones in the file, so they stay on top.
        for &chunk in chunks {
            if self.ready.len() < self.ready.capacity() {
                self.ready.insert(0, chunk);
            }
        }
    }

    /// Takes the full chunks out, in exchange for an empty list.
    pub(super) fn take_full(&mut self, empty: &mut Vec<Chunk>) {
        std::mem::swap(&mut self.full, empty);
    }
}

/// A list as large as [`Exchange::take_full`] needs.
pub(super) fn full_list() -> Vec<Chunk> {
    Vec::with_capacity(FULL_CHUNKS)
}

/// Memory of chunks.
#[derive(Debug)]
enum Memory {
    File(FileMapping),
    Private(Reservation),
}

impl Memory {
    fn base(&self) -> NonNull<u8> {
        match self {
            Memory::File(mapping) => mapping.base(),
            Memory::Private(memory) => memory.base(),
        }
    }
}

#[derive(Debug)]
struct Segment {
    memory: Option<Memory>,
    /// Chunks that are not done with.
    left: usize,
}

/// The file or stream. Used by the collector's thread only.
#[derive(Debug)]
pub(super) struct Output {
    file: File,
    /// The end of the last segment in the file; `None` for a stream.
    end: Option<u64>,
    segments: Vec<Segment>,
    /// Empty chunks of a stream.
    free: Vec<Chunk>,
    /// The first error: from then on no chunk is prepared.
    error: Option<io::Error>,
}

impl Output {
    /// Opens the file and writes the header. An existing regular file is replaced; anything else that
    /// can be written to (a pipe, a terminal) becomes a stream.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn create(path: &Path, clock: &ClockUnits) -> io::Result<Output> {
        // Whoever writes into a pipe must not be one of its readers: when the reader goes, writing has to
        // fail and not to wait.
        let is_stream = std::fs::metadata(path).is_ok_and(|there| !there.is_file());
        let mut options = File::options();
        if !is_stream {
            options.read(true).create(true).truncate(true);
        }
        let mut file = options.write(true).open(path)?;
        let is_file = file.metadata()?.is_file();
        let mut info = HeaderInfo::new(clock.units_per_second());
        info.start = clock.now_units();
        info.process_id = u64::from(std::process::id());
        if is_file {
            info.block_bytes = CHUNK_BYTES as u32;
            info.first_block = FIRST_BLOCK as u32;
            file.set_len(FIRST_BLOCK)?;
            file.write_all_at(&header(&info), 0)?;
        } else {
            file.write_all(&header(&info))?;
        }
        Ok(Output {
            file,
            end: is_file.then_some(FIRST_BLOCK),
            segments: Vec::new(),
            free: Vec::new(),
            error: None,
        })
    }

    /// Prepares what is missing in the exchange; `add` gets each batch.
    pub(super) fn prepare(&mut self, missing: usize, mut add: impl FnMut(&[Chunk])) {
        let mut prepared = 0;
        while prepared < missing && self.error.is_none() {
            let batch = match self.end {
                // No more than are missing: there is room for these.
                None if !self.free.is_empty() => {
                    let kept = self.free.len().saturating_sub(missing - prepared);
                    self.free.split_off(kept)
                }
                _ => match self.new_segment() {
                    Ok(chunks) => chunks,
                    Err(error) => {
                        self.error = Some(error);
                        return;
                    }
                },
            };
            add(&batch);
            prepared += batch.len();
        }
    }

    fn new_segment(&mut self) -> io::Result<Vec<Chunk>> {
        const BYTES: usize = CHUNKS_PER_SEGMENT * CHUNK_BYTES;
        let memory = match &mut self.end {
            Some(end) => {
                let mapping = FileMapping::extend(&self.file, *end, BYTES)?;
                *end += BYTES as u64;
                Memory::File(mapping)
            }
            None => Memory::Private(Reservation::reserve(BYTES)?),
        };
        let base = memory.base();
        let segment = self.segments.len() as u32;
        self.segments.push(Segment {
            memory: Some(memory),
            left: CHUNKS_PER_SEGMENT,
        });
        Ok((0..CHUNKS_PER_SEGMENT)
            .filter_map(|i| {
                let base = NonNull::new(base.as_ptr().wrapping_add(i * CHUNK_BYTES))?;
                Some(Chunk { base, segment })
            })
            .collect())
    }

    /// Finishes full chunks: checksums; of a stream, writes them.
    pub(super) fn finish(&mut self, full: &mut Vec<Chunk>) {
        for chunk in full.drain(..) {
            // SAFETY: whoever wrote to the chunk has given it back, and only this thread takes it.
            let bytes = unsafe { chunk.bytes() };
            if self.end.is_some() {
                finish_block(bytes);
                self.done(chunk);
                continue;
            }
            let written = match tighten_block(bytes) {
                Some(block) => self.file.write_all(block),
                None => Ok(()),
            };
            if let Err(error) = written {
                self.error.get_or_insert(error);
            }
            bytes.fill(0);
            self.free.push(chunk);
        }
    }

    /// A chunk of a file is done with: its memory is given back with the last one of its segment.
    fn done(&mut self, chunk: Chunk) {
        if let Some(segment) = self.segments.get_mut(chunk.segment as usize) {
            segment.left = segment.left.saturating_sub(1);
            if segment.left == 0 {
                segment.memory = None;
            }
        }
    }

    /// Ends the file after the last chunk that was used, when `unused` were prepared in vain.
    ///
    /// # Errors
    /// The first error that the recording met.
    pub(super) fn close(mut self, unused: usize) -> io::Result<()> {
        self.segments.clear();
        if let Some(end) = self.end {
            let end = end
                .saturating_sub((unused * CHUNK_BYTES) as u64)
                .max(FIRST_BLOCK);
            if let Err(error) = self.file.set_len(end) {
                self.error.get_or_insert(error);
            }
        }
        match self.error {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Exchange {
    /// Prepares chunks with `output` until enough are ready; `locked` runs a piece under the lock.
    pub(super) fn refill(
        output: &mut Output,
        mut locked: impl FnMut(&mut dyn FnMut(&mut Exchange)),
    ) {
        let mut missing = 0;
        locked(&mut |exchange| missing = exchange.missing());
        output.prepare(missing, |chunks| {
            locked(&mut |exchange| exchange.add(chunks))
        });
    }

    /// How many prepared chunks nobody took.
    pub(super) fn unused(&self) -> usize {
        self.ready.len()
    }
}
