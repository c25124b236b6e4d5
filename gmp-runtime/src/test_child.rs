//! Running one test again in a process of its own, for what ends a process.

use std::process::{Command, Output};

const VARIABLE: &str = "GMP_TEST_CHILD";

/// The case that a parent test asked this process to run, if it is such a child.
pub(crate) fn requested_case() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// Runs the test `name` (its whole path) of this binary in a child process that finds `case` by
/// [`requested_case`].
pub(crate) fn run(name: &str, case: &str) -> Output {
    let binary = std::env::current_exe().unwrap();
    Command::new(binary)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, case)
        .output()
        .unwrap()
}

/// What a child wrote to standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The signal that ended a child.
pub(crate) fn signal(output: &Output) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&output.status)
}
