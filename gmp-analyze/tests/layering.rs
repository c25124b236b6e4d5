//! The layers of the crate as data, and the check that every file only names files of rows below
//! or beside it. To change the table is a decision about the design: `docs/architecture.md` changes
//! with it.

use std::fs;
use std::path::{Path, PathBuf};

/// Rows from the bottom up; a module may name those of its own row and of rows before it. A module
/// is a path under `src`, and stands for everything under it.
const ROWS: &[&[&str]] = &[
    &["units"],
    &["diag"],
    &["input"],
    &["machine"],
    &["analysis"],
    &["tables"],
    &["session"],
    &["render", "plot", "flame"],
    &["cli/args", "cli/config"],
    &["cli/cmd"],
    &["cli"],
    &["main", "lib"],
];

/// A module and a module that it may name although its row is not below: with the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "cli/cmd",
    "cli",
    "commands return the verdict and the failure that `cli` defines",
)];

/// Crates that only these modules may name.
const CRATES: &[(&str, &[&str])] = &[
    ("clap", &["cli"]),
    ("indicatif", &["input"]),
    ("flate2", &["input"]),
    ("comfy_table", &["render"]),
    ("serde_json", &["render"]),
    ("anstream", &["cli"]),
    ("plotters", &["plot"]),
    ("inferno", &["flame"]),
    ("polars", &["tables/query"]),
    ("strsim", &["tables/query"]),
];

/// Words that a pure row must not have: it reads and prints nothing, and knows no clock but the
/// trace's.
const PURE: &[(&str, &[&str])] = &[
    (
        "analysis",
        &[
            "std::fs",
            "std::io",
            "std::time",
            "println!",
            "eprintln!",
            "std::env",
        ],
    ),
    (
        "tables",
        &[
            "std::fs",
            "std::io",
            "std::time",
            "println!",
            "eprintln!",
            "std::env",
        ],
    ),
    (
        "machine",
        &[
            "std::fs",
            "std::io",
            "std::time",
            "println!",
            "eprintln!",
            "std::env",
        ],
    ),
    (
        "render",
        &["std::fs", "std::env", "println!", "eprintln!", "Instant"],
    ),
    (
        "flame",
        &["std::fs", "std::env", "println!", "eprintln!", "Instant"],
    ),
    (
        "plot",
        &["std::fs", "std::env", "println!", "eprintln!", "Instant"],
    ),
];

fn row_of(module: &str) -> Option<usize> {
    let depth = |part: &&str| module == *part || module.starts_with(&format!("{part}/"));
    // The longest name that fits: `cli/cmd` before `cli`.
    let mut best: Option<(usize, usize)> = None;
    for (row, modules) in ROWS.iter().enumerate() {
        for part in modules.iter().filter(|part| depth(part)) {
            if best.is_none_or(|(length, _)| part.len() > length) {
                best = Some((part.len(), row));
            }
        }
    }
    best.map(|(_, row)| row)
}

/// Modules that `code` names with `crate::`, and that `super::` of the crate's library would.
fn named(code: &str) -> Vec<String> {
    let mut named = Vec::new();
    for prefix in ["crate::", "gmp_analyze::"] {
        for (place, _) in code.match_indices(prefix) {
            let before = code[..place].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &code[place + prefix.len()..];
            let path: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':'))
                .collect();
            let parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
            if let Some(first) = parts.first() {
                let deep = *first == "cli" && parts.len() > 1;
                let two = format!("{first}/{}", parts.get(1).unwrap_or(&""));
                let known = ROWS.iter().any(|row| row.contains(&two.as_str()));
                named.push(if deep && known {
                    two
                } else {
                    (*first).to_owned()
                });
            }
        }
    }
    named
}

/// The code of a file: without comments, and without its tests.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

fn check(module: &str, code: &str, problems: &mut Vec<String>) -> usize {
    let Some(row) = row_of(module) else {
        problems.push(format!("{module} is in no row"));
        return 0;
    };
    let mut references = 0;
    for target in named(code) {
        let Some(target_row) = row_of(&target) else {
            problems.push(format!("{module} names {target}, which is in no row"));
            continue;
        };
        references += 1;
        let is_exception = EXCEPTIONS
            .iter()
            .any(|(from, to, _)| module.starts_with(from) && target == *to);
        if target_row > row && !is_exception {
            problems.push(format!("{module} names {target}, which is above it"));
        }
    }
    for (name, allowed) in CRATES {
        let is_allowed = allowed.iter().any(|part| module.starts_with(part));
        if code.contains(&format!("{name}::")) && !is_allowed {
            problems.push(format!("{module} names the crate {name}"));
        }
    }
    for (part, words) in PURE {
        if module.starts_with(part) {
            for word in words.iter().filter(|word| code.contains(**word)) {
                let pure = *part == "render" || !word.is_empty();
                if pure {
                    problems.push(format!("{module} is pure, and has {word}"));
                }
            }
        }
    }
    references
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_file_only_names_what_is_below_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&source, &mut found);
    let (mut problems, mut references) = (Vec::new(), 0);
    for path in &found {
        let module = path
            .strip_prefix(&source)
            .expect("under it")
            .with_extension("");
        let module = module.to_string_lossy().replace('\\', "/");
        let module = module.strip_suffix("/mod").unwrap_or(&module).to_owned();
        let text = fs::read_to_string(path).expect("text");
        references += check(&module, &code_of(&text), &mut problems);
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
    // Against passing on nothing.
    assert!(found.len() >= 40, "only {} files visited", found.len());
    assert!(references >= 80, "only {references} references seen");
}

/// The check notices each kind of break.
#[test]
fn breaks_are_noticed() {
    let problems_of = |module: &str, code: &str| {
        let mut problems = Vec::new();
        check(module, &code_of(code), &mut problems);
        problems.len()
    };
    assert_eq!(problems_of("machine/procs", "use crate::diag::Kind;"), 0);
    assert_eq!(
        problems_of("machine/procs", "use crate::analysis::report::Report;"),
        1
    );
    assert_eq!(
        problems_of("cli/cmd/report", "use crate::cli::{Failure};"),
        0
    );
    assert_eq!(problems_of("render/text", "use crate::cli::args::Args;"), 1);
    assert_eq!(problems_of("analysis/report", "use std::time::Instant;"), 1);
    assert_eq!(
        problems_of("analysis/report", "// use std::time::Instant;"),
        0
    );
    assert_eq!(problems_of("machine/mod", "use clap::Parser;"), 1);
    assert_eq!(problems_of("nowhere", ""), 1);
}
