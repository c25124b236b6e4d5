//! What was wrong with a trace that could be read all the same: counted by kind, never silent.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::Error;

/// How much an anomaly matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know; nothing is missing.
    Info,
    /// Something is not there; what is there is right.
    DataLoss,
    /// Something is damaged, or contradicts something else.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Info => "info",
            Severity::DataLoss => "data loss",
            Severity::Error => "error",
        })
    }
}

macro_rules! anomaly_kinds {
    ($($(#[$doc:meta])* $kind:ident $severity:ident $unit:literal $sentence:literal;)*) => {
        /// What kind of thing was wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum AnomalyKind {
            $(#[doc = $sentence] $(#[$doc])* $kind,)*
        }

        impl AnomalyKind {
            /// Every kind.
            pub const ALL: &'static [AnomalyKind] = &[$(AnomalyKind::$kind),*];

            /// How much it matters.
            pub const fn severity(self) -> Severity {
                match self { $(AnomalyKind::$kind => Severity::$severity,)* }
            }

            /// What [`Anomaly::amount`] counts; empty where it means nothing.
            pub const fn unit(self) -> &'static str {
                match self { $(AnomalyKind::$kind => $unit,)* }
            }

            /// One sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(AnomalyKind::$kind => $sentence,)* }
            }
        }
    };
}

anomaly_kinds! {
    DamagedHeader Error "" "One of the two copies of the file header is damaged; the other one was used.";
    Truncated DataLoss "bytes missing" "The file ends inside a block; events up to the last whole one were read.";
    UnsealedBlock Info "" "A block was never closed (the process was killed); events up to the last whole one were read.";
    UncheckedBlock Info "" "A block has no checksum, so damage to it would not show.";
    BadChecksum Error "events" "The checksum of a block is wrong; its events are missing.";
    BadRecord Error "bytes" "A record cannot be decoded; the rest of its block is missing.";
    UnknownKind Info "" "A record of a newer version or an experiment was kept without being understood.";
    MissingBlock DataLoss "blocks" "Blocks of a thread are missing.";
    LateBlock DataLoss "events" "A block came after its generation was over; its events are missing.";
    Resynchronized Error "bytes skipped" "What should be a block is not; bytes up to the next block were skipped.";
    LostEvents DataLoss "events" "The recorder had no room for events.";
    UnendedGeneration DataLoss "" "A generation has no end: blocks of it may be missing.";
    NotFinished DataLoss "" "The trace was not finished: the process was killed, or still records.";
    OrderForced Error "" "An event that should come first is missing; the order was forced.";
    ClockSkew Info "ns at most" "The clocks of two threads disagree: time went back.";
    ClockRate Info "" "The clock of the trace does not run as fast as the monotonic one: durations are off by as much.";
    StateMismatch Error "" "An event contradicts what was known of its goroutine, P or M.";
    MissingTable Error "" "An event names a string, site or stack that is not defined.";
    DuplicateDefinition Error "" "Something was defined twice; the first definition counts.";
    SpanMisuse Error "" "A region, range or task began twice, or ended without being the innermost; both are kept.";
    NewerVersion Info "" "The format is newer than this reader, which reads it as the newest that it knows.";
    UnknownExperiment Info "bytes" "Data of an experiment that this reader does not know was skipped.";
    CountMismatch Error "" "The counts at the end of a block, a generation or the trace differ from what was read.";
}

/// All anomalies of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// What.
    pub kind: AnomalyKind,
    /// How often.
    pub count: u64,
    /// How much in all (at most, where the unit says so), in [`AnomalyKind::unit`].
    pub amount: u64,
    /// Where the first one was, in bytes from the start of the file.
    pub first_offset: u64,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} {} time",
            self.kind.severity(),
            self.kind.sentence(),
            self.count
        )?;
        if self.count != 1 {
            f.write_str("s")?;
        }
        if !self.kind.unit().is_empty() {
            write!(f, ", {} {}", self.amount, self.kind.unit())?;
        }
        write!(f, ", first at byte {}", self.first_offset)
    }
}

/// The anomalies of a trace so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    by_kind: BTreeMap<AnomalyKind, Anomaly>,
    /// The first anomaly of severity error; kept for a strict reader.
    first_error: Option<(AnomalyKind, u64)>,
}

impl Anomalies {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    /// How often `kind` was met.
    pub fn count(&self, kind: AnomalyKind) -> u64 {
        self.get(kind).map_or(0, |a| a.count)
    }

    /// All of `kind`, if there are any.
    pub fn get(&self, kind: AnomalyKind) -> Option<&Anomaly> {
        self.by_kind.get(&kind)
    }

    /// All of them, one item a kind.
    pub fn iter(&self) -> impl Iterator<Item = &Anomaly> {
        self.by_kind.values()
    }

    /// The highest severity that was met.
    pub fn worst(&self) -> Option<Severity> {
        self.iter().map(|a| a.kind.severity()).max()
    }

    /// Counts one of `kind`, met at `offset`; `amount` is in the kind's unit.
    #[cold]
    #[inline(never)]
    pub(crate) fn add(&mut self, kind: AnomalyKind, offset: u64, amount: u64) {
        let of_kind = self.by_kind.entry(kind).or_insert(Anomaly {
            kind,
            count: 0,
            amount: 0,
            first_offset: offset,
        });
        of_kind.count += 1;
        of_kind.amount = if kind == AnomalyKind::ClockSkew {
            of_kind.amount.max(amount)
        } else {
            of_kind.amount.saturating_add(amount)
        };
        if kind.severity() == Severity::Error && self.first_error.is_none() {
            self.first_error = Some((kind, offset));
        }
    }

    /// The first anomaly of severity error as an error.
    pub(crate) fn as_error(&self) -> Option<Error> {
        let (kind, offset) = self.first_error?;
        Some(Error::corrupt(
            offset,
            "an undamaged trace",
            format_args!("this: {}", kind.sentence()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anomalies_are_counted_with_their_first_place() {
        let mut anomalies = Anomalies::default();
        assert!(anomalies.is_empty() && anomalies.as_error().is_none());
        anomalies.add(AnomalyKind::ClockSkew, 10, 500);
        anomalies.add(AnomalyKind::ClockSkew, 20, 300);
        assert_eq!(
            anomalies
                .get(AnomalyKind::ClockSkew)
                .map(|a| (a.count, a.amount)),
            Some((2, 500))
        );
        assert_eq!(anomalies.worst(), Some(Severity::Info));
        assert!(anomalies.as_error().is_none());
        anomalies.add(AnomalyKind::Resynchronized, 30, 7);
        anomalies.add(AnomalyKind::Resynchronized, 90, 7);
        let line = anomalies
            .get(AnomalyKind::Resynchronized)
            .map(ToString::to_string);
        assert_eq!(
            line.as_deref(),
            Some(
                "error: What should be a block is not; bytes up to the next block were skipped. \
                 2 times, 14 bytes skipped, first at byte 30"
            )
        );
        assert!(
            anomalies
                .as_error()
                .is_some_and(|e| e.is_corrupt() && e.offset() == 30)
        );
    }

    #[test]
    fn every_kind_has_its_sentence() {
        assert!(AnomalyKind::ALL.len() > 15);
        for kind in AnomalyKind::ALL {
            assert!(kind.sentence().ends_with('.'), "{kind:?}");
        }
    }
}
