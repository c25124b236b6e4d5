//! Explains scheduler traces: events become spans, spans become answers.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod diag;
pub mod input;
pub mod machine;
pub mod units;
