//! The tables and their columns: names, units, meaning. Nothing else knows them.

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Goroutines.
    Goroutines,
    /// Spans of goroutines.
    GSpans,
    /// Spans of Ps.
    PSpans,
    /// Starts of goroutines.
    Wakes,
    /// Steals.
    Steals,
    /// The trace itself.
    Trace,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds from the begin of the trace.
    Time,
    /// Nanoseconds.
    Duration,
    /// Nanoseconds since the Unix epoch.
    WallClock,
    /// The number of a thing.
    Id,
    /// How many.
    Count,
    /// Words.
    Text,
    /// True or false.
    Flag,
}

impl Unit {
    /// Its type in SQL.
    pub const fn sql_type(self) -> &'static str {
        match self {
            Unit::Text => "TEXT",
            Unit::Flag => "BOOLEAN",
            _ => "BIGINT",
        }
    }

    /// The unit in words; empty where the type says all.
    pub const fn words(self) -> &'static str {
        match self {
            Unit::Time => "ns from the begin of the trace",
            Unit::Duration => "ns",
            Unit::WallClock => "ns since 1970",
            Unit::Count => "how many",
            Unit::Id | Unit::Text | Unit::Flag => "",
        }
    }
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name in SQL.
    pub name: &'static str,
    /// What it holds.
    pub unit: Unit,
    /// What it means, and when it is null.
    pub about: &'static str,
}

impl Table {
    /// Every table, the most general ones first.
    pub const ALL: &'static [Table] = &[
        Table::Goroutines,
        Table::GSpans,
        Table::PSpans,
        Table::Wakes,
        Table::Steals,
        Table::Trace,
    ];

    /// Its name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Table::Goroutines => "goroutines",
            Table::GSpans => "g_spans",
            Table::PSpans => "p_spans",
            Table::Wakes => "wakes",
            Table::Steals => "steals",
            Table::Trace => "trace",
        }
    }

    /// What a row is.
    pub const fn about(self) -> &'static str {
        match self {
            Table::Goroutines => "A goroutine, in the order in which they end.",
            Table::GSpans => {
                "A stay of a goroutine in a state; those of one goroutine cover its life without gap."
            }
            Table::PSpans => {
                "A stay of a P in a state; those of one P cover the trace without gap."
            }
            Table::Wakes => "A goroutine begins to run.",
            Table::Steals => {
                "A P takes goroutines or timers from another one. Traces of Go do not tell, so that \
                 there the table is empty."
            }
            Table::Trace => "The trace itself: one row, of the whole of it.",
        }
    }

    /// Its columns.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Table::Goroutines => GOROUTINES,
            Table::GSpans => G_SPANS,
            Table::PSpans => P_SPANS,
            Table::Wakes => WAKES,
            Table::Steals => STEALS,
            Table::Trace => TRACE,
        }
    }

    /// The table called `name`.
    pub fn called(name: &str) -> Option<Table> {
        let mut all = Table::ALL.iter();
        all.find(|table| table.name() == name).copied()
    }
}

const fn column(name: &'static str, unit: Unit, about: &'static str) -> Column {
    Column { name, unit, about }
}

#[rustfmt::skip]
const GOROUTINES: &[Column] = &[
    column("goroutine", Unit::Id, "number of the goroutine"),
    column("function", Unit::Text, "function with which it starts; null where the trace does not tell"),
    column("made_at", Unit::Text, "where it was made, file:line:column; null where the trace does not tell"),
    column("creator", Unit::Id, "goroutine that made it; null where the trace does not tell"),
    column("begin_ns", Unit::Time, "when its life in the trace begins"),
    column("end_ns", Unit::Time, "when it ends, or the trace does"),
    column("existed", Unit::Flag, "true where it existed before its first event, so that begin_ns is not its birth"),
    column("alive", Unit::Flag, "true where the trace ends first, so that end_ns is not its end"),
    column("exit", Unit::Text, "how it ended; null where it did not, or the trace does not tell"),
    column("running_ns", Unit::Duration, "time in state running"),
    column("runnable_ns", Unit::Duration, "time in state runnable"),
    column("waiting_ns", Unit::Duration, "time in state waiting"),
    column("syscall_ns", Unit::Duration, "time in system calls, with its P"),
    column("syscall_without_p_ns", Unit::Duration, "time in system calls, after its P was taken"),
    column("unknown_ns", Unit::Duration, "time of which the trace does not tell"),
];

