//! Handing stacks out and taking them back: a cache for each P above one pool for the process.
//!
//! Both are last in, first out: the stack that was left last has its first pages in memory and in the
//! processor's caches. Nothing here allocates; free stacks are linked through a table beside the arena.

use super::StackError;
use super::arena::{self, CLASSES, Stack};
use super::guard;
use crate::lock::{Rank, SpinLock};
use crate::prim::process_wide::Ordering;
use std::sync::OnceLock;

/// The end of a list of free stacks.
const NONE: u32 = u32::MAX;

/// How many stacks a P keeps.
const CACHED: usize = 64;

/// How many move between a P and the pool at once.
const BATCH: usize = CACHED / 2;

/// All stacks of the process that no P holds.
#[derive(Debug)]
pub(crate) struct StackPool {
    classes: [SpinLock<ClassPool>; CLASSES],
}

/// How stacks of a pool were used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StackCounts {
    /// Stacks that exist: each was new once.
    pub(crate) fresh: u64,
    /// How often the pool gave out a stack that had been used before. What a [`StackCache`] gave out of its
    /// own is counted there ([`StackCache::hits`]).
    pub(crate) reused: u64,
    /// Stacks outside the pool now: in use by goroutines or in a cache.
    pub(crate) in_use: u64,
}

/// The free stacks of one size class. Under the pool's lock of that class.
#[derive(Debug)]
struct ClassPool {
    class: u8,
    /// The stack that came back last; [`NONE`] when there is none.
    free: u32,
    /// How many there are of these.
    free_count: u32,
    /// Stacks that came back and whose memory was given back to the system: after those above.
    trimmed: u32,
    /// Stacks without a guard, because making it failed: tried again before new ones.
    unguarded: u32,
    /// The first number never handed out.
    next_new: u32,
    counts: StackCounts,
}

impl StackPool {
    /// The pool of the process. The first call reserves the address space.
    ///
    /// # Errors
    ///
    /// [`StackError::NoAddressSpace`].
    pub(crate) fn global() -> Result<&'static StackPool, StackError> {
        static POOL: OnceLock<StackPool> = OnceLock::new();
        arena::reserve()?;
        Ok(POOL.get_or_init(|| StackPool {
            classes: std::array::from_fn(|class| {
                SpinLock::new(
                    Rank::StackPool,
                    ClassPool {
                        class: class as u8,
                        free: NONE,
                        free_count: 0,
                        trimmed: NONE,
                        unguarded: NONE,
                        next_new: 0,
                        counts: StackCounts::default(),
                    },
                )
            }),
        }))
    }

    /// A stack of the size class: the one that came back last, else a new one.
    ///
    /// # Errors
    ///
    /// When all are in use or a new one could not be guarded.
    ///
    /// # Panics
    ///
    /// If there is no such class ([`super::class_for`] gives classes).
    pub(crate) fn take(&self, class: u8) -> Result<Stack, StackError> {
        let mut pool = self.classes[usize::from(class)].lock();
        if let Some(stack) = pool.take_used() {
            return Ok(stack);
        }
        let stack = pool.take_unguarded()?;
        drop(pool);
        // The system call happens outside the lock: the stack is ours alone already.
        match guard::install(&stack) {
            Ok(_) => {
                stack.enter_dumps();
                Ok(stack)
            }
            Err(error) => {
                self.classes[usize::from(class)].lock().put_unguarded(stack);
                Err(error)
            }
        }
    }

    /// Takes back a stack that nothing runs on and nothing points into.
    pub(crate) fn put(&self, stack: Stack) {
        self.classes[usize::from(stack.class())].lock().put(stack);
    }

    /// How many stacks of one class are free and may have memory.
    pub(super) fn used_and_free(&self, class: u8) -> usize {
        self.classes[usize::from(class)].lock().free_count as usize
    }

    /// Takes free stacks that may have memory out of the pool for a moment; how many it put into `batch`. Whoever
    /// needs one meanwhile makes a new one.
    pub(super) fn take_to_trim(&self, class: u8, batch: &mut [u32]) -> usize {
        let mut pool = self.classes[usize::from(class)].lock();
        let mut taken = 0;
        for place in batch {
            let Some(index) = pool.pop_free() else { break };
            *place = index;
            taken += 1;
        }
        taken
    }

    /// Puts stacks back that were [taken to be trimmed](StackPool::take_to_trim).
    pub(super) fn put_trimmed(&self, class: u8, batch: &[u32]) {
        let mut pool = self.classes[usize::from(class)].lock();
        for &index in batch {
            push(class, &mut pool.trimmed, index);
        }
    }

    /// How many stacks of one class there are: those with lower numbers.
    pub(super) fn made(&self, class: u8) -> u32 {
        self.classes[usize::from(class)].lock().next_new
    }

    #[cfg_attr(not(test), allow(dead_code, reason = "what tests look at"))]
    /// The counts of one class.
    pub(crate) fn counts(&self, class: u8) -> StackCounts {
        self.classes[usize::from(class)].lock().counts
    }
}

