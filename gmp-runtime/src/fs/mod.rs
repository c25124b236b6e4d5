//! Files, with the names of [`std::fs`]: each call is a system call that blocks its goroutine and its thread, and
//! not the P.
//!
//! Regular files cannot be waited for as sockets can, so a call on one blocks a thread. Here each call is
//! announced to the scheduler, as [`blocking`](crate::blocking) does it: when it takes long, another thread goes
//! on with the P. A call that is interrupted by a signal is made again.
//!
//! Metadata, permissions and errors are std's own types. A function of std that is not here can be called
//! inside [`blocking`](crate::blocking).
//!
//! ```
//! use std::io::{Read, Seek, SeekFrom, Write};
//! use gmp_runtime::{Runtime, fs};
//!
//! let path = std::env::temp_dir().join(format!("gmp-fs-example-{}", std::process::id()));
//! let runtime = Runtime::builder().procs(1).build()?;
//! // SAFETY: nothing that belongs to a thread lives across a call that may park.
//! let text = unsafe {
//!     runtime.run(|| {
//!         let mut file = fs::OpenOptions::new().read(true).write(true).create(true).open(&path)?;
//!         file.write_all(b"written by a goroutine")?;
//!         file.seek(SeekFrom::Start(11))?;
//!         let mut text = String::new();
//!         file.read_to_string(&mut text)?;
//!         fs::remove_file(&path)?;
//!         std::io::Result::Ok(text)
//!     })
//! }?;
//! assert_eq!(text, "a goroutine");
//! # Ok::<(), std::io::Error>(())
//! ```

mod file;
mod options;

use std::fs::{Metadata, Permissions};
use std::io;
use std::panic::Location;
use std::path::{Path, PathBuf};

use crate::sched::syscall;

pub use file::File;
pub use options::OpenOptions;

/// Makes a call as a system call, again while signals interrupt it.
#[inline]
#[track_caller]
fn call<T>(mut f: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    syscall::blocking(Location::caller(), || {
        loop {
            match f() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    })
}

/// The functions of std that take paths: the same name, the same errors.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $generic:ident),*) -> $result:ty;)*) => {
        $(
            $(#[$doc])*
            ///
            /// Blocks the goroutine and its thread, not the P.
            ///
            /// # Errors
            #[doc = concat!("As [`std::fs::", stringify!($name), "`].")]
            #[track_caller]
            pub fn $name<$($generic: AsRef<Path>),*>($($arg: $generic),*) -> io::Result<$result> {
                $(let $arg = $arg.as_ref();)*
                call(|| std::fs::$name($($arg),*))
            }
        )*
    };
}

functions! {
    /// The bytes of a file.
    fn read(path: P) -> Vec<u8>;
    /// The text of a file.
    fn read_to_string(path: P) -> String;
    /// What is known of a file, of the target of a symbolic link.
    fn metadata(path: P) -> Metadata;
    /// What is known of a file, of a symbolic link itself.
    fn symlink_metadata(path: P) -> Metadata;
    /// Copies the contents and permissions of a file; how many bytes.
    fn copy(from: P, to: Q) -> u64;
    /// Gives a file another name, replacing what has it.
    fn rename(from: P, to: Q) -> ();
    /// Gives a file one name more.
    fn hard_link(original: P, link: Q) -> ();
    /// Where a symbolic link leads.
    fn read_link(path: P) -> PathBuf;
    /// The path without links and dots.
    fn canonicalize(path: P) -> PathBuf;
    /// Removes a file.
    fn remove_file(path: P) -> ();
    /// Makes a directory.
    fn create_dir(path: P) -> ();
    /// Makes a directory and those that it is in.
    fn create_dir_all(path: P) -> ();
    /// Removes an empty directory.
    fn remove_dir(path: P) -> ();
    /// Removes a directory with all that is in it.
    fn remove_dir_all(path: P) -> ();
    /// Whether there is something at a path.
    fn exists(path: P) -> bool;
}

/// Writes a file whole, replacing what was in it.
///
/// Blocks the goroutine and its thread, not the P.
///
/// # Errors
/// As [`std::fs::write`].
#[track_caller]
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    let (path, contents) = (path.as_ref(), contents.as_ref());
    call(|| std::fs::write(path, contents))
}

/// Changes the permissions of a file.
///
/// Blocks the goroutine and its thread, not the P.
///
/// # Errors
/// As [`std::fs::set_permissions`].
#[track_caller]
pub fn set_permissions<P: AsRef<Path>>(path: P, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    call(|| std::fs::set_permissions(path, permissions.clone()))
}
