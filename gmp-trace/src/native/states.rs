//! What the order knows of goroutines and Ps: one small entry each, found by number.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// What a goroutine does, as far as the order of events depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoState {
    /// Nobody said anything about it in this generation.
    Unknown,
    Runnable,
    Running,
    Syscall,
    Waiting,
    Dead,
}

/// What a P does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcState {
    /// Nobody said anything about it in this generation.
    Unknown,
    Idle,
    Running,
    Syscall,
}

/// Stands for "on no M".
pub(super) const NOBODY: u32 = u32::MAX;

/// One goroutine or P.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<S> {
    pub(super) state: S,
    /// The last sequence number.
    pub(super) seq: u32,
    /// The cursor of the M that has it, or [`NOBODY`].
    pub(super) on: u32,
    /// How many cursors may be waiting for a change of it.
    pub(super) waiting: u32,
}

/// Entries by number. Numbers near the first one are looked up in a vector, as long as they are
/// dense; the others in a map. So memory follows the number of entries.
#[derive(Debug)]
pub(super) struct Entries<S> {
    entries: Vec<Entry<S>>,
    unknown: S,
    /// The number of the first place of `dense`, once there is one.
    base: Option<u64>,
    /// Places by number from `base` on; [`NOBODY`] where there is none.
    dense: Vec<u32>,
    sparse: HashMap<u64, u32, IdHash>,
}

/// How far below the first number the dense ones begin, and how many of them are always in a vector.
const BELOW: u64 = 256;

impl<S: Copy> Entries<S> {
    /// No entries; a new one is in state `unknown`.
    pub(super) fn new(unknown: S) -> Entries<S> {
        let sparse = HashMap::with_hasher(IdHash::new());
        Entries {
            entries: Vec::new(),
            unknown,
            base: None,
            dense: Vec::new(),
            sparse,
        }
    }

    /// The place of number `id`, which gets an entry if it has none.
    #[inline]
    pub(super) fn place(&mut self, id: u64) -> u32 {
        // Before the first entry `dense` is empty, so that the base does not matter.
        let near = id.wrapping_sub(self.base.unwrap_or(0));
        match usize::try_from(near)
            .ok()
            .and_then(|near| self.dense.get(near))
        {
            Some(&place) if place != NOBODY => place,
            _ => self.distant_place(id),
        }
    }

    #[cold]
    #[inline(never)]
    fn distant_place(&mut self, id: u64) -> u32 {
        if let Some(&place) = self.sparse.get(&id) {
            return place;
        }
        let place = self.entries.len() as u32;
        self.entries.push(Entry {
            state: self.unknown,
            seq: 0,
            on: NOBODY,
            waiting: 0,
        });
        let base = *self.base.get_or_insert(id.saturating_sub(BELOW));
        let near = id.wrapping_sub(base);
        if near < 4 * (self.entries.len() as u64 + BELOW) {
            let near = near as usize;
            if self.dense.len() <= near {
                self.dense.resize(near + 1, NOBODY);
            }
            self.dense[near] = place;
        } else {
            self.sparse.insert(id, place);
        }
        place
    }

    /// The entry at `place`, which [`Entries::place`] gave.
    #[inline]
    pub(super) fn at(&mut self, place: u32) -> &mut Entry<S> {
        &mut self.entries[place as usize]
    }
}

/// Hashes numbers with one multiplication. The seed differs from table to table, so that no trace
/// can be made whose numbers all collide.
#[derive(Clone, Debug)]
pub(super) struct IdHash(u64);

impl IdHash {
    fn new() -> IdHash {
        IdHash(RandomState::new().hash_one(0u64) | 1)
    }
}

impl BuildHasher for IdHash {
    type Hasher = IdHasher;

    #[inline]
    fn build_hasher(&self) -> IdHasher {
        IdHasher {
            seed: self.0,
            hash: 0,
        }
    }
}

/// The state of [`IdHash`] for one number.
#[derive(Debug)]
pub(super) struct IdHasher {
    seed: u64,
    hash: u64,
}

impl Hasher for IdHasher {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let product = u128::from(number ^ self.seed) * u128::from(self.seed ^ SPREAD | 1);
        self.hash = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word) ^ self.hash);
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_kept_by_number() {
        let mut entries = Entries::new(GoState::Unknown);
        let a = entries.place(7);
        let b = entries.place(u64::MAX);
        entries.at(a).seq = 3;
        assert_ne!(a, b);
        assert_eq!(entries.place(7), a);
        let (seq, state) = (entries.at(a).seq, entries.at(b).state);
        assert_eq!((seq, state), (3, GoState::Unknown));
        for id in 0..10_000 {
            entries.place(id << 32);
        }
        assert_eq!(entries.entries.len(), 10_002);
        assert_eq!(entries.place(7), a);
    }
}
