//! Stopping the world: every P stands still until whoever stopped it lets it go on.
//!
//! # Protocol
//!
//! 1. One stop at a time: the caller sees to that. It may be a goroutine of the scheduler, or any other thread.
//! 2. It makes [`World::word`] odd, under the scheduler's lock: the world *is to stop*. From then on nobody takes a
//!    P from the idle list, or one that waits for an M: those stand still where they are. The monitor takes none out of
//!    calls. Whoever stops the world does, of announced ones, and makes them idle. It asks every goroutine that runs
//!    for its P, as the monitor does ([`preempt::ask_to_stop`]), and every M to look at the scheduler before it runs
//!    the next goroutine.
//! 3. An M that has a P comes to its *safe point* ([`stop_here`]): in the scheduler, before it looks for a goroutine
//!    and before it runs one; at the end of a goroutine's section; or in the signal's handler, anywhere in the
//!    program's code. It says at the safe point of which stop it is ([`M::safe_point`]), keeps its P, and sleeps there
//!    until the word is even.
//! 4. A goroutine that lost its P in a call that it did not announce (`sched::implicit`) may come out of the kernel at
//!    any moment, and go on with the program's code. So its thread is sent the signal, too, and sleeps in the handler
//!    without a P. One that enters the runtime meanwhile finds no P, and is frozen. Nobody else loses its P that way
//!    until the world goes on, so these become fewer only.
//! 5. The world is stopped when each P is held by nobody, by an M at its safe point, or by the one who stops, and each
//!    M without a P of step 4 is at its safe point. A thread that waits in the kernel and cannot be interrupted (for
//!    a disk) counts as if it were: the signal is the first thing that it does ([`is_stuck`]). Whoever stops the
//!    world looks again at each arrival, and asks again every [`ASK_AGAIN_NS`]: an M may have begun another goroutine,
//!    or entered a system call, just as it was asked.
//! 6. The word is made even, under the lock. Every M wakes. What became runnable meanwhile, and deadlines that have
//!    come, are looked after as when a P is handed on ([`Sched::look_after_handoff`]).
//!
//! A P that nobody holds may be on its way to an M, perhaps to one whose thread is still to be made. That M says that
//! it holds the P · fence · reads the word. Whoever stops the world makes the word odd · fence · reads who holds the P. So
//! either the P is seen to be held, or the M comes to its safe point before it runs anything. The stop does not wait
//! for it: whoever makes the thread may wait for a lock of `malloc` that a stopped goroutine holds.
//!
//! The models in this file's tests search for a counterexample.
//!
//! The word is never the same in two stops. So an M that has not woken yet when the next stop begins is waited for,
//! says so, and stays.
//!
//! At the end of the scheduler there is no world to stop: Ms go where they are, and nobody waits for them.
//!
//! # Rules
//!
//! While the world is stopped goroutines stand anywhere, with any lock of the program, of std and of libc. Whoever
//! stopped it must not wait for one: it allocates nothing, prints nothing, locks nothing. It must not wait for
//! a goroutine either, which ends the process with a message.

use std::time::Instant;

use crate::fatal::fatal;
use crate::prim::atomic::{AtomicU32, Ordering};
use crate::sched::critical::Section;
use crate::sched::m::M;
use crate::sched::refs::{GRef, PRef};
use crate::sched::{Sched, critical, current, implicit, preempt};
use crate::stats::Durations;
use crate::sys::clock::monotonic_ns;
use crate::sys::futex;
use crate::sys::memory_barrier::Fences;
use crate::sys::thread::TaskState;
use crate::trace::marks::Preemption;

/// After so long whoever stops the world asks those again that still run.
const ASK_AGAIN_NS: u64 = 50_000;

/// After so many times it asks the kernel what they do.
const ROUNDS_BEFORE_KERNEL: u32 = 5;

