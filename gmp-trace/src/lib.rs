//! Event streams of goroutine schedulers: our native format and Go's, one model for both.

#![forbid(unsafe_code)]

pub mod event;
pub mod id;
pub mod limits;
pub mod spec;
pub mod tables;
pub mod time;
pub mod varint;

mod block;
pub mod header;

#[cfg(feature = "write")]
pub mod write;

pub use event::{Body, Event};
