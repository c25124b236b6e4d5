//! Channels as Go's: unbuffered or buffered, many senders, many receivers.
//!
//! # Invariants
//!
//! 1. At least one of the two queues of waiters is empty. Otherwise a sender and a receiver would wait
//!    for each other.
//! 2. While a sender waits, the buffer is full; while a receiver waits, it is empty. Otherwise order
//!    would be lost, or somebody would wait for what is there.
//! 3. A waiter is in a queue as long as its outcome is `Pending`; whoever takes it out writes the
//!    outcome under the lock, and only then makes its goroutine ready. Otherwise a value could be
//!    lost, or delivered twice.
//!
//! A waiter is a node on the waiting goroutine's own stack, so waiting allocates nothing. A value goes
//! from the sender's stack to the receiver's in one move.

mod queue;

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::Location;
use std::sync::Arc;

use crate::lock::{Rank, Spin};
use crate::prim::atomic::{AtomicUsize, Ordering};
use crate::sched::current;
use crate::sched::current::this_goroutine;
use crate::sched::g::{Wait, WaitReason};
use crate::sched::park::{self, Waking};
use crate::sched::refs::GRef;
use queue::{Outcome, WaitQueue, Waiter};

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
    let channel = Arc::new(Channel {
        lock: Spin::new(Rank::Channel),
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
        capacity,
        inner: UnsafeCell::new(Inner {
            buffer: VecDeque::with_capacity(capacity),
            receiving: WaitQueue::new(),
            sending: WaitQueue::new(),
            closed: false,
        }),
    });
    (
        Sender {
            channel: Arc::clone(&channel),
        },
        Receiver { channel },
    )
}

struct Channel<T> {
    lock: Spin,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    capacity: usize,
    /// Under `lock`.
    inner: UnsafeCell<Inner<T>>,
}

// SAFETY: values go from thread to thread, one owner at a time; the rest is under the lock.
unsafe impl<T: Send> Send for Channel<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Channel<T> {}

struct Inner<T> {
    buffer: VecDeque<T>,
    receiving: WaitQueue<T>,
    sending: WaitQueue<T>,
    closed: bool,
}

impl<T: Send> Channel<T> {
    /// The part under the lock.
    ///
    /// # Safety
    /// The caller holds the lock, and no other reference from here.
    #[expect(clippy::mut_from_ref, reason = "the lock makes it exclusive")]
    #[inline(always)]
    unsafe fn inner(&self) -> &mut Inner<T> {
        // SAFETY: the caller's contract.
        unsafe { &mut *self.inner.get() }
    }

    fn unlock(&self) {
        // SAFETY: every caller of this has taken the lock.
        unsafe { self.lock.unlock() }
    }

    fn wait(&self, reason: WaitReason, site: &'static Location<'static>) -> Wait {
        Wait {
            reason,
            object: std::ptr::from_ref(self) as usize as u64,
            site,
        }
    }

    /// Sends without waiting; the value comes back if it cannot be sent.
    #[inline(always)]
    fn try_send_locked(&self, me: Option<GRef>, value: T) -> Result<(), TrySendError<T>> {
        // SAFETY: the lock is held.
        let inner = unsafe { self.inner() };
        if inner.closed {
            self.unlock();
            return Err(TrySendError::Closed(value));
        }
        if let Some(waiter) = inner.receiving.pop() {
            // SAFETY: the receiver waits until it is made ready, so its node and its place for the
            // value stay.
            let g = unsafe { waiter.as_ref().give(value) };
            let waking = Waking::new(me, g);
            self.unlock();
            waking.wake();
            return Ok(());
        }
        if inner.buffer.len() < self.capacity {
            inner.buffer.push_back(value);
            self.unlock();
            return Ok(());
        }
        Err(TrySendError::Full(value))
    }

