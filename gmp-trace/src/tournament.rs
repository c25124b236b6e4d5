//! Who comes first of many: a tree in which each node has the earlier of the two below it.
//!
//! Changing one time replays the matches on the way to the root. They are decided without branches,
//! since who wins cannot be foreseen where clocks run side by side.

/// The time of one who takes no part.
pub(crate) const ABSENT: u64 = u64::MAX;

/// Those who take part, by number, with their times. Of equal times the smaller number wins.
#[derive(Debug)]
pub(crate) struct Tournament {
    /// Times and numbers: the winner of all at 1, below node `n` its rivals at `2n` and `2n + 1`, and
    /// from `leaves` on everybody.
    nodes: Vec<(u64, u32)>,
    leaves: usize,
}

impl Tournament {
    /// A tournament of `size`, of whom nobody takes part yet.
    pub(crate) fn new(size: usize) -> Tournament {
        let leaves = size.max(1).next_power_of_two();
        let mut nodes = vec![(ABSENT, 0); 2 * leaves];
        for (number, node) in nodes.iter_mut().skip(leaves).enumerate() {
            node.1 = number as u32;
        }
        Tournament { nodes, leaves }
    }

    /// `number` has time `time`, or takes no part.
    #[inline(always)]
    pub(crate) fn set(&mut self, number: u32, time: u64) {
        let mut node = self.leaves + number as usize;
        if let Some(place) = self.nodes.get_mut(node) {
            place.0 = time;
        }
        while node > 1 {
            let (left, right) = (self.nodes[node & !1], self.nodes[node | 1]);
            node /= 2;
            self.nodes[node] = if right.0 < left.0 { right } else { left };
        }
    }

    /// The first, if anybody takes part.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<u32> {
        let (time, number) = self.nodes[1];
        (time != ABSENT).then_some(number)
    }

    /// The earliest time of all; [`ABSENT`] where nobody takes part.
    #[cfg(any(test, feature = "go"))]
    #[inline(always)]
    pub(crate) fn first_time(&self) -> u64 {
        self.nodes[1].0
    }

    /// The earliest time of all but `number`.
    #[inline(always)]
    pub(crate) fn first_other(&self, number: u32) -> u64 {
        let mut node = self.leaves + number as usize;
        let mut first = ABSENT;
        while node > 1 {
            first = first.min(self.nodes[node ^ 1].0);
            node /= 2;
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_first_of_the_others_are_those_of_a_list() {
        let mut checked = 0;
        for size in [0usize, 1, 2, 3, 7, 8, 100] {
            let mut tournament = Tournament::new(size);
            let mut times = vec![ABSENT; size];
            assert_eq!(tournament.first(), None);
            for step in 0..40 * size as u64 {
                let mixed = step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
                let number = (mixed as usize) % size;
                let time = if mixed % 5 == 0 { ABSENT } else { mixed % 50 };
                times[number] = time;
                tournament.set(number as u32, time);
                let first = (0..size).min_by_key(|&n| times[n]);
                let first = first.filter(|&n| times[n] != ABSENT).map(|n| n as u32);
                assert_eq!(tournament.first(), first);
                let first_time = times.iter().copied().min().unwrap_or(ABSENT);
                assert_eq!(tournament.first_time(), first_time);
                let others = (0..size).filter(|&n| n != number).map(|n| times[n]);
                let other = others.min().unwrap_or(ABSENT);
                assert_eq!(tournament.first_other(number as u32), other);
                checked += 1;
            }
        }
        assert_eq!(checked, 40 * 121);
    }
}
