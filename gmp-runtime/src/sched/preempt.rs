//! Preemption: a goroutine that runs too long gives up its P, wherever it is.
//!
//! Code cannot be moved to another thread at an arbitrary instruction: it may hold the address of a
//! thread-local in a register, or be in the middle of `malloc`. So a goroutine that is preempted outside the
//! runtime is *frozen* where it is: its thread waits inside a signal handler, and the P goes to another M.
//! Whoever finds the goroutine in the queue later gives its own P to that thread, and the code goes on where
//! it was.
//!
//! # Protocol
//!
//! 1. The monitor ([`look`]) sees a P that has not begun a new turn for [`SLICE_NS`] although something waits
//!    for it; or no P is idle, a timer of it is due or the network has woken somebody, and it has been in the same
//!    turn for [`URGENT_NS`]. If the P with the timer is not given up for [`PATIENCE_NS`], because the kernel does not
//!    run its thread, another one is asked for, and whoever gets it fires the timers of all. Nothing is preempted for nobody. It sets the *request* of the goroutine that runs
//!    there, and sends a signal to its thread. Under the scheduler's lock, and only while the P names the M: an M
//!    gives up its P before it ends, and takes the lock after that, so the thread is there.
//! 2. The handler ([`on_signal`]) runs on that thread, between two instructions.
//!    * The goroutine is inside the runtime ([`sched::mark`](crate::sched::mark)), or the M has none: it
//!      returns. The request stays, and is seen when the goroutine leaves the section.
//!    * It is outside: the handler enters the runtime in its name, and freezes it.
//! 3. *Freezing* is one section under the scheduler's lock, in which all of this is decided: does anything wait
//!    still, and who gets the P? If the next one in the queue is frozen itself and the P has nothing of its own
//!    to do, that one's M, directly; else an idle M; else, where there is none, the M that has been frozen
//!    longest, and the spawner makes an M for the next time; and if nobody is frozen the goroutine runs on. So
//!    a P never waits for the spawner, which may wait itself: for a lock of `malloc` that a frozen goroutine
//!    holds. Then the goroutine goes to the end of the list of frozen ones, the P to its heir, and the thread
//!    to sleep. One that was *interrupted*, asked for its P for somebody urgent before its slice was over, comes
//!    before all others instead, and has the rest of that slice. It gives its P to an idle M only, and runs on
//!    where there is none.
//! 4. The list of frozen goroutines and the global queue are one queue in the order of arrival: a frozen one
//!    knows how many of the others went before it ([`Shared::take_queued`]). An M that takes a frozen goroutine
//!    out gives its own P to the M that this one is frozen on, and goes to sleep itself ([`hand_p_to_frozen`]).
//! 5. A goroutine that leaves a section with a request ([`comply`]) yields to the end of the global queue where
//!    it is in a call that may move it to another thread, unless it unwinds. Otherwise it freezes itself.
//!
//! # Why nothing is lost
//!
//! *Two owners.* A frozen goroutine is in the list from the section in which its M gave up the P, and leaves it
//! by the hand of one M, under the lock, which wakes exactly the M that it is frozen on. That M is in no other
//! list: it sleeps on its own word, and only who took its goroutine out gives it a P.
//!
//! *A lost wake.* The P is given before the word is changed, and the word is read before the P is looked for,
//! as for every M that sleeps ([`M::sleep`]).
//!
//! *Locks.* The interrupted code is outside, so this thread holds no lock of the runtime, and whoever holds the
//! scheduler's lock is never stopped: the handler may wait for it. What the goroutine holds of the program's
//! locks, of std's and of libc's it keeps; who waits for them waits in the kernel, and is preempted in turn.
//!
//! *A late signal.* It finds no request, because another goroutine runs by now or the request was seen at the
//! end of a section, and does nothing. One that nobody here sent goes to the handler that was there before: the
//! M knows whether a signal is under way to it.
//!
//! *The end.* When the scheduler stops, nobody is frozen any more. Each M that ends gives its P to the M of a
//! goroutine that is frozen, if there is one, which runs to its next call into the runtime, and then ends too
//! ([`Sched::leave`]).
//!
//! The handler uses atomics, the scheduler's spin lock, the tracer's, `futex` and nothing else, and keeps errno.

