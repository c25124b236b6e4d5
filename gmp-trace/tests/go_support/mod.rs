//! What the tests of Go's formats share.

#![allow(dead_code)] // each test uses a part of it

pub(crate) mod as_go;
pub(crate) mod goroutine;
pub(crate) mod made;
pub(crate) mod oracle;
pub(crate) mod shapes;
pub(crate) mod summary;
pub(crate) mod tool;
pub(crate) mod written;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use gmp_trace::{Event, Options, Reader};

/// The directory of the Go fixtures.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/go")
}

/// Every trace there, by name.
pub(crate) fn traces() -> Vec<(String, Vec<u8>)> {
    let mut traces = Vec::new();
    for entry in std::fs::read_dir(fixtures()).expect("fixtures/go") {
        let path = entry.expect("an entry").path();
        if path
            .extension()
            .is_some_and(|extension| extension == "trace")
        {
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            traces.push((name, std::fs::read(&path).expect("a readable trace")));
        }
    }
    traces.sort();
    assert!(traces.len() >= 19, "{} traces", traces.len());
    traces
}

/// One of them.
pub(crate) fn trace(name: &str) -> Vec<u8> {
    std::fs::read(fixtures().join(format!("{name}.trace"))).expect("a readable trace")
}

/// A lenient reader of `bytes`.
pub(crate) fn lenient(bytes: &[u8]) -> Result<Reader, gmp_trace::Error> {
    Options::new().open(Cursor::new(bytes.to_vec()))
}

/// A strict reader of `bytes`.
pub(crate) fn strict(bytes: &[u8]) -> Result<Reader, gmp_trace::Error> {
    Options::new().strict().open(Cursor::new(bytes.to_vec()))
}

/// All events that a reader gives, and the error that it ends with.
pub(crate) fn drain(reader: &mut Reader) -> (Vec<Event>, Option<gmp_trace::Error>) {
    let mut events = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, None),
            Err(error) => return (events, Some(error)),
        }
    }
}
