//! Decoded events on their way from who decodes to who orders.
//!
//! They often go from the cache of one processor to that of another, which costs more than decoding
//! does; so an event takes 16 bytes, and what is rarely looked at stays behind.

use super::fault::Fault;
use super::spec::MAX_ARGS;
use crate::error::Error;

/// An event as it stands in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawEvent {
    /// In nanoseconds of the trace's clock.
    pub(crate) time: i64,
    /// What follows the time; 0 beyond those that the kind has.
    pub(crate) args: [u64; MAX_ARGS],
    pub(crate) kind: u8,
}

/// An event whose numbers are small, as nearly all are; or the place of one among the wide ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packed {
    /// Nanoseconds since the event before.
    elapsed: u32,
    first: u32,
    second: u32,
    third: u16,
    kind: u8,
    wide: bool,
}

/// Some events of one batch.
#[derive(Debug)]
pub(crate) struct Chunk {
    events: Box<[Packed]>,
    /// Of each event where it begins in the data of its batch.
    places: Box<[u16]>,
    len: usize,
    /// Events with numbers that have no room in a [`Packed`].
    wide: Vec<RawEvent>,
    /// Time of the event before the first.
    before: i64,
    /// Where the data of the batch begins in the file.
    offset: u64,
    /// What comes after the events.
    pub(crate) then: Then,
}

/// What comes after the events of a chunk.
#[derive(Debug)]
pub(crate) enum Then {
    /// Perhaps more.
    More,
    /// Nothing.
    End,
    /// Bytes that are no event at this offset; they and the rest of the batch, so many bytes, are
    /// left out.
    Fault(Fault, u64, u64),
    /// What the file said.
    Failed(Error),
}

impl Chunk {
    /// A chunk with room for `room` events, at least one.
    pub(crate) fn new(room: usize) -> Chunk {
        let room = room.max(1);
        Chunk {
            events: vec![Packed::default(); room].into(),
            places: vec![0; room].into(),
            len: 0,
            wide: Vec::new(),
            before: 0,
            offset: 0,
            then: Then::More,
        }
    }

    /// Begins again: events after one at `before`, of a batch whose data is at `offset` in the file.
    pub(super) fn begin(&mut self, before: i64, offset: u64) {
        (self.len, self.before, self.offset) = (0, before, offset);
        self.wide.clear();
    }

    /// How many events there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many more there can be.
    pub(super) fn room(&self) -> usize {
        self.events.len() - self.len
    }

    /// Where events are to be put, from the next one on.
    #[inline(always)]
    pub(super) fn rest(&mut self) -> Rest<'_> {
        let events = self.events.get_mut(self.len..).unwrap_or_default();
        let places = self.places.get_mut(self.len..).unwrap_or_default();
        Rest {
            slots: events.iter_mut().zip(places),
            wide: &mut self.wide,
        }
    }

    /// So many more events were put there.
    pub(super) fn add(&mut self, more: usize) {
        self.len += more;
    }

    /// The event with number `number`.
    #[inline(always)]
    pub(crate) fn get(&self, number: usize) -> Option<&Packed> {
        self.events.get(..self.len)?.get(number)
    }

    /// Time of the event with number `number`, if there is one, when that of the one before is `before`.
    #[inline(always)]
    pub(crate) fn time(&self, number: usize, before: i64) -> Option<i64> {
        let packed = self.get(number)?;
        Some(match self.wide(packed) {
            None => before.wrapping_add(i64::from(packed.elapsed)),
            Some(event) => event.time,
        })
    }

    /// Time of the first event, if there is one.
    pub(crate) fn first_time(&self) -> Option<i64> {
        self.time(0, self.before)
    }

    /// The event that `packed`, which is one of the chunk, stands for, if it does.
    #[inline(always)]
    pub(crate) fn wide(&self, packed: &Packed) -> Option<&RawEvent> {
        if packed.wide {
            self.wide.get(packed.first as usize)
        } else {
            None
        }
    }

    /// The event with number `number`, whose time is `time`.
    pub(crate) fn event(&self, number: usize, time: i64) -> Option<RawEvent> {
        let packed = self.get(number)?;
        Some(match self.wide(packed) {
            None => packed.event(time),
            Some(event) => *event,
        })
    }

    /// Where the event with number `number` is in the file.
    pub(crate) fn offset(&self, number: usize) -> u64 {
        let place = self.places.get(number).copied().unwrap_or(0);
        self.offset + u64::from(place)
    }
}

