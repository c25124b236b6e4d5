//! The timers of one P, earliest first: a heap whose parents have four children, as Go's (`runtime/time.go`).
//!
//! The deadlines stand side by side in memory of the heap's own, so that looking for the earliest child touches one
//! line of the cache and no node. Nodes are their sleepers', each on the stack of a goroutine or in a timer's handle,
//! and know their place, so any of them can be taken out. Memory comes from the kernel, in pages, and not from the
//! allocator: a goroutine may be stopped inside that while another one that puts a timer in holds the lock.
//!
//! # Invariants
//!
//! * INV-HEAP-1: no entry has an earlier deadline than its parent. Otherwise timers fire late.
//! * INV-HEAP-2: a node is in at most one heap, and stays where it is in memory and alive while it is.
//!   Otherwise the heap follows a pointer to something else.
//! * INV-HEAP-3: the place of a node is that of its entry, plus one. Otherwise removal takes out another one.
//!
//! # Not here
//!
//! The lock: whoever holds the heap mutably has taken it. What a timer does when it fires.

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ptr::NonNull;

use crate::fatal::fatal;
use crate::sys::memory::Reservation;

/// Children of a parent.
const CHILDREN: usize = 4;

/// Memory to begin with, in bytes: a page.
const FIRST_SPACE: usize = 4096;

/// More than this is given back when no timer is left.
const KEPT_SPACE: usize = 64 << 10;

/// One timer. Its owner keeps it in place while it is in a heap.
///
/// Timers with equal deadlines fire in any order.
#[derive(Debug)]
pub(crate) struct TimerNode {
    deadline_ns: Cell<u64>,
    payload: Cell<u64>,
    /// Where its entry is, plus one; 0 in no heap.
    place: Cell<u32>,
    _stays_in_place: PhantomPinned,
}

impl TimerNode {
    /// A timer for `deadline_ns` by the monotonic clock; `payload` is for whoever takes it out.
    pub(crate) const fn new(deadline_ns: u64, payload: u64) -> TimerNode {
        TimerNode {
            deadline_ns: Cell::new(deadline_ns),
            payload: Cell::new(payload),
            place: Cell::new(0),
            _stays_in_place: PhantomPinned,
        }
    }

    /// When it fires: nanoseconds by the monotonic clock.
    #[inline]
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.deadline_ns.get()
    }

    /// Gives it another deadline and payload, for its next time in a heap. Its owner's, while it is in none.
    pub(crate) fn set(&self, deadline_ns: u64, payload: u64) {
        debug_assert!(
            !self.is_queued(),
            "a timer keeps its deadline while it is in a heap"
        );
        self.deadline_ns.set(deadline_ns);
        self.payload.set(payload);
    }

    /// What its owner stored.
    #[inline]
    pub(crate) fn payload(&self) -> u64 {
        self.payload.get()
    }

    /// Whether it is in a heap. Under the lock of that heap.
    #[inline]
    pub(crate) fn is_queued(&self) -> bool {
        self.place.get() != 0
    }
}

/// What the heap keeps of a timer.
#[derive(Debug, Clone, Copy)]
struct Entry {
    deadline_ns: u64,
    timer: NonNull<TimerNode>,
}

/// Timers, earliest first.
#[derive(Debug)]
pub(crate) struct TimerHeap {
    space: Option<Reservation>,
    len: u32,
}

// SAFETY: the heap holds addresses. The nodes behind them are touched only through the heap while they are
// in it (INV-HEAP-2), so by one thread at a time, whichever holds the heap.
unsafe impl Send for TimerHeap {}

impl TimerHeap {
    /// No timers.
    pub(crate) const fn new() -> TimerHeap {
        TimerHeap {
            space: None,
            len: 0,
        }
    }