#[rustfmt::skip]
const G_SPANS: &[Column] = &[
    column("goroutine", Unit::Id, "number of the goroutine"),
    column("function", Unit::Text, "function with which it starts; null where the trace does not tell"),
    column("state", Unit::Text, "running, runnable, waiting, syscall, syscall without P, unknown"),
    column("begin_ns", Unit::Time, "from when"),
    column("end_ns", Unit::Time, "until when"),
    column("duration_ns", Unit::Duration, "end_ns - begin_ns"),
    column("p", Unit::Id, "P on which it runs or which is kept for its system call; null in other states, or where the trace does not tell"),
    column("reason", Unit::Text, "why it waits, in Go's words; null in other states, or where the trace does not tell"),
    column("object", Unit::Id, "what it waits for; null in other states, or where the trace does not tell"),
    column("at_function", Unit::Text, "function that waits or makes the system call; null in other states, or where the trace does not tell"),
    column("at", Unit::Text, "where that is, file:line:column; null as before"),
    column("open", Unit::Flag, "true where the trace ends first"),
];

#[rustfmt::skip]
const P_SPANS: &[Column] = &[
    column("p", Unit::Id, "number of the P"),
    column("state", Unit::Text, "running, scheduler, syscall, idle, stopped, absent, unknown"),
    column("begin_ns", Unit::Time, "from when"),
    column("end_ns", Unit::Time, "until when"),
    column("duration_ns", Unit::Duration, "end_ns - begin_ns"),
    column("goroutine", Unit::Id, "goroutine that runs on it or is in the system call; null in other states, or where the trace does not tell"),
    column("m", Unit::Id, "thread that holds it; null where none does, or the trace does not tell"),
    column("open", Unit::Flag, "true where the trace ends first"),
];

#[rustfmt::skip]
const WAKES: &[Column] = &[
    column("start_ns", Unit::Time, "when the goroutine begins to run"),
    column("goroutine", Unit::Id, "number of the goroutine; null where the trace does not tell"),
    column("function", Unit::Text, "function with which it starts; null where the trace does not tell"),
    column("p", Unit::Id, "P on which it runs; null where the trace does not tell"),
    column("ready_ns", Unit::Time, "when it became runnable; null where that was before the trace, or the trace does not tell"),
    column("latency_ns", Unit::Duration, "start_ns - ready_ns: the scheduling latency; null as before"),
    column("cause", Unit::Text, "what made it runnable; null as before"),
    column("waker", Unit::Id, "goroutine that made it runnable; null where none did, or the trace does not tell"),
    column("found", Unit::Text, "where the scheduler found it; null where the trace does not tell, as those of Go"),
];

#[rustfmt::skip]
const STEALS: &[Column] = &[
    column("time_ns", Unit::Time, "when"),
    column("thief", Unit::Id, "P that takes; null where the trace does not tell"),
    column("m", Unit::Id, "thread that takes; null where the trace does not tell"),
    column("victim", Unit::Id, "P from which it takes"),
    column("what", Unit::Text, "ring, runnext, timers"),
    column("goroutines", Unit::Count, "goroutines taken; null for timers"),
];

#[rustfmt::skip]
const TRACE: &[Column] = &[
    column("source", Unit::Text, "file, or standard input"),
    column("format", Unit::Text, "format and its version"),
    column("started_at_ns", Unit::WallClock, "wall clock at the begin; null where the trace does not tell"),
    column("span_ns", Unit::Duration, "from the first event to the last"),
    column("bytes", Unit::Count, "bytes, unpacked"),
    column("events", Unit::Count, "events"),
    column("lost_events", Unit::Count, "events that the recorder says are lost"),
    column("generations", Unit::Count, "generations"),
    column("finished", Unit::Flag, "true where the recorder finished the trace; null where the format does not tell"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_snake_case_and_tell_units() {
        let mut seen = 0;
        for table in Table::ALL {
            assert_eq!(Table::called(table.name()), Some(*table));
            let columns = table.columns();
            let names: BTreeSet<_> = columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), columns.len(), "{}: a name twice", table.name());
            for column in columns {
                let snake = |c: char| c.is_ascii_lowercase() || c == '_';
                assert!(column.name.chars().all(snake), "{}", column.name);
                let times = [Unit::Time, Unit::Duration, Unit::WallClock];
                let is_time = times.contains(&column.unit);
                assert_eq!(column.name.ends_with("_ns"), is_time, "{}", column.name);
                seen += 1;
            }
        }
        assert!(seen > 50);
        assert_eq!(Table::called("g_span"), None);
    }
}
