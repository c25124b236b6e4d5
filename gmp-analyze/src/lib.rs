//! Explains scheduler traces: events become spans, spans become answers.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod cli;
pub mod diag;
pub mod flame;
pub mod input;
pub mod machine;
pub mod plot;
pub mod render;
pub mod session;
pub mod tables;
pub mod units;