use crate::lock::SpinGuard;
use crate::prim::atomic::Ordering;
use crate::procs::MAX_PROCS;
use crate::sched::g::{AtEnd, transition};
use crate::sched::implicit::{self, Suspect};
use crate::sched::m::{M, PostSwitch};
use crate::sched::p::P;
use crate::sched::refs::{GRef, MRef};
use crate::sched::{Sched, Shared, current, find, netpoll, park, stw};
use crate::sys::clock::monotonic_ns;
use crate::sys::signal;
use crate::sys::thread::send_signal;
use crate::trace::marks::{Found, HandoffReason, Leave, PreemptReason, Preemption};

/// How long a goroutine may keep its P while others wait (Go's `forcePreemptNS`).
const SLICE_NS: u64 = 10_000_000;

/// How long at least, when somebody is woken whom nobody else could run.
const URGENT_NS: u64 = 100_000;

/// For how long the monitor waits for a P with a timer that is due. Where there are more Ps than processors its thread
/// may not run now, so after that any other one will do.
const PATIENCE_NS: u64 = 100_000;

/// A P is not asked for more often than this: what preemption costs is a few percent at most.
const BETWEEN_REQUESTS_NS: u64 = 1_000_000;

/// How long the monitor waits between rounds at most while some goroutine may wait for a P. Timers are set and
/// sockets become ready meanwhile.
const WATCHED_DELAY_NS: u64 = 1_000_000;

/// The same where every P begins a new turn so often, in the mean, that it looks after timers and the network by itself
/// once a millisecond (each 61st turn): the monitor comes for what may begin then.
const LIVELY_DELAY_NS: u64 = 4_000_000;
const LIVELY_TURN_NS: u64 = 16_000;

/// How many goroutines are frozen at most, and keep a thread each; some more where somebody urgent waits. From
/// then on those that are frozen take turns, and others wait until one of them has ended or waits itself.
const MOST_FROZEN: u32 = 1000;

/// What the monitor remembers.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Of the Ps, by their numbers. There may be more of them later.
    ps: Vec<Watched>,
    /// The M to look at next for one that runs without a P.
    next_m: usize,
    /// When it looked last.
    looked: u64,
}

/// What the monitor remembers of one P.
#[derive(Debug, Default)]
struct Watched {
    /// The turn that it saw last, and when it saw it first.
    turn: u32,
    since: u64,
    /// When the slice of that turn began: earlier, if it was interrupted.
    began: u64,
    /// When it last asked for the P.
    asked: u64,
    suspect: Suspect,
}

impl Watched {
    /// Whether `p` was asked for because of a timer, and has not been given up.
    fn is_late(&self, p: &P, now: u64) -> bool {
        p.next_timer() <= now
            && p.tick() == self.turn
            && self.asked >= self.since
            && now - self.asked >= PATIENCE_NS
    }
}

impl Watch {
    pub(crate) fn new() -> Watch {
        let ps = (0..MAX_PROCS).map(|_| Watched::default()).collect();
        Watch {
            ps,
            next_m: 0,
            looked: 0,
        }
    }
}

/// Prepares the process for preemption by `signal`. Once is enough; more do no harm.
///
/// # Errors
/// The kernel's.
pub(crate) fn install(signal: i32) -> std::io::Result<()> {
    signal::install_preemption(signal, on_signal)
}

// ---- the monitor

