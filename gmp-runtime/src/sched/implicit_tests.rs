//! A model of the protocol: a goroutine that enters the runtime and a monitor that takes its P never both have it.

use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::thread;

use crate::lock::{Rank, SpinLock};
use crate::prim::cell::UnsafeCell;
use crate::sched::mark::Mark;

struct Model {
    mark: Mark,
    /// Who has the P, as the lock says: the goroutine while true.
    held: SpinLock<bool>,
    /// What belongs to whoever has the P.
    of_p: UnsafeCell<u32>,
    taken: AtomicBool,
}

#[test]
fn loom_a_p_is_taken_from_outside_only() {
    let outcomes = std::sync::Arc::new([Count::new(0), Count::new(0)]);
    let noted = outcomes.clone();
    loom::model(move || {
        let model = Arc::new(Model {
            mark: Mark::new(),
            held: SpinLock::new(Rank::Sched, true),
            of_p: UnsafeCell::new(0),
            taken: AtomicBool::new(false),
        });
        // SAFETY: the cell's accesses are what the model checks.
        model.of_p.with_mut(|of_p| unsafe { *of_p += 1 });
        model.mark.leave();
        let of_monitor = Arc::clone(&model);
        let monitor = thread::spawn(move || {
            let mut held = of_monitor.held.lock();
            if of_monitor.mark.is_inside() {
                return;
            }
            of_monitor.mark.set_taken(true);
            fence(Ordering::SeqCst);
            if of_monitor.mark.is_inside() {
                of_monitor.mark.set_taken(false);
                return;
            }
            *held = false;
            drop(held);
            // SAFETY: as above.
            of_monitor.of_p.with_mut(|of_p| unsafe { *of_p += 1 });
            // ordering: Relaxed: read after the join.
            of_monitor.taken.store(true, Ordering::Relaxed);
        });
        let mut has_p = true;
        if model.mark.enter() {
            let held = model.held.lock();
            if model.mark.is_taken() {
                model.mark.set_taken(false);
                has_p = *held;
            }
        }
        if has_p {
            // SAFETY: as above.
            model.of_p.with_mut(|of_p| unsafe { *of_p += 1 });
        }
        monitor.join().unwrap();
        // ordering: Relaxed: joined.
        assert_ne!(model.taken.load(Ordering::Relaxed), has_p);
        noted[usize::from(has_p)].fetch_add(1, SeqCst);
    });
    let outcomes = [0, 1].map(|kept| outcomes[kept].load(SeqCst));
    println!("{outcomes:?} executions in which the P was taken, and kept");
    assert!(outcomes.iter().all(|&seen| seen > 0), "{outcomes:?}");
}
