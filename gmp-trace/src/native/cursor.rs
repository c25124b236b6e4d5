//! One stream of a generation: the records of one M's blocks, one after the other.

use crate::anomaly::{Anomalies, AnomalyKind};
use crate::error::Error;
use crate::id::{MId, ObjectId};
use crate::input::ReadAt;
use crate::limits::{MAX_ARGUMENTS, WAIT_SLOTS};
use crate::native::blocks::{Block, BlockState};
use crate::native::lookup::Lookup;
use crate::native::parse::{self, Args, Stop};
use crate::spec::{ARITY_LENGTH, HEADS, Head, Kind, unknown_has_dt};
use crate::tables::{SiteRef, StackRef, Text};
use crate::varint::unzigzag;

/// What a wait slot of a block means.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitMeaning {
    pub(super) reason: Text,
    pub(super) object: Option<ObjectId>,
    pub(super) site: Option<SiteRef>,
}

/// A record with its meaning still in numbers; goroutines are absolute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoded {
    /// Its head; `None` for one that this version does not know.
    pub(super) head: Option<&'static Head>,
    /// The head byte itself.
    pub(super) byte: u8,
    pub(super) args: Args,
    /// Where the text of a record with a length of its own is in the payload.
    tail: (usize, usize),
}

/// What the block that was just opened says its M held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    /// Whether blocks before it are missing, so that nothing else is known of the M.
    pub(super) after_gap: bool,
    /// Whether it is the first of the generation.
    pub(super) first: bool,
    pub(super) g: Option<crate::id::GId>,
    pub(super) p: Option<crate::id::PId>,
}

/// What every cursor of a generation needs to decode.
pub(super) struct Environment<'a> {
    pub(super) arities: &'a [u8; 256],
    pub(super) lookup: &'a Lookup,
    pub(super) anomalies: &'a mut Anomalies,
    /// Where payloads are that were left in the file, and what it said when they could not be read.
    pub(super) file: Option<&'a dyn ReadAt>,
    pub(super) failed: &'a mut Option<Error>,
}

/// Reads the records of one stream.
#[derive(Debug)]
pub(super) struct Cursor {
    /// The M whose events these are.
    pub(super) m: Option<MId>,
    /// Time of the record, in units of the clock.
    pub(super) time: u64,
    /// The record that is next to be given, while `ready`.
    pub(super) record: Decoded,
    /// Whether `record` was decoded and not yet given.
    pub(super) ready: bool,
    /// Where the next event happened.
    pub(super) stack: Option<StackRef>,
    /// Set where a block was opened whose head the order has not seen.
    pub(super) opened: Option<Opened>,
    blocks: std::vec::IntoIter<Block>,
    /// The payload of the open block; empty where none is open.
    payload: Vec<u8>,
    position: usize,
    /// Where the open block begins in the file, and how far it can be believed.
    offset: u64,
    state: BlockState,
    last_goroutine: u64,
    /// What the slots mean; empty until the block defines one.
    waits: Vec<Option<WaitMeaning>>,
    events: u64,
    next_sequence: u32,
}

impl Cursor {
    /// A cursor over `blocks`, which are in order of their sequence.
    pub(super) fn new(m: Option<MId>, blocks: Vec<Block>) -> Cursor {
        Cursor {
            m,
            time: 0,
            record: Decoded {
                head: None,
                byte: 0,
                args: [0; 16],
                tail: (0, 0),
            },
            ready: false,
            stack: None,
            opened: None,
            blocks: blocks.into_iter(),
            payload: Vec::new(),
            position: 0,
            offset: 0,
            state: BlockState::Damaged,
            last_goroutine: 0,
            waits: Vec::new(),
            events: 0,
            next_sequence: 0,
        }
    }

    /// Where the block of the record begins in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The text of the record, one with a length of its own.
    pub(super) fn tail(&self) -> &[u8] {
        let (start, end) = self.record.tail;
        self.payload.get(start..end).unwrap_or_default()
    }

