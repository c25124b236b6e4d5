//! The bytes of a trace as they come: a window that is filled as far as asked, and its offset.
//!
//! Of a file no more is read than was asked for, and what is skipped is not read.

use std::io::{self, Read};
use std::sync::Arc;

use crate::error::Error;
use crate::input::{Input, ReadAt, read_full};

/// The most that can be looked at at once.
pub(crate) const WINDOW: usize = 128 << 10;

/// Memory that is taken at once for bytes that are said to come.
const AT_ONCE: usize = 64 << 10;

/// A source of bytes with a window of [`WINDOW`] bytes.
pub(crate) struct Source {
    inner: Input,
    window: Vec<u8>,
    /// The part of the window that was read and not consumed.
    start: usize,
    end: usize,
    /// Offset of `start` in the file.
    offset: u64,
    ended: bool,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl Source {
    pub(crate) fn new(inner: Input) -> Source {
        Source {
            inner,
            window: vec![0; WINDOW],
            start: 0,
            end: 0,
            offset: 0,
            ended: false,
        }
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// At least the next `wanted` bytes, up to [`WINDOW`], fewer only where the source ends.
    pub(crate) fn fill(&mut self, wanted: usize) -> Result<&[u8], Error> {
        while self.end - self.start < wanted.min(WINDOW) && !self.ended {
            self.window.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.end += self.read_into_window(wanted.min(WINDOW))?;
        }
        Ok(&self.window[self.start..self.end])
    }

    fn read_into_window(&mut self, wanted: usize) -> Result<usize, Error> {
        let offset = self.offset + (self.end - self.start) as u64;
        let free = &mut self.window[self.end..];
        let read = match &mut self.inner {
            Input::Stream(stream) => loop {
                match stream.read(free) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other,
                }
            },
            Input::File(file) => {
                let wanted = wanted.saturating_sub(self.end).min(free.len());
                read_full(&**file, &mut free[..wanted], offset)
            }
        };
        let got = read
            .map_err(|error| Error::io(offset, error))?
            .min(free.len());
        self.ended = got == 0;
        Ok(got)
    }

    /// Steps over `n` bytes, which must have been filled.
    pub(crate) fn consume(&mut self, n: usize) {
        let n = n.min(self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    /// Steps over `n` bytes or to the end; returns how many there were.
    pub(crate) fn skip(&mut self, n: usize) -> Result<usize, Error> {
        let mut left = n;
        if let Input::File(file) = &self.inner {
            // Whether there are as many shows at the last one.
            let there = self.end - self.start;
            if n > there {
                let last = self.offset + n as u64 - 1;
                let found = read_full(&**file, &mut [0], last);
                if found.map_err(|error| Error::io(last, error))? == 1 {
                    (self.start, self.end) = (0, 0);
                    self.offset += n as u64;
                    return Ok(n);
                }
            }
        }
        while left > 0 {
            let here = self.fill(1)?.len().min(left);
            if here == 0 {
                break;
            }
            self.consume(here);
            left -= here;
        }
        Ok(n - left)
    }

    /// Takes the next `n` bytes, fewer only where the source ends. Memory grows with what comes, not
    /// with `n`.
    pub(crate) fn take(&mut self, n: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::with_capacity(n.min(AT_ONCE));
        self.take_into(n, &mut bytes)?;
        Ok(bytes)
    }

    /// Appends the next `n` bytes to `out`; false where the source ends before.
    pub(crate) fn take_into(&mut self, n: usize, out: &mut Vec<u8>) -> Result<bool, Error> {
        let here = &self.window[self.start..self.end];
        let at_hand = here.len().min(n);
        out.extend_from_slice(&here[..at_hand]);
        self.consume(at_hand);
        let left = (n - at_hand) as u64;
        if left == 0 || self.ended {
            return Ok(left == 0);
        }
        let read = match &mut self.inner {
            Input::Stream(stream) => stream.by_ref().take(left).read_to_end(out),
            Input::File(file) => append(&**file, out, self.offset, left),
        };
        let read = read.map_err(|error| Error::io(self.offset, error))? as u64;
        self.offset += read;
        self.ended = read < left;
        Ok(read == left)
    }

    /// The file behind the source, where it is one.
    pub(crate) fn file(&self) -> Option<&Arc<dyn ReadAt>> {
        match &self.inner {
            Input::Stream(_) => None,
            Input::File(file) => Some(file),
        }
    }

    /// Says that the source does not begin at the beginning of the file.
    #[cfg(feature = "go")]
    pub(crate) fn set_offset(&mut self, offset: u64) {
        self.offset = offset;
    }
}

/// Appends the `left` bytes of `file` at `offset` to `out`, or as many as there are.
fn append(file: &dyn ReadAt, out: &mut Vec<u8>, offset: u64, left: u64) -> io::Result<usize> {
    let before = out.len();
    let mut left = left;
    while left > 0 {
        let at = out.len();
        let wanted = left.min(AT_ONCE as u64) as usize;
        out.resize(at + wanted, 0);
        let got = read_full(file, &mut out[at..], offset + (at - before) as u64)?;
        out.truncate(at + got);
        left -= got as u64;
        if got < wanted {
            break;
        }
    }
    Ok(out.len() - before)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one to seven bytes at a time, and is interrupted now and then.
    struct Slow(io::Cursor<Vec<u8>>, usize);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            if self.1.is_multiple_of(3) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let few = into.len().min(1 + self.1 % 7);
            self.0.read(&mut into[..few])
        }
    }

    #[test]
    fn a_slow_source_and_a_file_give_the_same_bytes() {
        let bytes: Vec<u8> = (0..200_000u32).map(|n| n as u8 ^ (n >> 8) as u8).collect();
        let slow = Slow(io::Cursor::new(bytes.clone()), 0);
        gives(Source::new(Input::Stream(Box::new(slow))), &bytes);
        let file: Arc<dyn ReadAt> = Arc::new(bytes.clone());
        gives(Source::new(Input::File(file)), &bytes);
    }

    fn gives(mut source: Source, bytes: &[u8]) {
        assert_eq!(
            source.fill(10).map(|b| b[..10].to_vec()).ok(),
            Some(bytes[..10].to_vec())
        );
        source.consume(4);
        assert_eq!(
            source.take(100_000).ok().as_deref(),
            Some(&bytes[4..100_004])
        );
        assert_eq!(source.skip(50_000).ok(), Some(50_000));
        assert_eq!(source.offset(), 150_004);
        assert_eq!(
            source.take(1 << 40).ok().as_deref(),
            Some(&bytes[150_004..])
        );
        assert_eq!(source.skip(1).ok(), Some(0));
        assert_eq!(source.fill(1).map(<[u8]>::len).ok(), Some(0));
        assert_eq!(source.offset(), 200_000);
    }
}
