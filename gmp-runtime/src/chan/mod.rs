//! Channels as Go's: unbuffered or buffered, many senders, many receivers.
//!
//! # Invariants
//!
//! 1. At least one of the two queues of waiters is empty. Otherwise a sender and a receiver would wait
//!    for each other.
//! 2. While a sender waits, the buffer is full; while a receiver waits, it is empty. Otherwise order
//!    would be lost, or somebody would wait for what is there.
//! 3. Whoever takes a waiter out of a queue writes its outcome under the lock, and only then makes its
//!    goroutine ready. Otherwise a value could be lost, or delivered twice.
//!
//! A waiter is a node on the waiting goroutine's own stack, so waiting allocates nothing. A value goes
//! from the sender's stack to the receiver's in one move.

pub(crate) mod core;
mod ends;
mod error;
#[cfg(all(test, loom))]
mod model_tests;
pub(crate) mod queue;

use std::sync::Arc;

use self::core::Channel;
pub use ends::{Iter, Receiver, Sender};
pub use error::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};

/// A channel that holds up to `capacity` values on their way; with 0 a sender waits for its receiver.
///
/// Both ends can be cloned, and sent to other goroutines. The buffer is allocated here, once.
///
/// # Examples
/// ```
/// # let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         let (sender, receiver) = gmp_runtime::channel(0);
///         gmp_runtime::go(move || {
///             for i in 0..3 {
///                 sender.send(i).unwrap();
///             }
///         });
///         assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2]);
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn channel<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Channel::new(capacity));
    (
        Sender {
            channel: Arc::clone(&channel),
        },
        Receiver { channel },
    )
}

/// A receiver to which nothing ever comes and which is never closed: Go's nil channel. A case of a
/// [`select!`](macro@crate::select) that receives from it is turned off.
///
/// Receiving from it blocks the goroutine for ever (reason `chan receive`).
///
/// # Examples
/// ```
/// # let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         let (sender, mut numbers) = gmp_runtime::channel(2);
///         let texts = gmp_runtime::never::<String>();
///         sender.send(1).unwrap();
///         drop(sender);
///         let mut sum = 0;
///         loop {
///             gmp_runtime::select! {
///                 recv(numbers) -> number => match number {
///                     Ok(number) => sum += number,
///                     // A closed channel is always ready; from now on this case is not.
///                     Err(_) => numbers = gmp_runtime::never(),
///                 },
///                 recv(texts) -> _ => unreachable!(),
///                 default => break,
///             }
///         }
///         assert_eq!(sum, 1);
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn never<T: Send>() -> Receiver<T> {
    // A channel begins with one sender, which is nobody here.
    let channel = Arc::new(Channel::new(0));
    Receiver { channel }
}
