//! Models of the words and the queue: loom tries the interleavings of a few threads.
//!
//! A waiter that nobody wakes is a deadlock in the model, which loom reports. Each model asserts that in
//! some execution somebody had to wait; what that takes depends on the object.

use std::panic::Location;
use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::raw_mutex::RawMutex;
use super::raw_rwlock::{Access, RawRwLock};
use super::{Cond, Mutex, Once, Semaphore, WaitGroup};

/// Runs `model` with at most `preemptions` preemptions in an execution; the closure gets a counter of what
/// it wants to have seen at least once.
fn check(preemptions: usize, model: impl Fn(&Count) + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    let executions = std::sync::Arc::new(Count::new(0));
    let seen = std::sync::Arc::new(Count::new(0));
    let (counted, noted) = (executions.clone(), seen.clone());
    builder.check(move || {
        model(&noted);
        counted.fetch_add(1, SeqCst);
    });
    let (executions, seen) = (executions.load(SeqCst), seen.load(SeqCst));
    assert!(executions > 1, "loom explored nothing");
    assert!(seen > 0, "what the model is about never happened");
    println!("{executions} executions, seen {seen} times");
}

/// A value that loom watches, under a mutex.
struct Guarded {
    lock: RawMutex,
    value: UnsafeCell<usize>,
}

// SAFETY: the value is used under the lock; loom says if it is not.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

impl Guarded {
    /// Adds one; what was there before.
    fn add(&self) -> usize {
        self.lock.lock(Location::caller());
        let before = self.value.with_mut(|value| {
            // SAFETY: the lock is held.
            unsafe {
                *value += 1;
                *value - 1
            }
        });
        // SAFETY: locked above.
        unsafe { self.lock.unlock() };
        before
    }
}

fn threads_add(handed_over: bool, preemptions: usize, threads: usize, rounds: usize) {
    check(preemptions, move |contended| {
        let shared = Arc::new(Guarded {
            lock: if handed_over {
                RawMutex::impatient()
            } else {
                RawMutex::new()
            },
            value: UnsafeCell::new(0),
        });
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for _ in 0..rounds {
                        shared.add();
                    }
                })
            })
            .collect();
        let mut met = 0;
        for round in 0..rounds {
            met += usize::from(shared.add() != round);
        }
        for other in others {
            other.join().unwrap();
        }
        if handed_over {
            met = shared.lock.hand_overs();
        }
        contended.fetch_add(met, SeqCst);
        assert_eq!(shared.add(), threads * rounds);
        assert!(shared.lock.is_idle(), "bits are left: {:?}", shared.lock);
    });
}

#[test]
fn loom_mutex_two_threads() {
    threads_add(false, 3, 2, 2);
}

#[test]
fn loom_mutex_three_threads() {
    threads_add(false, 2, 3, 1);
}

#[test]
fn loom_mutex_handed_over() {
    threads_add(true, 3, 2, 2);
}

#[test]
fn loom_mutex_handed_over_among_three() {
    threads_add(true, 2, 3, 1);
}

#[test]
fn loom_rwlock() {
    check(2, |seen| {
        let shared = Arc::new((RawRwLock::new(), UnsafeCell::new(0_usize)));
        let write = |shared: &(RawRwLock, UnsafeCell<usize>)| {
            shared.0.lock(Access::Write, Location::caller());
            // SAFETY: locked for writing.
            shared.1.with_mut(|value| unsafe { *value += 1 });
            // SAFETY: locked above.
            unsafe { shared.0.unlock(Access::Write) };
        };
        let read = |shared: &(RawRwLock, UnsafeCell<usize>)| {
            shared.0.lock(Access::Read, Location::caller());
            // SAFETY: locked for reading.
            let value = shared.1.with(|value| unsafe { *value });
            // SAFETY: locked above.
            unsafe { shared.0.unlock(Access::Read) };
            value
        };
        let (for_writer, for_reader) = (shared.clone(), shared.clone());
        let writer = thread::spawn(move || write(&for_writer));
        let reader = thread::spawn(move || read(&for_reader));
        write(&shared);
        let value = reader.join().unwrap();
        seen.fetch_add(usize::from(value == 1), SeqCst);
        writer.join().unwrap();
        assert_eq!(read(&shared), 2);
    });
}

#[test]
fn loom_wait_group() {
    check(3, |seen| {
        let shared = Arc::new((WaitGroup::new(), UnsafeCell::new(0_usize)));
        shared.0.add(1);
        let worker = shared.clone();
        let worker = thread::spawn(move || {
            // SAFETY: nobody reads before it is done.
            worker.1.with_mut(|value| unsafe { *value = 1 });
            worker.0.done();
        });
        seen.fetch_add(shared.0.count(), SeqCst);
        shared.0.wait();
        // SAFETY: it is done.
        assert_eq!(shared.1.with(|value| unsafe { *value }), 1);
        worker.join().unwrap();
    });
}

#[test]
fn loom_cond() {
    check(3, |waited| {
        let shared = Arc::new((Mutex::new(false), Cond::new()));
        let other = shared.clone();
        let notifier = thread::spawn(move || {
            *other.0.lock() = true;
            other.1.notify_one();
        });
        let mut looks = 0;
        let guard = shared.1.wait_while(shared.0.lock(), |ready| {
            looks += 1;
            !*ready
        });
        assert!(*guard);
        drop(guard);
        waited.fetch_add(looks - 1, SeqCst);
        notifier.join().unwrap();
    });
}

#[test]
fn loom_once() {
    check(3, |by_other| {
        let shared = Arc::new((Once::new(), UnsafeCell::new(0_usize)));
        let call = |shared: &(Once, UnsafeCell<usize>)| {
            let mut mine = false;
            shared.0.call_once(|| {
                // SAFETY: one caller at a time.
                shared.1.with_mut(|value| unsafe { *value += 1 });
                mine = true;
            });
            // SAFETY: it is complete.
            assert_eq!(shared.1.with(|value| unsafe { *value }), 1);
            mine
        };
        let other = shared.clone();
        let other = thread::spawn(move || call(&other));
        let mine = call(&shared);
        let others = other.join().unwrap();
        assert!(mine != others);
        by_other.fetch_add(usize::from(others), SeqCst);
    });
}

#[test]
fn loom_semaphore() {
    check(3, |first| {
        let shared = Arc::new((Semaphore::new(2), Count::new(0)));
        let other = shared.clone();
        let other = thread::spawn(move || {
            let both = other.0.acquire(2);
            other.1.store(1, SeqCst);
            drop(both);
        });
        let permit = shared.0.acquire(1);
        first.fetch_add(1 - shared.1.load(SeqCst), SeqCst);
        drop(permit);
        other.join().unwrap();
        assert_eq!(shared.0.available(), 2);
    });
}
