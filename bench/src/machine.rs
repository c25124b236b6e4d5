//! What the figures depend on besides the programs: machine, system, versions, load.

use std::fs;
use std::process::Command;
use std::thread;

use crate::child;
use crate::peers::go;

/// The versions that the harness was built with.
const LOCK_FILE: &str = include_str!("../../Cargo.lock");

/// Facts about the machine and the programs, each a name and a value, in the order to print.
pub(crate) fn facts() -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("processor", processor().unwrap_or_else(unknown)),
        ("logical processors", processors()),
        ("system", system()),
        ("load average at the start", load().unwrap_or_else(unknown)),
        (
            "go",
            go::toolchain().map_or_else(|why| why, |go| go.version.clone()),
        ),
    ];
    for name in ["may", "tokio"] {
        facts.push((
            name,
            locked_version(LOCK_FILE, name).unwrap_or_else(unknown),
        ));
    }
    let revision = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .output();
    if let Some(revision) = revision.ok().filter(|output| output.status.success()) {
        let revision = String::from_utf8_lossy(&revision.stdout);
        facts.push(("revision", revision.trim().to_owned()));
    }
    facts
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn processor() -> Option<String> {
    let information = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = information
        .lines()
        .find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn processors() -> String {
    thread::available_parallelism().map_or_else(|_| unknown(), |count| count.to_string())
}

fn system() -> String {
    child::output_of(Command::new("uname").args(["-s", "-r", "-m"]))
        .map_or_else(|_| unknown(), |name| name.trim().to_owned())
}

/// The load of the last one, five and fifteen minutes: above the harness's own, others were busy.
fn load() -> Option<String> {
    let line = fs::read_to_string("/proc/loadavg").ok()?;
    let mut figures = line.split_whitespace();
    Some([figures.next()?, figures.next()?, figures.next()?].join(" "))
}

/// The version of the package `name` in a lock file.
fn locked_version(lock: &str, name: &str) -> Option<String> {
    let package = lock.split("[[package]]").find(|package| {
        package
            .lines()
            .any(|line| line == format!("name = \"{name}\""))
    })?;
    let version = package
        .lines()
        .find_map(|line| line.strip_prefix("version = "))?;
    Some(version.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"maybe\"\nversion = \"9.9.9\"\n\n\
                    [[package]]\nname = \"may\"\nversion = \"0.3.1\"\n";
        assert_eq!(locked_version(lock, "may").as_deref(), Some("0.3.1"));
        assert_eq!(locked_version(lock, "ma"), None);
        for name in ["may", "tokio"] {
            let version = locked_version(LOCK_FILE, name).unwrap();
            assert!(
                version.starts_with(|first: char| first.is_ascii_digit()),
                "{version}"
            );
        }
    }
}
