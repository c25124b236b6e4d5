//! Answers as text, JSON and CSV, all from the same tables.

pub mod breakdown;
pub mod checked;
pub mod columns;
pub mod csv;
pub mod events;
pub mod explain;
pub mod json;
#[cfg(feature = "tables")]
pub mod query;
pub mod schedtrace;
pub mod sections;
pub mod table;
pub mod tables;
pub mod text;

mod overview;
mod shorten;
mod style;
