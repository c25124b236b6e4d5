//! Tests of [`RunQueue`](super::RunQueue): its rules on one thread, a stress on several, models.

use super::{CAPACITY, MAX_OVERFLOW, Owner, RunQueue, Taken};
use std::ptr::NonNull;

/// Goroutines are numbers here: a pointer is never followed.
fn goroutine(number: usize) -> NonNull<usize> {
    assert!(number > 0);
    NonNull::new(std::ptr::without_provenance_mut(number)).unwrap()
}

fn number(goroutine: NonNull<usize>) -> usize {
    goroutine.as_ptr().addr()
}

/// The owner's view of a queue that only the calling thread puts into.
fn owner(queue: &RunQueue<usize>) -> Owner<'_, usize> {
    // SAFETY: each test uses a queue's owner on one thread.
    unsafe { queue.owner() }
}

fn put(queue: &RunQueue<usize>, number: usize, next: bool) -> Vec<usize> {
    let mut moved = Vec::new();
    owner(queue).put(goroutine(number), next, |batch| {
        moved.extend(batch.iter().map(|&g| self::number(g)));
    });
    moved
}

fn get(queue: &RunQueue<usize>) -> Option<(usize, bool)> {
    owner(queue).get().map(
        |Taken {
             goroutine,
             inherit_time,
         }| (number(goroutine), inherit_time),
    )
}

fn drain(queue: &RunQueue<usize>) -> Vec<usize> {
    std::iter::from_fn(|| get(queue))
        .map(|(number, _)| number)
        .collect()
}

#[cfg(not(loom))]
mod rules {
    use super::*;

    /// Every rule holds with and without thieves.
    fn queues() -> [RunQueue<usize>; 2] {
        let queues = [RunQueue::new(), RunQueue::new()];
        // SAFETY: nobody else knows the queue.
        unsafe { queues[1].set_shared(false) };
        queues
    }

    #[test]
    fn the_ring_is_first_in_first_out_and_starts_a_slice() {
        for queue in queues() {
            for number in 1..=3 {
                assert!(put(&queue, number, false).is_empty());
            }
            assert_eq!(queue.len(), 3);
            assert_eq!(get(&queue), Some((1, false)));
            assert_eq!(drain(&queue), [2, 3]);
            assert_eq!(get(&queue), None);
        }
    }

    #[test]
    fn next_runs_first_in_the_same_slice_and_pushes_the_previous_into_the_ring() {
        for queue in queues() {
            put(&queue, 1, false);
            put(&queue, 2, true);
            assert_eq!(queue.len(), 1, "next is not counted");
            put(&queue, 3, true);
            assert_eq!(queue.len(), 2);
            assert_eq!(get(&queue), Some((3, true)));
            assert_eq!(get(&queue), Some((1, false)));
            assert_eq!(get(&queue), Some((2, false)));
            assert!(queue.is_empty());
        }
    }

    #[test]
    fn a_full_ring_gives_its_older_half_and_the_new_one_away() {
        for queue in queues() {
            for number in 1..=CAPACITY {
                assert!(put(&queue, number, false).is_empty());
            }
            assert_eq!(owner(&queue).room(), 0);
            let moved = put(&queue, CAPACITY + 1, false);
            let expected: Vec<usize> = (1..=CAPACITY / 2).chain([CAPACITY + 1]).collect();
            assert_eq!(moved, expected);
            assert_eq!(moved.len(), MAX_OVERFLOW);
            assert!(drain(&queue).into_iter().eq(CAPACITY / 2 + 1..=CAPACITY));
        }
    }

    #[test]
    fn what_next_pushes_out_can_overflow() {
        for queue in queues() {
            for number in 1..=CAPACITY {
                put(&queue, number, false);
            }
            put(&queue, 1000, true);
            let moved = put(&queue, 2000, true);
            assert_eq!(moved.last(), Some(&1000), "the new one stays next");
            assert_eq!(get(&queue), Some((2000, true)));
        }
    }

    #[test]
    fn a_thief_takes_half_rounded_up_oldest_first_and_runs_the_youngest() {
        let mut checked = 0;
        for len in 1..=CAPACITY {
            let (victim, thief) = (RunQueue::new(), RunQueue::new());
            for number in 1..=len {
                put(&victim, number, false);
            }
            let stolen = victim.steal_into(owner(&thief)).unwrap();
            let half = len.div_ceil(2);
            assert_eq!(
                (number(stolen.goroutine), stolen.count as usize),
                (half, half)
            );
            assert!(drain(&thief).into_iter().eq(1..half));
            assert!(drain(&victim).into_iter().eq(half + 1..=len));
            checked += 1;
        }
        assert_eq!(checked, CAPACITY);
    }

