//! The end of the process when the runtime finds itself broken: a message without allocation, then abort.
//!
//! Three kinds of failure are kept apart: what a caller did wrong is an `Err` or a panic at the caller's
//! line; a panic inside a goroutine goes to its join handle; a broken promise of the runtime itself, or a
//! program that cannot go on (deadlock, stack overflow), ends here.
//!
//! # Not here
//!
//! What is worth saying about goroutines, threads and processors is put together by the caller.

use crate::sys::signal;
use std::fmt::{self, Write};

/// Prints `fatal error: ` and the formatted text to standard error and aborts. A text of several lines is
/// a report: the first line says what happened.
///
/// Nothing is allocated and no lock is taken, so it works in the scheduler and in signal handlers.
macro_rules! fatal {
    ($($argument:tt)*) => {
        $crate::fatal::fatal_error(::core::format_args!($($argument)*))
    };
}
pub(crate) use fatal;

/// See [`fatal!`].
#[cold]
#[inline(never)]
pub(crate) fn fatal_error(message: fmt::Arguments<'_>) -> ! {
    report(format_args!("fatal error: {message}\n"));
    signal::abort()
}

/// Writes text to standard error without allocation or lock, in pieces of at most [`BUFFER_SIZE`] bytes
/// (a text that fits is one write, so that lines of two threads do not mix).
#[cold]
#[inline(never)]
pub(crate) fn report(text: fmt::Arguments<'_>) {
    report_by(|out| out.write_fmt(text));
}

/// [`report`] for text that is written piece by piece.
pub(crate) fn report_by(write: impl FnOnce(&mut dyn Write) -> fmt::Result) {
    let mut buffer = StackBuffer::new(signal::write_stderr);
    // An error of a `Display` inside the text ends it early; what came before it is still worth printing.
    let _ = write(&mut buffer);
    buffer.flush();
}

/// Bytes of text that are collected before they are written.
pub(crate) const BUFFER_SIZE: usize = 1024;

/// Text on the stack, handed on when full and when told to.
struct StackBuffer<F: FnMut(&[u8])> {
    bytes: [u8; BUFFER_SIZE],
    used: usize,
    sink: F,
}

impl<F: FnMut(&[u8])> StackBuffer<F> {
    fn new(sink: F) -> Self {
        StackBuffer {
            bytes: [0; BUFFER_SIZE],
            used: 0,
            sink,
        }
    }

    fn flush(&mut self) {
        (self.sink)(&self.bytes[..self.used]);
        self.used = 0;
    }
}

impl<F: FnMut(&[u8])> Write for StackBuffer<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            if self.used == BUFFER_SIZE {
                self.flush();
            }
            let (now, later) = rest.split_at(rest.len().min(BUFFER_SIZE - self.used));
            self.bytes[self.used..self.used + now.len()].copy_from_slice(now);
            self.used += now.len();
            rest = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_arrives_whole_in_pieces_of_the_buffer() {
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        let mut buffer = StackBuffer::new(|bytes: &[u8]| pieces.push(bytes.to_vec()));
        let text: String = (0..1000).map(|n| format!("{n},")).collect();
        write!(buffer, "[{text}]").unwrap();
        buffer.flush();
        assert_eq!(pieces.concat(), format!("[{text}]").as_bytes());
        assert!(
            pieces.len() > 1,
            "the text must be longer than the buffer for this test"
        );
        assert!(pieces.iter().all(|piece| piece.len() <= BUFFER_SIZE));
    }
}
