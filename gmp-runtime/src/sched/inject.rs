//! Lists of goroutines linked through themselves: the global run queue, the free lists, and shorter ones.

use crate::prim::hint;
use crate::sched::refs::GRef;
use crate::sched::shown::ShownNumber;

/// How far ahead of the first goroutine of a list the memory of another one is fetched. In a long list each is in
/// no cache, and its link says where the next one is: without this, one would be waited for after the other.
const AHEAD: usize = 8;

/// A first-in first-out list of goroutines. Putting one on it never allocates.
#[derive(Debug)]
pub(crate) struct GList {
    head: Option<GRef>,
    tail: Option<GRef>,
    /// Others may read it at any time.
    len: ShownNumber,
    /// The last ones, in a ring; those of them that are still here.
    recent: [Option<GRef>; AHEAD],
    /// Where the oldest of them is.
    oldest: usize,
}

impl GList {
    pub(crate) fn new() -> GList {
        GList {
            head: None,
            tail: None,
            len: ShownNumber::new(0),
            recent: [None; AHEAD],
            oldest: 0,
        }
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len.get() as u32
    }

    /// The first one, which stays.
    pub(crate) fn front(&self) -> Option<GRef> {
        self.head
    }

    /// Puts `g` last.
    #[inline]
    pub(crate) fn push_back(&mut self, g: GRef) {
        g.link.set(None);
        g.ahead.set(None);
        match self.tail {
            Some(tail) => tail.link.set(Some(g)),
            None => self.head = Some(g),
        }
        self.tail = Some(g);
        let len = self.len.get();
        self.len.set(len + 1);
        let before = self.recent[self.oldest].replace(g);
        self.oldest = (self.oldest + 1) % AHEAD;
        // The last so many are here if so many are.
        if len >= AHEAD as u64
            && let Some(before) = before
        {
            before.ahead.set(Some(g));
        }
    }

    /// Takes the first one.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<GRef> {
        let g = self.head?;
        self.head = g.link.take();
        if self.head.is_none() {
            self.tail = None;
        }
        if let Some(ahead) = g.ahead.take() {
            // What whoever starts or makes a goroutine needs of it is in all of its lines, which come in pairs.
            hint::prefetch(ahead.as_ptr());
            hint::prefetch(ahead.as_ptr().wrapping_byte_add(128));
        }
        self.len.set(self.len.get() - 1);
        Some(g)
    }
}

/// A last-in first-out list of goroutines, of which none is in another list. Putting one on it never allocates.
#[derive(Debug)]
pub(crate) struct GStack {
    top: Option<GRef>,
    /// Others may read it at any time.
    len: ShownNumber,
}

impl GStack {
    pub(crate) fn new() -> GStack {
        GStack {
            top: None,
            len: ShownNumber::new(0),
        }
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len.get() as u32
    }

    /// The length of a list that others may be changing.
    ///
    /// # Safety
    /// There is a list.
    pub(crate) unsafe fn len_at(list: *const GStack) -> u32 {
        // SAFETY: the caller's contract; a reference to the length alone, which is atomic.
        unsafe { &(*list).len }.get() as u32
    }

    /// Puts `g` on top.
    #[inline]
    pub(crate) fn push(&mut self, g: GRef) {
        g.link.set(self.top.replace(g));
        self.len.set(self.len.get() + 1);
    }

    /// Takes the one on top.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<GRef> {
        let g = self.top?;
        self.top = g.link.take();
        self.len.set(self.len.get() - 1);
        Some(g)
    }
}
