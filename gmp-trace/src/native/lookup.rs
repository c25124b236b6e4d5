//! The tables of one generation: from the numbers that its records use to interned references.

use std::collections::HashMap;

use crate::anomaly::{Anomalies, AnomalyKind};
use crate::info::LoadedModule;
use crate::limits::{FIRST_STRING, MAX_MODULES, MAX_STACK_FRAMES};
use crate::native::blocks::Block;
use crate::native::parse::{self, Args, Stop};
use crate::spec::{HEADS, Kind};
use crate::tables::{Frame, KNOWN_TEXTS, Site, SiteRef, StackRef, Tables, Text};

/// References by number: in a vector while numbers are dense, in a map where they are not, so that
/// memory follows the number of definitions.
#[derive(Debug)]
struct ById<T> {
    dense: Vec<Option<T>>,
    sparse: HashMap<u64, T>,
}

impl<T> Default for ById<T> {
    fn default() -> ById<T> {
        ById {
            dense: Vec::new(),
            sparse: HashMap::new(),
        }
    }
}

impl<T: Copy + PartialEq> ById<T> {
    /// Defines `id` unless it is; returns false where it is, as something else.
    fn define(&mut self, id: u64, value: T, definitions: usize) -> bool {
        if let Some(known) = self.get(id) {
            return known == value;
        }
        if id < 2 * definitions as u64 + 64 {
            let place = id as usize;
            if self.dense.len() <= place {
                self.dense.resize(place + 1, None);
            }
            self.dense[place] = Some(value);
        } else {
            self.sparse.insert(id, value);
        }
        true
    }

    #[inline]
    fn get(&self, id: u64) -> Option<T> {
        match usize::try_from(id)
            .ok()
            .and_then(|place| self.dense.get(place))
        {
            Some(Some(value)) => Some(*value),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&id).copied(),
        }
    }
}

/// What the table blocks of a generation define.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    strings: ById<Text>,
    sites: ById<SiteRef>,
    stacks: ById<StackRef>,
    definitions: usize,
    /// Loaded files, as often as they are told of.
    pub(super) modules: Vec<LoadedModule>,
}

impl Lookup {
    /// Reads `blocks`: strings first, since sites and modules name them whatever the order.
    pub(super) fn read(
        blocks: &[Block],
        arities: &[u8; 256],
        tables: &mut Tables,
        anomalies: &mut Anomalies,
    ) -> Lookup {
        let mut lookup = Lookup::default();
        for block in blocks {
            let mut complain = Some(&mut *anomalies);
            each_record(
                block,
                arities,
                &mut complain,
                |kind, args, tail, anomalies| {
                    if kind == Kind::String {
                        lookup.string(block, args, tail, tables, anomalies);
                    }
                },
            );
        }
        for block in blocks {
            // Whatever is wrong with the records was counted by the first pass.
            let mut silent = None;
            each_record(
                block,
                arities,
                &mut silent,
                |kind, args, tail, _| match kind {
                    Kind::Site => lookup.site(block, args, tables, anomalies),
                    Kind::Stack => lookup.stack(block, args, tail, tables, anomalies),
                    Kind::Module => lookup.module(block, args, anomalies),
                    _ => {}
                },
            );
        }
        lookup
    }

    fn string(
        &mut self,
        block: &Block,
        args: &Args,
        tail: &[u8],
        tables: &mut Tables,
        anomalies: &mut Anomalies,
    ) {
        let text = tables.intern_text(&String::from_utf8_lossy(tail));
        self.definitions += 1;
        if !self.strings.define(args[0], text, self.definitions) {
            anomalies.add(AnomalyKind::DuplicateDefinition, block.offset, 0);
        }
    }

    fn site(&mut self, block: &Block, args: &Args, tables: &mut Tables, anomalies: &mut Anomalies) {
        let [id, function, file, line, column, ..] = *args;
        let site = Site {
            function: self.text_or_count(function, block, anomalies),
            file: self.text_or_count(file, block, anomalies),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        };
        let site = tables.intern_site(site);
        self.definitions += 1;
        if !self.sites.define(id, site, self.definitions) {
            anomalies.add(AnomalyKind::DuplicateDefinition, block.offset, 0);
        }
    }

