//! What goroutines wait for, plain threads wait for as well: they sleep in the kernel until a goroutine wakes them.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use common::run;
use gmp_runtime::sync::{Barrier, Cond, Mutex, Once, RwLock, Semaphore, WaitGroup};
use gmp_runtime::{go, sleep};

/// The state of a thread of this process and how often it has waited, as the kernel says.
fn state_and_waits(thread: i32) -> (char, u64) {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].trim().to_owned()
    };
    (
        value("State:").chars().next().unwrap(),
        value("voluntary_ctxt_switches:").parse().unwrap(),
    )
}

/// A thread calls `wait`; when it sleeps and does not look up again, a goroutine calls `wake`.
fn a_thread_sleeps(
    what: &str,
    wait: impl FnOnce() + Send + 'static,
    wake: impl FnOnce() + Send + 'static,
) {
    let done = Arc::new(AtomicBool::new(false));
    let (number, numbers) = std::sync::mpsc::channel();
    let thread = {
        let done = Arc::clone(&done);
        thread::spawn(move || {
            // SAFETY: the call has no arguments.
            number.send(unsafe { libc::gettid() }).unwrap();
            wait();
            done.store(true, SeqCst);
        })
    };
    let id = numbers.recv().unwrap();
    let mut still = 0;
    let mut before = state_and_waits(id);
    // A thread that polls runs, or counts one wait more each time.
    while still < 20 {
        sleep(Duration::from_millis(2));
        let now = state_and_waits(id);
        still = if now == before && now.0 == 'S' {
            still + 1
        } else {
            0
        };
        before = now;
    }
    assert!(!done.load(SeqCst), "{what}");
    go(wake).join().unwrap();
    thread.join().unwrap();
    assert!(done.load(SeqCst), "{what}");
}

#[test]
fn threads_that_wait_sleep_until_a_goroutine_wakes_them() {
    run(2, || {
        let mutex = Arc::new(Mutex::new(0));
        let (theirs, guard) = (Arc::clone(&mutex), own(&mutex).lock());
        a_thread_sleeps("Mutex", move || *theirs.lock() += 1, move || drop(guard));
        assert_eq!(*mutex.lock(), 1);

        let lock = Arc::new(RwLock::new(0));
        let (theirs, guard) = (Arc::clone(&lock), own(&lock).write());
        a_thread_sleeps(
            "RwLock, reading",
            move || drop(theirs.read()),
            move || drop(guard),
        );
        let (theirs, guard) = (Arc::clone(&lock), own(&lock).read());
        a_thread_sleeps(
            "RwLock, writing",
            move || *theirs.write() += 1,
            move || drop(guard),
        );
        assert_eq!(*lock.read(), 1);

        let group = Arc::new(WaitGroup::new());
        group.add(1);
        let (theirs, ours) = (Arc::clone(&group), group);
        a_thread_sleeps("WaitGroup", move || theirs.wait(), move || ours.done());

        let cond = Arc::new((Mutex::new(()), Cond::new()));
        let (theirs, ours) = (Arc::clone(&cond), cond);
        a_thread_sleeps(
            "Cond",
            move || drop(theirs.1.wait(theirs.0.lock())),
            move || ours.1.notify_one(),
        );

        let once = Arc::new(Once::new());
        let (begin, end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        {
            let (once, begin, end) = (Arc::clone(&once), Arc::clone(&begin), Arc::clone(&end));
            go(move || {
                once.call_once(|| {
                    begin.release(1);
                    end.acquire(1).forget();
                })
            });
        }
        begin.acquire(1).forget();
        a_thread_sleeps(
            "Once",
            move || once.call_once(|| unreachable!("it is being done")),
            move || end.release(1),
        );

        let semaphore = Arc::new(Semaphore::new(1));
        let (theirs, ours) = (Arc::clone(&semaphore), semaphore);
        a_thread_sleeps(
            "Semaphore",
            move || theirs.acquire(2).forget(),
            move || ours.release(1),
        );

        let barrier = Arc::new(Barrier::new(2));
        let (theirs, ours) = (Arc::clone(&barrier), barrier);
        a_thread_sleeps(
            "Barrier",
            move || {
                theirs.wait();
            },
            move || {
                ours.wait();
            },
        );
    });
}

/// What lives as long as the process, so that a guard of it can go to another goroutine.
fn own<T>(value: &Arc<T>) -> &'static T {
    let pointer = Arc::into_raw(Arc::clone(value));
    // SAFETY: the count that this took is never given back.
    unsafe { &*pointer }
}
