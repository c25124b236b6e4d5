//! Sums over time in columns that grow with the trace: exact, in one pass, in bounded memory.
//!
//! How long a trace is shows only at its end. Columns therefore begin one nanosecond wide and double
//! whenever time runs out of them; two neighbours become one, and no nanosecond is lost.

use gmp_trace::time::Nanos;

/// Where columns are in time. All columns of one picture share it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Where the first column begins.
    origin: Nanos,
    /// The width of a column in nanoseconds, as a power of two.
    shift: u32,
    /// How many columns there are; even.
    count: usize,
}

impl Scale {
    /// `count` columns (rounded up to an even number) from `origin` on, one nanosecond wide.
    pub(super) fn new(origin: Nanos, count: usize) -> Scale {
        Scale {
            origin,
            shift: 0,
            count: count.max(2).next_multiple_of(2),
        }
    }

    /// The width of a column in nanoseconds.
    pub(super) fn width(&self) -> i64 {
        1 << self.shift
    }

    /// True where time `at` is in a column.
    #[inline]
    pub(super) fn reaches(&self, at: Nanos) -> bool {
        // The difference of two times fits: they are within 73 years of the begin of the trace.
        ((at.0 - self.origin.0) >> self.shift) < self.count as i64
    }

    /// Makes every column twice as wide.
    pub(super) fn double(&mut self) {
        self.shift += 1;
    }

    /// The column of `at`, which is not before the first one and which the columns reach.
    #[inline]
    pub(super) fn column(&self, at: Nanos) -> usize {
        (((at.0 - self.origin.0) >> self.shift) as usize).min(self.count - 1)
    }

    /// How many columns there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    fn begin_of(&self, column: usize) -> i64 {
        self.origin.0 + ((column as i64) << self.shift)
    }
}

/// Time, weighted, summed by column.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    /// What is in columns that spans cover in part.
    part: Vec<i64>,
    /// Where spans begin and end to cover whole columns: the change of weight from column to column.
    change: Vec<i64>,
}

impl Columns {
    /// Adds `weight` for every nanosecond from `begin` to `end`, both of which `scale` reaches.
    #[inline]
    pub(super) fn add(&mut self, scale: &Scale, begin: Nanos, end: Nanos, weight: i64) {
        if self.part.is_empty() {
            self.part = vec![0; scale.count];
            self.change = vec![0; scale.count + 1];
        }
        let (first, last) = (scale.column(begin), scale.column(end));
        if first == last {
            self.part[first] += (end.0 - begin.0) * weight;
            return;
        }
        self.part[first] += (scale.begin_of(first + 1) - begin.0) * weight;
        self.part[last] += (end.0 - scale.begin_of(last)) * weight;
        self.change[first + 1] += weight;
        self.change[last] -= weight;
    }

    /// Two neighbours become one; `scale` is still the old one.
    pub(super) fn fold(&mut self, scale: &Scale) {
        if self.part.is_empty() {
            return;
        }
        let sums = self.sums(scale);
        for (column, pair) in sums.chunks_exact(2).enumerate() {
            self.part[column] = pair[0] + pair[1];
        }
        self.part[sums.len() / 2..].fill(0);
        self.change.fill(0);
    }

    /// Adds all of `other` and empties it.
    pub(super) fn take(&mut self, other: &mut Columns) {
        if self.part.is_empty() {
            *self = std::mem::take(other);
            return;
        }
        for (sum, more) in self.part.iter_mut().zip(&other.part) {
            *sum += more;
        }
        for (sum, more) in self.change.iter_mut().zip(&other.change) {
            *sum += more;
        }
        *other = Columns::default();
    }

    /// The sum of each column.
    fn sums(&self, scale: &Scale) -> Vec<i64> {
        let mut weight = 0;
        self.part
            .iter()
            .zip(&self.change)
            .map(|(part, change)| {
                weight += change;
                part + weight * scale.width()
            })
            .collect()
    }

    /// The same sums in `pixels` columns that divide the time from `begin` to `end` evenly. What a
    /// column holds is spread over its time; rounding moves a nanosecond to a neighbour and loses
    /// none.
    pub(super) fn resampled(
        &self,
        scale: &Scale,
        begin: Nanos,
        end: Nanos,
        pixels: usize,
    ) -> Vec<i64> {
        let sums = self.sums(scale);
        let mut result = vec![0; pixels];
        if end <= begin || sums.is_empty() {
            return result;
        }
        let length = i128::from(end.0 - begin.0);
        let (mut column, mut before, mut last) = (0, 0_i128, 0_i128);
        for (pixel, value) in result.iter_mut().enumerate() {
            let edge = i128::from(begin.0) + length * (pixel as i128 + 1) / pixels as i128;
            // Whole columns up to the edge of the pixel, then a part of the one that it cuts.
            while column < sums.len() && i128::from(end_of(scale, column, end)) <= edge {
                before += i128::from(sums[column]);
                column += 1;
            }
            let mut up_to = before;
            if column < sums.len() {
                let from = i128::from(scale.begin_of(column));
                let width = i128::from(end_of(scale, column, end)) - from;
                if width > 0 && edge > from {
                    up_to += i128::from(sums[column]) * (edge - from) / width;
                }
            }
            *value = (up_to - last) as i64;
            last = up_to;
        }
        result
    }
}

/// Where `column` ends, or the time does.
fn end_of(scale: &Scale, column: usize, end: Nanos) -> i64 {
    scale
        .begin_of(column + 1)
        .min(end.0.max(scale.begin_of(column)))
}

