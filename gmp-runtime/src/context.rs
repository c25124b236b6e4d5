//! Contexts: one word to a tree of goroutines that its work is over, as Go's package `context`.
//!
//! A [`Context`] is passed down: to callees, to the goroutines that they make. Whoever has the [`Cancel`] of
//! one, or its deadline, ends it with everything made from it. [`Context::done`] is a channel that is closed
//! then, so waiting for it is a case of a [`select!`](macro@crate::select), beside whatever else is waited
//! for:
//!
//! ```
//! use std::time::Duration;
//! use gmp_runtime::{channel, context::Context, go, select};
//!
//! # let runtime = gmp_runtime::Runtime::builder().procs(2).build()?;
//! // SAFETY: nothing that belongs to a thread lives across a call that may park.
//! unsafe {
//!     runtime.run(|| {
//!         let (context, cancel) = Context::background().with_timeout(Duration::from_secs(60));
//!         let (jobs, queue) = channel::<u32>(0);
//!         let worker = go(move || {
//!             let mut done = 0;
//!             loop {
//!                 select! {
//!                     recv(queue) -> job => done += job.unwrap_or(0),
//!                     recv(context.done()) -> _ => return (done, context.error()),
//!                 }
//!             }
//!         });
//!         jobs.send(3).unwrap();
//!         cancel.cancel();
//!         let (done, why) = worker.join().unwrap();
//!         assert_eq!(done, 3);
//!         assert_eq!(why.unwrap().to_string(), "context canceled");
//!     })
//! };
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What takes a context
//!
//! | to wait for | with a context |
//! |---|---|
//! | a channel | [`Context::recv`], [`Context::send`] |
//! | one of several channels, tickers, timers | `recv(context.done())` as a case of a select |
//! | time | [`Context::sleep`] |
//! | everything else: the end of a goroutine, locks, groups, sockets, files | [`Context::run`], on a goroutine of its own |

use std::any::Any;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::panic;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::chan::{Receiver, SendError, Sender, channel};
use crate::select::expansion::{Case, ReceiveCase, SendCase, Until, run};
use crate::spawn::go;
use crate::sync::Mutex;
use crate::time::{FuncTimer, after_func};

/// Says when work is over, and carries values down to it. A clone is the same context.
#[derive(Clone)]
pub struct Context {
    node: Arc<Node>,
}

/// One context: what it adds to its parent.
struct Node {
    parent: Option<Context>,
    /// What ends it, where it can end before its parent; the parent's else.
    end: Arc<End>,
    value: Option<Box<dyn Any + Send + Sync>>,
}

/// What can end, once.
struct End {
    /// Never sent to: closed at the end.
    sender: Sender<Infallible>,
    receiver: Receiver<Infallible>,
    deadline: Option<Instant>,
    timer: OnceLock<FuncTimer>,
    /// Of whose children it is one.
    parent: Option<Arc<End>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    error: Option<ContextError>,
    /// By address.
    children: HashMap<usize, Weak<End>>,
}

/// Why a context is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ContextError {
    /// Somebody called [`Cancel::cancel`], or dropped the [`Cancel`].
    Canceled,
    /// Its deadline has passed.
    DeadlineExceeded,
}

impl fmt::Display for ContextError {
    /// Go's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ContextError::Canceled => "context canceled",
            ContextError::DeadlineExceeded => "context deadline exceeded",
        })
    }
}

impl std::error::Error for ContextError {}

impl End {
    fn new(parent: Option<Arc<End>>, deadline: Option<Instant>) -> Arc<End> {
        let (sender, receiver) = channel(0);
        Arc::new(End {
            sender,
            receiver,
            deadline,
            timer: OnceLock::new(),
            parent,
            state: Mutex::new(State::default()),
        })
    }

    fn error(&self) -> Option<ContextError> {
        self.state.lock().error
    }

    /// Makes `child` end with this one.
    fn adopt(&self, child: &Arc<End>) {
        let error = {
            let mut state = self.state.lock();
            if state.error.is_none() {
                state.children.insert(child.key(), Arc::downgrade(child));
            }
            state.error
        };
        if let Some(error) = error {
            child.end(error);
        }
    }

    /// Ends it and everything below it, unless it has ended.
    fn end(&self, error: ContextError) {
        let children = {
            let mut state = self.state.lock();
            if state.error.is_some() {
                return;
            }
            state.error = Some(error);
            std::mem::take(&mut state.children)
        };
        self.sender.close();
        self.leave();
        for child in children.values().filter_map(Weak::upgrade) {
            child.end(error);
        }
    }

