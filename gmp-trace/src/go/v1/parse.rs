//! The records of a trace up to Go 1.21: where the batches of each P are, the tables, and one event
//! after the other of a P.

use std::collections::HashMap;

use super::kinds::{self, KINDS};
use crate::anomaly::Anomalies;
use crate::error::Error;
use crate::go::fault::Fault;
use crate::go::generation::Names;
use crate::go::id_table::IdTable;
use crate::go::numbers::Bytes;
use crate::tables::{Frame, Tables, Text};

/// Bytes of a string, at most.
const MAX_STRING_BYTES: u64 = 1_000_000;

/// Bytes of a record with a length, at most.
const MAX_RECORD_BYTES: u64 = 2048;

/// Bytes of the record of a stack, at most.
const MAX_STACK_BYTES: u64 = 64 << 10;

/// Frames of a stack, at most.
const MAX_FRAMES: u64 = 1000;

/// Numbers of an event after its time, at most.
pub(super) const MAX_ARGS: usize = 4;

/// An event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Raw {
    pub(super) kind: u8,
    /// The P; `-1` for none.
    pub(super) p: i32,
    pub(super) g: u64,
    /// In ticks of the clock.
    pub(super) time: u64,
    pub(super) args: [u64; MAX_ARGS],
    pub(super) stack: u64,
    /// The message of a log.
    pub(super) message: u32,
    /// Where it is in the file.
    pub(super) offset: u64,
}

/// One batch: where its records are, and its time.
#[derive(Clone, Copy, Debug)]
struct Span {
    begin: usize,
    end: usize,
    time: u64,
}

/// Everything of a file but its events in order.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) procs: Vec<ProcBatches>,
    pub(super) samples: Vec<Raw>,
    pub(super) names: Names,
    /// Ticks a second.
    pub(super) frequency: Option<u64>,
}

impl Index {
    /// How many batches there are.
    pub(super) fn blocks(&self) -> usize {
        self.procs.iter().map(|proc| proc.spans.len()).sum()
    }
}

/// The batches of one P.
#[derive(Debug)]
pub(super) struct ProcBatches {
    pub(super) p: i32,
    spans: Vec<Span>,
    next_span: usize,
    at: usize,
    end: usize,
    time: u64,
    g: u64,
}

/// A record as it stands in the file.
struct Record<'a> {
    kind: u8,
    args: Args<'a>,
    message: &'a [u8],
}

enum Args<'a> {
    Few([u64; 3], usize),
    Counted(&'a [u8]),
    String(u64),
}

/// What is wrong with a record.
struct Bad {
    fault: Fault,
    /// Whether it is known where the next one begins, which is where the reader is.
    delimited: bool,
}

impl From<Fault> for Bad {
    fn from(fault: Fault) -> Bad {
        Bad {
            fault,
            delimited: false,
        }
    }
}

/// Reads one record. The head of each tells where it ends, also of one of a kind that is not known.
fn record<'a>(reader: &mut Bytes<'a>) -> Result<Record<'a>, Bad> {
    let head = reader.byte().unwrap_or(0);
    let kind = head & 0x3f;
    let count = usize::from(head >> 6) + 1;
    let name = KINDS.get(kind as usize).map_or("", |known| known.name);
    if kind == kinds::STRING {
        let args = Args::String(reader.number("the id of a string")?);
        let message = text(reader)?;
        return Ok(Record {
            kind,
            args,
            message,
        });
    }
    let mut fault = None;
    let args = if count < 4 {
        let mut args = [0; 3];
        for arg in args.iter_mut().take(count) {
            *arg = reader.number(name)?;
        }
        Args::Few(args, count)
    } else {
        let length = reader.number(name)?;
        let limit = match kind {
            kinds::STACK => MAX_STACK_BYTES,
            _ => MAX_RECORD_BYTES,
        };
        if length > limit {
            fault = Some(Fault::Legacy("a record that is too long"));
        }
        let bytes = usize::try_from(length)
            .ok()
            .and_then(|length| reader.take(length));
        Args::Counted(bytes.ok_or(fault.unwrap_or(Fault::Truncated("a whole record")))?)
    };
    let message = match args {
        Args::Counted(_) if kind == kinds::USER_LOG => text(reader)?,
        _ => &[],
    };
    if name.is_empty() {
        fault = Some(Fault::UnknownEvent(kind));
    }
    match fault {
        None => Ok(Record {
            kind,
            args,
            message,
        }),
        Some(fault) => Err(Bad {
            fault,
            delimited: true,
        }),
    }
}

