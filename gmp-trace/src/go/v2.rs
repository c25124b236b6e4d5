//! Reads a trace of Go 1.22 or newer: batches → generations → events in the order of cause.

use super::batch::{Batch, Batches, Record};
use super::clock::Clock;
use super::experiment::Allocations;
use super::fault::Fault;
use super::generation::{Generation, Loading};
use super::header::Version;
use super::merge::{Merge, Shared};
use super::order::Order;
use super::words::Words;
use crate::anomaly::{Anomalies, AnomalyKind};
use crate::error::Error;
use crate::event::{Body, Event};
use crate::info::TraceInfo;
use crate::input::Input;
use crate::native::source::Source;
use crate::tables::Tables;
use crate::time::Nanos;

/// What both formats of Go fill while they are read.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) tables: Tables,
    pub(crate) anomalies: Anomalies,
    pub(crate) info: TraceInfo,
    pub(crate) strict: bool,
    pub(crate) words: Words,
    pub(crate) allocations: Option<Allocations>,
}

/// Reads generation after generation.
#[derive(Debug)]
pub(crate) struct V2 {
    batches: Batches,
    /// Whether a thread of its own may decode.
    threads: bool,
    version: Version,
    /// The first batch of the next generation, where that is what ends a generation.
    spill: Option<Batch>,
    /// An error to be given once the generation before it was.
    failed: Option<Error>,
    merge: Option<Merge>,
    order: Order,
    origin: Option<i64>,
    position: u64,
    latest: i64,
    last_generation: u64,
    clock: Option<Clock>,
    /// The clock of the trace and the monotonic one, the first time that both were told.
    first_clocks: Option<(i64, i64)>,
    /// Whether a generation was left out since the last one that was given.
    lost: bool,
    /// Whether any generation was given.
    any: bool,
    done: bool,
}

/// Whether two clocks that tell these durations run at different speeds, by more than 1 %. Of short
/// durations nothing can be said.
fn runs_apart(one: i64, other: i64) -> bool {
    const LONG: i64 = 100_000_000;
    let longer = one.max(other);
    longer >= LONG && one.abs_diff(other) > longer.unsigned_abs() / 100
}

/// How a generation came to its end.
enum End {
    Whole,
    Nothing,
    /// The file ends too early, at this offset.
    Cut(u64),
}

impl V2 {
    /// A reader of what follows the header in `source`.
    pub(crate) fn new(source: Input, version: Version, strict: bool, threads: bool) -> V2 {
        let mut source = Source::new(source);
        source.set_offset(super::header::HEADER_BYTES as u64);
        V2 {
            batches: Batches::new(source),
            threads,
            version,
            spill: None,
            failed: None,
            merge: None,
            order: Order::new(strict),
            origin: None,
            position: 0,
            latest: i64::MIN,
            last_generation: 0,
            clock: None,
            first_clocks: None,
            lost: false,
            any: false,
            done: false,
        }
    }

    /// Appends the next events; none only at the end of the trace.
    ///
    /// # Errors
    ///
    /// What the source says; damage, where the reader is strict; a file of which nothing is whole.
    pub(crate) fn fill(
        &mut self,
        common: &mut Common,
        events: &mut Vec<Event>,
    ) -> Result<(), Error> {
        while events.is_empty() && !self.done {
            let result = match self.merge.is_some() {
                true => self.go_on(common, events),
                false => self.next_generation(common, events),
            };
            if let Err(error) = result {
                self.done = true;
                if events.is_empty() {
                    return Err(error);
                }
                self.failed = Some(error);
            }
        }
        if events.is_empty()
            && let Some(error) = self.failed.take()
        {
            return Err(error);
        }
        common.info.events += events.len() as u64;
        Ok(())
    }

    fn go_on(&mut self, common: &mut Common, events: &mut Vec<Event>) -> Result<(), Error> {
        let Some(merge) = &mut self.merge else {
            return Ok(());
        };
        let mut shared = Shared {
            order: &mut self.order,
            words: &common.words,
            anomalies: &mut common.anomalies,
            origin: self.origin.unwrap_or(0),
            position: &mut self.position,
            latest: &mut self.latest,
        };
        merge.fill(&mut shared, events)?;
        if events.is_empty() {
            self.merge = None;
        }
        Ok(())
    }

