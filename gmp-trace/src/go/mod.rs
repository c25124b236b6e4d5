//! Reading Go's execution traces into the one event model, and writing them.
//!
//! Use [`open`](crate::open): it finds out what a file is. What Go's events become is written down in
//! `docs/go-traces.md`.
//!
//! | file | gives |
//! |---|---|
//! | `header` | the version |
//! | `spec` | the table of events |
//! | `numbers` | numbers in base 128 |
//! | `batch` | batches, after damage the next one |
//! | `id_table`, `clock`, `generation` | batches that belong together, their tables |
//! | `cursor`, `chunk`, `feed` | events of one thread, decoded ahead of the ordering |
//! | `states`, `order`, `goroutines`, `syscalls`, `procs`, `spans` | which of them may come next |
//! | `merge`, `v2` | events of a generation, of a trace |
//! | `v1` | events of a trace up to Go 1.21 |
//! | [`experiment`] | what events of the experiment about allocations mean |
//! | [`text`] | the text form of a trace, both ways |
//! | [`mod@write`] | a trace of Go out of any trace |
//! | `fault` | what can be wrong |

mod batch;
mod chunk;
mod clock;
mod cursor;
pub mod experiment;
mod fault;
mod feed;
mod generation;
mod goroutines;
mod header;
mod id_table;
mod merge;
mod numbers;
mod order;
mod procs;
mod spans;
mod spec;
mod states;
mod syscalls;
pub mod text;
mod v1;
mod v2;
mod words;
pub mod write;

use crate::anomaly::{Anomalies, AnomalyKind};
use crate::error::Error;
use crate::event::Event;
use crate::info::{TraceFormat, TraceInfo};
use crate::input::Input;
use crate::tables::Tables;
use experiment::Allocations;
use v1::V1;
use v2::{Common, V2};
use words::Words;

pub(crate) use header::{HEADER_BYTES, Probe, probe};

/// Reads a Go trace. Of one since Go 1.22 it holds one generation, of which the events of a file stay
/// there; of an older one it holds everything.
#[derive(Debug)]
pub(crate) struct GoReader {
    common: Common,
    format: Format,
    batch: Vec<Event>,
}

/// Who decodes.
#[derive(Debug)]
enum Format {
    V1(Box<V1>),
    V2(Box<V2>),
}

impl GoReader {
    /// Begins to read `source`, of which the first bytes (at most [`HEADER_BYTES`]) are `begin`.
    pub(crate) fn open(
        begin: &[u8],
        source: Input,
        strict: bool,
        threads: bool,
    ) -> Result<GoReader, Error> {
        let version = header::parse(begin)?;
        let info = TraceInfo::new(TraceFormat::Go { version: version.0 }, 0.0);
        let mut tables = Tables::new();
        let words = Words::new(&mut tables);
        let mut anomalies = Anomalies::default();
        if version.is_newer() {
            anomalies.add(AnomalyKind::NewerVersion, 0, 0);
        }
        let format = match version.is_v1() {
            true => Format::V1(Box::new(V1::new(
                begin,
                source.read_from(begin.len() as u64),
                version,
            ))),
            false => Format::V2(Box::new(V2::new(source, version, strict, threads))),
        };
        Ok(GoReader {
            common: Common {
                tables,
                anomalies,
                info,
                strict,
                words,
                allocations: None,
            },
            format,
            batch: Vec::with_capacity(merge::BATCH + 4),
        })
    }

    /// Reads the next events; there are none only at the end of the trace.
    pub(crate) fn next_batch(&mut self) -> Result<&[Event], Error> {
        self.batch.clear();
        match &mut self.format {
            Format::V1(v1) => v1.fill(&mut self.common, &mut self.batch)?,
            Format::V2(v2) => v2.fill(&mut self.common, &mut self.batch)?,
        }
        Ok(&self.batch)
    }

    /// The events that [`GoReader::next_batch`] gave last.
    pub(crate) fn batch(&self) -> &[Event] {
        &self.batch
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.common.tables
    }

    pub(crate) fn anomalies(&self) -> &Anomalies {
        &self.common.anomalies
    }

    pub(crate) fn allocations(&self) -> Option<&Allocations> {
        self.common.allocations.as_ref()
    }

    pub(crate) fn info(&self) -> &TraceInfo {
        &self.common.info
    }
}
