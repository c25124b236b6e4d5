//! The thread of the collection cycles: what a cycle does, and who waits for it.
//!
//! The thread holds no P, so it may wait, allocate and call the program's collectors while goroutines run. It does
//! neither while it drops pages of a goroutine: `sched::claim` has the protocol.

use crate::gc::line::Line;
use crate::gc::pace::{self, Cause, Goal, Pace};
use crate::gc::{Stats, registry};
use crate::lock::{Rank, SpinLock};
use crate::prim::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sched::g::{GState, Wait};
use crate::sched::inject::GList;
use crate::sched::park::{self, Waking};
use crate::sched::refs::GRef;
use crate::sched::{Sched, critical, deadlock};
use crate::stack::release::{Released, Releaser};
use crate::sys::clock::{monotonic_ns, thread_cpu_ns};
use crate::sys::memory_barrier::{self, Fences};
use crate::sys::{futex, signal};

/// Goroutines that share a membarrier.
const BATCH: usize = 64;

/// After so much work the thread sees whether it takes more than its share.
const WORK_BETWEEN_RESTS_NS: u64 = 1_000_000;

/// While all Ps are busy, a cycle takes a processor's time for one of so many Ps.
const PS_FOR_ONE_COLLECTOR: u64 = 4;

/// What a scheduler has for its cycles.
#[derive(Debug)]
pub(crate) struct Collection {
    /// Counts reasons to look; the word the thread sleeps on.
    word: AtomicU32,
    /// Goroutines that wait for a cycle that has not begun.
    waiting: SpinLock<GList>,
    /// Goroutines that wait for a cycle, and one more while a cycle runs.
    pending: AtomicU32,
    stats: SpinLock<Stats>,
    /// When the monitor woke the thread last, to look whether a cycle is due, and the turns of all Ps then. The
    /// monitor's.
    last_look: AtomicU64,
    turns: AtomicU32,
    /// Whether ClaimFence is there: else pages of goroutines stay.
    can_claim: bool,
    /// Before the start: by how much stacks may grow.
    pub(crate) goal: Goal,
    /// Before the start: whether a line is printed for each cycle.
    pub(crate) prints: bool,
}

impl Collection {
    pub(crate) fn new(fences: Fences) -> Collection {
        Collection {
            word: AtomicU32::new(0),
            waiting: SpinLock::new(Rank::Cycle, GList::new()),
            pending: AtomicU32::new(0),
            stats: SpinLock::new(Rank::Cycle, Stats::default()),
            last_look: AtomicU64::new(0),
            turns: AtomicU32::new(0),
            can_claim: fences.are_asymmetric(),
            goal: Goal::default(),
            prints: false,
        }
    }

    /// Wakes the thread to look whether something is to be done.
    pub(crate) fn wake(&self) {
        // ordering: Release; pairs with the Acquire load in `run`.
        self.word.fetch_add(1, Ordering::Release);
        futex::wake(&self.word, 1);
    }

    /// Has the thread look from time to time whether a cycle is due; rarely, if next to nothing ran since: `turns`
    /// counts the turns of all Ps. For the monitor, at each round.
    pub(crate) fn poll(&self, now: u64, turns: u32) {
        if !self.goal.is_set() {
            return;
        }
        // ordering: Relaxed, all of them: only the monitor uses these.
        let since = now - self.last_look.load(Ordering::Relaxed);
        // ordering: as above.
        let ran = turns.wrapping_sub(self.turns.load(Ordering::Relaxed));
        let pause = if ran < pace::FEW_TURNS {
            pace::LONG_LOOK_NS
        } else {
            pace::LOOK_NS
        };
        if since >= pause {
            // ordering: as above.
            self.last_look.store(now, Ordering::Relaxed);
            // ordering: as above.
            self.turns.store(turns, Ordering::Relaxed);
            self.wake();
        }
    }

    /// Whether a cycle runs or is waited for, and so may make goroutines runnable. Under the scheduler's lock.
    pub(crate) fn is_pending(&self) -> bool {
        // ordering: Acquire; pairs with the Release in `end_of_wait`: goroutines that no longer wait are on the
        // queue, which the caller sees with the lock.
        self.pending.load(Ordering::Acquire) != 0
    }

    /// For a caller that runs no goroutine, or is in a section.
    pub(super) fn stats(&self) -> Stats {
        *self.stats.lock()
    }

