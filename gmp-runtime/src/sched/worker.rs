//! The life of an M: find a goroutine, run it, again; and how Ms are made.

use std::thread;

use crate::prim::atomic::{AtomicU32, Ordering};
use crate::sched::find::{self, Choice};
use crate::sched::m::{M, PostSwitch};
use crate::sched::park;
use crate::sched::refs::{MRef, PRef};
use crate::sched::{Sched, current};
use crate::switch;
use crate::sys::thread::set_timer_slack;
use crate::sys::{futex, signal};

/// Runs goroutines on this thread until the scheduler stops. `m` has a P.
pub(crate) fn run(m: MRef) {
    while let Some(choice) = find::find(&m) {
        find::found_work(&m);
        execute(&m, choice);
    }
    if m.p().is_some() {
        let p = m.release_p();
        m.sched.put_idle_p(p);
    }
}

/// Switches to a goroutine; returns when it, or one that came after it on this M, gives control back.
fn execute(m: &M, choice: Choice) {
    let p = m.held_p();
    m.tracer.start(m, choice.g, choice.found);
    find::start_here(m, &p, choice.g, choice.inherits_slice);
    m.tracer.settle();
    enter(m, choice.g, PostSwitch::Nothing);
}

/// Switches to `g`, which was started here, with `post` as the first thing that it does.
pub(crate) fn enter(m: &M, g: crate::sched::refs::GRef, post: PostSwitch) {
    m.post.set(post);
    // SAFETY: `g` was taken from a queue (or the world has ended), so it is suspended and this M's.
    unsafe { switch::enter(&m.context, &g.context) };
    park::complete_switch(m.reference());
}

/// What the spawner works on.
#[derive(Debug, Default)]
pub(crate) struct SpawnRequests {
    /// Counts requests; the word the spawner sleeps on.
    word: AtomicU32,
}

impl SpawnRequests {
    /// Wakes the spawner: a P waits for a thread, or the scheduler stops.
    pub(crate) fn notify(&self) {
        // ordering: Release; pairs with the Acquire load in `spawner`.
        self.word.fetch_add(1, Ordering::Release);
        futex::wake(&self.word, 1);
    }
}

/// The thread that makes Ms. It has no P, so it may allocate and wait while goroutines run.
pub(crate) fn spawner(sched: &'static Sched) {
    let mut threads = Vec::new();
    loop {
        // ordering: Acquire; pairs with the Release in `notify`.
        let seen = sched.spawn_requests.word.load(Ordering::Acquire);
        while let Some(p) = sched.take_awaiting_p() {
            match start_m(sched, p) {
                Ok(thread) => threads.push(thread),
                Err(error) => give_up(sched, p, &error),
            }
        }
        if sched.stopping() {
            break;
        }
        futex::wait(&sched.spawn_requests.word, seen, None);
    }
    for thread in threads {
        // The loop of an M does not unwind: a panic in it has ended the process.
        let _ = thread.join();
    }
}

/// Makes an M with a thread that begins to spin with `p`.
fn start_m(sched: &'static Sched, p: PRef) -> std::io::Result<thread::JoinHandle<()>> {
    let m = sched.new_m();
    m.spinning.set(true);
    m.set_next_p(p);
    let thread = thread::Builder::new()
        .name(format!("gmp-m{}", m.id))
        .stack_size(M_STACK_SIZE)
        .spawn(move || main(m));
    if thread.is_err() {
        m.spinning.set(false);
    }
    thread
}

/// The stack of an M's thread: the scheduler runs on it, and signal handlers do not.
pub(crate) const M_STACK_SIZE: usize = 256 << 10;

/// A thread could not be made: the P goes back, and the program goes on with the threads that it has.
fn give_up(sched: &'static Sched, p: PRef, error: &std::io::Error) {
    eprintln!(
        "gmp: cannot make a thread for P {}: {error}; going on with {} threads",
        p.id,
        sched.m_count()
    );
    sched.put_idle_p_after_failed_wake(p);
}

/// By how much the kernel may delay the timeouts of an M: the least. Its default of 50 µs would be most of
/// the lateness of a short sleep.
const TIMER_SLACK_NS: u64 = 1;

/// Makes timeouts of this thread exact.
pub(crate) fn refine_timeouts() {
    // Where the kernel refuses, sleeps are late by its default.
    let _ = set_timer_slack(TIMER_SLACK_NS);
}

/// Makes this thread `m` while `f` runs.
pub(crate) fn lend<R>(m: MRef, f: impl FnOnce() -> R) -> R {
    let _alternate_stack = signal::AlternateStack::install();
    current::set_m(Some(m));
    let result = f();
    current::set_m(None);
    result
}

/// The first function of an M's thread.
fn main(m: MRef) {
    let _alternate_stack = signal::AlternateStack::install();
    refine_timeouts();
    current::set_m(Some(m));
    m.tracer.m_begin(&m);
    if let Some(p) = m.sleep(|| m.sched.stopping()) {
        m.acquire_p(p);
        m.tracer.spin_begin(&m);
        run(m);
    }
    m.tracer.m_end(&m);
    current::set_m(None);
}
