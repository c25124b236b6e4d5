//! Traces in the repository, and differences from the expected texts as one text.

use super::expected;
use std::path::PathBuf;

pub use super::expected::fixtures;

/// What differs from the expected text called `name`; empty where nothing does.
pub fn difference(name: &str, actual: &str) -> String {
    let mut differences = Vec::new();
    expected::compare(name, actual, &mut differences);
    differences
        .iter()
        .map(|difference| format!("{difference}\n"))
        .collect()
}

/// Traces of ours and of Go in the repository, by name.
pub fn traces() -> Vec<(String, PathBuf)> {
    let mut traces = Vec::new();
    for (directory, extension) in [("gmp", "gmpt"), ("go", "trace")] {
        let entries = std::fs::read_dir(fixtures().join(directory)).expect("the fixtures");
        for entry in entries {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|of| of == extension) {
                let name = path.file_stem().expect("a name").to_string_lossy();
                traces.push((name.into_owned(), path));
            }
        }
    }
    traces.sort();
    traces
}