    /// Parks `g`, which runs here, until a cycle that begins after this has ended.
    pub(super) fn wait_for_cycle(&self, g: GRef, wait: Wait) {
        // At the end there are no more cycles: whoever runs is to leave, but cannot while it is unwound.
        if g.sched.stopping() && std::thread::panicking() {
            return;
        }
        let _section = critical::enter_to_wait(g);
        // ordering: Relaxed: before the M of this goroutine can go to sleep, which takes the scheduler's lock.
        self.pending.fetch_add(1, Ordering::Relaxed);
        let mut waiting = self.waiting.lock();
        waiting.push_back(g);
        // The thread comes to the lock, and gets it when the goroutine has been left.
        self.wake();
        park::park_and_unlock(g, wait, waiting.hand_over());
    }

    /// Makes those runnable that waited for the cycle that ends.
    fn wake_all(&self, mut waited: GList) {
        while let Some(g) = waited.pop_front() {
            Waking::new(None, g).wake();
            self.end_of_wait();
        }
    }

    fn end_of_wait(&self) {
        // ordering: Release; pairs with the Acquire in `is_pending`.
        self.pending.fetch_sub(1, Ordering::Release);
    }
}

/// Runs cycles until the scheduler stops.
pub(crate) fn run(sched: &'static Sched) {
    let collection = &sched.collection;
    let mut collector = Collector::new(sched);
    if collection.prints && !collection.can_claim {
        eprintln!(
            "gmp: gctrace: the kernel allows no membarrier, so stacks of goroutines that wait keep their memory"
        );
    }
    loop {
        // ordering: Acquire; pairs with the Release in `wake`.
        let seen = collection.word.load(Ordering::Acquire);
        if sched.stopping() {
            return;
        }
        let now = monotonic_ns();
        match collector.due(now) {
            Some(cause) => collector.cycle(cause, now),
            None => {
                futex::wait(&collection.word, seen, None);
            }
        }
    }
}

/// A goroutine that had pages to give back when it was looked at.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    g: GRef,
    /// The lowest address of its stack that is in use.
    in_use: usize,
    pages: u64,
}

/// What the thread has: taken at its start, so that nothing is allocated in a cycle.
struct Collector {
    sched: &'static Sched,
    releaser: Releaser,
    batch: Vec<Candidate>,
    pace: Pace,
    started: u64,
    /// Processor time of the thread when it last rested.
    rested: u64,
    /// The generation of the trace that knows of the cycle.
    told: u32,
}

impl Collector {
    fn new(sched: &'static Sched) -> Collector {
        let now = monotonic_ns();
        Collector {
            sched,
            releaser: Releaser::new(),
            batch: Vec::with_capacity(BATCH),
            pace: Pace::new(sched.collection.goal, now),
            started: now,
            rested: 0,
            told: 0,
        }
    }

    fn due(&mut self, now: u64) -> Option<Cause> {
        if self.sched.collection.waiting.lock().len() != 0 {
            return Some(Cause::Called);
        }
        let (releaser, stacks) = (&mut self.releaser, self.sched.stacks);
        self.pace.due(now, || releaser.resident_stack_bytes(stacks))
    }

    fn cycle(&mut self, cause: Cause, begin: u64) {
        let collection = &self.sched.collection;
        // ordering: Relaxed: it is taken back with Release.
        collection.pending.fetch_add(1, Ordering::Relaxed);
        let waited = std::mem::replace(&mut *collection.waiting.lock(), GList::new());
        let cycle = collection.stats().cycles + 1;
        if collection.prints && cause == Cause::Period {
            signal::write_stderr(b"GC forced\n");
        }
        let cpu_begin = thread_cpu_ns();
        self.rested = cpu_begin;
        self.told = crate::trace::gc_begin(self.sched, cycle);

        let before = self.releaser.resident_stack_bytes(self.sched.stacks);
        let mut released = self.release_of_waiting(cycle);
        self.sched.flush_idle_stacks();
        released.add(self.releaser.trim(self.sched.stacks));
        let collected = registry::collect();
        let after = self.releaser.resident_stack_bytes(self.sched.stacks);

        self.tell_trace(cycle);
        crate::trace::gc_end(self.sched, cycle, released.pages, released.stacks);
        let now = monotonic_ns();
        let goal = self.pace.ended(now, after);
        let stats = {
            let mut stats = collection.stats.lock();
            stats.cycles = cycle;
            stats.forced += u64::from(cause == Cause::Called);
            stats.pages += released.pages;
            stats.stacks += released.stacks;
            stats.collected = stats.collected.saturating_add(collected);
            stats.stack_bytes = after;
            stats.goal = goal;
            stats.elapsed_ns += now - begin;
            stats.cpu_ns += thread_cpu_ns() - cpu_begin;
            *stats
        };
        if collection.prints {
            let line = Line {
                cycle,
                since_start_ns: now - self.started,
                all_cpu_ns: stats.cpu_ns,
                elapsed_ns: now - begin,
                cpu_ns: thread_cpu_ns() - cpu_begin,
                before,
                after,
                goal,
                released,
                collected,
                procs: self.sched.proc_count(),
                called: cause == Cause::Called,
            };
            signal::write_stderr(format!("{line}\n").as_bytes());
        }
        collection.wake_all(waited);
        collection.end_of_wait();
        self.look_for_deadlock();
    }

