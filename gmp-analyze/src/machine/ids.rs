//! Small dense numbers for ids that may be any number.

use rustc_hash::FxHashMap;

/// Ids below this are looked up in a vector, others in a hash map. Native traces number threads and
/// Ps from zero; Go's threads have the kernel's numbers, which fit as well.
const DIRECT: u64 = 1 << 16;

/// No number.
const NONE: u32 = u32::MAX;

/// Gives each id it meets the next number, from 0.
#[derive(Debug, Default)]
pub(super) struct DenseIds {
    direct: Vec<u32>,
    other: FxHashMap<u64, u32>,
    count: u32,
}

impl DenseIds {
    /// The number of `id`; `None` where it has none yet.
    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<usize> {
        if let Some(&number) = self.direct.get(id as usize) {
            return if number == NONE {
                None
            } else {
                Some(number as usize)
            };
        }
        if id < DIRECT {
            None
        } else {
            self.other.get(&id).map(|&n| n as usize)
        }
    }

    /// Gives `id`, which has none, the next number.
    pub(super) fn add(&mut self, id: u64) -> usize {
        let number = self.count;
        self.count += 1;
        if id < DIRECT {
            let place = id as usize;
            if place >= self.direct.len() {
                self.direct.resize(place + 1, NONE);
            }
            self.direct[place] = number;
        } else {
            self.other.insert(id, number);
        }
        number as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_ids_get_numbers_in_order_of_appearance() {
        let mut ids = DenseIds::default();
        for (number, id) in [7, 0, u64::MAX - 1, DIRECT, DIRECT - 1]
            .into_iter()
            .enumerate()
        {
            assert_eq!(ids.get(id), None, "{id}");
            assert_eq!(ids.add(id), number);
            assert_eq!(ids.get(id), Some(number), "{id}");
        }
        assert_eq!(ids.get(1), None);
        assert_eq!(ids.get(DIRECT + 1), None);
    }
}
