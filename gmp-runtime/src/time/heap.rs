//! The timers of one P, earliest first, linked through nodes that their sleepers own.
//!
//! It is a pairing heap: putting a timer in is a comparison and two stores, which is what most timers cost,
//! since most are taken out again before they fire; taking one out (the earliest or any other) is
//! logarithmic on average. Nothing here allocates: a goroutine that sleeps has its node on its own stack.
//!
//! # Invariants
//!
//! * INV-HEAP-1: no node has an earlier deadline than its parent. Otherwise timers fire late.
//! * INV-HEAP-2: a node is in at most one heap, and stays where it is in memory and alive while it is.
//!   Otherwise the heap follows a pointer to something else.
//! * INV-HEAP-3: `previous` of a node is its left sibling, or its parent if it is the first child; the root
//!   has none. Otherwise removal cuts the wrong link.
//!
//! # Not here
//!
//! The lock: whoever holds the heap mutably has taken it. What a timer does when it fires.

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ptr::NonNull;

/// Where a timer stands in a heap.
type Link = Cell<Option<NonNull<TimerNode>>>;

/// One timer. Its owner keeps it in place while it is in a heap.
///
/// Timers with equal deadlines fire in any order.
#[derive(Debug)]
pub(crate) struct TimerNode {
    deadline_ns: Cell<u64>,
    payload: Cell<u64>,
    queued: Cell<bool>,
    first_child: Link,
    next_sibling: Link,
    previous: Link,
    _stays_in_place: PhantomPinned,
}

impl TimerNode {
    /// A timer for `deadline_ns` by the monotonic clock; `payload` is for whoever takes it out.
    pub(crate) const fn new(deadline_ns: u64, payload: u64) -> TimerNode {
        TimerNode {
            deadline_ns: Cell::new(deadline_ns),
            payload: Cell::new(payload),
            queued: Cell::new(false),
            first_child: Cell::new(None),
            next_sibling: Cell::new(None),
            previous: Cell::new(None),
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
            !self.queued.get(),
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
        self.queued.get()
    }
}

/// Timers, earliest first.
#[derive(Debug)]
pub(crate) struct TimerHeap {
    root: Option<NonNull<TimerNode>>,
    len: u32,
}

// SAFETY: the heap holds addresses. The nodes behind them are touched only through the heap while they are
// in it (INV-HEAP-2), so by one thread at a time, whichever holds the heap.
unsafe impl Send for TimerHeap {}

impl TimerHeap {
    /// No timers.
    pub(crate) const fn new() -> TimerHeap {
        TimerHeap { root: None, len: 0 }
    }

    /// How many timers are in it.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The deadline of the timer that fires next.
    #[inline]
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        self.root.map(|root| node(root).deadline_ns())
    }

    /// Puts a timer in.
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
        assert!(
            !added.queued.replace(true),
            "a timer is in one heap at a time"
        );
        self.len += 1;
        self.root = Some(match self.root {
            Some(root) => meld(root, timer),
            None => timer,
        });
    }

    /// Takes out the timer that fires next.
    pub(crate) fn pop(&mut self) -> Option<NonNull<TimerNode>> {
        let root = self.root?;
        self.root = meld_siblings(node(root).first_child.take());
        self.leave(root);
        Some(root)
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
        assert!(removed.queued.get(), "a timer that is removed is in a heap");
        if self.root == Some(timer) {
            self.pop();
            return;
        }
        cut(timer);
        if let Some(rest) = meld_siblings(removed.first_child.take())
            && let Some(root) = self.root
        {
            self.root = Some(meld(root, rest));
        }
        self.leave(timer);
    }

    /// The timer has no links any more.
    fn leave(&mut self, timer: NonNull<TimerNode>) {
        let left = node(timer);
        debug_assert!(left.first_child.get().is_none());
        debug_assert!(left.next_sibling.get().is_none() && left.previous.get().is_none());
        left.queued.set(false);
        self.len -= 1;
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

/// Makes one heap of two: the later root becomes the first child of the earlier one. Neither root has
/// siblings.
#[inline]
fn meld(one: NonNull<TimerNode>, other: NonNull<TimerNode>) -> NonNull<TimerNode> {
    let (parent, child) = if node(one).deadline_ns() <= node(other).deadline_ns() {
        (one, other)
    } else {
        (other, one)
    };
    let former_first = node(parent).first_child.replace(Some(child));
    if let Some(former_first) = former_first {
        node(former_first).previous.set(Some(child));
    }
    node(child).next_sibling.set(former_first);
    node(child).previous.set(Some(parent));
    parent
}

/// Makes one heap of the heaps in a list of siblings: pairs from left to right, then all from right to
/// left. That order is what makes taking out cheap on average.
fn meld_siblings(first: Option<NonNull<TimerNode>>) -> Option<NonNull<TimerNode>> {
    // The pairs, last one first, linked by `next_sibling`.
    let mut pairs = None;
    let mut rest = first;
    while let Some(one) = rest {
        let other = detach(one);
        let pair = match other {
            Some(other) => {
                rest = detach(other);
                meld(one, other)
            }
            None => {
                rest = None;
                one
            }
        };
        node(pair).next_sibling.set(pairs);
        pairs = Some(pair);
    }
    let last = pairs?;
    let mut remaining = detach(last);
    let mut root = last;
    while let Some(pair) = remaining {
        remaining = detach(pair);
        root = meld(root, pair);
    }
    Some(root)
}

/// Forgets the links of a node to its left and right; the sibling that came after it.
fn detach(pointer: NonNull<TimerNode>) -> Option<NonNull<TimerNode>> {
    node(pointer).previous.set(None);
    node(pointer).next_sibling.take()
}

/// Takes a node with its children out of the list of its siblings. It is not the root.
fn cut(pointer: NonNull<TimerNode>) {
    let removed = node(pointer);
    let next = removed.next_sibling.take();
    let previous = removed.previous.take();
    if let Some(next) = next {
        node(next).previous.set(previous);
    }
    if let Some(previous) = previous {
        // INV-HEAP-3: the parent if we are its first child, else the left sibling.
        let previous = node(previous);
        if previous.first_child.get() == Some(pointer) {
            previous.first_child.set(next);
        } else {
            previous.next_sibling.set(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::{BTreeSet, BinaryHeap};

    /// Checks every link of the heap; the payloads in it.
    fn check(heap: &TimerHeap) -> BTreeSet<u64> {
        let mut payloads = BTreeSet::new();
        let mut open: Vec<NonNull<TimerNode>> = heap.root.into_iter().collect();
        for root in &open {
            assert!(node(*root).previous.get().is_none());
            assert!(node(*root).next_sibling.get().is_none());
        }
        while let Some(parent) = open.pop() {
            assert!(node(parent).is_queued());
            assert!(
                payloads.insert(node(parent).payload()),
                "a node is reached twice"
            );
            let mut previous = parent;
            let mut child = node(parent).first_child.get();
            while let Some(at) = child {
                assert!(
                    node(at).deadline_ns() >= node(parent).deadline_ns(),
                    "INV-HEAP-1"
                );
                assert_eq!(node(at).previous.get(), Some(previous), "INV-HEAP-3");
                open.push(at);
                previous = at;
                child = node(at).next_sibling.get();
            }
        }
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
    fn many_timers_in_a_bad_order_neither_recurse_nor_get_lost() {
        // Falling deadlines make one long chain, rising ones a root with very many children.
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
