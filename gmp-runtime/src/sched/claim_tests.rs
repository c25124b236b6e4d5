//! Tests of [`Claim`](super::Claim): its rules, and models of a cycle against starts.

use super::*;

#[cfg(not(loom))]
mod rules {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_claim_that_was_taken_back_cannot_be_begun() {
        let claim = Claim::new();
        claim.claim();
        claim.yield_to_owner();
        assert!(!claim.begin());
        claim.withdraw();
        claim.yield_to_owner();
    }

    #[test]
    fn a_claim_that_was_withdrawn_binds_nobody() {
        let claim = Claim::new();
        claim.claim();
        claim.withdraw();
        assert!(!claim.begin());
        claim.yield_to_owner();
    }

    #[test]
    fn a_start_waits_for_pages_that_are_being_dropped() {
        // ordering: SeqCst, all of them: a test.
        let (claim, done) = (Arc::new(Claim::new()), Arc::new(AtomicU32::new(0)));
        claim.claim();
        assert!(claim.begin());
        let starter = {
            let (claim, done) = (Arc::clone(&claim), Arc::clone(&done));
            std::thread::spawn(move || {
                claim.yield_to_owner();
                done.load(Ordering::SeqCst)
            })
        };
        // Until it sleeps: then the wake is what ends it.
        while claim.0.load(Ordering::SeqCst) != AWAITED {
            std::thread::yield_now();
        }
        done.store(1, Ordering::SeqCst);
        claim.finish();
        assert_eq!(starter.join().unwrap(), 1);
    }
}

/// A goroutine that is started and parks again while a cycle runs. The stack is a cell: loom reports two that
/// touch it at a time, and whoever touches it without having seen what the other did.
#[cfg(loom)]
mod models {
    use super::*;
    use crate::prim::atomic::{AtomicUsize, fence};
    use crate::prim::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;
    use std::sync::atomic::AtomicUsize as Count;

    /// Runs `model`, which says how often pages were dropped, beside the goroutine: never, and once or more, must come.
    fn check(model: impl Fn() -> usize + Send + Sync + 'static) {
        let seen = std::sync::Arc::new([Count::new(0), Count::new(0)]);
        let noted = seen.clone();
        loom::model(move || {
            noted[model().min(1)].fetch_add(1, Ordering::SeqCst);
        });
        let seen = [0, 1].map(|times| seen[times].load(Ordering::SeqCst));
        assert!(seen.iter().all(|&seen| seen > 0), "{seen:?}");
        println!(
            "{} executions, pages dropped in {}",
            seen[0] + seen[1],
            seen[1]
        );
    }

    const WAITING: u32 = 4;
    const RUNNABLE: u32 = 1;
    const RUNNING: u32 = 2;

    struct World {
        claim: Claim,
        state: AtomicU32,
        /// Where it is suspended: the number of its park, from 1; 0 while it runs.
        place: AtomicUsize,
        /// The place up to which the stack is in use, as the goroutine left it; then what was dropped.
        stack: UnsafeCell<(usize, usize)>,
    }

    // SAFETY: the cell is what the models are about: loom checks it.
    unsafe impl Sync for World {}
    // SAFETY: as above.
    unsafe impl Send for World {}

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World {
                claim: Claim::new(),
                state: AtomicU32::new(WAITING),
                place: AtomicUsize::new(1),
                stack: UnsafeCell::new((1, 0)),
            })
        }

        /// Makes the goroutine ready, starts it, and parks it again, `turns` times.
        fn run(&self, turns: usize) {
            for turn in 0..turns {
                // ordering: as in `G::transition`.
                self.state.store(RUNNABLE, Ordering::Release);
                // ordering: as above.
                self.state.store(RUNNING, Ordering::Release);
                self.claim.yield_to_owner();
                // ordering: Relaxed, as in the switch.
                self.place.store(0, Ordering::Relaxed);
                // SAFETY: see the type.
                self.stack.with_mut(|stack| unsafe { (*stack).0 = 0 });
                // ordering: as above.
                self.state.store(WAITING, Ordering::Release);
                // It still runs, on the way to the switch.
                // SAFETY: see the type.
                self.stack
                    .with_mut(|stack| unsafe { (*stack).0 = turn + 2 });
                // ordering: Release: the last instruction on the stack.
                self.place.store(turn + 2, Ordering::Release);
            }
        }

        /// One look at the goroutine; whether pages were dropped.
        fn collect(&self) -> bool {
            self.claim.claim();
            // ordering: SeqCst; ClaimFence: a membarrier, which is a full fence in a model.
            fence(Ordering::SeqCst);
            // ordering: Acquire, both, as in the cycle.
            let waits = self.state.load(Ordering::Acquire) == WAITING;
            // ordering: as above.
            let place = self.place.load(Ordering::Acquire);
            if !waits || place == 0 || !self.claim.begin() {
                self.claim.withdraw();
                return false;
            }
            // SAFETY: see the type.
            self.stack.with_mut(|stack| unsafe {
                assert_eq!((*stack).0, place, "pages in use were dropped");
                (*stack).1 += 1;
            });
            self.claim.finish();
            true
        }

        fn dropped(&self) -> usize {
            // SAFETY: all threads have ended.
            self.stack.with_mut(|stack| unsafe { (*stack).1 })
        }
    }

    #[test]
    fn loom_no_goroutine_runs_while_its_pages_are_dropped() {
        check(|| {
            let world = World::new();
            let goroutine = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.run(2))
            };
            let times = usize::from(world.collect());
            goroutine.join().unwrap();
            assert_eq!(world.dropped(), times);
            // Nothing of the claim is left, and a goroutine that waits is collected.
            assert!(world.collect());
            assert_eq!(world.dropped(), times + 1);
            times
        });
    }

    #[test]
    fn loom_two_cycles_and_one_start() {
        check(|| {
            let world = World::new();
            let goroutine = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.run(1))
            };
            let times = usize::from(world.collect()) + usize::from(world.collect());
            goroutine.join().unwrap();
            assert_eq!(world.dropped(), times);
            times
        });
    }
}