impl ClassPool {
    fn pop_free(&mut self) -> Option<u32> {
        let index = pop(self.class, &mut self.free)?;
        self.free_count -= 1;
        Some(index)
    }

    fn take_used(&mut self) -> Option<Stack> {
        let index = match self.pop_free() {
            Some(index) => index,
            None => pop(self.class, &mut self.trimmed)?,
        };
        self.counts.reused += 1;
        self.counts.in_use += 1;
        Some(Stack::new(self.class, index))
    }

    /// A stack that still needs its guard.
    fn take_unguarded(&mut self) -> Result<Stack, StackError> {
        let index = match pop(self.class, &mut self.unguarded) {
            Some(index) => index,
            None if self.next_new < arena::capacity(self.class) => {
                self.next_new += 1;
                self.next_new - 1
            }
            None => {
                return Err(StackError::Exhausted {
                    stride: arena::stride(self.class),
                    count: arena::capacity(self.class),
                });
            }
        };
        self.counts.fresh += 1;
        self.counts.in_use += 1;
        Ok(Stack::new(self.class, index))
    }

    fn put_unguarded(&mut self, stack: Stack) {
        self.counts.fresh -= 1;
        self.counts.in_use -= 1;
        push(self.class, &mut self.unguarded, stack.index);
    }

    fn put(&mut self, stack: Stack) {
        debug_assert_eq!(stack.class(), self.class);
        self.counts.in_use -= 1;
        self.free_count += 1;
        push(self.class, &mut self.free, stack.index);
    }
}

fn push(class: u8, head: &mut u32, index: u32) {
    // ordering: Relaxed; links are read and written under the lock of the class only.
    arena::link_of(class, index).store(*head, Ordering::Relaxed);
    *head = index;
}

fn pop(class: u8, head: &mut u32) -> Option<u32> {
    let index = *head;
    if index == NONE {
        return None;
    }
    // ordering: Relaxed; as in `push`.
    *head = arena::link_of(class, index).load(Ordering::Relaxed);
    Some(index)
}

/// The stacks of one size class that a P keeps for its next goroutines.
///
/// Every operation is for whoever holds the P, and none takes a lock unless the cache is empty or full.
#[derive(Debug)]
pub(crate) struct StackCache {
    class: u8,
    len: usize,
    indices: [u32; CACHED],
    hits: u64,
}

impl StackCache {
    /// An empty cache for a size class.
    pub(crate) const fn new(class: u8) -> StackCache {
        StackCache {
            class,
            len: 0,
            indices: [0; CACHED],
            hits: 0,
        }
    }

    /// A stack of the cache's class; an empty cache is filled with up to 32 from the pool first.
    ///
    /// # Errors
    ///
    /// Those of [`StackPool::take`].
    #[inline]
    pub(crate) fn take(&mut self, pool: &StackPool) -> Result<Stack, StackError> {
        if self.len == 0 {
            return self.refill(pool);
        }
        self.len -= 1;
        self.hits += 1;
        Ok(Stack::new(self.class, self.indices[self.len]))
    }

    /// Takes back a stack that nothing runs on and nothing points into. A full cache gives 32 to the pool
    /// first; a stack of another class goes straight there.
    #[inline]
    pub(crate) fn put(&mut self, pool: &StackPool, stack: Stack) {
        if stack.class() != self.class {
            return pool.put(stack);
        }
        if self.len == CACHED {
            self.spill(pool, BATCH);
        }
        self.indices[self.len] = stack.index;
        self.len += 1;
    }

