//! Goroutines that nobody wakes: deadlock, producers without consumers, consumers without
//! producers.

use super::{Evidence, Finding, Rule, Urgency, Value, since_begin};
use crate::analysis::names::plain_function;
use crate::analysis::report::{BlockingRow, OpenWaitRow, Report};
use crate::machine::Cause;
use crate::units;
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;

/// A wait shorter than this is never called *forever*: a busy machine delays a wake by that much.
const AT_LEAST: Nanos = Nanos(10_000_000);

/// A wait must be this many times as long as the longest one at its place that ended.
const TIMES_LONGEST: i64 = 10;

/// How many goroutines a finding names.
const NAMED: usize = 8;

/// Reasons for which only another goroutine can wake.
const BY_GOROUTINES: &[Text] = &[
    Text::CHAN_RECEIVE,
    Text::CHAN_SEND,
    Text::CHAN_RECEIVE_NIL,
    Text::CHAN_SEND_NIL,
    Text::SELECT,
    Text::SELECT_NO_CASES,
    Text::SEMACQUIRE,
    Text::COND_WAIT,
    Text::MUTEX_LOCK,
    Text::RWMUTEX_RLOCK,
    Text::RWMUTEX_LOCK,
    Text::WAITGROUP_WAIT,
    Text::JOIN,
];

/// Reasons for which nothing wakes at all.
const BY_NOBODY: &[Text] = &[
    Text::CHAN_RECEIVE_NIL,
    Text::CHAN_SEND_NIL,
    Text::SELECT_NO_CASES,
];

/// True for goroutines of Go's runtime itself, which wait for all of their lives.
fn is_of_runtime(report: &Report, wait: &OpenWaitRow) -> bool {
    let function = &report.groups[wait.group].name.function;
    function.starts_with("runtime.") && function != "runtime.main"
        || function.starts_with("runtime/")
}

/// Every goroutine that lives waits for another one.
pub(super) struct Deadlock;

impl Rule for Deadlock {
    fn name(&self) -> &'static str {
        "deadlock"
    }

    fn about(&self) -> &'static str {
        "every goroutine that lives at the end of the trace waits for another one"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        if !is_deadlock(report) {
            return Vec::new();
        }
        let alive = report.summary.alive;
        let waits: Vec<&OpenWaitRow> = report.open_waits.iter().collect();
        let last = waits
            .iter()
            .map(|wait| wait.since)
            .max()
            .unwrap_or(report.summary.begin);
        let mut evidence = vec![
            Evidence::new("goroutines", Value::Count(alive)),
            Evidence::new("since", Value::Time(since_begin(report, last))),
            Evidence::new("ids", Value::Text(ids(&waits))),
        ];
        for site in sites(&waits).into_iter().take(NAMED) {
            let row = &report.blocking[site];
            evidence.push(Evidence::new("waits", Value::Text(wait_in_words(row))));
        }
        let who = match alive {
            1 => {
                "The only goroutine that still lives is blocked, and nothing can wake it".to_owned()
            }
            _ => format!(
                "All {} that still live are blocked, and none of them can wake another",
                units::counted(alive, "goroutine"),
            ),
        };
        vec![Finding {
            rule: self.name(),
            urgency: Urgency::Problem,
            summary: format!(
                "{who}: a deadlock since {}, or left behind when the program ended.",
                units::duration(since_begin(report, last)),
            ),
            evidence,
            next: "Look at the sites: who should have sent, received, unlocked or ended there?"
                .to_owned(),
        }]
    }
}

fn is_deadlock(report: &Report) -> bool {
    let summary = &report.summary;
    let by_others =
        |wait: &OpenWaitRow| BY_GOROUTINES.contains(&report.blocking[wait.site].reason_text);
    // A thread that is not of the runtime has woken goroutines: it may do so again.
    let external = report.causes.iter().any(|row| row.cause == Cause::External);
    summary.alive > 0
        && report.open_waits.len() as u64 == summary.alive
        && report.open_waits.iter().all(by_others)
        && !external
}

/// Goroutines wait at one place, much longer than anybody waited there before.
pub(super) struct BlockedForever;

impl Rule for BlockedForever {
    fn name(&self) -> &'static str {
        "blocked-forever"
    }

    fn about(&self) -> &'static str {
        "goroutines wait for a channel, lock or another goroutine until the end of the trace, much \
         longer than anybody waited there before"
    }

    fn check(&self, report: &Report) -> Vec<Finding> {
        if is_deadlock(report) {
            return Vec::new();
        }
        let waits: Vec<&OpenWaitRow> = report
            .open_waits
            .iter()
            .filter(|wait| is_forever(report, wait))
            .collect();
        let at = |site| {
            waits
                .iter()
                .filter(|wait| wait.site == site)
                .copied()
                .collect()
        };
        sites(&waits)
            .into_iter()
            .map(|site| blocked_at(report, site, at(site)))
            .collect()
    }
}

