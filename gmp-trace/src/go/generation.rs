//! One generation: its batches sorted by what they hold, its tables read.

use std::collections::{HashMap, VecDeque};

use super::batch::Batch;
use super::clock::Clock;
use super::fault::Fault;
use super::header::Version;
use super::id_table::IdTable;
use super::numbers::Bytes;
use super::spec;
use super::states::Folding;
use crate::anomaly::{Anomalies, AnomalyKind};
use crate::error::Error;
use crate::tables::{Frame, StackRef, Tables, Text};

/// A generation, ready to be put in order.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    /// The events, by thread, in the order in which the threads turn up.
    pub(crate) threads: Vec<ThreadBatches>,
    /// CPU samples by time.
    pub(crate) samples: Vec<Sample>,
    pub(crate) clock: Clock,
    pub(crate) snapshot: Option<Snapshot>,
    /// The lowest time of a batch.
    pub(crate) begin: u64,
    pub(crate) names: Names,
    /// Data of the experiment about allocations.
    pub(crate) allocations: Vec<Batch>,
    /// Where in the file it begins.
    pub(crate) offset: u64,
}

/// The strings and stacks of a generation, by their ids.
#[derive(Debug)]
pub(crate) struct Names {
    strings: IdTable,
    stacks: IdTable,
}

impl Names {
    pub(crate) fn new(strings: IdTable, stacks: IdTable) -> Names {
        Names { strings, stacks }
    }

    /// The same strings, with `stacks`.
    pub(crate) fn with_stacks(self, stacks: IdTable) -> Names {
        Names { stacks, ..self }
    }

    /// No strings and no stacks.
    pub(crate) fn empty() -> Names {
        Names {
            strings: IdTable::empty(),
            stacks: IdTable::empty(),
        }
    }

    /// The string with `id`; 0 is the empty one.
    #[inline(always)]
    pub(crate) fn text(&self, id: u64) -> Option<Text> {
        if id == 0 {
            Some(Text::EMPTY)
        } else {
            self.strings.get(id).map(Text)
        }
    }

    /// The stack with `id`; 0 is none.
    #[inline(always)]
    pub(crate) fn stack(&self, id: u64) -> Result<Option<StackRef>, Fault> {
        if id == 0 {
            return Ok(None);
        }
        match self.stacks.get(id) {
            Some(stack) => Ok(Some(StackRef(stack))),
            None => Err(Fault::NoSuchStack(id)),
        }
    }
}

/// The batches of one thread, in the order of the file.
#[derive(Debug)]
pub(crate) struct ThreadBatches {
    pub(crate) m: u64,
    pub(crate) batches: VecDeque<Batch>,
}

/// A CPU sample; its time is in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) time: i64,
    pub(crate) m: u64,
    pub(crate) p: u64,
    pub(crate) g: u64,
    pub(crate) stack: u64,
}

/// Three clocks read together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    /// Of the trace, in its units.
    pub(crate) trace: u64,
    pub(crate) mono: u64,
    pub(crate) wall_seconds: u64,
    pub(crate) wall_nanos: u64,
}

/// A generation whose batches are still coming.
#[derive(Debug)]
pub(crate) struct Loading {
    pub(crate) number: u64,
    version: Version,
    strict: bool,
    threads: Vec<ThreadBatches>,
    thread_index: HashMap<u64, usize>,
    strings: Vec<(u64, u32)>,
    stack_batches: Vec<Batch>,
    /// Of which `time` is still in units of the clock.
    samples: Vec<(u64, Sample)>,
    frequency: Option<u64>,
    snapshot: Option<Snapshot>,
    begin: Option<u64>,
    allocations: Vec<Batch>,
    offset: u64,
}

impl Loading {
    pub(crate) fn new(number: u64, version: Version, strict: bool, offset: u64) -> Loading {
        Loading {
            number,
            version,
            strict,
            threads: Vec::new(),
            thread_index: HashMap::new(),
            strings: Vec::new(),
            stack_batches: Vec::new(),
            samples: Vec::new(),
            frequency: None,
            snapshot: None,
            begin: None,
            allocations: Vec::new(),
            offset,
        }
    }