    /// How many timers are in it.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The deadline of the timer that fires next.
    #[inline]
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        self.entries().first().map(|first| first.deadline_ns)
    }

    /// Puts a timer in. Without memory for it the process ends.
    ///
    /// # Panics
    ///
    /// If it is in a heap already.
    ///
    /// # Safety
    ///
    /// `timer` stays alive and in place, and is used by nobody else without the lock of this heap, until it
    /// is taken out.
    #[inline]
    pub(crate) unsafe fn insert(&mut self, timer: NonNull<TimerNode>) {
        let added = node(timer);
        assert!(!added.is_queued(), "a timer is in one heap at a time");
        let at = self.len as usize;
        if at == self.capacity() {
            self.grow();
        }
        let entry = Entry {
            deadline_ns: added.deadline_ns(),
            timer,
        };
        self.sift_up(at, entry);
        self.len += 1;
    }

    /// Takes out the timer that fires next.
    pub(crate) fn pop(&mut self) -> Option<NonNull<TimerNode>> {
        let first = self.entries().first()?.timer;
        self.take_out(0);
        Some(first)
    }

    /// Takes out the timer that fires next if its time has come at `now_ns`.
    #[inline]
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<NonNull<TimerNode>> {
        if self.earliest_ns()? <= now_ns {
            self.pop()
        } else {
            None
        }
    }

    /// Takes out any timer.
    ///
    /// # Panics
    ///
    /// If it is in no heap.
    ///
    /// # Safety
    ///
    /// `timer` is alive, and if it is in a heap then in this one.
    pub(crate) unsafe fn remove(&mut self, timer: NonNull<TimerNode>) {
        let removed = node(timer);
        assert!(removed.is_queued(), "a timer that is removed is in a heap");
        let at = removed.place.get() as usize - 1;
        debug_assert_eq!(self.entries()[at].timer, timer, "INV-HEAP-3");
        self.take_out(at);
    }

    /// Takes the entry at `at` out; the last one goes where there is room for it.
    fn take_out(&mut self, at: usize) {
        let removed = self.entries()[at];
        let last = self.entries()[self.len as usize - 1];
        self.len -= 1;
        node(removed.timer).place.set(0);
        if at == self.len as usize {
            self.give_back();
        } else if last.deadline_ns < removed.deadline_ns {
            self.sift_up(at, last);
        } else {
            self.sift_down(at, last);
        }
    }

    /// Puts `entry` at `at` or, while its parent is later, there.
    #[inline]
    fn sift_up(&mut self, mut at: usize, entry: Entry) {
        while at > 0 {
            let above = (at - 1) / CHILDREN;
            let parent = self.entries()[above];
            if parent.deadline_ns <= entry.deadline_ns {
                break;
            }
            self.put(at, parent);
            at = above;
        }
        self.put(at, entry);
    }

    /// Puts `entry` at `at` or, while one of its children is earlier, there.
    fn sift_down(&mut self, mut at: usize, entry: Entry) {
        loop {
            let first = at * CHILDREN + 1;
            let children = self.entries().iter().enumerate().skip(first).take(CHILDREN);
            let earliest = children.min_by_key(|(_, child)| child.deadline_ns);
            match earliest {
                Some((below, &child)) if child.deadline_ns < entry.deadline_ns => {
                    self.put(at, child);
                    at = below;
                }
                _ => break,
            }
        }
        self.put(at, entry);
    }

    /// Writes an entry, and its place into its node.
    #[inline(always)]
    fn put(&mut self, at: usize, entry: Entry) {
        if let Some(space) = &self.space {
            debug_assert!(at < self.capacity());
            // SAFETY: callers stay below the length, or are `insert`, which has seen to it that there is room.
            unsafe { space.base().cast::<Entry>().add(at).write(entry) };
            node(entry.timer).place.set(at as u32 + 1);
        }
    }

    #[inline(always)]
    fn capacity(&self) -> usize {
        let bytes = self.space.as_ref().map_or(0, Reservation::len);
        bytes / size_of::<Entry>()
    }

    #[inline(always)]
    fn entries(&self) -> &[Entry] {
        match &self.space {
            // SAFETY: the memory is the heap's, page-aligned, long enough, and written up to the length.
            Some(space) => unsafe {
                std::slice::from_raw_parts(space.base().cast().as_ptr(), self.len as usize)
            },
            None => &[],
        }
    }

    /// Twice the memory.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let bytes = self.space.as_ref().map_or(0, Reservation::len);
        let larger = match Reservation::reserve((bytes * 2).max(FIRST_SPACE)) {
            Ok(larger) => larger,
            Err(error) => fatal!("no memory for {} timers: {error}", self.len + 1),
        };
        // SAFETY: both are mapped, as long as this, and different.
        unsafe {
            let from = self.entries().as_ptr();
            std::ptr::copy_nonoverlapping(from, larger.base().cast().as_ptr(), self.len as usize);
        }
        self.space = Some(larger);
    }

    /// Gives memory back if there is much of it and no timer is left.
    #[inline]
    fn give_back(&mut self) {
        if self.len == 0
            && self
                .space
                .as_ref()
                .is_some_and(|space| space.len() > KEPT_SPACE)
        {
            self.space = None;
        }
    }
}

