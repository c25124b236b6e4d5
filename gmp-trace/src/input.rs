//! Where the bytes of a trace come from: a stream, which gives them once, or a file, which can be
//! read at any place, so that a reader needs to hold little of it.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

/// Bytes that can be read at any place, any number of times, and do not change meanwhile: a file.
pub trait ReadAt: Send + Sync {
    /// Reads some bytes that begin at `offset` into the beginning of `into`, and returns how many;
    /// 0 only where there are none.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
}

#[cfg(unix)]
impl ReadAt for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, into, offset)
    }
}

#[cfg(windows)]
impl ReadAt for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, into, offset)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.get(at..).unwrap_or_default();
        let n = bytes.len().min(into.len());
        into[..n].copy_from_slice(&bytes[..n]);
        Ok(n)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Arc<T> {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(into, offset)
    }
}

/// Reads at `offset` until `into` is full or there is no more; returns how many bytes there were.
pub(crate) fn read_full(file: &dyn ReadAt, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while let Some(free) = into.get_mut(got..).filter(|free| !free.is_empty()) {
        match file.read_at(free, offset + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n.min(free.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// A stream or a file.
pub(crate) enum Input {
    /// Gives its bytes once.
    Stream(Box<dyn Read + Send>),
    /// Can be read at any place.
    File(Arc<dyn ReadAt>),
}

impl Input {
    /// What comes next of a stream; of a file what is there from `offset` on.
    #[cfg(feature = "go")]
    pub(crate) fn read_from(self, offset: u64) -> Box<dyn Read + Send> {
        match self {
            Input::Stream(stream) => stream,
            Input::File(file) => Box::new(FromFile { file, offset }),
        }
    }
}

/// A file read from `offset` on.
#[cfg(feature = "go")]
struct FromFile {
    file: Arc<dyn ReadAt>,
    offset: u64,
}

#[cfg(feature = "go")]
impl Read for FromFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(into, self.offset)?;
        self.offset += got as u64;
        Ok(got)
    }
}
