//! Counts of values in buckets whose width grows with the value: small, quick, and never more than
//! one part in 128 off.
//!
//! The report puts three durations into a histogram for every switch, so this takes a handful of
//! instructions; a test holds it against the `hdrhistogram` crate, which took a quarter of the whole
//! analysis.

/// Buckets for each power of two, as a power of two.
const BITS: u32 = 7;

/// Values below this have a bucket of their own.
const LINEAR: u64 = 1 << (BITS + 1);

/// Counts of values.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    /// By bucket; as long as the largest value needs.
    counts: Vec<u64>,
}

/// The bucket of `value`.
#[inline]
fn bucket(value: u64) -> usize {
    if value < LINEAR {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - BITS;
    // The top bits that are kept are 128 to 255, so each shift adds 128 buckets.
    ((u64::from(shift) << BITS) + (value >> shift)) as usize
}

/// The largest value of a bucket.
fn largest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < LINEAR {
        return bucket;
    }
    let shift = (bucket >> BITS) - 1;
    let kept = bucket - (shift << BITS);
    // The largest bucket of all ends at the largest number.
    ((u128::from(kept + 1) << shift) - 1) as u64
}

/// Where the four bins of a power of two begin, in parts of 128: as near to equal ratios as buckets
/// allow, so that every bucket is in one bin.
const BIN_EDGES: [u64; 4] = [128, 152, 181, 215];

/// The bin that `value` is in: the smallest value of it, and the smallest beyond it.
pub(super) fn bin_of(value: u64) -> (u64, u64) {
    if value == 0 {
        return (0, 1);
    }
    let power = 63 - value.leading_zeros();
    let top = (u128::from(value) << BITS >> power) as u64;
    let number = BIN_EDGES.iter().rposition(|&edge| edge <= top).unwrap_or(0);
    let at =
        |edge: u64| ((u128::from(edge) << power).div_ceil(1 << BITS)).min(u64::MAX.into()) as u64;
    let next = BIN_EDGES
        .get(number + 1)
        .copied()
        .unwrap_or(2 * BIN_EDGES[0]);
    (at(BIN_EDGES[number]), at(next))
}

impl Histogram {
    /// Calls `each` with a value of every bucket that has one, and how many it has.
    pub(super) fn each(&self, each: &mut impl FnMut(u64, u64)) {
        for (bucket, &count) in self.counts.iter().enumerate() {
            if count > 0 {
                each(largest(bucket), count);
            }
        }
    }

    /// One more.
    #[inline]
    pub(super) fn record(&mut self, value: u64) {
        let bucket = bucket(value);
        match self.counts.get_mut(bucket) {
            Some(count) => *count += 1,
            None => self.grow(bucket),
        }
    }

    #[cold]
    fn grow(&mut self, bucket: usize) {
        self.counts.resize(bucket + 1, 0);
        self.counts[bucket] = 1;
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// The largest value of the bucket that holds the value of rank `rank`, counted from 1.
    pub(super) fn at_rank(&self, rank: u64) -> u64 {
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return largest(bucket);
            }
        }
        largest(self.counts.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        let mut last = None;
        let mut checked = 0;
        let powers = (0..64).flat_map(|power| [0_u64, 1, 77].map(|more| (1_u64 << power) + more));
        let mut values: Vec<u64> = (0..2000)
            .chain(powers)
            .chain([u64::MAX - 1, u64::MAX])
            .collect();
        values.sort_unstable();
        for value in values {
            let bucket = bucket(value);
            assert!(last <= Some(bucket), "{value}");
            last = Some(bucket);
            let largest = largest(bucket);
            assert!(largest >= value, "{value} {largest}");
            assert!(largest - value <= value / 128, "{value} {largest}");
            assert_eq!(super::bucket(largest), bucket);
            assert!(largest == u64::MAX || super::bucket(largest + 1) == bucket + 1);
            checked += 1;
        }
        assert!(checked > 2000);
    }

    #[test]
    fn bins_follow_each_other_and_hold_whole_buckets() {
        let mut value = 0;
        let mut bins = 0;
        while value < 1 << 40 {
            let (from, to) = bin_of(value);
            assert_eq!(from, value, "the bin before ends where this one begins");
            assert_eq!(bin_of(to - 1), (from, to));
            assert_eq!(bucket(to - 1) + 1, bucket(to), "a bucket is cut at {to}");
            value = to;
            bins += 1;
        }
        assert!((140..170).contains(&bins), "{bins}");
        assert_eq!(bin_of(u64::MAX).1, u64::MAX);
    }

    /// Another implementation of the same idea, with the same number of digits, says the same.
    #[test]
    fn agrees_with_hdrhistogram() {
        let mut ours = Histogram::default();
        let mut theirs = hdrhistogram::Histogram::<u64>::new(2).expect("two digits");
        theirs.auto(true);
        let count = 50_000;
        for n in 0..count {
            let value = n * n * 7919 % 1_000_000_007;
            ours.record(value);
            theirs.record(value).expect("resizes");
        }
        for per_mille in [1, 10, 250, 500, 900, 990, 999, 1000] {
            let rank = (count * per_mille).div_ceil(1000);
            let (a, b) = (
                ours.at_rank(rank),
                theirs.value_at_quantile(per_mille as f64 / 1000.0),
            );
            let difference = a.abs_diff(b) as f64 / b.max(1) as f64;
            assert!(difference <= 0.01, "{per_mille}: {a} {b}");
        }
    }
}