/// The state of the world of one scheduler.
#[derive(Debug)]
pub(crate) struct World {
    /// Odd while the world is to stop. Written under the scheduler's lock; Ms at their safe points sleep on it.
    word: AtomicU32,
    /// Counts Ms that came to their safe points; whoever stops the world sleeps on it.
    arrivals: AtomicU32,
    /// The frequent one is an M's that takes a P, the rare one whoever stops the world has.
    fences: Fences,
    /// From a request until the world stood still.
    stopping_times: Durations,
    /// From a request until the world went on.
    pauses: Durations,
}

impl World {
    pub(crate) fn new(fences: Fences) -> World {
        World {
            word: AtomicU32::new(0),
            arrivals: AtomicU32::new(0),
            fences,
            stopping_times: Durations::new(),
            pauses: Durations::new(),
        }
    }

    /// How long it took the world to stand still, each time.
    pub(crate) fn stopping_times(&self) -> &Durations {
        &self.stopping_times
    }

    /// How long it did not go on, each time.
    pub(crate) fn pauses(&self) -> &Durations {
        &self.pauses
    }

    /// Whether Ps are to stop: a hint, but under the scheduler's lock.
    #[inline(always)]
    pub(crate) fn is_to_stop(&self) -> bool {
        is_odd(self.word())
    }

    #[inline(always)]
    fn word(&self) -> u32 {
        // ordering: Acquire; pairs with the Release in `turn_over`: who goes on sees what was done meanwhile.
        self.word.load(Ordering::Acquire)
    }

    /// Makes the word odd or even. Under the scheduler's lock.
    fn turn_over(&self) {
        // ordering: Release; pairs with the Acquire in `word`.
        self.word.fetch_add(1, Ordering::Release);
    }

    /// Asks `look` whether enough has come about, once more after each arrival and after a while; `look` is told how
    /// often it was asked before.
    fn wait_for_arrivals<T>(&self, mut look: impl FnMut(u32) -> Option<T>) -> T {
        let mut round = 0;
        loop {
            // ordering: Acquire; pairs with the Release in `sleep_at_safe_point`.
            let seen = self.arrivals.load(Ordering::Acquire);
            if let Some(enough) = look(round) {
                return enough;
            }
            futex::wait(&self.arrivals, seen, Some(ASK_AGAIN_NS));
            round += 1;
        }
    }

    /// Whether the M of `safe_point` is at its safe point of this stop. Under the lock.
    fn has_at(&self, safe_point: &AtomicU32) -> bool {
        // ordering: Relaxed: under the lock.
        safe_point.load(Ordering::Relaxed) == self.word()
    }

    /// For an M that says that it has a P: whether it is to stop before it uses it.
    #[inline(always)]
    fn is_wanted_with_p(&self) -> bool {
        // fence: pairs with the one in `begin`: either the M that takes a P sees the word, or is seen there.
        self.fences.frequent();
        self.is_to_stop()
    }

    /// At a safe point that was noted while the word was `seen`: tells whoever stops the world, and sleeps until the word
    /// is another, or for no reason.
    fn sleep_at_safe_point(&self, seen: u32) {
        // ordering: Release; pairs with the Acquire in `wait_for_arrivals`.
        self.arrivals.fetch_add(1, Ordering::Release);
        futex::wake(&self.arrivals, 1);
        futex::wait(&self.word, seen, None);
    }

    /// Wakes everybody when the word is even again.
    fn wake_all(&self) {
        futex::wake(&self.word, u32::MAX);
    }

    /// Waits, on a thread without a P, until the world goes on.
    #[inline(always)]
    fn wait_until_it_goes_on(&self) {
        let mut seen = self.word();
        while is_odd(seen) {
            futex::wait(&self.word, seen, None);
            seen = self.word();
        }
    }

    /// In a child that `fork` made: whoever stopped the world is not here.
    pub(crate) fn after_fork(&self) {
        if self.is_to_stop() {
            self.turn_over();
        }
    }
}