    fn send(&self, value: T, site: &'static Location<'static>) -> Result<(), SendError<T>> {
        let me = current::goroutine();
        self.lock.lock();
        let value = match self.try_send_locked(me, value) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(value)) => return Err(SendError(value)),
            Err(TrySendError::Full(value)) => value,
        };
        let Some(me) = me else {
            self.unlock();
            this_goroutine();
            unreachable!("a thread that runs no goroutine cannot wait");
        };
        let mut place = MaybeUninit::new(value);
        let waiter = Waiter::new(me, &mut place);
        let cancelled = Leaving {
            channel: self,
            waiter: &waiter,
            sending: true,
        };
        // SAFETY: the lock is held; the node stays on this stack until it is taken out.
        unsafe { self.inner().sending.push(&waiter) };
        park::park_and_unlock(me, self.wait(WaitReason::ChanSend, site), &self.lock);
        std::mem::forget(cancelled);
        match waiter.outcome() {
            Outcome::Done => Ok(()),
            // SAFETY: nobody took the value.
            _ => Err(SendError(unsafe { place.assume_init_read() })),
        }
    }

    /// Receives without waiting. `None` with the lock still held when there is nothing and the channel
    /// is open.
    #[inline(always)]
    fn try_receive_locked(&self, me: Option<GRef>) -> Option<Result<T, RecvError>> {
        // SAFETY: the lock is held.
        let inner = unsafe { self.inner() };
        if let Some(value) = inner.buffer.pop_front() {
            let sender = inner.sending.pop().map(|waiter| {
                // SAFETY: the sender waits until it is made ready, so its node and its value stay.
                let (value, g) = unsafe { waiter.as_ref().take() };
                inner.buffer.push_back(value);
                Waking::new(me, g)
            });
            self.unlock();
            if let Some(sender) = sender {
                sender.wake();
            }
            return Some(Ok(value));
        }
        if let Some(waiter) = inner.sending.pop() {
            // SAFETY: as above.
            let (value, g) = unsafe { waiter.as_ref().take() };
            let waking = Waking::new(me, g);
            self.unlock();
            waking.wake();
            return Some(Ok(value));
        }
        if inner.closed {
            self.unlock();
            return Some(Err(RecvError));
        }
        None
    }

    fn receive(&self, site: &'static Location<'static>) -> Result<T, RecvError> {
        let me = current::goroutine();
        self.lock.lock();
        if let Some(received) = self.try_receive_locked(me) {
            return received;
        }
        let Some(me) = me else {
            self.unlock();
            this_goroutine();
            unreachable!("a thread that runs no goroutine cannot wait");
        };
        let mut place = MaybeUninit::uninit();
        let waiter = Waiter::new(me, &mut place);
        let cancelled = Leaving {
            channel: self,
            waiter: &waiter,
            sending: false,
        };
        // SAFETY: the lock is held; the node stays on this stack until it is taken out.
        unsafe { self.inner().receiving.push(&waiter) };
        park::park_and_unlock(me, self.wait(WaitReason::ChanReceive, site), &self.lock);
        std::mem::forget(cancelled);
        match waiter.outcome() {
            // SAFETY: a sender put a value there.
            Outcome::Done => Ok(unsafe { waiter.received() }),
            _ => Err(RecvError),
        }
    }

    /// Closes the channel: everybody who waits is told.
    fn close(&self) {
        let me = current::goroutine();
        self.lock.lock();
        // SAFETY: the lock is held.
        unsafe { self.inner() }.closed = true;
        loop {
            // SAFETY: the lock is held, taken again each time round.
            let inner = unsafe { self.inner() };
            let Some(waiter) = inner.receiving.pop().or_else(|| inner.sending.pop()) else {
                break;
            };
            // SAFETY: the waiter waits until it is made ready.
            let g = unsafe { waiter.as_ref().finish(Outcome::Closed) };
            let waking = Waking::new(me, g);
            self.unlock();
            waking.wake();
            self.lock.lock();
        }
        self.unlock();
    }

    fn len(&self) -> usize {
        self.lock.lock();
        // SAFETY: the lock is held.
        let len = unsafe { self.inner() }.buffer.len();
        self.unlock();
        len
    }
}

/// Takes a waiter out of its queue when its goroutine is unwound while it waits, at shutdown. Forgotten
/// when the wait ends in the ordinary way.
struct Leaving<'a, T: Send> {
    channel: &'a Channel<T>,
    waiter: &'a Waiter<T>,
    sending: bool,
}

impl<T: Send> Drop for Leaving<'_, T> {
    #[cold]
    fn drop(&mut self) {
        // A thread that is no M may be giving the waiter its outcome right now.
        self.channel.lock.lock();
        let pending = self.waiter.outcome() == Outcome::Pending;
        if pending {
            // SAFETY: the lock is held, and the node is in the queue while its outcome is pending.
            unsafe {
                let inner = self.channel.inner();
                let queue = if self.sending {
                    &mut inner.sending
                } else {
                    &mut inner.receiving
                };
                queue.remove(self.waiter);
            }
        }
        self.channel.unlock();
        // SAFETY: nobody else looks at a waiter that is in no queue.
        unsafe {
            if !pending {
                self.waiter.drop_unclaimed(self.sending);
            } else if self.sending {
                self.waiter.drop_value();
            }
        }
    }
}

/// The sending end of a channel.
pub struct Sender<T: Send> {
    channel: Arc<Channel<T>>,
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
        let me = current::goroutine();
        self.channel.lock.lock();
        let result = self.channel.try_send_locked(me, value);
        if matches!(result, Err(TrySendError::Full(_))) {
            self.channel.unlock();
        }
        result
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
    channel: Arc<Channel<T>>,
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
        let me = current::goroutine();
        self.channel.lock.lock();
        match self.channel.try_receive_locked(me) {
            Some(received) => received.map_err(|RecvError| TryRecvError::Closed),
            None => {
                self.channel.unlock();
                Err(TryRecvError::Empty)
            }
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
