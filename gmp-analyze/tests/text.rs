//! The text report: what stands where, widths, colours.

mod common;

use common::Script;
use gmp_analyze::analysis::report::Report;
use gmp_analyze::input::TraceFacts;
use gmp_analyze::render::text::{self, Layout};
use gmp_trace::Body;
use gmp_trace::event::{Found, StealFrom};
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;

/// A small program on two Ps: a producer, workers, one that blocks for ever.
fn program() -> Report {
    let mut script = Script::new(2);
    script
        .at(0)
        .create(1, "log_stats::main::{{closure}}", 12)
        .start(1, Found::Local);
    let mut now = 5;
    for id in 2..8 {
        script
            .at(now)
            .create(id, "log_stats::pipeline::parse::worker", 40);
        now += 3;
    }
    script.at(now).create(9, "log_stats::reporter", 51);
    script.at(now + 4).park(Text::SLEEP, 0, 14);
    let steal = Body::Steal {
        victim: common::p(0),
        n: 3,
        what: StealFrom::Ring,
    };
    script
        .on(1)
        .proc_start()
        .event(steal)
        .event(Body::StealFailed { attempts: 4 });
    now += 10;
    for round in 0..200 {
        for (proc, base) in [(0, 2), (1, 5)] {
            let id = base + round % 3;
            let found = if proc == 1 && round < 3 {
                Found::Stolen
            } else {
                Found::Local
            };
            script.at(now + proc as i64).on(proc).start(id, found);
        }
        now += 37 + round as i64 % 11 * 9;
        for (proc, base) in [(0, 2), (1, 5)] {
            let id = base + round % 3;
            script
                .at(now)
                .on(proc)
                .park(Text::CHAN_RECEIVE, 0x10 + u64::from(proc), 44);
            script.at(now + 1).ready(id);
        }
        now += 2;
    }
    script
        .on(0)
        .at(now)
        .start(9, Found::Local)
        .at(now + 2)
        .park(Text::CHAN_SEND, 0x99, 60);
    script.on(1).at(now + 3).proc_stop();
    script
        .on(0)
        .at(now + 21_000)
        .ready(1)
        .start(1, Found::Timer)
        .at(now + 21_020)
        .exit();
    script.event(Body::SchedSample { took: Nanos(130) });
    script.report_on(TraceFacts {
        source: "log-stats.gmpt".to_owned(),
        of_go: false,
        format: "gmp trace 1.0".to_owned(),
        bytes: 4_321,
        generations: 1,
        finished: Some(true),
        started_at: Some(Nanos(1_790_000_000_000_000_000)),
    })
}

fn text(width: usize, top: usize) -> String {
    let mut out = Vec::new();
    text::report(&mut out, &program(), Layout { width, top }).expect("text");
    String::from_utf8(out).expect("UTF-8")
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn the_most_important_comes_first() {
    let text = plain(&text(100, 10));
    println!("{text}");
    let place = |part: &str| {
        text.find(part)
            .unwrap_or_else(|| panic!("no {part:?} in\n{text}"))
    };
    let order = [
        "log-stats.gmpt",
        "Findings",
        "problem blocked-forever",
        "Summary",
        "Ps\n",
        "Goroutines by start function",
        "Scheduling latency by cause",
        "Where goroutines wait",
        "Longest runs",
        "Steals",
    ];
    for pair in order.windows(2) {
        assert!(place(pair[0]) < place(pair[1]), "{pair:?}");
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut lines = 0;
    for width in [80, 90, 100, 110, 120, 140] {
        let text = plain(&text(width, 10));
        for line in text.lines() {
            let wide = unicode_width::UnicodeWidthStr::width(line);
            assert!(wide <= width, "{wide} columns of {width}: {line:?}");
            lines += 1;
        }
        println!("{text}");
    }
    assert!(lines > 100);
}

#[test]
fn rows_beyond_the_top_are_counted() {
    let text = plain(&text(100, 1));
    assert!(text.contains("… and 2 more"), "{text}");
}

#[test]
fn colours_are_there_to_be_stripped() {
    let coloured = text(100, 10);
    assert!(coloured.contains("\u{1b}["));
    assert!(!plain(&coloured).contains('\u{1b}'));
}
