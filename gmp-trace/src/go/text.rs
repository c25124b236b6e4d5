//! The text form of Go traces since Go 1.22, both ways: one record a line, as Go's own tools print
//! and read it.
//!
//! ```text
//! Trace Go1.26
//! EventBatch gen=1 m=3 time=28747956 size=6
//! ProcStatus dt=1 p=0 pstatus=1
//! String id=2
//!         data="main.main"
//! Stack id=1 nframes=1
//!         pc=4198400 func=2 file=3 line=12
//! ```
//!
//! It is meant for inputs of tests and for looking at single records. Nothing is checked but what a
//! record needs; [`from_text`] writes each number in as few bytes as it takes, so a file that was
//! recorded comes back equal in its records and not in its bytes (its batch sizes are padded).

use std::fmt::Write as _;
use std::io::{self, Write};

use super::header::{self, HEADER_BYTES, Version};
use super::numbers::Bytes;
use super::spec::{self, EventSpec, Form};
use crate::error::Error;
use crate::varint;

const FRAME: [&str; 4] = ["pc", "func", "file", "line"];

/// Prints the records of the trace in `bytes`.
///
/// # Errors
///
/// When the bytes are no trace since Go 1.22, or a record cannot be told (its offset is said; what
/// comes before it has been printed), or `out` fails.
pub fn to_text(bytes: &[u8], out: &mut impl Write) -> Result<(), Error> {
    let version = header::parse(
        bytes
            .get(..HEADER_BYTES.min(bytes.len()))
            .unwrap_or_default(),
    )?;
    if version.is_v1() {
        return Err(Error::unsupported(version, "go 1.22 or newer"));
    }
    let mut reader = Bytes::new(bytes);
    reader.take(HEADER_BYTES);
    let mut text = format!("Trace Go1.{}\n", version.0);
    loop {
        let at = reader.read() as u64;
        let printed = match reader.is_empty() {
            true => Ok(()),
            false => print_record(&mut reader, version, &mut text),
        };
        if printed.is_err() || reader.is_empty() || text.len() > 1 << 16 {
            out.write_all(text.as_bytes())
                .map_err(|error| Error::io(at, error))?;
            text.clear();
        }
        if let Err(found) = printed {
            return Err(Error::corrupt(at, "a whole record", found));
        }
        if reader.is_empty() {
            return Ok(());
        }
    }
}

/// Appends one record as text.
fn print_record(reader: &mut Bytes<'_>, version: Version, text: &mut String) -> Result<(), String> {
    let number = reader.byte().unwrap_or(0);
    let Some(spec) = spec::spec(number).filter(|spec| spec.since <= version.0) else {
        return Err(format!("type {number}"));
    };
    let mut line = String::from(spec.name);
    let mut last = 0;
    for arg in spec.args {
        // The experiment of a batch is a byte, whatever its value.
        last = match (spec.number, *arg) {
            (spec::EXPERIMENTAL_BATCH, "exp") => reader.byte().map(u64::from),
            _ => reader.number("").ok(),
        }
        .ok_or_else(|| format!("a {} that is cut in its {arg}", spec.name))?;
        let _ = write!(line, " {arg}={last}");
    }
    let cut = || format!("a {} that is cut", spec.name);
    if spec.form == Form::Stack {
        if last > spec::MAX_FRAMES {
            return Err(format!("a stack of {last} frames"));
        }
        for _ in 0..last {
            line.push_str("\n\t");
            for (place, field) in FRAME.iter().enumerate() {
                let value = reader.number("").map_err(|_| cut())?;
                let space = if place == 0 { "" } else { " " };
                let _ = write!(line, "{space}{field}={value}");
            }
        }
    }
    if spec.form == Form::Data {
        let length = reader.number("").map_err(|_| cut())?;
        let data = usize::try_from(length)
            .ok()
            .and_then(|length| reader.take(length));
        line.push_str("\n\tdata=");
        quote(data.ok_or_else(cut)?, &mut line);
    }
    text.push_str(&line);
    text.push('\n');
    Ok(())
}

/// Appends `bytes` as a Go string literal.
fn quote(bytes: &[u8], out: &mut String) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\u{7}' => out.push_str("\\a"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\u{b}' => out.push_str("\\v"),
                c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                    let _ = write!(out, "\\x{:02x}", c as u32);
                }
                c if c.is_control() => {
                    let _ = write!(out, "\\u{:04x}", c as u32);
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
}

