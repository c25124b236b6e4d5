//! Which blocks belong together: a generation is given on once it is whole, or nothing more of it
//! can come.

use std::collections::BTreeMap;

use crate::anomaly::{Anomalies, AnomalyKind};
use crate::block::BlockKind;
use crate::error::Error;
use crate::id::MId;
use crate::native::blocks::{Block, BlockState, Blocks};
use crate::native::lookup::each_record;
use crate::spec::Kind;

/// Generations that are held at once, at most: one that is ending and one that begins.
const HELD: usize = 2;

/// The blocks of one generation.
#[derive(Debug, Default)]
pub(super) struct Generation {
    pub(super) number: u32,
    /// Blocks of events and of samples, by kind and M, in order of their sequence.
    pub(super) streams: BTreeMap<(BlockKind, Option<MId>), Vec<Block>>,
    pub(super) tables: Vec<Block>,
    pub(super) control: Vec<Block>,
    /// Blocks that came, control blocks not counted.
    blocks: u64,
    /// Events in them, as their headers say.
    events: u64,
    /// Whether a block was damaged or not whole, so that the counts cannot be compared.
    doubtful: bool,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
struct End {
    blocks: u64,
    events: u64,
    lost: u64,
}

/// Collects blocks into generations.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    pending: BTreeMap<u32, Generation>,
    last_given: Option<u32>,
    /// What the end of the trace said: generations, events and lost events.
    trace_end: Option<[u64; 3]>,
    /// The same, counted.
    counted: [u64; 3],
    doubtful: bool,
    pub(super) blocks: u64,
    pub(super) lost: u64,
    at_end: bool,
}

impl Assembler {
    /// The next generation; `None` at the end of the trace.
    pub(super) fn next(
        &mut self,
        blocks: &mut Blocks,
        anomalies: &mut Anomalies,
    ) -> Result<Option<Generation>, Error> {
        loop {
            let first_is_whole = self
                .pending
                .first_key_value()
                .is_some_and(|(_, g)| g.end.is_some());
            if first_is_whole || self.pending.len() > HELD || self.at_end {
                let Some((number, generation)) = self.pending.pop_first() else {
                    self.finish(anomalies, blocks.offset());
                    return Ok(None);
                };
                self.last_given = Some(number);
                return Ok(Some(self.give(generation, anomalies, blocks.offset())));
            }
            match blocks.next(anomalies)? {
                Some(block) => {
                    self.blocks += 1;
                    self.add(block, blocks.arities(), anomalies);
                }
                None => self.at_end = true,
            }
        }
    }

    /// Whether the end of the trace was read.
    pub(super) fn finished(&self) -> bool {
        self.trace_end.is_some()
    }

    fn add(&mut self, block: Block, arities: &[u8; 256], anomalies: &mut Anomalies) {
        if block.kind == BlockKind::Control {
            self.look_for_ends(&block, arities, anomalies);
        }
        let number = block.generation;
        if self.last_given.is_some_and(|last| number <= last) {
            if block.kind != BlockKind::Control {
                let events = match block.state {
                    BlockState::Whole { events } => u64::from(events),
                    BlockState::Open | BlockState::Damaged => 0,
                };
                anomalies.add(AnomalyKind::LateBlock, block.offset, events);
                self.doubtful = true;
            }
            return;
        }
        let generation = self.pending.entry(number).or_insert_with(|| Generation {
            number,
            ..Generation::default()
        });
        generation.add(block);
    }

    /// Takes note of the end of a generation and of the trace.
    fn look_for_ends(&mut self, block: &Block, arities: &[u8; 256], anomalies: &mut Anomalies) {
        let mut ended = None;
        let mut complain = Some(anomalies);
        each_record(
            block,
            arities,
            &mut complain,
            |kind, args, _, _| match kind {
                Kind::GenEnd => {
                    ended = Some((
                        args[0],
                        End {
                            blocks: args[1],
                            events: args[2],
                            lost: args[3],
                        },
                    ));
                }
                Kind::TraceEnd => self.trace_end = Some([args[0], args[1], args[2]]),
                _ => {}
            },
        );
        let Some((number, end)) = ended else { return };
        let Some(number) = u32::try_from(number)
            .ok()
            .filter(|n| Some(*n) > self.last_given)
        else {
            return;
        };
        self.pending
            .entry(number)
            .or_insert_with(|| Generation {
                number,
                ..Generation::default()
            })
            .end = Some(end);
    }

    fn give(
        &mut self,
        mut generation: Generation,
        anomalies: &mut Anomalies,
        offset: u64,
    ) -> Generation {
        let mut gaps = 0;
        for blocks in generation.streams.values_mut() {
            gaps += in_sequence(blocks, anomalies);
        }
        let tables = in_sequence(&mut generation.tables, anomalies);
        if tables > 0 {
            anomalies.add(AnomalyKind::MissingBlock, offset, tables);
            gaps += tables;
        }
        self.counted[0] += 1;
        self.counted[1] += generation.events;
        self.doubtful |= generation.doubtful;
        match generation.end {
            None => {
                anomalies.add(AnomalyKind::UnendedGeneration, offset, 0);
                self.doubtful = true;
            }
            Some(end) => {
                self.counted[2] = self.counted[2].saturating_add(end.lost);
                if end.lost > 0 {
                    self.lost = self.lost.saturating_add(end.lost);
                    anomalies.add(AnomalyKind::LostEvents, offset, end.lost);
                }
                let missing = end.blocks.saturating_sub(generation.blocks);
                if missing > gaps {
                    anomalies.add(AnomalyKind::MissingBlock, offset, missing - gaps);
                }
                self.doubtful |= missing > 0;
                let differs =
                    missing == 0 && !generation.doubtful && generation.events != end.events;
                if end.blocks < generation.blocks || differs {
                    anomalies.add(AnomalyKind::CountMismatch, offset, 0);
                }
            }
        }
        generation
    }

    fn finish(&mut self, anomalies: &mut Anomalies, offset: u64) {
        match self.trace_end {
            None => anomalies.add(AnomalyKind::NotFinished, offset, 0),
            Some(end) if !self.doubtful && end != self.counted => {
                anomalies.add(AnomalyKind::CountMismatch, offset, 0);
            }
            Some(_) => {}
        }
    }
}

impl Generation {
    fn add(&mut self, block: Block) {
        if block.kind != BlockKind::Control {
            self.blocks += 1;
            match block.state {
                BlockState::Whole { events } => self.events += u64::from(events),
                BlockState::Open | BlockState::Damaged => self.doubtful = true,
            }
        }
        match block.kind {
            BlockKind::Table => self.tables.push(block),
            BlockKind::Control => self.control.push(block),
            BlockKind::Events | BlockKind::Samples => {
                self.streams
                    .entry((block.kind, block.m))
                    .or_default()
                    .push(block);
            }
        }
    }
}

/// Sorts `blocks` by their sequence and drops all but the first of equal ones; returns how many are
/// missing between them.
fn in_sequence(blocks: &mut Vec<Block>, anomalies: &mut Anomalies) -> u64 {
    blocks.sort_by_key(|block| block.sequence);
    blocks.dedup_by(|later, first| {
        let same = later.sequence == first.sequence;
        if same {
            anomalies.add(AnomalyKind::DuplicateDefinition, later.offset, 0);
        }
        same
    });
    let mut next = 0;
    let mut missing = 0;
    for block in blocks {
        missing += u64::from(block.sequence.saturating_sub(next));
        next = block.sequence.saturating_add(1);
    }
    missing
}
