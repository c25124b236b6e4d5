//! Tests of [`IdleCounters`](super::IdleCounters): its rules, and models of the protocol of waking and
//! sleeping with the real run queues.

use super::*;

#[cfg(not(loom))]
mod rules {
    use super::*;

    #[test]
    fn the_halves_of_the_word_are_disjoint_and_cover_it() {
        assert_eq!(IDLE_MASK & SPINNING_MASK, 0);
        assert_eq!(IDLE_MASK | SPINNING_MASK, u32::MAX);
        assert_eq!(Word(3 * ONE_IDLE + 2).idle(), 3);
        assert_eq!(Word(3 * ONE_IDLE + 2).spinning(), 2);
    }

    #[test]
    fn one_is_woken_at_a_time_and_only_for_an_idle_p() {
        let counters = IdleCounters::new(Fences::SYMMETRIC);
        assert!(!counters.submit_needs_wake(), "no P is idle");
        counters.p_became_idle();
        counters.p_became_idle();
        assert!(counters.submit_needs_wake());
        assert!(!counters.submit_needs_wake(), "one spins already");
        counters.p_left_idle();
        // It finds work: the next one is woken.
        assert!(counters.end_spinning_with_work());
        counters.p_left_idle();
        assert!(!counters.end_spinning_with_work(), "no P is idle any more");
        assert_eq!((counters.idle_ps(), counters.spinning_ms()), (0, 0));
    }

    #[test]
    fn a_withdrawn_claim_leaves_a_note() {
        let counters = IdleCounters::new(Fences::SYMMETRIC);
        counters.p_became_idle();
        assert!(counters.submit_needs_wake());
        counters.p_left_idle();
        counters.cancel_wake();
        assert_eq!((counters.idle_ps(), counters.spinning_ms()), (0, 0));
        assert!(counters.take_need_spinning());
        assert!(!counters.take_need_spinning(), "it is taken once");
    }

    #[test]
    fn at_most_half_of_the_busy_spin() {
        let mut checked = 0;
        for (procs, idle, most) in [
            (1, 0, 1),
            (2, 0, 1),
            (4, 0, 2),
            (5, 0, 3),
            (8, 4, 2),
            (8, 8, 0),
        ] {
            let counters = IdleCounters::new(Fences::SYMMETRIC);
            for _ in 0..idle {
                counters.p_became_idle();
            }
            let mut spinning = 0;
            while counters.begin_spinning(procs) {
                spinning += 1;
            }
            assert_eq!(
                (spinning, counters.spinning_ms()),
                (most, most),
                "{procs} Ps, {idle} idle"
            );
            checked += 1;
        }
        assert_eq!(checked, 6);
    }
}

/// A small scheduler around the counters: Ms that search, sleep and wake each other, with the real run
/// queues and the order of steps of the real search.
///
/// Submitters hold a P and never run anything themselves, like goroutines that compute for a long time; so
/// work that nobody is woken for is never run, its M sleeps for good, and loom reports a deadlock.
#[cfg(loom)]
mod models {
    use super::*;
    use crate::sched::runq::{Owner, RunQueue};
    use loom::sync::{Arc, Mutex, Notify};
    use loom::thread;
    use std::ptr::NonNull;

    /// Bookkeeping of the test, not part of the model: plain atomics that loom does not explore.
    use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

    #[derive(Default)]
    struct Lists {
        idle_ps: Vec<usize>,
        idle_ms: Vec<usize>,
        /// Ps given to Ms that do not exist yet. The next M that would sleep plays the new one.
        unstarted: Vec<usize>,
    }

    struct World {
        counters: IdleCounters,
        queues: Vec<RunQueue<usize>>,
        lists: Mutex<Lists>,
        parkers: Vec<Notify>,
        /// The P given to each parked M, one more than its number; zero for none.
        given: Vec<Count>,
        /// How often each piece of work was run.
        runs: Vec<Count>,
        /// How often an M slept.
        sleeps: Count,
    }

    impl World {
        /// The first `submitters` Ps are the submitters', the others belong to one M each.
        fn new(submitters: usize, ms: usize, work: usize) -> World {
            World {
                counters: IdleCounters::new(Fences::SYMMETRIC),
                queues: (0..submitters + ms).map(|_| RunQueue::new()).collect(),
                lists: Mutex::new(Lists::default()),
                parkers: (0..ms).map(|_| Notify::new()).collect(),
                given: (0..ms).map(|_| Count::new(0)).collect(),
                runs: (0..work).map(|_| Count::new(0)).collect(),
                sleeps: Count::new(0),
            }
        }

        fn owner(&self, p: usize) -> Owner<'_, usize> {
            // SAFETY: in the model a P number is held by one thread at a time.
            unsafe { self.queues[p].owner() }
        }

        fn submit(&self, p: usize, work: usize, next: bool) {
            let goroutine = NonNull::new(std::ptr::without_provenance_mut(work + 1)).unwrap();
            self.owner(p)
                .put(goroutine, next, |_| unreachable!("the ring is not full"));
            if self.counters.submit_needs_wake() {
                self.wake();
            }
        }

