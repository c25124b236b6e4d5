//! The channel itself: a buffer, two queues of waiters, a lock.
//!
//! Operations that are called *locked* leave the lock to the caller, and name the goroutine that the
//! caller is to wake after it has released the lock.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::panic::Location;

use super::error::{RecvError, SendError, TryRecvError, TrySendError};
use super::queue::{Outcome, WaitQueue, Waiter};
use crate::lock::{Rank, Spin};
use crate::prim::atomic::AtomicUsize;
use crate::prim::cell::UnsafeCell;
use crate::sched::critical;
use crate::sched::current;
use crate::sched::current::this_goroutine;
use crate::sched::g::{Wait, WaitReason};
use crate::sched::park::{self, Waking};
use crate::sched::refs::GRef;

pub(crate) struct Channel<T> {
    pub(crate) lock: Spin,
    pub(super) senders: AtomicUsize,
    pub(super) receivers: AtomicUsize,
    pub(super) capacity: usize,
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

/// What came of sending without waiting.
pub(crate) enum Sent<T> {
    /// It is sent; this goroutine is to be woken.
    Done(Option<GRef>),
    /// There is no room and nobody receives.
    Full(T),
    /// The channel is closed.
    Closed(T),
}

/// What came of receiving without waiting.
pub(crate) enum Received<T> {
    /// A value; this goroutine is to be woken.
    Value(T, Option<GRef>),
    /// There is nothing.
    Empty,
    /// There is nothing, and the channel is closed.
    Closed,
}

impl<T: Send> Channel<T> {
    /// A channel with one sender and one receiver.
    pub(super) fn new(capacity: usize) -> Channel<T> {
        Channel {
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
        }
    }

    /// The part under the lock.
    ///
    /// # Safety
    /// The caller holds the lock, and no other reference from here.
    #[expect(clippy::mut_from_ref, reason = "the lock makes it exclusive")]
    #[inline(always)]
    unsafe fn inner(&self) -> &mut Inner<T> {
        // SAFETY: the caller's contract.
        self.inner.with_mut(|inner| unsafe { &mut *inner })
    }

    #[inline(always)]
    fn unlock(&self) {
        // SAFETY: every caller of this has taken the lock.
        unsafe { self.lock.unlock() }
    }

    /// Releases the lock, and makes the goroutine runnable that was taken out of a queue under it. `me` is
    /// the goroutine of the caller.
    #[inline(always)]
    fn unlock_and_wake(&self, me: Option<GRef>, woken: Option<GRef>) {
        let waking = woken.map(|g| Waking::new(me, g));
        self.unlock();
        if let Some(waking) = waking {
            waking.wake();
        }
    }

    /// What a goroutine that waits here waits for.
    fn wait(&self, reason: WaitReason, site: &'static Location<'static>) -> Wait {
        Wait {
            reason,
            object: std::ptr::from_ref(self) as usize as u64,
            site,
        }
    }

    // ---- locked

    /// Sends without waiting.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[inline(always)]
    pub(crate) unsafe fn try_send_locked(&self, value: T) -> Sent<T> {
        // SAFETY: the caller's contract.
        let inner = unsafe { self.inner() };
        if inner.closed {
            return Sent::Closed(value);
        }
        if let Some(waiter) = inner.receiving.pop() {
            // SAFETY: the receiver waits until it is made ready, so its node and its place for the value
            // stay.
            return Sent::Done(Some(unsafe { waiter.as_ref().give(value) }));
        }
        if inner.buffer.len() < self.capacity {
            inner.buffer.push_back(value);
            return Sent::Done(None);
        }
        Sent::Full(value)
    }

    /// Receives without waiting.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[inline(always)]
    pub(crate) unsafe fn try_receive_locked(&self) -> Received<T> {
        // SAFETY: the caller's contract.
        let inner = unsafe { self.inner() };
        if let Some(value) = inner.buffer.pop_front() {
            let sender = inner.sending.pop().map(|waiter| {
                // SAFETY: the sender waits until it is made ready, so its node and its value stay.
                let (value, g) = unsafe { waiter.as_ref().take() };
                inner.buffer.push_back(value);
                g
            });
            return Received::Value(value, sender);
        }
        if let Some(waiter) = inner.sending.pop() {
            // SAFETY: as above.
            let (value, g) = unsafe { waiter.as_ref().take() };
            return Received::Value(value, Some(g));
        }
        if inner.closed {
            Received::Closed
        } else {
            Received::Empty
        }
    }

