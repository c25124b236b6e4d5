//! Figures about a runtime, by the names of Go's `runtime/metrics`.

use std::fmt;
use std::ops::Range;

use crate::sched::Sched;
use crate::sched::current::this_goroutine;
use crate::sched::g::GState;
use crate::stats::Durations;

/// The figures of the runtime of the calling goroutine, as they are at this moment.
///
/// | name | what |
/// |---|---|
/// | `/sched/gomaxprocs:threads` | the number of Ps |
/// | `/sched/goroutines:goroutines` | goroutines that have not ended |
/// | `/sched/goroutines-created:goroutines` | goroutines that were made since the start |
/// | `/sched/goroutines/not-in-go:goroutines` | those in system calls |
/// | `/sched/goroutines/runnable:goroutines` | those that wait for a P |
/// | `/sched/goroutines/running:goroutines` | those that run |
/// | `/sched/goroutines/waiting:goroutines` | those that wait for something else |
/// | `/sched/latencies:seconds` | how long goroutines were runnable before they ran; one in 64 is counted (Go: one in 8) |
/// | `/sched/pauses/stopping/gc:seconds` | nothing: a [collection cycle](crate::gc()) stops nobody |
/// | `/sched/pauses/stopping/other:seconds` | how long other [stops of the world](crate::debug::stop_the_world()) took from the request until it stood still |
/// | `/sched/pauses/total/gc:seconds` | nothing, as above |
/// | `/sched/pauses/total/other:seconds` | how long they took from the request until the world went on |
/// | `/sched/threads/total:threads` | threads that run goroutines, or could |
/// | `/sync/mutex/wait/total:seconds` | time that goroutines have waited in [`Mutex::lock`](crate::sync::Mutex::lock) |
///
/// Figures are read one after the other while the program goes on, so they may differ by what happened in
/// between.
///
/// Does not block; takes some nanoseconds a goroutine, since it looks at the state of each.
///
/// # Panics
/// On a thread that runs no goroutine.
///
/// # Examples
/// ```
/// # let runtime = gmp_runtime::Runtime::builder().procs(2).build()?;
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         let metrics = gmp_runtime::metrics();
///         assert_eq!(metrics.count("/sched/gomaxprocs:threads"), Some(2));
///         for (name, value) in metrics.iter() {
///             println!("{name} {value}");
///         }
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn metrics() -> Metrics {
    Metrics::of(this_goroutine().sched)
}

/// Figures about a runtime at one moment: see [`metrics`].
#[derive(Debug, Clone)]
pub struct Metrics {
    values: Vec<(&'static str, Value)>,
}

/// One figure.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Value {
    /// A number of things.
    Count(u64),
    /// A sum of time, in seconds.
    Seconds(f64),
    /// How often times of which length were seen.
    Histogram(Histogram),
}

impl Metrics {
    fn of(sched: &Sched) -> Metrics {
        use Value::{Count, Seconds};

        let states = States::count(sched);
        let latencies = Durations::sum(sched.made_procs().map(|p| &p.latencies));
        let values = vec![
            (
                "/sched/gomaxprocs:threads",
                Count(u64::from(sched.procs.wanted())),
            ),
            ("/sched/goroutines:goroutines", Count(states.sum())),
            (
                "/sched/goroutines-created:goroutines",
                Count(sched.goroutines_created()),
            ),
            (
                "/sched/goroutines/not-in-go:goroutines",
                Count(states.not_in_go),
            ),
            (
                "/sched/goroutines/runnable:goroutines",
                Count(states.runnable),
            ),
            (
                "/sched/goroutines/running:goroutines",
                Count(states.running),
            ),
            (
                "/sched/goroutines/waiting:goroutines",
                Count(states.waiting),
            ),
            (
                "/sched/latencies:seconds",
                Value::Histogram(Histogram(latencies)),
            ),
            ("/sched/pauses/stopping/gc:seconds", durations(&[])),
            (
                "/sched/pauses/stopping/other:seconds",
                durations(&[sched.world.stopping_times()]),
            ),
            ("/sched/pauses/total/gc:seconds", durations(&[])),
            (
                "/sched/pauses/total/other:seconds",
                durations(&[sched.world.pauses()]),
            ),
            (
                "/sched/threads/total:threads",
                Count(sched.m_count() as u64),
            ),
            (
                "/sync/mutex/wait/total:seconds",
                Seconds(sched.mutex_wait_ns() as f64 / 1e9),
            ),
        ];
        Metrics { values }
    }

    /// Every figure with its name, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.values.iter().map(|(name, value)| (*name, value))
    }

    /// The figure of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.iter()
            .find_map(|(of, value)| (of == name).then_some(value))
    }

    /// The figure of this name, if it is a count.
    pub fn count(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Count(count) => Some(*count),
            Value::Seconds(_) | Value::Histogram(_) => None,
        }
    }
}

/// What was counted in any of `all`.
fn durations(all: &[&Durations]) -> Value {
    Value::Histogram(Histogram(Durations::sum(all.iter().copied())))
}

impl fmt::Display for Value {
    /// A count, seconds, or of a histogram the number of times and some quantiles.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(count) => write!(f, "{count}"),
            Value::Seconds(seconds) => write!(f, "{seconds}"),
            Value::Histogram(histogram) => {
                write!(f, "count={}", histogram.count())?;
                for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
                    if let Some(seconds) = histogram.quantile(q) {
                        write!(f, " {name}={seconds}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// How often times of which length were seen.
#[derive(Debug, Clone)]
pub struct Histogram(::histogram::Histogram);

impl Histogram {
    /// The classes in which something was counted, from short to long: seconds from and to, and how often.
    pub fn buckets(&self) -> impl Iterator<Item = (Range<f64>, u64)> {
        self.0
            .iter()
            .filter(|bucket| bucket.count() > 0)
            .map(|bucket| {
                let (start, end) = (bucket.start() as f64, bucket.end() as f64 + 1.0);
                (start / 1e9..end / 1e9, bucket.count())
            })
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.buckets().map(|(_, count)| count).sum()
    }

    /// The time in seconds that the part `q` (0 to 1) of all does not exceed, rounded up by at most 12.5 %;
    /// `None` if nothing was counted, or `q` is no such part.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        let wanted = (q * self.count() as f64).ceil().max(1.0);
        let mut seen = 0;
        self.buckets().find_map(|(range, count)| {
            seen += count;
            (seen as f64 >= wanted).then_some(range.end)
        })
    }
}

/// How many goroutines are in which state.
#[derive(Debug, Default)]
struct States {
    not_in_go: u64,
    runnable: u64,
    running: u64,
    waiting: u64,
}

impl States {
    fn count(sched: &Sched) -> States {
        let mut states = States::default();
        for index in 0..sched.table.len() {
            let state = sched.table.get(index).state();
            if state == GState::Runnable as u32 || state == GState::Preempted as u32 {
                states.runnable += 1;
            } else if state == GState::Running as u32 {
                states.running += 1;
            } else if state == GState::Waiting as u32 {
                states.waiting += 1;
            } else if state == GState::Syscall as u32 {
                states.not_in_go += 1;
            }
        }
        states
    }

    fn sum(&self) -> u64 {
        self.not_in_go + self.runnable + self.running + self.waiting
    }
}
