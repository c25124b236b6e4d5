//! Calls that happen at the end of a scope, and ending a goroutine early.

use std::fmt;
use std::panic;

use crate::sched::current::this_goroutine;
use crate::sched::life::Goexit;

/// Ends the calling goroutine: it unwinds, so that destructors and [deferred](macro@crate::defer) calls run, and
/// nothing is reported (Go's `runtime.Goexit`). Its [`JoinHandle`](crate::JoinHandle) gives an error whose
/// payload is no text.
///
/// Ending the main goroutine so ends the program's other goroutines as a return would, and
/// [`Runtime::run`](crate::Runtime::run) panics, since there is no result.
///
/// # Panics
/// On a thread that runs no goroutine.
pub fn goexit() -> ! {
    this_goroutine();
    panic::resume_unwind(Box::new(Goexit))
}

/// Makes a call at the end of the scope, whether it is left by its end, by `return`, by a panic or by
/// [`goexit`]. Of several the last one comes first.
///
/// # Examples
/// ```
/// let order = std::cell::RefCell::new(Vec::new());
/// {
///     gmp_runtime::defer! { order.borrow_mut().push("first deferred") };
///     gmp_runtime::defer! { order.borrow_mut().push("last deferred") };
///     order.borrow_mut().push("body");
/// }
/// assert_eq!(order.into_inner(), ["body", "last deferred", "first deferred"]);
/// ```
#[macro_export]
macro_rules! defer {
    ($($body:tt)*) => {
        let _deferred = $crate::Deferred::new(|| {
            $($body)*
        });
    };
}

/// A call that is made when this is dropped: what [`defer!`](crate::defer!) makes.
pub struct Deferred<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Deferred<F> {
    /// Calls `f` when it is dropped.
    pub fn new(f: F) -> Deferred<F> {
        Deferred(Some(f))
    }
}

impl<F: FnOnce()> Drop for Deferred<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

impl<F: FnOnce()> fmt::Debug for Deferred<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred").finish_non_exhaustive()
    }
}
