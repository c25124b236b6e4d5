//! A runtime: from the thread that starts it to the goroutine that is its main.

use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe, Location};
use std::thread;

use crate::builder::Builder;
use crate::counts;
use crate::debug::config::Config;
use crate::debug::dump;
use crate::debug::running::Running;
use crate::fatal::fatal;
use crate::gc;
use crate::procs::Offer;
use crate::sched::g::transition;
use crate::sched::m::M;
use crate::sched::refs::{GRef, MRef};
use crate::sched::{Sched, current, life, shutdown, sysmon, timers, worker};
use crate::stack::guard;
use crate::sys::signal::{AlternateStack, Unblocked};

/// A scheduler that has not started yet.
pub struct Runtime {
    sched: Box<Sched>,
    config: Config,
    /// What the number of Ps follows.
    follows: Option<Offer>,
}

impl Runtime {
    /// What can be chosen before a runtime starts.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A runtime with the defaults of [`Builder`].
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new() -> io::Result<Runtime> {
        Builder::new().build()
    }

    pub(crate) fn with(sched: Sched, config: Config, follows: Option<Offer>) -> Runtime {
        Runtime {
            sched: Box::new(sched),
            config,
            follows,
        }
    }

    /// Runs `f` as the main goroutine, and the goroutines that it makes; returns its result as soon as
    /// it returns.
    ///
    /// The calling thread becomes M0 and runs goroutines; other threads are made when they are needed.
    /// When `f` has returned, goroutines that are still there are ended: those that wait are unwound,
    /// so that their destructors run, and those that run are waited for until they next call into the
    /// runtime. Who is waited for longer than a second is named on standard error, and so is who cannot be
    /// ended: a goroutine that waits while it unwinds or again after it has, one with code on its stack that
    /// nothing may unwind through (C that called back, `extern "C"`), and every one in a program that is built
    /// with `panic = "abort"`. Such a one stays where it is, with its memory. (A Go program would end at
    /// once; here the caller goes on, and a goroutine that was left in the middle might hold a lock that the
    /// caller needs.)
    ///
    /// Blocks the calling thread.
    ///
    /// # Safety
    /// This is where the program accepts the *contract of migration*, for itself and for all code that
    /// its goroutines call. A goroutine may go on on another thread after any call that may park:
    /// everything in this crate that says it blocks the goroutine, and [`yield_now`](crate::yield_now).
    /// So **nothing that belongs to one thread may live across such a call**: no reference into a
    /// `thread_local!`, no guard that must be released by the thread that took it (a
    /// `std::sync::MutexGuard`, a `StdoutLock`, a `RefMut` of a thread-local), no value that is not
    /// `Send` and was obtained from a thread-local (an `Rc` of one). The compiler does not see this.
    /// What breaks it is undefined behaviour.
    ///
    /// # Panics
    /// With the panic of `f`. On a goroutine, or while another runtime runs on this thread.
    ///
    /// # Examples
    /// ```
    /// let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
    /// // SAFETY: nothing that belongs to a thread lives across a call that may park.
    /// let answer = unsafe { runtime.run(|| gmp_runtime::go(|| 42).join().unwrap()) };
    /// assert_eq!(answer, 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub unsafe fn run<F, T>(self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        assert!(
            current::goroutine().is_none() && current::thread_m().is_none(),
            "a runtime cannot be started by a goroutine"
        );
        let site = Location::caller();
        let sched: &'static Sched = Box::leak(self.sched);
        let mut result = None;
        let main = || {
            result = Some(panic::catch_unwind(AssertUnwindSafe(f)));
            shutdown::begin(sched);
        };
        let alternate_stack = AlternateStack::install();
        let _unblocked = Unblocked::new(sched.signal);
        if let Some(path) = &self.config.trace {
            crate::trace::start_for_environment(sched, path);
        }
        let m0 = start(sched, &alternate_stack);
        // SAFETY: `main` borrows from this frame, which stays until the scheduler has ended; a
        // goroutine that could not be ended never runs again.
        unsafe { make_main(&m0, main, site) };
        let helpers = start_helpers(sched, &self.config, self.follows);
        // From here on its world may be stopped, and M0, which has a P, must not wait for memory.
        let running = Running::begin(sched);
        worker::run(m0);
        drop(running);
        // The spawner, which waits for the threads of Ms, comes before the monitor, which waits for them, too.
        for helper in helpers {
            // A panic in one of them has printed its message.
            let _ = helper.join();
            sched.sysmon.end();
        }
        end(sched, m0);
        match result {
            Some(Ok(value)) => value,
            Some(Err(payload)) => panic::resume_unwind(payload),
            None => fatal!("the scheduler ended before its main goroutine"),
        }
    }
}

