//! What a trace says of itself.

use gmp_trace::time::Nanos;

/// What a trace says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceFacts {
    /// The file, or `standard input`.
    pub source: String,
    /// The format and its version, in words.
    pub format: String,
    /// True for a trace of Go, which does not tell how goroutines were found: no steals, searches,
    /// overflows or timers.
    pub of_go: bool,
    /// Bytes of the trace, unpacked.
    pub bytes: u64,
    /// Generations.
    pub generations: u64,
    /// Whether the recorder finished the trace; `None` where a format does not tell.
    pub finished: Option<bool>,
    /// Wall clock of the first event, since the Unix epoch.
    pub started_at: Option<Nanos>,
}
