//! What the tests of the runtime share: starting one, counting drops, child processes.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

pub(crate) mod hogs;
pub(crate) mod net;

use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use gmp_runtime::Runtime;

/// The numbers of Ps with which a test is repeated.
pub(crate) const PROCS: [usize; 3] = [1, 2, 4];

/// Runs `f` as the main goroutine of a runtime with `procs` Ps.
#[track_caller]
pub(crate) fn run<T: Send>(procs: usize, f: impl FnOnce() -> T + Send) -> T {
    let runtime = Runtime::builder().procs(procs).build().unwrap();
    // SAFETY: tests keep nothing of a thread across calls that may park.
    unsafe { runtime.run(f) }
}

/// Counts how many values were made and dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drops(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

/// A value that is counted. A second drop of the same value ends the process.
#[derive(Debug)]
pub(crate) struct Counted {
    counts: Arc<Counts>,
    alive: bool,
    /// For tests that tell values apart.
    pub(crate) number: usize,
}

impl Drops {
    /// A new value.
    pub(crate) fn value(&self, number: usize) -> Counted {
        self.0.made.fetch_add(1, SeqCst);
        Counted {
            counts: Arc::clone(&self.0),
            alive: true,
            number,
        }
    }

    /// How many there were.
    pub(crate) fn made(&self) -> usize {
        self.0.made.load(SeqCst)
    }

    /// How many there are.
    pub(crate) fn alive(&self) -> usize {
        self.made() - self.0.dropped.load(SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(std::mem::replace(&mut self.alive, false), "dropped twice");
        self.counts.dropped.fetch_add(1, SeqCst);
    }
}

/// Runs its function when it is dropped.
#[derive(Debug)]
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

const CHILD: &str = "GMP_TEST_CHILD";

/// The case that this process, a child, is to run; `None` in the process of the tests.
pub(crate) fn child_case() -> Option<String> {
    std::env::var(CHILD).ok()
}

/// A command that runs the test `name` of this binary in a process of its own, where [`child_case`] is
/// `case`.
pub(crate) fn child(name: &str, case: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, case)
        .env_remove("GMPDEBUG")
        .env_remove("GMPMAXPROCS")
        .stdin(Stdio::null());
    command
}

/// Runs a child; what it wrote. It must have ended by itself.
#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        stderr(&output)
    );
    output
}

/// What a child wrote to standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Ends a child.
pub(crate) fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A directory for files of one test, removed with it.
#[derive(Debug)]
pub(crate) struct Directory(pub(crate) std::path::PathBuf);

impl Directory {
    /// A new one.
    pub(crate) fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("gmp-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Processor time of this process, in hundredths of a second.
pub(crate) fn processor_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    // User and system time, the fourteenth and fifteenth field.
    let ticks = |index: usize| fields[index].parse::<u64>().unwrap();
    ticks(11) + ticks(12)
}
