//! How many Ps there are: `GMPMAXPROCS`, else the processors that the process may use, and no more than its
//! control group gives it time for.

mod cgroup;

use std::ffi::OsStr;
use std::path::PathBuf;

/// The name of the environment variable.
pub(crate) const VARIABLE: &str = "GMPMAXPROCS";

/// More Ps than this are never made: each costs a queue, and nobody has so many processors.
pub(crate) const MAX_PROCS: usize = 4096;

/// How many Ps to start with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Initial {
    pub(crate) count: usize,
    /// Whether the variable says so, and not the system.
    pub(crate) is_wish: bool,
    /// A line when the variable is set to something else than a number from 1 to [`MAX_PROCS`].
    pub(crate) warning: Option<String>,
}

/// How many Ps to start with, by the variable and what the system has to `offer`.
pub(crate) fn initial_count(offer: &Offer) -> Initial {
    choose(std::env::var_os(VARIABLE).as_deref(), offer.count())
}

/// What the system offers to the process.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    /// The processors that it may use.
    processors: fn() -> usize,
    /// Where the files of its control group are found: `/`, but for tests.
    root: PathBuf,
}

impl Default for Offer {
    fn default() -> Offer {
        Offer {
            processors: available,
            root: PathBuf::from("/"),
        }
    }
}

impl Offer {
    /// One of a test.
    #[cfg(test)]
    pub(crate) fn of(processors: fn() -> usize, root: PathBuf) -> Offer {
        Offer { processors, root }
    }

    /// How many Ps it is good for (Go 1.25's rule): as many as processors, but no more than the quota of the control
    /// group is worth.
    pub(crate) fn count(&self) -> usize {
        let processors = (self.processors)();
        match cgroup::quota(&self.root) {
            Some(quota) => processors.min(quota.procs()),
            None => processors,
        }
    }
}

/// The processors that the process may use, at least 1: those of its affinity.
pub(crate) fn available() -> usize {
    // Where the kernel refuses to say, std's own guess stands (which also knows about cgroups).
    crate::sys::thread::available_cpus()
        .or_else(|_| std::thread::available_parallelism().map(usize::from))
        .unwrap_or(1)
        .clamp(1, MAX_PROCS)
}

/// The count for a value of the variable and what there is without one.
fn choose(value: Option<&OsStr>, offered: usize) -> Initial {
    let initial = |count, is_wish, warning| Initial {
        count,
        is_wish,
        warning,
    };
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return initial(offered, false, None);
    };
    // An unusual spelling (a sign, spaces) is more likely a mistake than a wish.
    let wanted = value
        .to_str()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse::<usize>().ok());
    match wanted {
        Some(wanted) if (1..=MAX_PROCS).contains(&wanted) => initial(wanted, true, None),
        _ => {
            let shown: String = value.to_string_lossy().chars().take(60).collect();
            let warning = format!(
                "warning: {VARIABLE}: {shown:?} is not a number from 1 to {MAX_PROCS}; \
                 using {offered}, for the processors available"
            );
            initial(offered, false, Some(warning))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_wish_all_processors_are_used() {
        for unset in [None, Some(OsStr::new(""))] {
            let initial = choose(unset, 6);
            assert_eq!(
                (initial.count, initial.is_wish, initial.warning),
                (6, false, None)
            );
        }
        assert!((1..=MAX_PROCS).contains(&available()));
        assert!((1..=available()).contains(&Offer::default().count()));
    }

    #[test]
    fn a_number_is_taken_whatever_the_machine_has() {
        for wanted in [1, 2, 64, MAX_PROCS] {
            let initial = choose(Some(OsStr::new(&wanted.to_string())), 6);
            assert_eq!(
                (initial.count, initial.is_wish, initial.warning),
                (wanted, true, None)
            );
        }
    }

    #[test]
    fn anything_else_is_one_warning_and_the_default() {
        let mut checked = 0;
        for bad in [
            "0",
            "-1",
            "+2",
            " 2",
            "two",
            "4097",
            "99999999999999999999",
            "2,3",
        ] {
            let initial = choose(Some(OsStr::new(bad)), 6);
            assert_eq!((initial.count, initial.is_wish), (6, false), "{bad:?}");
            assert_eq!(
                initial.warning.unwrap(),
                format!(
                    "warning: GMPMAXPROCS: {bad:?} is not a number from 1 to 4096; using 6, for \
                     the processors available"
                )
            );
            checked += 1;
        }
        assert_eq!(checked, 8);
    }

    #[test]
    fn a_long_value_is_shortened() {
        let long = "9".repeat(10_000);
        let warning = choose(Some(OsStr::new(&long)), 6).warning.unwrap();
        assert!(warning.len() < 200);
    }
}
