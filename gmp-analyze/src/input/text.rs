//! Text that a program printed, for commands that take it in place of a trace: line by line, in
//! bounded memory.

use super::sniff::Kind;
use super::{Bytes, Damage, Error, Input, is_trace, name_of, trace_bytes};
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufRead, BufReader};

/// Bytes of a line that are kept; what is longer is no line that anybody looks for.
const LONGEST_LINE: usize = 1 << 20;

/// A trace, or text.
#[derive(Debug)]
pub enum Opened {
    /// A trace.
    Trace(Box<Input>),
    /// Text.
    Text(TextLines),
}

/// The lines of a text.
pub struct TextLines {
    bytes: BufReader<Bytes>,
    source: String,
    damage: Damage,
    line: Vec<u8>,
    cut: u64,
}

impl fmt::Debug for TextLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextLines")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Opens the trace or text at `path`; `-` is standard input. Gzip is unpacked on the way.
///
/// # Errors
///
/// When there is no such file, it cannot be read, or it is a kind of file that has no lines.
pub fn open_trace_or_text(path: &OsStr, progress: bool) -> Result<Opened, Error> {
    let source = name_of(path);
    let fail = |message: String| Error {
        source: source.clone(),
        message,
    };
    let accepts = |kind| is_trace(kind) || is_text(kind);
    let (bytes, damage, kind) = trace_bytes(path, progress, accepts).map_err(fail)?;
    if is_text(kind) {
        return Ok(Opened::Text(TextLines {
            bytes: BufReader::new(bytes),
            source,
            damage,
            line: Vec::new(),
            cut: 0,
        }));
    }
    Input::new(gmp_trace::open(bytes), source, damage).map(|input| Opened::Trace(Box::new(input)))
}

/// Kinds that may have lines: a log may have colours in it or begin with a bracket.
fn is_text(kind: Kind) -> bool {
    matches!(kind, Kind::Text | Kind::Json | Kind::Html | Kind::Other)
}

impl TextLines {
    /// Where the text comes from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What was wrong with the gzip that the text was in.
    pub fn damage(&self) -> Option<&str> {
        self.damage.message()
    }

    /// Lines that were longer than a megabyte, and were cut.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// The next line without its end; bytes that are no UTF-8 are U+FFFD. `None` at the end.
    ///
    /// # Errors
    ///
    /// When the text cannot be read any further.
    pub fn next_line(&mut self) -> Result<Option<String>, Error> {
        self.line.clear();
        let (mut any, mut dropped) = (false, false);
        loop {
            let available = match self.bytes.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Error {
                        source: self.source.clone(),
                        message: format!("cannot be read: {error}"),
                    });
                }
            };
            if available.is_empty() {
                break;
            }
            any = true;
            let end = available.iter().position(|&byte| byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let room = LONGEST_LINE - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            dropped |= part.len() > room;
            let used = part.len() + usize::from(end.is_some());
            self.bytes.consume(used);
            if end.is_some() {
                break;
            }
        }
        self.cut += u64::from(dropped);
        Ok(any.then(|| String::from_utf8_lossy(&self.line).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(bytes: &[u8]) -> TextLines {
        TextLines {
            bytes: BufReader::with_capacity(7, Box::new(io::Cursor::new(bytes.to_vec()))),
            source: "test".to_owned(),
            damage: Damage::default(),
            line: Vec::new(),
            cut: 0,
        }
    }

    fn all(lines: &mut TextLines) -> Vec<String> {
        std::iter::from_fn(|| lines.next_line().expect("memory")).collect()
    }

    #[test]
    fn lines_come_whole_whatever_the_buffer() {
        let mut lines = lines_of(b"one\n\nthree is longer than the buffer\nlast \xFF");
        assert_eq!(
            all(&mut lines),
            [
                "one",
                "",
                "three is longer than the buffer",
                "last \u{FFFD}"
            ]
        );
        assert_eq!(all(&mut lines_of(b"")), [""; 0]);
    }

    #[test]
    fn a_line_without_end_does_not_fill_memory() {
        let mut bytes = vec![b'x'; LONGEST_LINE + 5000];
        bytes.extend_from_slice(b"\nnext\n");
        let mut lines = lines_of(&bytes);
        let all = all(&mut lines);
        assert_eq!((all[0].len(), all[1].as_str()), (LONGEST_LINE, "next"));
        assert_eq!(lines.cut(), 1);
    }
}
