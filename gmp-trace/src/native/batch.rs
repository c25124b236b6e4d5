//! The events that are made before they are given on.

use crate::event::{Body, Event};
use crate::time::Nanos;

/// Events after which a batch is given on.
pub(super) const FULL: usize = 256;

/// More events than one record makes.
const MARGIN: usize = 4;

/// A place for a batch of events, used again and again: an event is written once, where it stays.
#[derive(Debug)]
pub(super) struct Batch {
    events: Box<[Event]>,
    len: usize,
}

impl Batch {
    pub(super) fn new() -> Batch {
        let (time, body) = (Nanos::ZERO, Body::ProcStop);
        let none = Event {
            time,
            order: 0,
            m: None,
            p: None,
            g: None,
            body,
        };
        Batch {
            events: vec![none; FULL + MARGIN].into(),
            len: 0,
        }
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len >= FULL
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn events(&self) -> &[Event] {
        self.events.get(..self.len).unwrap_or_default()
    }

    /// Adds `event`; whoever adds looks at [`Batch::is_full`] before each record.
    #[inline(always)]
    pub(super) fn push(&mut self, event: Event) {
        debug_assert!(self.len < self.events.len());
        if let Some(place) = self.events.get_mut(self.len) {
            *place = event;
            self.len += 1;
        }
    }
}