    /// Nobody need tell it, or wake it, any more.
    fn leave(&self) {
        if let Some(timer) = self.timer.get() {
            timer.stop();
        }
        if let Some(parent) = &self.parent {
            parent.state.lock().children.remove(&self.key());
        }
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Context {
    /// The root of all contexts: it is never done and has no value.
    pub fn background() -> Context {
        Context {
            node: Arc::new(Node {
                parent: None,
                end: End::new(None, None),
                value: None,
            }),
        }
    }

    /// A context that is done when this one is, or when it is canceled.
    pub fn with_cancel(&self) -> (Context, Cancel) {
        self.child(self.deadline())
    }

    /// A context that is done when this one is, when it is canceled, or at `deadline`.
    ///
    /// # Panics
    /// On a thread that runs no goroutine.
    #[track_caller]
    pub fn with_deadline(&self, deadline: Instant) -> (Context, Cancel) {
        if self.deadline().is_some_and(|sooner| sooner <= deadline) {
            return self.with_cancel();
        }
        let (context, cancel) = self.child(Some(deadline));
        let end = &context.node.end;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            end.end(ContextError::DeadlineExceeded);
            return (context, cancel);
        }
        let weak = Arc::downgrade(end);
        let timer = after_func(left, move || {
            if let Some(end) = weak.upgrade() {
                end.end(ContextError::DeadlineExceeded);
            }
        });
        let timer = end.timer.get_or_init(|| timer);
        if end.error().is_some() {
            // It ended before it had the timer.
            timer.stop();
        }
        (context, cancel)
    }

    /// A context that is done when this one is, when it is canceled, or after `timeout`.
    ///
    /// # Panics
    /// On a thread that runs no goroutine.
    #[track_caller]
    pub fn with_timeout(&self, timeout: Duration) -> (Context, Cancel) {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.with_deadline(deadline),
            // So far away that it never comes.
            None => self.with_cancel(),
        }
    }

    /// A context that carries `value`, for everybody who asks by its type. The nearest value of a type
    /// counts. For what belongs to a request and passes through code that does not know it, not for
    /// arguments.
    pub fn with_value<T: Any + Send + Sync>(&self, value: T) -> Context {
        Context {
            node: Arc::new(Node {
                parent: Some(self.clone()),
                end: Arc::clone(&self.node.end),
                value: Some(Box::new(value)),
            }),
        }
    }

    fn child(&self, deadline: Option<Instant>) -> (Context, Cancel) {
        let end = End::new(Some(Arc::clone(&self.node.end)), deadline);
        self.node.end.adopt(&end);
        let node = Node {
            parent: Some(self.clone()),
            end: Arc::clone(&end),
            value: None,
        };
        let context = Context {
            node: Arc::new(node),
        };
        (context, Cancel { end })
    }

    /// A channel that nothing is sent to, and that is closed when the context is done.
    pub fn done(&self) -> &Receiver<Infallible> {
        &self.node.end.receiver
    }

    /// Why the context is done; `None` while it is not. Once it says so it never changes.
    pub fn error(&self) -> Option<ContextError> {
        self.node.end.error()
    }

