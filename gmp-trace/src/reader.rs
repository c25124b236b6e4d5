//! The reader that consumers see, whatever format the bytes are in.

use std::fmt;
use std::io::Read;

use crate::anomaly::Anomalies;
use crate::error::Error;
use crate::event::Event;
#[cfg(feature = "go")]
use crate::go::{self, GoReader};
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
        Ok(Reader {
            source: Source::open(Box::new(source), self.strict)?,
            batch: Vec::new(),
            next: 0,
        })
    }
}

/// Who decodes.
enum Source {
    Native(Box<NativeReader>),
    #[cfg(feature = "go")]
    Go(Box<GoReader>),
}

/// Calls a method of whichever reader it is.
macro_rules! either {
    ($source:expr, $reader:ident => $value:expr) => {
        match $source {
            Source::Native($reader) => $value,
            #[cfg(feature = "go")]
            Source::Go($reader) => $value,
        }
    };
}

impl Source {
    #[cfg(not(feature = "go"))]
    fn open(source: Box<dyn Read + Send>, strict: bool) -> Result<Source, Error> {
        Ok(Source::Native(Box::new(NativeReader::open(
            source, strict,
        )?)))
    }

    /// Looks at the first bytes to see which format it is.
    #[cfg(feature = "go")]
    fn open(mut source: Box<dyn Read + Send>, strict: bool) -> Result<Source, Error> {
        let mut begin = Vec::with_capacity(go::HEADER_BYTES);
        let wanted = go::HEADER_BYTES as u64;
        if let Err(error) = (&mut source).take(wanted).read_to_end(&mut begin) {
            return Err(Error::io(begin.len() as u64, error));
        }
        if !begin.is_empty() && go::probe(&begin) == go::Probe::Yes {
            return Ok(Source::Go(Box::new(GoReader::open(
                &begin, source, strict,
            )?)));
        }
        let whole = Box::new(std::io::Cursor::new(begin).chain(source));
        Ok(Source::Native(Box::new(NativeReader::open(whole, strict)?)))
    }
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
            let batch = either!(&mut self.source, reader => reader.next_batch()?);
            self.batch.extend_from_slice(batch);
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
        either!(&mut self.source, reader => {
            while !reader.next_batch()?.is_empty() {
                let tables = reader.tables();
                reader.batch().iter().for_each(|event| each(event, tables));
            }
        });
        Ok(())
    }

    /// What events refer to. Grows while reading; a reference stays what it is.
    pub fn tables(&self) -> &Tables {
        either!(&self.source, reader => reader.tables())
    }

    /// What was wrong so far.
    pub fn anomalies(&self) -> &Anomalies {
        either!(&self.source, reader => reader.anomalies())
    }

    /// What the ids in events of Go's experiment about allocations stand for; `None` where the trace
    /// has none of it (so far).
    #[cfg(feature = "go")]
    pub fn allocations(&self) -> Option<&go::experiment::Allocations> {
        match &self.source {
            Source::Native(_) => None,
            Source::Go(go) => go.allocations(),
        }
    }

    /// What is known of the trace so far.
    pub fn info(&self) -> &TraceInfo {
        either!(&self.source, reader => reader.info())
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
