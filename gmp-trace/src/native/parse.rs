//! From bytes to headers and records: the only file that knows the parser library.
//!
//! Every function takes a slice and gives the rest of it; none allocates, none panics, and lengths
//! are compared with what is there before anything is done with them.

use nom::bytes::complete::{tag, take};
use nom::number::complete::{le_u16, le_u32, le_u64, u8 as byte};
use nom::{Err, IResult, Needed, Parser};

use crate::block::{BLOCK_HEADER_BYTES, MARKER, field};
use crate::header::{ARITY_AT, CHECKSUM_AT, HEADER_COPY_BYTES, MAGIC};
use crate::limits::{MAX_ARGUMENTS, MAX_RECORD_BYTES};
use crate::spec::{ARITY_LENGTH, ARITY_UNDEFINED};

type Parsed<'a, T> = IResult<&'a [u8], T, ()>;

/// One copy of the file header as it stands there.
#[derive(Clone, Debug)]
pub(super) struct RawHeader {
    pub(super) version: (u16, u16),
    pub(super) ticks_per_second: u64,
    pub(super) process_id: u64,
    pub(super) first_block: u32,
    pub(super) start: u64,
    /// How many numbers follow each head.
    pub(super) arities: [u8; 256],
    /// Whether the checksum is right.
    pub(super) intact: bool,
}

/// Reads one copy of the header; `None` where there is no magic or not all of it.
pub(super) fn file_header(copy: &[u8]) -> Option<RawHeader> {
    raw_header(copy.get(..HEADER_COPY_BYTES)?)
        .ok()
        .map(|(_, header)| header)
}

fn raw_header(copy: &[u8]) -> Parsed<'_, RawHeader> {
    let (rest, (_, major, minor, _flags)) =
        (tag(&MAGIC[..]), le_u16, le_u16, le_u32).parse(copy)?;
    let (_, (ticks_per_second, process_id, _block_bytes, first_block, start)) =
        (le_u64, le_u64, le_u32, le_u32, le_u64).parse(rest)?;
    let (table, _) = take(ARITY_AT).parse(copy)?;
    let (_, packed) = take(128usize).parse(table)?;
    let (checksum, covered) = take(CHECKSUM_AT).parse(copy)?;
    let (rest, checksum) = le_u32(checksum)?;
    let mut arities = [ARITY_UNDEFINED; 256];
    for (pair, byte) in arities.chunks_exact_mut(2).zip(packed) {
        pair.copy_from_slice(&[byte & 15, byte >> 4]);
    }
    let intact = crc32fast::hash(covered) == checksum;
    let header = RawHeader {
        version: (major, minor),
        ticks_per_second,
        process_id,
        first_block,
        start,
        arities,
        intact,
    };
    Ok((rest, header))
}

/// A block header as it stands there.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawBlock {
    pub(super) capacity: u32,
    pub(super) kind: u8,
    pub(super) generation: u32,
    pub(super) sequence: u32,
    pub(super) m: u64,
    pub(super) base_time: u64,
    pub(super) g: u64,
    pub(super) p: u32,
    pub(super) flags: u32,
    pub(super) length: u32,
    pub(super) raw_length: u32,
    pub(super) events: u32,
    pub(super) seal_checksum: u32,
}

/// Reads a block header; `None` where there is no marker or its own checksum is wrong.
pub(super) fn block_header(bytes: &[u8]) -> Option<RawBlock> {
    let bytes = bytes.get(..BLOCK_HEADER_BYTES)?;
    let (_, header) = raw_block(bytes).ok()?;
    let stored = bytes.get(field::OPEN_CHECKSUM)?;
    let computed = crc32fast::hash(bytes.get(..field::OPEN_CHECKSUM.start)?);
    (computed.to_le_bytes() == stored).then_some(header)
}

fn raw_block(bytes: &[u8]) -> Parsed<'_, RawBlock> {
    let (rest, (_, capacity, kind, _)) =
        (tag(&MARKER[..]), le_u32, byte, take(3usize)).parse(bytes)?;
    let (rest, (generation, sequence, m, base_time, g, p)) =
        (le_u32, le_u32, le_u64, le_u64, le_u64, le_u32).parse(rest)?;
    let (rest, (_, flags, length, raw_length, events, seal_checksum)) =
        (take(8usize), le_u32, le_u32, le_u32, le_u32, le_u32).parse(rest)?;
    let block = RawBlock {
        capacity,
        kind,
        generation,
        sequence,
        m,
        base_time,
        g,
        p,
        flags,
        length,
        raw_length,
        events,
        seal_checksum,
    };
    Ok((rest, block))
}

/// The numbers of a record. More places than a record has numbers, so that the compiler sees that
/// the place of a number is always one of them.
pub(crate) type Args = [u64; 16];

const _: () = assert!(MAX_ARGUMENTS < 16);

/// Why no record could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The data ends here, at a record's beginning.
    End,
    /// The data ends inside the record.
    Cut,
    /// The record is not one.
    Bad,
}

/// A record's head, the tail of one with a length of its own, and what follows the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord<'a> {
    pub(crate) head: u8,
    pub(crate) tail: &'a [u8],
    pub(crate) rest: &'a [u8],
}

