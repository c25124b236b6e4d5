//! What can be wrong with a Go trace: each fault as an error and as an anomaly.
//!
//! The kinds are those that Go's own reader distinguishes, so that a strict reader gives its verdict.

use crate::anomaly::AnomalyKind;
use crate::error::Error;

/// Something that a trace must not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    // ---- framing
    /// No batch begins with this byte.
    NotABatch(u8),
    /// The generation of a batch is 0.
    GenerationZero,
    /// A batch of generation `found` within generation `now`.
    GenerationsMixed {
        now: u64,
        found: u64,
    },
    /// A batch of another generation, and no end of this one.
    MissingEnd {
        now: u64,
        found: u64,
    },
    /// A batch is larger than allowed.
    BatchTooLarge(u64),
    /// A number of more than ten bytes or 64 bits, or one that is cut.
    BadNumber(&'static str),
    /// The file ends inside a batch, or before the end of the generation.
    Truncated(&'static str),

    // ---- tables
    NoFrequency,
    ZeroFrequency,
    TwoFrequencies,
    NoClockSnapshot,
    TwoClockSnapshots,
    /// A table holds an event that does not belong there.
    Misplaced {
        table: &'static str,
        found: u8,
    },
    StringTooLong(u64),
    StringCut,
    StackTooDeep(u64),
    DefinedTwice {
        what: &'static str,
        id: u64,
    },
    NoSuchString(u64),
    NoSuchStack(u64),

    // ---- single events
    UnknownEvent(u8),
    UntimedEvent(u8),
    BadStatus {
        of: &'static str,
        id: u64,
        status: u64,
    },
    BadId {
        what: &'static str,
        id: u64,
    },

    // ---- what an event needs
    NeedsThread,
    NeedsProc,
    NeedsGoroutine,
    NoGoroutineExpected,
    GoroutineNotRunning(u64),
    GoroutineNotInSyscall(u64),
    ProcNotRunning(u64),
    ProcNotInSyscall(u64),
    NoSuchProc(u64),
    NoSuchGoroutine(u64),
    GoroutineExists(u64),
    ProcSequence {
        expected: u64,
        found: u64,
    },

    // ---- statuses
    ProcStatus {
        p: u64,
        was: &'static str,
        now: &'static str,
    },
    GoroutineStatus {
        g: u64,
        was: &'static str,
        now: &'static str,
    },
    LateGoroutine(u64),
    SyscallWithoutThread(u64),
    SyscallOnOtherThread {
        g: u64,
        has: u64,
    },
    AbandonedProcUnheld(u64),

    // ---- stealing
    StealFromUnknownThread(u64),
    StealOfOtherProc {
        p: u64,
        m: u64,
    },

    // ---- ranges, regions, tasks
    RangeBegunTwice(&'static str),
    RangeNotBegun(&'static str),
    GcFirstTwice,
    GcNotRunning,
    GcRunning,
    RegionMisuse(u64),
    TaskBegunTwice(u64),

    // ---- order
    /// No thread's next event can come next.
    Stuck {
        waiting: usize,
    },
    /// Format until Go 1.21: what its checks found.
    Legacy(&'static str),
    /// Format until Go 1.21: times contradict the order of cause.
    TimesOutOfOrder,
}

impl Fault {
    /// How it is counted where a trace is read in spite of it.
    pub(crate) fn kind(self) -> AnomalyKind {
        use Fault as F;
        match self {
            F::NotABatch(_) | F::BatchTooLarge(_) | F::BadNumber(_) | F::UnknownEvent(_) => {
                AnomalyKind::BadRecord
            }
            F::UntimedEvent(_) | F::BadId { .. } | F::Misplaced { .. } => AnomalyKind::BadRecord,
            F::StringTooLong(_) | F::StringCut | F::StackTooDeep(_) => AnomalyKind::BadRecord,
            F::GenerationZero | F::GenerationsMixed { .. } => AnomalyKind::LateBlock,
            F::MissingEnd { .. } => AnomalyKind::UnendedGeneration,
            F::Truncated(_) => AnomalyKind::Truncated,
            F::NoFrequency | F::ZeroFrequency | F::NoClockSnapshot => AnomalyKind::MissingTable,
            F::NoSuchString(_) | F::NoSuchStack(_) => AnomalyKind::MissingTable,
            F::TwoFrequencies | F::TwoClockSnapshots | F::DefinedTwice { .. } => {
                AnomalyKind::DuplicateDefinition
            }
            F::RangeBegunTwice(_) | F::RangeNotBegun(_) | F::RegionMisuse(_) => {
                AnomalyKind::SpanMisuse
            }
            F::TaskBegunTwice(_) => AnomalyKind::SpanMisuse,
            F::Stuck { .. } => AnomalyKind::OrderForced,
            _ => AnomalyKind::StateMismatch,
        }
    }

    /// The fault as an error at `offset`.
    #[cold]
    pub(crate) fn into_error(self, offset: u64) -> Error {
        let (expected, found) = self.words();
        match self {
            Fault::Truncated(_) => Error::truncated(offset, expected, found),
            _ => Error::corrupt(offset, expected, found),
        }
    }

    /// What was expected, and what was found.
    #[cold]
    fn words(self) -> (&'static str, String) {
        use Fault as F;
        match self {
            F::NotABatch(byte) => ("a batch", format!("the byte {byte:#04x}")),
            F::GenerationZero => ("a generation number from 1", "0".into()),
            F::GenerationsMixed { now, found } => (
                "generations in order",
                format!("a batch of generation {found} inside generation {now}"),
            ),
            F::MissingEnd { now, found } => (
                "an end-of-generation event",
                format!("a batch of generation {found} inside generation {now}"),
            ),
            F::BatchTooLarge(n) => ("a batch of at most 65536 bytes", format!("{n} bytes")),
            F::BadNumber(what) => (
                "a number in base 128 of 64 bits at most",
                format!("something else for {what}"),
            ),
            F::Truncated(what) => (what, "the end of the file".into()),
            F::NoFrequency => ("a frequency event in each generation", "none".into()),
            F::ZeroFrequency => ("a frequency above 0", "0".into()),
            F::TwoFrequencies => ("one frequency event in a generation", "another one".into()),
            F::NoClockSnapshot => ("a clock snapshot in each generation", "none".into()),
            F::TwoClockSnapshots => ("one clock snapshot in a generation", "another one".into()),
            F::Misplaced { table, found } => (table, format!("an event of type {found}")),
            F::StringTooLong(n) => ("a string of at most 1024 bytes", format!("{n} bytes")),
            F::StringCut => ("a whole string", "the end of its batch".into()),
            F::StackTooDeep(n) => ("a stack of at most 128 frames", format!("{n} frames")),
            F::DefinedTwice { what, id } => (
                "an id that is defined once in a generation",
                format!("{what} {id} twice"),
            ),
            F::NoSuchString(id) => ("the id of a string of the generation", id.to_string()),
            F::NoSuchStack(id) => ("the id of a stack of the generation", id.to_string()),
            F::UnknownEvent(kind) => ("an event of a known type", format!("type {kind}")),
            F::UntimedEvent(kind) => ("an event with a time", format!("type {kind}")),
            F::BadStatus { of, id, status } => {
                ("a status that exists", format!("{status} for {of} {id}"))
            }
            F::BadId { what, id } => ("an id within its limits", format!("{what} {id}")),
            F::NeedsThread => ("a thread", "an event without one".into()),
            F::NeedsProc => ("a thread with a P", "one without".into()),
            F::NeedsGoroutine => ("a thread with a goroutine", "one without".into()),
            F::NoGoroutineExpected => ("a thread without a goroutine", "one with one".into()),
            _ => self.words_of_order(),
        }
    }

    /// [`words`](Self::words) for what only the ordering finds.
    #[cold]
    fn words_of_order(self) -> (&'static str, String) {
        use Fault as F;
        match self {
            F::GoroutineNotRunning(g) => ("a running goroutine", format!("goroutine {g} is not")),
            F::GoroutineNotInSyscall(g) => (
                "a goroutine in a system call",
                format!("goroutine {g} is not"),
            ),
            F::ProcNotRunning(p) => ("a P that is running", format!("P {p} is not")),
            F::ProcNotInSyscall(p) => ("a P in a system call", format!("P {p} is not")),
            F::NoSuchProc(p) => ("a P that is known", format!("P {p} is not")),
            F::NoSuchGoroutine(g) => ("a goroutine that is known", format!("goroutine {g} is not")),
            F::GoroutineExists(g) => ("a new goroutine", format!("{g}, which exists")),
            F::ProcSequence { expected, found } => (
                "the next sequence number of the P",
                format!("{found} instead of {expected}"),
            ),
            F::ProcStatus { p, was, now } => (
                "a status that agrees with the generation before (inconsistent status)",
                format!("P {p} was {was} and is {now}"),
            ),
            F::GoroutineStatus { g, was, now } => (
                "a status that agrees with the generation before (inconsistent status)",
                format!("goroutine {g} was {was} and is {now}"),
            ),
            F::LateGoroutine(g) => (
                "statuses of known goroutines after the first generation",
                format!("one of goroutine {g}"),
            ),
            F::SyscallWithoutThread(g) => (
                "a goroutine in a system call on a thread",
                format!("goroutine {g} without one"),
            ),
            F::SyscallOnOtherThread { g, has } => (
                "the thread of the goroutine in a system call (inconsistent thread)",
                format!("goroutine {g} on a thread that has goroutine {has}"),
            ),
            F::AbandonedProcUnheld(p) => (
                "a thread that holds the P that is about to be stolen",
                format!("none for P {p}"),
            ),
            F::StealFromUnknownThread(m) => ("a P stolen of a known thread", format!("thread {m}")),
            F::StealOfOtherProc { p, m } => (
                "the P of the thread it is stolen of",
                format!("P {p} and thread {m}"),
            ),
            F::RangeBegunTwice(name) => (
                "a range that is not yet in flight",
                format!("another beginning of {name}"),
            ),
            F::RangeNotBegun(name) => (
                "a range that is in flight (not in-flight)",
                format!("no beginning of {name}"),
            ),
            F::GcFirstTwice => ("the first event of the collector", "one before it".into()),
            F::GcNotRunning => ("a collection in progress", "none".into()),
            F::GcRunning => ("no collection in progress", "one".into()),
            F::RegionMisuse(g) => (
                "the end of the innermost region (misuse of region)",
                format!("another region in goroutine {g}"),
            ),
            F::TaskBegunTwice(id) => ("a task that has not begun", format!("task {id} again")),
            F::Stuck { waiting } => (
                "a thread whose next event can come next",
                format!("{waiting} threads that all wait for an event that is not there"),
            ),
            F::Legacy(what) => ("a consistent trace", what.into()),
            F::TimesOutOfOrder => ("time stamps in the order of cause", "others".into()),
            _ => ("a sound trace", format!("{self:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_what_was_expected_and_found() {
        let fault = Fault::GoroutineStatus {
            g: 7,
            was: "Running",
            now: "Waiting",
        };
        let text = fault.into_error(33).to_string();
        assert!(
            text.contains("goroutine 7") && text.contains("byte 33"),
            "{text}"
        );
        assert!(
            Fault::Truncated("a whole batch")
                .into_error(1)
                .is_truncated()
        );
        assert!(Fault::NoFrequency.into_error(1).is_corrupt());
        assert_eq!(Fault::RegionMisuse(3).kind(), AnomalyKind::SpanMisuse);
    }
}
