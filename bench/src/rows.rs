//! The rows of the comparison: what is measured, how often, and what a right result looks like.

use std::hint::black_box;

use crate::outcome::Outcome;

/// The work that a measured program does `operations` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Two goroutines for each P give up their turn; one operation is one yield.
    Yield,
    /// Goroutines are started and joined, `batch` at a time; one operation is one goroutine.
    Spawn {
        /// How many goroutines are started before the first of them is joined.
        batch: u64,
    },
    /// The same with goroutines that compute for some 5 µs each: waking a thread for them may cost more than it
    /// brings.
    FanOut {
        /// How many goroutines are started before the first of them is joined.
        batch: u64,
    },
    /// A number goes over one channel and comes back over another; one operation is one round trip.
    PingPong,
    /// Numbers pass through a channel with room for some; one operation is one number.
    Buffered {
        /// How many numbers the channel holds.
        capacity: u64,
    },
    /// Numbers come from two channels in turn, to a select that also waits at a third; one operation is one
    /// number.
    Select,
    /// Goroutines add to one number under a mutex; one operation is one addition.
    Mutex {
        /// How many goroutines.
        goroutines: u64,
    },
    /// A Fibonacci number by recursion, each call of two on a goroutine of its own; one operation is one
    /// goroutine.
    Fib {
        /// Which number.
        n: u64,
    },
    /// Clients send 64 bytes over TCP to a server in the same process and get them back; one operation is
    /// one round trip.
    Echo {
        /// How many connections there are at once.
        connections: u64,
    },
    /// One goroutine sleeps; one operation is one sleep.
    Sleep {
        /// How long each time, in microseconds.
        micros: u64,
    },
}

/// Computes for some 5 µs; 1. No compiler can shorten it.
pub(crate) fn compute() -> u64 {
    const STEPS: u32 = 2400;
    let step = |x: u64, _| (x ^ x >> 31).wrapping_mul(6_364_136_223_846_793_005);
    u64::from(black_box((0..STEPS).fold(black_box(1), step)) != 0)
}

/// The Fibonacci number `n`.
pub(crate) fn fib(n: u64) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// How many goroutines `Work::Fib` makes for one number.
pub(crate) fn forks(n: u64) -> u64 {
    fib(n + 1) - 1
}

impl Work {
    /// How many goroutines yield in turn when there are `procs` Ps.
    pub(crate) fn yielders(procs: u64) -> u64 {
        2 * procs
    }

    /// `operations` rounded down to a number that this work divides evenly.
    pub(crate) fn whole(self, operations: u64, procs: u64) -> u64 {
        let step = match self {
            Work::Yield => Work::yielders(procs),
            Work::Spawn { batch } | Work::FanOut { batch } => batch,
            Work::Echo { connections } => connections,
            Work::Mutex { goroutines } => goroutines,
            Work::Fib { n } => forks(n),
            Work::PingPong | Work::Buffered { .. } | Work::Select | Work::Sleep { .. } => 1,
        };
        operations.max(step) / step * step
    }

    /// The checksum that a complete run of `operations` reaches, and hardly any other run.
    pub(crate) fn expected_checksum(self, operations: u64) -> u64 {
        match self {
            Work::Yield
            | Work::Spawn { .. }
            | Work::FanOut { .. }
            | Work::Mutex { .. }
            | Work::Sleep { .. } => operations,
            Work::Fib { n } => operations / forks(n) * fib(n),
            // Each number comes back one larger: the sum of 1..=operations.
            Work::PingPong => operations * (operations + 1) / 2,
            Work::Buffered { .. } | Work::Select => operations * (operations - 1) / 2,
            // On each connection the numbers of its rounds, from 1 on.
            Work::Echo { connections } => {
                let rounds = operations / connections;
                connections * (rounds * (rounds + 1) / 2)
            }
        }
    }

    /// Says what is wrong with `outcome`, if anything, so that a broken run is not timed as fast.
    pub(crate) fn verify(self, operations: u64, outcome: &Outcome) -> Result<(), String> {
        if outcome.operations != operations {
            return Err(format!(
                "expected {operations} operations, found {}",
                outcome.operations
            ));
        }
        let expected = self.expected_checksum(operations);
        if outcome.checksum != expected {
            return Err(format!(
                "expected checksum {expected}, found {}",
                outcome.checksum
            ));
        }
        if outcome.elapsed_ns == 0 {
            return Err("expected some time to pass, found 0 ns".to_owned());
        }
        Ok(())
    }
}

