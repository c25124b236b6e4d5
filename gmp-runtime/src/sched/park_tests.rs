//! Models of the permit of `park` and `unpark`: givers, and one goroutine that waits.

use super::{await_permit, put_permit, take_permit};
use crate::prim::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;
use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

/// How a `park` ended: a permit was there, one came while it began to wait, a giver woke it.
type Ends = [Count; 3];

/// A goroutine that parks until every giver's flag is set, on an M of its own.
struct World {
    permit: AtomicU32,
    /// What each giver did before it gave.
    given: Vec<AtomicBool>,
    /// Whether the goroutine waits: only then it may be made ready, and once.
    waits: AtomicBool,
    ready: Notify,
    ends: std::sync::Arc<Ends>,
}

impl World {
    fn new(givers: usize, ends: std::sync::Arc<Ends>) -> World {
        World {
            permit: AtomicU32::new(0),
            given: (0..givers).map(|_| AtomicBool::new(false)).collect(),
            waits: AtomicBool::new(false),
            ready: Notify::new(),
            ends,
        }
    }

    fn make_ready(&self) {
        // ordering: AcqRel: whoever makes it ready hands it over, as a run queue does.
        let waited = self.waits.swap(false, Ordering::AcqRel);
        assert!(waited, "made ready twice");
        self.ready.notify();
    }

    fn park(&self) {
        if take_permit(&self.permit) {
            self.ends[0].fetch_add(1, SeqCst);
            return;
        }
        // ordering: Relaxed: the permit publishes it.
        self.waits.store(true, Ordering::Relaxed);
        // The post-switch action: the goroutine has been left.
        if await_permit(&self.permit) {
            self.ends[1].fetch_add(1, SeqCst);
            self.make_ready();
        }
        // loom's waits may end for no reason.
        // ordering: Acquire; pairs with the swap in `make_ready`.
        while self.waits.load(Ordering::Acquire) {
            self.ready.wait();
        }
    }

    fn give(&self, giver: usize) {
        // ordering: Relaxed: the permit must publish it.
        self.given[giver].store(true, Ordering::Relaxed);
        if put_permit(&self.permit) {
            self.ends[2].fetch_add(1, SeqCst);
            self.make_ready();
        }
    }

    fn run(&self) {
        // ordering: Relaxed: the permit must have published them. A goroutine that does not see one waits
        // for good, which loom reports as a deadlock.
        while !self.given.iter().all(|given| given.load(Ordering::Relaxed)) {
            self.park();
        }
    }
}

fn model(givers: usize) {
    let ends = std::sync::Arc::new(Ends::default());
    let noted = ends.clone();
    loom::model(move || {
        let world = Arc::new(World::new(givers, noted.clone()));
        let threads: Vec<_> = (0..givers)
            .map(|giver| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.give(giver))
            })
            .collect();
        world.run();
        for thread in threads {
            thread.join().unwrap();
        }
        // ordering: Relaxed: all threads have ended.
        assert!(!world.waits.load(Ordering::Relaxed));
    });
    let ends = [0, 1, 2].map(|end| ends[end].load(SeqCst));
    assert!(ends.iter().all(|&seen| seen > 0), "{ends:?}");
    println!("permits {ends:?} times: there, just come, given to one that waits");
}

#[test]
fn loom_one_permit_wakes() {
    model(1);
}

#[test]
fn loom_two_givers_wake_once_and_both_are_seen() {
    model(2);
}