    /// Puts a receiver last in its queue.
    ///
    /// # Safety
    /// The caller holds the lock; the waiter stays where it is until [`Channel::forget`].
    #[inline(always)]
    pub(crate) unsafe fn queue_receiver_locked(&self, waiter: &Waiter<T>) {
        // SAFETY: the caller's contract.
        unsafe { self.inner().receiving.push(waiter) };
    }

    /// Puts a sender last in its queue.
    ///
    /// # Safety
    /// As [`Channel::queue_receiver_locked`].
    #[inline(always)]
    pub(crate) unsafe fn queue_sender_locked(&self, waiter: &Waiter<T>) {
        // SAFETY: the caller's contract.
        unsafe { self.inner().sending.push(waiter) };
    }

    /// Closes the channel, and ends the wait of one who waits; again, until there is none.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub(super) unsafe fn close_locked(&self) -> Option<GRef> {
        // SAFETY: the caller's contract.
        let inner = unsafe { self.inner() };
        inner.closed = true;
        let waiter = inner.receiving.pop().or_else(|| inner.sending.pop())?;
        // SAFETY: it waits until it is made ready.
        Some(unsafe { waiter.as_ref().close() })
    }

    /// Takes a waiter out of its queue, if it is still there. Takes the lock.
    ///
    /// # Safety
    /// The waiter was put into a queue of this channel, that of senders if it is `sending`.
    pub(crate) unsafe fn forget(&self, waiter: &Waiter<T>, sending: bool) {
        self.lock.lock();
        // SAFETY: the lock is held; the caller's contract.
        unsafe {
            let inner = self.inner();
            let queue = if sending {
                &mut inner.sending
            } else {
                &mut inner.receiving
            };
            queue.remove(waiter);
        }
        self.unlock();
    }

    // ---- whole operations

    #[inline(always)]
    pub(super) fn send(
        &self,
        value: T,
        site: &'static Location<'static>,
    ) -> Result<(), SendError<T>> {
        let me = current::goroutine();
        let _section = critical::enter_to_wait_if(me);
        self.lock.lock();
        // SAFETY: the lock is held.
        match unsafe { self.try_send_locked(value) } {
            Sent::Done(woken) => {
                self.unlock_and_wake(me, woken);
                Ok(())
            }
            Sent::Closed(value) => {
                self.unlock();
                Err(SendError(value))
            }
            Sent::Full(value) => self.wait_to_send(self.waiting_goroutine(me), value, site),
        }
    }

    #[inline(always)]
    fn wait_to_send(
        &self,
        me: GRef,
        value: T,
        site: &'static Location<'static>,
    ) -> Result<(), SendError<T>> {
        let mut place = MaybeUninit::new(value);
        let waiter = Waiter::new(me, &raw mut place);
        let cancelled = Leaving {
            channel: self,
            waiter: &waiter,
            place: &raw mut place,
            sending: true,
        };
        // SAFETY: the lock is held; the node stays on this stack until it is taken out.
        unsafe { self.queue_sender_locked(&waiter) };
        park::park_and_unlock(me, self.wait(WaitReason::ChanSend, site), &self.lock);
        std::mem::forget(cancelled);
        match waiter.outcome() {
            Outcome::Done => Ok(()),
            // SAFETY: nobody took the value.
            _ => Err(SendError(unsafe { place.assume_init_read() })),
        }
    }

    #[inline(always)]
    pub(super) fn receive(&self, site: &'static Location<'static>) -> Result<T, RecvError> {
        let me = current::goroutine();
        let _section = critical::enter_to_wait_if(me);
        self.lock.lock();
        // SAFETY: the lock is held.
        match unsafe { self.try_receive_locked() } {
            Received::Value(value, woken) => {
                self.unlock_and_wake(me, woken);
                Ok(value)
            }
            Received::Closed => {
                self.unlock();
                Err(RecvError)
            }
            Received::Empty => self.wait_to_receive(self.waiting_goroutine(me), site),
        }
    }

