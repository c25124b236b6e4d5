//! The columns of every table: names in JSON and CSV, headings in text, and what they mean.

use super::table::{Column, Show, Unit};

use Show::{Always, Never, WhenSet, Wide};

pub(super) const fn column(
    name: &'static str,
    heading: &'static str,
    unit: Unit,
    show: Show,
    about: &'static str,
) -> Column {
    Column {
        name,
        heading,
        unit,
        show,
        about,
    }
}

/// The name of every table, with its columns.
pub fn all() -> [(&'static str, &'static [Column]); 10] {
    [
        ("summary", SUMMARY),
        ("procs", PROCS),
        ("groups", GROUPS),
        ("latency", LATENCY),
        ("group_latency", GROUP_LATENCY),
        ("blocking", BLOCKING),
        ("longest_runs", LONGEST_RUNS),
        ("steals", STEALS),
        ("anomalies", ANOMALIES),
        ("goroutines", GOROUTINES),
    ]
}

macro_rules! with_percentiles {
    ($($before:expr),* ; $($after:expr),* $(,)?) => {
        &[
            $($before,)*
            column("count", "count", Unit::Count, Always, "how many"),
            column("total", "total", Unit::Time, Always, "their sum"),
            column("mean", "mean", Unit::Time, Wide, "their mean"),
            column("p50", "p50", Unit::Time, Always, "half are not longer"),
            column("p90", "p90", Unit::Time, Wide, "nine in ten are not longer"),
            column("p99", "p99", Unit::Time, Always, "99 in a hundred are not longer"),
            column("p999", "p99.9", Unit::Time, Wide, "999 in a thousand are not longer"),
            column("max", "max", Unit::Time, Always, "the longest"),
            column("percentiles_exact", "exact", Unit::Flag, Never, "true where percentiles are exact, false where they are at most 1 % too large"),
            $($after,)*
        ]
    };
}

pub(super) use with_percentiles;

/// The key figures of the report: one row.
#[rustfmt::skip]
pub(super) const SUMMARY: &[Column] = &[
    column("span", "", Unit::Time, Always, "from the first event to the last"),
    column("events", "", Unit::Count, Always, "events"),
    column("procs", "", Unit::Count, Always, "Ps that were there at some time"),
    column("threads", "", Unit::Count, Always, "threads (Ms) that did something"),
    column("goroutines_before", "", Unit::Count, Always, "goroutines that existed before the trace"),
    column("goroutines_made", "", Unit::Count, Always, "goroutines made"),
    column("goroutines_ended", "", Unit::Count, Always, "goroutines ended"),
    column("goroutines_alive", "", Unit::Count, Always, "goroutines alive at the end"),
    column("goroutines_peak", "", Unit::Count, Always, "the most alive at one moment"),
    column("running", "", Unit::TimeAndShare, Always, "P time in which goroutines ran, and its share of all P time"),
    column("scheduler", "", Unit::TimeAndShare, Always, "P time in the scheduler"),
    column("syscall", "", Unit::TimeAndShare, Always, "P time in system calls"),
    column("idle", "", Unit::TimeAndShare, Always, "P time in the idle list"),
    column("stopped", "", Unit::TimeAndShare, Always, "P time in which the world was stopped"),
    column("unknown", "", Unit::TimeAndShare, Always, "P time of which the trace does not tell"),
    column("parallelism", "", Unit::Mean, Always, "mean number of goroutines that ran at once"),
    column("runnable", "", Unit::Mean, Always, "mean number of goroutines that wanted to run"),
    column("idle_while_runnable", "", Unit::TimeAndShare, Always, "time with an idle P and a runnable goroutine, and its share of the trace"),
    column("switches", "", Unit::Count, Always, "goroutines that began to run"),
    column("yields", "", Unit::Count, Always, "goroutines that gave up their P by their own will"),
    column("preempted", "", Unit::Count, Always, "goroutines that were made to give up their P"),
    column("preempted_by_signal", "", Unit::Count, Always, "those of them that were by a signal; null where the trace does not tell"),
    column("preempt_requests", "", Unit::Count, Always, "times that a goroutine was asked for its P, but for stops of the world; null where the trace does not tell"),
    column("preempt_requests_urgent", "", Unit::Count, Always, "those of them for somebody woken whom nobody else could run"),
    column("preempt_delays", "", Unit::Count, Always, "goroutines that gave up their P in the turn in which they were asked"),
    column("preempt_delay_p50", "", Unit::Time, Always, "how long after the first request, half of them at most"),
    column("preempt_delay_max", "", Unit::Time, Always, "the longest time from the first request until the P was given up"),
    column("syscalls", "", Unit::Count, Always, "system calls entered"),
    column("retakes", "", Unit::Count, Always, "Ps taken from goroutines in system calls"),
    column("retakes_unannounced", "", Unit::Count, Always, "those of them whose call nobody had announced; null where the trace does not tell"),
    column("handoffs_by_frozen", "", Unit::Count, Always, "Ps that were given away because their goroutine was frozen; null where the trace does not tell"),
    column("handoffs_to_frozen", "", Unit::Count, Always, "Ps given to the thread of a frozen goroutine; null where the trace does not tell"),
    column("handoffs_to_locked", "", Unit::Count, Always, "Ps given to the thread that a goroutine is locked to; null where the trace does not tell"),
    column("mean_run", "", Unit::Time, Always, "mean length of a run without a break"),
    column("overhead", "", Unit::TimeAndShare, Always, "estimated time that switches took, and its share of running and scheduler time; null where the trace has no samples"),
    column("overhead_samples", "", Unit::Count, Always, "switches that were measured for the estimate"),
    column("overhead_mean", "", Unit::Time, Always, "mean time that a measured switch took"),
    column("spinning", "", Unit::Time, Always, "time that threads looked for work that they did not know of"),
    column("steals", "", Unit::Count, Always, "successful steals"),
    column("stolen", "", Unit::Count, Always, "goroutines that they took"),
    column("stolen_runnext", "", Unit::Count, Always, "steals that took the goroutine to run next"),
    column("steal_searches_failed", "", Unit::Count, Always, "searches for work that found nothing to steal"),
    column("steal_attempts_failed", "", Unit::Count, Always, "queues that those searches looked at"),
    column("overflows", "", Unit::Count, Always, "times that a full queue moved goroutines to the global queue"),
    column("overflowed", "", Unit::Count, Always, "goroutines that they moved"),
    column("from_global", "", Unit::Count, Always, "goroutines taken from the global queue"),
    column("timers_fired", "", Unit::Count, Always, "timers that fired"),
    column("timer_lateness_p99", "", Unit::Time, Always, "how late they fired, 99th percentile"),
    column("stops", "", Unit::Count, Always, "times that the world was stopped"),
    column("stop_max", "", Unit::Time, Always, "the longest stop, from request to restart"),
    column("stop_delay_p50", "", Unit::Time, Always, "how long after the request the world stood still, half of the times at most"),
    column("stop_delay_max", "", Unit::Time, Always, "the longest time from the request until the world stood still"),
    column("stop_last_m", "", Unit::Count, Always, "the thread that came last in that stop; null where the trace does not tell, as for the next two"),
    column("stop_last_p", "", Unit::Count, Always, "its P"),
    column("stop_last_goroutine", "", Unit::Count, Always, "the goroutine that ran on it"),
    column("gc_cycles", "", Unit::Count, Always, "collection cycles that began and ended in the trace"),
    column("gc_max", "", Unit::Time, Always, "the longest of them"),
    column("gc_pages", "", Unit::Count, Always, "pages of stacks that cycles gave back; null where the trace does not tell"),
    column("gc_stacks", "", Unit::Count, Always, "how many stacks gave them, in all cycles; null where the trace does not tell"),
    column("lost_events", "", Unit::Count, Always, "events that the recorder lost"),
];

