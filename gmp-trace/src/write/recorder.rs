//! A recorder for one thread and any sink: tests, generated traces, tools.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::block::BlockKind;
use crate::header::{HeaderInfo, encode};
use crate::id::{GId, MId, PId};
use crate::limits::MAX_BLOCK_BYTES;
use crate::tables::KNOWN_TEXTS;
use crate::write::control::{ClockPair, GenerationEnd, TraceEnd};
use crate::write::encoder::{BlockHead, Encoder, MIN_CHUNK_BYTES};
use crate::write::seal::tighten_block;
use crate::write::table::{Module, Place, TableEncoder};
use crate::write::text_number;

/// What an M held before a record: needed where the record opens a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The P.
    pub p: Option<PId>,
    /// The goroutine.
    pub g: Option<GId>,
}

/// One block that is being filled.
#[derive(Debug)]
struct Stream {
    encoder: Encoder,
    chunk: Vec<u8>,
    /// Blocks that were begun before in this generation.
    sequence: u32,
    open: bool,
}

/// Records on behalf of any number of Ms from one thread, into anything that can be written to.
///
/// Blocks are cut to size. A trace that was not [`finish`](Recorder::finish)ed reads as one that was
/// not finished.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    out: W,
    chunk_bytes: usize,
    generation: Option<u32>,
    streams: HashMap<(BlockKind, Option<MId>), Stream>,
    texts: Vec<String>,
    text_numbers: HashMap<String, u32>,
    sites: Vec<Place>,
    site_numbers: HashMap<Place, u32>,
    stacks: Vec<Vec<u64>>,
    modules: Vec<Module>,
    this: GenerationEnd,
    total: TraceEnd,
}

impl<W: Write> Recorder<W> {
    /// Writes the header `info` and makes ready for the first generation. Blocks take up to
    /// `chunk_bytes`, or the nearest size that a block can have. (`info.first_block` and
    /// `info.block_bytes` are overwritten: blocks follow at once and have different sizes.)
    ///
    /// # Errors
    ///
    /// When `out` cannot be written to.
    pub fn new(mut out: W, info: &HeaderInfo, chunk_bytes: usize) -> io::Result<Recorder<W>> {
        let tight = HeaderInfo::new(info.ticks_per_second);
        let info = HeaderInfo {
            first_block: tight.first_block,
            block_bytes: tight.block_bytes,
            ..*info
        };
        out.write_all(&encode(&info))?;
        Ok(Recorder {
            out,
            chunk_bytes: chunk_bytes.clamp(MIN_CHUNK_BYTES, MAX_BLOCK_BYTES),
            generation: None,
            streams: HashMap::new(),
            texts: Vec::new(),
            text_numbers: HashMap::new(),
            sites: Vec::new(),
            site_numbers: HashMap::new(),
            stacks: Vec::new(),
            modules: Vec::new(),
            this: GenerationEnd {
                generation: 0,
                blocks: 0,
                events: 0,
                lost: 0,
            },
            total: TraceEnd {
                generations: 0,
                events: 0,
                lost: 0,
            },
        })
    }

    /// The number of `text`, defined in each generation from this one on.
    pub fn text(&mut self, text: &str) -> u32 {
        if let Some(known) = KNOWN_TEXTS.iter().position(|known| *known == text) {
            return known as u32;
        }
        if let Some(&number) = self.text_numbers.get(text) {
            return number;
        }
        let number = text_number(self.texts.len() as u32);
        self.texts.push(text.to_owned());
        self.text_numbers.insert(text.to_owned(), number);
        number
    }

    /// The number of a site, defined in each generation from this one on.
    pub fn site(&mut self, function: &str, file: &str, line: u32, column: u32) -> u32 {
        let (function, file) = (self.text(function), self.text(file));
        let place = Place {
            function,
            file,
            line,
            column,
        };
        let next = self.sites.len() as u32 + 1;
        *self.site_numbers.entry(place).or_insert_with(|| {
            self.sites.push(place);
            next
        })
    }

    /// The number of a stack (addresses, leaf first), defined in each generation from this one on.
    pub fn stack(&mut self, addresses: &[u64]) -> u32 {
        if let Some(known) = self.stacks.iter().position(|known| known == addresses) {
            return known as u32 + 1;
        }
        self.stacks.push(addresses.to_vec());
        self.stacks.len() as u32
    }

    /// Tells of a piece of a loaded file, in each generation from this one on.
    pub fn module(&mut self, module: Module) {
        self.modules.push(module);
    }

