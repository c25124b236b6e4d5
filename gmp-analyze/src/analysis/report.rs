//! The report: everything the collector summed up, with names, in the order in which it is shown.

use super::collect::{Collections, Collector, Preempted, SafePoint};
use super::distribution::Distribution;
use super::findings::{self, Finding};
use super::goroutines::Life;
use super::groups::Group;
use super::latency::CauseLatency;
use super::names;
use super::parallelism::Parallelism;
use super::rescues::Rescues;
use super::runs::Run;
use super::steal::Steals;
use super::utilization::ProcTime;
use crate::diag::Anomaly;
use crate::input::TraceFacts;
use crate::machine::{GoroutineState, Outcome, Place, ProcState, ThreadState};
use crate::units;
use gmp_trace::event::ExitHow;
use gmp_trace::id::{GId, ObjectId};
use gmp_trace::tables::{Tables, Text};
use gmp_trace::time::Nanos;

/// A function and where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Name {
    /// The function; empty where the trace does not tell.
    pub function: String,
    /// `file:line:column`; empty where the trace does not tell.
    pub position: String,
}

impl Name {
    fn of(tables: &Tables, place: Place) -> Name {
        Name {
            function: names::function(tables, place),
            position: names::position(tables, place),
        }
    }

    /// The name of a group made at `place`; `existed` where all of it existed before the trace.
    pub(super) fn of_group(tables: &Tables, place: Place, existed: bool) -> Name {
        let mut name = Name::of(tables, place);
        if name.function.is_empty() {
            let stand_in = if existed && place == Place::Unknown {
                names::BEFORE_TRACE
            } else {
                names::UNKNOWN_FUNCTION
            };
            stand_in.clone_into(&mut name.function);
        }
        name
    }
}

/// One P's row.
#[derive(Clone, Debug)]
pub struct ProcRow {
    /// The P and its time in each state.
    pub times: ProcTime,
    /// Goroutines that began to run on it.
    pub switches: u64,
    /// Goroutines that it stole.
    pub stolen: u64,
    /// Goroutines that were stolen from it.
    pub lost: u64,
}

/// One group's row.
#[derive(Clone, Debug)]
pub struct GroupRow {
    /// The start function, and where its goroutines were made.
    pub name: Name,
    /// The sums.
    pub group: Group,
}

/// One blocking site's row.
#[derive(Clone, Debug)]
pub struct BlockingRow {
    /// Why, in Go's words.
    pub reason: String,
    /// The same, as a number of the trace's tables.
    pub reason_text: Text,
    /// Where.
    pub name: Name,
    /// The waits.
    pub waits: Distribution,
    /// The longest wait that ended.
    pub longest_ended: Nanos,
    /// Goroutines that wait when the trace ends.
    pub still: u64,
}

/// A wait that the end of the trace cut.
#[derive(Clone, Debug)]
pub struct OpenWaitRow {
    /// Which goroutine.
    pub goroutine: GId,
    /// Its row in [`Report::groups`].
    pub group: usize,
    /// Its row in [`Report::blocking`].
    pub site: usize,
    /// What it waits for.
    pub object: Option<ObjectId>,
    /// Since when.
    pub since: Nanos,
}

/// One of the longest runs.
#[derive(Clone, Debug)]
pub struct RunRow {
    /// The run.
    pub run: Run,
    /// The goroutine's group.
    pub name: Name,
}

/// One goroutine.
#[derive(Clone, Debug)]
pub struct GoroutineRow {
    /// Which.
    pub id: GId,
    /// Its start function, and where it was made.
    pub name: Name,
    /// When it appeared, from the begin of the trace.
    pub born: Nanos,
    /// True where it lived when the trace ended.
    pub alive: bool,
    /// How it ended, where the trace tells.
    pub how: Option<ExitHow>,
    /// Its life; the sum of all its states.
    pub total: Nanos,
    /// Time in each state, by the state's number.
    pub time: [Nanos; GoroutineState::COUNT],
    /// Waiting time by reason.
    pub waits: Vec<(String, Nanos)>,
}

