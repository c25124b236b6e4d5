//! Event streams of goroutine schedulers: our native format and Go's, one model for both.
//!
//! | to | see |
//! |---|---|
//! | read a trace | [`open`], [`Reader`], [`Event`] |
//! | record one | [`mod@write`] |
//! | know the bytes | [`spec`], and `docs/trace-format.md` |

#![forbid(unsafe_code)]

pub mod event;
pub mod id;
pub mod limits;
pub mod spec;
pub mod tables;
pub mod time;
pub mod varint;

#[cfg(any(feature = "read", feature = "write"))]
pub mod block;
#[cfg(any(feature = "read", feature = "write"))]
pub mod header;

#[cfg(feature = "write")]
pub mod write;

#[cfg(all(feature = "read", feature = "write"))]
pub mod pack;
#[cfg(feature = "testgen")]
pub mod testgen;
#[cfg(feature = "text")]
pub mod text;

#[cfg(feature = "read")]
pub mod anomaly;
#[cfg(feature = "read")]
pub mod check;
#[cfg(feature = "read")]
mod error;
#[cfg(feature = "go")]
pub mod go;
#[cfg(feature = "read")]
pub mod info;
#[cfg(feature = "read")]
mod input;
#[cfg(feature = "read")]
mod native;
#[cfg(feature = "read")]
mod reader;
#[cfg(feature = "read")]
mod small;
#[cfg(feature = "read")]
mod tournament;

#[cfg(feature = "read")]
pub use error::Error;
pub use event::{Body, Event};
#[cfg(feature = "read")]
pub use input::ReadAt;
#[cfg(feature = "read")]
pub use reader::{Options, Reader, open, open_at};
