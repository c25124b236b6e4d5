//! Where goroutines wait, and for how long: by reason and place.

use super::distribution::Distribution;
use crate::machine::{GoroutineSpan, GoroutineState, Place};
use gmp_trace::id::{GId, ObjectId};
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;
use rustc_hash::FxHashMap;

/// Waits of one reason at one place.
#[derive(Clone, Debug)]
pub struct BlockingSite {
    /// Why.
    pub reason: Text,
    /// Where.
    pub place: Place,
    /// Every wait, those included that the end of the trace cut.
    pub waits: Distribution,
    /// The longest wait that ended.
    pub longest_ended: Nanos,
    /// Goroutines that still wait when the trace ends.
    pub still: u64,
}

/// A wait that the end of the trace cut.
#[derive(Clone, Copy, Debug)]
pub struct OpenWait {
    /// Which goroutine.
    pub goroutine: GId,
    /// The number of its group.
    pub group: usize,
    /// The number of its blocking site.
    pub site: usize,
    /// What it waits for.
    pub object: Option<ObjectId>,
    /// Since when.
    pub since: Nanos,
}

/// Collects waits by reason and place.
#[derive(Clone, Debug, Default)]
pub struct Blocking {
    index: FxHashMap<(Text, Place), u32>,
    sites: Vec<BlockingSite>,
    open: Vec<OpenWait>,
    /// The last site of each slot: most goroutines wait at the same place again.
    last: Vec<u32>,
}

impl Blocking {
    /// A goroutine of group `group` leaves a state.
    #[inline]
    pub fn span(&mut self, span: &GoroutineSpan, group: usize) {
        if span.state != GoroutineState::Waiting {
            return;
        }
        let site = self.site(span);
        let entry = &mut self.sites[site];
        let time = span.end.since(span.begin);
        entry.waits.record(time);
        if span.open {
            entry.still += 1;
            self.open.push(OpenWait {
                goroutine: span.goroutine,
                group,
                site,
                object: span.object,
                since: span.begin,
            });
        } else {
            entry.longest_ended = entry.longest_ended.max(time);
        }
    }

    #[inline]
    fn site(&mut self, span: &GoroutineSpan) -> usize {
        if let Some(&last) = self.last.get(span.slot)
            && let Some(entry) = self.sites.get(last as usize)
            && entry.reason == span.reason
            && entry.place == span.place
        {
            return last as usize;
        }
        self.find_site(span)
    }

    fn find_site(&mut self, span: &GoroutineSpan) -> usize {
        let next = self.sites.len() as u32;
        let site = *self.index.entry((span.reason, span.place)).or_insert(next);
        if site == next {
            self.sites.push(BlockingSite {
                reason: span.reason,
                place: span.place,
                waits: Distribution::new(),
                longest_ended: Nanos::ZERO,
                still: 0,
            });
        }
        if span.slot >= self.last.len() {
            self.last.resize(span.slot + 1, u32::MAX);
        }
        self.last[span.slot] = site;
        site as usize
    }

    /// The sites, by their numbers.
    pub fn sites(&self) -> &[BlockingSite] {
        &self.sites
    }

    /// The waits that the end of the trace cut, by goroutine.
    pub fn open(&self) -> Vec<OpenWait> {
        let mut open = self.open.clone();
        open.sort_by_key(|wait| wait.goroutine);
        open
    }
}