/// What the scheduler itself cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Overhead {
    /// The trace has no measured switches.
    NotInTrace,
    /// From the switches that were measured.
    Estimate {
        /// How many were measured.
        samples: u64,
        /// Their mean.
        mean: Nanos,
        /// The mean times all switches.
        time: Nanos,
        /// That time as a share of the time in which Ps ran or scheduled.
        share: f64,
    },
}

/// Sums over the whole trace.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Time of the first event.
    pub begin: Nanos,
    /// From the first event to the last.
    pub span: Nanos,
    /// Events.
    pub events: u64,
    /// Ps that were there at some time.
    pub procs: u64,
    /// Threads that did something.
    pub threads: u64,
    /// Goroutines that existed before their first event.
    pub existed: u64,
    /// Goroutines made.
    pub made: u64,
    /// Goroutines ended.
    pub ended: u64,
    /// Goroutines alive at the end.
    pub alive: u64,
    /// The most that lived at one moment.
    pub peak: u64,
    /// P-time in each state, summed over Ps, by the state's number.
    pub proc_time: [Nanos; ProcState::COUNT],
    /// Time that threads spent looking for work that they did not know of.
    pub spinning: Nanos,
    /// The mean number of goroutines that ran at once.
    pub parallelism: f64,
    /// The mean number of goroutines that wanted a P.
    pub runnable: f64,
    /// What the scheduler cost.
    pub overhead: Overhead,
    /// Goroutines that began to run.
    pub switches: u64,
    /// Goroutines that gave up their P by their own will.
    pub yields: u64,
    /// Goroutines preempted.
    pub preempted: Preempted,
    /// System calls.
    pub syscalls: u64,
    /// Events that were lost.
    pub lost_events: u64,
    /// How late timers fired.
    pub timer_lateness: Distribution,
    /// How long the world was stopped.
    pub stops: Distribution,
    /// How long it took from the request until the world stood still.
    pub stop_delays: Distribution,
    /// Who came last in the stop that took longest to stand still, where the trace tells.
    pub last_to_stop: Option<SafePoint>,
    /// Collection cycles.
    pub collections: Collections,
}

impl Summary {
    /// The P-time in which there was a P to use: all but *absent*.
    pub fn available(&self) -> Nanos {
        sum(self.proc_time) - self.of(ProcState::Absent)
    }

    /// The P-time in `state`.
    pub fn of(&self, state: ProcState) -> Nanos {
        self.proc_time[state as usize]
    }

    /// The time of the last event.
    pub fn end(&self) -> Nanos {
        self.begin + self.span
    }
}

/// The whole report.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the trace says of itself.
    pub trace: TraceFacts,
    /// Sums over the whole trace.
    pub summary: Summary,
    /// What stands out, the worst first.
    pub findings: Vec<Finding>,
    /// Ps in the order of their numbers.
    pub procs: Vec<ProcRow>,
    /// Groups, those that ran longest first.
    pub groups: Vec<GroupRow>,
    /// Scheduling latency.
    pub latency: Distribution,
    /// The same split by cause, the largest total first.
    pub causes: Vec<CauseLatency>,
    /// Blocking sites, the largest total first.
    pub blocking: Vec<BlockingRow>,
    /// Waits that the end of the trace cut.
    pub open_waits: Vec<OpenWaitRow>,
    /// Steals and queues.
    pub steals: Steals,
    /// Ps that were asked for, taken and handed on.
    pub rescues: Rescues,
    /// Lengths of runs.
    pub run_lengths: Distribution,
    /// The longest runs.
    pub longest_runs: Vec<RunRow>,
    /// Running Ps and waiting work over time.
    pub parallelism: Parallelism,
    /// What is wrong with the trace or could not be told from it.
    pub anomalies: Vec<Anomaly>,
    /// Every goroutine, where it was asked for.
    pub goroutines: Option<Vec<GoroutineRow>>,
}

