//! Why a value could not be sent or received.

use std::fmt;

/// The channel is closed; here is the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("send on a closed channel")
    }
}

impl<T> std::error::Error for SendError<T> {}

/// A value could not be sent at once; here it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// The buffer is full and nobody receives.
    Full(T),
    /// The channel is closed.
    Closed(T),
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "send on a full channel",
            TrySendError::Closed(_) => "send on a closed channel",
        })
    }
}

impl<T> std::error::Error for TrySendError<T> {}

/// The channel is closed and empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvError;

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("receive from a closed channel")
    }
}

impl std::error::Error for RecvError {}

/// There is nothing to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// Now.
    Empty,
    /// Ever again.
    Closed,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "receive from an empty channel",
            TryRecvError::Closed => "receive from a closed channel",
        })
    }
}

impl std::error::Error for TryRecvError {}

/// A value could not be sent in time; here it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The time was over.
    Timeout(T),
    /// The channel is closed.
    Closed(T),
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "send on a channel took too long",
            SendTimeoutError::Closed(_) => "send on a closed channel",
        })
    }
}

impl<T> std::error::Error for SendTimeoutError<T> {}

/// Nothing was received in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvTimeoutError {
    /// The time was over.
    Timeout,
    /// The channel is closed and empty.
    Closed,
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvTimeoutError::Timeout => "receive from a channel took too long",
            RecvTimeoutError::Closed => "receive from a closed channel",
        })
    }
}

impl std::error::Error for RecvTimeoutError {}
