//! Loops that accept connections.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::sys::epoll::is_exhausted;
use crate::time::sleep;

/// The first pause after the process ran out of descriptors, and the longest (Go's `http.Server`).
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What can accept connections.
pub trait Accept: private::Sealed {
    /// A connection.
    type Stream;

    /// The next connection.
    #[doc(hidden)]
    fn next_connection(&self) -> io::Result<Self::Stream>;
}

pub(super) mod private {
    /// Keeps the trait to this crate.
    pub trait Sealed {}
}

/// The connections of a listener, for ever: what `incoming` gives.
///
/// An error is an item, too. When the process or the system has run out of descriptors or memory, the error
/// comes after a pause (the goroutine sleeps): 5 ms, and twice as long each time in a row, at most one second.
/// So a loop that ignores errors does not spin, and goes on when descriptors are free again; connections wait in
/// the kernel meanwhile.
pub struct Incoming<'a, L> {
    listener: &'a L,
    pause: Duration,
}

impl<'a, L> Incoming<'a, L> {
    pub(super) fn new(listener: &'a L) -> Incoming<'a, L> {
        Incoming {
            listener,
            pause: SHORTEST_PAUSE,
        }
    }
}

impl<L: Accept> Iterator for Incoming<'_, L> {
    type Item = io::Result<L::Stream>;

    #[track_caller]
    fn next(&mut self) -> Option<io::Result<L::Stream>> {
        let next = self.listener.next_connection();
        match &next {
            Err(error) if is_exhausted(error) => {
                sleep(self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
            _ => self.pause = SHORTEST_PAUSE,
        }
        Some(next)
    }
}

impl<L> fmt::Debug for Incoming<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}
