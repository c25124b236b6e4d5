//! One operation of a select: sending a value to a channel, or receiving one.

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::chan::core::{Channel, Received, Sent};
use crate::chan::queue::{Outcome, Waiter};
use crate::chan::{Receiver, RecvError, SendError, Sender};
use crate::lock::Spin;
use crate::sched::refs::GRef;
use crate::sched::ticket::Ticket;

/// What a select needs of a case. Sealed: only this crate has cases.
pub trait Case: private::Steps {}

pub(crate) mod private {
    use super::*;

    /// The lock of a case's channel.
    #[derive(Debug)]
    pub struct LockOf(pub(crate) NonNull<Spin>);

    /// A goroutine that waits for several things.
    #[derive(Debug)]
    pub struct Waiting<'a> {
        pub(crate) g: GRef,
        pub(crate) ticket: &'a Ticket,
        pub(crate) case: u32,
    }

    /// A goroutine to be woken.
    #[derive(Debug)]
    pub struct Woken(pub(crate) Option<GRef>);

    /// The steps of a select for one case.
    pub trait Steps {
        /// Its channel's lock.
        fn lock(&self) -> LockOf;

        /// Does the operation if that is possible now.
        ///
        /// # Safety
        /// The lock is held.
        unsafe fn try_now(&mut self) -> Option<Woken>;

        /// Puts a waiter into the queue.
        ///
        /// # Safety
        /// The lock is held; the case does not move before [`Steps::forget`].
        unsafe fn wait(&mut self, waiting: Waiting<'_>);

        /// Takes the waiter out of the queue, if it is still there. Takes the lock.
        fn forget(&mut self);

        /// The channel gave the wake to this case: keeps what came of it.
        fn keep(&mut self);
    }
}

use private::{LockOf, Steps, Waiting, Woken};

#[cold]
#[track_caller]
fn not_done() -> ! {
    panic!("only the case that was done has a result")
}

/// Receiving from a channel.
pub struct ReceiveCase<'a, T: Send> {
    channel: &'a Channel<T>,
    place: MaybeUninit<T>,
    waiter: Option<Waiter<T>>,
    result: Option<Result<T, RecvError>>,
}

impl<'a, T: Send> ReceiveCase<'a, T> {
    /// The case of receiving from `receiver`.
    pub fn new(receiver: &'a Receiver<T>) -> ReceiveCase<'a, T> {
        ReceiveCase {
            channel: &receiver.channel,
            place: MaybeUninit::uninit(),
            waiter: None,
            result: None,
        }
    }

    /// What was received, when this case was done.
    ///
    /// # Panics
    /// If it was not.
    pub fn finish(mut self) -> Result<T, RecvError> {
        match self.result.take() {
            Some(result) => result,
            None => not_done(),
        }
    }
}

impl<T: Send> Case for ReceiveCase<'_, T> {}

impl<T: Send> Steps for ReceiveCase<'_, T> {
    fn lock(&self) -> LockOf {
        LockOf(NonNull::from(&self.channel.lock))
    }

    unsafe fn try_now(&mut self) -> Option<Woken> {
        // SAFETY: the caller's contract.
        match unsafe { self.channel.try_receive_locked() } {
            Received::Value(value, woken) => {
                self.result = Some(Ok(value));
                Some(Woken(woken))
            }
            Received::Closed => {
                self.result = Some(Err(RecvError));
                Some(Woken(None))
            }
            Received::Empty => None,
        }
    }

    unsafe fn wait(&mut self, waiting: Waiting<'_>) {
        let place = &raw mut self.place;
        let waiter = Waiter::with_ticket(waiting.g, place, waiting.ticket, waiting.case);
        let waiter = self.waiter.insert(waiter);
        // SAFETY: the caller's contract.
        unsafe { self.channel.queue_receiver_locked(waiter) };
    }

    fn forget(&mut self) {
        if let Some(waiter) = &self.waiter {
            // SAFETY: `wait` put it into that queue.
            unsafe { self.channel.forget(waiter, false) };
        }
    }

    fn keep(&mut self) {
        self.result = match self.waiter.take().map(|waiter| waiter.outcome()) {
            // SAFETY: a sender put a value there.
            Some(Outcome::Done) => Some(Ok(unsafe { self.place.assume_init_read() })),
            _ => Some(Err(RecvError)),
        };
    }
}

