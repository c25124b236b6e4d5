//! `docs/trace-format.md` says what the crate does: its tables are made from the crate's.
//!
//! `GMP_BLESS=1` writes them anew.

#![cfg(all(feature = "text", feature = "testgen"))]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod support;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use gmp_trace::event::{Found, Waker};
use gmp_trace::header::{HEADER_BYTES, HeaderInfo, MAGIC};
use gmp_trace::id::{GId, MId};
use gmp_trace::limits;
use gmp_trace::spec::{ARG_TYPES, SPECS, Spec, Tail, VERSION};
use gmp_trace::tables::{KNOWN_TEXTS, Text};
use gmp_trace::write::{BLOCK_HEADER_BYTES, BlockHead, BlockKind, Encoder, Seq, Wait, header};

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/trace-format.md")
}

fn heads(spec: &Spec) -> String {
    match spec.width {
        1 => format!("`{:02X}`", spec.head),
        width => format!("`{:02X}`–`{:02X}`", spec.head, spec.head + width - 1),
    }
}

fn records() -> String {
    let mut table =
        String::from("| head | record | values | numbers | events | group | meaning |\n");
    table.push_str("|---|---|---|---|---|---|---|\n");
    for spec in SPECS {
        let named = spec
            .values
            .iter()
            .enumerate()
            .filter(|(_, name)| !name.is_empty());
        let values: Vec<_> = named
            .map(|(value, name)| format!("{value} `{name}`"))
            .collect();
        let mut numbers: Vec<_> = spec.args.iter().map(|arg| format!("`{arg}`")).collect();
        if spec.seq_form {
            let last = numbers.pop().unwrap();
            numbers.push(format!("\\[{last}\\]"));
        }
        match spec.tail {
            None => {}
            Some(Tail::Bytes) => numbers.push("tail: text".to_owned()),
            Some(Tail::Addresses) => numbers.push("tail: addresses".to_owned()),
        }
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} | {:?} | {} |",
            heads(spec),
            spec.name,
            values.join(", "),
            numbers.join(" "),
            spec.events,
            spec.group,
            spec.doc
        );
    }
    table
}

fn texts() -> String {
    let mut table = String::from("| number | string |\n|---|---|\n");
    for (number, text) in KNOWN_TEXTS.iter().enumerate() {
        let shown = if text.is_empty() {
            "(the empty string)".into()
        } else {
            format!("`{text}`")
        };
        let _ = writeln!(table, "| {number} | {shown} |");
    }
    table
}

fn limits_table() -> String {
    let rows = [
        ("capacity of a block", limits::MAX_BLOCK_BYTES),
        (
            "payload of a block before compression",
            limits::MAX_PAYLOAD_BYTES,
        ),
        (
            &format!(
                "all compressed payloads before compression, besides {} times the bytes that are stored",
                limits::MAX_INFLATION
            ),
            limits::MAX_INFLATED_BYTES,
        ),
        ("offset of the first block", limits::MAX_FIRST_BLOCK),
        (
            "length of a record with a length of its own",
            limits::MAX_RECORD_BYTES,
        ),
        ("bytes of a string", limits::MAX_STRING_BYTES),
        (
            "bytes of a message in a Log record, as written",
            limits::MAX_LOG_BYTES,
        ),
        ("frames of a stack", limits::MAX_STACK_FRAMES),
        ("numbers of a record", limits::MAX_ARGUMENTS),
        ("wait slots of a block", limits::WAIT_SLOTS),
        (
            "first number of a text that the trace defines",
            limits::FIRST_STRING as usize,
        ),
    ];
    let mut table = String::from("| what | limit |\n|---|---|\n");
    for (what, limit) in rows {
        let _ = writeln!(table, "| {what} | {limit} |");
    }
    table
}

