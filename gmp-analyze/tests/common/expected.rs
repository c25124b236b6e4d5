//! Texts compared with the expected ones in `fixtures/expected`, line by line. `GMP_BLESS=1` writes
//! them anew; a missing one fails.

use super::pipeline::Pipeline;
use std::path::{Path, PathBuf};

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

/// Traces that are made here, by name.
pub fn made() -> Vec<(&'static str, Vec<u8>)> {
    let pipeline = |seed, procs, workers, lines, stuck| {
        Pipeline {
            seed,
            procs,
            workers,
            lines,
            stuck,
        }
        .record()
        .0
    };
    vec![
        ("pipeline-1p", pipeline(1, 1, 4, 300, 0)),
        ("pipeline-2p", pipeline(2, 2, 16, 2_000, 3)),
        ("pipeline-8p", pipeline(3, 8, 64, 4_000, 12)),
    ]
}

/// Compares with the expected text, or writes it.
pub fn compare(name: &str, actual: &str, differences: &mut Vec<String>) {
    let path = fixtures().join("expected").join(name);
    if std::env::var_os("GMP_BLESS").is_some_and(|bless| bless == "1") {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(&path, actual).expect("written");
        return;
    }
    let expected = match std::fs::read_to_string(&path) {
        Ok(expected) => expected,
        Err(error) => {
            differences.push(format!("{name}: {error}; GMP_BLESS=1 writes it"));
            return;
        }
    };
    if let Some(difference) = first_difference(&expected, actual) {
        differences.push(format!("{name}: {difference}; GMP_BLESS=1 writes it anew"));
    }
}

/// The first line that differs; `None` where all are the same.
pub fn first_difference(expected: &str, actual: &str) -> Option<String> {
    let (mut left, mut right) = (expected.lines(), actual.lines());
    for line in 1.. {
        match (left.next(), right.next()) {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => return Some(format!("line {line}: expected {a:?}, is {b:?}")),
        }
    }
    (expected != actual).then(|| "ends of lines differ".to_owned())
}
