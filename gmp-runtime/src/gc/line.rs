//! The line of `GMPDEBUG=gctrace=1`: in the order of Go's, with what has a meaning here.

use std::fmt;

use crate::stack::release::Released;

/// One cycle.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) cycle: u64,
    pub(super) since_start_ns: u64,
    /// Processor time of all cycles.
    pub(super) all_cpu_ns: u64,
    pub(super) elapsed_ns: u64,
    pub(super) cpu_ns: u64,
    /// Bytes of stacks.
    pub(super) before: u64,
    pub(super) after: u64,
    pub(super) goal: Option<u64>,
    pub(super) released: Released,
    /// Bytes that registered collectors gave back.
    pub(super) collected: u64,
    pub(super) procs: u32,
    /// By a call of the program.
    pub(super) called: bool,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since_ms = self.since_start_ns / 1_000_000;
        let available = u128::from(self.since_start_ns.max(1)) * u128::from(self.procs);
        write!(
            f,
            "gc {} @{}.{:03}s {}%: {} ms clock, {} ms cpu, {}->{} MB, ",
            self.cycle,
            since_ms / 1000,
            since_ms % 1000,
            u128::from(self.all_cpu_ns) * 100 / available,
            Ms(self.elapsed_ns),
            Ms(self.cpu_ns),
            self.before >> 20,
            self.after >> 20,
        )?;
        if let Some(goal) = self.goal {
            write!(f, "{} MB goal, ", goal >> 20)?;
        }
        if self.collected > 0 {
            write!(f, "{} MB collected, ", self.collected >> 20)?;
        }
        write!(
            f,
            "{} pages, {} stacks, {} P",
            self.released.pages, self.released.stacks, self.procs
        )?;
        if self.called {
            f.write_str(" (forced)")?;
        }
        Ok(())
    }
}

/// Nanoseconds as milliseconds with two digits that count, as Go prints them.
struct Ms(u64);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0 / 1000;
        match us {
            10_000.. => write!(f, "{}", us / 1000),
            1_000.. => write!(f, "{}.{}", us / 1000, us % 1000 / 100),
            100.. => write!(f, "0.{:02}", us / 10),
            _ => write!(f, "0.{us:03}"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_digits_that_count() {
        let shown = [0, 1_000, 26_999, 390_000, 1_340_000, 12_900_000].map(|ns| Ms(ns).to_string());
        assert_eq!(shown, ["0.000", "0.001", "0.026", "0.39", "1.3", "12"]);
    }

    #[test]
    fn a_line_is_in_gos_order() {
        let mut line = Line {
            cycle: 3,
            since_start_ns: 12_345_678_000,
            all_cpu_ns: 700_000_000,
            elapsed_ns: 41_000_000,
            cpu_ns: 1_500_000,
            before: 6400 << 20,
            after: 412 << 20,
            goal: Some(824 << 20),
            released: Released {
                pages: 1_638_400,
                stacks: 100_000,
            },
            collected: 0,
            procs: 2,
            called: true,
        };
        assert_eq!(
            line.to_string(),
            "gc 3 @12.345s 2%: 41 ms clock, 1.5 ms cpu, 6400->412 MB, 824 MB goal, 1638400 pages, \
             100000 stacks, 2 P (forced)"
        );
        line.goal = None;
        line.collected = 5 << 20;
        line.called = false;
        assert!(
            line.to_string()
                .ends_with("6400->412 MB, 5 MB collected, 1638400 pages, 100000 stacks, 2 P")
        );
    }
}
