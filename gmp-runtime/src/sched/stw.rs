//! Stopping the world: every P stands still until whoever stopped it lets it go on.
//!
//! # Protocol
//!
//! 1. Whoever wants to stop the world waits for its *turn* ([`World::turn`]): one stop at a time. A goroutine parks
//!    for it. Who has the turn may stop the world again within it, which changes nothing.
//! 2. It makes [`World::word`] odd, under the scheduler's lock: the world *is to stop*. From then on nobody takes a
//!    P from the idle list, or one that waits for an M: those stand still where they are. It takes Ps out of
//!    system calls and makes them idle. It asks every goroutine that runs for its P, as the monitor does
//!    ([`preempt::ask_to_stop`]), and every M to look at the scheduler before it runs the next goroutine.
//! 3. An M that has a P comes to its *safe point* ([`stop_here`]): in the scheduler, before it looks for a goroutine
//!    and before it runs one; at the end of a goroutine's section; or in the signal's handler, anywhere in the
//!    program's code. It keeps its P and sleeps there until the word is even.
//! 4. The world is stopped when each P is held by nobody, by an M at its safe point, or by the one who stops. That one
//!    looks again at each arrival, and asks again every [`ASK_AGAIN_NS`]: an M may have begun another goroutine,
//!    or entered a system call, just as it was asked.
//! 5. The word is made even, under the lock. Every M wakes. What became runnable meanwhile, and deadlines that have
//!    come, are looked after as when a P is handed on ([`Sched::look_after_handoff`]).
//!
//! A P that nobody holds may be on its way to an M, perhaps to one whose thread is still to be made. That M says that
//! it holds the P · fence · reads the word. Whoever stops the world makes the word odd · fence · reads who holds the P. So
//! either the P is seen to be held, or the M comes to its safe point before it runs anything. The stop does not wait
//! for it: whoever makes the thread may wait for a lock of `malloc` that a stopped goroutine holds.
//!
//! Whether an M is at its safe point is written under the lock, by itself: it takes that back only where it sees under
//! the lock that the world goes on. So an M that has not woken yet when the next stop begins is counted, and stays.
//!
//! # Rules
//!
//! While the world is stopped goroutines stand anywhere, with any lock of the program, of std and of libc. Whoever
//! stopped it must not wait for one: it allocates nothing, prints nothing, locks nothing. It must not wait for
//! a goroutine either, which ends the process with a message.

use std::panic::Location;

use crate::fatal::fatal;
use crate::lock::{Rank, SpinLock};
use crate::prim::atomic::{AtomicU32, Ordering};
use crate::sched::critical::Section;
use crate::sched::g::{Wait, WaitReason};
use crate::sched::inject::GList;
use crate::sched::m::M;
use crate::sched::park::{self, Waking};
use crate::sched::refs::{GRef, PRef};
use crate::sched::{Sched, Shared, critical, current, preempt};
use crate::sys::futex;
use crate::sys::memory_barrier::Fences;
use crate::trace::marks::Preemption;

/// After so long whoever stops the world asks those again that still run.
const ASK_AGAIN_NS: u64 = 50_000;

/// The state of the world of one scheduler.
#[derive(Debug)]
pub(crate) struct World {
    /// Odd while the world is to stop. Written under the scheduler's lock; Ms at their safe points sleep on it.
    word: AtomicU32,
    /// Counts Ms that came to their safe points; whoever stops the world sleeps on it.
    arrivals: AtomicU32,
    turn: SpinLock<Turn>,
    /// The frequent one is an M's that takes a P, the rare one whoever stops the world has.
    fences: Fences,
}

/// Who may stop the world.
#[derive(Debug)]
struct Turn {
    holder: Option<GRef>,
    /// How often the holder has stopped it.
    depth: u32,
    /// Those that wait for their turn.
    waiting: GList,
}