    /// The meaning of wait slot `slot`; one that was not defined is counted.
    #[inline]
    pub(super) fn wait(&self, slot: u64, anomalies: &mut Anomalies) -> WaitMeaning {
        match usize::try_from(slot)
            .ok()
            .and_then(|slot| self.waits.get(slot))
        {
            Some(Some(meaning)) => *meaning,
            _ => {
                anomalies.add(AnomalyKind::MissingTable, self.offset, 0);
                WaitMeaning {
                    reason: Text::EMPTY,
                    object: None,
                    site: None,
                }
            }
        }
    }

    /// Decodes the next record that is not a definition; returns false at the end of the stream.
    #[inline(always)]
    pub(super) fn advance(&mut self, environment: &mut Environment<'_>) -> bool {
        loop {
            let rest = self.payload.get(self.position..).unwrap_or_default();
            match parse::record(rest, environment.arities, &mut self.record.args) {
                Ok(raw) => {
                    let end = self.payload.len() - raw.rest.len();
                    self.position = end;
                    self.record.byte = raw.head;
                    self.record.head = HEADS[raw.head as usize].as_ref();
                    let given = match self.record.head {
                        Some(head) if head.plain => {
                            self.interpret(head);
                            true
                        }
                        _ => {
                            self.record.tail = (end - raw.tail.len(), end);
                            self.interpret_special(environment)
                        }
                    };
                    if given {
                        self.ready = true;
                        return true;
                    }
                }
                Err(stop) => {
                    self.end_block(stop, environment);
                    if !self.next_block(environment) {
                        return false;
                    }
                }
            }
        }
    }

    /// Brings the state of the block up to a plain record.
    #[inline(always)]
    fn interpret(&mut self, head: &Head) {
        let args = &mut self.record.args;
        self.time = self.time.saturating_add(args[0]);
        if head.goroutine_at != 0 {
            let place = &mut args[(head.goroutine_at & 15) as usize];
            self.last_goroutine = self.last_goroutine.wrapping_add_signed(unzigzag(*place));
            *place = self.last_goroutine;
        }
        self.events += u64::from(head.events);
    }

    /// Brings the state of the block up to a record that is not plain; returns false for one that is
    /// not given on.
    #[inline(never)]
    fn interpret_special(&mut self, environment: &mut Environment<'_>) -> bool {
        let Some(head) = self.record.head else {
            self.interpret_unknown(environment);
            return true;
        };
        let first = self.record.args[0];
        match head.kind {
            Kind::WaitDef => {
                self.define_wait(environment);
                return false;
            }
            Kind::AtStack => {
                self.stack = environment.lookup.stack_ref(first);
                if self.stack.is_none() {
                    environment
                        .anomalies
                        .add(AnomalyKind::MissingTable, self.offset, 0);
                }
                return false;
            }
            Kind::CpuSample => self.time = first,
            Kind::Log => return self.interpret_log(environment),
            _ => {}
        }
        self.events += u64::from(head.events);
        true
    }

    /// Takes the time of a record that this version does not know, and leaves its first numbers in
    /// `args`, the others being 0.
    #[cold]
    fn interpret_unknown(&mut self, environment: &mut Environment<'_>) {
        let arity = environment.arities[self.record.byte as usize];
        let mut args = [0; 16];
        if arity == ARITY_LENGTH {
            let tail = self.tail();
            for count in 1..=4 {
                if parse::leading_numbers(tail, count, &mut args).is_none() {
                    break;
                }
            }
        } else {
            let numbers = usize::from(arity).min(MAX_ARGUMENTS);
            args[..numbers].copy_from_slice(&self.record.args[..numbers]);
        }
        if unknown_has_dt(self.record.byte) {
            self.time = self.time.saturating_add(args[0]);
        }
        self.record.args = args;
        self.events += 1;
        environment
            .anomalies
            .add(AnomalyKind::UnknownKind, self.offset(), 0);
    }

