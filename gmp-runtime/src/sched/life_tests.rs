//! Models of the join word: a goroutine that ends, its M that leaves it, and its handle.

use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
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
        // ordering: Relaxed: read when all have ended.
        self.recycled.fetch_add(1, Ordering::Relaxed);
    }

    /// The goroutine's side: `end`, then `free_after_exit`.
    fn goroutine(&self) {
        self.result.with_mut(|result| {
            // SAFETY: nobody has seen the end yet.
            unsafe { *result = 7 }
        });
        match say_ended(&self.join) {
            None => self.take_result(),
            Some(before) if before & AWAITED != 0 => {
                // ordering: AcqRel: whoever makes it ready hands it over, as a run queue does.
                let waited = self.waits.swap(false, Ordering::AcqRel);
                assert!(waited, "made ready twice, or before it waits");
                self.ready.notify();
            }
            Some(_) => {}
        }
        if say_left(&self.join) {
            self.recycle();
        }
    }

    /// A handle that is dropped.
    fn release(&self) {
        if say_released(&self.join) {
            return;
        }
        self.take_result();
        if say_released_after_end(&self.join) {
            self.recycle();
        }
    }

    /// A handle that is joined by a goroutine; whether it had to wait.
    fn join(&self) -> bool {
        // ordering: Acquire; as in `has_ended`.
        let waited = self.join.load(Ordering::Acquire) & ENDED == 0 && {
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
        };
        self.take_result();
        if say_released_after_end(&self.join) {
            self.recycle();
        }
        waited
    }

    fn assert_over(&self) {
        // ordering: Relaxed: all others have ended.
        let counts = [&self.dropped, &self.recycled].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 1], "result dropped once, goroutine given back once");
    }
}

/// Runs `model`; the closure gets two counters of what it wants to have seen.
fn check(model: impl Fn(&[Count; 2]) + Send + Sync + 'static) {
    let seen = std::sync::Arc::new([Count::new(0), Count::new(0)]);
    let noted = seen.clone();
    loom::model(move || model(&noted));
    let seen = [seen[0].load(SeqCst), seen[1].load(SeqCst)];
    assert!(seen.iter().all(|&seen| seen > 0), "{seen:?} of both kinds");
    println!("seen {seen:?}");
}

#[test]
fn loom_join_word_dropped_handle() {
    check(|seen| {
        let world = Arc::new(World::new());
        let goroutine = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.goroutine())
        };
        // ordering: Acquire; as in `has_ended`.
        let ended = world.join.load(Ordering::Acquire) & ENDED != 0;
        seen[usize::from(ended)].fetch_add(1, SeqCst);
        world.release();
        goroutine.join().unwrap();
        world.assert_over();
    });
}

#[test]
fn loom_join_word_joined_handle() {
    check(|seen| {
        let world = Arc::new(World::new());
        let goroutine = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.goroutine())
        };
        let waited = world.join();
        seen[usize::from(waited)].fetch_add(1, SeqCst);
        goroutine.join().unwrap();
        world.assert_over();
    });
}
