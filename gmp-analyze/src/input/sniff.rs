//! What a file is, by its first bytes: traces, and the things that people give instead.

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A trace of ours.
    Gmp,
    /// A Go execution trace.
    Go,
    /// Something packed with gzip.
    Gzip,
    /// Nothing at all.
    Empty,
    /// A web page.
    Html,
    /// JSON.
    Json,
    /// Text.
    Text,
    /// A program or library.
    Program,
    /// An archive.
    Zip,
    /// Something packed with zstd.
    Zstd,
    /// Bytes of no kind that is known here.
    Other,
}

/// What `first`, the first bytes of a file, say it is.
pub(super) fn kind(first: &[u8]) -> Kind {
    let begins = |with: &[u8]| first.starts_with(with);
    if first.is_empty() {
        Kind::Empty
    } else if begins(b"\x8Egmp") {
        Kind::Gmp
    } else if begins(b"go 1.") {
        Kind::Go
    } else if begins(b"\x1F\x8B") {
        Kind::Gzip
    } else if begins(b"\x7FELF") || begins(b"MZ") || begins(b"\xCF\xFA\xED\xFE") {
        Kind::Program
    } else if begins(b"PK\x03\x04") {
        Kind::Zip
    } else if begins(b"\x28\xB5\x2F\xFD") {
        Kind::Zstd
    } else {
        text_kind(first)
    }
}

fn text_kind(first: &[u8]) -> Kind {
    // A character may be cut where the look ends.
    let valid = match std::str::from_utf8(first) {
        Ok(_) => first.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return Kind::Other,
    };
    let Ok(text) = std::str::from_utf8(&first[..valid]) else {
        return Kind::Other;
    };
    if text
        .chars()
        .any(|c| c.is_control() && !c.is_ascii_whitespace())
    {
        return Kind::Other;
    }
    let text = text.trim_start().to_ascii_lowercase();
    if text.starts_with("<!doctype html") || text.starts_with("<html") {
        Kind::Html
    } else if text.starts_with('{') || text.starts_with('[') {
        Kind::Json
    } else {
        Kind::Text
    }
}

/// What to say of a file that is no trace of ours.
pub(super) fn not_a_trace(kind: Kind, wrapping: &str, first: &[u8]) -> String {
    const RECORD: &str = "record one with GMPDEBUG=trace=FILE";
    let (found, advice) = match kind {
        Kind::Empty => (
            "an empty file".to_owned(),
            "was the program killed before it recorded?",
        ),
        Kind::Html => (
            "a web page".to_owned(),
            "the download may need a login or another address",
        ),
        Kind::Json => (format!("JSON that begins {:?}", first_line(first)), RECORD),
        Kind::Text => (format!("text that begins {:?}", first_line(first)), RECORD),
        Kind::Program => ("a program".to_owned(), RECORD),
        Kind::Zip => ("a zip archive".to_owned(), "unpack it first"),
        Kind::Zstd => ("a zstd file".to_owned(), "unpack it first"),
        Kind::Gzip => ("gzip".to_owned(), "unpack it once first"),
        Kind::Gmp | Kind::Go | Kind::Other => {
            (format!("bytes that begin {}", hexadecimal(first)), RECORD)
        }
    };
    format!("expected a trace, found {wrapping}{found}: {advice}")
}

/// The first line, cut short, without bytes that do anything to a terminal.
fn first_line(first: &[u8]) -> String {
    let text = String::from_utf8_lossy(first);
    let line = text.trim_start().lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(40).collect()
}

fn hexadecimal(first: &[u8]) -> String {
    let bytes: Vec<String> = first
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    bytes.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_that_people_give() {
        let cases: [(&[u8], Kind); 12] = [
            (b"", Kind::Empty),
            (b"\x8Egmp\r\n\x1a\n", Kind::Gmp),
            (b"go 1.22 trace\0\0\0", Kind::Go),
            (b"\x1F\x8B\x08", Kind::Gzip),
            (b"  <!DOCTYPE HTML><title>Sign in", Kind::Html),
            (b"{\"traceEvents\":[", Kind::Json),
            (b"SCHED 0ms: gomaxprocs=2\n", Kind::Text),
            ("grün".as_bytes(), Kind::Text),
            (b"\x7FELF\x02", Kind::Program),
            (b"\xFF\xFE\x00", Kind::Other),
            (b"abc\0def", Kind::Other),
            // A character that is cut where the look ends.
            (b"abc\xC3", Kind::Text),
        ];
        for (first, expected) in cases {
            assert_eq!(kind(first), expected, "{first:?}");
        }
    }

    #[test]
    fn what_was_found_is_said_without_control_characters() {
        let text = not_a_trace(Kind::Text, "", b"hello \x1b[31mworld\nsecond");
        assert!(text.contains("\"hello [31mworld\""), "{text}");
        assert!(!text.contains("second"));
        let long = not_a_trace(Kind::Text, "", "x".repeat(1000).as_bytes());
        assert!(long.len() < 200);
    }
}