/// Which figure is taken from running the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Nanoseconds an operation. With `per_processor`, elapsed time counts once for each P.
    Time {
        /// The work is independent on every P, so its cost is P time, not elapsed time.
        per_processor: bool,
    },
    /// Nanoseconds that recording adds, an event: the work with the tracer on, less the work with
    /// it off, over the number of events in the trace.
    RecordingCost,
    /// Nanoseconds that a tracer costs which is built in and off, an operation: the work as it is,
    /// less the work by a harness that was built without the tracer.
    IdleTracer,
    /// Bytes of the trace's file, an event.
    RecordedBytes,
    /// Events that the peer's own reader decodes and orders from its own trace, in millions a second.
    ReadingSpeed,
    /// The same from Go's trace, for everybody.
    ReadingSpeedOfGo,
}

impl Measure {
    /// The unit of the figure, as it stands in the table.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Measure::Time { .. } | Measure::IdleTracer => "ns",
            Measure::RecordingCost => "ns/event",
            Measure::RecordedBytes => "bytes/event",
            Measure::ReadingSpeed | Measure::ReadingSpeedOfGo => "M events/s",
        }
    }

    /// Whether a larger figure is the better one.
    pub(crate) fn larger_is_better(self) -> bool {
        matches!(self, Measure::ReadingSpeed | Measure::ReadingSpeedOfGo)
    }
}

/// One row of the comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// What the command line and the table call it.
    pub(crate) name: &'static str,
    /// One phrase for the reader of the table.
    pub(crate) title: &'static str,
    /// What the measured program does.
    pub(crate) work: Work,
    /// Which figure is taken.
    pub(crate) measure: Measure,
    /// Ps, worker threads, `GOMAXPROCS`.
    pub(crate) procs: u64,
    /// How often the work is done in one run.
    pub(crate) operations: u64,
}

impl Row {
    /// The row called `name`.
    pub(crate) fn find(name: &str) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.name == name)
    }
}

const ELAPSED: Measure = Measure::Time {
    per_processor: false,
};
const PROCESSOR_TIME: Measure = Measure::Time {
    per_processor: true,
};