    /// Ends the generation that is open, if one is, and begins the next. The first one has number 1.
    ///
    /// # Errors
    ///
    /// When the sink cannot be written to.
    pub fn begin_generation(&mut self, clocks: ClockPair) -> io::Result<()> {
        self.end_generation()?;
        self.streams.clear();
        let generation = self.this.generation.saturating_add(1);
        self.generation = Some(generation);
        self.this = GenerationEnd {
            generation,
            blocks: 0,
            events: 0,
            lost: 0,
        };
        self.control(clocks.ticks, |encoder, chunk| {
            encoder.gen_begin(chunk, generation);
            encoder.clock_pair(chunk, clocks);
        })
    }

    /// Records something that `m` did, whose P and goroutine before that were `context`, at time
    /// `now` (or later): `call` makes calls of the encoder that need [`Encoder::has_room`] once.
    ///
    /// # Errors
    ///
    /// When the sink cannot be written to, or no generation was begun.
    #[inline]
    pub fn record(
        &mut self,
        m: MId,
        now: u64,
        context: Context,
        call: impl FnOnce(&mut Encoder, &mut [u8]),
    ) -> io::Result<()> {
        let stream = self.room((BlockKind::Events, Some(m)), now, context)?;
        call(&mut stream.encoder, &mut stream.chunk);
        Ok(())
    }

    /// As [`Recorder::record`], for a call that says whether there was room for it
    /// ([`Encoder::log`]). Returns what it said last.
    ///
    /// # Errors
    ///
    /// As [`Recorder::record`].
    pub fn try_record(
        &mut self,
        m: MId,
        now: u64,
        context: Context,
        mut call: impl FnMut(&mut Encoder, &mut [u8]) -> bool,
    ) -> io::Result<bool> {
        let key = (BlockKind::Events, Some(m));
        let stream = self.room(key, now, context)?;
        if call(&mut stream.encoder, &mut stream.chunk) {
            return Ok(true);
        }
        self.close(key)?;
        let stream = self.room(key, now, context)?;
        Ok(call(&mut stream.encoder, &mut stream.chunk))
    }

    /// Records CPU samples of `m`.
    ///
    /// # Errors
    ///
    /// As [`Recorder::record`].
    pub fn sample(
        &mut self,
        m: MId,
        now: u64,
        call: impl FnOnce(&mut Encoder, &mut [u8]),
    ) -> io::Result<()> {
        let stream = self.room((BlockKind::Samples, Some(m)), now, Context::default())?;
        call(&mut stream.encoder, &mut stream.chunk);
        Ok(())
    }

    /// Records something in a control block: statuses, losses.
    ///
    /// # Errors
    ///
    /// As [`Recorder::record`].
    pub fn control(
        &mut self,
        now: u64,
        call: impl FnOnce(&mut Encoder, &mut [u8]),
    ) -> io::Result<()> {
        let stream = self.room((BlockKind::Control, None), now, Context::default())?;
        call(&mut stream.encoder, &mut stream.chunk);
        Ok(())
    }

    /// Says at the end of the generation that `events` events were lost.
    pub fn add_lost(&mut self, events: u64) {
        self.this.lost += events;
    }

    /// Writes the tables and the end of the generation that is open, if one is.
    ///
    /// # Errors
    ///
    /// When the sink cannot be written to.
    pub fn end_generation(&mut self) -> io::Result<()> {
        if self.generation.is_none() {
            return Ok(());
        }
        self.close_all()?;
        self.write_tables()?;
        let end = self.this;
        self.control(0, |encoder, chunk| encoder.gen_end(chunk, &end))?;
        self.close((BlockKind::Control, None))?;
        self.total.generations += 1;
        self.total.events += end.events;
        self.total.lost += end.lost;
        self.generation = None;
        Ok(())
    }

