//! Event streams of goroutine schedulers: our native format and Go's, one model for both.

#![forbid(unsafe_code)]

pub mod event;
pub mod id;
pub mod tables;
pub mod time;

pub use event::{Body, Event};
