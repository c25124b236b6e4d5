//! What the ids of a generation stand for: dense where ids are, sparse where they are not.

use std::collections::HashMap;

/// A table from the ids of one generation. Memory is linear in the number of entries, whatever the
/// ids are.
#[derive(Debug)]
pub(crate) struct IdTable {
    dense: Vec<u32>,
    sparse: HashMap<u64, u32>,
}

const ABSENT: u32 = u32::MAX;

impl IdTable {
    /// The table with `entries`, and the first id that is there twice. The first of two counts; 0 is
    /// always there.
    pub(crate) fn new(entries: &[(u64, u32)]) -> (IdTable, Option<u64>) {
        let highest = entries.iter().map(|&(id, _)| id).max().unwrap_or(0);
        let room = entries.len() as u64 * 4 + 64;
        let mut twice = None;
        let mut table = IdTable {
            dense: Vec::new(),
            sparse: HashMap::new(),
        };
        if highest <= room {
            table.dense.resize(highest as usize + 1, ABSENT);
        }
        for &(id, value) in entries {
            let fresh = match table.dense.get_mut(id as usize) {
                Some(place) if *place == ABSENT => {
                    *place = value;
                    true
                }
                Some(_) => false,
                None => {
                    let place = table.sparse.entry(id).or_insert(ABSENT);
                    let fresh = *place == ABSENT;
                    if fresh {
                        *place = value;
                    }
                    fresh
                }
            };
            if (!fresh || id == 0) && twice.is_none() {
                twice = Some(id);
            }
        }
        (table, twice)
    }

    /// A table of nothing.
    pub(crate) fn empty() -> IdTable {
        IdTable {
            dense: Vec::new(),
            sparse: HashMap::new(),
        }
    }

    /// What `id` stands for.
    #[inline(always)]
    pub(crate) fn get(&self, id: u64) -> Option<u32> {
        match self.dense.get(id as usize) {
            Some(&value) if value != ABSENT => Some(value),
            _ => self.get_sparse(id),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_sparse(&self, id: u64) -> Option<u32> {
        self.sparse.get(&id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_and_sparse_ids_are_found() {
        let (table, twice) = IdTable::new(&[(1, 10), (3, 30), (2, 20)]);
        assert_eq!(twice, None);
        assert_eq!(
            (table.get(3), table.get(4), table.get(u64::MAX)),
            (Some(30), None, None)
        );
        let far = 0x1d3f_ffff_ffff_ffff;
        let (table, twice) = IdTable::new(&[(far, 1), (2, 2), (far, 3)]);
        assert_eq!(twice, Some(far));
        assert_eq!(
            (table.get(far), table.get(2), table.get(1)),
            (Some(1), Some(2), None)
        );
        assert!(table.dense.is_empty());
        assert_eq!(IdTable::empty().get(0), None);
        assert_eq!(IdTable::new(&[(0, 1)]).1, Some(0));
    }
}