    /// Ends the trace and gives the sink back, flushed.
    ///
    /// # Errors
    ///
    /// When the sink cannot be written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_generation()?;
        self.generation = Some(self.this.generation);
        let end = self.total;
        self.control(0, |encoder, chunk| encoder.trace_end(chunk, &end))?;
        self.close((BlockKind::Control, None))?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// What was written so far, given back without an end: as if the process had died here. Blocks
    /// that are open are written unsealed, at their full size.
    ///
    /// # Errors
    ///
    /// When the sink cannot be written to.
    pub fn abandon(mut self) -> io::Result<W> {
        let mut open: Vec<_> = self.streams.iter().filter(|(_, s)| s.open).collect();
        open.sort_by_key(|(key, _)| **key);
        for (_, stream) in open {
            self.out.write_all(&stream.chunk)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// The stream `key` with an open block that has room for a call.
    fn room(
        &mut self,
        key: (BlockKind, Option<MId>),
        now: u64,
        context: Context,
    ) -> io::Result<&mut Stream> {
        let ready = self
            .streams
            .get(&key)
            .is_some_and(|s| s.open && s.encoder.has_room(&s.chunk));
        if !ready {
            self.close(key)?;
            let sequence = self.streams.get(&key).map_or(0, |s| s.sequence);
            self.open(key, now, context, sequence)?;
        }
        self.streams
            .get_mut(&key)
            .ok_or_else(|| io::Error::other("a block that was just opened"))
    }

    fn open(
        &mut self,
        key: (BlockKind, Option<MId>),
        now: u64,
        context: Context,
        sequence: u32,
    ) -> io::Result<()> {
        let generation = self.generation.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "no generation was begun: nothing to record in",
            )
        })?;
        let chunk_bytes = self.chunk_bytes;
        let stream = self.streams.entry(key).or_insert_with(|| Stream {
            encoder: Encoder::new(),
            chunk: vec![0; chunk_bytes],
            sequence,
            open: false,
        });
        let (kind, m) = key;
        let head = BlockHead {
            kind,
            generation,
            sequence,
            m,
            base_time: now,
            g: context.g,
            p: context.p,
        };
        stream.chunk.fill(0);
        stream.encoder.begin(&mut stream.chunk, &head);
        stream.open = true;
        Ok(())
    }

    /// Seals and writes the open block of stream `key`, if it has one.
    fn close(&mut self, key: (BlockKind, Option<MId>)) -> io::Result<()> {
        let Some(stream) = self.streams.get_mut(&key).filter(|s| s.open) else {
            return Ok(());
        };
        stream.open = false;
        stream.sequence = stream.sequence.wrapping_add(1);
        if key.0 != BlockKind::Control {
            self.this.blocks += 1;
            self.this.events += stream.encoder.events();
        }
        stream.encoder.seal(&mut stream.chunk, false);
        match tighten_block(&mut stream.chunk) {
            Some(bytes) => self.out.write_all(bytes),
            None => Ok(()),
        }
    }

    fn close_all(&mut self) -> io::Result<()> {
        let mut keys: Vec<_> = self.streams.keys().copied().collect();
        keys.sort();
        for key in keys {
            self.close(key)?;
        }
        Ok(())
    }

    fn write_tables(&mut self) -> io::Result<()> {
        let mut tables = TableWriter {
            encoder: TableEncoder::new(),
            chunk: vec![0; self.chunk_bytes],
            generation: self.this.generation,
            sequence: 0,
        };
        let out = &mut self.out;
        for (id, text) in self.texts.iter().enumerate() {
            tables.put(out, |encoder, chunk| encoder.string(chunk, id as u32, text))?;
        }
        for (id, site) in self.sites.iter().enumerate() {
            tables.put(out, |encoder, chunk| {
                encoder.site(chunk, id as u32 + 1, site)
            })?;
        }
        for (id, stack) in self.stacks.iter().enumerate() {
            tables.put(out, |encoder, chunk| {
                encoder.stack(chunk, id as u32 + 1, stack)
            })?;
        }
        for module in &self.modules {
            tables.put(out, |encoder, chunk| encoder.module(chunk, module))?;
        }
        tables.close(out)?;
        self.this.blocks += u64::from(tables.sequence);
        Ok(())
    }
}

/// Writes table blocks one after the other.
struct TableWriter {
    encoder: TableEncoder,
    chunk: Vec<u8>,
    generation: u32,
    /// Blocks that were written.
    sequence: u32,
}

impl TableWriter {
    fn put<W: Write>(
        &mut self,
        out: &mut W,
        mut call: impl FnMut(&mut TableEncoder, &mut [u8]) -> bool,
    ) -> io::Result<()> {
        for _ in 0..2 {
            if self.encoder.used() == 0 {
                self.chunk.fill(0);
                self.encoder
                    .begin(&mut self.chunk, self.generation, self.sequence);
            }
            if call(&mut self.encoder, &mut self.chunk) {
                return Ok(());
            }
            self.close(out)?;
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a table record is larger than a block: use larger blocks",
        ))
    }

    fn close<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.encoder.used() == 0 {
            return Ok(());
        }
        self.encoder.seal(&mut self.chunk, false);
        self.sequence += 1;
        match tighten_block(&mut self.chunk) {
            Some(bytes) => out.write_all(bytes),
            None => Ok(()),
        }
    }
}