    fn stack(
        &mut self,
        block: &Block,
        args: &Args,
        tail: &[u8],
        tables: &mut Tables,
        anomalies: &mut Anomalies,
    ) {
        let (mut frames, mut rest, mut number) = (Vec::new(), tail, [0; 16]);
        while !rest.is_empty() && frames.len() < MAX_STACK_FRAMES {
            match parse::leading_numbers(rest, 1, &mut number) {
                Some(after) => rest = after,
                None => break,
            }
            let (function, file) = (Text::EMPTY, Text::EMPTY);
            frames.push(Frame {
                pc: number[0],
                function,
                file,
                line: 0,
            });
        }
        if !rest.is_empty() {
            anomalies.add(AnomalyKind::BadRecord, block.offset, rest.len() as u64);
        }
        let stack = tables.intern_stack(&frames);
        self.definitions += 1;
        if !self.stacks.define(args[0], stack, self.definitions) {
            anomalies.add(AnomalyKind::DuplicateDefinition, block.offset, 0);
        }
    }

    fn module(&mut self, block: &Block, args: &Args, anomalies: &mut Anomalies) {
        let [start, end, offset, path, build_id, ..] = *args;
        let module = LoadedModule {
            start,
            end,
            offset,
            path: self.text_or_count(path, block, anomalies),
            build_id: self.text_or_count(build_id, block, anomalies),
        };
        if self.modules.len() < MAX_MODULES {
            self.modules.push(module);
        } else {
            anomalies.add(AnomalyKind::BadRecord, block.offset, 0);
        }
    }

    fn text_or_count(&self, number: u64, block: &Block, anomalies: &mut Anomalies) -> Text {
        self.text(number).unwrap_or_else(|| {
            anomalies.add(AnomalyKind::MissingTable, block.offset, 0);
            Text::EMPTY
        })
    }

    /// The text with number `number`; `None` where it is not defined.
    #[inline]
    pub(super) fn text(&self, number: u64) -> Option<Text> {
        match number.checked_sub(u64::from(FIRST_STRING)) {
            Some(id) => self.strings.get(id),
            None if (number as usize) < KNOWN_TEXTS.len() => Some(Text(number as u32)),
            None => None,
        }
    }

    /// The site with number `number`; `None` where it is not defined.
    #[inline]
    pub(super) fn site_ref(&self, number: u64) -> Option<SiteRef> {
        self.sites.get(number)
    }

    /// The stack with number `number`; `None` where it is not defined.
    #[inline]
    pub(super) fn stack_ref(&self, number: u64) -> Option<StackRef> {
        self.stacks.get(number)
    }
}

/// Calls `each` for every record of a table or control block that this version knows, with its
/// numbers and its tail without them. What cannot be decoded is counted in `anomalies`, if given.
pub(super) fn each_record(
    block: &Block,
    arities: &[u8; 256],
    anomalies: &mut Option<&mut Anomalies>,
    mut each: impl FnMut(Kind, &Args, &[u8], &mut Anomalies),
) {
    let mut unheard = Anomalies::default();
    let anomalies = match anomalies {
        Some(anomalies) => &mut **anomalies,
        None => &mut unheard,
    };
    let mut rest = block.payload.as_slice();
    let mut args = [0; 16];
    loop {
        let record = match parse::record(rest, arities, &mut args) {
            Ok(record) => record,
            Err(stop) => {
                let open = block.state == crate::native::blocks::BlockState::Open;
                if !(rest.is_empty() || open && stop != Stop::Bad) {
                    anomalies.add(AnomalyKind::BadRecord, block.offset, rest.len() as u64);
                }
                return;
            }
        };
        let before = rest.len();
        rest = record.rest;
        let Some(head) = HEADS[record.head as usize] else {
            anomalies.add(AnomalyKind::UnknownKind, block.offset, 0);
            continue;
        };
        let mut tail = record.tail;
        if head.kind.spec().tail.is_some() {
            match parse::leading_numbers(tail, head.kind.spec().args.len(), &mut args) {
                Some(after) => tail = after,
                None => {
                    let length = (before - rest.len()) as u64;
                    anomalies.add(AnomalyKind::BadRecord, block.offset, length);
                    continue;
                }
            }
        }
        each(head.kind, &args, tail, anomalies);
    }
}
