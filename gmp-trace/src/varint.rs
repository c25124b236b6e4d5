//! Little-endian base-128 numbers: writing them, and the zigzag form of signed differences.
//!
//! Reading them is the business of the parsers.

/// Bytes of the longest number.
pub const MAX_VARINT_BYTES: usize = 10;

/// A signed difference as an unsigned number that is small when the difference is near zero.
#[inline]
pub const fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The difference that [`zigzag`] made `number` of.
#[inline]
pub const fn unzigzag(number: u64) -> i64 {
    ((number >> 1) as i64) ^ -((number & 1) as i64)
}

/// Appends `value` to `out`.
pub fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes `value` takes.
pub const fn len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zigzag_is_undone() {
        for d in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(d)), d);
        }
        assert_eq!(zigzag(-1), 1);
        assert_eq!(zigzag(1), 2);
    }

    #[test]
    fn lengths_are_those_written() {
        let mut checked = 0;
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, u64::MAX >> shift] {
                let mut out = Vec::new();
                push(&mut out, value);
                assert_eq!(out.len(), len(value), "{value}");
                assert!(out.len() <= MAX_VARINT_BYTES);
                checked += 1;
            }
        }
        assert_eq!(checked, 192);
    }
}