/// A quantity that has a value at every moment, summed over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    now: i64,
    since: Nanos,
    columns: Columns,
}

impl Level {
    /// The value at this moment.
    #[inline]
    pub(super) fn now(&self) -> i64 {
        self.now
    }

    /// Since when it has that value, and the value.
    #[inline]
    pub(super) fn open(&self) -> (Nanos, i64) {
        (self.since, self.now)
    }

    /// From `at` on it is `value`. The stretch that ends is to be added by the caller.
    #[inline]
    pub(super) fn set(&mut self, at: Nanos, value: i64) {
        self.since = at;
        self.now = value;
    }

    /// The sums.
    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    #[inline]
    pub(super) fn columns_mut(&mut self) -> &mut Columns {
        &mut self.columns
    }
}

/// Things that happen at a moment, counted by column.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    counts: Vec<u32>,
}

impl Counts {
    /// One more at `at`, which `scale` reaches.
    pub(super) fn add(&mut self, scale: &Scale, at: Nanos) {
        if self.counts.is_empty() {
            self.counts = vec![0; scale.count];
        }
        let count = &mut self.counts[scale.column(at)];
        *count = count.saturating_add(1);
    }

    /// Two neighbours become one.
    pub(super) fn fold(&mut self) {
        let half = self.counts.len() / 2;
        for column in 0..half {
            let sum = self.counts[2 * column].saturating_add(self.counts[2 * column + 1]);
            self.counts[column] = sum;
        }
        self.counts[half..].fill(0);
    }

    /// How many in all.
    pub(super) fn total(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// The counts in `cells` that divide the time from `begin` to `end` evenly.
    pub(super) fn resampled(
        &self,
        scale: &Scale,
        begin: Nanos,
        end: Nanos,
        cells: usize,
    ) -> Vec<u64> {
        let mut result = vec![0; cells];
        let length = i128::from(end.0) - i128::from(begin.0);
        if length <= 0 || cells == 0 {
            return result;
        }
        for (column, &count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            let middle = i128::from(scale.begin_of(column)) + i128::from(scale.width() / 2);
            let cell = (middle - i128::from(begin.0)) * cells as i128 / length;
            result[(cell.max(0) as usize).min(cells - 1)] += u64::from(count);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spans of very different sizes, always the same ones: begin, end, weight.
    fn spans() -> Vec<(Nanos, Nanos, i64)> {
        let mut seed = 7_u64;
        let mut next = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(11);
            (seed >> 33) % below
        };
        (0..2_000)
            .map(|number| {
                let begin = number * 37 + next(50);
                let end = begin + next(1 << (1 + number % 15));
                (Nanos(begin as i64), Nanos(end as i64), 1 + next(3) as i64)
            })
            .collect()
    }

    fn summed(count: usize) -> (Columns, Scale, i64, Nanos) {
        let (mut columns, mut scale) = (Columns::default(), Scale::new(Nanos(0), count));
        let (mut sum, mut latest) = (0, Nanos(0));
        for (begin, end, weight) in spans() {
            while !scale.reaches(end) {
                columns.fold(&scale);
                scale.double();
            }
            columns.add(&scale, begin, end, weight);
            sum += (end.0 - begin.0) * weight;
            latest = latest.max(end);
        }
        (columns, scale, sum, latest)
    }

    #[test]
    fn no_nanosecond_is_lost() {
        for count in [2, 3, 64, 1000, 1 << 20] {
            let (columns, scale, sum, latest) = summed(count);
            assert_eq!(
                columns.sums(&scale).iter().sum::<i64>(),
                sum,
                "{count} columns"
            );
            for pixels in [1, 7, 640, 1280] {
                let pixels = columns.resampled(&scale, Nanos(0), latest, pixels);
                assert_eq!(pixels.iter().sum::<i64>(), sum, "{count} columns");
                assert!(pixels.iter().all(|&pixel| pixel >= 0));
            }
        }
    }

    /// Columns of a nanosecond are exact, so that every pixel is what a plain sum says.
    #[test]
    fn pixels_hold_what_lies_in_them() {
        let (columns, scale, _, latest) = summed(1 << 20);
        let pixels = 97;
        let shown = columns.resampled(&scale, Nanos(0), latest, pixels);
        let mut checked = 0;
        for (pixel, &value) in shown.iter().enumerate() {
            let edge = |n: usize| latest.0 * n as i64 / pixels as i64;
            let plain: i64 = spans()
                .iter()
                .map(|(begin, end, weight)| {
                    let inside = end.0.min(edge(pixel + 1)) - begin.0.max(edge(pixel));
                    inside.max(0) * weight
                })
                .sum();
            assert_eq!(value, plain, "pixel {pixel}");
            checked += 1;
        }
        assert_eq!(checked, pixels);
    }

    #[test]
    fn counts_survive_folding() {
        let (mut counts, mut scale) = (Counts::default(), Scale::new(Nanos(5), 8));
        for at in [5, 6, 12, 40, 41, 99] {
            while !scale.reaches(Nanos(at)) {
                counts.fold();
                scale.double();
            }
            counts.add(&scale, Nanos(at));
        }
        assert_eq!(counts.total(), 6);
        let cells = counts.resampled(&scale, Nanos(5), Nanos(100), 2);
        assert_eq!(cells, [5, 1]);
        assert_eq!(cells.iter().sum::<u64>(), 6);
    }
}
