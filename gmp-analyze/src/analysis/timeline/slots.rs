//! Which groups have columns of their own: those that take the most time, found while it is summed.
//!
//! How many groups a trace has shows only at its end, and columns for each of them would be memory
//! without bound. A group gets a slot when its time has become twice that of the least one that has
//! a slot; what was merged of it before stays with the others. Totals are exact for every group.

use super::lane::{OTHER, SLOTS};

/// Slots of groups, and every group's time.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// By group: its slot, or [`OTHER`].
    slot: Vec<u8>,
    /// By group: its time.
    total: Vec<i64>,
    /// By slot: its group.
    holder: [Option<u32>; SLOTS],
}

impl Default for Slots {
    fn default() -> Slots {
        Slots {
            slot: Vec::new(),
            total: Vec::new(),
            holder: [None; SLOTS],
        }
    }
}

impl Slots {
    /// Group number `group`, which is the next one, appears; it gets a slot while there are free
    /// ones.
    pub(super) fn appear(&mut self, group: u32) {
        let free = self.holder.iter().position(Option::is_none);
        if let Some(free) = free {
            self.holder[free] = Some(group);
        }
        self.slot.push(free.unwrap_or(OTHER) as u8);
        self.total.push(0);
    }

    /// The slot of each group.
    #[inline]
    pub(super) fn of_groups(&self) -> &[u8] {
        &self.slot
    }

    /// The time of `group`.
    pub(super) fn total(&self, group: usize) -> i64 {
        self.total[group]
    }

    /// How many groups there are.
    pub(super) fn groups(&self) -> usize {
        self.total.len()
    }

    /// The group of slot `slot`.
    pub(super) fn holder(&self, slot: usize) -> Option<u32> {
        self.holder.get(slot).copied().flatten()
    }

    /// `group` took `time` more. Gives the slot that changes hands, where one does: its time so far
    /// belongs to the others.
    #[inline]
    pub(super) fn took(&mut self, group: u32, time: i64) -> Option<usize> {
        self.total[group as usize] += time;
        if usize::from(self.slot[group as usize]) == OTHER {
            self.claim(group)
        } else {
            None
        }
    }

    #[cold]
    fn claim(&mut self, group: u32) -> Option<usize> {
        let total_of = |holder: Option<u32>| holder.map_or(0, |group| self.total[group as usize]);
        let least = (0..SLOTS).min_by_key(|&slot| total_of(self.holder[slot]))?;
        if self.total[group as usize] <= total_of(self.holder[least]).saturating_mul(2) {
            return None;
        }
        if let Some(loser) = self.holder[least] {
            self.slot[loser as usize] = OTHER as u8;
        }
        self.holder[least] = Some(group);
        self.slot[group as usize] = least as u8;
        Some(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_take_most_have_slots_in_the_end() {
        let mut slots = Slots::default();
        let mut changes = 0;
        for group in 0..200 {
            slots.appear(group);
            slots.took(group, 1);
        }
        for round in 0..100 {
            // The last ten take a hundred times as much as the others.
            for group in 0..200 {
                let time = if group >= 190 { 100 } else { 1 };
                changes += usize::from(slots.took(group, time).is_some());
            }
            assert!(slots.total(199) > i64::from(round));
        }
        assert!(changes >= 10, "{changes}");
        for group in 190..200 {
            assert_ne!(slots.of_groups()[group], OTHER as u8, "{group}");
        }
        let held = (0..SLOTS).filter_map(|slot| slots.holder(slot)).count();
        assert_eq!(held, SLOTS);
        assert_eq!(slots.total(0), 101);
    }
}
