//! One lane: spans that are wide enough to be drawn one by one, and the time of all others in
//! columns.

use super::columns::{Columns, Counts, Scale};
use gmp_trace::id::GId;
use gmp_trace::time::Nanos;

/// How many groups have columns of their own at one moment; the time of others is in one column
/// together.
pub(super) const SLOTS: usize = 24;

/// The paint of groups without a slot.
pub(super) const OTHER: usize = SLOTS;

/// The paint of state number 0; others follow.
pub(super) const STATES: usize = SLOTS + 1;

/// How many paints there are.
pub(super) const PAINTS: usize = STATES + 8;

/// A span that is kept may overlap others in a lane of tasks; this many for each column at most.
const SPANS_A_COLUMN: usize = 2;

/// A span as it is kept until the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) begin: Nanos,
    pub(super) end: Nanos,
    /// The number of the state.
    pub(super) state: u8,
    pub(super) group: Option<u32>,
    /// True where the group gives it its colour, and not the state.
    pub(super) by_group: bool,
    pub(super) goroutine: Option<GId>,
}

/// What happens at a moment and is marked on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mark {
    /// The lane's P or thread took goroutines from another P.
    Steal,
    /// The lane's P was given to another thread, or was taken from it.
    HandOff,
    /// A goroutine was made to give up the lane's P.
    Preemption,
}

impl Mark {
    /// Every kind.
    pub const ALL: [Mark; 3] = [Mark::Steal, Mark::HandOff, Mark::Preemption];

    /// Its name in the legend.
    pub const fn name(self) -> &'static str {
        match self {
            Mark::Steal => "steal",
            Mark::HandOff => "hand-off of a P",
            Mark::Preemption => "preemption",
        }
    }
}

/// One lane while the trace is read.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    /// Spans as wide as a column or wider.
    pub(super) kept: Vec<Kept>,
    /// The time of other spans, by paint.
    pub(super) merged: Vec<Columns>,
    /// By [`Mark`].
    pub(super) marks: [Counts; Mark::ALL.len()],
    /// False where spans may overlap without end, so that none is kept.
    keeps: bool,
}

impl Lane {
    pub(super) fn new(keeps: bool) -> Lane {
        Lane {
            kept: Vec::new(),
            merged: vec![Columns::default(); PAINTS],
            marks: Default::default(),
            keeps,
        }
    }

    /// One more span, which `scale` reaches.
    #[inline]
    pub(super) fn add(&mut self, scale: &Scale, span: Kept, paint: usize) {
        let wide = self.keeps && span.end.0 - span.begin.0 >= scale.width();
        if wide && self.kept.len() < SPANS_A_COLUMN * scale.count() {
            self.kept.push(span);
        } else {
            self.merged[paint].add(scale, span.begin, span.end, 1);
        }
    }

    /// Columns double: `scale` is the old one. Spans that became too narrow are merged afterwards,
    /// by [`Lane::merge_narrow`].
    pub(super) fn fold(&mut self, scale: &Scale) {
        for columns in &mut self.merged {
            columns.fold(scale);
        }
        for counts in &mut self.marks {
            counts.fold();
        }
    }

    /// Merges spans that are narrower than `width` nanoseconds.
    pub(super) fn merge_narrow(&mut self, scale: &Scale, width: i64, slots: &[u8]) {
        let merged = &mut self.merged;
        self.kept.retain(|span| {
            let wide = span.end.0 - span.begin.0 >= width;
            if !wide {
                let paint = paint_of(span, slots);
                merged[paint].add(scale, span.begin, span.end, 1);
            }
            wide
        });
    }

    /// The time of `paint` is that of groups without a slot from now on.
    pub(super) fn give_to_others(&mut self, paint: usize) {
        let mut columns = std::mem::take(&mut self.merged[paint]);
        self.merged[OTHER].take(&mut columns);
    }
}

/// The paint of a span: that of its group, where it has the group's colour, or of its state. `slots`
/// is the slot of each group.
#[inline]
pub(super) fn paint_of(span: &Kept, slots: &[u8]) -> usize {
    match span.group {
        Some(group) if span.by_group => {
            let slot = slots.get(group as usize);
            slot.map_or(OTHER, |&slot| slot as usize)
        }
        _ => STATES + span.state as usize,
    }
}