    #[test]
    fn next_is_stolen_only_on_its_own() {
        let (victim, thief) = (RunQueue::new(), RunQueue::new());
        put(&victim, 7, true);
        assert_eq!(victim.steal_into(owner(&thief)), None);
        assert!(!victim.is_empty());
        let seen = victim.peek_next().unwrap();
        assert!(
            !victim.steal_next(goroutine(8)),
            "another one is not taken by mistake"
        );
        assert!(victim.steal_next(seen));
        assert!(!victim.steal_next(seen), "only once");
        assert!(victim.is_empty() && victim.peek_next().is_none());
        assert_eq!(get(&victim), None);
    }

    #[test]
    fn positions_wrap_around() {
        let queue = RunQueue::new();
        let mut next_out = 1;
        let mut next_in = 1;
        for round in 0..10_000 {
            for _ in 0..round % 7 {
                put(&queue, next_in, false);
                next_in += 1;
            }
            while queue.len() > 100 {
                assert_eq!(get(&queue), Some((next_out, false)));
                next_out += 1;
            }
        }
        assert!(next_in > 20_000);
        assert!(drain(&queue).into_iter().eq(next_out..next_in));
    }

    #[test]
    fn several_threads_run_each_goroutine_once() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};
        const TOTAL: usize = 200_000;
        let victim = Arc::new(RunQueue::new());
        let done = Arc::new(AtomicBool::new(false));
        let thieves: Vec<_> = (0..2)
            .map(|_| {
                let (victim, done) = (Arc::clone(&victim), Arc::clone(&done));
                std::thread::spawn(move || {
                    let own = RunQueue::new();
                    let mut seen = Vec::new();
                    let mut stolen_next = 0;
                    loop {
                        // ordering: Acquire; pairs with the Release store: what was put is seen.
                        let last = done.load(Ordering::Acquire);
                        if let Some(stolen) = victim.steal_into(owner(&own)) {
                            seen.push(number(stolen.goroutine));
                            seen.extend(drain(&own));
                        } else if let Some(next) = victim.peek_next() {
                            if victim.steal_next(next) {
                                seen.push(number(next));
                                stolen_next += 1;
                            }
                        } else if last {
                            return (seen, stolen_next);
                        }
                    }
                })
            })
            .collect();
        let mut seen = Vec::new();
        for number in 1..=TOTAL {
            seen.extend(put(&victim, number, number % 3 == 0));
            if number % 5 == 0 {
                seen.extend(get(&victim).map(|(number, _)| number));
            }
        }
        // ordering: Release; pairs with the Acquire load of the thieves.
        done.store(true, Ordering::Release);
        for thief in thieves {
            seen.extend(thief.join().unwrap().0);
        }
        seen.extend(drain(&victim));
        seen.sort_unstable();
        assert!(
            seen.into_iter().eq(1..=TOTAL),
            "a goroutine was lost or doubled"
        );
    }
}