fn is_forever(report: &Report, wait: &OpenWaitRow) -> bool {
    if is_of_runtime(report, wait) {
        return false;
    }
    let row = &report.blocking[wait.site];
    if BY_NOBODY.contains(&row.reason_text) {
        return true;
    }
    let waited = report.summary.end().since(wait.since);
    let usual = Nanos(row.longest_ended.0.saturating_mul(TIMES_LONGEST));
    BY_GOROUTINES.contains(&row.reason_text) && waited >= AT_LEAST && waited >= usual
}

fn blocked_at(report: &Report, site: usize, waits: Vec<&OpenWaitRow>) -> Finding {
    let row = &report.blocking[site];
    let first = waits
        .iter()
        .map(|wait| wait.since)
        .min()
        .unwrap_or(report.summary.begin);
    let waited = report.summary.end().since(first);
    let mut functions: Vec<String> = waits
        .iter()
        .map(|wait| plain_function(&report.groups[wait.group].name.function))
        .collect();
    functions.sort_unstable();
    functions.dedup();
    let mut objects: Vec<u64> = waits
        .iter()
        .filter_map(|wait| wait.object)
        .map(|object| object.0.get())
        .collect();
    objects.sort_unstable();
    objects.dedup();
    let count = waits.len() as u64;
    let waiting = if count == 1 { "waits" } else { "wait" };
    let who = format!(
        "{} of {}",
        units::counted(count, "goroutine"),
        functions.join(", ")
    );
    let (advice, next) = advice(row.reason_text);
    let ended = row.waits.count() - row.still;
    let mut evidence = vec![
        Evidence::new("goroutines", Value::Count(count)),
        Evidence::new("ids", Value::Text(ids(&waits))),
        Evidence::new("since", Value::Time(since_begin(report, first))),
        Evidence::new("for", Value::Duration(waited)),
    ];
    if ended > 0 {
        evidence.push(Evidence::new("waits there that ended", Value::Count(ended)));
        evidence.push(Evidence::new(
            "longest of those",
            Value::Duration(row.longest_ended),
        ));
    }
    if !objects.is_empty() {
        evidence.push(Evidence::new(
            "distinct objects",
            Value::Count(objects.len() as u64),
        ));
    }
    Finding {
        rule: BlockedForever.name(),
        urgency: Urgency::Problem,
        summary: format!(
            "{who} {waiting} in {} until the end of the trace, the longest for {}{advice}",
            wait_in_words(row),
            units::duration(waited),
        ),
        evidence,
        next: next.to_owned(),
    }
}

/// What a wait of this reason that nobody ends usually means, and what to look at.
fn advice(reason: Text) -> (&'static str, &'static str) {
    match reason {
        Text::CHAN_SEND => (
            ": nobody receives. Producers without a consumer.",
            "Find the receiver of this channel: did it end early, or receive fewer than are sent?",
        ),
        Text::CHAN_RECEIVE => (
            ": nobody sends and nobody closes the channel.",
            "Find the sender of this channel: did it end without closing it?",
        ),
        Text::SELECT => (
            ": none of its cases becomes ready.",
            "Find the other ends of its channels; a case for cancellation may be missing.",
        ),
        Text::MUTEX_LOCK | Text::RWMUTEX_LOCK | Text::RWMUTEX_RLOCK | Text::SEMACQUIRE => (
            ": nobody unlocks.",
            "Find who holds the lock: does it wait for something that these goroutines hold?",
        ),
        Text::WAITGROUP_WAIT | Text::JOIN => (
            ": what it waits for does not end.",
            "Find the goroutine that it waits for, in this list or in the table of groups.",
        ),
        Text::COND_WAIT => (
            ": nobody signals.",
            "Find who should signal: was the signal sent before the wait began?",
        ),
        _ => (
            ": nothing can end this wait.",
            "A channel that is never set, or a select without cases.",
        ),
    }
}

fn wait_in_words(row: &BlockingRow) -> String {
    let place = match (row.name.position.as_str(), row.name.function.as_str()) {
        ("", "") => return row.reason.clone(),
        ("", function) => function,
        (position, _) => position,
    };
    format!("{} at {place}", row.reason)
}

/// The rows of the sites of `waits`, each once, in the report's order.
fn sites(waits: &[&OpenWaitRow]) -> Vec<usize> {
    let mut sites: Vec<usize> = waits.iter().map(|wait| wait.site).collect();
    sites.sort_unstable();
    sites.dedup();
    sites
}

/// The first few goroutines, in words.
fn ids(waits: &[&OpenWaitRow]) -> String {
    let named: Vec<String> = waits
        .iter()
        .take(NAMED)
        .map(|wait| format!("G{}", wait.goroutine))
        .collect();
    let more = waits.len().saturating_sub(NAMED);
    match more {
        0 => named.join(", "),
        _ => format!(
            "{} and {} more",
            named.join(", "),
            units::count(more as u64)
        ),
    }
}
