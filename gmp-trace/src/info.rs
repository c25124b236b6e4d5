//! What is known of a trace as a whole.

use crate::tables::Text;
use crate::time::Nanos;

/// In which format a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Ours.
    Native {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// Go's, with the number after `1.` in its header.
    Go {
        /// 22 for `go 1.22 trace`.
        version: u16,
    },
}

/// A piece of a loaded file, for symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadedModule {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Where in the file the piece begins.
    pub offset: u64,
    /// Path of the file, in the tables of the trace.
    pub path: Text,
    /// Its build id in hexadecimal; [`Text::EMPTY`] where it is not known.
    pub build_id: Text,
}

/// What is known of a trace as a whole; the counts are those of what was read so far.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceInfo {
    /// The format.
    pub format: TraceFormat,
    /// Nanoseconds of one unit of the trace's clock.
    pub clock_resolution: f64,
    /// The process that was recorded.
    pub process_id: Option<u64>,
    /// Whether the trace has its end; `None` until its end was looked for, or where the format does
    /// not tell.
    pub finished: Option<bool>,
    /// The wall clock at time zero of the events, since the Unix epoch.
    pub wall_start: Option<Nanos>,
    /// Generations that were begun.
    pub generations: u64,
    /// Blocks (batches in Go's format).
    pub blocks: u64,
    /// Bytes.
    pub bytes: u64,
    /// Events that were given.
    pub events: u64,
    /// Events that the recorder had no room for.
    pub lost_events: u64,
    /// Loaded files, each once; at most [`MAX_MODULES`](crate::limits::MAX_MODULES).
    pub modules: Vec<LoadedModule>,
}

impl TraceInfo {
    /// A trace of `format` of which nothing was read.
    pub(crate) fn new(format: TraceFormat, clock_resolution: f64) -> TraceInfo {
        TraceInfo {
            format,
            clock_resolution,
            process_id: None,
            finished: None,
            wall_start: None,
            generations: 0,
            blocks: 0,
            bytes: 0,
            events: 0,
            lost_events: 0,
            modules: Vec::new(),
        }
    }
}
