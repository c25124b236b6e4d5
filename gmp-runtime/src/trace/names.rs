//! Numbers for what the program has names for: source places, start functions, files.
//!
//! A name is known by an address that stays the same for the life of the process (a
//! `&'static Location`, the [`Routine`] of a start function, the bytes of a `&'static str`), so looking
//! one up compares two words. A generation defines what it uses, before its first use, in table blocks.

use std::io;
use std::panic::Location;
use std::ptr::NonNull;

use gmp_trace::write::{Place, TableEncoder, text_number};

use super::chunks::{Chunk, Exchange};
use crate::sched::g::Routine;
use crate::sys::memory::Reservation;

/// How many names a trace can have; what comes after is recorded without one.
const CAPACITY: usize = 1 << 16;

/// A name, and since which generation a table block has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
struct Entry {
    key: (usize, usize),
    /// From 1; 0 for a free entry.
    number: u32,
    /// Of the even and the odd generations the last one that has it.
    generations: [u32; 2],
}

/// A table of names. All zero is an empty one, so its memory is a reservation.
#[derive(Debug)]
struct Numbers {
    memory: Reservation,
    used: u32,
}

impl Numbers {
    fn new() -> io::Result<Numbers> {
        // Twice as many places as names, so that a search is short.
        let memory = Reservation::reserve(2 * CAPACITY * size_of::<Entry>())?;
        Ok(Numbers { memory, used: 0 })
    }

    /// The number of `key`, and whether this is its first use in `generation`. `None` when the table is
    /// full.
    fn number(&mut self, key: (usize, usize), generation: u32) -> Option<(u32, bool)> {
        let mut place = (key.0 ^ key.1.rotate_left(21)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        loop {
            let entry = self.entry(place % (2 * CAPACITY));
            if entry.number == 0 {
                break;
            }
            if entry.key == key {
                let last = &mut entry.generations[generation as usize % 2];
                let first = std::mem::replace(last, generation) != generation;
                return Some((entry.number, first));
            }
            place += 1;
        }
        if self.used as usize == CAPACITY {
            return None;
        }
        self.used += 1;
        let number = self.used;
        let mut generations = [0; 2];
        generations[generation as usize % 2] = generation;
        *self.entry(place % (2 * CAPACITY)) = Entry {
            key,
            number,
            generations,
        };
        Some((number, true))
    }

    fn entry(&mut self, place: usize) -> &mut Entry {
        let entries: NonNull<Entry> = self.memory.base().cast();
        // SAFETY: the reservation holds 2 * CAPACITY entries, zeroed, and is ours.
        unsafe { &mut *entries.as_ptr().add(place) }
    }
}

/// The table blocks of one generation.
#[derive(Debug)]
struct TableBlocks {
    generation: u32,
    encoder: TableEncoder,
    chunk: Option<Chunk>,
    /// How many there are.
    count: u32,
}

impl TableBlocks {
    fn new(generation: u32) -> TableBlocks {
        TableBlocks {
            generation,
            encoder: TableEncoder::new(),
            chunk: None,
            count: 0,
        }
    }

    /// Writes a definition into the open block, a new one if there is no room; false if there is no
    /// chunk for that.
    fn define(
        &mut self,
        exchange: &mut Exchange,
        mut write: impl FnMut(&mut TableEncoder, &mut [u8]) -> bool,
    ) -> bool {
        for _ in 0..2 {
            let chunk = match self.chunk {
                Some(chunk) => chunk,
                None => {
                    let Some(chunk) = exchange.take() else {
                        return false;
                    };
                    // SAFETY: the chunk was just taken.
                    let bytes = unsafe { chunk.bytes() };
                    self.encoder.begin(bytes, self.generation, self.count);
                    self.count += 1;
                    self.chunk = Some(chunk);
                    chunk
                }
            };
            // SAFETY: the chunk is held here.
            if write(&mut self.encoder, unsafe { chunk.bytes() }) {
                return true;
            }
            self.end(exchange);
        }
        false
    }

