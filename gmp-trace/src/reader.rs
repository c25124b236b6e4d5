//! The reader that consumers see, whatever format the bytes are in.

use std::fmt;
use std::io::Read;
use std::sync::Arc;

use crate::anomaly::Anomalies;
use crate::error::Error;
use crate::event::Event;
#[cfg(feature = "go")]
use crate::go::{self, GoReader};
use crate::info::TraceInfo;
use crate::input::{Input, ReadAt};
use crate::native::NativeReader;
use crate::tables::Tables;

/// How a trace is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    strict: bool,
    one_thread: bool,
}

impl Options {
    /// Damage is counted, and what can be read is read.
    pub const fn new() -> Options {
        Options {
            strict: false,
            one_thread: false,
        }
    }

    /// The first anomaly of severity [`Error`](crate::anomaly::Severity::Error) ends the reading.
    pub const fn strict(self) -> Options {
        Options {
            strict: true,
            ..self
        }
    }

    /// Everything is read by the thread that asks for events. Else a large Go trace is decoded by
    /// another one, where the machine has more than one processor.
    pub const fn one_thread(self) -> Options {
        Options {
            one_thread: true,
            ..self
        }
    }

    /// Begins to read a trace.
    ///
    /// # Errors
    ///
    /// When `source` is no trace, a trace of a newer format, or ends within its header.
    pub fn open(self, source: impl Read + Send + 'static) -> Result<Reader, Error> {
        self.open_input(Input::Stream(Box::new(source)))
    }

    /// Begins to read a trace that is a file. The events stay in the file until their turn, so that
    /// memory does not grow with a generation's events; those of compressed blocks and of Go traces
    /// before Go 1.22 are held all the same.
    ///
    /// # Errors
    ///
    /// As [`Options::open`].
    pub fn open_at(self, file: impl ReadAt + 'static) -> Result<Reader, Error> {
        self.open_input(Input::File(Arc::new(file)))
    }

    #[cfg(feature = "go")]
    fn threads(self) -> bool {
        let processors = std::thread::available_parallelism();
        !self.one_thread && processors.is_ok_and(|n| n.get() > 1)
    }

    fn open_input(self, input: Input) -> Result<Reader, Error> {
        Ok(Reader {
            source: Source::open(input, self)?,
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
    fn open(input: Input, options: Options) -> Result<Source, Error> {
        #[cfg(feature = "go")]
        let input = match Self::open_go(input, options)? {
            Ok(source) => return Ok(source),
            Err(other) => other,
        };
        let reader = NativeReader::open(input, options.strict)?;
        Ok(Source::Native(Box::new(reader)))
    }

    /// Looks at the first bytes to see which format it is; gives back what is not Go's.
    #[cfg(feature = "go")]
    fn open_go(input: Input, options: Options) -> Result<Result<Source, Input>, Error> {
        let mut begin = vec![0; go::HEADER_BYTES];
        let (got, rest) = match input {
            Input::File(file) => {
                let got = crate::input::read_full(&*file, &mut begin, 0);
                (got, Input::File(file))
            }
            Input::Stream(mut stream) => {
                begin.clear();
                let wanted = go::HEADER_BYTES as u64;
                let got = (&mut stream).take(wanted).read_to_end(&mut begin);
                (got, Input::Stream(stream))
            }
        };
        let got = got.map_err(|error| Error::io(0, error))?;
        begin.truncate(got);
        if !begin.is_empty() && go::probe(&begin) == go::Probe::Yes {
            let reader = GoReader::open(&begin, rest, options.strict, options.threads())?;
            return Ok(Ok(Source::Go(Box::new(reader))));
        }
        Ok(Err(match rest {
            Input::Stream(rest) => Input::Stream(Box::new(std::io::Cursor::new(begin).chain(rest))),
            file @ Input::File(_) => file,
        }))
    }
}

/// Gives the events of a trace in the order of cause.
///
/// Safe for any input: no bytes make it panic, and memory is bounded by the size of one generation
/// and the next of the trace (see [`Options::open_at`] for less) and of the tables, which keep each
/// different string, site and stack of the whole trace. What is wrong with the input is counted in [`Reader::anomalies`]; only
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

/// Begins to read a trace that is a file, making the best of a damaged one; of a Go trace its events
/// are read when their turn comes.
///
/// # Errors
///
/// As [`Options::open`].
pub fn open_at(file: impl ReadAt + 'static) -> Result<Reader, Error> {
    Options::new().open_at(file)
}
