//! Reading the native format: bytes → blocks → generations → records of each M → events in the order
//! of cause.
//!
//! | file | gives |
//! |---|---|
//! | `source` | bytes as they come |
//! | `parse` | headers and records of a slice (the parser library is here and nowhere else) |
//! | `blocks` | blocks that passed their checksums, after damage the next one |
//! | `generation` | blocks that belong together |
//! | `lookup` | strings, sites and stacks of a generation |
//! | `cursor` | records of one M, one after the other |
//! | `states`, `order` | which of them may go next |
//! | `bodies`, `step` | what a record says, and does |
//! | `merge`, `batch` | events of a generation |

mod batch;
pub(crate) mod blocks;
mod bodies;
mod clock;
mod cursor;
mod generation;
mod lookup;
mod merge;
mod order;
pub(crate) mod parse;
pub(crate) mod source;
mod states;
mod step;

use std::collections::HashSet;

use crate::anomaly::Anomalies;
use crate::error::Error;
use crate::event::Event;
use crate::info::{TraceFormat, TraceInfo};
use crate::input::Input;
use crate::native::batch::Batch;
use crate::native::blocks::Blocks;
use crate::native::clock::Clock;
use crate::native::generation::Assembler;
use crate::native::merge::Merge;
use crate::native::step::Shared;
use crate::tables::Tables;

/// Reads a native trace. Holds one generation and the part of the next that was read with it; of a
/// file not the events of blocks that are whole, which are read again when their turn comes.
pub(crate) struct NativeReader {
    blocks: Blocks,
    assembler: Assembler,
    shared: Shared,
    merge: Option<Merge>,
    strict: bool,
    done: bool,
}

impl NativeReader {
    /// Reads the file header.
    pub(crate) fn open(source: Input, strict: bool) -> Result<NativeReader, Error> {
        let mut anomalies = Anomalies::default();
        let (blocks, head) = Blocks::open(source, &mut anomalies)?;
        let (major, minor) = head.version;
        let mut clock = Clock::new(head.ticks_per_second);
        if let Some(start) = head.start {
            clock.set_origin(start);
        }
        let mut info = TraceInfo::new(TraceFormat::Native { major, minor }, clock.resolution());
        info.process_id = (head.process_id != 0).then_some(head.process_id);
        let shared = Shared {
            arities: Box::new(*blocks.arities()),
            tables: Tables::new(),
            anomalies,
            info,
            clock,
            modules: HashSet::new(),
            file: blocks.file().cloned(),
            failed: None,
            last_ticks: 0,
            offset: 0,
            out: Batch::new(),
        };
        Ok(NativeReader {
            blocks,
            assembler: Assembler::default(),
            shared,
            merge: None,
            strict,
            done: false,
        })
    }

    /// Reads the next events; there are none only at the end of the trace.
    pub(crate) fn next_batch(&mut self) -> Result<&[Event], Error> {
        self.shared.out.clear();
        while self.shared.out.is_empty() && !self.done {
            match &mut self.merge {
                Some(merge) => {
                    merge.fill(&mut self.shared);
                    if self.shared.out.is_empty() {
                        self.merge = None;
                    }
                }
                None => self.next_generation()?,
            }
            if let Some(error) = self.shared.failed.take() {
                self.done = true;
                return Err(error);
            }
            self.refuse_damage()?;
        }
        Ok(self.shared.out.events())
    }

    fn next_generation(&mut self) -> Result<(), Error> {
        let next = self
            .assembler
            .next(&mut self.blocks, &mut self.shared.anomalies);
        let info = &mut self.shared.info;
        info.blocks = self.assembler.blocks;
        info.bytes = self.blocks.offset();
        info.lost_events = self.assembler.lost;
        match next? {
            Some(generation) => {
                self.merge = Some(Merge::new(generation, &mut self.shared));
            }
            None => {
                info.finished = Some(self.assembler.finished());
                self.done = true;
            }
        }
        Ok(())
    }

    /// A strict reader stops at the first damage.
    fn refuse_damage(&mut self) -> Result<(), Error> {
        if !self.strict {
            return Ok(());
        }
        match self.shared.anomalies.as_error() {
            Some(error) => {
                self.shared.out.clear();
                self.done = true;
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// The events that [`NativeReader::next_batch`] gave last.
    pub(crate) fn batch(&self) -> &[Event] {
        self.shared.out.events()
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.shared.tables
    }

    pub(crate) fn anomalies(&self) -> &Anomalies {
        &self.shared.anomalies
    }

    pub(crate) fn info(&self) -> &TraceInfo {
        &self.shared.info
    }
}
