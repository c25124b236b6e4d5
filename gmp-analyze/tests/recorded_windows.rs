//! Traces that are begun and ended in the middle of a busy program: each has all that happened between its begin and
//! its end, once, and nothing else.
//!
//! Each worker makes one goroutine in a round, and knows the numbers of all that it made. Those of a trace must be some
//! of these in a row: at least those of the rounds that began after the trace did and were over before it ended, at
//! most those of the rounds that were not over before and had begun by then.

#![allow(clippy::unwrap_used)] // a test: where something is missing it fails

mod common;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{assert_nothing_wrong, report_with};
use gmp_analyze::machine::Sink;
use gmp_runtime::{JoinHandle, Runtime, blocking, go, sleep, trace, yield_now};
use gmp_trace::{Body, Event};

const WORKERS: usize = 6;
const WINDOWS: usize = 12;

/// Rounds of one worker.
#[derive(Default)]
struct Rounds {
    begun: AtomicU64,
    over: AtomicU64,
}

/// What all of them share.
#[derive(Default)]
struct Program {
    stop: AtomicBool,
    rounds: [Rounds; WORKERS],
}

impl Program {
    /// A worker; the numbers of the goroutines that it made.
    fn work(&self, number: usize) -> Vec<u64> {
        let rounds = &self.rounds[number];
        let mut made = Vec::new();
        while !self.stop.load(SeqCst) {
            rounds.begun.fetch_add(1, SeqCst);
            let child = go(|| ());
            made.push(child.goroutine().id());
            child.join().unwrap();
            yield_now();
            rounds.over.fetch_add(1, SeqCst);
            match made.len() % 64 {
                20 => sleep(Duration::from_micros(30)),
                40 => blocking(|| std::thread::sleep(Duration::from_micros(30))),
                _ => {}
            }
        }
        made
    }

    fn begun(&self) -> [u64; WORKERS] {
        std::array::from_fn(|worker| self.rounds[worker].begun.load(SeqCst))
    }

    fn over(&self) -> [u64; WORKERS] {
        std::array::from_fn(|worker| self.rounds[worker].over.load(SeqCst))
    }

    /// Records while each worker makes so many rounds; what was seen.
    fn record(&self, path: PathBuf, rounds: u64) -> Window {
        let over_before = self.over();
        trace::start(&path).unwrap();
        let begun_at_start = self.begun();
        let waits = Instant::now();
        while (0..WORKERS).any(|worker| self.over()[worker] < begun_at_start[worker] + rounds) {
            sleep(Duration::from_micros(200));
            assert!(waits.elapsed() < Duration::from_secs(60), "no progress");
        }
        let over_at_end = self.over();
        trace::stop().unwrap();
        Window {
            path,
            over_before,
            begun_at_start,
            over_at_end,
            begun_after: self.begun(),
        }
    }
}

/// How many rounds of each worker had begun, and were over, when a trace began and ended.
struct Window {
    path: PathBuf,
    over_before: [u64; WORKERS],
    begun_at_start: [u64; WORKERS],
    over_at_end: [u64; WORKERS],
    begun_after: [u64; WORKERS],
}

/// What a trace tells of goroutines, by their numbers.
#[derive(Default)]
struct Told {
    /// Whom each has made, in this order.
    made: HashMap<u64, Vec<u64>>,
    yields: HashMap<u64, u64>,
    starts: HashMap<u64, u64>,
    exits: HashMap<u64, u64>,
    preempted: HashMap<u64, u64>,
}

impl Sink for Told {
    fn event(&mut self, event: &Event) {
        let Some(goroutine) = event.g.map(|g| g.get()) else {
            return;
        };
        match event.body {
            Body::GoCreate { child, .. } => {
                self.made.entry(goroutine).or_default().push(child.get());
            }
            Body::GoYield { .. } => *self.yields.entry(goroutine).or_default() += 1,
            Body::GoStart { .. } => *self.starts.entry(goroutine).or_default() += 1,
            Body::GoPreempted { .. } => *self.preempted.entry(goroutine).or_default() += 1,
            Body::GoExit { .. } => *self.exits.entry(goroutine).or_default() += 1,
            _ => {}
        }
    }
}

/// Which of `all` are in `told`: from one to another, none left out and none twice. What is wrong otherwise.
fn in_a_row(
    all: &[u64],
    told: &[u64],
    first: RangeInclusive<u64>,
    end: RangeInclusive<u64>,
) -> Result<usize, String> {
    let begin = match told.first() {
        Some(one) => all.iter().position(|of_all| of_all == one),
        None => Some(*first.end() as usize),
    };
    let begin = begin.ok_or("one that was never made")?;
    let after = begin + told.len();
    if all.get(begin..after) != Some(told) {
        return Err(format!("from {begin}: {told:?} of {all:?}"));
    }
    if !first.contains(&(begin as u64)) || !end.contains(&(after as u64)) {
        return Err(format!("{begin} to {after}, not {first:?} to {end:?}"));
    }
    Ok(begin)
}

