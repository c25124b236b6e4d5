//! The one error of readers: where, what was expected, what was found.

use std::fmt;
use std::io;

/// Why a trace could not be read (any further).
#[derive(Debug)]
pub struct Error {
    cause: Cause,
    offset: u64,
    message: String,
}

#[derive(Debug)]
enum Cause {
    NotATrace,
    Unsupported,
    Truncated,
    Corrupt,
    Io(io::Error),
}

/// A message never grows beyond this many bytes, whatever was found.
const MAX_MESSAGE_BYTES: usize = 400;

impl Error {
    #[cold]
    #[inline(never)]
    fn new(cause: Cause, offset: u64, mut message: String) -> Error {
        if message.len() > MAX_MESSAGE_BYTES {
            let mut keep = MAX_MESSAGE_BYTES;
            while !message.is_char_boundary(keep) {
                keep -= 1;
            }
            message.truncate(keep);
            message.push('…');
        }
        Error {
            cause,
            offset,
            message,
        }
    }

    pub(crate) fn not_a_trace(found: impl fmt::Display) -> Error {
        let message = format!("expected a trace, found {found}: record one, or give another file");
        Error::new(Cause::NotATrace, 0, message)
    }

    pub(crate) fn unsupported(found: impl fmt::Display, known: impl fmt::Display) -> Error {
        let message = format!(
            "expected a trace of format {known}, found {found}: read it with a release of this tool \
             that knows that format"
        );
        Error::new(Cause::Unsupported, 8, message)
    }

    pub(crate) fn truncated(
        offset: u64,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Error {
        let message =
            format!("expected {expected}, found {found}: the file is cut, get a whole copy of it");
        Error::new(Cause::Truncated, offset, message)
    }

    pub(crate) fn corrupt(
        offset: u64,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Error {
        Error::new(
            Cause::Corrupt,
            offset,
            format!("expected {expected}, found {found}"),
        )
    }

    pub(crate) fn io(offset: u64, error: io::Error) -> Error {
        let message = format!("could not be read: {error}");
        Error::new(Cause::Io(error), offset, message)
    }

    /// Where in the file, in bytes from its start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The file is something else.
    pub fn is_not_a_trace(&self) -> bool {
        matches!(self.cause, Cause::NotATrace)
    }

    /// The file is a trace of a version that this reader does not know.
    pub fn is_unsupported_version(&self) -> bool {
        matches!(self.cause, Cause::Unsupported)
    }

    /// The file ends too early for anything to be read.
    pub fn is_truncated(&self) -> bool {
        matches!(self.cause, Cause::Truncated)
    }

    /// The file is a trace, and damaged.
    pub fn is_corrupt(&self) -> bool {
        matches!(self.cause, Cause::Corrupt)
    }

    /// The file could not be read at all; the source of the error is the [`io::Error`].
    pub fn is_io(&self) -> bool {
        matches!(self.cause, Cause::Io(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Io(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_bounded_and_says_where() {
        let error = Error::corrupt(77, "a length", "é".repeat(1000));
        let text = error.to_string();
        assert!(
            text.starts_with("at byte 77: expected a length, found éé"),
            "{text}"
        );
        assert!(text.len() < MAX_MESSAGE_BYTES + 30);
        assert!(error.is_corrupt() && !error.is_io() && !error.is_truncated());
    }
}
