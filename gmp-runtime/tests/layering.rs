//! The order of the crate's modules, held by a test: each may name only those above it in [`ROWS`].
//!
//! Do not change the table to make a build pass. A new file gets a place in it; a changed place is a
//! decision about the design, and `docs/architecture.md` changes with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules that may know each other and every row above.
struct Row {
    /// What the row is, for messages.
    name: &'static str,
    /// Modules with everything below them that has no row of its own.
    modules: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        name: "0 words",
        modules: &["prim"],
    },
    Row {
        name: "0 system",
        modules: &["sys", "fatal"],
    },
    Row {
        name: "1 tools",
        modules: &[
            "lock",
            "sched::fuzz",
            "stats",
            "procs",
            "time::clock",
            "debug::schedtrace",
            "trace::marks",
        ],
    },
    Row {
        name: "2 stacks",
        modules: &["stack"],
    },
    Row {
        name: "2 switch",
        modules: &["switch"],
    },
    Row {
        name: "3 data",
        modules: &[
            "sched::g",
            "sched::claim",
            "sched::refs",
            "sched::runq",
            "sched::inject",
            "sched::shown",
            "sched::clock",
            "sched::mark",
            "time::heap",
        ],
    },
    Row {
        name: "4 machinery",
        modules: &["sched::p", "sched::m", "sched::idle", "sched::current"],
    },
    Row {
        name: "5 scheduler",
        modules: &[
            "sched",
            "sched::life",
            "sched::table",
            "sched::critical",
            "sched::park",
            "sched::pools",
            "sched::queues",
            "sched::deadlock",
            "debug::dump",
            "debug::symbols",
            "debug::walk",
            "sched::timers",
            "sched::keeper",
            "sched::netpoll",
            "net::desc",
            "sched::ticket",
            "sched::steal",
            "sched::handoff",
            "sched::locked",
            "sched::preempt",
            "sched::implicit",
            "sched::procs",
            "sched::syscall",
            "sched::stw",
            "sched::find",
            "sched::follow",
            "sched::worker",
            "sched::sysmon",
            "sched::shutdown",
            "gc",
            "trace",
        ],
    },
    Row {
        name: "6 for programs",
        modules: &[
            "chan",
            "select",
            "sync",
            "time",
            "time::schedule",
            "time::sleep",
            "time::timer",
            "time::func",
            "net",
            "fs",
        ],
    },
    Row {
        name: "7 outside",
        modules: &[
            "builder",
            "counts",
            "context",
            "runtime",
            "spawn",
            "goroutine",
            "defer",
            "local",
            "debug",
            "metrics",
            "error",
            "lib",
        ],
    },
];

/// What a module may name although it is below: (who, what, why). An exception that nobody needs fails.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "sched::refs",
        "sched::m",
        "a reference is an address: it names the type behind it only",
    ),
    (
        "sched::refs",
        "sched::p",
        "a reference is an address: it names the type behind it only",
    ),
    (
        "sched::g",
        "sched::m",
        "a goroutine knows the M it runs on, by address",
    ),
    (
        "sched::g",
        "sched",
        "a goroutine knows its scheduler, by address",
    ),
    ("sched::m", "sched", "an M knows its scheduler, by address"),
    ("sched::m", "trace", "an M carries what it records with"),
    (
        "sched::m",
        "sched::timers",
        "a post-switch action carries the address of a timer",
    ),
    (
        "sched::m",
        "sched::ticket",
        "a post-switch action carries the address of what a goroutine waits for",
    ),
    ("select", "lib", "macros are exported at the root"),
];

/// Row 6 knows of the scheduler only what it needs: (who, which of `sched`). Everything in row 6 may name
/// the first entry's.
const SCHEDULER_FOR_PROGRAMS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "sched::critical",
            "sched::park",
            "sched::current",
            "sched::refs",
            "sched::g",
        ],
    ),
    // A timer fires on an M.
    ("time", &["sched::timers", "sched::m"]),
    ("select", &["sched::ticket", "sched::timers"]),
    ("chan", &["sched::ticket"]),
    (
        "net",
        &["sched::netpoll", "sched::timers", "sched::syscall"],
    ),
    ("fs", &["sched::syscall"]),
];

