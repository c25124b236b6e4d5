//! From bytes to report: what a simulated program counted by itself is what the report says.

mod common;

use common::pipeline::Pipeline;
use common::report_at;
use gmp_analyze::machine::{GoroutineState, ProcState};
use std::path::{Path, PathBuf};

/// A file that is removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Scratch {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, bytes).expect("a directory for tests");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn the_report_says_what_the_program_did() {
    for procs in [1, 2, 4] {
        let program = Pipeline {
            seed: 7 + u64::from(procs),
            procs,
            workers: 16,
            lines: 3000,
            stuck: 3,
        };
        let (bytes, truth) = program.record();
        let file = Scratch::new(&format!("truth-{procs}.gmpt"), &bytes);
        let report = report_at(&file.0);
        assert_eq!(report.anomalies, vec![], "{procs} Ps");
        let summary = &report.summary;
        assert_eq!(summary.made, truth.made);
        assert_eq!(summary.ended, truth.ended);
        assert_eq!(summary.switches, truth.starts);
        assert_eq!(report.latency.count(), truth.starts);
        assert_eq!(report.steals.total().goroutines, truth.stolen);
        assert_eq!(summary.procs, u64::from(procs));
        assert_eq!(report.trace.finished, Some(true));
        let parks = |reason: &str| {
            let rows = report.blocking.iter().filter(|row| row.reason == reason);
            rows.map(|row| row.waits.count()).sum::<u64>()
        };
        for (reason, name) in [
            ("sleep", "sleep"),
            ("join", "join"),
            ("chan send", "send"),
            ("chan receive", "receive"),
        ] {
            assert_eq!(parks(reason), truth.parks[name], "{reason} on {procs} Ps");
        }
        assert!(
            procs == 1 || truth.stolen > 0,
            "nothing was stolen on {procs} Ps"
        );
        // Ps run exactly when goroutines do.
        let of_groups: i64 = report
            .groups
            .iter()
            .map(|row| row.group.of(GoroutineState::Running).0)
            .sum();
        assert_eq!(summary.of(ProcState::Running).0, of_groups);
    }
}