        /// After a claim: an idle P to an M.
        fn wake(&self) {
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
                None => lists.unstarted.push(p),
            }
        }

        fn all_ran(&self) -> bool {
            self.runs.iter().all(|count| count.load(SeqCst) > 0)
        }

        /// One M, starting with a P.
        fn run_m(&self, m: usize, p: usize) {
            let procs = self.queues.len() as u32;
            let (mut p, mut spinning) = (p, false);
            loop {
                if let Some(work) = self.search(p, procs, &mut spinning) {
                    if spinning {
                        spinning = false;
                        if self.counters.end_spinning_with_work() {
                            self.wake();
                        }
                    }
                    self.runs[work.as_ptr().addr() - 1].fetch_add(1, SeqCst);
                    if self.all_ran() {
                        self.parkers.iter().for_each(Notify::notify);
                        return;
                    }
                    continue;
                }
                match self.release_and_sleep(m, p, spinning) {
                    Some(new_p) => (p, spinning) = (new_p, true),
                    None => return,
                }
            }
        }

        fn search(&self, p: usize, procs: u32, spinning: &mut bool) -> Option<NonNull<usize>> {
            let own = self.owner(p);
            if let Some(taken) = own.get() {
                return Some(taken.goroutine);
            }
            if !*spinning {
                *spinning = self.counters.begin_spinning(procs);
            }
            if !*spinning {
                return None;
            }
            let victims = || (0..self.queues.len()).filter(|&victim| victim != p);
            victims().find_map(|victim| {
                let queue = &self.queues[victim];
                match queue.steal_into(own) {
                    Some(stolen) => Some(stolen.goroutine),
                    None => queue.peek_next().filter(|&next| queue.steal_next(next)),
                }
            })
        }

        /// Releases the P and sleeps until there is a P and perhaps work; `None` at the end.
        fn release_and_sleep(&self, m: usize, p: usize, was_spinning: bool) -> Option<usize> {
            {
                let mut lists = self.lists.lock().unwrap();
                if !was_spinning && self.counters.take_need_spinning() {
                    self.counters.resume_spinning();
                    return Some(p);
                }
                lists.idle_ps.push(p);
                self.counters.p_became_idle();
            }
            self.counters.recheck_before_sleep(was_spinning);
            if self.queues.iter().any(|queue| !queue.is_empty()) {
                let mut lists = self.lists.lock().unwrap();
                if let Some(p) = lists.idle_ps.pop() {
                    self.counters.p_left_idle();
                    self.counters.resume_spinning();
                    return Some(p);
                }
            }
            {
                let mut lists = self.lists.lock().unwrap();
                if let Some(p) = lists.unstarted.pop() {
                    return Some(p); // counted as spinning by whoever claimed the wake
                }
                lists.idle_ms.push(m);
            }
            self.sleeps.fetch_add(1, SeqCst);
            while !self.all_ran() {
                match self.given[m].swap(0, SeqCst) {
                    0 => self.parkers[m].wait(),
                    p => return Some(p - 1),
                }
            }
            None
        }
    }

    /// Runs a model with at least `preemptions` preemptions in an execution: each submitter submits its
    /// pieces of work (`true`: to run next), one after the other.
    fn check(preemptions: usize, ms: usize, plan: &'static [&'static [bool]]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.map(|bound| bound.max(preemptions));
        let executions = std::sync::Arc::new(Count::new(0));
        let slept = std::sync::Arc::new(Count::new(0));
        let (counted, sleeps) = (executions.clone(), slept.clone());
        builder.check(move || {
            let work = plan.iter().map(|pieces| pieces.len()).sum();
            let world = Arc::new(World::new(plan.len(), ms, work));
            let threads: Vec<_> = (0..ms)
                .map(|m| {
                    let world = world.clone();
                    thread::spawn(move || world.run_m(m, plan.len() + m))
                })
                .collect();
            let others: Vec<_> = (1..plan.len())
                .map(|p| {
                    let world = world.clone();
                    thread::spawn(move || submit_all(&world, plan, p))
                })
                .collect();
            submit_all(&world, plan, 0);
            for thread in others.into_iter().chain(threads) {
                thread.join().unwrap();
            }
            // Conservation: every piece ran, and ran once.
            for (piece, runs) in world.runs.iter().enumerate() {
                assert_eq!(runs.load(SeqCst), 1, "piece {piece}");
            }
            counted.fetch_add(1, SeqCst);
            sleeps.fetch_add(world.sleeps.load(SeqCst), SeqCst);
        });
        let (executions, sleeps) = (executions.load(SeqCst), slept.load(SeqCst));
        assert!(executions > 1, "loom explored nothing");
        assert!(sleeps > 0, "no M ever slept, so nothing was shown");
        println!("{executions} executions, {sleeps} sleeps");
    }

    fn submit_all(world: &World, plan: &[&[bool]], p: usize) {
        let before: usize = plan.iter().take(p).map(|pieces| pieces.len()).sum();
        for (index, &next) in plan[p].iter().enumerate() {
            world.submit(p, before + index, next);
        }
    }

    #[test]
    fn loom_one_m_goes_to_sleep_while_work_is_submitted() {
        check(2, 1, &[&[false]]);
    }

    #[test]
    fn loom_one_m_and_two_pieces() {
        check(2, 1, &[&[true, true]]);
    }

    #[test]
    fn loom_two_ms() {
        check(2, 2, &[&[false]]);
    }

    /// Five preemptions: a claim withdrawn too late is found with no fewer.
    #[test]
    fn loom_two_submitters() {
        check(5, 1, &[&[false], &[false]]);
    }
}
