//! Models of the join word: a goroutine that ends, its M that leaves it, and its handle, which is dropped, joined by
//! a goroutine, or joined by a thread.

use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex, Notify};
use loom::thread;

use super::*;
use crate::prim::atomic::{AtomicBool, AtomicU32};

/// A goroutine's join word and what it protects.
struct World {
    join: AtomicU32,
    /// The payload: written by the goroutine, taken by whoever drops it.
    result: UnsafeCell<u32>,
    /// Whether the joiner waits: only then it may be made ready, and once.
    waits: AtomicBool,
    ready: Notify,
    /// The kernel's side of a futex on the word.
    futex: (Mutex<()>, Condvar),
    dropped: AtomicU32,
    recycled: AtomicU32,
}

// SAFETY: loom says if the payload is used by two threads at once.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> World {
        World {
            join: AtomicU32::new(0),
            result: UnsafeCell::new(0),
            waits: AtomicBool::new(false),
            ready: Notify::new(),
            futex: (Mutex::new(()), Condvar::new()),
            dropped: AtomicU32::new(0),
            recycled: AtomicU32::new(0),
        }
    }

    fn take_result(&self) {
        let result = self.result.with_mut(|result| {
            // SAFETY: whoever takes it is the only one: that is what the model is about.
            unsafe { std::mem::take(&mut *result) }
        });
        assert_eq!(result, 7, "the result is there");
        // ordering: Relaxed: read when all have ended.
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn recycle(&self) {
        self.result.with_mut(|payload| {
            // SAFETY: whoever uses the goroutine next puts its closure there.
            unsafe { *payload = 0 }
        });
        // ordering: Relaxed: read when all have ended.
        self.recycled.fetch_add(1, Ordering::Relaxed);
    }

    /// The goroutine's side: `end`, then `free_after_exit`. `straight`: a joiner that waits is switched to.
    fn goroutine(&self, straight: bool) {
        self.result.with_mut(|result| {
            // SAFETY: nobody has seen the end yet.
            unsafe { *result = 7 }
        });
        if is_awaited(&self.join) {
            if straight {
                assert!(!say_left(&self.join), "the handle is with the joiner");
            } else {
                say_ended(&self.join).expect("nobody can release it");
            }
            self.make_ready();
            if !straight && say_left(&self.join) {
                self.recycle();
            }
            return;
        }
        match say_ended(&self.join) {
            None => self.take_result(),
            Some(before) => {
                if before & WATCHED != 0 {
                    let _kernel = self.futex.0.lock().unwrap();
                    self.futex.1.notify_all();
                }
                if before & AWAITED != 0 {
                    self.make_ready();
                }
            }
        }
        if say_left(&self.join) {
            self.recycle();
        }
    }

    fn make_ready(&self) {
        // ordering: AcqRel: whoever makes it ready hands it over, as a run queue does.
        let waited = self.waits.swap(false, Ordering::AcqRel);
        assert!(waited, "made ready twice, or before it waits");
        self.ready.notify();
    }

    /// A handle that is dropped; whether the goroutine had ended.
    fn release(&self) -> bool {
        let ended = !say_released(&self.join);
        if ended {
            self.take_and_release();
        }
        ended
    }

    /// A handle that is joined by a goroutine; whether it had to wait.
    fn join(&self) -> bool {
        let waited = self.wait();
        self.take_and_release();
        waited
    }

    /// A handle that is joined by a thread; whether it had to wait.
    fn join_on_thread(&self) -> bool {
        let mut waited = false;
        while let Some(word) = say_watched(&self.join) {
            let kernel = self.futex.0.lock().unwrap();
            // ordering: Relaxed, as the kernel's look may be.
            if self.join.load(Ordering::Relaxed) == word {
                waited = true;
                drop(self.futex.1.wait(kernel).unwrap());
            }
        }
        self.take_and_release_from_outside();
        waited
    }

    /// As `release_ended`, on a goroutine.
    fn take_and_release(&self) {
        self.take_result();
        if is_left(&self.join) || say_released_after_end(&self.join) {
            self.recycle();
        }
    }

    /// As `release_from_outside`.
    fn take_and_release_from_outside(&self) {
        self.take_result();
        if say_released_after_end(&self.join) {
            self.recycle();
        }
    }

    /// As `wait_for_end`.
    fn wait(&self) -> bool {
        // ordering: Acquire; as in `has_ended`.
        self.join.load(Ordering::Acquire) & ENDED == 0 && {
            // ordering: Relaxed: the word publishes it.
            self.waits.store(true, Ordering::Relaxed);
            // The post-switch action: the goroutine has been left.
            if say_awaited(&self.join) {
                // ordering: Relaxed: nobody else will make it ready.
                self.waits.store(false, Ordering::Relaxed);
                false
            } else {
                // loom's waits may end for no reason.
                // ordering: Acquire; pairs with the swap of the goroutine.
                while self.waits.load(Ordering::Acquire) {
                    self.ready.wait();
                }
                true
            }
        }
    }

    fn assert_over(&self) {
        // ordering: Relaxed: all others have ended.
        let counts = [&self.dropped, &self.recycled].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(
            counts,
            [1, 1],
            "result dropped once, goroutine given back once"
        );
    }
}

/// Runs a goroutine beside `handle`, which says whether the kind of execution is the rarer one: both must come.
fn check(straight: bool, handle: impl Fn(&World) -> bool + Send + Sync + 'static) {
    let seen = std::sync::Arc::new([Count::new(0), Count::new(0)]);
    let noted = seen.clone();
    loom::model(move || {
        let world = Arc::new(World::new());
        let goroutine = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.goroutine(straight))
        };
        noted[usize::from(handle(&world))].fetch_add(1, SeqCst);
        goroutine.join().unwrap();
        world.assert_over();
    });
    let seen = [0, 1].map(|kind| seen[kind].load(SeqCst));
    assert!(seen.iter().all(|&seen| seen > 0), "{seen:?} of both kinds");
    println!("{} executions, {seen:?} of each kind", seen[0] + seen[1]);
}

/// Before the goroutine has ended, and after it.
#[test]
fn loom_join_word_dropped_handle() {
    check(false, World::release);
}

/// With and without waiting.
#[test]
fn loom_join_word_joined_by_a_goroutine() {
    check(false, World::join);
}

/// With and without waiting; the goroutine switches straight to a joiner that it sees.
#[test]
fn loom_join_word_switched_straight_to_its_joiner() {
    check(true, World::join);
}

/// With and without waiting.
#[test]
fn loom_join_word_joined_by_a_thread() {
    check(false, World::join_on_thread);
}
