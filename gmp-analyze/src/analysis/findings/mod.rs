//! Findings: what stands out in a report, with numbers, times and where to look next.
//!
//! A rule looks at a finished report and gives findings. [`RULES`] is the registry: a new rule is a
//! file and a line there. Thresholds are constants with their reasons.

mod blocked;
mod overhead;
mod parallelism;
mod runs;
mod trace;

use super::report::Report;
use gmp_trace::time::Nanos;

/// How urgent a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Urgency {
    /// Something is broken.
    Problem,
    /// Time is wasted, or the numbers below need care.
    Warning,
    /// Worth knowing.
    Note,
}

impl Urgency {
    /// The urgency in words.
    pub const fn name(self) -> &'static str {
        match self {
            Urgency::Problem => "problem",
            Urgency::Warning => "warning",
            Urgency::Note => "note",
        }
    }
}

/// One figure of a finding.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// How long.
    Duration(Nanos),
    /// When, from the begin of the trace.
    Time(Nanos),
    /// How many.
    Count(u64),
    /// What part of one.
    Share(f64),
    /// A mean number of things.
    Mean(f64),
    /// What, in words.
    Text(String),
}

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// What the figure is.
    pub name: &'static str,
    /// The figure.
    pub value: Value,
}

impl Evidence {
    fn new(name: &'static str, value: Value) -> Evidence {
        Evidence { name, value }
    }
}

/// Something that stands out.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The name of the rule.
    pub rule: &'static str,
    /// How urgent it is.
    pub urgency: Urgency,
    /// What was found: one sentence with the numbers that matter.
    pub summary: String,
    /// The figures.
    pub evidence: Vec<Evidence>,
    /// What to look at next.
    pub next: String,
}

/// Looks for one thing.
pub trait Rule: Sync {
    /// The rule's name, as `--deny` takes it.
    fn name(&self) -> &'static str;

    /// What it looks for, in a sentence.
    fn about(&self) -> &'static str;

    /// What it finds.
    fn check(&self, report: &Report) -> Vec<Finding>;
}

/// Every rule.
pub const RULES: &[&dyn Rule] = &[
    &blocked::Deadlock,
    &blocked::BlockedForever,
    &parallelism::IdleWhileRunnable,
    &parallelism::LowParallelism,
    &parallelism::Imbalance,
    &overhead::SchedulerOverhead,
    &runs::LongRun,
    &trace::Empty,
    &trace::LostEvents,
    &trace::Unfinished,
    &trace::ClockSkew,
    &trace::ClockRate,
];

/// What all rules find, the most urgent first.
pub fn all(report: &Report) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule.check(report)).collect();
    findings.sort_by_key(|finding| finding.urgency);
    findings
}

/// A time as findings tell it: from the begin of the trace.
fn since_begin(report: &Report, time: Nanos) -> Nanos {
    time.since(report.summary.begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_names_of_their_own_that_an_option_can_take() {
        let mut names = std::collections::HashSet::new();
        for rule in RULES {
            assert!(names.insert(rule.name()), "{} twice", rule.name());
            assert!(
                rule.name()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'-')
            );
            assert!(!rule.about().is_empty());
        }
        assert!(names.len() >= 8);
    }
}
