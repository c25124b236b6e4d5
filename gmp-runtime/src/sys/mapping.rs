//! Files that are written by storing into memory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use super::check;

/// A piece of a file, mapped shared: what is stored there is in the file, whatever becomes of the
/// process. Dropping it unmaps the piece.
#[derive(Debug)]
pub(crate) struct FileMapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the mapping and gives out its address only; who uses that answers for the
// accesses.
unsafe impl Send for FileMapping {}
// SAFETY: as for Send.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Makes the file at least `offset + len` bytes long, with room on the disk for the new piece, and
    /// maps the piece; its pages are there, so storing into it does not wait. `offset` and `len` are
    /// multiples of the page size.
    ///
    /// # Errors
    /// The kernel's: no room on the disk, above all. Where the file system cannot reserve room, the file
    /// is made longer only, and a disk that fills up later ends the process when it stores (SIGBUS).
    pub(crate) fn extend(file: &File, offset: u64, len: usize) -> io::Result<FileMapping> {
        let (at, size) = (offset as libc::off_t, len as libc::off_t);
        // SAFETY: numbers only.
        let reserved = check(unsafe { libc::fallocate(file.as_raw_fd(), 0, at, size) });
        match reserved {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                file.set_len(offset + len as u64)?;
            }
            Err(error) => return Err(error),
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing one.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                at,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base =
            NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        let mapping = FileMapping { base, len };
        // SAFETY: the mapping is ours; the advice only makes its pages present. Kernels before 5.14 do
        // not know it, and then the first store of each page takes longer.
        unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_POPULATE_WRITE) };
        Ok(mapping)
    }

    /// The first byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody uses it any more, because its owner is being dropped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_stored_is_in_the_file() {
        let path = std::env::temp_dir().join(format!("gmp-mapping-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        let page = super::super::memory::page_size();
        let mapping = FileMapping::extend(&file, page as u64, page).unwrap();
        // SAFETY: the byte is inside the mapping.
        unsafe { mapping.base().as_ptr().add(5).write(42) };
        let mut bytes = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(bytes.len(), 2 * page);
        assert_eq!(bytes.iter().map(|&b| u32::from(b)).sum::<u32>(), 42);
        assert_eq!(bytes[page + 5], 42);
    }
}