/// Models: loom tries the interleavings, and every model ends by counting each goroutine once.
#[cfg(loom)]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;
    use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

    /// Runs `model`, which says whether what it is about happened: in some execution it must.
    fn check(model: impl Fn() -> bool + Send + Sync + 'static) {
        let seen = std::sync::Arc::new([Count::new(0), Count::new(0)]);
        let noted = seen.clone();
        loom::model(move || {
            noted[usize::from(model())].fetch_add(1, SeqCst);
        });
        let [without, with] = [0, 1].map(|kind| seen[kind].load(SeqCst));
        assert!(without + with > 1, "loom explored nothing");
        assert!(with > 0, "what the model is about never happened");
        println!("{} executions, seen {with} times", without + with);
    }

    /// Steals as the scheduler does in its last round; what was stolen.
    fn steal(victim: &RunQueue<usize>, with_next: bool) -> Vec<usize> {
        let own = RunQueue::new();
        let mut seen = Vec::new();
        if let Some(stolen) = victim.steal_into(owner(&own)) {
            seen.push(number(stolen.goroutine));
            let rest = drain(&own);
            assert_eq!(rest.len() + 1, stolen.count as usize);
            seen.extend(rest);
        } else if with_next
            && let Some(next) = victim.peek_next()
            && victim.steal_next(next)
        {
            seen.push(number(next));
        }
        seen
    }

    fn assert_each_once(mut seen: Vec<usize>, total: usize) {
        seen.sort_unstable();
        assert!(
            seen.iter().copied().eq(1..=total),
            "lost or doubled: {seen:?} of {total}"
        );
    }

    /// Both thieves get something.
    #[test]
    fn loom_owner_and_two_thieves() {
        check(|| {
            let queue = Arc::new(RunQueue::new());
            put(&queue, 1, false);
            put(&queue, 2, false);
            let thieves: Vec<_> = (0..2)
                .map(|_| {
                    let queue = Arc::clone(&queue);
                    thread::spawn(move || steal(&queue, false))
                })
                .collect();
            let mut seen = put(&queue, 3, false);
            seen.extend(get(&queue).map(|(number, _)| number));
            seen.extend(put(&queue, 4, false));
            let stolen: Vec<_> = thieves
                .into_iter()
                .map(|thief| thief.join().unwrap())
                .collect();
            seen.extend(stolen.iter().flatten());
            seen.extend(drain(&queue));
            assert_each_once(seen, 4);
            stolen.iter().all(|some| !some.is_empty())
        });
    }

    /// The thief gets what was next, and no ring.
    #[test]
    fn loom_next_and_a_thief() {
        check(|| {
            let queue = Arc::new(RunQueue::new());
            put(&queue, 1, true);
            let thief = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    let mut seen = steal(&queue, true);
                    seen.extend(steal(&queue, true));
                    seen
                })
            };
            let mut seen = put(&queue, 2, true);
            seen.extend(get(&queue).map(|(number, _)| number));
            seen.extend(put(&queue, 3, true));
            let stolen = thief.join().unwrap();
            seen.extend(&stolen);
            seen.extend(drain(&queue));
            assert_each_once(seen, 3);
            // The last one is never put into the ring.
            stolen.contains(&3)
        });
    }

    /// The ring overflows, and the thief gets something.
    #[test]
    fn loom_overflow_and_a_thief() {
        check(|| {
            let queue = Arc::new(RunQueue::new());
            for number in 1..=CAPACITY {
                assert!(put(&queue, number, false).is_empty());
            }
            let thief = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || steal(&queue, false))
            };
            let mut seen = put(&queue, CAPACITY + 1, false);
            assert!(seen.is_empty() || seen.len() == MAX_OVERFLOW);
            seen.extend(put(&queue, CAPACITY + 2, false));
            let overflowed = !seen.is_empty();
            let stolen = thief.join().unwrap();
            seen.extend(&stolen);
            seen.extend(drain(&queue));
            assert_each_once(seen, CAPACITY + 2);
            overflowed && !stolen.is_empty()
        });
    }

    /// Each steals something.
    #[test]
    fn loom_thieves_of_each_other() {
        check(|| {
            let queues = Arc::new([RunQueue::new(), RunQueue::new()]);
            put(&queues[0], 1, false);
            put(&queues[0], 2, false);
            let other = {
                let queues = Arc::clone(&queues);
                thread::spawn(move || {
                    let stolen = queues[0].steal_into(owner(&queues[1]));
                    let mut seen: Vec<usize> = stolen
                        .iter()
                        .map(|stolen| number(stolen.goroutine))
                        .collect();
                    seen.extend(put(&queues[1], 3, false));
                    seen.extend(get(&queues[1]).map(|(number, _)| number));
                    (stolen.is_some(), seen)
                })
            };
            let mut seen = drain(&queues[0]);
            let stolen = queues[1].steal_into(owner(&queues[0]));
            seen.extend(stolen.iter().map(|stolen| number(stolen.goroutine)));
            let (other_stole, theirs) = other.join().unwrap();
            seen.extend(theirs);
            seen.extend(drain(&queues[0]));
            seen.extend(drain(&queues[1]));
            assert_each_once(seen, 3);
            stolen.is_some() && other_stole
        });
    }

    /// One goroutine is in the queue all the time, but moves from `next` to the ring: never empty.
    #[test]
    fn loom_a_moving_goroutine_is_not_overlooked() {
        check(|| {
            let queue = Arc::new(RunQueue::new());
            put(&queue, 1, true);
            let looker = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.is_empty())
            };
            let mut seen = put(&queue, 2, true);
            seen.extend(get(&queue).map(|(number, _)| number));
            assert!(
                !looker.join().unwrap(),
                "the queue was called empty while it was not"
            );
            seen.extend(drain(&queue));
            assert_each_once(seen, 2);
            true
        });
    }
}