/// Asks for the Ps of goroutines that had them long enough. The delay until the next round, at most.
pub(crate) fn look(sched: &Sched, watch: &mut Watch, now: u64) -> u64 {
    let mut delay = u64::MAX;
    // Where a P is idle its M, or the timekeeper, sees to timers and the network.
    let all_busy = sched.idle.idle_ps() == 0;
    let late = all_busy
        && sched
            .procs()
            .zip(&watch.ps)
            .any(|(p, watched)| watched.is_late(&p, now));
    sched.set_timers_late(late);
    // One P is enough for all whom the network woke, and for timers of others.
    let mut urgent = all_busy && (sched.urgent_waits() || late);
    let mut anybody = all_busy && (netpoll::has_waiters(sched) || sched.work_waits());
    let passed = now - std::mem::replace(&mut watch.looked, now);
    let mut all_lively = true;
    for (p, watched) in sched.procs().zip(&mut watch.ps) {
        let turn = p.tick();
        let turns = u64::from(turn.wrapping_sub(watched.turn));
        let lively = turns * LIVELY_TURN_NS >= passed;
        all_lively &= lively;
        if turn != watched.turn {
            (watched.turn, watched.since) = (turn, now);
            watched.began = p.slice_began(turn, now);
        }
        let due = if all_busy { p.next_timer() } else { u64::MAX };
        if (urgent || due <= now || work_waits_for(sched, &p))
            && implicit::is_possible(sched, &p)
            && let Some(m) = p.m()
            && watched.suspect.waits(&m, turn, now)
            && implicit::take(sched, p)
        {
            urgent = false;
            continue;
        }
        let may_ask = (watched.asked + BETWEEN_REQUESTS_NS).max(watched.since + URGENT_NS);
        if may_ask <= now {
            let rest = (now - watched.began < SLICE_NS).then_some(watched.began);
            if (urgent || due <= now) && ask(sched, &p, PreemptReason::Urgent, rest) {
                watched.asked = now;
                urgent = false;
            } else if rest.is_none() && work_waits_for(sched, &p) {
                watched.asked = now;
                ask(sched, &p, PreemptReason::Slice, rest);
            }
        }
        if urgent || !lively && due <= now + WATCHED_DELAY_NS {
            let next = if urgent { may_ask } else { may_ask.max(due) };
            delay = delay.min(next.max(now + URGENT_NS) - now);
        }
        if due <= now && watched.asked >= watched.since {
            let patience = (watched.asked + PATIENCE_NS).saturating_sub(now);
            delay = delay.min(patience.max(URGENT_NS));
        }
        anybody |= due != u64::MAX;
    }
    if anybody {
        delay = delay.min(if all_lively {
            LIVELY_DELAY_NS
        } else {
            WATCHED_DELAY_NS
        });
    }
    implicit::stop_those_that_run(sched, &mut watch.next_m, now);
    if sched.without_p() != 0 {
        delay = delay.min(WATCHED_DELAY_NS);
    }
    delay
}

/// Whether somebody could use `p`: a hint.
fn work_waits_for(sched: &Sched, p: &P) -> bool {
    sched.global_len() != 0 || !p.runq.is_empty()
}

/// Whether timers are due that whoever has `p` fires.
fn timers_wait_for(sched: &Sched, p: &P) -> bool {
    p.next_timer() <= monotonic_ns() || sched.timers_late()
}

/// Asks the goroutine that runs on `p` to give it up; whether there is one. `rest`: when its slice began, if it is to
/// have the rest of it as soon as nobody urgent waits.
#[cold]
fn ask(sched: &Sched, p: &P, why: PreemptReason, rest: Option<u64>) -> bool {
    let shared = sched.shared.lock();
    let Some((m, g)) = asked_of(p).filter(|_| !sched.stopping() && !sched.world.is_to_stop())
    else {
        return false;
    };
    crate::trace::preempt_requested(sched, p.id, g, why);
    m.interrupted_slice.set(rest);
    g.mark.request();
    if sched.signals {
        send(&m);
    }
    drop(shared);
    true
}

/// Asks the goroutine that runs on `p` to stop with the world; again, unless it is the `first` time. Under the
/// scheduler's lock.
pub(crate) fn ask_to_stop(sched: &Sched, p: &P, first: bool) {
    let Some((m, g)) = asked_of(p) else { return };
    if first {
        crate::trace::preempt_requested(sched, p.id, g, PreemptReason::Stop);
    }
    g.mark.request();
    // One that is inside looks at the end of its section. If it does not see the request yet, it is asked again.
    if sched.signals && !g.mark.is_inside() {
        send(&m);
    }
}

/// The goroutine that runs on `p`, and its M, which holds `p`. Under the scheduler's lock.
fn asked_of(p: &P) -> Option<(MRef, GRef)> {
    let m = p.m()?;
    let g = m.current()?;
    m.p()
        .is_some_and(|held| std::ptr::eq(&*held, p))
        .then_some((m, g))
}

/// Sends a signal to `m`, whose thread is there.
pub(crate) fn send(m: &M) {
    // ordering: AcqRel; pairs with the swap in `on_signal`: one signal at a time is under way.
    if !m.signal_sent.swap(true, Ordering::AcqRel) {
        // ordering: Relaxed: written before the M had a P.
        send_signal(m.thread.load(Ordering::Relaxed), m.sched.signal);
    }
}

// ---- the M whose goroutine is preempted

/// A signal came; whether it was one of ours.
fn on_signal() -> bool {
    let Some(m) = current::thread_m() else {
        return false;
    };
    // There is nobody who has sent it, or would give a P.
    if m.sched.is_forked() {
        return false;
    }
    // ordering: AcqRel; pairs with the swap in `send`.
    if !m.signal_sent.swap(false, Ordering::AcqRel) {
        return false;
    }
    if let Some(g) = m.current()
        && !g.mark.is_inside()
    {
        if g.mark.enter() {
            implicit::stop(&m, g);
        }
        if g.mark.take_request() {
            if m.sched.world.is_to_stop() {
                stw::stop_here(&m, Preemption::Signal);
            } else {
                freeze(&m, g, Preemption::Signal);
            }
        }
        g.mark.leave();
    }
    true
}

