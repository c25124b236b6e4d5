//! A process whose goroutines all wait does next to nothing.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::time::Duration;

use common::run;
use gmp_runtime::net::TcpListener;
use gmp_runtime::{go, sleep};

/// Its monitor comes round up to a hundred times a second while something runs.
const MOST_WAKES: u64 = 50;

/// How often all threads of this process went to sleep so far.
fn sleeps_of_threads() -> u64 {
    const FIELD: &str = "voluntary_ctxt_switches:";
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let line = status.lines().find(|line| line.starts_with(FIELD)).unwrap();
        sum += line[FIELD.len()..].trim().parse::<u64>().unwrap();
    }
    sum
}

/// The only test of its process.
#[test]
fn a_second_in_which_everybody_waits_wakes_nobody() {
    let wakes = run(4, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        go(move || listener.accept().map(drop));
        sleep(Duration::from_millis(300));
        let before = sleeps_of_threads();
        sleep(Duration::from_secs(1));
        sleeps_of_threads() - before
    });
    assert!(wakes <= MOST_WAKES, "{wakes} wakes in a second");
}