impl World {
    pub(crate) fn new(fences: Fences) -> World {
        World {
            word: AtomicU32::new(0),
            arrivals: AtomicU32::new(0),
            turn: SpinLock::new(
                Rank::Cycle,
                Turn {
                    holder: None,
                    depth: 0,
                    waiting: GList::new(),
                },
            ),
            fences,
        }
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
}

fn is_odd(word: u32) -> bool {
    word % 2 == 1
}

/// The world stands still while this lives. For the goroutine that stopped it.
#[derive(Debug)]
pub(crate) struct Stopped {
    me: GRef,
    /// Whether this one made it stop, and not one around it.
    outermost: bool,
    /// It is inside the runtime: nobody asks for its P.
    section: Option<Section<false>>,
}

/// Stops the world of `me`, which runs here, for the reason `why`, and waits until it stands still. The goroutine may
/// be on another thread after this.
pub(crate) fn stop(me: GRef, why: &'static str, site: &'static Location<'static>) -> Stopped {
    let outermost = take_turn(me, site);
    let stopped = Stopped {
        me,
        outermost,
        section: Some(critical::enter(me)),
    };
    if outermost {
        stopped.begin(why);
    }
    stopped
}

/// Waits until nobody else stops the world; false if `me` has stopped it.
fn take_turn(me: GRef, site: &'static Location<'static>) -> bool {
    let _section = critical::enter_to_wait(me);
    let mut turn = me.sched.world.turn.lock();
    match turn.holder {
        None => {
            turn.holder = Some(me);
            turn.depth = 1;
        }
        Some(holder) if holder == me => {
            turn.depth += 1;
            return false;
        }
        Some(_) => {
            turn.waiting.push_back(me);
            let wait = Wait {
                reason: WaitReason::StoppingTheWorld,
                object: 0,
                site,
            };
            // Whoever wakes it has given it the turn.
            park::park_and_unlock(me, wait, turn.hand_over());
        }
    }
    true
}

/// The turn of `me` is over, or one of those within it; the next one has its turn.
fn end_turn(me: GRef) {
    let next = {
        let mut turn = me.sched.world.turn.lock();
        turn.depth -= 1;
        if turn.depth > 0 {
            return;
        }
        let next = turn.waiting.pop_front();
        turn.holder = next;
        turn.depth = u32::from(next.is_some());
        next.map(|g| Waking::new(Some(me), g))
    };
    if let Some(waking) = next {
        waking.wake();
    }
}

impl Stopped {
    fn begin(&self, why: &'static str) {
        let m = current::m_of(self.me);
        let (sched, world) = (m.sched, &m.sched.world);
        let own = m.held_p();
        m.tracer.stop_requested(&m, why);
        {
            let mut shared = sched.shared.lock();
            shared.stopper = Some(own);
            world.turn_over();
        }
        // fence: pairs with the one in `stop_if_wanted`: either the M that takes a P sees the word, or is seen here.
        world.fences.rare();
        let mut first = true;
        loop {
            // ordering: Acquire; pairs with the Release in `stop_here`.
            let seen = world.arrivals.load(Ordering::Acquire);
            {
                let mut shared = sched.shared.lock();
                // At the end nobody runs goroutines any more; Ms go where they are.
                if sched.stopping() || sched.asks_to_stop(&mut shared, own, first) {
                    break;
                }
            }
            first = false;
            futex::wait(&world.arrivals, seen, Some(ASK_AGAIN_NS));
        }
        m.tracer.stopped(&m);
    }

    fn end(&self) {
        let m = current::m_of(self.me);
        let (sched, world) = (m.sched, &m.sched.world);
        m.tracer.restarted(&m);
        {
            let mut shared = sched.shared.lock();
            shared.stopper = None;
            world.turn_over();
        }
        futex::wake(&world.word, u32::MAX);
        sched.serve_awaiting();
        sched.look_after_handoff();
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.outermost {
            self.end();
        }
        end_turn(self.me);
        drop(self.section.take());
    }
}

impl Sched {
    /// Asks everybody for a P who has one and is not at a safe point; true when there is none. `own` is the P of
    /// whoever stops the world. Under the lock.
    fn asks_to_stop(&self, shared: &mut Shared, own: PRef, first: bool) -> bool {
        let mut all_stand = true;
        for p in self.procs() {
            if let Some(m) = p.in_call_of()
                && crate::trace::retake(self, p, m, || p.take_from_call(m))
            {
                p.set_m(None);
                shared.put_idle_p(p);
                self.idle.p_became_idle();
            }
            let Some(m) = p.m().filter(|_| p != own) else {
                continue;
            };
            // ordering: Relaxed: under the lock.
            if !m.at_safe_point.load(Ordering::Relaxed) {
                all_stand = false;
                p.demand_attention();
                preempt::ask_to_stop(self, &p, first);
            }
        }
        all_stand
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

/// The M, which was given a P, waits until the world goes on before it takes it.
#[inline(always)]
pub(crate) fn wait_to_take(m: &M) {
    let world = &m.sched.world;
    let mut seen = world.word();
    while is_odd(seen) {
        futex::wait(&world.word, seen, None);
        seen = world.word();
    }
}

/// The M, which has a P, is at a safe point: stays there while the world is to stop.
#[cold]
#[inline(never)]
pub(crate) fn stop_here(m: &M, how: Preemption) {
    let (sched, world) = (m.sched, &m.sched.world);
    let Some(p) = m.p() else { return };
    let mut told = None;
    loop {
        let seen = {
            let shared = sched.shared.lock();
            let seen = world.word();
            if !is_odd(seen) || sched.stopping() {
                // ordering: Relaxed: under the lock.
                m.at_safe_point.store(false, Ordering::Relaxed);
                return;
            }
            if shared.stopper == Some(p) {
                drop(shared);
                fatal!(
                    "a goroutine that has stopped the world waits for another one, and none can run until it goes on"
                );
            }
            if told.replace(seen) != Some(seen) {
                m.tracer.safe_point(m, how);
            }
            // ordering: Relaxed, as above.
            m.at_safe_point.store(true, Ordering::Relaxed);
            seen
        };
        // ordering: Release; pairs with the Acquire in `begin`.
        world.arrivals.fetch_add(1, Ordering::Release);
        futex::wake(&world.arrivals, 1);
        futex::wait(&world.word, seen, None);
    }
}

/// [`stop_here`] in the scheduler, if the world is to stop. Whoever takes a P calls it before it runs a goroutine.
#[inline(always)]
pub(crate) fn stop_if_wanted(m: &M) {
    // fence: pairs with the one in `begin`.
    m.sched.world.fences.frequent();
    if m.sched.world.is_to_stop() {
        stop_here(m, Preemption::Cooperative);
    }
}
