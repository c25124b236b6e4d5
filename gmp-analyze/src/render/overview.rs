//! The top of the text report: the line that says which trace it is, and the key figures.

use super::shorten;
use super::style::{self, paint};
use super::text::wrapped;
use crate::analysis::report::{Overhead, Report};
use crate::machine::ProcState;
use crate::units::{count, counted, duration, percent, share};
use gmp_trace::event::Preemption;
use std::io;
use std::time::{Duration, SystemTime};

/// Columns of the names of key figures, indent included.
const NAMES: usize = 15;

/// Which trace it is.
pub(super) fn headline(report: &Report) -> String {
    let facts = &report.trace;
    let mut parts = vec![shorten::printable(&facts.source)];
    parts.push(facts.format.clone());
    if facts.bytes > 0 {
        parts.push(crate::units::bytes(facts.bytes));
    }
    if let Some(time) = facts.started_at.and_then(|time| u64::try_from(time.0).ok()) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(time);
        parts.push(format!("begun {}", humantime::format_rfc3339_seconds(time)));
    }
    if facts.finished == Some(false) {
        parts.push("not finished".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// The key figures, one line each; those that the trace has nothing about are left out.
pub(super) fn summary(out: &mut dyn io::Write, report: &Report, width: usize) -> io::Result<()> {
    writeln!(out)?;
    writeln!(out, "{}", paint(style::TITLE, "Summary"))?;
    let lines = [
        ("time", Some(time(report))),
        ("Ps", Some(procs(report))),
        ("goroutines", Some(goroutines(report))),
        ("parallelism", Some(parallelism(report))),
        ("switches", Some(switches(report))),
        ("latency", latency(report)),
        ("overhead", Some(overhead(report))),
        ("steals", steals(report)),
        ("queues", queues(report)),
        ("preemption", preemption(report)),
        ("hand-offs", handoffs(report)),
        ("timers", timers(report)),
        ("stops", stops(report)),
        ("collection", collections(report)),
    ];
    for (name, line) in lines {
        if let Some(line) = line {
            let first = format!("  {}", paint(style::HEADING, &format!("{name:<13}")));
            wrapped(out, &line, &first, &" ".repeat(NAMES), width, None)?;
        }
    }
    Ok(())
}

fn time(report: &Report) -> String {
    let summary = &report.summary;
    let mut line = format!(
        "{} on {} and {}; {}",
        duration(summary.span),
        counted(summary.procs, "P"),
        counted(summary.threads, "thread"),
        counted(summary.events, "event"),
    );
    if summary.lost_events > 0 {
        line.push_str(&format!(", {} lost", count(summary.lost_events)));
    }
    line
}

fn procs(report: &Report) -> String {
    let summary = &report.summary;
    let available = summary.available();
    let order = [
        ProcState::Running,
        ProcState::Scheduler,
        ProcState::Syscall,
        ProcState::Stopped,
        ProcState::Idle,
        ProcState::Unknown,
    ];
    let shares: Vec<String> = order
        .into_iter()
        .filter(|&state| summary.of(state).0 > 0 || state == ProcState::Running)
        .map(|state| {
            format!(
                "{} {}",
                state.name(),
                percent(share(summary.of(state), available))
            )
        })
        .collect();
    shares.join(", ")
}

fn goroutines(report: &Report) -> String {
    let summary = &report.summary;
    let mut parts = vec![format!("{} made", count(summary.made))];
    if summary.existed > 0 {
        parts.push(format!("{} there before", count(summary.existed)));
    }
    parts.push(format!("{} ended", count(summary.ended)));
    parts.push(format!("{} alive at the end", count(summary.alive)));
    format!(
        "{}; at most {} at once",
        parts.join(", "),
        count(summary.peak)
    )
}

fn parallelism(report: &Report) -> String {
    let summary = &report.summary;
    format!(
        "{:.2} goroutines ran at once on average, {:.2} wanted to",
        summary.parallelism, summary.runnable
    )
}

fn switches(report: &Report) -> String {
    let summary = &report.summary;
    let mut line = count(summary.switches);
    if summary.span.0 > 0 {
        let per_second = summary.switches as f64 * 1e9 / summary.span.0 as f64;
        line.push_str(&format!(" ({} a second)", count(per_second.round() as u64)));
    }
    line.push_str(&format!(
        ", mean run {}",
        duration(report.run_lengths.mean())
    ));
    if summary.yields > 0 {
        line.push_str(&format!("; {}", counted(summary.yields, "yield")));
    }
    if summary.preempted.all() > 0 {
        line.push_str(&format!("; {} preempted", count(summary.preempted.all())));
        if let Some(by_signal) = summary.preempted.signal() {
            line.push_str(&format!(", {} of them by signal", count(by_signal)));
        }
    }
    if summary.syscalls > 0 {
        line.push_str(&format!("; {}", counted(summary.syscalls, "system call")));
    }
    line
}

fn latency(report: &Report) -> Option<String> {
    let latency = &report.latency;
    (latency.count() > 0).then(|| {
        format!(
            "from runnable to running: p50 {}, p99 {}, max {}",
            duration(latency.quantile(0.5)),
            duration(latency.quantile(0.99)),
            duration(latency.max()),
        )
    })
}

fn overhead(report: &Report) -> String {
    match report.summary.overhead {
        Overhead::NotInTrace => {
            "not in this trace: no switch was measured by two stamps".to_owned()
        }
        Overhead::Estimate {
            samples,
            mean,
            share,
            ..
        } => format!(
            "about {} of busy time in switches: {} each, an estimate from {}",
            percent(share),
            duration(mean),
            counted(samples, "measured switch"),
        ),
    }
}

fn steals(report: &Report) -> Option<String> {
    let total = report.steals.total();
    if total.steals + report.steals.failed_searches == 0 {
        return None;
    }
    let mut line = format!(
        "{} took {}, {} of them from runnext",
        counted(total.steals, "steal"),
        counted(total.goroutines, "goroutine"),
        count(total.runnext),
    );
    if report.steals.failed_searches > 0 {
        let failed = counted(report.steals.failed_searches, "search");
        line.push_str(&format!("; {failed} found nothing"));
    }
    if report.summary.spinning.0 > 0 {
        line.push_str(&format!(
            "; threads spun for {}",
            duration(report.summary.spinning)
        ));
    }
    Some(line)
}

fn queues(report: &Report) -> Option<String> {
    let steals = &report.steals;
    (steals.overflows + steals.global_batches > 0).then(|| {
        format!(
            "{} moved {} to the global queue, {} taken from it",
            counted(steals.overflows, "overflow"),
            counted(steals.overflowed, "goroutine"),
            count(steals.from_global),
        )
    })
}

fn preemption(report: &Report) -> Option<String> {
    let rescues = &report.rescues;
    (rescues.asked() > 0).then(|| {
        let mut line = format!(
            "{} for a P, {} of them for somebody urgent",
            counted(rescues.asked(), "request"),
            count(rescues.asked_urgently)
        );
        let delays = &rescues.delays;
        if delays.count() > 0 {
            line.push_str(&format!(
                "; {} gave it up, after p50 {}, p99 {}, max {}",
                count(delays.count()),
                duration(delays.quantile(0.5)),
                duration(delays.quantile(0.99)),
                duration(delays.max()),
            ));
        }
        line
    })
}

fn handoffs(report: &Report) -> Option<String> {
    let rescues = &report.rescues;
    let mut parts = Vec::new();
    if rescues.from_calls > 0 {
        let mut part = format!("{} taken in system calls", counted(rescues.from_calls, "P"));
        if rescues.from_unannounced > 0 {
            let unannounced = count(rescues.from_unannounced);
            part.push_str(&format!(", {unannounced} of them not announced"));
        }
        parts.push(part);
    }
    if rescues.handed_on() > 0 {
        parts.push(format!(
            "{} handed on: {} by frozen goroutines, {} to frozen and {} to locked ones",
            counted(rescues.handed_on(), "P"),
            count(rescues.by_frozen),
            count(rescues.to_frozen),
            count(rescues.to_locked),
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn timers(report: &Report) -> Option<String> {
    let lateness = &report.summary.timer_lateness;
    (lateness.count() > 0).then(|| {
        format!(
            "{} fired, late by p50 {}, p99 {}, max {}",
            count(lateness.count()),
            duration(lateness.quantile(0.5)),
            duration(lateness.quantile(0.99)),
            duration(lateness.max()),
        )
    })
}

fn stops(report: &Report) -> Option<String> {
    let stops = &report.summary.stops;
    (stops.count() > 0).then(|| {
        let mut text = format!(
            "the world was stopped {}, {} in all, at most {}",
            counted(stops.count(), "time"),
            duration(stops.total()),
            duration(stops.max()),
        );
        if report.summary.stop_delays.count() > 0 {
            text += &still_after(report);
        }
        text
    })
}

/// How long the world took to stand still, and for whom it waited longest.
fn still_after(report: &Report) -> String {
    let delays = &report.summary.stop_delays;
    let mut text = format!(
        "; it stood still after {} in half of them, at most {}",
        duration(delays.quantile(0.5)),
        duration(delays.max())
    );
    if let Some(last) = report.summary.last_to_stop {
        let part = |name: &str, number: Option<u64>| {
            number.map_or(String::new(), |number| format!(" {name} {number}"))
        };
        text += &format!(
            ", then waiting for{}{}{}, which stopped {}",
            part("M", last.thread.map(|m| m.get())),
            part("P", last.proc.map(|p| u64::from(p.get()))),
            part("goroutine", last.goroutine.map(|g| g.get())),
            match last.how {
                Preemption::Cooperative => "where it called the runtime",
                Preemption::Signal => "by a signal",
                Preemption::Unknown => "in a way that the trace does not tell",
            }
        );
    }
    text
}

fn collections(report: &Report) -> Option<String> {
    let collections = &report.summary.collections;
    let cycles = &collections.cycles;
    (cycles.count() > 0).then(|| {
        let mut line = format!(
            "{}, {} in all, at most {}",
            counted(cycles.count(), "cycle"),
            duration(cycles.total()),
            duration(cycles.max()),
        );
        if !report.trace.of_go {
            line.push_str(&format!(
                "; gave back {} of {}",
                counted(collections.pages, "page"),
                counted(collections.stacks, "stack"),
            ));
        }
        line
    })
}
