//! The sixteen bytes that a Go trace begins with, and what other files begin with.

use std::fmt;

use crate::error::Error;

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 16;

const PREFIX: &[u8] = b"go 1.";
const SUFFIX: &[u8] = b" trace\0\0\0";

/// The newest header that this reader was written for. Go 1.26 and 1.27 write it.
pub(crate) const NEWEST: u16 = 26;

/// The format of a trace: the number after `1.` in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u16);

impl Version {
    /// Of the format up to Go 1.21: one buffer a P, one table for all.
    pub(crate) fn is_v1(self) -> bool {
        self.0 < 22
    }

    /// Whether a generation has to have a clock snapshot, and its clocks in a batch that begins with
    /// a `Sync` event.
    pub(crate) fn has_clock_snapshots(self) -> bool {
        self.0 >= 25
    }

    /// Whether a generation ends with an event of its own.
    pub(crate) fn has_end_of_generation(self) -> bool {
        self.0 >= 26
    }

    /// Whether the format is newer than this reader.
    pub(crate) fn is_newer(self) -> bool {
        self.0 > NEWEST
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "go 1.{}", self.0)
    }
}

/// Whether `bytes` begin a Go trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// They do, or could if there were more of them.
    Yes,
    /// They do not.
    No,
}

/// Looks at the first bytes of a file.
pub(crate) fn probe(bytes: &[u8]) -> Probe {
    let n = bytes.len().min(PREFIX.len());
    match bytes.get(..n) == PREFIX.get(..n) {
        true => Probe::Yes,
        false => Probe::No,
    }
}

/// Reads the header.
///
/// # Errors
///
/// The bytes are something else, not all of a header, or the header of a version that is not known.
pub(crate) fn parse(bytes: &[u8]) -> Result<Version, Error> {
    if bytes.is_empty() {
        return Err(Error::not_a_trace("an empty file"));
    }
    if probe(bytes) == Probe::No {
        return Err(Error::not_a_trace(describe(bytes)));
    }
    let Some(header) = bytes.get(..HEADER_BYTES) else {
        let found = format_args!("{} bytes", bytes.len());
        return Err(Error::truncated(
            0,
            format_args!("a header of {HEADER_BYTES} bytes"),
            found,
        ));
    };
    let number = header.get(PREFIX.len()..).unwrap_or_default();
    let digits = number.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = number.split_at(digits.min(3));
    let fits = SUFFIX.starts_with(rest.get(..SUFFIX.len()).unwrap_or(rest));
    let Some(number) = std::str::from_utf8(digits)
        .ok()
        .and_then(|d| d.parse::<u16>().ok())
    else {
        return Err(Error::not_a_trace(format_args!(
            "a header {:?}",
            Escaped(header)
        )));
    };
    if !fits {
        return Err(Error::not_a_trace(format_args!(
            "a header {:?}",
            Escaped(header)
        )));
    }
    let version = Version(number);
    match number {
        11 | 19 | 21 | 22 | 23 | 25 | NEWEST => Ok(version),
        _ if version.is_newer() => Ok(version),
        _ => {
            let known = "go 1.11, 1.19, 1.21, 1.22, 1.23, 1.25, 1.26 or newer";
            Err(Error::unsupported(format_args!("{version}"), known))
        }
    }
}

/// What a file that is no trace looks like.
pub(crate) fn describe(bytes: &[u8]) -> impl fmt::Display {
    let text = bytes.trim_ascii_start();
    let kind = match bytes {
        [0x1f, 0x8b, ..] => "something that looks like gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "something that looks like zstd",
        [0x7f, b'E', b'L', b'F', ..] => "something that looks like a program",
        _ if text.starts_with(b"<") => "something that looks like HTML or XML",
        _ if text.starts_with(b"{") || text.starts_with(b"[") => "something that looks like JSON",
        _ => "a file",
    };
    let begins = bytes
        .get(..bytes.len().min(HEADER_BYTES))
        .unwrap_or_default();
    format!("{kind} that begins with {:?}", Escaped(begins))
}

/// Bytes as text, what is not printable escaped.
struct Escaped<'a>(&'a [u8]);

impl fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(HEADER_BYTES, 0);
        bytes
    }

    #[test]
    fn known_versions_are_accepted() {
        let mut checked = 0;
        for number in [11, 19, 21, 22, 23, 25, 26, 27, 31, 99] {
            let version = parse(&header(&format!("go 1.{number} trace"))).expect("a version");
            assert_eq!(version, Version(number));
            assert_eq!(version.is_newer(), number > 26);
            checked += 1;
        }
        assert_eq!(checked, 10);
    }

    #[test]
    fn others_are_refused_by_name() {
        for number in [5, 7, 8, 9, 10, 12, 20, 24] {
            let error = parse(&header(&format!("go 1.{number} trace"))).expect_err("refused");
            assert!(error.is_unsupported_version(), "{error}");
            assert!(
                error.to_string().contains(&format!("go 1.{number}")),
                "{error}"
            );
        }
        for (bytes, word) in [
            (&b"\x1f\x8b\x08\0"[..], "gzip"),
            (b"<!DOCTYPE html>", "HTML"),
            (b"\x7fELF\x02\x01", "program"),
            (b" { \"traceEvents\": [] }", "JSON"),
            (b"", "empty"),
            (b"go 1.x trace\0\0\0\0", "go 1.x"),
            (b"go 1.22 trash\0\0\0", "trash"),
        ] {
            let error = parse(bytes).expect_err("refused");
            assert!(error.is_not_a_trace(), "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
        let whole = header("go 1.22 trace");
        for cut in 1..HEADER_BYTES {
            assert!(
                parse(&whole[..cut]).expect_err("cut").is_truncated(),
                "{cut}"
            );
        }
    }
}