/// The bytes of the trace that `text` describes.
///
/// Empty lines are left out. The size of an event batch is the one given, or, written as `size=?`,
/// that of the records up to the next batch.
///
/// # Errors
///
/// When a line is none; the message says which.
pub fn from_text(text: &str) -> Result<Vec<u8>, Error> {
    let mut writer = Writer {
        out: Vec::new(),
        open: None,
        batch: Vec::new(),
    };
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let (at, first) = lines.next().unwrap_or((0, ""));
    let mut words = first.split_whitespace();
    let version = match (words.next(), words.next(), words.next()) {
        (Some("Trace"), Some(version), None) => version.strip_prefix("Go1."),
        _ => None,
    };
    let Some(version) = version.and_then(|version| version.parse::<u16>().ok()) else {
        return Err(wrong(at, "a line like `Trace Go1.26`", first));
    };
    let mut begin = format!("go 1.{version} trace").into_bytes();
    begin.resize(HEADER_BYTES, 0);
    header::parse(&begin)?;
    writer.out = begin;
    while let Some((at, line)) = lines.next() {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let known = |spec: &&EventSpec| spec.name == name && spec.since <= version;
        let Some(spec) = spec::SPECS.iter().find(known) else {
            return Err(wrong(at, "the name of an event of this version", name));
        };
        let mut record = Record {
            bytes: vec![spec.number],
            frames: 0,
            sized: true,
        };
        record.arguments(spec, words, at)?;
        for _ in 0..record.frames {
            let (at, line) = lines
                .next()
                .ok_or_else(|| wrong(at, "a frame", "the end"))?;
            let mut words = line.split_whitespace();
            for field in FRAME {
                let value = argument(words.next(), field, at)?;
                varint::push(&mut record.bytes, value);
            }
        }
        if spec.form == Form::Data {
            let (at, line) = lines.next().ok_or_else(|| wrong(at, "data", "the end"))?;
            let data = line.trim().strip_prefix("data=").and_then(unquote);
            let data = data.ok_or_else(|| wrong(at, "a line like `data=\"…\"`", line))?;
            varint::push(&mut record.bytes, data.len() as u64);
            record.bytes.extend_from_slice(&data);
        }
        writer.take(spec, record);
    }
    writer.close();
    Ok(writer.out)
}

/// Collects the records of a batch whose size is not given.
struct Writer {
    out: Vec<u8>,
    /// The head of the batch, without its size.
    open: Option<Vec<u8>>,
    batch: Vec<u8>,
}

struct Record {
    bytes: Vec<u8>,
    frames: u64,
    /// Whether the size of a batch is in it.
    sized: bool,
}

impl Writer {
    fn take(&mut self, spec: &EventSpec, record: Record) {
        let frames = [
            spec::EVENT_BATCH,
            spec::EXPERIMENTAL_BATCH,
            spec::END_OF_GENERATION,
        ];
        if frames.contains(&spec.number) {
            self.close();
            if record.sized {
                self.out.extend_from_slice(&record.bytes);
            } else {
                self.open = Some(record.bytes);
            }
        } else if self.open.is_some() {
            self.batch.extend_from_slice(&record.bytes);
        } else {
            self.out.extend_from_slice(&record.bytes);
        }
    }

    fn close(&mut self) {
        if let Some(head) = self.open.take() {
            self.out.extend_from_slice(&head);
            varint::push(&mut self.out, self.batch.len() as u64);
            self.out.append(&mut self.batch);
        }
    }
}

impl Record {
    fn arguments<'a>(
        &mut self,
        spec: &EventSpec,
        mut words: impl Iterator<Item = &'a str>,
        at: usize,
    ) -> Result<(), Error> {
        for arg in spec.args {
            let word = words.next();
            if spec.number == spec::EVENT_BATCH && word == Some("size=?") {
                self.sized = false;
                continue;
            }
            let value = argument(word, arg, at)?;
            if spec.number == spec::EXPERIMENTAL_BATCH && *arg == "exp" {
                let byte = u8::try_from(value);
                self.bytes
                    .push(byte.map_err(|_| wrong(at, "a number below 256", arg))?);
                continue;
            }
            varint::push(&mut self.bytes, value);
            if spec.form == Form::Stack {
                self.frames = value;
            }
        }
        match words.next() {
            None => Ok(()),
            Some(more) => Err(wrong(at, "the end of the line", more)),
        }
    }
}

