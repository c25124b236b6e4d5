//! Lists of goroutines linked through themselves: the global run queue and the free lists.

use crate::sched::refs::GRef;

/// A first-in first-out list of goroutines. Putting one on it never allocates.
#[derive(Debug, Default)]
pub(crate) struct GList {
    head: Option<GRef>,
    tail: Option<GRef>,
    len: u32,
}

impl GList {
    pub(crate) const fn new() -> GList {
        GList {
            head: None,
            tail: None,
            len: 0,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Puts `g` last.
    pub(crate) fn push_back(&mut self, g: GRef) {
        g.link.set(None);
        match self.tail {
            Some(tail) => tail.link.set(Some(g)),
            None => self.head = Some(g),
        }
        self.tail = Some(g);
        self.len += 1;
    }

    /// Puts `g` first.
    pub(crate) fn push_front(&mut self, g: GRef) {
        g.link.set(self.head);
        self.head = Some(g);
        if self.tail.is_none() {
            self.tail = Some(g);
        }
        self.len += 1;
    }

    /// Takes the first one.
    pub(crate) fn pop_front(&mut self) -> Option<GRef> {
        let g = self.head?;
        self.head = g.link.get();
        if self.head.is_none() {
            self.tail = None;
        }
        g.link.set(None);
        self.len -= 1;
        Some(g)
    }
}