impl Report {
    /// The report of a trace that has been read to its end. `reader_anomalies` are those that its
    /// reader counted.
    pub fn new(
        outcome: Outcome<Collector>,
        trace: TraceFacts,
        tables: &Tables,
        reader_anomalies: Vec<Anomaly>,
    ) -> Report {
        let mut anomalies = reader_anomalies;
        anomalies.extend(outcome.counts.to_anomalies());
        anomalies.sort_by(|a, b| (b.severity, a.source).cmp(&(a.severity, b.source)));
        let summary = summarize(&outcome);
        let collector = outcome.sink;
        let group_names: Vec<Name> = collector
            .groups
            .groups()
            .iter()
            .map(|group| group_name(tables, group))
            .collect();
        let (groups, group_rows) = group_rows(&collector, &group_names);
        let (blocking, site_rows) = blocking_rows(&collector, tables);
        let open_waits = collector.blocking.open();
        let mut report = Report {
            trace,
            procs: proc_rows(&collector),
            groups,
            latency: collector.latencies.overall(),
            causes: collector.latencies.by_cause(),
            blocking,
            open_waits: open_waits
                .iter()
                .map(|wait| OpenWaitRow {
                    goroutine: wait.goroutine,
                    group: group_rows[wait.group],
                    site: site_rows[wait.site],
                    object: wait.object,
                    since: wait.since,
                })
                .collect(),
            run_lengths: collector.runs.lengths().clone(),
            longest_runs: collector
                .runs
                .longest()
                .into_iter()
                .map(|run| RunRow {
                    run,
                    name: group_names[run.group].clone(),
                })
                .collect(),
            parallelism: collector.parallelism,
            steals: collector.steals,
            rescues: collector.rescues,
            anomalies,
            goroutines: collector.lives.map(|lives| {
                let lives = lives.into_lives();
                lives
                    .into_iter()
                    .map(|life| goroutine_row(life, &group_names, tables, summary.begin))
                    .collect()
            }),
            summary,
            findings: Vec::new(),
        };
        report.findings = findings::all(&report);
        report
    }
}

fn summarize(outcome: &Outcome<Collector>) -> Summary {
    let collector = &outcome.sink;
    let mut proc_time = [Nanos::ZERO; ProcState::COUNT];
    let procs = collector.utilization.procs();
    for row in &procs {
        for (sum, time) in proc_time.iter_mut().zip(row.time) {
            *sum = *sum + time;
        }
    }
    let groups = collector.groups.groups();
    let busy = proc_time[ProcState::Running as usize] + proc_time[ProcState::Scheduler as usize];
    let tally = &collector.tally;
    Summary {
        begin: outcome.begin,
        span: outcome.end.since(outcome.begin),
        events: tally.events,
        procs: procs
            .iter()
            .filter(|row| row.of(ProcState::Absent) < span_of(row))
            .count() as u64,
        threads: collector.utilization.threads(),
        existed: groups.iter().map(|group| group.existed).sum(),
        made: groups.iter().map(|group| group.made).sum(),
        ended: groups.iter().map(|group| group.ended).sum(),
        alive: groups.iter().map(|group| group.alive).sum(),
        peak: u64::from(outcome.peak_goroutines),
        proc_time,
        spinning: collector.utilization.thread_time(ThreadState::Spinning),
        parallelism: collector.parallelism.mean_running(),
        runnable: collector.parallelism.mean_runnable(),
        overhead: overhead(&tally.samples, tally.switches.total(), busy),
        switches: tally.switches.total(),
        yields: tally.yields,
        preempted: tally.preempted,
        syscalls: tally.syscalls,
        lost_events: tally.lost,
        timer_lateness: tally.timer_lateness.clone(),
        stops: tally.stops.clone(),
        stop_delays: tally.stop_delays.clone(),
        last_to_stop: tally.last_to_stop,
        collections: tally.collections.clone(),
    }
}

fn span_of(row: &ProcTime) -> Nanos {
    sum(row.time)
}

