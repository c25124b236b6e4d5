//! Collection cycles of a program that counts them, recorded, and a report that must count the same.
//!
//! The program begins each cycle itself (`GMPGC=off`), so it knows how many there are, and that each call waited for
//! one. It knows how many goroutines wait with a deep stack, and so of how many stacks pages are given back at least: of all
//! of them at the first cycle, and of all of them again when each has gone deep again.

#![allow(clippy::unwrap_used)] // a test: where something is missing it fails

mod common;

use std::hint::black_box;

use common::{assert_nothing_wrong, report_at};
use gmp_runtime::{Runtime, channel, gc, go};
use gmp_trace::tables::Text;

/// Goroutines with deep stacks.
const DEEP: u64 = 40;

/// Pages that each has used, but for two at most, and does not need while it only waits.
const PAGES: u64 = 16;

/// Uses `pages` pages of the stack.
#[inline(never)]
fn dive(pages: u64) {
    let frame = [pages as u8; 4096];
    black_box(&frame);
    if pages > 0 {
        dive(pages - 1);
    }
    black_box(&frame);
}

/// Calls for four cycles.
fn program() {
    let (to_wake, woken) = channel::<()>(0);
    let (to_tell, told) = channel::<()>(0);
    let deep: Vec<_> = (0..DEEP)
        .map(|_| {
            let (woken, to_tell) = (woken.clone(), to_tell.clone());
            go(move || {
                loop {
                    dive(PAGES);
                    to_tell.send(()).unwrap();
                    if woken.recv().is_err() {
                        return;
                    }
                }
            })
        })
        .collect();
    let all_have_told = || (0..DEEP).for_each(|_| told.recv().unwrap());
    all_have_told();
    gc();
    gc();
    for _ in 0..DEEP {
        to_wake.send(()).unwrap();
    }
    all_have_told();
    gc();
    gc();
    drop(to_wake);
    deep.into_iter()
        .for_each(|goroutine| goroutine.join().unwrap());
}

#[test]
fn the_report_counts_the_cycles_of_the_program() {
    // SAFETY: this is the only test of its process, and no thread has been made that looks.
    unsafe { std::env::set_var("GMPGC", "off") };
    for procs in [1, 2] {
        let name = format!("gmp-truth-gc-{}-{procs}.trace", std::process::id());
        let path = std::env::temp_dir().join(name);
        let runtime = Runtime::builder().procs(procs).build().unwrap();
        let file = path.clone();
        // SAFETY: the program keeps nothing of a thread across a call that may park.
        let stats = unsafe {
            runtime.run(move || {
                gmp_runtime::trace::start(file).unwrap();
                program();
                gmp_runtime::trace::stop().unwrap();
                gc::stats()
            })
        };
        let report = report_at(&path);
        std::fs::remove_file(&path).unwrap();
        assert_nothing_wrong(&report);
        let collections = &report.summary.collections;
        assert_eq!(report.summary.stops.count(), 0, "a cycle is no pause");
        assert_eq!(collections.cycles.count(), 4);
        // The main goroutine, which calls, may have a deep stack once, too; and one that is woken by a channel
        // gives back what the wake took.
        assert!(
            collections.stacks >= 2 * DEEP && collections.stacks <= 4 * (DEEP + 1),
            "{collections:?}"
        );
        assert!(
            collections.pages >= 2 * DEEP * (PAGES - 2),
            "{collections:?}"
        );
        // What the runtime counted is what it recorded.
        assert_eq!(
            (collections.pages, collections.stacks),
            (stats.pages, stats.stacks)
        );
        let waits: u64 = report
            .blocking
            .iter()
            .filter(|row| row.reason_text == Text::GC_WAIT)
            .map(|row| row.waits.count())
            .sum();
        assert_eq!(waits, 4, "each call waits for its cycle");
        assert!(
            collections.cycles.max() <= report.summary.span,
            "{collections:?}"
        );
    }
}
