//! The runtimes of the process that run, for whoever wants to see all goroutines; and SIGQUIT.
//!
//! The handler of the signal only wakes a thread that is there for it: names for frames cannot be found in a
//! handler. The thread comes and goes, with the handler, with the first runtime that runs and the last one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::debug::dump::{Frames, Snapshot};
use crate::debug::stop;
use crate::fatal::{report, report_by};
use crate::prim::process_wide::{AtomicU32, Ordering};
use crate::sched::{Sched, Visit};
use crate::sched::{current, implicit};
use crate::sys::thread::{CountedThread, exit_now};
use crate::sys::{futex, signal};

/// The exit code after SIGQUIT, as in Go.
const EXIT_CODE: i32 = 2;

static RUNNING: Mutex<Vec<&'static Sched>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<&'static Sched>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called in a child that `fork` made.
pub(crate) fn after_fork() {
    // Another thread may have had it locked, and is not here to unlock it.
    if let Ok(running) = RUNNING.try_lock() {
        running.iter().for_each(|sched| sched.after_fork());
    }
    // This one runs, whoever else does.
    if let Some(m) = current::thread_m() {
        m.sched.after_fork();
        implicit::after_fork(&m);
    }
}

/// A runtime runs while this lives.
#[derive(Debug)]
pub(crate) struct Running(&'static Sched);

impl Running {
    /// `sched` runs.
    pub(crate) fn begin(sched: &'static Sched) -> Running {
        let mut watcher = watcher();
        if watcher.is_none() {
            *watcher = start_watcher();
        }
        // Last: who finds it here may stop its world.
        running().push(sched);
        Running(sched)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut watcher = watcher();
        let is_last = {
            let mut running = running();
            running.retain(|other| !std::ptr::eq(*other, self.0));
            running.is_empty()
        };
        if is_last && let Some(thread) = watcher.take() {
            signal::stop_waking_on_quit();
            // ordering: Release; pairs with the Acquire in `watch`.
            REQUESTS.fetch_or(STOP, Ordering::Release);
            futex::wake_process_wide(&REQUESTS);
            // A panic in it has printed its message.
            let _ = thread.join();
            // ordering: Relaxed: nobody else uses the word.
            REQUESTS.store(0, Ordering::Relaxed);
        }
    }
}

/// The runtimes that run, each kept while its visit lives.
pub(super) fn visit_all() -> Vec<(&'static Sched, Visit)> {
    running()
        .iter()
        .map(|sched| (*sched, Visit::new(sched)))
        .collect()
}

/// Every goroutine of the process, or of the caller's runtime, if it is one, at one moment if that can be had.
#[derive(Debug)]
struct Goroutines {
    frames: Frames,
    /// Of each runtime.
    snapshots: Vec<Snapshot>,
}

impl Goroutines {
    fn of(all: &[(&'static Sched, Visit)]) -> Goroutines {
        let me = current::goroutine();
        let is_seen = |sched: &Sched| me.is_none_or(|me| std::ptr::eq(me.sched, sched));
        let scheds = || {
            all.iter()
                .map(|(sched, _)| *sched)
                .filter(|sched| is_seen(sched))
        };
        let mut goroutines = Goroutines {
            frames: Frames::new(),
            snapshots: scheds().map(Snapshot::with_room_for).collect(),
        };
        // Where it cannot be had they are shown as they were at different moments.
        let stopped = stop::begin_within("dump", PATIENCE);
        for (sched, snapshot) in scheds().zip(&mut goroutines.snapshots) {
            snapshot.take(sched, me, &mut goroutines.frames);
        }
        drop(stopped);
        goroutines
    }
}

/// How long a dump waits for the world to stand still.
const PATIENCE: Duration = Duration::from_millis(100);

/// Every goroutine of the process as text: see [`debug::dump`](crate::debug::dump()).
pub(super) fn dump() -> String {
    let mut goroutines = Goroutines::of(&visit_all());
    let mut text = String::new();
    for (index, snapshot) in goroutines.snapshots.iter().enumerate() {
        if index != 0 {
            text.push('\n');
        }
        // Writing to a string does not fail.
        let _ = snapshot.write(&mut goroutines.frames, &mut text);
    }
    text
}

/// What the watcher is to do; the word that it sleeps on.
static REQUESTS: AtomicU32 = AtomicU32::new(0);
/// SIGQUIT came.
const QUIT: u32 = 1;
/// The last runtime has ended.
const STOP: u32 = 2;

/// The thread that answers SIGQUIT, while a runtime runs. Locked before [`RUNNING`].
fn watcher() -> MutexGuard<'static, Option<CountedThread>> {
    static WATCHER: Mutex<Option<CountedThread>> = Mutex::new(None);
    WATCHER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on SIGQUIT is answered, unless the program has a handler of its own or ignores it. Without the
/// thread or the handler the signal does what it does by default.
fn start_watcher() -> Option<CountedThread> {
    let thread = CountedThread::spawn("gmp-sigquit", watch).ok()?;
    let _ = signal::wake_on_quit(&REQUESTS, QUIT);
    Some(thread)
}

/// The watcher.
fn watch() {
    loop {
        // ordering: Acquire; pairs with the Release in the handler and in the drop of `Running`.
        match REQUESTS.load(Ordering::Acquire) {
            0 => futex::wait_process_wide(&REQUESTS, 0),
            requests if requests & QUIT != 0 => return answer_quit(),
            _ => return,
        }
    }
}

/// Prints all goroutines and ends the process.
fn answer_quit() {
    let all = visit_all();
    if all.is_empty() {
        // The handler is gone with the first signal: this one ends the process as if we had not been there.
        return signal::raise_quit();
    }
    report(format_args!("SIGQUIT: quit\n\n"));
    let mut goroutines = Goroutines::of(&all);
    for snapshot in &goroutines.snapshots {
        report_by(|out| snapshot.write(&mut goroutines.frames, out));
    }
    exit_now(EXIT_CODE)
}
