//! How a file is opened.

use std::io;
use std::path::Path;

use super::{File, call};

/// How a file is opened: [`std::fs::OpenOptions`].
#[derive(Debug, Clone)]
pub struct OpenOptions(std::fs::OpenOptions);

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $(
            $(#[$doc])*
            pub fn $name(&mut self, yes: bool) -> &mut OpenOptions {
                self.0.$name(yes);
                self
            }
        )*
    };
}

impl OpenOptions {
    /// Nothing is allowed yet.
    #[expect(clippy::new_without_default, reason = "as in std")]
    pub fn new() -> OpenOptions {
        OpenOptions(std::fs::OpenOptions::new())
    }

    options! {
        /// For reading.
        read
        /// For writing.
        write
        /// For writing at the end, wherever that is when it is written.
        append
        /// What is in it goes.
        truncate
        /// It is made if it is not there.
        create
        /// It is made, and must not be there.
        create_new
    }

    /// Opens the file at `path`.
    ///
    /// Blocks the goroutine and its thread, not the P.
    ///
    /// # Errors
    /// As [`std::fs::OpenOptions::open`].
    #[track_caller]
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        let path = path.as_ref();
        call(|| self.0.open(path)).map(File::from)
    }
}

/// For options that are the system's own.
impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(options: std::fs::OpenOptions) -> OpenOptions {
        OpenOptions(options)
    }
}
