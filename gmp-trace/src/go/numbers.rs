//! Reading numbers in base 128: a reader for tables, and the fast one for events.

use super::fault::Fault;

/// Zero bytes that follow the bytes of every batch, so that a number can be looked for in eight
/// bytes at once.
pub(crate) const PADDING: usize = 16;

/// A place in bytes that are read from front to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes {
            rest: bytes,
            whole: bytes.len(),
        }
    }

    /// How many bytes were read.
    pub(crate) fn read(&self) -> usize {
        self.whole - self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(bytes)
    }

    /// The next number; `what` is for the error.
    #[inline]
    pub(crate) fn number(&mut self, what: &'static str) -> Result<u64, Fault> {
        if let Some((value, length)) = self.rest.first_chunk().and_then(short_number) {
            self.rest = self.rest.get(length..).unwrap_or_default();
            return Ok(value);
        }
        self.any_number(what)
    }

    fn any_number(&mut self, what: &'static str) -> Result<u64, Fault> {
        let mut value = 0u64;
        for (place, &byte) in self.rest.iter().enumerate().take(10) {
            if place == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                self.rest = self.rest.get(place + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(Fault::BadNumber(what))
    }
}

const STOP_BITS: u64 = 0x8080_8080_8080_8080;

/// The number at `*at`, which is moved behind it. A number that is none moves `*at` behind every
/// possible end.
///
/// `bytes` end with [`PADDING`].
#[inline(always)]
pub(crate) fn number_at(bytes: &[u8], at: &mut usize) -> u64 {
    match bytes.get(*at) {
        Some(&byte) if byte < 0x80 => {
            *at += 1;
            u64::from(byte)
        }
        _ => long_number_at(bytes, at),
    }
}

#[inline(always)]
fn long_number_at(bytes: &[u8], at: &mut usize) -> u64 {
    let rest = bytes.get(*at..).unwrap_or_default();
    if let Some((value, length)) = rest.first_chunk().and_then(short_number) {
        *at += length;
        return value;
    }
    longest_number_at(bytes, at)
}

/// The number that `bytes` begin with, and its length, if it is no longer than they are.
#[inline(always)]
fn short_number(bytes: &[u8; 8]) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(*bytes);
    let stops = !word & STOP_BITS;
    if stops == 0 {
        return None;
    }
    // All bits up to the first byte whose highest bit is 0.
    let mask = stops ^ stops.wrapping_sub(1);
    Some((squeeze(word & mask), (mask.count_ones() / 8) as usize))
}

/// Puts the lower seven bits of eight bytes side by side.
#[inline(always)]
fn squeeze(word: u64) -> u64 {
    let word = word & 0x7f7f_7f7f_7f7f_7f7f;
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    (word & 0x0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4)
}

#[cold]
#[inline(never)]
fn longest_number_at(bytes: &[u8], at: &mut usize) -> u64 {
    let mut reader = Bytes::new(bytes.get(*at..).unwrap_or_default());
    match reader.number("") {
        Ok(value) => {
            *at += reader.read();
            value
        }
        Err(_) => {
            *at = usize::MAX / 2;
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint;

    #[test]
    fn both_readers_read_what_was_written() {
        let mut checked = 0;
        for bit in 0..64 {
            for value in [
                1u64 << bit,
                (1 << bit) - 1,
                u64::MAX >> bit,
                0x0123_4567_89ab_cdef >> bit,
            ] {
                let mut bytes = vec![0xff, 0xff];
                varint::push(&mut bytes, value);
                let end = bytes.len();
                bytes.resize(end + PADDING, 0);
                let mut at = 2;
                assert_eq!(number_at(&bytes, &mut at), value);
                assert_eq!(at, end);
                let mut reader = Bytes::new(&bytes[2..end]);
                assert_eq!(reader.number("it"), Ok(value));
                assert!(reader.is_empty());
                checked += 1;
            }
        }
        assert_eq!(checked, 256);
    }

    #[test]
    fn padded_numbers_are_accepted_and_too_long_ones_are_not() {
        let mut padded = vec![0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
        assert_eq!(Bytes::new(&padded).number("size"), Ok(5));
        padded.resize(10 + PADDING, 0);
        let mut at = 0;
        assert_eq!((number_at(&padded, &mut at), at), (5, 10));

        let mut long = vec![0xff; 11];
        assert!(Bytes::new(&long).number("size").is_err());
        long.resize(11 + PADDING, 0);
        let mut at = 0;
        number_at(&long, &mut at);
        assert!(at > long.len());
        assert!(Bytes::new(&[0x80, 0x80]).number("size").is_err(), "cut");
    }
}
