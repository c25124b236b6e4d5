//! An open file.

use std::fs::{Metadata, Permissions};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::panic::Location;
use std::path::Path;

use super::{OpenOptions, call};
use crate::sched::syscall;

/// An open file: [`std::fs::File`], each of whose calls blocks the goroutine and its thread, and not the P.
///
/// Reading, writing and seeking are [`Read`], [`Write`] and [`Seek`], of a file and of a reference to one. Closing
/// it, when it is dropped, is such a call too, so the goroutine may be on another thread afterwards; but not where
/// it unwinds.
#[derive(Debug)]
pub struct File {
    /// There until it is dropped, or given away.
    file: Option<std::fs::File>,
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`std::fs::File::open`].
    #[track_caller]
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        let path = path.as_ref();
        call(|| std::fs::File::open(path)).map(File::from)
    }

    /// Opens a file for writing, which is made, or emptied.
    ///
    /// # Errors
    /// As [`std::fs::File::create`].
    #[track_caller]
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        let path = path.as_ref();
        call(|| std::fs::File::create(path)).map(File::from)
    }

    /// Opens a file in another way.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Sees to it that everything is on the disk.
    ///
    /// # Errors
    /// As [`std::fs::File::sync_all`].
    #[track_caller]
    pub fn sync_all(&self) -> io::Result<()> {
        call(|| self.std().sync_all())
    }

    /// Sees to it that the contents are on the disk.
    ///
    /// # Errors
    /// As [`std::fs::File::sync_data`].
    #[track_caller]
    pub fn sync_data(&self) -> io::Result<()> {
        call(|| self.std().sync_data())
    }

    /// Cuts it off, or extends it by zeros.
    ///
    /// # Errors
    /// As [`std::fs::File::set_len`].
    #[track_caller]
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        call(|| self.std().set_len(size))
    }

    /// What is known of it.
    ///
    /// # Errors
    /// As [`std::fs::File::metadata`].
    #[track_caller]
    pub fn metadata(&self) -> io::Result<Metadata> {
        call(|| self.std().metadata())
    }

    /// Another descriptor of the same file, with the same position.
    ///
    /// # Errors
    /// As [`std::fs::File::try_clone`].
    #[track_caller]
    pub fn try_clone(&self) -> io::Result<File> {
        call(|| self.std().try_clone()).map(File::from)
    }

    /// Changes its permissions.
    ///
    /// # Errors
    /// As [`std::fs::File::set_permissions`].
    #[track_caller]
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        call(|| self.std().set_permissions(permissions.clone()))
    }

    /// Reads at `offset`, without its position: how many bytes.
    ///
    /// # Errors
    /// As [`FileExt::read_at`].
    #[track_caller]
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        call(|| self.std().read_at(buffer, offset))
    }

    /// Writes at `offset`, without its position: how many bytes.
    ///
    /// # Errors
    /// As [`FileExt::write_at`].
    #[track_caller]
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        call(|| self.std().write_at(bytes, offset))
    }

    /// std's file.
    pub fn into_std(mut self) -> std::fs::File {
        match self.file.take() {
            Some(file) => file,
            None => gone(),
        }
    }

    fn std(&self) -> &std::fs::File {
        match &self.file {
            Some(file) => file,
            None => gone(),
        }
    }
}

#[cold]
fn gone() -> ! {
    unreachable!("a file is there until it is dropped")
}

impl Drop for File {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        // One that unwinds stays on its thread, which counts panics.
        if !std::thread::panicking() {
            syscall::blocking(Location::caller(), || drop(file));
        }
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        File { file: Some(file) }
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> OwnedFd {
        file.into_std().into()
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> File {
        File::from(std::fs::File::from(fd))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.std().as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.std().as_raw_fd()
    }
}

impl Read for &File {
    #[track_caller]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        call(|| self.std().read(buffer))
    }

    #[track_caller]
    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        call(|| self.std().read_vectored(buffers))
    }

    #[track_caller]
    fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        call(|| self.std().read_to_end(bytes))
    }

    #[track_caller]
    fn read_to_string(&mut self, text: &mut String) -> io::Result<usize> {
        call(|| self.std().read_to_string(text))
    }
}

impl Write for &File {
    #[track_caller]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        call(|| self.std().write(bytes))
    }

    #[track_caller]
    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        call(|| self.std().write_vectored(buffers))
    }

    /// Does nothing: there is no buffer.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    #[track_caller]
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        call(|| self.std().seek(to))
    }
}

impl Read for File {
    #[track_caller]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    #[track_caller]
    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }

    #[track_caller]
    fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(bytes)
    }

    #[track_caller]
    fn read_to_string(&mut self, text: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(text)
    }
}

impl Write for File {
    #[track_caller]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    #[track_caller]
    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }

    /// Does nothing: there is no buffer.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    #[track_caller]
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}