/// Compares a trace with what its workers know, by their numbers and those whom they made.
fn check(window: &Window, workers: &[(u64, Vec<u64>)]) {
    let (report, told) = report_with(&window.path, Told::default());
    assert_nothing_wrong(&report);
    std::fs::remove_file(&window.path).unwrap();
    let (mut made, mut yields) = (0, 0);
    for (number, (worker, all)) in workers.iter().enumerate() {
        let (begun, over) = (window.begun_at_start[number], window.over_at_end[number]);
        let list = told.made.get(worker).cloned().unwrap_or_default();
        let first = window.over_before[number]..=begun;
        let end = over..=window.begun_after[number];
        let begin = in_a_row(all, &list, first, end).unwrap_or_else(|wrong| panic!("{wrong}"));
        // Whoever was joined had run; the end of the last one may come after that.
        let joined = over as usize - begin;
        for (index, child) in list.iter().enumerate() {
            let of = |counts: &HashMap<u64, u64>| counts.get(child).copied().unwrap_or(0);
            let exits = of(&told.exits);
            assert!(exits <= 1 && (exits == 1 || index + 1 >= joined), "{exits}");
            // It goes on after each preemption.
            let (starts, turns) = (of(&told.starts), of(&told.preempted) + 1);
            assert!(
                starts <= turns && (starts == turns || index >= joined),
                "{starts}"
            );
        }
        let of_worker = told.yields.get(worker).copied().unwrap_or(0);
        // The first round may have begun before, and the last one not have come so far.
        assert!(of_worker.abs_diff(list.len() as u64) <= 1, "{of_worker}");
        made += list.len() as u64;
        yields += of_worker;
    }
    assert_eq!((report.summary.made, report.summary.yields), (made, yields));
}

#[test]
fn a_window_of_a_busy_program_has_all_of_it_once() {
    let mut compared = 0;
    for procs in [1, 2, 4] {
        let runtime = Runtime::builder().procs(procs).build().unwrap();
        // SAFETY: the program keeps nothing of a thread across a call that may park.
        let (windows, workers) = unsafe {
            runtime.run(|| {
                let program = Arc::new(Program::default());
                let workers: Vec<JoinHandle<Vec<u64>>> = (0..WORKERS)
                    .map(|number| {
                        let program = Arc::clone(&program);
                        go(move || program.work(number))
                    })
                    .collect();
                // Some that are frozen as often as not.
                let hogs: Vec<_> = (0..2)
                    .map(|_| {
                        let program = Arc::clone(&program);
                        go(move || {
                            while !program.stop.load(SeqCst) {
                                std::hint::spin_loop();
                            }
                        })
                    })
                    .collect();
                let windows: Vec<Window> = (0..WINDOWS)
                    .map(|window| {
                        let name = format!("gmp-window-{}-{procs}-{window}", std::process::id());
                        let path = std::env::temp_dir().join(name);
                        let seen = program.record(path, 5 + 20 * (window as u64 % 4));
                        sleep(Duration::from_micros(300 * window as u64));
                        seen
                    })
                    .collect();
                program.stop.store(true, SeqCst);
                hogs.into_iter().for_each(|hog| hog.join().unwrap());
                let ids = workers.into_iter().map(|worker| {
                    let id = worker.goroutine().id();
                    (id, worker.join().unwrap())
                });
                (windows, ids.collect::<Vec<_>>())
            })
        };
        for window in &windows {
            check(window, &workers);
            compared += 1;
        }
    }
    assert_eq!(compared, 3 * WINDOWS);
}

#[test]
fn a_loss_a_double_and_a_stranger_are_found() {
    let all = [3, 5, 8, 13, 21, 34];
    let look = |told: &[u64]| in_a_row(&all, told, 1..=2, 4..=5);
    assert_eq!(look(&[5, 8, 13]), Ok(1));
    assert_eq!(look(&[8, 13, 21]), Ok(2));
    let mut wrong = 0;
    for told in [
        &[5, 13, 21][..],
        &[5, 8, 8, 13],
        &[8, 5, 13],
        &[7, 8, 13],
        &[3, 5, 8, 13],
        &[5, 8],
        &[8, 13, 21, 34],
        &[],
    ] {
        assert!(look(told).is_err(), "{told:?}");
        wrong += 1;
    }
    assert_eq!(wrong, 8);
}