impl<T: Send> fmt::Debug for ReceiveCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveCase").finish_non_exhaustive()
    }
}

/// Sending to a channel.
pub struct SendCase<'a, T: Send> {
    channel: &'a Channel<T>,
    /// The value, until it is sent.
    value: Option<T>,
    /// The value while it waits.
    place: MaybeUninit<T>,
    waiter: Option<Waiter<T>>,
    result: Option<Result<(), SendError<T>>>,
}

impl<'a, T: Send> SendCase<'a, T> {
    /// The case of sending `value` to `sender`.
    pub fn new(sender: &'a Sender<T>, value: T) -> SendCase<'a, T> {
        SendCase {
            channel: &sender.channel,
            value: Some(value),
            place: MaybeUninit::uninit(),
            waiter: None,
            result: None,
        }
    }

    /// What came of sending, when this case was done.
    ///
    /// # Panics
    /// If it was not.
    pub fn finish(mut self) -> Result<(), SendError<T>> {
        match self.result.take() {
            Some(result) => result,
            None => not_done(),
        }
    }
}

impl<T: Send> SendCase<'_, T> {
    /// The value, when another case was done, or none.
    pub(crate) fn into_value(mut self) -> Option<T> {
        match self.waiter.take() {
            Some(waiter) if waiter.outcome() != Outcome::Done => {
                // SAFETY: nobody took the value; the waiter, which says that it is there, is gone.
                Some(unsafe { self.place.assume_init_read() })
            }
            _ => self.value.take(),
        }
    }
}

impl<T: Send> Case for SendCase<'_, T> {}

impl<T: Send> Steps for SendCase<'_, T> {
    fn lock(&self) -> LockOf {
        LockOf(NonNull::from(&self.channel.lock))
    }

    unsafe fn try_now(&mut self) -> Option<Woken> {
        let value = self.value.take()?;
        // SAFETY: the caller's contract.
        match unsafe { self.channel.try_send_locked(value) } {
            Sent::Done(woken) => {
                self.result = Some(Ok(()));
                Some(Woken(woken))
            }
            Sent::Closed(value) => {
                self.result = Some(Err(SendError(value)));
                Some(Woken(None))
            }
            Sent::Full(value) => {
                self.value = Some(value);
                None
            }
        }
    }

    unsafe fn wait(&mut self, waiting: Waiting<'_>) {
        if let Some(value) = self.value.take() {
            self.place.write(value);
        }
        let place = &raw mut self.place;
        let waiter = Waiter::with_ticket(waiting.g, place, waiting.ticket, waiting.case);
        let waiter = self.waiter.insert(waiter);
        // SAFETY: the caller's contract.
        unsafe { self.channel.queue_sender_locked(waiter) };
    }

    fn forget(&mut self) {
        if let Some(waiter) = &self.waiter {
            // SAFETY: `wait` put it into that queue.
            unsafe { self.channel.forget(waiter, true) };
        }
    }

    fn keep(&mut self) {
        self.result = match self.waiter.as_ref().map(Waiter::outcome) {
            Some(Outcome::Done) => Some(Ok(())),
            // SAFETY: nobody took the value. The waiter goes, so that nobody takes it again.
            _ => Some(Err(SendError(unsafe { self.place.assume_init_read() }))),
        };
        self.waiter = None;
    }
}

impl<T: Send> Drop for SendCase<'_, T> {
    fn drop(&mut self) {
        // A case that waited and was not done still has its value; one that was done, and unwound before
        // it could say so, has not.
        if let Some(waiter) = &self.waiter
            && waiter.outcome() != Outcome::Done
        {
            // SAFETY: nobody took the value.
            unsafe { self.place.assume_init_drop() };
        }
    }
}

impl<T: Send> Drop for ReceiveCase<'_, T> {
    fn drop(&mut self) {
        // A value that came, and that nobody was told of because the goroutine was unwound.
        if let Some(waiter) = &self.waiter
            && waiter.outcome() == Outcome::Done
        {
            // SAFETY: a sender put a value there.
            unsafe { self.place.assume_init_drop() };
        }
    }
}

impl<T: Send> fmt::Debug for SendCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendCase").finish_non_exhaustive()
    }
}