    /// The size class.
    #[inline]
    pub(crate) fn class(&self) -> u8 {
        self.class
    }

    /// From now on it has stacks of another class.
    #[cold]
    #[inline(never)]
    pub(crate) fn change_class(&mut self, pool: &StackPool, class: u8) {
        self.flush(pool);
        self.class = class;
    }

    /// Gives all stacks to the pool: for a P that is going away.
    pub(crate) fn flush(&mut self, pool: &StackPool) {
        self.spill(pool, self.len);
    }

    #[cfg_attr(not(test), allow(dead_code, reason = "what tests look at"))]
    /// How many stacks are in the cache.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[cfg_attr(not(test), allow(dead_code, reason = "what tests look at"))]
    /// How often [`StackCache::take`] was served from the cache.
    pub(crate) fn hits(&self) -> u64 {
        self.hits
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, pool: &StackPool) -> Result<Stack, StackError> {
        {
            let mut class = pool.classes[usize::from(self.class)].lock();
            for _ in 0..BATCH {
                let Some(stack) = class.take_used() else {
                    break;
                };
                self.indices[self.len] = stack.index;
                self.len += 1;
            }
        }
        if self.len == 0 {
            return pool.take(self.class);
        }
        // The pool's most recent stack was taken first: give that one, and keep the order of the rest.
        self.indices[..self.len].reverse();
        self.len -= 1;
        Ok(Stack::new(self.class, self.indices[self.len]))
    }