/// The rest of a chunk.
pub(super) struct Rest<'a> {
    slots: std::iter::Zip<std::slice::IterMut<'a, Packed>, std::slice::IterMut<'a, u16>>,
    wide: &'a mut Vec<RawEvent>,
}

impl<'a> Rest<'a> {
    /// The place of the next event, while there is room.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<(&'a mut Packed, &'a mut u16)> {
        self.slots.next()
    }

    /// Puts `event`, which is `elapsed` nanoseconds after the one before, into `slot`.
    #[inline(always)]
    pub(super) fn put(&mut self, slot: &mut Packed, event: &RawEvent, elapsed: u64) {
        let [first, second, third, fourth] = event.args;
        let too_large = ((elapsed | first | second) >> 32) | (third >> 16) | fourth;
        if too_large != 0 {
            return self.put_wide(slot, event);
        }
        *slot = Packed {
            elapsed: elapsed as u32,
            first: first as u32,
            second: second as u32,
            third: third as u16,
            kind: event.kind,
            wide: false,
        };
    }

    #[cold]
    #[inline(never)]
    fn put_wide(&mut self, slot: &mut Packed, event: &RawEvent) {
        *slot = Packed {
            // At most as many as a chunk has room for.
            first: self.wide.len() as u32,
            wide: true,
            ..Packed::default()
        };
        self.wide.push(*event);
    }
}

impl Packed {
    /// The event, whose time is `time`.
    #[inline(always)]
    pub(crate) fn event(&self, time: i64) -> RawEvent {
        let (first, second) = (u64::from(self.first), u64::from(self.second));
        RawEvent {
            time,
            args: [first, second, u64::from(self.third), 0],
            kind: self.kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_small_and_nothing_is_lost() {
        assert_eq!(size_of::<Packed>(), 16);
        let (word, half) = (u64::from(u32::MAX), u64::from(u16::MAX));
        let mut checked = 0;
        let mut chunk = Chunk::new(100);
        chunk.begin(1000, 1 << 40);
        let mut time = 1000i64;
        let mut expected = Vec::new();
        let mut rest = chunk.rest();
        for elapsed in [0, 7, word, word + 1] {
            for args in [
                [0; 4],
                [word, word, half, 0],
                [word + 1, 0, 0, 0],
                [0, word + 1, 0, 0],
                [0, 0, half + 1, 0],
                [1, 2, 3, 1],
                [u64::MAX; 4],
            ] {
                time += elapsed as i64;
                let kind = 100 + checked as u8;
                let event = RawEvent { time, args, kind };
                let (slot, place) = rest.next().expect("room");
                *place = checked;
                rest.put(slot, &event, elapsed);
                expected.push(event);
                checked += 1;
            }
        }
        chunk.add(expected.len());
        assert_eq!((chunk.len(), chunk.wide.len()), (28, 3 * 5 + 7));
        let mut time = 1000;
        for (number, event) in expected.iter().enumerate() {
            time = chunk.time(number, time).expect("an event");
            assert_eq!(chunk.event(number, time), Some(*event));
            assert_eq!(chunk.offset(number), (1 << 40) + number as u64);
        }
        assert_eq!(chunk.time(28, time), None);
        assert_eq!(chunk.first_time(), Some(1000));
        chunk.begin(0, 0);
        assert_eq!((chunk.room(), chunk.first_time()), (100, None));
    }
}