fn is_odd(word: u32) -> bool {
    word % 2 == 1
}

// ---- whoever stops the world

/// The world of a scheduler stands still while this lives.
#[derive(Debug)]
pub(crate) struct Stopped {
    sched: &'static Sched,
    /// The goroutine of `sched` that stopped it.
    me: Option<GRef>,
    /// It is inside the runtime: nobody asks for its P.
    section: Option<Section<false>>,
    /// Whether the world stood still before the deadline.
    whole: bool,
    /// When it was asked for, in nanoseconds of the monotonic clock.
    since: u64,
}

/// Stops the world of `sched` for the reason `why`, and waits until it stands still. `me` is the goroutine of the
/// caller, if it runs one of this scheduler. One at a time. Waits no longer than until `deadline`.
pub(crate) fn stop(
    sched: &'static Sched,
    me: Option<GRef>,
    why: &'static str,
    deadline: Option<Instant>,
) -> Stopped {
    let mut stopped = Stopped {
        sched,
        me,
        section: me.map(critical::enter),
        whole: false,
        since: monotonic_ns(),
    };
    stopped.whole = stopped.begin(why, deadline);
    stopped
}

impl Stopped {
    /// Whether the world stands still, and not only those who came to their safe points before the deadline.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    fn begin(&self, why: &'static str, deadline: Option<Instant>) -> bool {
        let (sched, world) = (self.sched, &self.sched.world);
        let own = self.me.map(|me| {
            let m = current::m_of(me);
            m.tracer.stop_requested(&m, why);
            m.held_p()
        });
        if own.is_none() {
            crate::trace::stop_requested(sched, why);
        }
        {
            let mut shared = sched.shared.lock();
            shared.stopper = own;
            world.turn_over();
        }
        if let Some(p) = own {
            // Should it wait for a goroutine, it comes to the scheduler, which says so.
            p.demand_attention();
        }
        // fence: pairs with the one in `is_wanted_with_p`: either the M that takes a P sees the word, or is seen here.
        world.fences.rare();
        let stands = world.wait_for_arrivals(|round| {
            // Each of the two may be asked for its own.
            let all_stand = sched.ask_to_stop(own, round) & sched.ask_those_without_p(round);
            let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if all_stand || sched.stopping() {
                Some(true)
            } else {
                is_late().then_some(false)
            }
        });
        if !stands {
            return false;
        }
        world.stopping_times.record(monotonic_ns() - self.since);
        match self.me {
            Some(me) => {
                let m = current::m_of(me);
                m.tracer.stopped(&m);
            }
            None => crate::trace::stopped(sched),
        }
        true
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let (sched, world) = (self.sched, &self.sched.world);
        match self.me {
            Some(me) => {
                let m = current::m_of(me);
                m.tracer.restarted(&m);
            }
            None => crate::trace::restarted(sched),
        }
        {
            let mut shared = sched.shared.lock();
            shared.stopper = None;
            // A child that `fork` made meanwhile has done it.
            if world.is_to_stop() {
                world.turn_over();
            }
        }
        world.wake_all();
        world.pauses.record(monotonic_ns() - self.since);
        sched.serve_awaiting();
        sched.look_after_handoff();
        drop(self.section.take());
    }
}

impl Sched {
    /// Asks everybody for a P who has one and is not at a safe point; whether nobody is left to wait for. `own` is the P
    /// of whoever stops the world, who has asked `round` times before.
    fn ask_to_stop(&self, own: Option<PRef>, round: u32) -> bool {
        let mut shared = self.shared.lock();
        let mut all_stand = true;
        for p in self.procs() {
            if let Some(m) = p.in_call_of()
                && crate::trace::retake(self, p, m, || p.take_from_call(m))
            {
                p.set_m(None);
                shared.put_idle_p(p);
                self.idle.p_became_idle();
            }
            let Some(m) = p.m().filter(|_| Some(p) != own) else {
                continue;
            };
            if !self.stands(&m) {
                p.demand_attention();
                preempt::ask_to_stop(self, &p, round == 0);
                all_stand &= is_stuck(&m, round);
            }
        }
        all_stand
    }