/// A node in the heap, or one that its owner hands to it.
#[inline(always)]
fn node<'a>(pointer: NonNull<TimerNode>) -> &'a TimerNode {
    // SAFETY: whoever called `insert` or `remove` promised that the node is alive while it is in the heap
    // (INV-HEAP-2), and every pointer that gets here is such a node's. References are shared ones, and all
    // fields are cells.
    unsafe { pointer.as_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::{BTreeSet, BinaryHeap};

    /// Checks every entry of the heap; the payloads in it.
    fn check(heap: &TimerHeap) -> BTreeSet<u64> {
        let entries = heap.entries();
        for (at, entry) in entries.iter().enumerate() {
            let timer = node(entry.timer);
            assert_eq!(timer.place.get() as usize, at + 1, "INV-HEAP-3");
            assert_eq!(timer.deadline_ns(), entry.deadline_ns);
            let parent = entries[at.saturating_sub(1) / CHILDREN];
            assert!(parent.deadline_ns <= entry.deadline_ns, "INV-HEAP-1");
        }
        let payloads: BTreeSet<u64> = entries
            .iter()
            .map(|entry| node(entry.timer).payload())
            .collect();
        assert_eq!(payloads.len(), entries.len(), "a node is there twice");
        payloads
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u64),
        Pop,
        PopDue(u64),
        Remove(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_u64..50).prop_map(Step::Insert),
            2 => Just(Step::Pop),
            1 => (0_u64..50).prop_map(Step::PopDue),
            3 => any::<usize>().prop_map(Step::Remove),
        ]
    }

    proptest! {
        /// Against an oracle: a binary heap of (deadline, number), where removed numbers are passed over.
        #[test]
        fn takes_out_what_a_binary_heap_would(steps in proptest::collection::vec(step(), 1..200)) {
            let mut heap = TimerHeap::new();
            let mut oracle: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
            let mut inside: Vec<Box<TimerNode>> = Vec::new();
            let mut made = 0;
            for step in steps {
                let taken = match step {
                    Step::Insert(deadline) => {
                        let timer = Box::new(TimerNode::new(deadline, made));
                        // SAFETY: the box stays in `inside` until the timer is out of the heap.
                        unsafe { heap.insert(NonNull::from(&*timer)) };
                        oracle.push(Reverse((deadline, made)));
                        inside.push(timer);
                        made += 1;
                        None
                    }
                    Step::Pop => {
                        let taken = heap.pop();
                        prop_assert_eq!(taken.is_none(), oracle.is_empty());
                        taken
                    }
                    Step::PopDue(now) => {
                        let taken = heap.pop_due(now);
                        let due = oracle.peek().is_some_and(|Reverse((at, _))| *at <= now);
                        prop_assert_eq!(taken.is_some(), due);
                        taken
                    }
                    Step::Remove(choice) if !inside.is_empty() => {
                        let timer = inside.swap_remove(choice % inside.len());
                        // SAFETY: the timer is alive and in this heap.
                        unsafe { heap.remove(NonNull::from(&*timer)) };
                        prop_assert!(!timer.is_queued());
                        oracle.retain(|Reverse((_, number))| *number != timer.payload());
                        None
                    }
                    Step::Remove(_) => None,
                };
                if let Some(taken) = taken {
                    let (deadline, number) = (node(taken).deadline_ns(), node(taken).payload());
                    // Any of those with the earliest deadline may come first.
                    prop_assert_eq!(oracle.peek().map(|Reverse((at, _))| *at), Some(deadline));
                    oracle.retain(|Reverse((_, other))| *other != number);
                    prop_assert!(!node(taken).is_queued());
                    inside.retain(|timer| timer.payload() != number);
                }
                let expected: BTreeSet<u64> = oracle.iter().map(|Reverse((_, n))| *n).collect();
                prop_assert_eq!(check(&heap), expected);
                prop_assert_eq!(heap.earliest_ns(), oracle.peek().map(|Reverse((at, _))| *at));
                prop_assert_eq!(heap.earliest_ns().is_none(), oracle.is_empty());
            }
        }
    }

    #[test]
    fn many_timers_in_any_order_are_all_there_and_their_memory_is_given_back() {
        const COUNT: u64 = 300_000;
        let orders: [fn(u64) -> u64; 2] = [|n| COUNT - n, |n| n];
        for order in orders {
            let timers: Vec<TimerNode> = (0..COUNT).map(|n| TimerNode::new(order(n), n)).collect();
            let mut heap = TimerHeap::new();
            for timer in &timers {
                // SAFETY: the vector outlives the heap's use of it and does not move.
                unsafe { heap.insert(NonNull::from(timer)) };
            }
            let mut last = 0;
            let mut count = 0;
            while let Some(timer) = heap.pop() {
                assert!(node(timer).deadline_ns() >= last);
                last = node(timer).deadline_ns();
                count += 1;
            }
            assert_eq!(count, COUNT);
            assert_eq!(heap.capacity(), 0);
        }
    }

    #[test]
    #[should_panic(expected = "one heap at a time")]
    fn a_timer_cannot_be_put_in_twice() {
        let timer = TimerNode::new(1, 0);
        let mut heap = TimerHeap::new();
        // SAFETY: the timer outlives the heap.
        unsafe { heap.insert(NonNull::from(&timer)) };
        // SAFETY: as above; the heap refuses it.
        unsafe { heap.insert(NonNull::from(&timer)) };
    }
}