fn argument(word: Option<&str>, name: &str, at: usize) -> Result<u64, Error> {
    let value = word.and_then(|word| word.strip_prefix(name)?.strip_prefix('='));
    let value = value.and_then(|value| value.parse().ok());
    value.ok_or_else(|| {
        wrong(
            at,
            format!("{name}=NUMBER"),
            word.unwrap_or("the end of the line"),
        )
    })
}

/// The bytes of a Go string literal.
fn unquote(literal: &str) -> Option<Vec<u8>> {
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        if c == '"' {
            return None;
        }
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let kind = rest.next()?;
        let digits = match kind {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            '0'..='7' => 3,
            _ => 0,
        };
        if digits == 0 {
            out.push(match kind {
                'a' => 7,
                'b' => 8,
                'f' => 12,
                'n' => b'\n',
                'r' => b'\r',
                't' => b'\t',
                'v' => 11,
                '\\' | '"' | '\'' => kind as u8,
                _ => return None,
            });
            continue;
        }
        let octal = kind.is_ascii_digit();
        let mut number = if octal { kind.to_digit(8)? } else { 0 };
        for _ in usize::from(octal)..digits {
            let radix = if octal { 8 } else { 16 };
            number = number.checked_mul(radix)? + rest.next()?.to_digit(radix)?;
        }
        match kind {
            'u' | 'U' => {
                let c = char::from_u32(number)?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => out.push(u8::try_from(number).ok()?),
        }
    }
    Some(out)
}

fn wrong(at: usize, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Error {
    let message = format!("line {}: expected {expected}, found {found}", at + 1);
    Error::io(0, io::Error::new(io::ErrorKind::InvalidData, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_and_back() {
        let mut checked = 0;
        for bytes in [
            &b"main.main"[..],
            b"",
            b"a \"quoted\" \\ \n\t\r\x07\x08\x0c\x0b\0\x7f",
            "grün \u{85} \u{1f600}".as_bytes(),
            b"\xff\xfe cut \xc3",
        ] {
            let mut text = String::new();
            quote(bytes, &mut text);
            assert!(!text.contains('\n') && text.is_char_boundary(text.len()));
            assert_eq!(unquote(&text).as_deref(), Some(bytes), "{text}");
            checked += 1;
        }
        assert_eq!(checked, 5);
        assert_eq!(unquote(r#""\101\x42\u0043""#).as_deref(), Some(&b"ABC"[..]));
        for broken in [r#""a"#, r#"a""#, r#""\q""#, r#""\x4""#, r#""a"b""#, r#""\"#] {
            assert_eq!(unquote(broken), None, "{broken}");
        }
    }

    #[test]
    fn sizes_can_be_left_open() {
        let text = "Trace Go1.22\nEventBatch gen=1 m=0 time=5 size=?\nFrequency freq=7\n\
                    EventBatch gen=1 m=0 time=5 size=2\nProcStop dt=1\n";
        let bytes = from_text(text).expect("a trace");
        assert_eq!(
            bytes[HEADER_BYTES..],
            [1, 1, 0, 5, 2, 8, 7, 1, 1, 0, 5, 2, 11, 1]
        );
        let mut back = Vec::new();
        to_text(&bytes, &mut back).expect("printed");
        let closed = text.replace("size=?", "size=2");
        assert_eq!(String::from_utf8(back).expect("text"), closed);
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, said) in [
            ("", "line 1"),
            ("Trace Go2.0", "Trace Go1.26"),
            ("Trace Go1.22\n\nProcStop", "line 3"),
            ("Trace Go1.22\nProcStop dt=1 p=2", "p=2"),
            ("Trace Go1.22\nProcStops dt=1", "ProcStops"),
            ("Trace Go1.22\nString id=1", "data"),
            (
                "Trace Go1.22\nStack id=1 nframes=1\n\tpc=1 func=1 file=1",
                "line=NUMBER",
            ),
        ] {
            let error = from_text(text).expect_err(text).to_string();
            assert!(error.contains(said), "{text:?}: {error}");
        }
        assert!(
            from_text("Trace Go1.24")
                .expect_err("version")
                .is_unsupported_version()
        );
    }
}