    fn interpret_log(&mut self, environment: &mut Environment<'_>) -> bool {
        let mut args = [0; 16];
        let numbers = Kind::Log.spec().args.len();
        let (start, end) = self.record.tail;
        let Some(text) = parse::leading_numbers(self.tail(), numbers, &mut args) else {
            let bytes = (end - start) as u64;
            environment
                .anomalies
                .add(AnomalyKind::BadRecord, self.offset(), bytes);
            return false;
        };
        self.record.tail = (end - text.len(), end);
        self.record.args = args;
        self.time = self.time.saturating_add(args[0]);
        self.events += 1;
        true
    }

    #[cold]
    fn define_wait(&mut self, environment: &mut Environment<'_>) {
        let [slot, reason, object, site, ..] = self.record.args;
        let offset = self.offset();
        let (lookup, anomalies) = (environment.lookup, &mut *environment.anomalies);
        let reason = lookup.text(reason).unwrap_or_else(|| {
            anomalies.add(AnomalyKind::MissingTable, offset, 0);
            Text::EMPTY
        });
        let known_site = lookup.site_ref(site);
        if known_site.is_none() && site != 0 {
            anomalies.add(AnomalyKind::MissingTable, offset, 0);
        }
        self.waits.resize(WAIT_SLOTS, None);
        match usize::try_from(slot)
            .ok()
            .and_then(|slot| self.waits.get_mut(slot))
        {
            Some(place) => {
                let object = ObjectId::new(object);
                *place = Some(WaitMeaning {
                    reason,
                    object,
                    site: known_site,
                });
            }
            None => anomalies.add(AnomalyKind::BadRecord, offset, 0),
        }
    }

    /// Opens the next block of the stream; returns false where there is none.
    #[cold]
    fn next_block(&mut self, environment: &mut Environment<'_>) -> bool {
        let Some(mut block) = self.blocks.next() else {
            return false;
        };
        let payload = block.payload(environment.file).unwrap_or_else(|error| {
            let error = Error::io(block.offset, error);
            environment.failed.get_or_insert(error);
            Vec::new()
        });
        let gone = block.left.saturating_sub(payload.len()) as u64;
        if gone > 0 {
            environment
                .anomalies
                .add(AnomalyKind::Truncated, block.offset, gone);
            block.state = BlockState::Open;
        }
        let missing = block.sequence.wrapping_sub(self.next_sequence);
        if missing != 0 {
            let missing = u64::from(missing);
            environment
                .anomalies
                .add(AnomalyKind::MissingBlock, block.offset, missing);
        }
        let first = self.next_sequence == 0;
        let after_gap = missing != 0 || self.opened.is_some_and(|o| o.after_gap);
        self.next_sequence = block.sequence.wrapping_add(1);
        self.opened = Some(Opened {
            after_gap: after_gap || block.state == BlockState::Damaged,
            first,
            g: block.g,
            p: block.p,
        });
        self.position = 0;
        self.time = block.base_time;
        self.last_goroutine = block.g.map_or(0, crate::id::GId::get);
        self.waits.clear();
        self.stack = None;
        self.events = 0;
        (self.offset, self.state, self.payload) = (block.offset, block.state, payload);
        true
    }

    /// Closes the block at a place where no record could be read.
    #[cold]
    fn end_block(&mut self, stop: Stop, environment: &mut Environment<'_>) {
        let left = self.payload.len().saturating_sub(self.position) as u64;
        match self.state {
            BlockState::Damaged => {}
            BlockState::Open if stop != Stop::Bad => {}
            _ if left > 0 => {
                environment
                    .anomalies
                    .add(AnomalyKind::BadRecord, self.offset, left);
            }
            BlockState::Whole { events } if u64::from(events) != self.events => {
                environment
                    .anomalies
                    .add(AnomalyKind::CountMismatch, self.offset, 0);
            }
            _ => {}
        }
        // Nothing more is said of it, however often the end is looked for.
        (self.state, self.payload, self.position) = (BlockState::Damaged, Vec::new(), 0);
    }
}
