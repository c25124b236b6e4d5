//! Models of [`Keeper`](super::Keeper): Ms that go to sleep, with the real counters, while deadlines are published.
//!
//! Publishers hold a P and do not look at its timers, like goroutines that compute for a long time; so a deadline
//! that the timekeeper does not know of never comes, its M sleeps for good, and loom reports a deadlock. Time passes
//! while the timekeeper sleeps, up to the deadline that it sleeps until; [`NEVER`] is too far away to come.

use super::*;
use crate::sys::memory_barrier::Fences;
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;

/// Bookkeeping of the test, not part of the model: plain atomics that loom does not explore.
use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

/// A deadline that does not come.
const NEVER: u64 = 1_000;

/// What a publisher does, on P 0.
#[derive(Clone, Copy)]
enum Step {
    /// The earliest deadline becomes a later one: nobody is told.
    Cancel(u64),
    /// It becomes an earlier one.
    Publish(u64),
    /// An M is woken for work, and finds none.
    Wake,
    /// The P goes into a system call, and the monitor takes it and puts it on the idle list.
    GiveUp,
}

#[derive(Default)]
struct Lists {
    idle_ps: Vec<usize>,
    idle_ms: Vec<usize>,
    /// Ps that wait for an M.
    awaiting_ps: Vec<usize>,
}

struct World {
    counters: IdleCounters,
    keeper: Keeper,
    /// The earliest deadline of P 0; the others have none.
    deadline: AtomicU64,
    lists: Mutex<Lists>,
    /// What the timekeeper sleeps in.
    poll: Notify,
    parkers: Vec<Notify>,
    /// The P given to each parked M, one more than its number; zero for none.
    given: Vec<Count>,
    /// Timers that fired.
    fired: Count,
    /// How often the timekeeper slept for a deadline that does not come, and an M as one of many.
    sleeps: [Count; 2],
}

impl World {
    /// The first M has P 1, the others have none and sleep.
    fn new(ms: usize, deadline: u64) -> World {
        let lists = Lists {
            idle_ms: (1..ms).collect(),
            ..Lists::default()
        };
        World {
            counters: IdleCounters::new(Fences::SYMMETRIC),
            keeper: Keeper::new(),
            deadline: AtomicU64::new(deadline),
            lists: Mutex::new(lists),
            poll: Notify::new(),
            parkers: (0..ms).map(|_| Notify::new()).collect(),
            given: (0..ms).map(|_| Count::new(0)).collect(),
            fired: Count::new(0),
            sleeps: [Count::new(0), Count::new(0)],
        }
    }

    fn earliest(&self) -> u64 {
        // ordering: Relaxed, as in `P::next_timer`.
        self.deadline.load(Ordering::Relaxed)
    }

    fn over(&self) -> bool {
        self.fired.load(SeqCst) > 0
    }

    // ---- the publisher

    fn publish(&self, plan: &[Step]) {
        for &step in plan {
            match step {
                // ordering: Relaxed, as in `P::publish_next_timer`.
                Step::Cancel(until) => self.deadline.store(until, Ordering::Relaxed),
                Step::Publish(deadline) => {
                    // ordering: as above.
                    self.deadline.store(deadline, Ordering::Relaxed);
                    self.deadline_added(deadline);
                }
                Step::Wake => self.wake_if_needed(),
                Step::GiveUp => {
                    self.put_idle_p(0);
                    self.counters.recheck_before_sleep(false);
                    self.deadline_added(self.earliest());
                }
            }
        }
    }

    fn deadline_added(&self, deadline: u64) {
        match self.keeper.whom_to_tell(&self.counters, deadline) {
            Tell::Nobody | Tell::Monitor => {}
            Tell::AnyM => self.wake_if_needed(),
            Tell::Keeper => self.poll.notify(),
        }
    }

    fn wake_if_needed(&self) {
        if !self.counters.submit_needs_wake() {
            return;
        }
        let mut lists = self.lists.lock().unwrap();
        let Some(p) = lists.idle_ps.pop() else {
            self.counters.cancel_wake();
            return;
        };
        self.counters.p_left_idle();
        match lists.idle_ms.pop() {
            Some(m) => {
                drop(lists);
                self.given[m].store(p + 1, SeqCst);
                self.parkers[m].notify();
            }
            None => lists.awaiting_ps.push(p),
        }
    }

    // ---- the Ms

    fn put_idle_p(&self, p: usize) {
        let mut lists = self.lists.lock().unwrap();
        lists.idle_ps.push(p);
        self.counters.p_became_idle();
    }

    fn take_idle_p(&self) -> Option<usize> {
        let mut lists = self.lists.lock().unwrap();
        let p = lists.idle_ps.pop()?;
        self.counters.p_left_idle();
        Some(p)
    }

    /// One M, with a P and spinning, or asleep, as `begin` says.
    fn run_m(&self, m: usize, begin: Option<usize>) {
        let mut has = begin;
        if begin.is_some() {
            self.counters.resume_spinning();
        } else {
            has = self.sleep(m);
        }
        while let Some(p) = has {
            // It finds nothing to do.
            self.put_idle_p(p);
            self.counters.recheck_before_sleep(true);
            has = match self.wait() {
                Some(p) => {
                    self.counters.resume_spinning();
                    Some(p)
                }
                None => self.go_to_sleep(m),
            };
        }
    }