    fn next_generation(
        &mut self,
        common: &mut Common,
        events: &mut Vec<Event>,
    ) -> Result<(), Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let loaded = self.load(common);
        common.info.bytes = self.batches.offset();
        match loaded? {
            Some(generation) => self.begin(generation, common, events),
            None => {
                self.done = true;
                if self.version.has_end_of_generation() {
                    common.info.finished.get_or_insert(true);
                }
                Ok(())
            }
        }
    }

    /// Gives the beginning of `generation`, and makes ready to give the rest.
    fn begin(
        &mut self,
        generation: Generation,
        common: &mut Common,
        events: &mut Vec<Event>,
    ) -> Result<(), Error> {
        let clock = generation.clock;
        let begin = clock.nanos(generation.begin);
        let origin = *self.origin.get_or_insert(begin);
        let follows =
            self.any && !self.lost && generation.number == self.last_generation.wrapping_add(1);
        if self.any && !follows {
            common
                .anomalies
                .add(AnomalyKind::MissingBlock, generation.offset, 0);
        }
        self.order.begin_generation(follows);
        (self.any, self.lost, self.last_generation) = (true, false, generation.number);
        self.clock = Some(clock);
        common.info.generations += 1;
        if !generation.allocations.is_empty() {
            common.allocations.get_or_insert_default().read(
                &generation.allocations,
                &mut common.tables,
                &mut common.anomalies,
            );
        }
        common.info.clock_resolution = clock.resolution();
        let clocks = generation.snapshot.map(|snapshot| {
            // Read at another time than the generation's first one: moved there.
            let later = clock.nanos(snapshot.trace).saturating_sub(begin);
            let mono = (snapshot.mono as i64).saturating_sub(later);
            let seconds = (snapshot.wall_seconds as i64).saturating_mul(1_000_000_000);
            let wall = seconds
                .saturating_add(snapshot.wall_nanos as i64)
                .saturating_sub(later);
            (Nanos(mono), Nanos(wall))
        });
        if let Some((mono, wall)) = clocks {
            let (first_begin, first_mono) = *self.first_clocks.get_or_insert((begin, mono.0));
            let elapsed = begin.saturating_sub(first_begin);
            if runs_apart(elapsed, mono.0.saturating_sub(first_mono)) {
                common
                    .anomalies
                    .add(AnomalyKind::ClockRate, generation.offset, 0);
            }
            let at_origin = Nanos(wall.0.saturating_sub(begin.saturating_sub(origin)));
            common.info.wall_start.get_or_insert(at_origin);
        }
        events.push(Event {
            time: Nanos(begin.saturating_sub(origin)),
            order: self.position,
            m: None,
            p: None,
            g: None,
            body: Body::Sync {
                generation: generation.number,
                mono: clocks.map(|(mono, _)| mono),
                wall: clocks.map(|(_, wall)| wall),
            },
        });
        self.position += 1;
        let mut shared = Shared {
            order: &mut self.order,
            words: &common.words,
            anomalies: &mut common.anomalies,
            origin,
            position: &mut self.position,
            latest: &mut self.latest,
        };
        let file = self.batches.file().cloned();
        self.merge = Some(Merge::new(generation, file, self.threads, &mut shared)?);
        Ok(())
    }

    /// Reads the batches of the next generation that is whole.
    fn load(&mut self, common: &mut Common) -> Result<Option<Generation>, Error> {
        loop {
            let mut loading = None;
            if let Some(batch) = self.spill.take() {
                self.add(&mut loading, batch, common)?;
            }
            let end = self.collect(&mut loading, common)?;
            let has_end = self.version.has_end_of_generation();
            if let End::Cut(offset) = end {
                common.info.finished = Some(false);
                common.anomalies.add(AnomalyKind::Truncated, offset, 0);
                // Without an end of its own, a generation may be whole all the same.
                let keep = !has_end && loading.as_ref().is_some_and(Loading::has_clock);
                if !keep {
                    return self.nothing_more(offset);
                }
            }
            let Some(loading) = loading else {
                if matches!(end, End::Whole) {
                    continue;
                }
                // As Go, which wants one generation where nothing tells the end of one.
                if common.strict && !self.any && !has_end {
                    return Err(Fault::NoFrequency.into_error(self.batches.offset()));
                }
                return Ok(None);
            };
            let offset = self.batches.offset();
            match loading.finish(self.clock, &mut common.tables, &mut common.anomalies) {
                Ok(generation) => return Ok(Some(generation)),
                Err(error) if common.strict => return Err(error),
                Err(error) => {
                    common
                        .anomalies
                        .add(Fault::NoFrequency.kind(), error.offset(), 0);
                    self.lost = true;
                    if !matches!(end, End::Whole) {
                        return self.nothing_more(offset);
                    }
                }
            }
        }
    }

    /// The end of a file whose last generation was not whole.
    fn nothing_more(&mut self, offset: u64) -> Result<Option<Generation>, Error> {
        self.done = true;
        if self.any {
            return Ok(None);
        }
        Err(Fault::Truncated("a whole generation").into_error(offset))
    }

    /// Takes batches until the generation ends.
    fn collect(
        &mut self,
        loading: &mut Option<Loading>,
        common: &mut Common,
    ) -> Result<End, Error> {
        let has_end = self.version.has_end_of_generation();
        loop {
            match self.batches.next()? {
                Record::Batch(batch) => {
                    common.info.blocks += 1;
                    if self.ends_here(loading, &batch, common)? {
                        self.spill = Some(batch);
                        return Ok(End::Whole);
                    }
                    self.add(loading, batch, common)?;
                }
                Record::EndOfGeneration if has_end => return Ok(End::Whole),
                Record::EndOfGeneration => {
                    let fault = Fault::NotABatch(super::spec::END_OF_GENERATION);
                    if let Some(end) =
                        self.damage(fault, self.batches.offset() - 1, loading, common)?
                    {
                        return Ok(end);
                    }
                }
                Record::End if loading.is_none() => return Ok(End::Nothing),
                Record::End if !has_end => return Ok(End::Nothing),
                Record::End => {
                    let offset = self.batches.offset();
                    if !loading.as_ref().is_some_and(Loading::has_events) {
                        // As Go: a generation that holds no events is no loss.
                        *loading = None;
                        if !common.strict {
                            common.info.finished = Some(false);
                            common.anomalies.add(AnomalyKind::Truncated, offset, 0);
                        }
                        return Ok(End::Nothing);
                    }
                    if common.strict {
                        return Err(
                            Fault::Truncated("the end of the generation").into_error(offset)
                        );
                    }
                    return Ok(End::Cut(offset));
                }
                Record::Fault(fault, offset) => {
                    if let Some(end) = self.damage(fault, offset, loading, common)? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Something that is no batch: steps over it, or ends the generation.
    #[cold]
    fn damage(
        &mut self,
        fault: Fault,
        offset: u64,
        loading: &Option<Loading>,
        common: &mut Common,
    ) -> Result<Option<End>, Error> {
        if common.strict {
            let error = fault.into_error(offset);
            // What has been read may be a whole generation, of which nothing else tells the end.
            if loading.is_some() && !self.version.has_end_of_generation() {
                self.failed = Some(error);
                return Ok(Some(End::Nothing));
            }
            return Err(error);
        }
        if matches!(fault, Fault::Truncated(_)) {
            return Ok(Some(End::Cut(offset)));
        }
        common.anomalies.add(fault.kind(), offset, 0);
        self.order.damaged = true;
        let now = loading
            .as_ref()
            .map_or(self.last_generation, |loading| loading.number);
        let known = loading.is_some() || self.any;
        self.batches
            .resynchronize(known.then_some(now), &mut common.anomalies)?;
        Ok(None)
    }

    fn add(
        &mut self,
        loading: &mut Option<Loading>,
        batch: Batch,
        common: &mut Common,
    ) -> Result<(), Error> {
        let (number, offset) = (batch.head.generation, batch.offset);
        match loading {
            Some(loading) if loading.number != number => {
                common.anomalies.add(AnomalyKind::LateBlock, offset, 0);
                Ok(())
            }
            None if number == 0 || (self.any && number <= self.last_generation) => {
                common.anomalies.add(AnomalyKind::LateBlock, offset, 0);
                Ok(())
            }
            _ => loading
                .get_or_insert_with(|| Loading::new(number, self.version, common.strict, offset))
                .add(batch, &mut common.tables, &mut common.anomalies),
        }
    }

    /// Whether `batch` belongs to the next generation.
    fn ends_here(
        &mut self,
        loading: &Option<Loading>,
        batch: &Batch,
        common: &mut Common,
    ) -> Result<bool, Error> {
        let found = batch.head.generation;
        let offset = batch.offset;
        if found == 0 {
            return match common.strict {
                true => Err(Fault::GenerationZero.into_error(offset)),
                false => Ok(false),
            };
        }
        let Some(loading) = loading else {
            return Ok(false);
        };
        let now = loading.number;
        let has_end = self.version.has_end_of_generation();
        if found == now || (now.checked_add(1) == Some(found) && !has_end) {
            return Ok(found != now);
        }
        if common.strict {
            let fault = match has_end {
                true => Fault::MissingEnd { now, found },
                false => Fault::GenerationsMixed { now, found },
            };
            return Err(fault.into_error(offset));
        }
        // A later generation, unless the next batch shows that only this one's number is wrong.
        let next = self.batches.peek_generation()?;
        let begins = found > now && next != Some(now);
        if begins {
            common
                .anomalies
                .add(AnomalyKind::UnendedGeneration, offset, 0);
        }
        Ok(begins)
    }
}
