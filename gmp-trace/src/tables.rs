//! What events refer to by number: strings, sites, stacks.
//!
//! Readers intern by content, so a reference means the same in every generation of a trace. The
//! strings of [`Text`]'s constants are always there.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

/// An interned string. Its number is below [`Tables::text_count`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Text(pub u32);

/// An interned place in the source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SiteRef(pub u32);

/// An interned stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StackRef(pub u32);

/// A place in the source: where a goroutine was made or waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Site {
    /// The function: of a goroutine's creation its start function, else the function that waits;
    /// [`Text::EMPTY`] where it is not known.
    pub function: Text,
    /// The file.
    pub file: Text,
    /// The line, from 1; 0 where it is not known.
    pub line: u32,
    /// The column, from 1; 0 where it is not known.
    pub column: u32,
}

/// One frame of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Frame {
    /// The address of the instruction; 0 where it is not known.
    pub pc: u64,
    /// The function, [`Text::EMPTY`] until it is symbolized.
    pub function: Text,
    /// The file.
    pub file: Text,
    /// The line.
    pub line: u32,
}

macro_rules! known_texts {
    ($($(#[$doc:meta])* $name:ident = $number:literal $string:literal;)*) => {
        impl Text {
            $($(#[$doc])* pub const $name: Text = Text($number);)*
        }

        /// The strings that every [`Tables`] begins with, in the order of their numbers. The first
        /// ones are the wait reasons; the native format writes their numbers.
        pub const KNOWN_TEXTS: &[&str] = &[$($string),*];

        #[cfg(test)]
        const KNOWN_NUMBERS: &[u32] = &[$($number),*];
    };
}

known_texts! {
    /// The empty string.
    EMPTY = 0 "";
    /// Waits in `accept`, `read`, `write` or `connect`.
    IO_WAIT = 1 "IO wait";
    /// Waits to receive.
    CHAN_RECEIVE = 2 "chan receive";
    /// Waits to send.
    CHAN_SEND = 3 "chan send";
    /// Receives from a channel that is never ready.
    CHAN_RECEIVE_NIL = 4 "chan receive (nil chan)";
    /// Sends to a channel that is never ready.
    CHAN_SEND_NIL = 5 "chan send (nil chan)";
    /// Waits for one of several channel operations.
    SELECT = 6 "select";
    /// Waits for no channel operation at all.
    SELECT_NO_CASES = 7 "select (no cases)";
    /// Sleeps.
    SLEEP = 8 "sleep";
    /// Waits for a semaphore.
    SEMACQUIRE = 9 "semacquire";
    /// Waits for a condition.
    COND_WAIT = 10 "sync.Cond.Wait";
    /// Waits for a mutex.
    MUTEX_LOCK = 11 "sync.Mutex.Lock";
    /// Waits to read under a lock.
    RWMUTEX_RLOCK = 12 "sync.RWMutex.RLock";
    /// Waits to write under a lock.
    RWMUTEX_LOCK = 13 "sync.RWMutex.Lock";
    /// Waits for a group to be done.
    WAITGROUP_WAIT = 14 "sync.WaitGroup.Wait";
    /// Was preempted.
    PREEMPTED = 15 "preempted";
    /// Waits for another goroutine to end.
    JOIN = 16 "join";
    /// Parked by the program itself.
    PARK = 17 "park";
    /// Waits for the collector.
    GC_WAIT = 18 "wait for GC cycle";
    /// Waits for the world to stop.
    STOPPING_THE_WORLD = 19 "stopping the world";
    /// Gave up its P by its own will.
    GOSCHED = 20 "runtime.Gosched";
}

/// The strings, sites and stacks of a trace.
#[derive(Debug, Clone)]
pub struct Tables {
    texts: Vec<Box<str>>,
    text_index: Places,
    sites: Vec<Site>,
    site_index: HashMap<Site, SiteRef>,
    stacks: Vec<Box<[Frame]>>,
    stack_index: Places,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables::new()
    }
}

impl Tables {
    /// Tables that hold [`KNOWN_TEXTS`] only.
    pub fn new() -> Tables {
        let mut tables = Tables {
            texts: Vec::new(),
            text_index: Places::default(),
            sites: Vec::new(),
            site_index: HashMap::new(),
            stacks: Vec::new(),
            stack_index: Places::default(),
        };
        for text in KNOWN_TEXTS {
            tables.intern_text(text);
        }
        tables
    }

    /// The string of `text`; empty for one of another table.
    pub fn text(&self, text: Text) -> &str {
        self.texts.get(text.0 as usize).map_or("", |s| s)
    }

    /// The place of `site`; `None` for one of another table.
    pub fn site(&self, site: SiteRef) -> Option<&Site> {
        self.sites.get(site.0 as usize)
    }

    /// The frames of `stack`, leaf first; empty for one of another table.
    pub fn stack(&self, stack: StackRef) -> &[Frame] {
        self.stacks.get(stack.0 as usize).map_or(&[], |s| s)
    }

    /// How many strings there are.
    pub fn text_count(&self) -> usize {
        self.texts.len()
    }

    /// How many sites there are.
    pub fn site_count(&self) -> usize {
        self.sites.len()
    }

    /// How many stacks there are.
    pub fn stack_count(&self) -> usize {
        self.stacks.len()
    }

    /// The reference of `text`, which is kept.
    pub fn intern_text(&mut self, text: &str) -> Text {
        let texts = &self.texts;
        let is_it = |place| {
            texts
                .get(place as usize)
                .is_some_and(|known| **known == *text)
        };
        match self.text_index.find_or_add(text, is_it) {
            Ok(known) => Text(known),
            Err(new) => {
                self.texts.push(text.into());
                Text(new)
            }
        }
    }

    /// The reference of `site`, which is kept.
    pub fn intern_site(&mut self, site: Site) -> SiteRef {
        let next = SiteRef(u32::try_from(self.sites.len()).unwrap_or(u32::MAX));
        *self.site_index.entry(site).or_insert_with(|| {
            self.sites.push(site);
            next
        })
    }

    /// The reference of the stack with `frames`, leaf first, which is kept.
    pub fn intern_stack(&mut self, frames: &[Frame]) -> StackRef {
        let stacks = &self.stacks;
        let is_it = |place| {
            stacks
                .get(place as usize)
                .is_some_and(|known| **known == *frames)
        };
        match self.stack_index.find_or_add(frames, is_it) {
            Ok(known) => StackRef(known),
            Err(new) => {
                self.stacks.push(frames.into());
                StackRef(new)
            }
        }
    }
}

/// Finds the places of values in a list by their contents, which it does not keep.
#[derive(Debug, Clone, Default)]
struct Places {
    hasher: RandomState,
    /// The last place with a hash.
    last: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    /// Of each place the one before with the same hash; itself where there is none.
    before: Vec<u32>,
}

impl Places {
    /// The place of `value`, which `is_it` knows; else the next place, which it has from now on.
    fn find_or_add<T: Hash + ?Sized>(
        &mut self,
        value: &T,
        is_it: impl Fn(u32) -> bool,
    ) -> Result<u32, u32> {
        let hash = self.hasher.hash_one(value);
        let new = u32::try_from(self.before.len()).unwrap_or(u32::MAX);
        let mut last = self.last.get(&hash).copied();
        while let Some(place) = last {
            if is_it(place) {
                return Ok(place);
            }
            let before = self.before.get(place as usize).copied();
            last = before.filter(|&before| before != place);
        }
        let before = self.last.insert(hash, new).unwrap_or(new);
        self.before.push(before);
        Err(new)
    }
}

/// Passes on a number that is a hash already.
#[derive(Debug, Clone, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_have_the_numbers_of_their_constants() {
        assert!(KNOWN_TEXTS.len() > 20);
        let tables = Tables::new();
        assert_eq!(tables.text_count(), KNOWN_TEXTS.len());
        for (place, (text, number)) in KNOWN_TEXTS.iter().zip(KNOWN_NUMBERS).enumerate() {
            assert_eq!(place, *number as usize, "{text}");
            assert_eq!(tables.text(Text(*number)), *text);
        }
        assert_eq!(tables.text(Text::CHAN_RECEIVE), "chan receive");
    }

    #[test]
    fn interning_keeps_one_of_each() {
        let mut tables = Tables::new();
        let a = tables.intern_text("main.rs");
        assert_eq!(tables.intern_text("main.rs"), a);
        let site = Site {
            function: Text::EMPTY,
            file: a,
            line: 3,
            column: 4,
        };
        let s = tables.intern_site(site);
        assert_eq!(tables.intern_site(site), s);
        assert_eq!(tables.site_count(), 1);
        let frame = Frame {
            pc: 1,
            function: a,
            file: a,
            line: 2,
        };
        let k = tables.intern_stack(&[frame]);
        assert_eq!(tables.intern_stack(&[frame]), k);
        assert_eq!(tables.stack(k), &[frame]);
        assert_eq!(tables.stack_count(), 1);
    }
}