#[rustfmt::skip]
pub(super) const PROCS: &[Column] = &[
    column("p", "P", Unit::Count, Always, "number of the P"),
    column("running", "running", Unit::TimeAndShare, Always, "time in which a goroutine ran on it, and its share of the trace"),
    column("scheduler", "scheduler", Unit::TimeAndShare, Always, "time in which a thread held it and ran no goroutine"),
    column("syscall", "syscall", Unit::TimeAndShare, WhenSet, "time in which its goroutine was in a system call"),
    column("idle", "idle", Unit::TimeAndShare, Always, "time in the idle list"),
    column("stopped", "stopped", Unit::TimeAndShare, WhenSet, "time in which the world was stopped"),
    column("unknown", "unknown", Unit::TimeAndShare, WhenSet, "time of which the trace does not tell"),
    column("absent", "absent", Unit::TimeAndShare, WhenSet, "time in which there was no such P"),
    column("switches", "switches", Unit::Count, Always, "goroutines that began to run on it"),
    column("stolen", "stolen", Unit::Count, WhenSet, "goroutines that it stole from other Ps"),
    column("lost", "lost", Unit::Count, WhenSet, "goroutines that other Ps stole from it"),
];

#[rustfmt::skip]
pub(super) const GROUPS: &[Column] = &[
    column("goroutines", "made", Unit::Count, Always, "goroutines of the group, those included that existed before the trace"),
    column("existed", "before", Unit::Count, Wide, "those that existed before the trace"),
    column("ended", "ended", Unit::Count, Never, "those that ended"),
    column("alive", "alive", Unit::Count, WhenSet, "those that lived when the trace ended"),
    column("running", "running", Unit::TimeAndShare, Always, "time of all of them in state running, and its share of their lives"),
    column("runnable", "runnable", Unit::TimeAndShare, Always, "time in which they wanted to run"),
    column("waiting", "waiting", Unit::TimeAndShare, Always, "time in which they waited for something"),
    column("syscall", "syscall", Unit::TimeAndShare, WhenSet, "time in system calls"),
    column("syscall_without_p", "syscall, no P", Unit::TimeAndShare, Wide, "time in system calls after the P was taken"),
    column("unknown", "unknown", Unit::TimeAndShare, WhenSet, "time of which the trace does not tell"),
    column("runs", "runs", Unit::Count, Wide, "times that one began to run, or came back from a system call"),
    column("mean_running", "mean run.", Unit::Time, Never, "mean time that one ran in all"),
    column("most_running", "most run.", Unit::Time, Never, "longest time that one ran in all"),
    column("mean_life", "mean life", Unit::Time, Wide, "mean life of one"),
    column("longest_life", "longest life", Unit::Time, Never, "longest life of one"),
    column("total_life", "lives", Unit::Time, Never, "lives of all; the sum of the states"),
    column("function", "start function", Unit::Function, Always, "function with which they start"),
    column("made_at", "made at", Unit::Position, Always, "where they are made"),
];