fn text<'a>(reader: &mut Bytes<'a>) -> Result<&'a [u8], Fault> {
    let length = reader.number("the length of a string")?;
    if length > MAX_STRING_BYTES {
        return Err(Fault::StringTooLong(length));
    }
    reader
        .take(length as usize)
        .ok_or(Fault::Truncated("a whole string"))
}

/// Reads all numbers of a record, exactly as many as `out` holds.
fn numbers(args: &Args<'_>, out: &mut [u64], name: &'static str) -> Result<(), Fault> {
    match args {
        Args::Few(few, count) if *count == out.len() => {
            out.copy_from_slice(few.get(..*count).unwrap_or_default());
            Ok(())
        }
        Args::Counted(bytes) => {
            let mut reader = Bytes::new(bytes);
            for number in out.iter_mut() {
                *number = reader.number(name)?;
            }
            if reader.is_empty() {
                Ok(())
            } else {
                Err(Fault::BadNumber(name))
            }
        }
        _ => Err(Fault::BadNumber(name)),
    }
}

/// Reads everything that is not in order: the first way through a file.
struct Indexer<'a> {
    strict: bool,
    strings: Vec<(u64, u32)>,
    /// Where each of them is.
    string_offsets: Vec<u64>,
    /// With where each is.
    stacks: Vec<(&'a [u8], u64)>,
    procs: Vec<ProcBatches>,
    by_p: HashMap<i32, usize>,
    current: Option<usize>,
    samples: Vec<Raw>,
    frequency: Option<u64>,
}

/// Indexes `bytes`, which begin with the file's header.
///
/// # Errors
///
/// What a strict reader finds wrong.
pub(super) fn index(
    bytes: &[u8],
    strict: bool,
    tables: &mut Tables,
    anomalies: &mut Anomalies,
) -> Result<Index, Error> {
    let mut indexer = Indexer {
        strict,
        strings: Vec::new(),
        string_offsets: Vec::new(),
        stacks: Vec::new(),
        procs: Vec::new(),
        by_p: HashMap::new(),
        current: None,
        samples: Vec::new(),
        frequency: None,
    };
    let mut reader = Bytes::new(bytes);
    reader.take(crate::go::header::HEADER_BYTES);
    while !reader.is_empty() {
        let at = reader.read();
        let bad = match record(&mut reader) {
            Ok(record) => {
                let taken = indexer.take(record, at, reader.read(), tables);
                taken.err().map(|fault| (fault, true))
            }
            // The way through the events counts what is in a batch.
            Err(bad) if bad.delimited && !strict && indexer.current.is_some() => None,
            Err(bad) => Some((bad.fault, bad.delimited)),
        };
        let Some((fault, delimited)) = bad else {
            continue;
        };
        if strict {
            return Err(fault.into_error(at as u64));
        }
        if delimited {
            anomalies.add(fault.kind(), at as u64, (reader.read() - at) as u64);
            continue;
        }
        // Nothing tells where the next record begins.
        let fault = match reader.is_empty() || bytes.len() - at < 64 {
            true => Fault::Truncated("a whole record"),
            false => fault,
        };
        anomalies.add(fault.kind(), at as u64, (bytes.len() - at) as u64);
        indexer.end_batch(at);
        break;
    }
    indexer.end_batch(reader.read());
    indexer.finish(tables, anomalies)
}

