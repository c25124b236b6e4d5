//! A select whose number of cases is known at run time.

use std::fmt;
use std::time::Duration;

use super::any::{Until, run};
use super::case::{Case, ReceiveCase, SendCase};
use crate::chan::{Receiver, RecvError, SendError, Sender};

/// One of several channel operations, as many as there are: what [`select!`](crate::select!) is for a
/// number that is known when the program is written.
///
/// Each case has a closure that is called with what came of it, if it is the one that was done. Cases are
/// allocated.
///
/// # Examples
/// ```
/// # let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         let channels: Vec<_> = (0..10).map(|_| gmp_runtime::channel::<u32>(1)).collect();
///         channels[7].0.send(42).unwrap();
///         let mut select = gmp_runtime::Select::new();
///         for (index, (_, receiver)) in channels.iter().enumerate() {
///             select.recv(receiver, move |value| (index, value));
///         }
///         assert_eq!(select.wait(), (7, Ok(42)));
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Select<'a, R> {
    cases: Vec<Box<dyn Handled<R> + 'a>>,
}

/// A case with its closure.
trait Handled<R> {
    fn case(&mut self) -> &mut dyn Case;
    fn finish(self: Box<Self>) -> R;
}

struct Receiving<'a, T: Send, F> {
    case: ReceiveCase<'a, T>,
    then: F,
}

impl<T: Send, R, F: FnOnce(Result<T, RecvError>) -> R> Handled<R> for Receiving<'_, T, F> {
    fn case(&mut self) -> &mut dyn Case {
        &mut self.case
    }

    fn finish(self: Box<Self>) -> R {
        (self.then)(self.case.finish())
    }
}

struct Sending<'a, T: Send, F> {
    case: SendCase<'a, T>,
    then: F,
}

impl<T: Send, R, F: FnOnce(Result<(), SendError<T>>) -> R> Handled<R> for Sending<'_, T, F> {
    fn case(&mut self) -> &mut dyn Case {
        &mut self.case
    }

    fn finish(self: Box<Self>) -> R {
        (self.then)(self.case.finish())
    }
}

impl<'a, R> Select<'a, R> {
    /// A select without cases, which waits for ever.
    pub fn new() -> Select<'a, R> {
        Select { cases: Vec::new() }
    }

    /// Adds the case of receiving from `receiver`.
    pub fn recv<T: Send>(
        &mut self,
        receiver: &'a Receiver<T>,
        then: impl FnOnce(Result<T, RecvError>) -> R + 'a,
    ) -> &mut Self {
        let case = ReceiveCase::new(receiver);
        self.cases.push(Box::new(Receiving { case, then }));
        self
    }

    /// Adds the case of sending `value` to `sender`. It is dropped if another case is done.
    pub fn send<T: Send + 'a>(
        &mut self,
        sender: &'a Sender<T>,
        value: T,
        then: impl FnOnce(Result<(), SendError<T>>) -> R + 'a,
    ) -> &mut Self {
        let case = SendCase::new(sender, value);
        self.cases.push(Box::new(Sending { case, then }));
        self
    }

    /// Waits until one of the cases is possible, and does it. Where several are, a random one.
    ///
    /// Blocks the goroutine (reason `select`), not its thread.
    ///
    /// # Panics
    /// If it would have to wait on a thread that runs no goroutine.
    #[track_caller]
    pub fn wait(self) -> R {
        match self.run(Until::Done) {
            Some(result) => result,
            None => unreachable!("a select without a deadline ends with a case"),
        }
    }

    /// As [`Select::wait`], for at most `timeout`; `None` when the time is over.
    ///
    /// # Panics
    /// As [`Select::wait`].
    #[track_caller]
    pub fn wait_timeout(self, timeout: Duration) -> Option<R> {
        self.run(Until::Timeout(timeout))
    }

    /// Does one of the cases if one is possible now. Does not block; works on any thread.
    #[track_caller]
    pub fn try_now(self) -> Option<R> {
        self.run(Until::Now)
    }

    #[track_caller]
    fn run(mut self, until: Until) -> Option<R> {
        let index = {
            let mut cases: Vec<&mut dyn Case> = self
                .cases
                .iter_mut()
                .map(|handled| handled.case())
                .collect();
            run(&mut cases, until)?
        };
        Some(self.cases.swap_remove(index).finish())
    }
}

impl<R> Default for Select<'_, R> {
    fn default() -> Self {
        Select::new()
    }
}

impl<R> fmt::Debug for Select<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select")
            .field("cases", &self.cases.len())
            .finish_non_exhaustive()
    }
}
