//! A model of the exchange that decides who has a P after a system call: its M, or the monitor.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::sched::m::M;
use crate::sched::p::P;
use crate::sched::refs::MRef;

/// A P, and something plain that belongs to whoever holds it.
struct World {
    p: P,
    plain: UnsafeCell<u32>,
}

impl World {
    /// The holder of the P uses it.
    fn touch(&self) -> u32 {
        self.plain.with_mut(|value| {
            // SAFETY: loom reports two at once, and one that the other's writes have not reached.
            unsafe {
                *value += 1;
                *value
            }
        })
    }
}

/// The M of a call: an address, which nobody follows.
fn some_m() -> MRef {
    MRef::from_ptr(NonNull::<M>::dangling().as_ptr()).expect("not null")
}

/// An M makes two calls; the monitor tries to take the P from whatever call it sees. Of each call one comes
/// out with the P, and has it alone.
#[test]
fn loom_a_call_ends_with_one_holder() {
    let outcomes = std::sync::Arc::new([Count::new(0), Count::new(0)]);
    let noted = outcomes.clone();
    loom::model(move || {
        let world = Arc::new(World {
            p: P::new(0, 0),
            plain: UnsafeCell::new(0),
        });
        let monitor = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let Some(m) = world.p.in_call_of() else {
                    return false;
                };
                let taken = world.p.take_from_call(m);
                if taken {
                    world.touch();
                }
                taken
            })
        };
        let mut uses = 0;
        let mut lost = false;
        for _ in 0..2 {
            uses = world.touch();
            world.p.begin_call(some_m());
            lost = !world.p.take_from_call(some_m());
            if lost {
                break;
            }
            uses = world.touch();
        }
        let taken = monitor.join().expect("the monitor ends");
        assert_eq!(taken, lost, "one holder");
        assert_eq!(
            world.touch(),
            uses + u32::from(taken) + 1,
            "nobody's use is lost"
        );
        noted[usize::from(lost)].fetch_add(1, SeqCst);
    });
    let outcomes = [0, 1].map(|lost| outcomes[lost].load(SeqCst));
    println!("{outcomes:?} executions in which the P was kept, and lost");
    assert!(outcomes.iter().all(|&seen| seen > 0), "{outcomes:?}");
}