/// Does what was requested of `g`, which has left a section. `may_move`: in a call that may move it to another
/// thread.
#[cold]
#[inline(never)]
pub(crate) fn comply(g: GRef, may_move: bool) {
    if g.mark.enter() {
        implicit::come_back(g);
    }
    let m = current::m_of(g);
    if m.sched.world.is_to_stop() && g.mark.take_request() {
        stw::stop_here(&m, Preemption::Cooperative);
    }
    let yields = may_move && !std::thread::panicking();
    // Without signals nobody is frozen: the request stays for a call that may move it.
    if (yields || g.sched.signals) && g.mark.take_request() && !g.sched.is_forked() {
        if yields {
            give_up(g, m);
        } else {
            freeze(&m, g, Preemption::Cooperative);
        }
    }
    g.mark.leave();
}

/// `g`, which runs here, goes to the end of the global queue, if anything waits.
fn give_up(g: GRef, m: MRef) {
    let Some(p) = m.p() else { return };
    if m.sched.stopping() || !(work_waits_for(m.sched, &p) || timers_wait_for(m.sched, &p)) {
        return;
    }
    g.at_end.set(AtEnd::GoesOn);
    transition!(g, Running => Runnable);
    park::leave(g, m, PostSwitch::Preempted(g), Leave::Preempted);
}

/// Who gets the P of a goroutine that is frozen.
enum Heir {
    /// An idle M; so many more are idle.
    Idle(MRef, u32),
    /// The M of a goroutine that was frozen before.
    Frozen(MRef),
}

/// Freezes `g`, which runs on `m` and is inside, until `m` is given a P for it; or returns at once, where nobody
/// waits for the P or nobody can take it.
fn freeze(m: &M, g: GRef, how: Preemption) {
    let sched = m.sched;
    let Some(p) = m.p() else { return };
    let mut shared = sched.shared.lock();
    let urgent = timers_wait_for(sched, &p) || shared.urgent.len() != 0;
    let own_work = urgent || !p.runq.is_empty();
    let rest = m.interrupted_slice.take();
    let others = own_work || rest.is_none() && shared.queued() != 0;
    if sched.stopping() || !others {
        return;
    }
    let needs_scheduler =
        urgent || !shared.are_enough_frozen() && (own_work || !shared.frozen_is_first());
    let heir = shared.heir(needs_scheduler, rest.is_some());
    if needs_scheduler && !matches!(heir, Some(Heir::Idle(..))) {
        sched.spawner.spare_was_missing();
    }
    let Some(heir) = heir else {
        drop(shared);
        sched.spawner.notify();
        return;
    };
    m.tracer.preempted(m, how);
    transition!(g, Running => Preempted);
    m.set_current(None);
    m.tracer.settle();
    match rest {
        Some(_) => shared.interrupted.push_back(g),
        None => shared.put_frozen(m, g),
    }
    sched.publish_global_len(&shared);
    let (to, why) = match heir {
        Heir::Idle(to, _) => (to, HandoffReason::Frozen),
        Heir::Frozen(to) => (to, HandoffReason::Wired),
    };
    m.hand_p_to(to, why);
    drop(shared);
    if let Heir::Idle(..) = heir {
        to.spinning.set(false);
    }
    crate::trace::m_wake(to);
    to.wake_with(p);
    // Last: the spawner would use this processor.
    match heir {
        Heir::Idle(_, left) => sched.spawner.spare_was_used(left),
        Heir::Frozen(_) if needs_scheduler => sched.spawner.notify(),
        Heir::Frozen(_) => {}
    }
    thaw(m, g, rest);
}

/// Freezes `g`, which has lost the P of `m`, until it is given another one. `shared` is the lock of the scheduler.
pub(crate) fn freeze_without_p(m: &M, g: GRef, mut shared: SpinGuard<'_, Shared>) {
    shared.put_frozen(m, g);
    m.sched.publish_global_len(&shared);
    drop(shared);
    // A P may be idle.
    m.sched.wake_p_if_needed();
    if m.sched.sysmon.is_slow() {
        m.sched.sysmon.hurry();
    }
    thaw(m, g, None);
}