    fn end(&mut self, exchange: &mut Exchange) {
        if let Some(chunk) = self.chunk.take() {
            // SAFETY: the chunk is held here.
            self.encoder.seal(unsafe { chunk.bytes() }, false);
            exchange.give_back(chunk);
        }
    }
}

/// The names of a trace. Under the collector's lock.
#[derive(Debug)]
pub(super) struct Names {
    sites: Numbers,
    texts: Numbers,
    /// Of the generation that is recorded and of the one before, which some M may still write to.
    blocks: [TableBlocks; 2],
}

impl Names {
    pub(super) fn new() -> io::Result<Names> {
        Ok(Names {
            sites: Numbers::new()?,
            texts: Numbers::new()?,
            blocks: [TableBlocks::new(0), TableBlocks::new(0)],
        })
    }

    /// From now on names can be defined in `generation`; the one before the last must have ended.
    pub(super) fn begin(&mut self, generation: u32) {
        self.blocks[generation as usize % 2] = TableBlocks::new(generation);
    }

    /// Seals the last table block of `generation`; how many there were.
    pub(super) fn end(&mut self, exchange: &mut Exchange, generation: u32) -> u32 {
        let blocks = &mut self.blocks[generation as usize % 2];
        blocks.end(exchange);
        blocks.count
    }

    /// The number of a place that waits, or, with the start function of a goroutine, where it is made.
    /// 0 where there is no room for the name.
    pub(super) fn site(
        &mut self,
        exchange: &mut Exchange,
        generation: u32,
        location: &'static Location<'static>,
        start: Option<&'static Routine>,
    ) -> u32 {
        let routine = start.map_or(0, |routine| std::ptr::from_ref(routine) as usize);
        let key = (std::ptr::from_ref(location) as usize, routine);
        let Some((number, first)) = self.sites.number(key, generation) else {
            return 0;
        };
        if !first {
            return number;
        }
        let function = start.map_or(0, |routine| {
            self.text(exchange, generation, (routine.name)())
        });
        let place = Place {
            function,
            file: self.text(exchange, generation, location.file()),
            line: location.line(),
            column: location.column(),
        };
        let blocks = &mut self.blocks[generation as usize % 2];
        if blocks.define(exchange, |encoder, chunk| {
            encoder.site(chunk, number, &place)
        }) {
            number
        } else {
            0
        }
    }

    /// The number of a text in arguments; 0, which is the empty text, where there is no room for it.
    pub(super) fn text(
        &mut self,
        exchange: &mut Exchange,
        generation: u32,
        text: &'static str,
    ) -> u32 {
        let key = (text.as_ptr() as usize, text.len());
        let Some((number, first)) = self.texts.number(key, generation) else {
            return 0;
        };
        let blocks = &mut self.blocks[generation as usize % 2];
        if !first
            || blocks.define(exchange, |encoder, chunk| {
                encoder.string(chunk, number, text)
            })
        {
            text_number(number)
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_and_is_new_once_in_each_generation() {
        let mut numbers = Numbers::new().unwrap();
        let mut seen = std::collections::HashSet::new();
        for i in 0..1000 {
            let (number, first) = numbers.number((0x5000 + 8 * i, 0), 1).unwrap();
            assert!(first && seen.insert(number));
            assert_eq!(
                numbers.number((0x5000 + 8 * i, 0), 1),
                Some((number, false))
            );
            assert_eq!(numbers.number((0x5000 + 8 * i, 0), 2), Some((number, true)));
        }
        assert_eq!(seen.len(), 1000);
        assert!(!seen.contains(&0));
    }

    #[test]
    fn a_full_table_gives_no_number_but_keeps_those_it_has() {
        let mut numbers = Numbers::new().unwrap();
        for i in 0..CAPACITY {
            assert!(numbers.number((i + 1, 7), 1).is_some());
        }
        assert_eq!(numbers.number((CAPACITY + 1, 7), 1), None);
        assert_eq!(numbers.number((1, 7), 1), Some((1, false)));
    }
}
