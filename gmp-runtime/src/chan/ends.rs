//! The two ends of a channel.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::core::Channel;
use super::error::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
use crate::prim::atomic::Ordering;
use crate::select::expansion::{ReceiveCase, SendCase, Until, run};

/// The sending end of a channel.
pub struct Sender<T: Send> {
    pub(crate) channel: Arc<Channel<T>>,
}

impl<T: Send> Sender<T> {
    /// Sends `value`; waits while the buffer is full, or, without a buffer, until somebody receives.
    ///
    /// Blocks the goroutine (reason `chan send`), not its thread.
    ///
    /// # Errors
    /// When the channel is closed or has no receiver any more; the value comes back.
    ///
    /// # Panics
    /// If it would have to wait on a thread that runs no goroutine.
    #[track_caller]
    #[inline]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.channel.send(value, Location::caller())
    }

    /// Sends `value` if that is possible at once. Does not block; works on any thread.
    ///
    /// # Errors
    /// When the channel is full or closed; the value comes back.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.channel.try_send(value)
    }

    /// Sends `value`; waits at most `timeout` for that.
    ///
    /// Blocks the goroutine (reason `select`), not its thread.
    ///
    /// # Errors
    /// When the time is over or the channel is closed; the value comes back.
    ///
    /// # Panics
    /// If it would have to wait on a thread that runs no goroutine.
    #[track_caller]
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        let mut case = SendCase::new(self, value);
        match run(&mut [&mut case], Until::Timeout(timeout)) {
            Some(_) => case
                .finish()
                .map_err(|SendError(value)| SendTimeoutError::Closed(value)),
            None => match case.into_value() {
                Some(value) => Err(SendTimeoutError::Timeout(value)),
                None => unreachable!("a value that was not sent is still there"),
            },
        }
    }

    /// Closes the channel: what is in the buffer can still be received, and then receiving fails.
    /// Senders that wait get their values back. Closing twice does nothing.
    pub fn close(&self) {
        self.channel.close();
    }

    /// How many values are in the buffer.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many values the buffer can hold.
    pub fn capacity(&self) -> usize {
        self.channel.capacity
    }
}

impl<T: Send> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        // ordering: Relaxed: the clone comes from a sender that is there.
        self.channel.senders.fetch_add(1, Ordering::Relaxed);
        Sender {
            channel: Arc::clone(&self.channel),
        }
    }
}

impl<T: Send> Drop for Sender<T> {
    fn drop(&mut self) {
        // ordering: AcqRel: the last one comes after what all others did.
        if self.channel.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.channel.close();
        }
    }
}

impl<T: Send> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// The receiving end of a channel.
pub struct Receiver<T: Send> {
    pub(crate) channel: Arc<Channel<T>>,
}

impl<T: Send> Receiver<T> {
    /// Receives a value; waits until there is one.
    ///
    /// Blocks the goroutine (reason `chan receive`), not its thread.
    ///
    /// # Errors
    /// When the channel is closed, or has no sender any more, and the buffer is empty.
    ///
    /// # Panics
    /// If it would have to wait on a thread that runs no goroutine.
    #[track_caller]
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.channel.receive(Location::caller())
    }

    /// Receives a value if there is one. Does not block; works on any thread.
    ///
    /// # Errors
    /// When there is none, or never will be.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.channel.try_receive()
    }

    /// Receives a value; waits at most `timeout` for one.
    ///
    /// Blocks the goroutine (reason `select`), not its thread.
    ///
    /// # Errors
    /// When the time is over, or the channel is closed and empty.
    ///
    /// # Panics
    /// If it would have to wait on a thread that runs no goroutine.
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let mut case = ReceiveCase::new(self);
        match run(&mut [&mut case], Until::Timeout(timeout)) {
            Some(_) => case.finish().map_err(|RecvError| RecvTimeoutError::Closed),
            None => Err(RecvTimeoutError::Timeout),
        }
    }

    /// The values that come, until the channel is closed. Blocks as [`Receiver::recv`].
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// How many values are in the buffer.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many values the buffer can hold.
    pub fn capacity(&self) -> usize {
        self.channel.capacity
    }
}

impl<T: Send> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        // ordering: Relaxed: the clone comes from a receiver that is there.
        self.channel.receivers.fetch_add(1, Ordering::Relaxed);
        Receiver {
            channel: Arc::clone(&self.channel),
        }
    }
}

impl<T: Send> Drop for Receiver<T> {
    fn drop(&mut self) {
        // ordering: AcqRel: the last one comes after what all others did.
        if self.channel.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.channel.close();
        }
    }
}

impl<T: Send> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// The values of a channel, until it is closed.
#[derive(Debug)]
pub struct Iter<'a, T: Send> {
    receiver: &'a Receiver<T>,
}

impl<T: Send> Iterator for Iter<'_, T> {
    type Item = T;

    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T: Send> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