/// Waits until `m` is given a P for `g`, which is frozen on it, and goes on: with the rest of the slice that began then,
/// or with a new one.
fn thaw(m: &M, g: GRef, slice: Option<u64>) {
    let p = loop {
        if let Some(p) = m.sleep(|| false) {
            break p;
        }
    };
    stw::wait_to_take(m);
    m.acquire_p(p);
    stw::stop_if_wanted(m);
    m.tracer.start(m, g, Found::Wired);
    g.mark.take_request();
    match slice {
        Some(began) => p.count_continued(began),
        None => p.count_start(false),
    }
    m.set_current(Some(g));
    transition!(g, Preempted => Running);
    m.tracer.settle();
}

// ---- the scheduler

impl Shared {
    /// Goroutines in the global queue, the frozen ones with them.
    pub(crate) fn queued(&self) -> u32 {
        self.urgent.len() + self.global.len() + self.frozen_count()
    }

    /// Frozen goroutines among them.
    pub(crate) fn frozen_count(&self) -> u32 {
        self.interrupted.len() + self.frozen.len()
    }

    /// Puts `g` last in the global queue.
    pub(crate) fn put_queued(&mut self, g: GRef) {
        self.global_puts += 1;
        self.global.push_back(g);
    }

    /// Puts `g`, which was woken while no P was idle, before all others of the global queue.
    pub(crate) fn put_urgent(&mut self, g: GRef) {
        self.urgent.push_back(g);
    }

    /// Puts `g`, which is frozen on `m`, last in the global queue.
    fn put_frozen(&mut self, m: &M, g: GRef) {
        m.frozen_after.set(self.global_puts);
        self.frozen.push_back(g);
    }

    /// Whether a frozen goroutine is first in the global queue.
    fn frozen_is_first(&self) -> bool {
        let frozen_before = |g: GRef| {
            g.frozen_on()
                .is_some_and(|m| m.frozen_after.get() <= self.global_takes)
        };
        self.urgent.len() == 0
            && (self.interrupted.len() != 0 || self.frozen.front().is_some_and(frozen_before))
    }

    /// The first of the global queue that can be put into a ring: one that is not frozen, and does not
    /// overtake one that is.
    pub(crate) fn take_unfrozen(&mut self) -> Option<GRef> {
        if let Some(g) = self.urgent.pop_front() {
            return Some(g);
        }
        if self.frozen_is_first() {
            return None;
        }
        let g = self.global.pop_front()?;
        self.global_takes += 1;
        Some(g)
    }

    /// Whether no more goroutines are to be frozen, as long as others wait.
    pub(crate) fn are_enough_frozen(&self) -> bool {
        self.frozen_count() >= MOST_FROZEN
    }

    /// The first of the global queue. It may be frozen: then the caller gives its P to the M of it.
    pub(crate) fn take_queued(&mut self) -> Option<GRef> {
        if self.urgent.len() == 0 && self.are_enough_frozen() {
            return self.take_frozen();
        }
        self.take_unfrozen().or_else(|| self.take_frozen())
    }

    fn take_frozen(&mut self) -> Option<GRef> {
        self.interrupted
            .pop_front()
            .or_else(|| self.frozen.pop_front())
    }

    /// Who is to have the P of a goroutine that is about to be frozen; `needs_scheduler`: there is something that
    /// only a scheduler finds. One that is `interrupted` gives it to nobody else: who is frozen is not urgent.
    fn heir(&mut self, needs_scheduler: bool, interrupted: bool) -> Option<Heir> {
        if needs_scheduler && let Some(m) = self.take_idle_m() {
            return Some(Heir::Idle(m, self.idle_m_count));
        }
        if interrupted {
            return None;
        }
        self.take_frozen_m().map(Heir::Frozen)
    }

    /// The M of the first of the goroutines that are frozen, which is taken out.
    pub(crate) fn take_frozen_m(&mut self) -> Option<MRef> {
        self.take_frozen()?.frozen_on()
    }
}

/// Gives the P of `m`, which took a goroutine out of the queue that is frozen on `other`, to that one, and
/// sleeps until `m` has another P. False when the scheduler stops.
pub(crate) fn hand_p_to_frozen(m: &M, other: MRef) -> bool {
    let p = m.hand_p_to(other, HandoffReason::Wired);
    // First to sleep, then the P: so the other one finds an idle M when it is preempted again.
    find::go_to_sleep(m, || {
        crate::trace::m_wake(other);
        other.wake_with(p);
    })
}
