//! Models of a stop of the world: whoever stops it, and Ms that run with a P, take one, or are woken as the next stop
//! begins. What the world's word, its fences and its sleeps do is the code that runs; around it is as much of the
//! scheduler as they need. In a model no time passes, so nobody is asked again: each wake has to come.

use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::lock::{Rank, SpinLock};
use crate::prim::atomic::AtomicBool;
use crate::prim::cell::UnsafeCell;

/// A world with one P and one M.
struct Model {
    world: World,
    shared: SpinLock<()>,
    /// Whether the M says that it has the P. As `P::set_m`: written without the lock.
    held: AtomicBool,
    /// As `M::safe_point`.
    safe_point: AtomicU32,
    /// What goroutines do: only while the world goes on.
    steps: UnsafeCell<u32>,
}

/// What came about in one execution.
#[derive(Default)]
struct Seen {
    /// Stops of a P that nobody held; of an M at its safe point.
    free: Count,
    stopped: Count,
    /// Executions with two stops of which each found the M at its safe point.
    both: Count,
}

impl Model {
    fn new(held: bool) -> Arc<Model> {
        Arc::new(Model {
            world: World::new(Fences::SYMMETRIC),
            shared: SpinLock::new(Rank::Sched, ()),
            held: AtomicBool::new(held),
            safe_point: AtomicU32::new(0),
            steps: UnsafeCell::new(0),
        })
    }

    /// A step of a goroutine, or of whoever stopped the world: loom reports two at once, and one that does not see the
    /// other.
    fn step(&self) -> u32 {
        self.steps.with_mut(|steps| {
            // SAFETY: whether this is the only access is what the model is about.
            unsafe {
                *steps += 1;
                *steps
            }
        })
    }

    /// As `begin`, `f` and the drop of `Stopped`; true if it found the M at its safe point.
    fn stop_the_world(&self, f: impl FnOnce()) -> bool {
        let world = &self.world;
        {
            let _shared = self.shared.lock();
            world.turn_over();
        }
        world.fences.rare();
        let at_safe_point = world.wait_for_arrivals(|_| {
            // As `ask_to_stop`.
            let _shared = self.shared.lock();
            // ordering: Relaxed, as in `P::m`.
            if !self.held.load(Ordering::Relaxed) {
                return Some(false);
            }
            world.has_at(&self.safe_point).then_some(true)
        });
        f();
        {
            let _shared = self.shared.lock();
            world.turn_over();
        }
        world.wake_all();
        at_safe_point
    }

    /// As `stop_here`; how many stops it was at a safe point of.
    fn stop_here(&self) -> usize {
        let mut stops = 0;
        loop {
            let seen = {
                let _shared = self.shared.lock();
                let seen = self.world.word();
                if !is_odd(seen) {
                    return stops;
                }
                if !self.world.has_at(&self.safe_point) {
                    stops += 1;
                    // ordering: Relaxed: under the lock.
                    self.safe_point.store(seen, Ordering::Relaxed);
                }
                seen
            };
            self.world.sleep_at_safe_point(seen);
        }
    }

    /// As `acquire_p` and what comes after it.
    fn take_p(&self) -> usize {
        // ordering: Relaxed, as in `P::set_m`.
        self.held.store(true, Ordering::Relaxed);
        if self.world.is_wanted_with_p() {
            self.stop_here()
        } else {
            0
        }
    }

    /// Gives the P up, unless the world is to stop: then it stops first.
    fn release_p(&self) -> usize {
        let mut stops = 0;
        loop {
            {
                let _shared = self.shared.lock();
                if !self.world.is_to_stop() {
                    // ordering: Relaxed, as in `P::set_m`.
                    self.held.store(false, Ordering::Relaxed);
                    return stops;
                }
            }
            stops += self.stop_here();
        }
    }
}

/// Runs `stops` stops of the world beside an M that does `work`, which says how many it was stopped by and how often it
/// made a step.
fn check(stops: usize, held: bool, work: fn(&Model) -> (usize, u32), assert_seen: fn([usize; 3])) {
    let seen = std::sync::Arc::new(Seen::default());
    let noted = seen.clone();
    loom::model(move || {
        let model = Model::new(held);
        let m = {
            let model = Arc::clone(&model);
            thread::spawn(move || work(&model))
        };
        let mut at_safe_point = 0;
        for _ in 0..stops {
            let stopped = model.stop_the_world(|| {
                let before = model.step();
                thread::yield_now();
                assert_eq!(model.step(), before + 1, "nobody runs meanwhile");
            });
            at_safe_point += usize::from(stopped);
            let kind = if stopped { &noted.stopped } else { &noted.free };
            kind.fetch_add(1, SeqCst);
        }
        let (was_stopped, steps) = m.join().unwrap();
        assert_eq!(
            model.step(),
            2 * stops as u32 + steps + 1,
            "no step is lost"
        );
        assert!(!model.world.is_to_stop());
        // It may come to its safe point of a stop that did not wait for it, because it did not have the P yet.
        assert!(at_safe_point <= was_stopped && was_stopped <= stops);
        if was_stopped == 2 && at_safe_point == 2 {
            noted.both.fetch_add(1, SeqCst);
        }
    });
    let seen = [&seen.free, &seen.stopped, &seen.both].map(|count| count.load(SeqCst));
    println!("{seen:?} of: nobody had the P, at a safe point, at two one after the other");
    assert_seen(seen);
}

/// It runs goroutines, and looks in between.
#[test]
fn loom_an_m_that_runs_comes_to_its_safe_point() {
    check(
        1,
        true,
        |model| {
            let mut stops = 0;
            for _ in 0..2 {
                if model.world.is_to_stop() {
                    stops += model.stop_here();
                }
                model.step();
            }
            (stops + model.release_p(), 2)
        },
        |[free, stopped, _]| assert!(free > 0 && stopped > 0),
    );
}

/// A P that is on its way to an M: either it is seen to have it, or it sees that the world is to stop.
#[test]
fn loom_an_m_that_takes_a_p_is_seen_or_sees() {
    check(
        1,
        false,
        |model| {
            model.world.wait_until_it_goes_on();
            let stops = model.take_p();
            model.step();
            (stops + model.release_p(), 1)
        },
        |[free, stopped, _]| assert!(free > 0 && stopped > 0),
    );
}

/// An M that has not woken yet, or just has, when the next stop begins.
#[test]
fn loom_two_stops_one_after_the_other() {
    check(
        2,
        true,
        |model| {
            let mut stops = 0;
            if model.world.is_to_stop() {
                stops += model.stop_here();
            }
            model.step();
            (stops + model.release_p(), 1)
        },
        |[free, stopped, both]| assert!(free > 0 && stopped > 0 && both > 0),
    );
}