/// Names that only some modules may use, outside tests.
const RESERVED: &[(&str, &[&str])] = &[
    ("libc", &["sys"]),
    ("std::sync::atomic", &["prim"]),
    ("corosensei", &["switch::portable"]),
    ("loom", &["prim", "sys::futex"]),
];

/// One source file.
struct Source {
    /// `sched::runq` for `src/sched/runq.rs`.
    module: String,
    /// Its code without comments and without test modules.
    code: String,
}

#[test]
fn every_file_names_only_what_is_above_it() {
    let sources = read_sources();
    let report = check(&sources, EXCEPTIONS);
    assert!(
        report.problems.is_empty(),
        "\n{}\n",
        report.problems.join("\n")
    );
    // Against passing on nothing.
    assert!(sources.len() >= 20, "only {} files visited", sources.len());
    assert!(
        report.references >= 40,
        "only {} references seen",
        report.references
    );
}

/// What [`check`] found.
struct Report {
    problems: Vec<String>,
    references: usize,
}

fn check(sources: &[Source], exceptions: &[(&str, &str, &str)]) -> Report {
    let mut problems = Vec::new();
    let mut references = 0;
    let mut used = BTreeSet::new();
    for source in sources {
        let Some((from_row, from)) = place(&source.module) else {
            problems.push(format!(
                "{}: no row of the table has this file",
                source.module
            ));
            continue;
        };
        for path in paths(&source.code, &source.module) {
            references += 1;
            let target = module_of(&path, sources);
            let Some((to_row, to)) = place(&target) else {
                problems.push(format!("{}: no row has {target}", source.module));
                continue;
            };
            if let Some(index) = exceptions
                .iter()
                .position(|(who, what, _)| from == *who && to == *what)
            {
                used.insert(index);
            } else if to_row > from_row {
                problems.push(format!(
                    "{} (row {}) names {to} (row {}) in `{path}`",
                    source.module, ROWS[from_row].name, ROWS[to_row].name
                ));
            } else if ROWS[from_row].name.starts_with('6') && !may_name(from, &target) {
                problems.push(format!(
                    "{} names {target}: not for programs' modules",
                    source.module
                ));
            }
        }
        check_reserved_names(source, &mut problems);
    }
    for (index, (who, what, _)) in exceptions.iter().enumerate() {
        if !used.contains(&index) {
            problems.push(format!(
                "the exception for {who} to name {what} is not needed"
            ));
        }
    }
    problems.sort();
    problems.dedup();
    Report {
        problems,
        references,
    }
}

fn check_reserved_names(source: &Source, problems: &mut Vec<String>) {
    for (name, allowed) in RESERVED {
        let may = allowed
            .iter()
            .any(|module| is_within(&source.module, module));
        if names(&source.code, name) && !may {
            problems.push(format!(
                "{} names {name}, which only {allowed:?} may",
                source.module
            ));
        }
    }
}

/// Whether a module of row 6 may name this part of the scheduler.
fn may_name(from: &str, target: &str) -> bool {
    let is_scheduler = is_within(target, "sched");
    let mut allowed = SCHEDULER_FOR_PROGRAMS
        .iter()
        .filter(|(who, _)| who.is_empty() || is_within(from, who))
        .flat_map(|(_, modules)| modules.iter());
    !is_scheduler || allowed.any(|module| is_within(target, module))
}

/// The row of a module and the entry of the row that says so: the longest that it is within.
fn place(module: &str) -> Option<(usize, &'static str)> {
    ROWS.iter()
        .enumerate()
        .flat_map(|(row, entry)| entry.modules.iter().map(move |&name| (row, name)))
        .filter(|(_, name)| is_within(module, name))
        .max_by_key(|(_, name)| name.len())
}

