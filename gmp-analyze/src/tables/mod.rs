//! A trace as tables: what SQL is asked over.
//!
//! [`schema`] says which tables and columns there are, [`Builder`] is the sink that fills the columns
//! while the trace is read, `query` asks. Columns are the only thing of the analysis whose memory
//! grows with the trace, so only the tables that a query names are built, and rows are bounded
//! ([`MOST_ROWS`]).
//!
//! What a trace cannot tell is null, never zero and never a word that stands for nothing.

mod build;
mod columns;
#[cfg(feature = "tables")]
mod query;
mod store;

pub mod schema;

pub use build::{Builder, TooLarge};
pub use columns::{Columns, Values, Words};
#[cfg(feature = "tables")]
pub use query::{Answer, Error, Query, Value};

/// Rows of all tables of a query together at most. A row of the widest table takes about 150 bytes in
/// columns, and a query may hold some columns twice: some three gigabytes in all.
pub const MOST_ROWS: u64 = 10_000_000;