/// The sum of `times`; the largest time where it would be larger.
pub(crate) fn sum(times: impl IntoIterator<Item = Nanos>) -> Nanos {
    times.into_iter().fold(Nanos::ZERO, |sum, time| sum + time)
}

fn overhead(samples: &Distribution, switches: u64, busy: Nanos) -> Overhead {
    if samples.count() == 0 {
        return Overhead::NotInTrace;
    }
    let exact_mean = samples.total().0 as f64 / samples.count() as f64;
    let time = Nanos((exact_mean * switches as f64) as i64);
    Overhead::Estimate {
        samples: samples.count(),
        mean: samples.mean(),
        time,
        share: units::share(time, busy).min(1.0),
    }
}

fn proc_rows(collector: &Collector) -> Vec<ProcRow> {
    let row = |times: ProcTime| {
        let (stolen, lost) = collector.steals.in_and_out(times.proc);
        ProcRow {
            switches: collector.tally.switches.of(times.proc),
            stolen,
            lost,
            times,
        }
    };
    collector.utilization.procs().into_iter().map(row).collect()
}

fn group_name(tables: &Tables, group: &Group) -> Name {
    let existed = group.existed > 0 && group.made == 0;
    Name::of_group(tables, group.made_at, existed)
}

/// The rows, and for each number of a group its row.
fn group_rows(collector: &Collector, group_names: &[Name]) -> (Vec<GroupRow>, Vec<usize>) {
    let groups = collector.groups.groups();
    let order = order_by(groups.len(), |number| {
        let group = &groups[number];
        let running = group.of(GoroutineState::Running);
        (
            std::cmp::Reverse((running, group.life, group.goroutines())),
            &group_names[number],
        )
    });
    let rows = order
        .iter()
        .map(|&number| GroupRow {
            name: group_names[number].clone(),
            group: groups[number].clone(),
        })
        .collect();
    (rows, places(&order))
}

/// The rows, and for each number of a site its row.
fn blocking_rows(collector: &Collector, tables: &Tables) -> (Vec<BlockingRow>, Vec<usize>) {
    let sites = collector.blocking.sites();
    let order = order_by(sites.len(), |number| {
        let site = &sites[number];
        let total = (site.waits.total(), site.waits.count());
        (
            std::cmp::Reverse(total),
            site.reason,
            Name::of(tables, site.place),
        )
    });
    let row = |&number: &usize| {
        let site = &sites[number];
        BlockingRow {
            reason: names::reason(tables, site.reason),
            reason_text: site.reason,
            name: Name::of(tables, site.place),
            waits: site.waits.clone(),
            longest_ended: site.longest_ended,
            still: site.still,
        }
    };
    (order.iter().map(row).collect(), places(&order))
}

/// The numbers below `count`, sorted by what `key` gives.
fn order_by<K: Ord>(count: usize, key: impl Fn(usize) -> K) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_cached_key(|&number| key(number));
    order
}

/// For each number its place in `order`.
fn places(order: &[usize]) -> Vec<usize> {
    let mut places = vec![0; order.len()];
    for (place, &number) in order.iter().enumerate() {
        places[number] = place;
    }
    places
}

fn goroutine_row(life: Life, groups: &[Name], tables: &Tables, begin: Nanos) -> GoroutineRow {
    let mut name = groups[life.group].clone();
    if name.function == names::BEFORE_TRACE
        && let Some(start) = life.seen_at.and_then(|stack| tables.stack(stack).last())
        && !tables.text(start.function).is_empty()
    {
        tables.text(start.function).clone_into(&mut name.function);
    }
    GoroutineRow {
        id: life.goroutine,
        name,
        born: life.born.since(begin),
        alive: life.alive,
        how: life.how,
        total: life.end.since(life.born),
        time: life.time,
        waits: life
            .waits
            .into_iter()
            .map(|(reason, time)| (names::reason(tables, reason), time))
            .collect(),
    }
}