/// Whether `module` is `ancestor` or below it.
fn is_within(module: &str, ancestor: &str) -> bool {
    module == ancestor
        || module
            .strip_prefix(ancestor)
            .is_some_and(|rest| rest.starts_with("::"))
}

/// The file that a path of the crate leads into: the longest prefix that is one; the root if none is.
fn module_of(path: &str, sources: &[Source]) -> String {
    sources
        .iter()
        .map(|source| source.module.as_str())
        .filter(|module| is_within(path, module))
        .max_by_key(|module| module.len())
        // A module that has a row but no file of its own yet, or an item of the root.
        .or_else(|| place(path).map(|(_, entry)| entry))
        .unwrap_or("lib")
        .to_owned()
}

/// Every path of the crate that the code of `module` names, without `crate::`.
fn paths(code: &str, module: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("crate::") {
        if !continues_word(code, start) {
            expand("", &code[start + "crate::".len()..], &mut found);
        }
    }
    for (start, _) in code.match_indices("super::") {
        if !continues_word(code, start) && !code[..start].ends_with("::") {
            let mut base = module;
            let mut rest = &code[start..];
            let mut inside = inline_modules(&code[..start]);
            while let Some(after) = rest.strip_prefix("super::") {
                if inside > 0 {
                    inside -= 1; // out of a module that is in this file
                } else {
                    base = base.rsplit_once("::").map_or("", |(parent, _)| parent);
                }
                rest = after;
            }
            let prefix = if base.is_empty() {
                String::new()
            } else {
                format!("{base}::")
            };
            expand(&prefix, rest, &mut found);
        }
    }
    found
}

/// How many modules with a body in this file are open at the end of `code` (formatted by rustfmt).
fn inline_modules(code: &str) -> usize {
    let mut open: Vec<&str> = Vec::new();
    for line in code.lines() {
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        let is_module = words.starts_with("mod ") || words.contains(" mod ");
        if is_module && words.ends_with('{') {
            open.push(indent);
        } else if words.starts_with('}') && open.last() == Some(&indent) {
            open.pop();
        }
    }
    open.len()
}

/// Whether the byte before `start` belongs to the same word, as in `$crate` or `my_crate`.
fn continues_word(code: &str, start: usize) -> bool {
    code[..start].ends_with(|before: char| before.is_alphanumeric() || before == '_')
}

/// Adds `prefix` with each path of a use tree (`a::{b, c::d}`) at the start of `text`; the text after it.
fn expand<'a>(prefix: &str, text: &'a str, found: &mut Vec<String>) -> &'a str {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let (word, mut rest) = text.split_at(end);
    let path = format!("{prefix}{word}");
    if !word.is_empty() {
        match rest.strip_prefix("::") {
            Some(after) => return expand(&format!("{path}::"), after, found),
            None if word == "self" => found.push(prefix.trim_end_matches("::").to_owned()),
            None => found.push(path),
        }
        return rest;
    }
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            inside = expand(prefix, inside.trim_start(), found);
            // The alias of `b as c`, and whatever else comes before the next item.
            match inside.find([',', '}']) {
                Some(at) if inside.as_bytes()[at] == b',' => inside = &inside[at + 1..],
                Some(at) => return &inside[at + 1..],
                None => return "",
            }
        }
    }
    // `*`, a turbofish, or the `}` of an empty place after a comma.
    if let Some(after) = rest.strip_prefix('*') {
        found.push(prefix.trim_end_matches("::").to_owned());
        rest = after;
    }
    rest
}

/// Whether the code has this path as a word of its own.
fn names(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(start, _)| {
        let after = &code[start + name.len()..];
        !continues_word(code, start)
            && !after.starts_with(|next: char| next.is_alphanumeric() || next == '_')
            // `cfg(loom)` is a condition and `crate::x::libc` another thing: only crates' paths count.
            && (after.starts_with("::") || name.contains("::"))
    })
}

