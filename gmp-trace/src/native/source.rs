//! The bytes of a trace as they come: a window that is filled as far as asked, and its offset.

use std::io::{self, Read};

use crate::error::Error;

/// Bytes that are read at once, and skipped at once.
const READ_BYTES: usize = 256 << 10;

/// A source of bytes with a buffer. Memory: as much as was asked for at once, not more than twice.
pub(crate) struct Source {
    inner: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// First byte of the buffer that was not consumed.
    start: usize,
    /// Offset of that byte in the file.
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
    pub(crate) fn new(inner: Box<dyn Read + Send>) -> Source {
        Source {
            inner,
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            ended: false,
        }
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// At least the next `wanted` bytes, fewer only where the source ends.
    pub(crate) fn fill(&mut self, wanted: usize) -> Result<&[u8], Error> {
        while self.buffer.len() - self.start < wanted && !self.ended {
            self.read_more()?;
        }
        Ok(self.buffer.get(self.start..).unwrap_or_default())
    }

    fn read_more(&mut self) -> Result<(), Error> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let had = self.buffer.len();
        self.buffer.resize(had + READ_BYTES, 0);
        let read = loop {
            match self.inner.read(&mut self.buffer[had..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let got = read.as_ref().map_or(0, |n| (*n).min(READ_BYTES));
        self.buffer.truncate(had + got);
        self.ended = got == 0;
        read.map(|_| ())
            .map_err(|error| Error::io(self.offset + had as u64, error))
    }

    /// Steps over `n` bytes, which must have been filled.
    pub(crate) fn consume(&mut self, n: usize) {
        let n = n.min(self.buffer.len() - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    /// Steps over `n` bytes or to the end; returns how many there were.
    pub(crate) fn skip(&mut self, n: usize) -> Result<usize, Error> {
        let mut left = n;
        while left > 0 {
            let here = self.fill(left.min(READ_BYTES))?.len().min(left);
            if here == 0 {
                break;
            }
            self.consume(here);
            left -= here;
        }
        Ok(n - left)
    }

    /// Takes the next `n` bytes, fewer only where the source ends. `n` was held against a limit.
    pub(crate) fn take(&mut self, n: usize) -> Result<Vec<u8>, Error> {
        let available = self.fill(n)?;
        let bytes = available[..available.len().min(n)].to_vec();
        self.consume(bytes.len());
        Ok(bytes)
    }

    /// Says that the source does not begin at the beginning of the file.
    #[cfg(feature = "go")]
    pub(crate) fn set_offset(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Appends the next `n` bytes to `out`; false where the source ends before. `n` was held against
    /// a limit.
    #[cfg(feature = "go")]
    pub(crate) fn take_into(&mut self, n: usize, out: &mut Vec<u8>) -> Result<bool, Error> {
        let available = self.fill(n)?;
        let bytes = available.get(..available.len().min(n)).unwrap_or_default();
        out.extend_from_slice(bytes);
        let got = bytes.len();
        self.consume(got);
        Ok(got == n)
    }
}