/// Reads one record: its numbers go to `args`, of which those beyond its arity are left as they were.
#[inline(always)]
pub(crate) fn record<'a>(
    input: &'a [u8],
    arities: &[u8; 256],
    args: &mut Args,
) -> Result<RawRecord<'a>, Stop> {
    // Most records have two or three numbers of one byte.
    if let Some((&[head, a, b, c], _)) = input.split_first_chunk() {
        let arity = arities[head as usize];
        if arity == 2 && (a | b) < 0x80 {
            [args[0], args[1]] = [u64::from(a), u64::from(b)];
            return Ok(RawRecord {
                head,
                tail: &[],
                rest: &input[3..],
            });
        }
        if arity == 3 && (a | b | c) < 0x80 {
            [args[0], args[1], args[2]] = [u64::from(a), u64::from(b), u64::from(c)];
            return Ok(RawRecord {
                head,
                tail: &[],
                rest: &input[4..],
            });
        }
    }
    any_record(input, arities, args)
}

fn any_record<'a>(
    input: &'a [u8],
    arities: &[u8; 256],
    args: &mut Args,
) -> Result<RawRecord<'a>, Stop> {
    let Some((&head, rest)) = input.split_first() else {
        return Err(Stop::End);
    };
    let arity = arities[head as usize];
    let parsed = match arity {
        0 if head == crate::spec::END_OF_DATA => return Err(Stop::End),
        ARITY_LENGTH => {
            return match counted_bytes(rest) {
                Ok((rest, tail)) => Ok(RawRecord { head, tail, rest }),
                Err(stop) => Err(stop_of(stop)),
            };
        }
        ARITY_UNDEFINED => return Err(Stop::Bad),
        _ => numbers(rest, args.get_mut(..arity as usize).unwrap_or_default()),
    };
    match parsed {
        Ok(rest) => Ok(RawRecord {
            head,
            tail: &[],
            rest,
        }),
        Err(stop) => Err(stop_of(stop)),
    }
}

#[cold]
fn stop_of(error: Err<()>) -> Stop {
    match error {
        Err::Incomplete(_) => Stop::Cut,
        Err::Error(()) | Err::Failure(()) => Stop::Bad,
    }
}

/// Reads as many numbers as `into` has places.
fn numbers<'a>(mut input: &'a [u8], into: &mut [u64]) -> Result<&'a [u8], Err<()>> {
    for place in into {
        (input, *place) = varint(input)?;
    }
    Ok(input)
}

/// The first `count` numbers at the beginning of a tail, and what follows them; `None` where they
/// are not there.
pub(crate) fn leading_numbers<'a>(
    tail: &'a [u8],
    count: usize,
    args: &mut Args,
) -> Option<&'a [u8]> {
    numbers(tail, args.get_mut(..count)?).ok()
}

/// A length and as many bytes.
fn counted_bytes(input: &[u8]) -> Parsed<'_, &[u8]> {
    let (rest, length) = varint(input)?;
    if length > MAX_RECORD_BYTES as u64 {
        return Err(Err::Failure(()));
    }
    match rest.split_at_checked(length as usize) {
        Some((bytes, rest)) => Ok((rest, bytes)),
        None => Err(Err::Incomplete(Needed::Unknown)),
    }
}

/// One number in base 128, the least significant digits first; a number that does not need all its
/// digits is accepted, one of more than 64 bits is not.
#[inline(always)]
fn varint(input: &[u8]) -> Parsed<'_, u64> {
    match input.split_first() {
        Some((&digit, rest)) if digit < 0x80 => Ok((rest, u64::from(digit))),
        _ => long_varint(input),
    }
}

fn long_varint(input: &[u8]) -> Parsed<'_, u64> {
    let mut value = 0;
    for (place, &digit) in input.iter().enumerate() {
        let bits = u64::from(digit & 0x7f);
        if place == 9 && digit > 1 {
            return Err(Err::Failure(()));
        }
        value |= bits << (7 * place);
        if digit < 0x80 {
            return Ok((input.get(place + 1..).unwrap_or_default(), value));
        }
    }
    Err(Err::Incomplete(Needed::Unknown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint;

    #[test]
    fn numbers_are_those_written() {
        let mut checked = 0;
        for value in (0..64)
            .map(|bit| 1u64 << bit)
            .chain([0, 127, 128, u64::MAX])
        {
            let mut bytes = Vec::new();
            varint::push(&mut bytes, value);
            bytes.push(9);
            assert_eq!(super::varint(&bytes), Ok((&[9][..], value)));
            for cut in 0..bytes.len() - 1 {
                assert!(matches!(
                    super::varint(&bytes[..cut]),
                    Err(Err::Incomplete(_))
                ));
            }
            checked += 1;
        }
        assert_eq!(checked, 68);
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 2;
        assert_eq!(super::varint(&bytes), Err(Err::Failure(())));
        bytes[9] = 1;
        assert_eq!(super::varint(&bytes), Ok((&[][..], u64::MAX)));
        assert_eq!(super::varint(&[0x80; 11]), Err(Err::Failure(())));
        assert_eq!(super::varint(&[0x81, 0x80, 0]), Ok((&[][..], 1)), "padded");
    }

    #[test]
    fn a_huge_length_is_refused_before_anything_is_taken() {
        let mut arities = [ARITY_UNDEFINED; 256];
        arities[7] = ARITY_LENGTH;
        let mut bytes = vec![7];
        varint::push(&mut bytes, 1 << 63);
        let stop = record(&bytes, &arities, &mut [0; 16]).err();
        assert_eq!(stop, Some(Stop::Bad));
    }
}
