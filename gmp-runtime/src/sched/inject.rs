//! Lists of goroutines linked through themselves: the global run queue and the free lists.

use crate::sched::refs::GRef;
use crate::sched::shown::ShownNumber;

/// A first-in first-out list of goroutines. Putting one on it never allocates.
#[derive(Debug)]
pub(crate) struct GList {
    head: Option<GRef>,
    tail: Option<GRef>,
    /// Others may read it at any time.
    len: ShownNumber,
}

impl GList {
    pub(crate) fn new() -> GList {
        GList {
            head: None,
            tail: None,
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
    pub(crate) unsafe fn len_at(list: *const GList) -> u32 {
        // SAFETY: the caller's contract; a reference to the length alone, which is atomic.
        unsafe { &(*list).len }.get() as u32
    }

    /// The first one, which stays.
    pub(crate) fn front(&self) -> Option<GRef> {
        self.head
    }

    /// Puts `g` last.
    #[inline]
    pub(crate) fn push_back(&mut self, g: GRef) {
        g.link.set(None);
        match self.tail {
            Some(tail) => tail.link.set(Some(g)),
            None => self.head = Some(g),
        }
        self.tail = Some(g);
        self.len.set(self.len.get() + 1);
    }

    /// Puts `g` first.
    #[inline]
    pub(crate) fn push_front(&mut self, g: GRef) {
        g.link.set(self.head);
        self.head = Some(g);
        if self.tail.is_none() {
            self.tail = Some(g);
        }
        self.len.set(self.len.get() + 1);
    }

    /// Takes the first one.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<GRef> {
        let g = self.head?;
        self.head = g.link.get();
        if self.head.is_none() {
            self.tail = None;
        }
        g.link.set(None);
        self.len.set(self.len.get() - 1);
        Some(g)
    }
}