    /// When it will be done at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.node.end.deadline
    }

    /// The nearest value of this type, of this context or of those it was made from.
    pub fn value<T: Any>(&self) -> Option<&T> {
        let mut node = &self.node;
        loop {
            let found = node.value.as_ref().and_then(|value| value.downcast_ref());
            if found.is_some() {
                return found;
            }
            node = &node.parent.as_ref()?.node;
        }
    }

    /// Does `case`, unless the context is done before.
    #[track_caller]
    fn unless_done(&self, case: &mut dyn Case) -> Result<(), ContextError> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        let mut done = ReceiveCase::new(self.done());
        match run(&mut [case, &mut done], Until::Done) {
            Some(0) => Ok(()),
            // The channel is closed after the error is set.
            _ => Err(self.error().unwrap_or(ContextError::Canceled)),
        }
    }

    /// Receives from `receiver`, as [`Receiver::recv`], unless the context is done before.
    ///
    /// Blocks the goroutine (reason `select`), not its thread.
    ///
    /// # Errors
    /// When the context is done, or the channel is closed and empty.
    ///
    /// # Panics
    /// If it would have to wait on a thread that runs no goroutine.
    #[track_caller]
    pub fn recv<T: Send>(&self, receiver: &Receiver<T>) -> Result<T, ContextRecvError> {
        let mut case = ReceiveCase::new(receiver);
        self.unless_done(&mut case)
            .map_err(ContextRecvError::Done)?;
        case.finish().map_err(|_| ContextRecvError::Closed)
    }

    /// Sends `value`, as [`Sender::send`], unless the context is done before.
    ///
    /// Blocks the goroutine (reason `select`), not its thread.
    ///
    /// # Errors
    /// When the context is done, or the channel is closed; the value comes back.
    ///
    /// # Panics
    /// If it would have to wait on a thread that runs no goroutine.
    #[track_caller]
    pub fn send<T: Send>(&self, sender: &Sender<T>, value: T) -> Result<(), ContextSendError<T>> {
        let mut case = SendCase::new(sender, value);
        match self.unless_done(&mut case) {
            Ok(()) => case
                .finish()
                .map_err(|SendError(value)| ContextSendError::Closed(value)),
            Err(error) => match case.into_value() {
                Some(value) => Err(ContextSendError::Done(error, value)),
                None => unreachable!("a value that was not sent is still there"),
            },
        }
    }

    /// Sleeps for `duration`, unless the context is done before.
    ///
    /// Blocks the goroutine (reason `select`), not its thread.
    ///
    /// # Errors
    /// When the context is done before.
    ///
    /// # Panics
    /// On a thread that runs no goroutine.
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> Result<(), ContextError> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        let mut done = ReceiveCase::new(self.done());
        match run(&mut [&mut done], Until::Timeout(duration)) {
            None => Ok(()),
            Some(_) => Err(self.error().unwrap_or(ContextError::Canceled)),
        }
    }

    /// Calls `f` on a goroutine of its own and waits for what it returns, unless the context is done before.
    /// For everything that blocks and knows nothing of contexts.
    ///
    /// When the context is done first, `f` goes on all the same, and what it returns is dropped. So `f` ought
    /// to look whether the context is done when it has what it waited for, and leave it then.
    ///
    /// Blocks the goroutine (reason `select`), not its thread.
    ///
    /// # Errors
    /// When the context is done before.
    ///
    /// # Panics
    /// With the panic of `f`; on a thread that runs no goroutine.
    ///
    /// # Examples
    /// ```
    /// use std::{sync::Arc, time::Duration};
    /// use gmp_runtime::{context::Context, sync::WaitGroup};
    ///
    /// # let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
    /// // SAFETY: nothing that belongs to a thread lives across a call that may park.
    /// unsafe {
    ///     runtime.run(|| {
    ///         let group = Arc::new(WaitGroup::new());
    ///         group.add(1); // and nobody is ever done
    ///         let (context, _cancel) = Context::background().with_timeout(Duration::from_millis(5));
    ///         assert!(context.run(move || group.wait()).is_err());
    ///     })
    /// };
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn run<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ContextError> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        let (sender, receiver) = channel(1);
        let worker = go(move || {
            // Nobody wants it when the context was done first.
            drop(sender.try_send(f()));
        });
        match self.recv(&receiver) {
            Ok(value) => Ok(value),
            Err(ContextRecvError::Done(error)) => Err(error),
            Err(ContextRecvError::Closed) => match worker.join() {
                Err(payload) => panic::resume_unwind(payload),
                Ok(()) => unreachable!("it has sent its result, or panicked"),
            },
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("error", &self.error())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}

/// Ends a context with everything made from it: when [`cancel`](Cancel::cancel) is called, and at the latest
/// when this is dropped.
#[must_use = "dropping it cancels the context"]
pub struct Cancel {
    end: Arc<End>,
}

impl Cancel {
    /// Ends the context, if it is not done. Does not block, but for others that change the same contexts;
    /// works on any thread.
    pub fn cancel(&self) {
        self.end.end(ContextError::Canceled);
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").finish_non_exhaustive()
    }
}

/// Why [`Context::recv`] received nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextRecvError {
    /// The context is done.
    Done(ContextError),
    /// The channel is closed and empty.
    Closed,
}

impl fmt::Display for ContextRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContextRecvError::Done(error) => error.fmt(f),
            ContextRecvError::Closed => f.write_str("receive from a closed channel"),
        }
    }
}

impl std::error::Error for ContextRecvError {}

/// Why [`Context::send`] sent nothing; here is the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ContextSendError<T> {
    /// The context is done.
    Done(ContextError, T),
    /// The channel is closed.
    Closed(T),
}

impl<T> fmt::Debug for ContextSendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContextSendError::Done(error, _) => write!(f, "Done({error:?}, ..)"),
            ContextSendError::Closed(_) => f.write_str("Closed(..)"),
        }
    }
}

impl<T> fmt::Display for ContextSendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContextSendError::Done(error, _) => error.fmt(f),
            ContextSendError::Closed(_) => f.write_str("send on a closed channel"),
        }
    }
}

impl<T> std::error::Error for ContextSendError<T> {}