/// The bytes of the example, as the encoder writes them.
fn example() -> String {
    let wait = Wait {
        reason: Text::CHAN_RECEIVE.0,
        site: 1,
        object: 64,
    };
    let mut chunk = vec![0; 1024];
    let mut encoder = Encoder::new();
    let head = BlockHead {
        kind: BlockKind::Events,
        generation: 1,
        sequence: 0,
        m: MId::new(3),
        base_time: 1000,
        g: GId::new(7),
        p: None,
    };
    encoder.begin(&mut chunk, &head);
    let mut text = String::from("```text\n");
    let mut from = BLOCK_HEADER_BYTES;
    let mut lines = Vec::new();
    encoder.park_start(&mut chunk, 1001, wait, 8, (Found::Runnext, Seq::Local));
    // The first park defines its slot before it, in five bytes.
    lines.push(from + 5);
    lines.push(encoder.used());
    encoder.ready(&mut chunk, 1003, 7, Waker::Goroutine, Seq::Local);
    lines.push(encoder.used());
    encoder.park_start(&mut chunk, 1003, wait, 7, (Found::Local, Seq::Remote(300)));
    lines.push(encoder.used());
    assert_eq!(encoder.events(), 5);
    for to in lines {
        let bytes: Vec<_> = chunk[from..to].iter().map(|b| format!("{b:02X}")).collect();
        let _ = writeln!(text, "{}", bytes.join(" "));
        from = to;
    }
    text + "```\n"
}

fn between<'a>(text: &'a str, name: &str) -> (&'a str, &'a str, &'a str) {
    let (begin, end) = (
        format!("<!-- {name}: begin -->\n"),
        format!("<!-- {name}: end -->\n"),
    );
    let at = text
        .find(&begin)
        .unwrap_or_else(|| panic!("no begin of {name}"))
        + begin.len();
    let to = at
        + text[at..]
            .find(&end)
            .unwrap_or_else(|| panic!("no end of {name}"));
    (&text[..at], &text[at..to], &text[to..])
}

#[test]
fn tables_of_the_page_are_those_of_the_crate() {
    let tables = [
        ("records", records()),
        ("texts", texts()),
        ("limits", limits_table()),
        ("example", example()),
    ];
    let mut text = std::fs::read_to_string(page()).unwrap();
    for (name, table) in tables {
        assert!(table.lines().count() > 4, "{name}");
        let (before, old, after) = between(&text, name);
        if std::env::var_os("GMP_BLESS").is_some_and(|v| v == "1") {
            text = format!("{before}{table}{after}");
            std::fs::write(page(), &text).unwrap();
        } else {
            assert_eq!(old, table, "table `{name}` of docs/trace-format.md");
        }
    }
}

#[test]
fn figures_of_the_page_are_those_of_the_crate() {
    let text = std::fs::read_to_string(page()).unwrap();
    let hex = |bytes: &[u8]| {
        let bytes: Vec<_> = bytes.iter().map(|b| format!("{b:02X}")).collect();
        format!("`{}`", bytes.join(" "))
    };
    let mut chunk = vec![0; 1024];
    let head = BlockHead {
        kind: BlockKind::Events,
        generation: 1,
        sequence: 0,
        m: None,
        base_time: 0,
        g: None,
        p: None,
    };
    Encoder::new().begin(&mut chunk, &head);
    assert!(text.contains(&hex(&MAGIC)));
    assert!(text.contains(&hex(&chunk[..8])), "the marker of a block");
    assert!(text.contains(&format!("format, version {}.{}", VERSION.0, VERSION.1)));
    assert_eq!(HEADER_BYTES, 384);
    assert!(text.contains("384 to 4 194 304") && text.contains("header of 80 bytes"));
    assert_eq!(
        (BLOCK_HEADER_BYTES, limits::MAX_BLOCK_BYTES),
        (80, 4_194_304)
    );
    let bytes = header(&HeaderInfo {
        process_id: 0x0102,
        start: 9,
        ..HeaderInfo::new(7)
    });
    assert_eq!(
        (bytes[16], bytes[24], bytes[36], bytes[40]),
        (7, 2, 0x80, 9)
    );
    for (name, _) in ARG_TYPES {
        assert!(
            text.contains(&format!("`{name}`")),
            "type {name} is not on the page"
        );
    }
}

/// The example in the page's text is what its bytes say.
#[test]
fn the_example_reads_as_it_says() {
    let text = std::fs::read_to_string(page()).unwrap();
    let records = text.split("and in bytes:\n\n```text\n").nth(1).unwrap();
    let records = records.split("```").next().unwrap();
    let whole = format!(
        "gmp trace 1.0\nclock 1000000000\nblock events generation=1 sequence=0 m=3 base=1000 g=7\n{records}"
    );
    let bytes = gmp_trace::text::from_text(&whole).unwrap();
    let payload = &bytes[HEADER_BYTES + BLOCK_HEADER_BYTES..];
    let shown = between(&text, "example").1;
    let shown: Vec<u8> = shown
        .split_whitespace()
        .filter(|word| word.len() == 2)
        .map(|word| u8::from_str_radix(word, 16).unwrap())
        .collect();
    assert_eq!(payload, shown);
}