    #[inline(always)]
    fn wait_to_receive(&self, me: GRef, site: &'static Location<'static>) -> Result<T, RecvError> {
        let mut place = MaybeUninit::uninit();
        let waiter = Waiter::new(me, &raw mut place);
        let cancelled = Leaving {
            channel: self,
            waiter: &waiter,
            place: &raw mut place,
            sending: false,
        };
        // SAFETY: the lock is held; the node stays on this stack until it is taken out.
        unsafe { self.queue_receiver_locked(&waiter) };
        park::park_and_unlock(me, self.wait(WaitReason::ChanReceive, site), &self.lock);
        std::mem::forget(cancelled);
        match waiter.outcome() {
            // SAFETY: a sender put a value there.
            Outcome::Done => Ok(unsafe { place.assume_init_read() }),
            _ => Err(RecvError),
        }
    }

    /// The goroutine that is about to wait; the lock is held.
    #[inline(always)]
    #[track_caller]
    fn waiting_goroutine(&self, me: Option<GRef>) -> GRef {
        me.unwrap_or_else(|| {
            self.unlock();
            this_goroutine()
        })
    }

    pub(super) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let me = current::goroutine();
        let _section = critical::enter_if(me);
        self.lock.lock();
        // SAFETY: the lock is held.
        let (woken, result) = match unsafe { self.try_send_locked(value) } {
            Sent::Done(woken) => (woken, Ok(())),
            Sent::Full(value) => (None, Err(TrySendError::Full(value))),
            Sent::Closed(value) => (None, Err(TrySendError::Closed(value))),
        };
        self.unlock_and_wake(me, woken);
        result
    }

    pub(super) fn try_receive(&self) -> Result<T, TryRecvError> {
        let me = current::goroutine();
        let _section = critical::enter_if(me);
        self.lock.lock();
        // SAFETY: the lock is held.
        let (woken, result) = match unsafe { self.try_receive_locked() } {
            Received::Value(value, woken) => (woken, Ok(value)),
            Received::Empty => (None, Err(TryRecvError::Empty)),
            Received::Closed => (None, Err(TryRecvError::Closed)),
        };
        self.unlock_and_wake(me, woken);
        result
    }

    /// Closes the channel: everybody who waits is told.
    pub(super) fn close(&self) {
        let me = current::goroutine();
        let _section = critical::enter_if(me);
        loop {
            self.lock.lock();
            // SAFETY: the lock is held.
            let woken = unsafe { self.close_locked() };
            self.unlock_and_wake(me, woken);
            if woken.is_none() {
                return;
            }
        }
    }

    /// How many values are in the buffer.
    pub(super) fn len(&self) -> usize {
        let _section = critical::enter_if(current::goroutine());
        self.lock.lock();
        // SAFETY: the lock is held.
        let len = unsafe { self.inner() }.buffer.len();
        self.unlock();
        len
    }
}

/// Takes a waiter out of its queue when its goroutine is unwound while it waits, at shutdown, and drops
/// what then belongs to nobody: a value that could not be sent, or one that was received. Forgotten when
/// the wait ends in the ordinary way.
struct Leaving<'a, T: Send> {
    channel: &'a Channel<T>,
    waiter: &'a Waiter<T>,
    place: *mut MaybeUninit<T>,
    sending: bool,
}

impl<T: Send> Drop for Leaving<'_, T> {
    fn drop(&mut self) {
        // A thread that is no M may be giving the waiter its outcome right now.
        // SAFETY: it was put into that queue.
        unsafe { self.channel.forget(self.waiter, self.sending) };
        let done = self.waiter.outcome() == Outcome::Done;
        if done != self.sending {
            // SAFETY: a receiver whose wait is done has a value; a sender whose is not still has its own.
            unsafe { (*self.place).assume_init_drop() };
        }
    }
}
