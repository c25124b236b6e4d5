//! What becomes of those who wait when a program ends or hangs, and what a trace says of them.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use common::{Counted, Drops, PROCS, child, child_case, run, stderr};
use gmp_runtime::sync::{Barrier, Cond, Mutex, Once, RwLock, Semaphore, WaitGroup};
use gmp_runtime::{Runtime, go, park, yield_now};

/// One of everything.
struct Objects {
    mutex: Mutex<usize>,
    lock: RwLock<usize>,
    group: WaitGroup,
    condition: (Mutex<usize>, Cond),
    once: Once,
    semaphore: Semaphore,
    barrier: Barrier,
}

impl Objects {
    fn new() -> Arc<Objects> {
        let objects = Objects {
            mutex: Mutex::new(0),
            lock: RwLock::new(0),
            group: WaitGroup::new(),
            condition: (Mutex::new(0), Cond::new()),
            once: Once::new(),
            semaphore: Semaphore::new(1),
            barrier: Barrier::new(1_000),
        };
        objects.group.add(1);
        Arc::new(objects)
    }

    /// The ways to wait here, each of which waits for ever while `main` holds what it holds.
    const WAYS: [fn(&Objects); 8] = [
        |objects| *objects.mutex.lock() += 1,
        |objects| drop(objects.lock.read()),
        |objects| *objects.lock.write() += 1,
        |objects| objects.group.wait(),
        |objects| drop(objects.condition.1.wait(objects.condition.0.lock())),
        |objects| objects.once.call_once(|| ()),
        |objects| drop(objects.semaphore.acquire(1)),
        |objects| _ = objects.barrier.wait(),
    ];
}

/// Has everything that can be had, and ends with it.
fn hold_everything(objects: &Objects, then: impl FnOnce()) {
    let _mutex = objects.mutex.lock();
    let _lock = objects.lock.write();
    let _permit = objects.semaphore.acquire(1);
    objects.once.call_once(then);
}

fn let_others_wait() {
    for _ in 0..200 {
        yield_now();
    }
}

#[test]
fn destructors_of_those_that_wait_run_once_and_the_objects_can_be_used() {
    for procs in PROCS {
        for _ in 0..20 {
            let drops = Drops::default();
            let objects = Objects::new();
            run(procs, || {
                let holder = Arc::clone(&objects);
                let kept = drops.value(0);
                let holds = Arc::new(AtomicUsize::new(0));
                let held = Arc::clone(&holds);
                go(move || {
                    let _kept = kept;
                    hold_everything(&holder, || {
                        held.store(1, SeqCst);
                        park();
                    });
                });
                while holds.load(SeqCst) == 0 {
                    yield_now();
                }
                for way in Objects::WAYS {
                    for i in 0..3 {
                        let (kept, objects) = (drops.value(i), Arc::clone(&objects));
                        go(move || {
                            let _kept = kept;
                            way(&objects);
                        });
                    }
                }
                let_others_wait();
            });
            assert_eq!((drops.made(), drops.alive()), (25, 0), "{procs} Ps");
            // Nobody has anything any more, and nobody waits.
            assert!(objects.mutex.try_lock().is_some());
            assert!(objects.lock.try_write().is_some());
            assert!(objects.condition.0.try_lock().is_some());
            assert_eq!(objects.semaphore.available(), 1);
            assert!(!objects.once.is_completed());
            objects.once.call_once(|| ());
            objects.group.done();
            objects.group.wait();
            assert_eq!(Arc::strong_count(&objects), 1);
        }
    }
}

/// Plain threads and a program that ends wait at the same objects: what a goroutine that ends was given
/// reaches them.
#[test]
fn what_was_given_to_those_that_end_reaches_others() {
    for procs in PROCS {
        for round in 0..50 {
            let objects = Objects::new();
            let served = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = [0, 1, 2, 4, 6]
                .into_iter()
                .map(|way| {
                    let (objects, served) = (Arc::clone(&objects), Arc::clone(&served));
                    thread::spawn(move || {
                        for _ in 0..20 {
                            Objects::WAYS[way](&objects);
                            served.fetch_add(1, SeqCst);
                        }
                    })
                })
                .collect();
            let notifier = {
                let (objects, served) = (Arc::clone(&objects), Arc::clone(&served));
                thread::spawn(move || {
                    while served.load(SeqCst) < 5 * 20 {
                        objects.condition.1.notify_one();
                        thread::yield_now();
                    }
                })
            };
            run(procs, || {
                for _ in 0..4 {
                    for way in [0, 1, 2, 4, 6] {
                        let objects = Arc::clone(&objects);
                        go(move || {
                            loop {
                                Objects::WAYS[way](&objects);
                                yield_now();
                            }
                        });
                    }
                }
                for _ in 0..round {
                    yield_now();
                }
            });
            for thread in threads {
                thread.join().unwrap();
            }
            notifier.join().unwrap();
            assert_eq!(served.load(SeqCst), 100);
        }
    }
}

