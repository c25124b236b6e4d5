//! A part of a trace: what `--from` and `--to` leave.

use gmp_trace::time::Nanos;

/// A part of a trace, half open: what happens at `to` is in the next part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From when, from the begin of the trace.
    pub from: Nanos,
    /// Until when.
    pub to: Nanos,
}

impl Window {
    /// The whole trace.
    pub const WHOLE: Window = Window {
        from: Nanos(i64::MIN),
        to: Nanos(i64::MAX),
    };

    /// The same part by the clock of a trace that begins at `begin`.
    pub fn of_trace(self, begin: Nanos) -> Window {
        let moved = |time: Nanos| Nanos(time.0.saturating_add(begin.0));
        match self {
            Window::WHOLE => Window::WHOLE,
            Window { from, to } => Window {
                from: moved(from),
                to: moved(to),
            },
        }
    }

    /// True where `time` is inside.
    #[inline]
    pub fn holds(self, time: Nanos) -> bool {
        self.from <= time && time < self.to
    }

    /// The part of a span that is inside; `None` where it is outside. An empty span is in one
    /// window, that which holds its time.
    #[inline]
    pub fn clip(self, begin: Nanos, end: Nanos) -> Option<(Nanos, Nanos)> {
        let empty_inside = begin == end && self.holds(begin);
        let overlaps = begin < self.to && end > self.from;
        (empty_inside || overlaps).then(|| (begin.max(self.from), end.min(self.to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_spans_in_a_window() {
        let window = Window {
            from: Nanos(10),
            to: Nanos(20),
        };
        let clip = |begin, end| {
            let part = window.clip(Nanos(begin), Nanos(end));
            part.map(|(begin, end)| (begin.0, end.0))
        };
        assert_eq!(clip(0, 5), None);
        assert_eq!(clip(0, 10), None, "touches");
        assert_eq!(clip(0, 11), Some((10, 11)));
        assert_eq!(clip(0, 100), Some((10, 20)));
        assert_eq!(clip(12, 15), Some((12, 15)));
        assert_eq!(clip(19, 25), Some((19, 20)));
        assert_eq!(clip(20, 25), None);
        assert_eq!(clip(10, 10), Some((10, 10)), "an empty one is inside one");
        assert_eq!(clip(20, 20), None, "and not in the next as well");
        let whole = Window::WHOLE.clip(Nanos(-5), Nanos(7));
        assert_eq!(whole, Some((Nanos(-5), Nanos(7))));
    }

    #[test]
    fn windows_move_with_the_clock_and_the_whole_stays_whole() {
        let window = Window {
            from: Nanos(i64::MIN),
            to: Nanos(5),
        };
        let moved = window.of_trace(Nanos(-100));
        assert_eq!((moved.from, moved.to), (Nanos(i64::MIN), Nanos(-95)));
        assert_eq!(Window::WHOLE.of_trace(Nanos(-100)), Window::WHOLE);
    }
}
