//! The reader that consumers see, whatever format the bytes are in.

use std::fmt;
use std::io::Read;

use crate::anomaly::Anomalies;
use crate::error::Error;
use crate::event::Event;
use crate::info::TraceInfo;
use crate::native::NativeReader;
use crate::tables::Tables;

/// How a trace is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    strict: bool,
}

impl Options {
    /// Damage is counted, and what can be read is read.
    pub const fn new() -> Options {
        Options { strict: false }
    }

    /// The first anomaly of severity [`Error`](crate::anomaly::Severity::Error) ends the reading.
    pub const fn strict(self) -> Options {
        Options { strict: true }
    }

    /// Begins to read a trace.
    ///
    /// # Errors
    ///
    /// When `source` is no trace, a trace of a newer format, or ends within its header.
    pub fn open(self, source: impl Read + Send + 'static) -> Result<Reader, Error> {
        let native = NativeReader::open(Box::new(source), self.strict)?;
        Ok(Reader {
            source: Source::Native(Box::new(native)),
            batch: Vec::new(),
            next: 0,
        })
    }
}

/// Who decodes.
enum Source {
    Native(Box<NativeReader>),
}

/// Gives the events of a trace in the order of cause.
///
/// Safe for any input: no bytes make it panic, and memory is bounded by the size of one generation
/// and the next of the trace. What is wrong with the input is counted in [`Reader::anomalies`]; only
/// what makes reading impossible is an [`Error`].
pub struct Reader {
    source: Source,
    /// Events that [`Reader::next`] has fetched, and the next one of them.
    batch: Vec<Event>,
    next: usize,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("info", self.info())
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// The next event; `None` at the end of the trace.
    ///
    /// # Errors
    ///
    /// When the source cannot be read, or the reader is strict and the trace is damaged.
    #[allow(clippy::should_implement_trait)] // an iterator could not say how the end came about
    pub fn next(&mut self) -> Result<Option<Event>, Error> {
        if self.next == self.batch.len() {
            self.next = 0;
            self.batch.clear();
            let Source::Native(native) = &mut self.source;
            self.batch.extend_from_slice(native.next_batch()?);
        }
        let event = self.batch.get(self.next).copied();
        self.next += usize::from(event.is_some());
        Ok(event)
    }

    /// Calls `each` for every event that is left, with the tables that it refers to: the quickest way
    /// through a trace.
    ///
    /// # Errors
    ///
    /// As [`Reader::next`].
    pub fn for_each_event(&mut self, mut each: impl FnMut(&Event, &Tables)) -> Result<(), Error> {
        for event in self.batch.get(self.next..).unwrap_or_default() {
            each(event, self.tables());
        }
        self.batch.clear();
        self.next = 0;
        let Source::Native(native) = &mut self.source;
        while !native.next_batch()?.is_empty() {
            let tables = native.tables();
            native.batch().iter().for_each(|event| each(event, tables));
        }
        Ok(())
    }

    /// What events refer to. Grows while reading; a reference stays what it is.
    pub fn tables(&self) -> &Tables {
        let Source::Native(native) = &self.source;
        native.tables()
    }

    /// What was wrong so far.
    pub fn anomalies(&self) -> &Anomalies {
        let Source::Native(native) = &self.source;
        native.anomalies()
    }

    /// What is known of the trace so far.
    pub fn info(&self) -> &TraceInfo {
        let Source::Native(native) = &self.source;
        native.info()
    }
}

/// Begins to read a trace, making the best of a damaged one.
///
/// # Errors
///
/// As [`Options::open`].
pub fn open(source: impl Read + Send + 'static) -> Result<Reader, Error> {
    Options::new().open(source)
}
