//! A bar on the terminal while a file is read for longer than a second.

use gmp_trace::ReadAt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What takes less needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that shows how far reading has come.
struct Bar {
    /// Bytes in all, where they are known.
    length: Option<u64>,
    read: u64,
    begun: Instant,
    /// Whether a bar is wanted.
    wanted: bool,
    bar: Option<ProgressBar>,
}

impl Bar {
    fn new(length: Option<u64>, wanted: bool) -> Bar {
        Bar {
            length,
            read: 0,
            begun: Instant::now(),
            wanted,
            bar: None,
        }
    }

    /// So many bytes more were read; none at the end.
    fn more(&mut self, read: usize) {
        self.read += read as u64;
        if self.wanted && read == 0 {
            self.bar.take().inspect(ProgressBar::finish_and_clear);
            self.wanted = false;
        } else if self.wanted {
            self.show();
        }
    }

    fn show(&mut self) {
        if self.bar.is_none() && self.begun.elapsed() >= PATIENCE {
            // Draws only where standard error is a terminal.
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(self.length, target);
            let template = match self.length {
                Some(_) => "reading {bar:30} {percent:>3}%  {bytes} of {total_bytes}, {eta} left",
                None => "reading {spinner} {bytes}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.read);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Reads a stream, and shows how far it has come.
pub(super) struct Progress {
    inner: Box<dyn Read + Send>,
    bar: Bar,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("read", &self.bar.read)
            .finish_non_exhaustive()
    }
}

impl Progress {
    pub(super) fn new(inner: Box<dyn Read + Send>, length: Option<u64>, wanted: bool) -> Progress {
        Progress {
            inner,
            bar: Bar::new(length, wanted),
        }
    }
}

impl Read for Progress {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bar.more(read);
        Ok(read)
    }
}

/// Reads a file at any place, and shows how much was read.
pub(super) struct ProgressAt {
    file: File,
    bar: Mutex<Bar>,
}

impl ProgressAt {
    pub(super) fn new(file: File, length: u64, wanted: bool) -> ProgressAt {
        ProgressAt {
            file,
            bar: Mutex::new(Bar::new(Some(length), wanted)),
        }
    }
}

impl ReadAt for ProgressAt {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(into, offset)?;
        if let Ok(mut bar) = self.bar.lock() {
            bar.more(read);
        }
        Ok(read)
    }
}
