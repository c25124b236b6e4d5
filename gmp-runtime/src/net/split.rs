//! The two halves of a stream.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;

/// What a half needs of its stream.
pub trait Halves: private::Sealed {
    /// Ends the direction of writing.
    #[doc(hidden)]
    fn end_writing(&self);
}

pub(super) mod private {
    /// Keeps the trait to this crate.
    pub trait Sealed {}
}

/// The half of a stream that is read from. Made by `into_split`.
pub struct ReadHalf<S: Halves> {
    stream: Arc<S>,
}

/// The half of a stream that is written to. Made by `into_split`. Dropping it ends the direction: the peer
/// reads to the end.
pub struct WriteHalf<S: Halves> {
    stream: Arc<S>,
}

/// Both halves of `stream`.
pub(super) fn split<S: Halves>(stream: S) -> (ReadHalf<S>, WriteHalf<S>) {
    let stream = Arc::new(stream);
    let other = Arc::clone(&stream);
    (ReadHalf { stream }, WriteHalf { stream: other })
}

impl<S: Halves> AsRef<S> for ReadHalf<S> {
    fn as_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: Halves> AsRef<S> for WriteHalf<S> {
    fn as_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: Halves> Read for ReadHalf<S>
where
    for<'a> &'a S: Read,
{
    #[track_caller]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.stream).read(buffer)
    }

    #[track_caller]
    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self.stream).read_vectored(buffers)
    }
}

impl<S: Halves> Write for WriteHalf<S>
where
    for<'a> &'a S: Write,
{
    #[track_caller]
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self.stream).write(buffer)
    }

    #[track_caller]
    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self.stream).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Halves> Drop for WriteHalf<S> {
    fn drop(&mut self) {
        self.stream.end_writing();
    }
}

impl<S: Halves> fmt::Debug for ReadHalf<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadHalf").finish_non_exhaustive()
    }
}

impl<S: Halves> fmt::Debug for WriteHalf<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteHalf").finish_non_exhaustive()
    }
}
