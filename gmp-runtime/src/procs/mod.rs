//! How many Ps there are: `GMPMAXPROCS`, else the processors that the process may use, and no more than its
//! control group gives it time for.

mod cgroup;

use std::ffi::OsStr;
use std::path::Path;

/// The name of the environment variable.
pub(crate) const VARIABLE: &str = "GMPMAXPROCS";

/// More Ps than this are never made: each costs a queue, and nobody has so many processors.
pub(crate) const MAX_PROCS: usize = 4096;

/// How many Ps to start with, and a warning line when the variable is set to something else than a number
/// from 1 to [`MAX_PROCS`].
pub(crate) fn initial_count() -> (usize, Option<String>) {
    count(std::env::var_os(VARIABLE).as_deref(), default_count())
}

/// Without a wish (Go 1.25's rule): the processors, but no more than the quota of the control group is worth.
fn default_count() -> usize {
    match cgroup::quota(Path::new("/")) {
        Some(quota) => available().min(quota.procs()),
        None => available(),
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

/// The count for a value of the variable and a number of processors.
fn count(value: Option<&OsStr>, available: usize) -> (usize, Option<String>) {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return (available, None);
    };
    // An unusual spelling (a sign, spaces) is more likely a mistake than a wish.
    let wanted = value
        .to_str()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse::<usize>().ok());
    match wanted {
        Some(wanted) if (1..=MAX_PROCS).contains(&wanted) => (wanted, None),
        _ => {
            let shown: String = value.to_string_lossy().chars().take(60).collect();
            let warning = format!(
                "warning: {VARIABLE}: {shown:?} is not a number from 1 to {MAX_PROCS}; \
                 using {available}, for the processors available"
            );
            (available, Some(warning))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_wish_all_processors_are_used() {
        assert_eq!(count(None, 6), (6, None));
        assert_eq!(count(Some(OsStr::new("")), 6), (6, None));
        assert!((1..=MAX_PROCS).contains(&available()));
        assert!((1..=available()).contains(&default_count()));
    }

    #[test]
    fn a_number_is_taken_whatever_the_machine_has() {
        for wanted in [1, 2, 64, MAX_PROCS] {
            assert_eq!(
                count(Some(OsStr::new(&wanted.to_string())), 6),
                (wanted, None)
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
            let (procs, warning) = count(Some(OsStr::new(bad)), 6);
            assert_eq!(procs, 6, "{bad:?}");
            assert_eq!(
                warning.unwrap(),
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
        let warning = count(Some(OsStr::new(&long)), 6).1.unwrap();
        assert!(warning.len() < 200);
    }
}
