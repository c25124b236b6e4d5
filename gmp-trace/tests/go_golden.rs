//! The inputs of the tests of Go's own reader, where there is a Go toolchain: our strict reader gives the
//! same verdict, and of those that are right it sees the same events.

mod go_support;

use std::path::Path;

use gmp_trace::go::text::from_text;

use go_support::tool::{Tool, tool};
use go_support::written::write;
use go_support::{drain, lenient, strict};

/// Every file in `folder` of Go's test data, by name.
fn files(tool: &Tool, folder: &str) -> Vec<(String, String)> {
    let folder = tool.testdata.join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("no {}: not looked at", folder.display());
        return Vec::new();
    };
    let read = |path: &Path| {
        let name = path.file_name().expect("a name").to_string_lossy();
        (
            name.into_owned(),
            std::fs::read_to_string(path).expect("text"),
        )
    };
    let mut files: Vec<_> = entries
        .map(|entry| read(&entry.expect("an entry").path()))
        .collect();
    files.sort();
    files
}

/// What Go prints of a trace, without the reasons of yielding, of which Go's runtime has one, and statuses
/// that say once more what is known.
fn events(tool: &Tool, bytes: &[u8]) -> Vec<String> {
    let events = tool.parsed_by_thread(bytes).into_iter();
    let events = events.filter_map(|event| {
        let transition = event.split(' ').find_map(|word| word.split_once("->"));
        if transition.is_some_and(|(from, to)| from == to) {
            return None;
        }
        let yields = " Running->Runnable Reason=\"";
        let Some((before, reason)) = event.split_once(yields) else {
            return Some(event);
        };
        let (_, rest) = reason.split_once('"')?;
        Some(format!("{before}{yields}{rest}"))
    });
    events.collect()
}

/// What our strict reader says against a trace, if it does. Whatever it says, the other one reads on.
fn refusal(bytes: &[u8]) -> Option<String> {
    if let Ok(mut reader) = lenient(bytes) {
        drain(&mut reader);
    }
    match strict(bytes) {
        Ok(mut reader) => drain(&mut reader).1,
        Err(error) => Some(error),
    }
    .map(|error| error.to_string())
}

#[test]
fn golden_traces_have_their_verdict_and_their_events() {
    let Some(tool) = tool() else { return };
    let (mut right, mut wrong) = (0, 0);
    for (name, text) in files(tool, "tests") {
        let (head, trace) = text.split_once("-- trace --\n").expect("a trace");
        let bytes = from_text(trace).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (go, ours) = (tool.refusal(&bytes), refusal(&bytes));
        let meant = head.contains("SUCCESS");
        assert_eq!(meant, go.is_none(), "{name}: {go:?}");
        assert_eq!(meant, ours.is_none(), "{name}: {ours:?}, Go: {go:?}");
        if !meant {
            wrong += 1;
            continue;
        }
        let written = write(&bytes, &name).bytes;
        tool.validate(&written, &name);
        let (meant, got) = (events(tool, &bytes), events(tool, &written));
        for (place, (meant, got)) in meant.iter().zip(&got).enumerate() {
            assert_eq!(meant, got, "{name}: {place}");
        }
        assert_eq!(meant.len(), got.len(), "{name}");
        right += 1;
    }
    assert!(
        right + wrong == 0 || (right >= 16 && wrong >= 2),
        "{right}, {wrong}"
    );
}

/// What Go says against an event of this kind in a trace up to Go 1.21.
const FUTILE_WAKEUP: &str = "unexpected event type 36";

#[test]
fn inputs_that_gos_fuzzer_kept_have_gos_verdict() {
    let Some(tool) = tool() else { return };
    let mut checked = 0;
    let inputs = files(tool, "fuzz/FuzzReader");
    for (name, text) in &inputs {
        let (_, quoted) = text.split_once("[]byte(\"").expect("an input");
        let (quoted, _) = quoted.rsplit_once("\")").expect("its end");
        let bytes = unquoted(quoted);
        assert!(bytes.starts_with(b"go 1."), "{name}");
        let (go, ours) = (tool.refusal(&bytes), refusal(&bytes));
        if go.as_deref().map(str::trim) == Some(FUTILE_WAKEUP) {
            // The one difference, of those in docs/go-traces.md, that these show.
            assert_eq!(ours, None, "{name}");
        } else {
            let both = (ours.is_some(), go.is_some());
            assert_eq!(both.0, both.1, "{name}: {ours:?}, Go: {go:?}");
        }
        checked += 1;
    }
    assert!(checked == 0 || checked >= 15, "{checked}");
}

/// The bytes that a string literal of Go stands for.
fn unquoted(literal: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = literal.chars();
    while let Some(character) = rest.next() {
        let character = match character {
            '\\' => rest.next().expect("an escape"),
            _ => {
                bytes.extend(character.to_string().bytes());
                continue;
            }
        };
        let mut number = |digits| {
            let digits: String = rest.by_ref().take(digits).collect();
            u32::from_str_radix(&digits, 16).expect("a number")
        };
        match character {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            't' => bytes.push(9),
            'n' => bytes.push(10),
            'v' => bytes.push(11),
            'f' => bytes.push(12),
            'r' => bytes.push(13),
            'x' => bytes.push(number(2) as u8),
            'u' | 'U' => {
                let number = number(if character == 'u' { 4 } else { 8 });
                let character = char::from_u32(number).expect("a character");
                bytes.extend(character.to_string().bytes());
            }
            other => bytes.extend(other.to_string().bytes()),
        }
    }
    bytes
}

#[test]
fn literals_of_go_are_unquoted() {
    assert_eq!(
        unquoted(r#"a\x00\"\\\n\u00dfß\a"#),
        "a\0\"\\\nßß\x07".as_bytes()
    );
}
