//! Who may know whom: the table of the crate's files, held against their `use` lines.
//!
//! DO NOT CHANGE THE TABLE TO MAKE THE BUILD PASS: a row is a decision about the design
//! (`docs/architecture.md`).

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Modules from the bottom up: a module names those of rows above its own, and the modules inside it.
/// Of a module with several names in a row none may name another.
const ROWS: &[&[&str]] = &[
    &["id", "time", "varint", "limits", "spec"],
    &["tables"],
    &["event"],
    &[
        "block",
        "header",
        "info",
        "input",
        "error",
        "small",
        "tournament",
    ],
    &["anomaly"],
    &["write"],
    &["native"],
    &["go"],
    &["reader"],
    &["check", "pack", "text", "testgen"],
];

/// Libraries and the files that may name them.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("nom", &["native/parse.rs"]),
    ("flate2", &["native/blocks.rs", "pack.rs"]),
    (
        "crc32fast",
        &[
            "block.rs",
            "header.rs",
            "native/parse.rs",
            "write/encoder.rs",
            "write/seal.rs",
        ],
    ),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file: what is before its tests, without comments.
fn code(text: &str) -> String {
    let before_tests = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = before_tests
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// What `code` names of this crate: the first part of each path that begins with `crate::`.
fn named(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (place, _) in code.match_indices("crate::") {
        if code[..place].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[place + "crate::".len()..];
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        names.push(rest[..end].to_owned());
    }
    names
}

fn row_of(module: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&module))
}

/// What is wrong with file `name` that has `code`.
fn violations(name: &str, code: &str) -> Vec<String> {
    let module = name.split(['/', '.']).next().unwrap_or_default();
    let mut wrong = Vec::new();
    for (library, files) in LIBRARIES {
        if code.contains(&format!("{library}::")) && !files.contains(&name) {
            wrong.push(format!("{name} names {library}"));
        }
    }
    if module == "lib" {
        return wrong;
    }
    let Some(row) = row_of(module) else {
        return vec![format!("{name} is in no row")];
    };
    for other in named(code) {
        if other == module {
            continue;
        }
        match row_of(&other) {
            Some(of_other) if of_other < row => {}
            Some(_) => wrong.push(format!("{name} names {other}, which is not below it")),
            None => wrong.push(format!("{name} names {other}, which is in no row")),
        }
    }
    wrong
}

#[test]
fn files_name_only_what_is_below_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut visited, mut names, mut wrong) = (BTreeMap::new(), 0, Vec::new());
    for file in &files {
        let name = file
            .strip_prefix(&root)
            .unwrap()
            .to_str()
            .unwrap()
            .replace('\\', "/");
        let code = code(&std::fs::read_to_string(file).unwrap());
        names += named(&code).len();
        wrong.extend(violations(&name, &code));
        let module = name.split(['/', '.']).next().unwrap_or_default().to_owned();
        *visited.entry(module).or_insert(0) += 1;
    }
    assert_eq!(wrong, Vec::<String>::new());
    for module in ROWS.iter().flat_map(|row| row.iter()) {
        assert!(visited.contains_key(*module), "no file of {module}");
    }
    assert!(files.len() >= 35, "{} files were visited", files.len());
    assert!(names > 150, "{names} names were seen");
}

#[test]
fn a_violation_is_found() {
    assert_eq!(violations("id.rs", "use crate::event::Event;").len(), 1);
    assert_eq!(
        violations("check.rs", "use crate::text::from_text;").len(),
        1
    );
    assert_eq!(violations("native/order.rs", "use nom::IResult;").len(), 1);
    assert_eq!(violations("strange.rs", "").len(), 1);
    assert_eq!(
        violations("native/order.rs", "use crate::unheard::Of;").len(),
        1
    );
    assert_eq!(
        violations("native/order.rs", "use crate::event::Body;").len(),
        0
    );
    assert_eq!(
        named("pub(crate) use crate::native::parse; x(crate::id::GId)"),
        ["native", "id"]
    );
}

#[test]
fn nothing_is_unsafe() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    assert!(
        std::fs::read_to_string(root)
            .unwrap()
            .contains("#![forbid(unsafe_code)]")
    );
}
