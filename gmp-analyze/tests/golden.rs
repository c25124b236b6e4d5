//! Reports compared with the expected ones in `fixtures/expected`, line by line. `GMP_BLESS=1`
//! writes them anew; a missing one fails.

mod common;

use common::expected::{compare, first_difference, fixtures, made};
use gmp_analyze::render::text::{self, Layout};
use gmp_analyze::render::{json, sections};
use gmp_analyze::session;
use std::path::{Path, PathBuf};

/// Every trace: those made here and those in the repository.
fn traces() -> Vec<(String, PathBuf)> {
    let mut traces = Vec::new();
    for (name, bytes) in made() {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.gmpt"));
        std::fs::write(&path, bytes).expect("a directory for tests");
        traces.push((name.to_owned(), path));
    }
    if let Ok(directory) = std::fs::read_dir(fixtures().join("gmp")) {
        for entry in directory {
            let path = entry.expect("a readable directory").path();
            if path
                .extension()
                .is_some_and(|extension| extension == "gmpt")
            {
                let name = path
                    .file_stem()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned();
                traces.push((name, path));
            }
        }
    }
    traces.sort();
    traces
}

#[test]
fn reports_are_as_expected() {
    let mut differences = Vec::new();
    let mut compared = 0;
    for (name, path) in traces() {
        let mut report = session::report(path.as_os_str(), true, false).expect("a trace");
        report.trace.source = format!("{name}.gmpt");
        let mut out = Vec::new();
        let layout = Layout {
            width: 100,
            top: 10,
        };
        let lives = report.goroutines.take();
        text::report(&mut out, &report, layout).expect("a vector");
        let plain = anstream::adapter::strip_bytes(&out).into_vec();
        let text = String::from_utf8(plain).expect("UTF-8");
        compare(&format!("{name}.report.txt"), &text, &mut differences);
        report.goroutines = lives;
        let mut out = Vec::new();
        json::report(&mut out, &report, Some(10)).expect("a vector");
        let json = String::from_utf8(out).expect("UTF-8");
        compare(&format!("{name}.report.json"), &json, &mut differences);
        same_tables(&report, &json);
        compared += 1;
    }
    assert!(differences.is_empty(), "\n{}\n", differences.join("\n"));
    assert!(compared >= 3);
}

/// JSON has every field of every table.
fn same_tables(report: &gmp_analyze::analysis::report::Report, json: &str) {
    let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let mut tables = sections::all(report);
    tables.push(sections::summary(report));
    let mut fields = 0;
    for table in &tables {
        let rows = match &value[table.name] {
            serde_json::Value::Array(rows) => rows.clone(),
            one => vec![one.clone()],
        };
        for (row, expected) in rows.iter().zip(&table.rows) {
            for (name, _) in table.fields(expected) {
                assert!(row.get(&name).is_some(), "{} has no {name}", table.name);
                fields += 1;
            }
        }
    }
    assert!(fields > 50);
}

/// The comparer notices what is longer, shorter, or different.
#[test]
fn differences_are_noticed() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    assert!(first_difference("a\nb\n", "a\n").is_some_and(|d| d.contains("line 2")));
    assert!(first_difference("a\n", "a\nb\n").is_some_and(|d| d.contains("line 2")));
    assert!(first_difference("a\nb\n", "a\nc\n").is_some_and(|d| d.contains("line 2")));
    assert!(first_difference("a\n", "a").is_some());
    let mut differences = Vec::new();
    compare("no-such-file", "text", &mut differences);
    assert_eq!(
        differences.len(),
        usize::from(std::env::var_os("GMP_BLESS").is_none())
    );
    if std::env::var_os("GMP_BLESS").is_some() {
        std::fs::remove_file(fixtures().join("expected/no-such-file")).expect("was written");
    }
}
