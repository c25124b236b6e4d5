//! What is known of every goroutine, P and thread while events are put in order.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use crate::id::{GId, MId, PId};
use crate::tables::Text;

/// A state of a goroutine, by its number in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GStatus {
    /// Not known: somebody waits for it to turn up.
    Unknown = 0,
    Runnable = 1,
    Running = 2,
    Syscall = 3,
    Waiting = 4,
}

impl GStatus {
    pub(crate) fn from_number(number: u64) -> Option<GStatus> {
        match number {
            1 => Some(GStatus::Runnable),
            2 => Some(GStatus::Running),
            3 => Some(GStatus::Syscall),
            4 => Some(GStatus::Waiting),
            _ => None,
        }
    }

    pub(super) fn number(self) -> u64 {
        self as u64
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            GStatus::Unknown => "unknown",
            GStatus::Runnable => "Runnable",
            GStatus::Running => "Running",
            GStatus::Syscall => "Syscall",
            GStatus::Waiting => "Waiting",
        }
    }
}

/// A state of a P, by its number in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PStatus {
    /// Not known: somebody waits for it to turn up.
    Unknown = 0,
    Running = 1,
    Idle = 2,
    Syscall = 3,
    /// In a system call of a thread that is gone.
    Abandoned = 4,
}

impl PStatus {
    pub(crate) fn from_number(number: u64) -> Option<PStatus> {
        match number {
            1 => Some(PStatus::Running),
            2 => Some(PStatus::Idle),
            3 => Some(PStatus::Syscall),
            4 => Some(PStatus::Abandoned),
            _ => None,
        }
    }

    pub(super) fn number(self) -> u64 {
        self as u64
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            PStatus::Unknown => "unknown",
            PStatus::Running => "Running",
            PStatus::Idle => "Idle",
            PStatus::Syscall => "Syscall",
            PStatus::Abandoned => "SyscallAbandoned",
        }
    }
}

/// A sequence number, which means something only in its generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) generation: u32,
    pub(crate) number: u64,
}

impl Sequence {
    /// Whether `self` comes right after `before`.
    #[inline(always)]
    pub(crate) fn follows(self, before: Sequence) -> bool {
        self.generation == before.generation && self.number == before.number.wrapping_add(1)
    }
}

/// A goroutine.
#[derive(Debug)]
pub(crate) struct Goroutine {
    pub(crate) id: GId,
    pub(crate) status: GStatus,
    /// How many threads wait for it.
    pub(crate) waiters: u32,
    pub(crate) sequence: Sequence,
    pub(crate) spans: Option<Box<Spans>>,
}

/// What is open in a goroutine.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// Names of the stops of the world that it asked for.
    pub(crate) stops: Vec<Text>,
    pub(crate) mark_assist: bool,
    /// Regions, the innermost last.
    pub(crate) regions: Vec<(u64, Text)>,
}

/// A P.
#[derive(Debug)]
pub(crate) struct Proc {
    pub(crate) id: PId,
    pub(crate) status: PStatus,
    /// How many threads wait for it.
    pub(crate) waiters: u32,
    pub(crate) sequence: Sequence,
    pub(crate) sweeping: bool,
    /// Slot of the thread that has it, as far as that is still so.
    pub(crate) holder: u32,
}

/// "None" among slots.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A thread, and what it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    /// `None`: events without a thread.
    pub(crate) m: Option<MId>,
    pub(crate) p: Option<PId>,
    pub(crate) g: Option<GId>,
    /// Slots of `p` and `g`.
    pub(crate) p_slot: u32,
    pub(crate) g_slot: u32,
}

/// From ids to slots: a map, and before it the last id with each of some low bits, which most often
/// is the one that is looked for.
#[derive(Debug)]
pub(crate) struct Index {
    map: HashMap<u64, u32, Folding>,
    /// Ids with one more than their slots; 0 for none.
    recent: Box<[(u64, u32); RECENT]>,
}

/// Places of [`Index::recent`].
const RECENT: usize = 1 << 10;

impl Default for Index {
    fn default() -> Index {
        Index {
            map: HashMap::default(),
            recent: Box::new([(0, 0); RECENT]),
        }
    }
}

impl Index {
    #[inline(always)]
    pub(crate) fn get(&mut self, id: u64) -> Option<u32> {
        let (recent, slot) = self.recent[id as usize % RECENT];
        if recent == id && slot != 0 {
            return Some(slot - 1);
        }
        self.look_up(id)
    }

    #[inline(never)]
    fn look_up(&mut self, id: u64) -> Option<u32> {
        let slot = *self.map.get(&id)?;
        self.recent[id as usize % RECENT] = (id, slot + 1);
        Some(slot)
    }

