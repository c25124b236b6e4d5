//! Reads a trace of Go 1.11 to 1.21: the whole file is one generation, of which the tables can be
//! anywhere, so all of it is held.
//!
//! | file | gives |
//! |---|---|
//! | `kinds` | the table of events |
//! | `parse` | tables, batches of each P, events of a P |
//! | `order` | events in the order of cause |
//! | `check` | what a strict reader demands of them |
//! | `convert` | events of the model |

mod check;
mod convert;
mod kinds;
mod order;
mod parse;

use std::io::Read;

use super::fault::Fault;
use super::header::Version;
use super::v2::Common;
use crate::anomaly::AnomalyKind;
use crate::error::Error;
use crate::event::Event;
use convert::Converter;

/// Reads a trace of the older format.
#[derive(Debug)]
pub(crate) struct V1 {
    source: Option<Box<Input>>,
    version: Version,
    converter: Option<Converter>,
}

/// What is read, once somebody wants events.
struct Input {
    begin: Vec<u8>,
    source: Box<dyn Read + Send>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").finish_non_exhaustive()
    }
}

impl V1 {
    /// A reader of `source`, of which `begin` has been read.
    pub(crate) fn new(begin: &[u8], source: Box<dyn Read + Send>, version: Version) -> V1 {
        let input = Input {
            begin: begin.to_vec(),
            source,
        };
        V1 {
            source: Some(Box::new(input)),
            version,
            converter: None,
        }
    }

    /// Appends the next events; none only at the end of the trace.
    ///
    /// # Errors
    ///
    /// What the source says; damage, where the reader is strict; a file without its clock.
    pub(crate) fn fill(
        &mut self,
        common: &mut Common,
        events: &mut Vec<Event>,
    ) -> Result<(), Error> {
        if let Some(input) = self.source.take() {
            self.converter = Some(self.load(*input, common)?);
        }
        let Some(converter) = &mut self.converter else {
            return Ok(());
        };
        converter.fill(&common.words, events);
        common.info.events += events.len() as u64;
        Ok(())
    }

    fn load(&self, mut input: Input, common: &mut Common) -> Result<Converter, Error> {
        let mut bytes = std::mem::take(&mut input.begin);
        let had = bytes.len() as u64;
        input
            .source
            .read_to_end(&mut bytes)
            .map_err(|error| Error::io(had, error))?;
        let Common {
            tables,
            anomalies,
            info,
            strict,
            ..
        } = common;
        (info.bytes, info.generations) = (bytes.len() as u64, 1);
        let index = parse::index(&bytes, *strict, tables, anomalies)?;
        info.blocks = index.blocks() as u64;
        let cut = anomalies.count(AnomalyKind::Truncated) > 0;
        if cut {
            info.finished = Some(false);
        }
        let Some(frequency) = index.frequency else {
            if info.blocks == 0 && !cut && !*strict {
                return Ok(Converter::empty());
            }
            // What tells the clock is written last.
            let fault = match cut {
                true => Fault::Truncated("the clock of the trace"),
                false => Fault::NoFrequency,
            };
            return Err(fault.into_error(bytes.len() as u64));
        };
        info.clock_resolution = 1e9 / frequency as f64;
        let (index, ordered) = order::in_order(&bytes, index, *strict, tables, anomalies)?;
        check::check(&ordered, *strict, anomalies)?;
        Ok(Converter::new(
            ordered,
            index.names,
            frequency,
            self.version,
            tables,
        ))
    }
}
