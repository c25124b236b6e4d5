//! Traces from files and standard input: opened, told apart, unpacked, read with progress.

mod facts;

pub use facts::TraceFacts;