    /// Gives the `count` stacks that were put first to the pool: they are the coldest.
    #[cold]
    #[inline(never)]
    fn spill(&mut self, pool: &StackPool, count: usize) {
        let mut class = pool.classes[usize::from(self.class)].lock();
        for &index in &self.indices[..count] {
            class.put(Stack::new(self.class, index));
        }
        drop(class);
        self.indices.copy_within(count..self.len, 0);
        self.len -= count;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    // Each test has a class of its own, since the pool is the process's.

    #[test]
    fn the_last_stack_back_is_the_first_out() {
        const CLASS: u8 = 6;
        let pool = StackPool::global().unwrap();
        let before = pool.counts(CLASS);
        let stacks: Vec<Stack> = (0..10).map(|_| pool.take(CLASS).unwrap()).collect();
        let tops: Vec<usize> = stacks.iter().map(Stack::top).collect();
        assert_eq!(
            tops.iter().collect::<HashSet<_>>().len(),
            10,
            "a stack was given out twice"
        );
        assert_eq!(pool.counts(CLASS).in_use - before.in_use, 10);
        for stack in stacks {
            pool.put(stack);
        }
        assert_eq!(pool.counts(CLASS).in_use, before.in_use);
        let again: Vec<Stack> = (0..10).map(|_| pool.take(CLASS).unwrap()).collect();
        assert!(again.iter().map(Stack::top).eq(tops.iter().rev().copied()));
        let after = pool.counts(CLASS);
        assert_eq!(
            (after.fresh - before.fresh, after.reused - before.reused),
            (10, 10)
        );
        again.into_iter().for_each(|stack| pool.put(stack));
    }

    #[test]
    fn a_cache_moves_stacks_in_batches_and_loses_none() {
        const CLASS: u8 = 5;
        assert_eq!((CACHED, BATCH), (64, 32), "as Go's for goroutines");
        let pool = StackPool::global().unwrap();
        let mut cache = StackCache::new(CLASS);
        let mut stacks = Vec::new();
        for _ in 0..CACHED + 1 {
            stacks.push(cache.take(pool).unwrap());
        }
        assert_eq!(
            (cache.len(), cache.hits()),
            (0, 0),
            "the pool had none to keep"
        );
        let tops: HashSet<usize> = stacks.iter().map(Stack::top).collect();
        assert_eq!(tops.len(), CACHED + 1);
        for stack in stacks.drain(..) {
            cache.put(pool, stack);
        }
        // The 65th put sent the first 32 to the pool.
        assert_eq!(cache.len(), CACHED + 1 - BATCH);
        assert_eq!(pool.counts(CLASS).in_use, cache.len() as u64);
        for _ in 0..CACHED + 1 {
            stacks.push(cache.take(pool).unwrap());
        }
        assert_eq!(stacks.iter().map(Stack::top).collect::<HashSet<_>>(), tops);
        assert_eq!(
            pool.counts(CLASS).fresh,
            CACHED as u64 + 1,
            "none was new the second time"
        );
        for stack in stacks.drain(..) {
            cache.put(pool, stack);
        }
        cache.flush(pool);
        assert_eq!((cache.len(), pool.counts(CLASS).in_use), (0, 0));
    }

    #[test]
    fn a_cache_passes_on_stacks_of_another_class() {
        let pool = StackPool::global().unwrap();
        let mut cache = StackCache::new(3);
        let before = pool.counts(4).in_use;
        let stack = pool.take(4).unwrap();
        cache.put(pool, stack);
        assert_eq!((cache.len(), pool.counts(4).in_use), (0, before));
    }

    #[test]
    fn running_out_is_an_error_and_comes_back() {
        // The largest class in the smallest range: a class has `capacity` stacks, then none.
        let pool = StackPool::global().unwrap();
        let capacity = arena::capacity(7);
        let mut class = pool.classes[7].lock();
        let next_new = std::mem::replace(&mut class.next_new, capacity);
        let free = std::mem::replace(&mut class.free, NONE);
        let trimmed = std::mem::replace(&mut class.trimmed, NONE);
        assert!(class.take_used().is_none());
        let error = class.take_unguarded().unwrap_err();
        class.next_new = next_new;
        class.free = free;
        class.trimmed = trimmed;
        assert_eq!(
            error,
            StackError::Exhausted {
                stride: 8 << 20,
                count: capacity
            }
        );
        assert!(error.to_string().contains("are in use"), "{error}");
    }

    #[test]
    fn a_failed_guard_is_tried_again_on_the_same_stack() {
        let mut class = ClassPool {
            class: 7,
            free: NONE,
            free_count: 0,
            trimmed: NONE,
            unguarded: NONE,
            next_new: 0,
            counts: StackCounts::default(),
        };
        arena::reserve().unwrap();
        let stack = class.take_unguarded().unwrap();
        assert_eq!((stack.index, class.next_new), (0, 1));
        class.put_unguarded(stack);
        assert_eq!(class.counts, StackCounts::default());
        let again = class.take_unguarded().unwrap();
        assert_eq!((again.index, class.next_new), (0, 1));
    }

    #[test]
    fn threads_never_hold_the_same_stack() {
        const CLASS: u8 = 1;
        const THREADS: usize = 4;
        let pool = StackPool::global().unwrap();
        let before = pool.counts(CLASS).in_use;
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                std::thread::spawn(move || {
                    let mut cache = StackCache::new(CLASS);
                    let mut held = Vec::new();
                    for round in 0..2_000 {
                        if round % 3 == 2 {
                            for stack in held.drain(..) {
                                let mine: &Stack = &stack;
                                // ordering: AcqRel; whoever held it before wrote null.
                                let owner =
                                    mine.slot().swap(std::ptr::null_mut(), Ordering::AcqRel);
                                assert_eq!(owner as usize, crate::sys::thread::gettid() as usize);
                                cache.put(pool, stack);
                            }
                        } else {
                            for _ in 0..round % 50 {
                                let stack = cache.take(pool).unwrap();
                                // ordering: AcqRel; as above.
                                let owner = stack.slot().swap(
                                    crate::sys::thread::gettid() as usize as *mut (),
                                    Ordering::AcqRel,
                                );
                                assert!(owner.is_null(), "somebody else holds the stack");
                                held.push(stack);
                            }
                        }
                    }
                    for stack in held {
                        // ordering: Release; as above.
                        stack.slot().store(std::ptr::null_mut(), Ordering::Release);
                        cache.put(pool, stack);
                    }
                    cache.flush(pool);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(pool.counts(CLASS).in_use, before);
        assert!(pool.counts(CLASS).reused > 0);
    }
}