    /// Asks those to stop who go on without a P; whether nobody is left to wait for.
    fn ask_those_without_p(&self, round: u32) -> bool {
        if self.without_p() == 0 {
            return true;
        }
        let mut all_stand = true;
        for index in 0.. {
            let Some(m) = self.m_at(index) else { break };
            // Nobody begins to lack a P while the world is to stop.
            if !implicit::lacks_p(&m) {
                continue;
            }
            // Under the lock, without which it does not come back: so the thread is there.
            let shared = self.shared.lock();
            if implicit::lacks_p(&m) && !self.stands(&m) {
                preempt::send(&m);
                all_stand &= is_stuck(&m, round);
            }
            drop(shared);
        }
        all_stand
    }

    /// Whether `m` is at its safe point of this stop. Under the lock.
    fn stands(&self, m: &M) -> bool {
        self.world.has_at(&m.safe_point)
    }

    /// Gives Ps that wait for an M to Ms that went to sleep while those could not be taken.
    fn serve_awaiting(&self) {
        loop {
            let given = {
                let mut shared = self.shared.lock();
                if shared.idle_m_count == 0 {
                    break;
                }
                let Some(p) = self.take_awaiting_p_locked(&mut shared) else {
                    return;
                };
                let spinning = p.awaits_spinning.get();
                self.give(&mut shared, p, spinning)
            };
            self.complete(given);
        }
        self.spawner.notify();
    }
}

/// Whether the thread of `m`, to which the signal is under way, is in the kernel and stays there until what it waits
/// for is over.
#[cold]
fn is_stuck(m: &M, round: u32) -> bool {
    // ordering: Acquire; pairs with the AcqRel in `on_signal`: still under way when the kernel is asked.
    let under_way = || m.signal_sent.load(Ordering::Acquire);
    if round < ROUNDS_BEFORE_KERNEL || !under_way() {
        return false;
    }
    // ordering: Relaxed: written before the M had a P.
    let thread = m.thread.load(Ordering::Relaxed);
    TaskState::of(thread).is_some_and(|state| state.is_uninterruptible()) && under_way()
}

// ---- whoever is stopped

/// The M, which was given a P, waits until the world goes on before it takes it.
#[inline(always)]
pub(crate) fn wait_to_take(m: &M) {
    m.sched.world.wait_until_it_goes_on();
}

/// The M is at a safe point: stays there while the world is to stop.
#[cold]
#[inline(never)]
pub(crate) fn stop_here(m: &M, how: Preemption) {
    let (sched, world) = (m.sched, &m.sched.world);
    loop {
        let seen = {
            let shared = sched.shared.lock();
            let seen = world.word();
            if !is_odd(seen) || sched.stopping() {
                return;
            }
            if shared.stopper.is_some() && shared.stopper == m.p() {
                drop(shared);
                fatal!(
                    "a goroutine that has stopped the world waits for another one, and none can run until it goes on"
                );
            }
            if !sched.stands(m) {
                m.tracer.safe_point(m, how);
                // ordering: Relaxed: under the lock.
                m.safe_point.store(seen, Ordering::Relaxed);
            }
            seen
        };
        world.sleep_at_safe_point(seen);
    }
}

/// [`stop_here`] in the scheduler, if the world is to stop. Whoever takes a P calls it before it runs a goroutine.
#[inline(always)]
pub(crate) fn stop_if_wanted(m: &M) {
    if m.sched.world.is_wanted_with_p() {
        stop_here(m, Preemption::Cooperative);
    }
}

#[cfg(all(test, loom))]
#[path = "stw_tests.rs"]
mod tests;