#[rustfmt::skip]
pub(super) const LATENCY: &[Column] = with_percentiles!(;
    column("found", "found in", Unit::Text, Always, "where the scheduler found the goroutine; `all` in the row of all causes"),
    column("cause", "made runnable by", Unit::Text, Always, "what made the goroutine runnable"),
);

#[rustfmt::skip]
pub(super) const GROUP_LATENCY: &[Column] = with_percentiles!(;
    column("function", "start function", Unit::Function, Always, "function with which the goroutines start"),
    column("made_at", "made at", Unit::Position, Always, "where they are made"),
);

#[rustfmt::skip]
pub(super) const BLOCKING: &[Column] = with_percentiles!(;
    column("still", "still", Unit::Count, WhenSet, "goroutines that wait when the trace ends"),
    column("longest_ended", "longest ended", Unit::Time, Never, "the longest wait that ended"),
    column("reason", "waits in", Unit::Text, Always, "why they wait, in Go's words"),
    column("function", "where", Unit::Function, Always, "function that waits"),
    column("at", "at", Unit::Position, Always, "where it waits"),
);

#[rustfmt::skip]
pub(super) const LONGEST_RUNS: &[Column] = &[
    column("time", "ran for", Unit::Time, Always, "how long it kept its P"),
    column("begin", "from", Unit::Time, Always, "from when, from the begin of the trace"),
    column("goroutine", "goroutine", Unit::Count, Always, "number of the goroutine"),
    column("p", "P", Unit::Count, Always, "number of the P"),
    column("open", "at end", Unit::Flag, WhenSet, "true where it still ran when the trace ended"),
    column("function", "start function", Unit::Function, Always, "function with which the goroutine starts"),
    column("made_at", "made at", Unit::Position, Always, "where it was made"),
];

#[rustfmt::skip]
pub(super) const STEALS: &[Column] = &[
    column("thief", "thief P", Unit::Count, Always, "P that stole"),
    column("victim", "victim P", Unit::Count, Always, "P that it stole from"),
    column("steals", "steals", Unit::Count, Always, "successful steals"),
    column("goroutines", "goroutines", Unit::Count, Always, "goroutines that they took"),
    column("runnext", "of runnext", Unit::Count, Always, "steals that took the goroutine to run next"),
    column("timers", "of timers", Unit::Count, WhenSet, "steals that ran timers"),
];

#[rustfmt::skip]
pub(super) const ANOMALIES: &[Column] = &[
    column("severity", "severity", Unit::Text, Always, "info, data loss or error"),
    column("count", "count", Unit::Count, Always, "how often"),
    column("kind", "kind", Unit::Text, Always, "what kind"),
    column("source", "seen by", Unit::Text, Never, "trace: the reader; analysis: the state machine"),
    column("first_offset", "first at", Unit::Count, Never, "byte of the trace where it was first seen"),
    column("first_event", "first at", Unit::Count, Never, "position of the event where it was first seen, in the order of cause"),
    column("first", "first at", Unit::Text, Always, "where it was first seen, in words"),
    column("meaning", "meaning", Unit::Text, Always, "what it means"),
];

#[rustfmt::skip]
pub(super) const GOROUTINES: &[Column] = &[
    column("id", "id", Unit::Count, Always, "number of the goroutine"),
    column("exec", "running", Unit::Time, Always, "time in state running"),
    column("sched_wait", "runnable", Unit::Time, Always, "time in state runnable"),
    column("syscall", "syscall", Unit::Time, WhenSet, "time in system calls, with its P"),
    column("syscall_block", "syscall, no P", Unit::Time, WhenSet, "time in system calls, after its P was taken"),
    column("block", "waiting", Unit::Time, Always, "time in state waiting"),
    column("unknown", "unknown", Unit::Time, WhenSet, "time of which the trace does not tell"),
    column("total", "life", Unit::Time, Always, "its life in the trace; the sum of the states"),
    column("born", "born", Unit::Time, Wide, "when it appeared, from the begin of the trace"),
    column("alive", "alive", Unit::Flag, Never, "true where it lived when the trace ended"),
    column("exit", "exit", Unit::Text, Wide, "how it ended, where the trace tells"),
    column("name", "start function", Unit::Function, Always, "function with which it starts"),
    column("made_at", "made at", Unit::Position, Always, "where it was made"),
];