/// One goroutine waits by `first`, and a thread behind it by `second`; then `last` is done by main, which
/// returns at once, so that the goroutine is unwound with what it was granted. The thread must come through.
fn ends_with_what_it_was_granted(
    objects: &Arc<Objects>,
    first: fn(&Objects),
    second: fn(&Objects),
    last: impl FnOnce() + Send,
) {
    let (begun, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let thread = run(1, || {
        let (other, was_served) = (Arc::clone(objects), Arc::clone(&served));
        go(move || {
            first(&other);
            was_served.fetch_add(1, SeqCst);
        });
        let_others_wait();
        let (other, begins) = (Arc::clone(objects), Arc::clone(&begun));
        let thread = thread::spawn(move || {
            begins.fetch_add(1, SeqCst);
            second(&other);
        });
        while begun.load(SeqCst) == 0 {
            yield_now();
        }
        // So that the thread waits; where it does not yet, there is nothing to show.
        thread::sleep(Duration::from_millis(3));
        last();
        thread
    });
    assert_eq!(served.load(SeqCst), 0, "the goroutine went on");
    thread.join().unwrap();
}

#[test]
fn what_was_granted_to_one_that_ends_goes_on() {
    fn lock(objects: &Objects) {
        *objects.mutex.lock() += 1;
    }
    fn write(objects: &Objects) {
        *objects.lock.write() += 1;
    }
    fn read(objects: &Objects) {
        drop(objects.lock.read());
    }
    fn one(objects: &Objects) {
        drop(objects.semaphore.acquire(1));
    }
    fn be_notified(objects: &Objects) {
        let mut waiting = objects.condition.0.lock();
        *waiting += 1;
        drop(objects.condition.1.wait(waiting));
    }
    for _ in 0..5 {
        let objects = Objects::new();
        let held = objects.mutex.lock();
        // Woken, to compete.
        ends_with_what_it_was_granted(&objects, lock, lock, || drop(held));
        let held = objects.mutex.lock();
        // Handed over: it loses once, when it has waited for longer than a millisecond.
        ends_with_what_it_was_granted(&objects, lock, lock, || {
            drop(held);
            let held = objects.mutex.lock();
            yield_now();
            drop(held);
        });
        assert_eq!(*objects.mutex.try_lock().unwrap(), 2);
        let held = objects.lock.write();
        ends_with_what_it_was_granted(&objects, write, read, || drop(held));
        let held = objects.lock.write();
        ends_with_what_it_was_granted(&objects, read, write, || drop(held));
        // A writer that gives up lets the readers behind it in.
        let held = objects.lock.read();
        ends_with_what_it_was_granted(&objects, write, read, || ());
        drop(held);
        assert_eq!(*objects.lock.try_write().unwrap(), 1);
        let held = objects.semaphore.acquire(1);
        ends_with_what_it_was_granted(&objects, one, one, || drop(held));
        // A large request that is given up lets a small one in.
        ends_with_what_it_was_granted(
            &objects,
            |objects| drop(objects.semaphore.acquire(2)),
            one,
            || (),
        );
        assert_eq!(objects.semaphore.available(), 1);
        let waiting = Arc::clone(&objects);
        ends_with_what_it_was_granted(&objects, be_notified, be_notified, move || {
            // Both wait when they have unlocked.
            while *waiting.condition.0.lock() < 2 {
                yield_now();
            }
            waiting.condition.1.notify_one();
        });
    }
}

/// Destructors that lock what others hold who wait themselves.
#[test]
fn destructors_may_lock() {
    struct LocksAtEnd(
        Arc<Objects>,
        #[expect(dead_code, reason = "dropped")] Counted,
    );
    impl Drop for LocksAtEnd {
        fn drop(&mut self) {
            *self.0.mutex.lock() += 1;
        }
    }
    for procs in PROCS {
        for _ in 0..20 {
            let drops = Drops::default();
            let objects = Objects::new();
            let started = Arc::new(AtomicUsize::new(0));
            run(procs, || {
                for i in 0..10 {
                    let (objects, kept) = (Arc::clone(&objects), drops.value(i));
                    let started = Arc::clone(&started);
                    go(move || {
                        let ends = LocksAtEnd(objects, kept);
                        started.fetch_add(1, SeqCst);
                        let _held = (i == 9).then(|| ends.0.lock.write());
                        ends.0.group.wait();
                    });
                }
                while started.load(SeqCst) < 10 {
                    yield_now();
                }
                let_others_wait();
            });
            assert_eq!((drops.made(), drops.alive()), (10, 0), "{procs} Ps");
            assert_eq!(*objects.mutex.try_lock().unwrap(), 10);
            assert!(objects.lock.try_read().is_some());
        }
    }
}

#[test]
fn a_deadlock_report_names_each_wait() {
    if child_case().is_some() {
        // Without the threads of the tests, which could wake somebody.
        let runtime = Runtime::builder()
            .procs(2)
            .threads_wake_goroutines(false)
            .build()
            .unwrap();
        // SAFETY: nothing of a thread lives across a call that may park.
        return unsafe {
            runtime.run(|| {
                let objects = Objects::new();
                hold_everything(&objects, || {
                    for way in Objects::WAYS {
                        let objects = Arc::clone(&objects);
                        go(move || way(&objects));
                    }
                    park();
                });
            })
        };
    }
    let output = child("a_deadlock_report_names_each_wait", "run")
        .output()
        .unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    let mut found = 0;
    for (part, times) in [
        ("[sync.Mutex.Lock]:", 1),
        ("[sync.RWMutex.RLock]:", 1),
        ("[sync.RWMutex.Lock]:", 1),
        ("[sync.WaitGroup.Wait]:", 1),
        ("[sync.Cond.Wait]:", 1),
        ("[semacquire]:", 3),
        ("[park]:", 1),
    ] {
        assert_eq!(text.matches(part).count(), times, "{part} in\n{text}");
        found += times;
    }
    assert_eq!(found, Objects::WAYS.len() + 1);
}

#[cfg(feature = "trace")]
mod traces {
    use super::*;
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::io::BufReader;

    use common::Directory;
    use gmp_runtime::trace;
    use gmp_trace::Body;

    /// How often somebody parked for each reason, and at which lines of this file.
    fn parks(path: &std::path::Path) -> BTreeMap<String, Vec<u64>> {
        let mut reader = gmp_trace::open(BufReader::new(File::open(path).unwrap())).unwrap();
        let mut parks: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        reader
            .for_each_event(|event, tables| {
                if let Body::GoPark { reason, site, .. } = event.body {
                    let site = site.and_then(|site| tables.site(site)).unwrap();
                    if tables.text(site.file).ends_with("sync_ending.rs") {
                        parks
                            .entry(tables.text(reason).to_owned())
                            .or_default()
                            .push(u64::from(site.line));
                    }
                }
            })
            .unwrap();
        parks
    }

    const ROUNDS: usize = 50;

    #[test]
    fn a_trace_has_the_reason_and_the_place_of_each_wait() {
        let directory = Directory::new("sync");
        for procs in PROCS {
            let path = directory.file(&format!("{procs}.trace"));
            let line = run(procs, || {
                trace::start(&path).unwrap();
                let mutex = Arc::new(Mutex::new(0));
                let mut line = 0;
                for _ in 0..ROUNDS {
                    let guard = mutex.lock();
                    let group = Arc::new(WaitGroup::new());
                    let other = Arc::clone(&mutex);
                    group.go(move || {
                        *other.lock() += 1; // here
                    });
                    line = line!() - 2;
                    let_others_wait();
                    drop(guard);
                    group.wait();
                }
                assert_eq!(*mutex.lock(), ROUNDS);
                trace::stop().unwrap();
                line
            });
            let parks = parks(&path);
            let locks = &parks["sync.Mutex.Lock"];
            // On a busy machine not everybody comes to where it would have to wait.
            assert!((1..=ROUNDS).contains(&locks.len()), "{parks:?}");
            assert!(procs > 1 || locks.len() == ROUNDS, "{parks:?}");
            assert!(
                locks.iter().all(|&at| at == u64::from(line)),
                "line {line}: {parks:?}"
            );
            assert!(procs > 1 || parks["sync.WaitGroup.Wait"].len() == ROUNDS);
        }
    }
}