    /// Ms that went to sleep during the cycle took it for somebody who may wake goroutines.
    fn look_for_deadlock(&self) {
        deadlock::check_if_asleep(self.sched);
    }

    /// Gives back what goroutines that wait do not use.
    fn release_of_waiting(&mut self, cycle: u64) -> Released {
        let mut released = Released::default();
        if !self.sched.collection.can_claim {
            return released;
        }
        let table = &self.sched.table;
        let mut index = 0;
        while index < table.len() && !self.sched.stopping() {
            let g = table.get(index);
            index += 1;
            if let Some(in_use) = waits_at(g) {
                let pages = self.releaser.resident_below(in_use);
                if pages > 0 {
                    self.batch.push(Candidate { g, in_use, pages });
                }
            }
            if self.batch.len() == BATCH || (index == table.len() && !self.batch.is_empty()) {
                released.add(self.release_batch());
            }
            if index.is_multiple_of(BATCH) {
                self.rest_if_due();
                self.tell_trace(cycle);
            }
        }
        released.add(self.release_batch());
        released
    }

    /// Claims the goroutines of the batch and drops their pages, but for those that run meanwhile.
    fn release_batch(&mut self) -> Released {
        let mut released = Released::default();
        for candidate in &self.batch {
            candidate.g.claim.claim();
        }
        // fence: ClaimFence; pairs with StartFence in `Claim::yield_to_owner`. Without it nothing is claimed.
        let fenced = !self.batch.is_empty() && memory_barrier::barrier().is_ok();
        for candidate in self.batch.drain(..) {
            let claim = &candidate.g.claim;
            let in_use = waits_at(candidate.g).filter(|_| fenced);
            let Some(in_use) = in_use else {
                claim.withdraw();
                continue;
            };
            if !claim.begin() {
                continue;
            }
            // SAFETY: the goroutine waits, its stack has been left, and it is not started before the claim is
            // over: see `sched::claim`. Below `in_use` nobody needs anything.
            let dropped = unsafe { Releaser::release_below(in_use) };
            claim.finish();
            // One that ran since it was looked at has other pages.
            if dropped.is_ok() && in_use == candidate.in_use {
                released.add(Released {
                    pages: candidate.pages,
                    stacks: 1,
                });
            }
        }
        released
    }

    /// Keeps to the cycle's share of the processors.
    fn rest_if_due(&mut self) {
        let now = thread_cpu_ns();
        let worked = now - self.rested;
        if worked < WORK_BETWEEN_RESTS_NS {
            return;
        }
        self.rested = now;
        let procs = u64::from(self.sched.proc_count());
        if self.sched.idle.idle_ps() == 0 && procs < PS_FOR_ONE_COLLECTOR {
            let word = &self.sched.collection.word;
            // ordering: Relaxed: whoever wakes it ends the rest, no more.
            let seen = word.load(Ordering::Relaxed);
            let rest = worked * (PS_FOR_ONE_COLLECTOR - procs) / procs;
            futex::wait(word, seen, Some(rest));
        }
    }

    /// Tells a generation of the trace that began meanwhile of the cycle.
    fn tell_trace(&mut self, cycle: u64) {
        self.told = crate::trace::gc_active(self.sched, cycle, self.told);
    }
}

/// The lowest address that `g` needs of its stack, if it waits and has been left.
fn waits_at(g: GRef) -> Option<usize> {
    // The state first: `sched::claim` needs that.
    if g.state() == GState::Waiting as u32 {
        g.context.in_use_from()
    } else {
        None
    }
}