    pub(crate) fn insert(&mut self, id: u64, slot: u32) {
        self.map.insert(id, slot);
        self.recent[id as usize % RECENT] = (id, slot + 1);
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.map.remove(&id);
        let recent = &mut self.recent[id as usize % RECENT];
        if recent.0 == id {
            *recent = (0, 0);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.map.clear();
        self.recent.fill((0, 0));
    }
}

/// A quick hash of one number, with a key of its own for each table so that no file can choose ids
/// that collide.
#[derive(Clone, Debug)]
pub(crate) struct Folding {
    key: u64,
}

impl Default for Folding {
    fn default() -> Folding {
        Folding {
            key: RandomState::new().hash_one(0u64),
        }
    }
}

impl BuildHasher for Folding {
    type Hasher = FoldingHasher;

    #[inline(always)]
    fn build_hasher(&self) -> FoldingHasher {
        FoldingHasher { state: self.key }
    }
}

/// An odd number with bits in no order: 2^64 by the golden ratio.
const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;

/// See [`Folding`].
#[derive(Debug)]
pub(crate) struct FoldingHasher {
    state: u64,
}

impl Hasher for FoldingHasher {
    #[inline(always)]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.state ^ number) * u128::from(FOLD);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.state
    }
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Goroutine in this slot, for its turn before this sequence number.
    Goroutine(u32, u64),
    /// P in this slot, for its turn before this sequence number.
    Proc(u32, u64),
    /// P in this slot, to be taken from the thread that has it.
    Loss(u32),
    /// The collector, for its turn before this sequence number.
    Collector(u64),
}

impl Hash for Key {
    /// As two numbers: what is derived hands over more, and bytes.
    #[inline(always)]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let (kind, slot, number) = match *self {
            Key::Goroutine(slot, number) => (0, slot, number),
            Key::Proc(slot, number) => (1, slot, number),
            Key::Loss(slot) => (2, slot, 0),
            Key::Collector(number) => (3, 0, number),
        };
        hasher.write_u64(kind << 32 | u64::from(slot));
        hasher.write_u64(number);
    }
}

/// Who waits for what: a ring of threads for each key. A thread waits for one at most.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// One thread of each ring.
    rings: HashMap<Key, u32, Folding>,
    /// By thread, the one before and the one after it in its ring.
    links: Vec<(u32, u32)>,
    waiting: usize,
    /// Threads that wait no longer, until somebody takes them.
    pub(crate) woken: Vec<u32>,
}

impl Waits {
    /// How many threads wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    pub(crate) fn add(&mut self, key: Key, cursor: u32) {
        if self.links.len() <= cursor as usize {
            self.links.resize(cursor as usize + 1, (NOBODY, NOBODY));
        }
        let first = *self.rings.entry(key).or_insert(cursor);
        let last = if first == cursor {
            cursor
        } else {
            self.links[first as usize].0
        };
        self.links[cursor as usize] = (last, first);
        self.links[last as usize].1 = cursor;
        self.links[first as usize].0 = cursor;
        self.waiting += 1;
    }

    /// Wakes those that wait for `key`; returns how many.
    pub(crate) fn wake(&mut self, key: Key) -> u32 {
        let Some(first) = self.rings.remove(&key) else {
            return 0;
        };
        let mut woken = 0;
        let mut cursor = first;
        loop {
            self.woken.push(cursor);
            woken += 1;
            cursor = self.links[cursor as usize].1;
            if cursor == first {
                break;
            }
        }
        self.waiting -= woken as usize;
        woken
    }

    /// `cursor`, which waits for `key`, does so no longer.
    pub(crate) fn remove(&mut self, key: Key, cursor: u32) {
        let (before, after) = self.links[cursor as usize];
        if after == cursor {
            self.rings.remove(&key);
        } else {
            self.links[before as usize].1 = after;
            self.links[after as usize].0 = before;
            self.rings.insert(key, after);
        }
        self.waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_woken_and_nobody_else() {
        let keys = [
            Key::Goroutine(1, 7),
            Key::Goroutine(1, 8),
            Key::Proc(1, 7),
            Key::Loss(1),
            Key::Collector(7),
        ];
        let mut waits = Waits::default();
        for cursor in 0..20 {
            waits.add(keys[cursor as usize % 5], cursor);
        }
        // The first of a ring, one in the middle, the last.
        for cursor in [0, 6, 17] {
            waits.remove(keys[cursor as usize % 5], cursor);
        }
        assert_eq!(waits.len(), 17);
        for (key, expected) in keys.iter().zip([
            vec![5, 10, 15],
            vec![1, 11, 16],
            vec![2, 7, 12],
            vec![3, 8, 13, 18],
            vec![4, 9, 14, 19],
        ]) {
            assert_eq!(waits.wake(*key), expected.len() as u32);
            waits.woken.sort_unstable();
            assert_eq!(std::mem::take(&mut waits.woken), expected);
            assert_eq!(waits.wake(*key), 0);
        }
        waits.add(keys[3], 4);
        waits.remove(keys[3], 4);
        assert_eq!((waits.len(), waits.rings.len()), (0, 0));
    }
}