    /// As `wait`.
    fn wait(&self) -> Option<usize> {
        loop {
            if !self.keeper.take_office() {
                if self.keeper.sleeps_too_long(|| self.earliest()) {
                    self.poll.notify();
                }
                return None;
            }
            let p = self.keep();
            self.keeper.leave_office();
            let is_needed = !self.over() && self.earliest() != NO_DEADLINE;
            if p.is_some() || !is_needed || self.counters.idle_ps() == 0 {
                return p;
            }
        }
    }

    /// As `Keeper::keep`.
    fn keep(&self) -> Option<usize> {
        let mut now = 0;
        loop {
            let deadline = self.keeper.announce(|| self.earliest());
            if self.over() || self.earliest() == NO_DEADLINE {
                return None;
            }
            if deadline > now {
                if deadline < NEVER {
                    now = deadline;
                } else {
                    self.sleeps[0].fetch_add(1, SeqCst);
                    self.poll.wait();
                }
                continue;
            }
            let p = self.take_idle_p()?;
            self.fired.fetch_add(1, SeqCst);
            self.end();
            return Some(p);
        }
    }

    fn go_to_sleep(&self, m: usize) -> Option<usize> {
        {
            let mut lists = self.lists.lock().unwrap();
            if let Some(p) = lists.awaiting_ps.pop() {
                return Some(p); // counted as spinning by whoever claimed the wake
            }
            lists.idle_ms.push(m);
        }
        self.sleep(m)
    }

    /// Sleeps until there is a P; `None` at the end.
    fn sleep(&self, m: usize) -> Option<usize> {
        while !self.over() {
            match self.given[m].swap(0, SeqCst) {
                0 => {
                    self.sleeps[1].fetch_add(1, SeqCst);
                    self.parkers[m].wait();
                }
                p => return Some(p - 1),
            }
        }
        None
    }

    /// The deadline has come: everybody goes home.
    fn end(&self) {
        // ordering: Relaxed: for the one who keeps the time after this.
        self.deadline.store(NO_DEADLINE, Ordering::Relaxed);
        self.parkers.iter().for_each(Notify::notify);
        self.poll.notify();
    }
}

/// Runs `plan` against `ms` Ms, when the earliest deadline is `first`. Each execution ends when a deadline has come.
fn check(preemptions: usize, ms: usize, first: u64, plan: &'static [Step]) -> [usize; 2] {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.map(|bound| bound.max(preemptions));
    let executions = std::sync::Arc::new(Count::new(0));
    let slept = std::sync::Arc::new([Count::new(0), Count::new(0)]);
    let (counted, sleeps) = (executions.clone(), slept.clone());
    builder.check(move || {
        let world = Arc::new(World::new(ms, first));
        let threads: Vec<_> = (0..ms)
            .map(|m| {
                let world = world.clone();
                thread::spawn(move || world.run_m(m, (m == 0).then_some(1)))
            })
            .collect();
        world.publish(plan);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(world.fired.load(SeqCst), 1, "timers that fired");
        counted.fetch_add(1, SeqCst);
        for (all, here) in sleeps.iter().zip(&world.sleeps) {
            all.fetch_add(here.load(SeqCst), SeqCst);
        }
    });
    let (executions, sleeps) = (
        executions.load(SeqCst),
        [0, 1].map(|i| slept[i].load(SeqCst)),
    );
    assert!(executions > 1, "loom explored nothing");
    println!("{executions} executions, {sleeps:?} sleeps");
    sleeps
}

/// There is no deadline yet, and perhaps no timekeeper any more.
#[test]
fn loom_a_first_deadline_while_the_only_m_goes_to_sleep() {
    let [_, parked] = check(3, 1, NO_DEADLINE, &[Step::Publish(5)]);
    assert!(parked > 0, "no M ever slept, so nothing was shown");
}

#[test]
fn loom_an_earlier_deadline_while_the_timekeeper_goes_to_sleep() {
    let [kept, _] = check(3, 1, NEVER, &[Step::Publish(5)]);
    assert!(kept > 0, "the timekeeper never slept");
}

/// The timekeeper has announced a deadline that is cancelled, and the next one comes after that.
#[test]
fn loom_a_deadline_between_a_cancelled_one_and_the_next() {
    let [kept, _] = check(3, 1, 5, &[Step::Cancel(NEVER), Step::Publish(10)]);
    assert!(kept > 0, "the timekeeper never slept");
}

/// The deadline is published while the other M has the only idle P, or is about to release it.
#[test]
fn loom_a_deadline_that_nobody_was_told_of() {
    let [kept, parked] = check(3, 2, NEVER, &[Step::Wake, Step::Publish(5)]);
    assert!(kept > 0 && parked > 0, "{kept} {parked}");
}

/// The P with the deadline becomes idle while the timekeeper leaves for want of one.
#[test]
fn loom_a_p_that_is_given_up_with_its_deadline() {
    let [_, parked] = check(3, 2, 5, &[Step::Wake, Step::GiveUp]);
    assert!(parked > 0, "no M ever slept");
}
