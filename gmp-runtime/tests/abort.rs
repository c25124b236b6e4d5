//! A program that is built with `panic = "abort"` goes on when main has returned: goroutines that wait cannot be
//! unwound there, and are counted, named and left. Built with `panic = "unwind"`, as tests are, their destructors run.
//!
//! Without the test harness, which cannot be built to abort: `ci/test.sh` does that.

mod common;

use std::os::unix::process::ExitStatusExt;

use common::{Drops, child, child_case, run, stderr, succeed};
use gmp_runtime::{go, metrics, park, yield_now};

/// Goroutines that wait, and one that has not begun, when main returns.
fn leave_goroutines() {
    let drops = Drops::default();
    let counted = drops.clone();
    run(1, move || {
        for number in 0..3 {
            let value = counted.value(number);
            go(move || {
                let _kept = value;
                park();
            });
        }
        while metrics().count("/sched/goroutines/waiting:goroutines") < Some(3) {
            yield_now();
        }
        let value = counted.value(3);
        go(move || drop(value));
    });
    println!("alive {} of {}", drops.alive(), drops.made());
}

fn main() {
    match child_case().as_deref() {
        Some("leave") => return leave_goroutines(),
        Some(_) => {
            run(1, || drop(go(|| panic!("on purpose")).join()));
            return println!("went on");
        }
        None => {}
    }
    who_waits_is_left_where_nothing_unwinds();
    a_panic_ends_the_process_where_nothing_unwinds();
    println!("test result: ok. 2 passed; 0 failed");
}

fn who_waits_is_left_where_nothing_unwinds() {
    let output = succeed(&mut child("", "leave"));
    let (said, told) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
    if cfg!(panic = "unwind") {
        assert_eq!((&*said, &*told), ("alive 0 of 4\n", ""));
        return;
    }
    assert_eq!(said, "alive 3 of 4\n", "{told}");
    let mut lines = told.lines();
    let first = lines.next().unwrap_or_default();
    let begin = "gmp: main has returned; 3 goroutines could not be ended, ";
    assert!(first.starts_with(begin), "{told}");
    let why = ": the program is built to abort instead of unwinding";
    let mut named = 0;
    for line in lines {
        assert!(
            line.starts_with("goroutine ") && line.ends_with(why),
            "{told}"
        );
        assert!(
            line.contains(" [park], created at gmp-runtime/tests/abort.rs:"),
            "{told}"
        );
        named += 1;
    }
    assert_eq!(named, 3, "{told}");
}

fn a_panic_ends_the_process_where_nothing_unwinds() {
    let output = child("", "panic").output();
    let output = output.expect("a child");
    let (said, told) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(told.contains("on purpose"), "{told}");
    if cfg!(panic = "unwind") {
        assert_eq!(said, "went on\n");
    } else {
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{told}");
    }
}
