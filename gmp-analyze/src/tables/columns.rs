//! Columns while they grow: whole numbers, flags, words by number.

use super::schema::Table;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::rc::Rc;

/// What stands for null in a column of numbers.
pub(super) const NULL: i64 = i64::MIN;

/// What stands for null in a column of words.
pub(super) const NO_WORD: u32 = u32::MAX;

/// Words by number; `None` for one that the trace does not tell.
pub type Words = Rc<[Option<String>]>;

/// The values of one column.
#[derive(Clone, Debug)]
pub enum Values {
    /// Whole numbers; the least one of the type stands for null.
    Numbers(Vec<i64>),
    /// True or false.
    Flags(Vec<Option<bool>>),
    /// Numbers of words; the largest one of the type stands for null.
    Words(Words, Rc<[u32]>),
}

/// A table's columns, in the order of its schema.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Which table.
    pub table: Table,
    /// The columns; all of the same length.
    pub columns: Vec<Values>,
}

/// A number as SQL has it; one that has no room becomes the largest.
#[inline]
pub(super) fn number(value: impl Into<u64>) -> i64 {
    i64::try_from(value.into()).unwrap_or(i64::MAX)
}

/// Gives each key it meets the next number, from 0.
#[derive(Clone, Debug)]
pub(super) struct Interner<K> {
    index: FxHashMap<K, u32>,
    keys: Vec<K>,
    /// The one that came last: the same often come in a row.
    last: Option<(K, u32)>,
}

impl<K> Default for Interner<K> {
    fn default() -> Interner<K> {
        Interner {
            index: FxHashMap::default(),
            keys: Vec::new(),
            last: None,
        }
    }
}

impl<K: Copy + Eq + Hash> Interner<K> {
    /// The number of `key`.
    #[inline]
    pub(super) fn number(&mut self, key: K) -> u32 {
        if let Some((last, number)) = self.last
            && last == key
        {
            return number;
        }
        let next = self.keys.len() as u32;
        let number = *self.index.entry(key).or_insert(next);
        if number == next {
            self.keys.push(key);
        }
        self.last = Some((key, number));
        number
    }

    /// The words that `word` finds for the keys.
    pub(super) fn words(&self, word: impl Fn(K) -> Option<String>) -> Words {
        self.keys.iter().map(|&key| word(key)).collect()
    }
}