impl<'a> Indexer<'a> {
    fn take(
        &mut self,
        record: Record<'a>,
        begin: usize,
        end: usize,
        tables: &mut Tables,
    ) -> Result<(), Fault> {
        if let Args::String(id) = record.args {
            if id == 0 || record.message.is_empty() {
                return Err(Fault::BadId { what: "string", id });
            }
            let text = tables.intern_text(&String::from_utf8_lossy(record.message));
            self.strings.push((id, text.0));
            self.string_offsets.push(begin as u64);
            return Ok(());
        }
        if record.kind == kinds::BATCH {
            // Events behind a batch that cannot be read are of nobody.
            self.end_batch(begin);
            let mut args = [0; 2];
            numbers(&record.args, &mut args, "a batch")?;
            return self.begin_batch(args, end);
        }
        if self.current.is_none() {
            return Err(Fault::Legacy("an event that is in no batch"));
        }
        match record.kind {
            kinds::FREQUENCY => {
                let mut args = [0];
                numbers(&record.args, &mut args, "a frequency")?;
                if args[0] == 0 || args[0] > i64::MAX as u64 {
                    return Err(Fault::TimesOutOfOrder);
                }
                self.frequency = Some(args[0]);
            }
            kinds::TIMER_GOROUTINE => numbers(&record.args, &mut [0], "a goroutine")?,
            kinds::STACK => match record.args {
                Args::Counted(bytes) => self.stacks.push((bytes, begin as u64)),
                _ => return Err(Fault::BadNumber("a stack")),
            },
            kinds::CPU_SAMPLE => {
                let mut args = [0; 5];
                numbers(&record.args, &mut args, "a CPU sample")?;
                let [_, time, p, g, stack] = args;
                let (kind, p, offset) = (kinds::CPU_SAMPLE, p as i32, begin as u64);
                self.samples.push(Raw {
                    kind,
                    p,
                    g,
                    time,
                    stack,
                    offset,
                    ..Raw::default()
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_batch(&mut self, args: [u64; 2], end: usize) -> Result<(), Fault> {
        let [p, time] = args;
        let p = match i32::try_from(p) {
            Ok(p) => p,
            Err(_) if p == u64::MAX => -1,
            Err(_) => return Err(Fault::BadId { what: "P", id: p }),
        };
        let place = *self.by_p.entry(p).or_insert_with(|| {
            let (spans, next_span) = (Vec::new(), 0);
            self.procs.push(ProcBatches {
                p,
                spans,
                next_span,
                at: 0,
                end: 0,
                time: 0,
                g: 0,
            });
            self.procs.len() - 1
        });
        self.current = Some(place);
        if let Some(proc) = self.procs.get_mut(place) {
            proc.spans.push(Span {
                begin: end,
                end,
                time,
            });
        }
        Ok(())
    }

    fn end_batch(&mut self, end: usize) {
        if let Some(proc) = self.current.and_then(|place| self.procs.get_mut(place))
            && let Some(span) = proc.spans.last_mut()
        {
            span.end = end.max(span.begin);
        }
        self.current = None;
    }

    fn note(&self, fault: Fault, at: u64, anomalies: &mut Anomalies) -> Result<(), Error> {
        if self.strict {
            return Err(fault.into_error(at));
        }
        anomalies.add(fault.kind(), at, 0);
        Ok(())
    }

    fn finish(mut self, tables: &mut Tables, anomalies: &mut Anomalies) -> Result<Index, Error> {
        let (strings, twice) = IdTable::new(&self.strings);
        if let Some(id) = twice {
            let again = |(entry, _): &(&(u64, u32), _)| entry.0 == id;
            let mut places = self.strings.iter().zip(&self.string_offsets).filter(again);
            let at = places.nth(1).map_or(0, |(_, &at)| at);
            let fault = Fault::DefinedTwice { what: "string", id };
            self.note(fault, at, anomalies)?;
        }
        let names = Names::new(strings, IdTable::empty());
        let mut stacks = Vec::new();
        for (bytes, at) in std::mem::take(&mut self.stacks) {
            match stack(bytes, &names, tables) {
                Ok(Some(entry)) => stacks.push(entry),
                Ok(None) => {}
                Err(fault) => self.note(fault, at, anomalies)?,
            }
        }
        self.samples.sort_by_key(|sample| sample.time);
        Ok(Index {
            procs: self.procs,
            samples: self.samples,
            names: names.with_stacks(IdTable::new(&stacks).0),
            frequency: self.frequency,
        })
    }
}

/// Reads the record of a stack; `None` for one without frames.
fn stack(bytes: &[u8], names: &Names, tables: &mut Tables) -> Result<Option<(u64, u32)>, Fault> {
    let mut reader = Bytes::new(bytes);
    let id = reader.number("the id of a stack")?;
    let count = reader.number("the depth of a stack")?;
    if count > MAX_FRAMES {
        return Err(Fault::StackTooDeep(count));
    }
    let mut frames = Vec::new();
    for _ in 0..count {
        let pc = reader.number("an address")?;
        let function = reader.number("the function of a frame")?;
        let file = reader.number("the file of a frame")?;
        let line = reader.number("the line of a frame")?;
        frames.push(Frame {
            pc,
            function: names.text(function).unwrap_or(Text::EMPTY),
            file: names.text(file).unwrap_or(Text::EMPTY),
            line: u32::try_from(line).unwrap_or(u32::MAX),
        });
    }
    if !reader.is_empty() {
        return Err(Fault::BadNumber("a stack"));
    }
    let used = id != 0 && !frames.is_empty();
    Ok(used.then(|| (id, tables.intern_stack(&frames).0)))
}

impl ProcBatches {
    /// The next event of the P; `None` at the end.
    ///
    /// # Errors
    ///
    /// A record with too few or too many numbers; the next call goes on behind it.
    pub(super) fn next(
        &mut self,
        bytes: &[u8],
        tables: &mut Tables,
    ) -> Result<Option<Raw>, (Fault, u64)> {
        loop {
            while self.at >= self.end {
                let Some(span) = self.spans.get(self.next_span) else {
                    return Ok(None);
                };
                (self.at, self.end, self.time) = (span.begin, span.end, span.time);
                self.next_span += 1;
            }
            let at = self.at;
            let mut reader = Bytes::new(bytes.get(at..self.end).unwrap_or_default());
            let record = record(&mut reader);
            self.at += reader.read().max(1);
            let event = record.and_then(|record| Ok(self.event(record, at as u64, tables)?));
            match event {
                Ok(None) => {}
                Ok(Some(event)) => return Ok(Some(event)),
                Err(bad) => return Err((bad.fault, at as u64)),
            }
        }
    }

    fn event(
        &mut self,
        record: Record<'_>,
        offset: u64,
        tables: &mut Tables,
    ) -> Result<Option<Raw>, Fault> {
        let kind = record.kind;
        if kinds::is_structure(kind) || matches!(record.args, Args::String(_)) {
            return Ok(None);
        }
        let Some(known) = KINDS.get(kind as usize) else {
            return Ok(None);
        };
        let count = 1 + known.args + usize::from(known.stack);
        let mut all = [0; MAX_ARGS + 2];
        let Some(read) = all.get_mut(..count) else {
            return Ok(None);
        };
        numbers(&record.args, read, known.name)?;
        self.time = self.time.wrapping_add(all[0]);
        let mut event = Raw {
            kind,
            p: self.p,
            g: self.g,
            time: self.time,
            offset,
            ..Raw::default()
        };
        for (arg, &number) in event.args.iter_mut().zip(&all[1..]).take(known.args) {
            *arg = number;
        }
        if known.stack {
            event.stack = all[count - 1];
        }
        match kind {
            kinds::GO_START | kinds::GO_START_LOCAL | kinds::GO_START_LABEL => {
                self.g = event.args[0];
                event.g = self.g;
            }
            kinds::GO_SYS_EXIT
            | kinds::GO_SYS_EXIT_LOCAL
            | kinds::GO_WAITING
            | kinds::GO_IN_SYSCALL => {
                event.g = event.args[0];
            }
            kinds::USER_LOG => {
                let message = String::from_utf8_lossy(record.message);
                event.message = tables.intern_text(&message).0;
            }
            _ if kinds::ends_turn(kind) => self.g = 0,
            _ => {}
        }
        Ok(Some(event))
    }
}