fn read_sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files
        .iter()
        .filter(|file| !is_test_file(file))
        .map(|file| Source {
            module: module_name(
                file.strip_prefix(&root)
                    .expect("the crate's own sources can be read"),
            ),
            code: strip(&fs::read_to_string(file).expect("the crate's own sources can be read")),
        })
        .collect()
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the crate's own sources can be read") {
        let path = entry.expect("the crate's own sources can be read").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn is_test_file(file: &Path) -> bool {
    let stem = file
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    stem == "tests" || stem.ends_with("_tests") || stem.starts_with("test_")
}

fn module_name(relative: &Path) -> String {
    let path = relative.with_extension("");
    let mut parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    if parts.len() > 1 && parts.last() == Some(&"mod") {
        parts.pop();
    }
    parts.join("::")
}

/// The code without line comments, and without the module of tests at the end of a file.
fn strip(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_for_tests = line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        if is_for_tests && lines.peek().is_some_and(|next| next.ends_with('{')) {
            break;
        }
        // A `//` inside a string literal only hides the rest of its line from this test.
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}

/// The checker itself finds what it is for.
mod of_the_checker {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(module, text)| Source {
                module: (*module).to_owned(),
                code: strip(text),
            })
            .collect();
        check(&sources, &[]).problems
    }

    #[test]
    fn a_path_downwards_is_a_problem_however_it_is_written() {
        let mut checked = 0;
        for text in [
            "use crate::chan::Chan;",
            "use crate::{prim::atomic, chan::{self, Chan}};",
            "use crate::{\n    prim::atomic,\n    chan,\n};",
            "fn f() { crate::chan::make() }",
            "use super::super::chan::Chan;",
            "use crate::chan::*;",
            "mod inner {\n    use super::super::super::chan::Chan;\n}\n",
        ] {
            let found = problems(&[("sched::runq", text), ("chan", ""), ("prim", "")]);
            assert!(!found.is_empty(), "{text}");
            let expected = "sched::runq (row 3 data) names chan";
            assert!(found.iter().all(|one| one.contains(expected)), "{found:?}");
            checked += 1;
        }
        assert_eq!(checked, 7);
    }

    #[test]
    fn paths_upwards_comments_and_tests_are_none() {
        let text = "//! [`crate::chan`]\nuse crate::prim::atomic; // crate::chan\n\
                    mod inner {\n    use super::Own;\n}\n\
                    use super::g::G;\n#[cfg(test)]\nmod tests {\n    use crate::chan;\n}\n";
        assert!(problems(&[("sched::runq", text), ("chan", ""), ("prim", "")]).is_empty());
    }

    #[test]
    fn programs_modules_know_little_of_the_scheduler() {
        assert!(problems(&[("chan", "use crate::sched::park;")]).is_empty());
        assert_eq!(problems(&[("chan", "use crate::sched::timers;")]).len(), 1);
        assert!(problems(&[("time::sleep", "use crate::sched::timers;")]).is_empty());
        assert_eq!(problems(&[("chan", "use crate::sched::find;")]).len(), 1);
    }

    #[test]
    fn reserved_names_are_found_as_words_only() {
        assert_eq!(problems(&[("lock", "fn f() { libc::abort() }")]).len(), 1);
        assert_eq!(
            problems(&[("lock", "use std::sync::atomic::AtomicU32;")]).len(),
            1
        );
        assert!(problems(&[("sys::clock", "fn f() { libc::abort() }")]).is_empty());
        assert!(problems(&[("lock", "#[cfg(loom)]\nfn f(my_libc: u32) {}")]).is_empty());
    }

    #[test]
    fn a_file_without_a_row_and_an_idle_exception_are_problems() {
        assert_eq!(problems(&[("elsewhere", "")]).len(), 1);
        let sources = [Source {
            module: "prim".to_owned(),
            code: String::new(),
        }];
        let report = check(&sources, &[("prim", "chan", "no reason")]);
        assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    }
}
