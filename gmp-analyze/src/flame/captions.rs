//! What is drawn and what stands above it.

use super::names::Namer;
use super::tree::{By, Tree};
use crate::analysis::stacks::{StackKind, Stacks};
use crate::units;
use gmp_trace::tables::Tables;
use gmp_trace::time::Nanos;

/// The stacks of one trace.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where the trace comes from.
    pub source: String,
    /// What its stacks refer to.
    pub tables: Tables,
    /// Its stacks.
    pub stacks: Stacks,
    /// From its first event to its last.
    pub span: Nanos,
    /// True for the trace that others are compared with.
    pub compared_with: bool,
}

impl Part {
    /// Adds the stacks to `tree`.
    pub fn add_to(&self, tree: &mut Tree, weighed: Weighed) {
        Namer::new(&self.tables, self.compared_with).add(tree, &self.stacks, weighed.samples);
    }
}

/// What widths are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weighed {
    /// Time, or how often.
    pub by: By,
    /// True for samples of the CPU profiler in place of spans.
    pub samples: bool,
}

/// What widths are where `by` was asked for: samples count where every trace has some and time was
/// not asked for.
pub fn weighed(parts: &[Part], by: Option<By>) -> Weighed {
    let samples = by != Some(By::Time)
        && !parts.is_empty()
        && parts.iter().all(|part| !part.stacks.samples.is_empty());
    let by = by.unwrap_or(if samples { By::Count } else { By::Time });
    Weighed { by, samples }
}

impl Weighed {
    /// What is drawn, in words.
    pub fn what(self, kind: StackKind) -> &'static str {
        match (kind, self.by) {
            (StackKind::Wall, By::Time) => "time of goroutines",
            (StackKind::Wall, By::Count) => "spans of goroutines",
            (StackKind::Cpu, By::Count) if self.samples => "CPU samples",
            (StackKind::Cpu | StackKind::Create, By::Time) => "running time of goroutines",
            (StackKind::Cpu | StackKind::Create, By::Count) => "runs of goroutines",
            (StackKind::Block, By::Time) => "waiting time of goroutines",
            (StackKind::Block, By::Count) => "waits of goroutines",
            (StackKind::Sched, By::Time) => "time of runnable goroutines",
            (StackKind::Sched, By::Count) => "waits for a P",
            (StackKind::Syscall, By::Time) => "time in system calls",
            (StackKind::Syscall, By::Count) => "system calls",
        }
    }

    /// What a count counts, in the plural.
    fn counted(self, kind: StackKind) -> &'static str {
        match kind {
            StackKind::Wall => "spans",
            StackKind::Cpu if self.samples => "samples",
            StackKind::Cpu | StackKind::Create => "runs",
            StackKind::Block | StackKind::Sched => "waits",
            StackKind::Syscall => "calls",
        }
    }
}

/// What stands above the frames.
#[derive(Clone, Debug, Default)]
pub struct Captions {
    /// The title.
    pub title: String,
    /// The line under it.
    pub subtitle: String,
    /// What a count counts, in the plural.
    pub counted: &'static str,
}

impl Captions {
    /// What stands above `tree`, which has the stacks of `parts`.
    pub fn new(parts: &[Part], tree: &Tree, kind: StackKind, weighed: Weighed) -> Captions {
        let frames = match kind {
            StackKind::Wall => "by start function, state, reason and place",
            StackKind::Cpu if weighed.samples => "by start function and stack",
            StackKind::Cpu => "by start function and what ended the run",
            StackKind::Block => "by reason, start function and place",
            StackKind::Sched => "by start function and cause",
            StackKind::Syscall => "by start function and place",
            StackKind::Create => "by who made them",
        };
        let mut title = weighed.what(kind).to_owned();
        // Letters of ASCII all of them.
        title[..1].make_ascii_uppercase();
        let amount = |weight: u64| match weighed.by {
            By::Time => {
                let time = Nanos(i64::try_from(weight).unwrap_or(i64::MAX));
                format!("{} of all goroutines together", units::duration(time))
            }
            By::Count => format!("{} {}", units::count(weight), weighed.counted(kind)),
        };
        let [new, old] = tree.totals(weighed.by);
        let of_side = |compared_with: bool, total: u64| {
            let of_side = parts
                .iter()
                .filter(|part| part.compared_with == compared_with);
            let sources: Vec<String> = of_side
                .map(|part| format!("{} of {}", units::duration(part.span), part.source))
                .collect();
            format!("{} in {}", amount(total), sources.join(", "))
        };
        let mut subtitle = of_side(false, new);
        if parts.iter().any(|part| part.compared_with) {
            title.push_str(", compared");
            subtitle.push_str(" · before: ");
            subtitle.push_str(&of_side(true, old));
        }
        Captions {
            title: format!("{title}, {frames}"),
            subtitle,
            counted: weighed.counted(kind),
        }
    }
}
