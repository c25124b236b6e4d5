//! The life of an M: find a goroutine, run it, again; and how Ms are made.

use std::thread;

use crate::fatal::fatal;
use crate::prim::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sched::find::{self, Choice};
use crate::sched::locked;
use crate::sched::m::{M, PostSwitch};
use crate::sched::park;
use crate::sched::refs::{MRef, PRef};
use crate::sched::{Sched, current, deadlock};
use crate::switch;
use crate::sys::thread::{gettid, set_timer_slack};
use crate::sys::{futex, signal};

/// Runs goroutines on this thread until the scheduler stops.
pub(crate) fn run(m: MRef) {
    while let Some(choice) = find::find(&m) {
        find::found_work(&m);
        execute(&m, choice);
        if m.must_end.get() {
            locked::wait_for_the_end(&m);
            break;
        }
    }
    if m.p().is_some() {
        let p = m.release_p();
        let frozen = m.sched.leave(&mut m.sched.shared.lock(), p);
        if let Some(other) = frozen {
            other.wake_with(p);
        }
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

/// Spare Ms to begin with.
const FIRST_SPARES: u32 = 2;

/// Spare Ms at most: so many more hand-offs can come at once than the spawner has been able to answer.
const MOST_SPARES: u32 = 16;

/// Threads that a scheduler may have, unless the program says otherwise (Go's `maxmcount`).
const MOST_THREADS: u32 = 10_000;

/// What the spawner works on, and how many Ms it keeps ready.
///
/// A *spare* is an M that has gone idle before it ever ran a goroutine: it is on the list of idle Ms like
/// any other, and counts as one. The spawner makes some ahead, because a P that is handed on while every
/// processor is busy would wait long for a thread: so many, that is, as have been missing.
#[derive(Debug)]
pub(crate) struct Spawner {
    /// Counts requests; the word the spawner sleeps on.
    word: AtomicU32,
    /// How many Ms are to be idle, so that a P can be handed on at once.
    spares: AtomicU32,
    /// Spares that were made and have not gone idle yet.
    starting: AtomicU32,
    /// More Ms than this end the process.
    most_threads: AtomicU32,
    /// Whether the last thread that was needed could not be made.
    short: AtomicBool,
}

impl Spawner {
    pub(crate) fn new() -> Spawner {
        Spawner {
            word: AtomicU32::new(0),
            spares: AtomicU32::new(FIRST_SPARES),
            starting: AtomicU32::new(0),
            most_threads: AtomicU32::new(MOST_THREADS),
            short: AtomicBool::new(false),
        }
    }

    /// Wakes the spawner: a P waits for a thread, spares are missing, or the scheduler stops.
    /// Async-signal-safe.
    pub(crate) fn notify(&self) {
        // ordering: Release; pairs with the Acquire load in `spawner`.
        self.word.fetch_add(1, Ordering::Release);
        futex::wake(&self.word, 1);
    }

    /// A P was handed to an idle M, and `left` are idle still.
    pub(crate) fn spare_was_used(&self, left: u32) {
        if left < self.wanted() / 2 {
            self.notify();
        }
    }

    /// A P was handed on and no M was idle: more are to be ready from now on. Whoever calls it notifies the
    /// spawner.
    pub(crate) fn spare_was_missing(&self) {
        let more = (self.wanted() * 2).min(MOST_SPARES);
        // ordering: Relaxed: a hint; two that come at once ask for the same.
        self.spares.store(more, Ordering::Relaxed);
    }

    /// A spare has gone idle, or found a P. The spawner may have left a P to it: see [`a_spare_will_do`].
    pub(crate) fn spare_is_ready(&self) {
        // ordering: Relaxed: a count; `notify` says that it has changed.
        self.starting.fetch_sub(1, Ordering::Relaxed);
        self.notify();
    }

    pub(crate) fn wanted(&self) -> u32 {
        // ordering: Relaxed: a hint.
        self.spares.load(Ordering::Relaxed)
    }

    /// Whether threads are needed that cannot be made.
    pub(crate) fn is_short(&self) -> bool {
        // ordering: Relaxed: a hint; whoever sets it wakes those that must look.
        self.short.load(Ordering::Relaxed)
    }

    fn most_threads(&self) -> u32 {
        // ordering: Relaxed: looked at before each thread.
        self.most_threads.load(Ordering::Relaxed)
    }

    /// Sets how many threads there may be; how many there might be before.
    pub(crate) fn set_most_threads(&self, most: u32) -> u32 {
        // ordering: Relaxed, as in `most_threads`.
        self.most_threads.swap(most, Ordering::Relaxed)
    }

    fn set_short(&self, short: bool) {
        // ordering: Relaxed, as in `is_short`.
        self.short.store(short, Ordering::Relaxed);
    }
}

/// The thread that makes Ms. It has no P, so it may allocate and wait while goroutines run.
pub(crate) fn spawner(sched: &'static Sched) {
    let mut threads: Vec<thread::JoinHandle<()>> = Vec::new();
    let mut told = false;
    loop {
        // ordering: Acquire; pairs with the Release in `notify`.
        let seen = sched.spawner.word.load(Ordering::Acquire);
        while !a_spare_will_do(sched)
            && let Some(p) = sched.take_awaiting_p()
        {
            check_limit(sched);
            match start_m(sched, Some(p)) {
                Ok(thread) => {
                    sched.spawner.set_short(false);
                    threads.push(thread);
                }
                Err(error) => give_up(sched, p, &error, &mut told),
            }
        }
        if sched.stopping() {
            break;
        }
        while spares_are_missing(sched)
            && let Ok(thread) = start_m(sched, None)
        {
            threads.push(thread);
        }
        futex::wait(&sched.spawner.word, seen, None);
        // The loop of an M does not unwind: a panic in it has ended the process.
        for ended in threads.extract_if(.., |thread| thread.is_finished()) {
            let _ = ended.join();
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// Whether there are as many threads as there may be, and some of them are spares that have not gone idle yet: a
/// P that waits is left to those, which look for one first, and tell the spawner when they have.
fn a_spare_will_do(sched: &Sched) -> bool {
    // ordering: Relaxed: who lowers it notifies the spawner, which asks again.
    is_at_limit(sched) && sched.spawner.starting.load(Ordering::Relaxed) > 0
}

fn is_at_limit(sched: &Sched) -> bool {
    sched.m_count() >= sched.spawner.most_threads() as usize
}

/// Ends the process if it has as many threads as it may have, and needs one more.
fn check_limit(sched: &Sched) {
    let most = sched.spawner.most_threads();
    if is_at_limit(sched) {
        fatal!(
            "thread exhaustion: more than {most} threads are needed, because so many goroutines block theirs; \
             limit how many do at once, or allow more by `set_max_threads`"
        );
    }
}

/// Whether a spare is to be made. Spares are no need: while a thread that is needed cannot be made, none are.
fn spares_are_missing(sched: &Sched) -> bool {
    let spawner = &sched.spawner;
    // ordering: Relaxed: only the spawner adds to it, and asks.
    let starting = spawner.starting.load(Ordering::Relaxed);
    !sched.stopping()
        && !spawner.is_short()
        && !is_at_limit(sched)
        && sched.idle_m_count() + starting < spawner.wanted()
}

/// Makes an M with a thread that begins with `p`, or goes idle.
fn start_m(sched: &'static Sched, p: Option<PRef>) -> std::io::Result<thread::JoinHandle<()>> {
    let m = sched.new_m();
    match p {
        Some(p) => {
            m.spinning.set(p.awaits_spinning.get());
            m.set_next_p(p);
        }
        // ordering: Relaxed: see `spares_are_missing`; the M counts itself as idle first.
        None => _ = sched.spawner.starting.fetch_add(1, Ordering::Relaxed),
    }
    let is_spare = p.is_none();
    let thread = thread::Builder::new()
        .name(format!("gmp-m{}", m.id))
        .stack_size(M_STACK_SIZE)
        .spawn(move || main(m, is_spare));
    if thread.is_err() {
        if is_spare {
            // ordering: Relaxed, as above.
            sched.spawner.starting.fetch_sub(1, Ordering::Relaxed);
        }
        sched.forget_last_m();
    }
    thread
}

/// The stack of an M's thread: the scheduler runs on it, and signal handlers do not.
pub(crate) const M_STACK_SIZE: usize = 256 << 10;

/// A thread could not be made: the P goes back, and the program goes on with the threads that it has. What
/// waits for the P is taken by an M that runs, or by the timekeeper, which is woken; and the monitor tries
/// again.
fn give_up(sched: &'static Sched, p: PRef, error: &std::io::Error, told: &mut bool) {
    sched.spawner.set_short(true);
    if !std::mem::replace(told, true) {
        eprintln!(
            "gmp: cannot make a thread for P {}: {error}; going on with {} threads",
            p.id,
            sched.m_count()
        );
    }
    sched.take_back(p);
    sched.netpoll.interrupt();
    deadlock::check_if_asleep(sched);
}

/// By how much the kernel may delay the timeouts of an M: the least. Its default of 50 µs would be most of
/// the lateness of a short sleep.
const TIMER_SLACK_NS: u64 = 1;

/// Makes timeouts of this thread exact.
pub(crate) fn refine_timeouts() {
    // Where the kernel refuses, sleeps are late by its default.
    let _ = set_timer_slack(TIMER_SLACK_NS);
}

/// Notes which thread is `m`, so that it can be signalled: only where its handlers have a stack of their own.
pub(crate) fn note_thread(m: &M, alternate_stack: &std::io::Result<signal::AlternateStack>) {
    if alternate_stack.is_ok() {
        // ordering: Relaxed: before it has a P.
        m.thread.store(gettid(), Ordering::Relaxed);
    }
}

/// Makes this thread `m` while `f` runs.
pub(crate) fn lend<R>(m: MRef, f: impl FnOnce() -> R) -> R {
    let _alternate_stack = signal::AlternateStack::install();
    current::set_m(Some(m));
    let result = f();
    current::set_m(None);
    result
}

/// The first function of an M's thread. A spare has no P yet.
fn main(m: MRef, is_spare: bool) {
    let alternate_stack = signal::AlternateStack::install();
    let _unblocked = signal::Unblocked::new(m.sched.signal);
    note_thread(&m, &alternate_stack);
    refine_timeouts();
    current::set_m(Some(m));
    m.tracer.m_begin(&m);
    let has_p = if is_spare {
        find::sleep_as_spare(&m)
    } else {
        find::take_given_p(&m)
    };
    if has_p {
        run(m);
    }
    m.tracer.m_end(&m);
    current::set_m(None);
    if m.must_end.get() {
        // The last thing: from here on it counts as a thread of somebody else until it is gone.
        m.sched.helper_ends();
    }
}
