//! A bar on the terminal while a file is read for longer than a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// What takes less needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads, and shows how far it has come.
pub(super) struct Progress {
    inner: Box<dyn Read + Send>,
    /// Bytes in all, where they are known.
    length: Option<u64>,
    read: u64,
    begun: Instant,
    /// Whether a bar is wanted.
    wanted: bool,
    bar: Option<ProgressBar>,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

impl Progress {
    pub(super) fn new(inner: Box<dyn Read + Send>, length: Option<u64>, wanted: bool) -> Progress {
        Progress {
            inner,
            length,
            read: 0,
            begun: Instant::now(),
            wanted,
            bar: None,
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

impl Read for Progress {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read += read as u64;
        if self.wanted {
            if read == 0 {
                self.bar.take().inspect(ProgressBar::finish_and_clear);
                self.wanted = false;
            } else {
                self.show();
            }
        }
        Ok(read)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
