//! What is wrong with a trace or could not be told from it: counted by kind, with a severity, where
//! it was first seen, and a sentence that says what it means.

use gmp_trace::Event;
use gmp_trace::time::Nanos;

/// How much an anomaly harms the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; the answers are right.
    Info,
    /// Something is missing; the answers are right about the rest.
    DataLoss,
    /// Something contradicts itself; the answers may be wrong.
    Error,
}

impl Severity {
    /// The severity in words.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::DataLoss => "data loss",
            Severity::Error => "error",
        }
    }
}

/// Who saw an anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The reader, in the bytes and the order of events.
    Trace,
    /// The state machine, in the meaning of events.
    Analysis,
}

impl Source {
    /// The source in words.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Trace => "trace",
            Source::Analysis => "analysis",
        }
    }
}

/// Where an anomaly was first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Nowhere in particular.
    Nowhere,
    /// At this byte of the trace.
    Offset(u64),
    /// At the event with this position in the order of cause, at this time.
    Event(u64, Nanos),
}

/// One kind of anomaly, counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Anomaly {
    /// The kind, as a short name with hyphens.
    pub kind: String,
    /// Who saw it.
    pub source: Source,
    /// How much it harms.
    pub severity: Severity,
    /// How often.
    pub count: u64,
    /// Where first.
    pub first: First,
    /// One sentence: what it means.
    pub meaning: String,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $severity:ident, $meaning:literal;)*) => {
        /// What the state machine counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $variant,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant),*];

            /// The kind as a short name with hyphens.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$variant => $name,)*
                }
            }

            /// How much it harms.
            pub const fn severity(self) -> Severity {
                match self {
                    $(Kind::$variant => Severity::$severity,)*
                }
            }

            /// What it means, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Kind::$variant => $meaning,)*
                }
            }
        }
    };
}

kinds! {
    /// A goroutine or P was met without a status.
    StateNotGiven = "state-not-given", Info,
        "A goroutine or P is met in the middle of its life; what it did before is shown as unknown.";
    /// A goroutine's event does not fit the state that its earlier events left.
    GoroutineSequence = "goroutine-sequence", DataLoss,
        "An event does not fit the goroutine's state, so events between are missing; the time since its last event is shown as unknown.";
    /// A P's event does not fit the state that its earlier events left.
    ProcSequence = "p-sequence", DataLoss,
        "An event does not fit the P's state, so events between are missing; the time since its last event is shown as unknown.";
    /// A goroutine was created twice.
    MadeTwice = "made-twice", DataLoss,
        "A goroutine is created while one of the same number lives, so its end is missing.";
    /// An event lacks the goroutine or P that it is about.
    Incomplete = "incomplete-event", DataLoss,
        "An event does not say which goroutine it is about, and is counted only.";
    /// A goroutine, P or thread whose next event is earlier than its last.
    TimeWentBack = "time-went-back", Info,
        "Clocks of threads disagree; the later event counts as at the time of the earlier, so no duration is negative.";
    /// A time that no trace can have.
    AbsurdTime = "absurd-time", DataLoss,
        "An event's time is more than 73 years from the begin of the trace; it counts as that far.";
    /// States do not sum to the life.
    PartitionBroken = "partition-broken", Error,
        "The states of a goroutine, P or thread do not sum to its life: an error of the analyzer, please report it.";
}

/// Counts of the state machine's anomalies.
#[derive(Clone, Debug)]
pub struct Counts {
    of: Vec<(u64, First)>,
    largest_step_back: Nanos,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            of: vec![(0, First::Nowhere); Kind::ALL.len()],
            largest_step_back: Nanos::ZERO,
        }
    }
}

impl Counts {
    /// One more of `kind`, seen at `event` (or at the end of the trace).
    #[cold]
    pub(crate) fn add(&mut self, kind: Kind, event: Option<&Event>) {
        let (count, first) = &mut self.of[kind as usize];
        if *count == 0
            && let Some(event) = event
        {
            *first = First::Event(event.order, event.time);
        }
        *count += 1;
    }

    /// Time went back by `step` at `event`.
    #[cold]
    pub(crate) fn add_step_back(&mut self, step: Nanos, event: &Event) {
        self.add(Kind::TimeWentBack, Some(event));
        self.largest_step_back = self.largest_step_back.max(step);
    }

    /// How often `kind` was seen.
    pub fn count(&self, kind: Kind) -> u64 {
        self.of[kind as usize].0
    }

    /// The largest step that time took back, within one goroutine, P or thread.
    pub fn largest_step_back(&self) -> Nanos {
        self.largest_step_back
    }

    /// Those that were seen, as anomalies of the analysis.
    pub fn to_anomalies(&self) -> Vec<Anomaly> {
        let mut anomalies = Vec::new();
        for (&kind, &(count, first)) in Kind::ALL.iter().zip(&self.of) {
            if count == 0 {
                continue;
            }
            let meaning = if kind == Kind::TimeWentBack {
                let step = crate::units::duration(self.largest_step_back);
                format!("{} (At most {step}.)", kind.meaning())
            } else {
                kind.meaning().to_owned()
            };
            anomalies.push(Anomaly {
                kind: kind.name().to_owned(),
                source: Source::Analysis,
                severity: kind.severity(),
                count,
                first,
                meaning,
            });
        }
        anomalies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_of_their_own_and_are_in_the_order_of_their_numbers() {
        let mut names = std::collections::HashSet::new();
        for (number, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number);
            assert!(names.insert(kind.name()), "{} twice", kind.name());
            assert!(!kind.meaning().is_empty());
        }
        assert!(names.len() > 5);
    }

    #[test]
    fn only_what_was_seen_is_listed() {
        let mut counts = Counts::default();
        assert!(counts.to_anomalies().is_empty());
        counts.add(Kind::MadeTwice, None);
        counts.add(Kind::MadeTwice, None);
        let anomalies = counts.to_anomalies();
        assert_eq!(anomalies.len(), 1);
        assert_eq!(
            (anomalies[0].kind.as_str(), anomalies[0].count),
            ("made-twice", 2)
        );
    }
}
