//! When a cycle is due: the memory of stacks has grown, or two minutes have passed.

use crate::sys::memory;

/// The name of the environment variable.
const VARIABLE: &str = "GMPGC";

/// Growth in percent at which a cycle begins, unless the environment says otherwise.
const DEFAULT_PERCENT: u32 = 100;

/// Whether cycles begin by themselves, unless the environment says so. Not in unit tests: some of them count the
/// stacks of the process.
const BY_THEMSELVES: bool = !cfg!(test);

/// With a growth of 100 percent no cycle begins before stacks have this many bytes (Go: the same, of its heap).
const SMALLEST_GOAL: u64 = 4 << 20;

/// After this time without a cycle one begins (Go: `forcegcperiod`). Short in unit tests.
const PERIOD_NS: u64 = if cfg!(test) {
    50_000_000
} else {
    120_000_000_000
};

/// How often the memory of the process is looked at.
pub(super) const LOOK_NS: u64 = if cfg!(test) { 5_000_000 } else { 100_000_000 };

/// The same if the Ps had fewer turns than [`FEW_TURNS`] since the last look.
pub(super) const LONG_LOOK_NS: u64 = 10 * LOOK_NS;

/// So few turns hardly need memory, and a look costs as much as they do.
pub(super) const FEW_TURNS: u32 = 32;

/// By how much stacks may grow before a cycle: `None` for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Goal {
    percent: Option<u32>,
}

impl Default for Goal {
    fn default() -> Goal {
        Goal {
            percent: BY_THEMSELVES.then_some(DEFAULT_PERCENT),
        }
    }
}

impl Goal {
    /// Whether cycles begin by themselves.
    pub(super) fn is_set(self) -> bool {
        self.percent.is_some()
    }

    /// The bytes of stacks at which a cycle begins, after one that left `live` of them.
    pub(super) fn after(self, live: u64) -> Option<u64> {
        let percent = u64::from(self.percent?);
        let part = |bytes: u64| (u128::from(bytes) * u128::from(percent) / 100) as u64;
        Some(live.saturating_add(part(live)).max(part(SMALLEST_GOAL)))
    }
}

/// What `GMPGC` says, and a warning line when that is neither a percentage nor `off`.
pub(crate) fn from_environment() -> (Goal, Option<String>) {
    let value = std::env::var_os(VARIABLE);
    parse(
        value
            .as_deref()
            .map(|value| value.to_string_lossy())
            .as_deref(),
    )
}

fn parse(value: Option<&str>) -> (Goal, Option<String>) {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return (Goal::default(), None);
    };
    if value == "off" {
        return (Goal { percent: None }, None);
    }
    // An unusual spelling (a sign, spaces) is more likely a mistake than a wish.
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    match value.parse() {
        Ok(percent) if digits => (
            Goal {
                percent: Some(percent),
            },
            None,
        ),
        _ => {
            let shown: String = value.chars().take(60).collect();
            let warning = format!(
                "warning: {VARIABLE}: {shown:?} is neither a number of percent from 0 to {} nor off; using \
                 {DEFAULT_PERCENT}",
                u32::MAX
            );
            (Goal::default(), Some(warning))
        }
    }
}

/// Why a cycle begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Somebody called `gc`.
    Called,
    /// The memory of stacks has grown.
    Growth,
    /// No cycle for two minutes.
    Period,
}

/// What the thread of the cycles remembers between two of them.
#[derive(Debug)]
pub(super) struct Pace {
    goal: Goal,
    /// Bytes of stacks at which a cycle begins.
    due_at: Option<u64>,
    /// Bytes of stacks, and of the whole process, when the former were last counted.
    stacks: u64,
    process: u64,
    /// When the last cycle ended.
    last_end: u64,
}

impl Pace {
    pub(super) fn new(goal: Goal, now: u64) -> Pace {
        Pace {
            goal,
            due_at: goal.after(0),
            stacks: 0,
            process: process_bytes(),
            last_end: now,
        }
    }

    /// Whether a cycle is due; `stack_bytes` counts those of all stacks, and is called when they can have grown
    /// enough, because all memory of the process has.
    pub(super) fn due(&mut self, now: u64, stack_bytes: impl FnOnce() -> u64) -> Option<Cause> {
        let due_at = self.due_at?;
        if now >= self.last_end + PERIOD_NS {
            return Some(Cause::Period);
        }
        let process = process_bytes();
        if process.saturating_sub(self.process) < due_at.saturating_sub(self.stacks) {
            return None;
        }
        self.stacks = stack_bytes();
        self.process = process;
        (self.stacks >= due_at).then_some(Cause::Growth)
    }

    /// A cycle ended that left `live` bytes of stacks; the size at which the next one begins.
    pub(super) fn ended(&mut self, now: u64, live: u64) -> Option<u64> {
        self.due_at = self.goal.after(live);
        self.stacks = live;
        self.process = process_bytes();
        self.last_end = now;
        self.due_at
    }
}

/// Bytes of the process in memory; 0 where the kernel does not say, and then growth is not noticed.
fn process_bytes() -> u64 {
    memory::resident_bytes().unwrap_or(0) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn percent(value: &str) -> Option<Option<u32>> {
        match parse(Some(value)) {
            (goal, None) => Some(goal.percent),
            (goal, Some(warning)) => {
                assert_eq!(goal, Goal::default());
                assert!(
                    warning.contains("GMPGC") && warning.contains("off"),
                    "{warning}"
                );
                None
            }
        }
    }

    #[test]
    fn a_percentage_or_off_is_taken_and_nothing_else() {
        assert_eq!(parse(None), (Goal::default(), None));
        assert_eq!(percent(""), Some(Goal::default().percent));
        assert_eq!(percent("100"), Some(Some(100)));
        assert_eq!(percent("off"), Some(None));
        assert_eq!(percent("50"), Some(Some(50)));
        assert_eq!(percent("0"), Some(Some(0)));
        for wrong in ["-1", "+5", "5%", "OFF", " 50", "1e3", "99999999999"] {
            assert_eq!(percent(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_goal_follows_what_the_last_cycle_left() {
        let goal = |percent| Goal {
            percent: Some(percent),
        };
        assert_eq!(goal(100).after(0), Some(4 << 20));
        assert_eq!(goal(100).after(10 << 20), Some(20 << 20));
        assert_eq!(goal(50).after(10 << 20), Some(15 << 20));
        assert_eq!(goal(200).after(1 << 20), Some(8 << 20));
        assert_eq!(goal(0).after(5), Some(5));
        assert_eq!(goal(u32::MAX).after(u64::MAX), Some(u64::MAX));
        assert_eq!(Goal { percent: None }.after(10 << 20), None);
    }

    #[test]
    fn stacks_are_counted_only_when_they_can_have_grown_enough() {
        let mut pace = Pace::new(
            Goal {
                percent: Some(DEFAULT_PERCENT),
            },
            0,
        );
        // More than this process has.
        pace.ended(0, 1 << 50);
        assert_eq!(pace.due(1, || panic!("the process has not grown")), None);
        // The process has grown by more than that since.
        pace.ended(0, 8 << 20);
        pace.process = 0;
        pace.stacks = 16 << 20;
        assert_eq!(pace.due(1, || (16 << 20) - 1), None);
        pace.process = 0;
        assert_eq!(pace.due(1, || 16 << 20), Some(Cause::Growth));
        assert_eq!(pace.due(PERIOD_NS, || 0), Some(Cause::Period));
        let mut off = Pace::new(Goal { percent: None }, 0);
        assert_eq!(off.due(PERIOD_NS, || 1 << 50), None);
    }
}