    /// Whether it has an event of a thread.
    pub(crate) fn has_events(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Whether its clock is known, without which it has no times.
    pub(crate) fn has_clock(&self) -> bool {
        self.frequency.is_some()
    }

    /// Takes a batch.
    ///
    /// # Errors
    ///
    /// A strict reader stops at what a table must not hold; else it is counted.
    pub(crate) fn add(
        &mut self,
        batch: Batch,
        tables: &mut Tables,
        anomalies: &mut Anomalies,
    ) -> Result<(), Error> {
        let time = batch.head.time;
        self.begin = Some(self.begin.map_or(time, |begin| begin.min(time)));
        if let Some(experiment) = batch.head.experiment {
            if experiment == spec::EXPERIMENT_ALLOC_FREE {
                self.allocations.push(batch);
            } else if experiment != 0 {
                let bytes = batch.len() as u64;
                anomalies.add(AnomalyKind::UnknownExperiment, batch.offset, bytes);
            }
            return Ok(());
        }
        let sync = match self.version.has_clock_snapshots() {
            true => spec::SYNC,
            false => spec::FREQUENCY,
        };
        let read = match batch.first {
            Some(spec::STRINGS) => self.add_strings(&batch, tables),
            Some(spec::STACKS) => {
                self.stack_batches.push(batch);
                return Ok(());
            }
            Some(spec::CPU_SAMPLES) => self.add_samples(&batch),
            Some(first) if first == sync => self.add_clocks(&batch),
            _ => {
                self.add_events(batch);
                return Ok(());
            }
        };
        match read {
            Err((fault, at)) if self.strict => Err(fault.into_error(batch.offset + at as u64)),
            Err((fault, at)) => {
                let rest = batch.len().saturating_sub(at) as u64;
                anomalies.add(fault.kind(), batch.offset + at as u64, rest);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn add_events(&mut self, batch: Batch) {
        let m = batch.head.m;
        let index = *self.thread_index.entry(m).or_insert_with(|| {
            self.threads.push(ThreadBatches {
                m,
                batches: VecDeque::new(),
            });
            self.threads.len() - 1
        });
        if let Some(thread) = self.threads.get_mut(index) {
            thread.batches.push_back(batch);
        }
    }

    fn add_strings(&mut self, batch: &Batch, tables: &mut Tables) -> Result<(), (Fault, usize)> {
        let mut reader = Bytes::new(batch.data());
        reader.byte();
        while !reader.is_empty() {
            let at = reader.read();
            let entry = read_string(&mut reader).map_err(|fault| (fault, at))?;
            let text = tables.intern_text(&String::from_utf8_lossy(entry.1));
            self.strings.push((entry.0, text.0));
        }
        Ok(())
    }

    fn add_samples(&mut self, batch: &Batch) -> Result<(), (Fault, usize)> {
        let mut reader = Bytes::new(batch.data());
        reader.byte();
        while !reader.is_empty() {
            let at = reader.read();
            let sample = read_sample(&mut reader).map_err(|fault| (fault, at))?;
            self.samples.push(sample);
        }
        Ok(())
    }

    fn add_clocks(&mut self, batch: &Batch) -> Result<(), (Fault, usize)> {
        let mut reader = Bytes::new(batch.data());
        if self.version.has_clock_snapshots() {
            reader.byte();
        }
        let mut time = batch.head.time;
        while !reader.is_empty() {
            let at = reader.read();
            self.read_clock(&mut reader, &mut time)
                .map_err(|fault| (fault, at))?;
        }
        Ok(())
    }

    fn read_clock(&mut self, reader: &mut Bytes<'_>, time: &mut u64) -> Result<(), Fault> {
        match reader.byte() {
            Some(spec::FREQUENCY) => {
                if self.frequency.is_some() {
                    return Err(Fault::TwoFrequencies);
                }
                let frequency = reader.number("a frequency")?;
                if frequency == 0 {
                    return Err(Fault::ZeroFrequency);
                }
                self.frequency = Some(frequency);
            }
            Some(spec::CLOCK_SNAPSHOT) if self.version.has_clock_snapshots() => {
                if self.snapshot.is_some() {
                    return Err(Fault::TwoClockSnapshots);
                }
                *time = time.wrapping_add(reader.number("the time of a clock snapshot")?);
                self.snapshot = Some(Snapshot {
                    trace: *time,
                    mono: reader.number("a monotonic clock")?,
                    wall_seconds: reader.number("a wall clock")?,
                    wall_nanos: reader.number("a wall clock")?,
                });
            }
            other => {
                let table = "frequencies and clock snapshots only";
                return Err(Fault::Misplaced {
                    table,
                    found: other.unwrap_or(0),
                });
            }
        }
        Ok(())
    }

    /// All batches are there.
    ///
    /// # Errors
    ///
    /// The clock is not known, or a strict reader finds something missing or twice.
    pub(crate) fn finish(
        mut self,
        known_clock: Option<Clock>,
        tables: &mut Tables,
        anomalies: &mut Anomalies,
    ) -> Result<Generation, Error> {
        let clock = self.clock(known_clock, anomalies)?;
        let (strings, twice) = IdTable::new(&std::mem::take(&mut self.strings));
        if let Some(id) = twice {
            self.note(Fault::DefinedTwice { what: "string", id }, anomalies)?;
        }
        let names = Names::new(strings, IdTable::empty());
        let stacks = self.read_stacks(&names, tables, anomalies)?;
        let (stacks, twice) = IdTable::new(&stacks);
        if let Some(id) = twice {
            self.note(Fault::DefinedTwice { what: "stack", id }, anomalies)?;
        }
        let names = names.with_stacks(stacks);
        let mut samples: Vec<Sample> = std::mem::take(&mut self.samples)
            .into_iter()
            .map(|(time, sample)| Sample {
                time: clock.nanos(time),
                ..sample
            })
            .collect();
        samples.sort_by_key(|sample| sample.time);
        Ok(Generation {
            number: self.number,
            threads: self.threads,
            samples,
            clock,
            snapshot: self.snapshot,
            begin: self.begin.unwrap_or(0),
            names,
            allocations: self.allocations,
            offset: self.offset,
        })
    }

    /// The clock of the generation, or that of the one before.
    fn clock(&self, known: Option<Clock>, anomalies: &mut Anomalies) -> Result<Clock, Error> {
        if self.frequency.is_none() {
            if self.strict {
                return Err(Fault::NoFrequency.into_error(self.offset));
            }
            let Some(known) = known else {
                return Err(Fault::NoFrequency.into_error(self.offset));
            };
            anomalies.add(Fault::NoFrequency.kind(), self.offset, 0);
            return Ok(known);
        }
        if self.version.has_clock_snapshots() && self.snapshot.is_none() {
            self.note(Fault::NoClockSnapshot, anomalies)?;
        }
        Ok(Clock::new(self.frequency.unwrap_or(1)))
    }

    /// Reads the stacks, whose strings must be there.
    fn read_stacks(
        &mut self,
        names: &Names,
        tables: &mut Tables,
        anomalies: &mut Anomalies,
    ) -> Result<Vec<(u64, u32)>, Error> {
        let mut stacks = Vec::new();
        let mut frames = Frames::default();
        let mut stack = Vec::new();
        for batch in std::mem::take(&mut self.stack_batches) {
            let mut reader = Bytes::new(batch.data());
            reader.byte();
            while !reader.is_empty() {
                let at = batch.offset + reader.read() as u64;
                stack.clear();
                match frames.read_stack(&mut reader, names, &mut stack) {
                    Ok(id) => {
                        stacks.push((id, tables.intern_stack(&stack).0));
                        if let Some(fault) = frames.missing.take() {
                            self.note_at(fault, at, 0, anomalies)?;
                        }
                    }
                    Err(fault) => {
                        let rest = batch.offset + batch.len() as u64 - at;
                        self.note_at(fault, at, rest, anomalies)?;
                        break;
                    }
                }
            }
        }
        Ok(stacks)
    }

    fn note(&self, fault: Fault, anomalies: &mut Anomalies) -> Result<(), Error> {
        self.note_at(fault, self.offset, 0, anomalies)
    }

    /// A strict reader stops here, another one counts it.
    fn note_at(
        &self,
        fault: Fault,
        offset: u64,
        amount: u64,
        anomalies: &mut Anomalies,
    ) -> Result<(), Error> {
        if self.strict {
            return Err(fault.into_error(offset));
        }
        anomalies.add(fault.kind(), offset, amount);
        Ok(())
    }
}

fn expect(reader: &mut Bytes<'_>, wanted: u8, table: &'static str) -> Result<(), Fault> {
    match reader.byte() {
        Some(found) if found == wanted => Ok(()),
        found => Err(Fault::Misplaced {
            table,
            found: found.unwrap_or(0),
        }),
    }
}

fn read_string<'a>(reader: &mut Bytes<'a>) -> Result<(u64, &'a [u8]), Fault> {
    expect(reader, spec::STRING, "strings only")?;
    let id = reader.number("the id of a string")?;
    let length = reader.number("the length of a string")?;
    if length > spec::MAX_STRING_BYTES {
        return Err(Fault::StringTooLong(length));
    }
    match reader.take(length as usize) {
        Some(bytes) => Ok((id, bytes)),
        None => Err(Fault::StringCut),
    }
}

/// The frames of a generation by their addresses. The first frame with an address counts.
#[derive(Debug, Default)]
struct Frames {
    places: HashMap<u64, u32, Folding>,
    frames: Vec<Frame>,
    /// The first string of a frame that is not there.
    missing: Option<Fault>,
}

impl Frames {
    /// Reads one stack into `out`, and its id.
    fn read_stack(
        &mut self,
        reader: &mut Bytes<'_>,
        names: &Names,
        out: &mut Vec<Frame>,
    ) -> Result<u64, Fault> {
        expect(reader, spec::STACK, "stacks only")?;
        let id = reader.number("the id of a stack")?;
        let count = reader.number("the depth of a stack")?;
        if count > spec::MAX_FRAMES {
            return Err(Fault::StackTooDeep(count));
        }
        for _ in 0..count {
            let pc = reader.number("an address")?;
            let function = reader.number("the function of a frame")?;
            let file = reader.number("the file of a frame")?;
            let line = reader.number("the line of a frame")?;
            let Frames {
                places,
                frames,
                missing,
            } = self;
            let place = *places.entry(pc).or_insert_with(|| {
                let mut text = |id| {
                    names.text(id).unwrap_or_else(|| {
                        missing.get_or_insert(Fault::NoSuchString(id));
                        Text::EMPTY
                    })
                };
                frames.push(Frame {
                    pc,
                    function: text(function),
                    file: text(file),
                    line: u32::try_from(line).unwrap_or(u32::MAX),
                });
                (frames.len() - 1) as u32
            });
            out.extend(frames.get(place as usize));
        }
        Ok(id)
    }
}

fn read_sample(reader: &mut Bytes<'_>) -> Result<(u64, Sample), Fault> {
    expect(reader, spec::CPU_SAMPLE, "CPU samples only")?;
    let time = reader.number("the time of a sample")?;
    let m = reader.number("the thread of a sample")?;
    let p = reader.number("the P of a sample")?;
    let g = reader.number("the goroutine of a sample")?;
    let stack = reader.number("the stack of a sample")?;
    Ok((
        time,
        Sample {
            time: 0,
            m,
            p,
            g,
            stack,
        },
    ))
}
