//! What can be chosen before a runtime starts.

use std::io;

use crate::debug::config;
use crate::debug::running;
use crate::gc;
use crate::procs;
use crate::runtime::{self, Runtime};
use crate::sched::{Sched, preempt};
use crate::stack;
use crate::sys::thread::call_in_children;
use crate::sys::{memory_barrier, signal};

/// Address space of a goroutine's stack, unless the program says otherwise. Only what is touched costs
/// memory.
const DEFAULT_STACK_SIZE: usize = 256 << 10;

/// The names in `GMPDEBUG` that have an effect in this version.
const SUPPORTED: &[&str] = if cfg!(feature = "trace") {
    &[
        "asyncpreemptoff",
        "gctrace",
        "schedtrace",
        "scheddetail",
        "trace",
    ]
} else {
    &["asyncpreemptoff", "gctrace", "schedtrace", "scheddetail"]
};

/// Builds a [`Runtime`].
///
/// # Examples
/// ```
/// let runtime = gmp_runtime::Runtime::builder().procs(2).stack_size(64 << 10).build()?;
/// # drop(runtime);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Builder {
    procs: Option<usize>,
    stack_size: usize,
    threads_wake: bool,
    signal: i32,
    offer: procs::Offer,
}

impl Builder {
    /// The defaults: as many Ps as `GMPMAXPROCS` says, else as the machine has processors for this
    /// process, but no more than its control group gives it time for, and when that changes another number of them
    /// ([`gomaxprocs`](crate::gomaxprocs)); stacks of 256 KiB.
    pub fn new() -> Builder {
        Builder {
            procs: None,
            stack_size: DEFAULT_STACK_SIZE,
            threads_wake: true,
            signal: signal::PREEMPTION,
            offer: procs::Offer::default(),
        }
    }

    /// How many Ps there are: how many goroutines run at the same time. `GMPMAXPROCS` does not change
    /// a number that is given here.
    pub fn procs(mut self, procs: usize) -> Builder {
        self.procs = Some(procs);
        self
    }

    /// Bytes of address space of each goroutine's stack, its guard included; rounded up to 64 KiB
    /// times a power of two. Memory is used page by page, as a stack is touched.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = bytes;
        self
    }

    /// Whether threads of the program that run no goroutines may wake goroutines: send to a channel, unpark.
    /// The default is yes. Then a deadlock (every goroutine waits, and no timer will wake one) is reported
    /// only while no such thread lives; with `false` it is always.
    ///
    /// The report lists every goroutine with what it waits for, and ends the process with exit code 2.
    pub fn threads_wake_goroutines(mut self, may: bool) -> Builder {
        self.threads_wake = may;
        self
    }

    /// What the system offers is looked up by a test.
    #[cfg(test)]
    pub(crate) fn offer(mut self, offer: procs::Offer) -> Builder {
        self.offer = offer;
        self
    }

    /// The signal that asks a thread to let go of the goroutine that it runs: SIGURG unless told, as in Go. A
    /// handler that the program has for it when the runtime is built goes on being called for every other signal
    /// of this number; one that comes later must not replace the runtime's. With `GMPDEBUG=asyncpreemptoff=1` none is
    /// sent: goroutines are preempted in calls of the runtime that may move them to another thread, and only there.
    pub fn preemption_signal(mut self, number: i32) -> Builder {
        self.signal = number;
        self
    }

    /// A runtime that can [`run`](Runtime::run). Reads `GMPDEBUG`, `GMPGC` and `GMPMAXPROCS`; what it does not
    /// understand there it says on standard error.
    ///
    /// # Errors
    /// `InvalidInput` for no P, more than 4096 Ps, a stack above 8 MiB, or a signal that has another use; the kernel's
    /// error when it gives no address space.
    pub fn build(self) -> io::Result<Runtime> {
        let (config, warnings) = config::from_environment(SUPPORTED);
        for warning in warnings {
            eprintln!("gmp: {warning}");
        }
        let (goal, warning) = gc::from_environment();
        if let Some(warning) = warning {
            eprintln!("gmp: {warning}");
        }
        let mut follows = None;
        let procs = self.procs.unwrap_or_else(|| {
            let initial = procs::initial_count(&self.offer);
            if let Some(warning) = initial.warning {
                eprintln!("gmp: {warning}");
            }
            follows = (!initial.is_wish).then_some(self.offer);
            initial.count
        });
        if !(1..=procs::MAX_PROCS).contains(&procs) {
            return Err(invalid(format!(
                "{procs} Ps: 1 to {} are possible",
                procs::MAX_PROCS
            )));
        }
        if !signal::can_preempt(self.signal) {
            return Err(invalid(format!(
                "signal {}: a number from 1 to 64 is possible that the system has no use for",
                self.signal
            )));
        }
        let class = stack_class(self.stack_size)?;
        runtime::report_overflows()?;
        let mut sched = Sched::new(procs, class)?;
        sched.threads_wake = self.threads_wake;
        sched.signals = !config.asyncpreemptoff;
        if sched.signals {
            sched.signal = self.signal;
            preempt::install(self.signal)?;
            sched.finds_calls = memory_barrier::register().is_ok();
        }
        call_in_children(running::after_fork)?;
        sched.collection.goal = goal;
        sched.collection.prints = config.gctrace;
        Ok(Runtime::with(sched, config, follows))
    }
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

/// The size class of stacks of `bytes`.
pub(crate) fn stack_class(bytes: usize) -> io::Result<u8> {
    stack::class_for(bytes).ok_or_else(|| {
        let most = stack::LARGEST >> 20;
        invalid(format!("a stack of {bytes} bytes: {most} MiB are possible"))
    })
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