/// Every row, in the order of the table.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    Row { name: "yield-1p", title: "yield, 2 goroutines, one P", work: Work::Yield, measure: PROCESSOR_TIME, procs: 1, operations: 2_000_000 },
    Row { name: "yield-2p", title: "yield, 4 goroutines, two Ps (P time)", work: Work::Yield, measure: PROCESSOR_TIME, procs: 2, operations: 2_000_000 },
    Row { name: "spawn-64-1p", title: "spawn + run + join, batches of 64, one P", work: Work::Spawn { batch: 64 }, measure: ELAPSED, procs: 1, operations: 1_000_000 },
    Row { name: "spawn-10k-1p", title: "spawn + run + join, 10 000 at once, one P", work: Work::Spawn { batch: 10_000 }, measure: ELAPSED, procs: 1, operations: 1_000_000 },
    Row { name: "spawn-1m-1p", title: "spawn + run + join, 1 000 000 at once, one P", work: Work::Spawn { batch: 1_000_000 }, measure: ELAPSED, procs: 1, operations: 1_000_000 },
    Row { name: "spawn-64-2p", title: "spawn + run + join, batches of 64, two Ps", work: Work::Spawn { batch: 64 }, measure: ELAPSED, procs: 2, operations: 1_000_000 },
    Row { name: "fan-out-1p", title: "goroutines of 5 µs, batches of 64, one P", work: Work::FanOut { batch: 64 }, measure: ELAPSED, procs: 1, operations: 64_000 },
    Row { name: "fan-out-2p", title: "goroutines of 5 µs, batches of 64, two Ps", work: Work::FanOut { batch: 64 }, measure: ELAPSED, procs: 2, operations: 64_000 },
    Row { name: "pingpong-1p", title: "unbuffered channel round trip, one P", work: Work::PingPong, measure: ELAPSED, procs: 1, operations: 1_000_000 },
    Row { name: "pingpong-2p", title: "unbuffered channel round trip, two Ps", work: Work::PingPong, measure: ELAPSED, procs: 2, operations: 500_000 },
    Row { name: "buffered-1p", title: "channel with room for 128, an item, one P", work: Work::Buffered { capacity: 128 }, measure: ELAPSED, procs: 1, operations: 4_000_000 },
    Row { name: "buffered-2p", title: "channel with room for 128, an item, two Ps", work: Work::Buffered { capacity: 128 }, measure: ELAPSED, procs: 2, operations: 4_000_000 },
    Row { name: "select-1p", title: "select of three channels, a value, one P", work: Work::Select, measure: ELAPSED, procs: 1, operations: 1_000_000 },
    Row { name: "select-2p", title: "select of three channels, a value, two Ps", work: Work::Select, measure: ELAPSED, procs: 2, operations: 1_000_000 },
    Row { name: "mutex-2p", title: "lock and unlock, 8 goroutines, two Ps", work: Work::Mutex { goroutines: 8 }, measure: ELAPSED, procs: 2, operations: 4_000_000 },
    Row { name: "fib-1p", title: "fork-join fib(27), a fork, one P", work: Work::Fib { n: 27 }, measure: ELAPSED, procs: 1, operations: 317_810 },
    Row { name: "fib-2p", title: "fork-join fib(27), a fork, two Ps", work: Work::Fib { n: 27 }, measure: ELAPSED, procs: 2, operations: 317_810 },
    Row { name: "echo-1000-2p", title: "TCP echo, 1000 connections, a round trip, two Ps", work: Work::Echo { connections: 1000 }, measure: ELAPSED, procs: 2, operations: 200_000 },
    Row { name: "sleep-100us-1p", title: "sleep of 100 µs, one P", work: Work::Sleep { micros: 100 }, measure: ELAPSED, procs: 1, operations: 5_000 },
    Row { name: "record-yield", title: "cost of recording, yield, one P", work: Work::Yield, measure: Measure::RecordingCost, procs: 1, operations: 1_000_000 },
    Row { name: "record-pingpong", title: "cost of recording, channel round trip, one P", work: Work::PingPong, measure: Measure::RecordingCost, procs: 1, operations: 300_000 },
    Row { name: "tracer-off", title: "cost of the tracer while it is off, yield, one P", work: Work::Yield, measure: Measure::IdleTracer, procs: 1, operations: 4_000_000 },
    Row { name: "bytes-yield", title: "size of the trace, yield, one P", work: Work::Yield, measure: Measure::RecordedBytes, procs: 1, operations: 1_000_000 },
    Row { name: "bytes-pingpong", title: "size of the trace, channel round trip, one P", work: Work::PingPong, measure: Measure::RecordedBytes, procs: 1, operations: 300_000 },
    Row { name: "bytes-spawn", title: "size of the trace, spawn in batches of 64, two Ps", work: Work::Spawn { batch: 64 }, measure: Measure::RecordedBytes, procs: 2, operations: 300_000 },
    Row { name: "read-pingpong", title: "decode and order the events of one's own channel trace", work: Work::PingPong, measure: Measure::ReadingSpeed, procs: 1, operations: 300_000 },
    Row { name: "read-go-pingpong", title: "decode and order the events of Go's channel trace", work: Work::PingPong, measure: Measure::ReadingSpeedOfGo, procs: 1, operations: 300_000 },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn outcome(operations: u64, checksum: u64) -> Outcome {
        Outcome {
            operations,
            checksum,
            elapsed_ns: 1,
        }
    }

    #[test]
    fn names_are_unique_and_found() {
        let names: HashSet<_> = ROWS.iter().map(|row| row.name).collect();
        assert!(!ROWS.is_empty());
        assert_eq!(names.len(), ROWS.len());
        for row in ROWS {
            assert_eq!(
                Row::find(row.name).map(|found| found.title),
                Some(row.title)
            );
        }
        assert!(Row::find("no such row").is_none());
    }

    #[test]
    fn a_row_divides_its_operations_evenly() {
        for row in ROWS {
            let whole = row.work.whole(row.operations, row.procs);
            assert!(
                whole > 0 && whole <= row.operations.max(1_000_000),
                "{}",
                row.name
            );
        }
        assert_eq!(Work::Spawn { batch: 64 }.whole(1000, 1), 960);
        assert_eq!(Work::Spawn { batch: 64 }.whole(1, 1), 64);
        assert_eq!(Work::Yield.whole(1003, 2), 1000);
    }

    #[test]
    fn the_expected_checksums_are_the_sums_that_the_programs_build() {
        let n = 1000;
        let answers: u64 = (0..n).map(|sent| sent + 1).sum();
        assert_eq!(Work::PingPong.expected_checksum(n), answers);
        let items: u64 = (0..n).sum();
        assert_eq!(Work::Buffered { capacity: 1 }.expected_checksum(n), items);
        assert_eq!(compute(), 1);
        assert_eq!((fib(10), forks(10)), (55, 88));
        assert_eq!(Work::Fib { n: 10 }.expected_checksum(2 * 88), 2 * 55);
    }

    #[test]
    fn a_run_that_did_less_is_refused() {
        assert!(Work::Yield.verify(10, &outcome(10, 10)).is_ok());
        let fewer = Work::Yield.verify(10, &outcome(9, 9)).unwrap_err();
        assert!(fewer.contains("expected 10 operations, found 9"), "{fewer}");
        let wrong = Work::PingPong.verify(10, &outcome(10, 54)).unwrap_err();
        assert!(wrong.contains("expected checksum 55, found 54"), "{wrong}");
        let timeless = Outcome {
            elapsed_ns: 0,
            ..outcome(10, 10)
        };
        assert!(Work::Yield.verify(10, &timeless).is_err());
    }
}