/// Makes the calling thread M0 with the first P.
fn start(sched: &'static Sched, alternate_stack: &io::Result<AlternateStack>) -> MRef {
    worker::refine_timeouts();
    sched.make_procs_idle();
    let m0 = sched.new_m();
    worker::note_thread(&m0, alternate_stack);
    current::set_m(Some(m0));
    m0.tracer.m_begin(&m0);
    let Some(p) = sched.take_idle_p() else {
        fatal!("a scheduler without a P")
    };
    m0.acquire_p(p);
    m0
}

/// Puts the main goroutine on the global queue.
///
/// # Safety
/// What `main` borrows outlives the scheduler.
unsafe fn make_main<F: FnOnce() + Send>(m0: &M, main: F, site: &'static Location<'static>) {
    let sched = m0.sched;
    let Some(g) = sched.take_free_from_outside() else {
        fatal!("no memory for a goroutine")
    };
    let (first, _) = sched.goroutine_ids();
    g.id.set(first);
    // SAFETY: the goroutine is fresh; the caller's contract for the rest.
    unsafe { life::prepare(g, life::Packed::new(main), 0, site) };
    life::detach(g);
    m0.tracer.create(m0, g);
    transition!(g, Idle => Runnable);
    sched.put_global(g);
}

/// Starts the threads that are no Ms.
fn start_helpers(
    sched: &'static Sched,
    config: &Config,
    follows: Option<Offer>,
) -> Vec<thread::JoinHandle<()>> {
    let mut helpers = Vec::new();
    match sched.spawn_helper("gmp-spawner", move || worker::spawner(sched)) {
        Ok(thread) => helpers.push(thread),
        Err(error) => fatal!("no thread for the spawner: {error}"),
    }
    let (schedtrace_ms, detail) = (config.schedtrace_ms, config.scheddetail);
    match sched.spawn_helper("gmp-sysmon", move || {
        sysmon::run(sched, schedtrace_ms, detail)
    }) {
        Ok(thread) => helpers.push(thread),
        Err(error) => fatal!("no thread for sysmon: {error}"),
    }
    match sched.spawn_helper("gmp-gc", move || gc::run(sched)) {
        Ok(thread) => helpers.push(thread),
        Err(error) => fatal!("no thread for collection cycles: {error}"),
    }
    if let Some(offer) = follows {
        sched.follow.begin();
        match sched.spawn_helper("gmp-procs", move || counts::follow(sched, &offer)) {
            Ok(thread) => helpers.push(thread),
            Err(error) => fatal!("no thread for the number of Ps: {error}"),
        }
    }
    helpers
}

/// Ends what is left, on M0, when all other threads have ended.
fn end(sched: &'static Sched, m0: MRef) {
    // Any P: one that was given to an M as the end began is on no list.
    m0.acquire_p(sched.take_idle_p().unwrap_or_else(|| sched.proc_at(0)));
    let left = finish(m0);
    m0.release_p();
    timers::abandon_all(sched);
    m0.tracer.m_end(&m0);
    current::set_m(None);
    crate::trace::end(sched);
    sched.flush_stacks();
    if left == 0 && !shutdown::is_reachable(sched) {
        sched.wait_for_visitors();
        // SAFETY: it came from a box; its threads have ended, and nobody outside holds a reference.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(sched).cast_mut()) });
    }
}

/// Ends the goroutines that are left; how many could not be ended.
///
/// On a thread of its own: one that waits while it unwinds leaves that thread counted as panicking for
/// good, and the caller's thread goes on.
fn finish(m0: MRef) -> usize {
    if !shutdown::must_unwind(m0.sched) {
        return shutdown::finish(&m0);
    }
    current::set_m(None);
    let on_its_own = thread::Builder::new()
        .name("gmp-end".into())
        .stack_size(worker::M_STACK_SIZE)
        .spawn(move || worker::lend(m0, || shutdown::finish(&m0)));
    let ended = on_its_own.map(thread::JoinHandle::join);
    current::set_m(Some(m0));
    match ended {
        Ok(Ok(left)) => left,
        Ok(Err(_)) => fatal!("ending goroutines panicked"),
        Err(_) => shutdown::finish(&m0),
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("procs", &self.sched.procs.wanted())
            .finish_non_exhaustive()
    }
}

/// Makes overflows of goroutine stacks be reported. Once per process is enough.
pub(crate) fn report_overflows() -> io::Result<()> {
    guard::report_overflows(&guard::Teller {
        describe: |slot| {
            let g = goroutine_of(slot);
            guard::GoroutineFacts {
                id: g.id.get(),
                created_at: g.created_at.get(),
                created_by: Some(g.creator.get()).filter(|&id| id != 0),
            }
        },
        print_all: |slot| {
            let g = goroutine_of(slot);
            dump::print_without_frames(g.sched, g);
        },
    })
}

/// The goroutine that runs on a stack, by the stack's slot.
fn goroutine_of(slot: *mut ()) -> GRef {
    match GRef::from_ptr(slot.cast()) {
        Some(g) => g,
        None => fatal!("a stack without a goroutine"),
    }
}
