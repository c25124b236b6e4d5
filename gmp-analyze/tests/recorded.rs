//! A program that counts what it does, recorded, and a report that must count the same.
//!
//! The program counts in its own code, never from the runtime's statistics:
//!
//! * a goroutine waits in `recv` of an unbuffered channel if and only if somebody else's `try_send`
//!   succeeds, and in `send` if and only if a `try_recv` does;
//! * each sleep is one wait;
//! * a read waits for the network if the byte is sent only when a dump says that it waits;
//! * a `join` waits if it begins well before the other goroutine's own last stamp;
//! * with two Ps, goroutines that are made by one that then only spins are all stolen: each says on which
//!   P it started.

#![allow(clippy::unwrap_used)] // a test: where something is missing it fails

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{assert_nothing_wrong, report_at};
use gmp_analyze::analysis::report::Report;
use gmp_analyze::machine::Cause;
use gmp_runtime::net::TcpStream;
use gmp_runtime::{Runtime, channel, go, proc_id, sleep, yield_now};
use gmp_trace::tables::Text;

const RUNS: usize = 10;

/// What happened, in the words of the program or of the report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    made: u64,
    ended: u64,
    yields: u64,
    receives_that_waited: u64,
    sends_that_waited: u64,
    sleeps: u64,
    joins_that_waited: u64,
    ready_by_goroutine: u64,
    ready_by_timer: u64,
    network_waits: u64,
    ready_by_netpoller: u64,
    stolen: u64,
}

impl Counts {
    fn of_report(report: &Report) -> Counts {
        let waits = |reason: Text| {
            let rows = report
                .blocking
                .iter()
                .filter(|row| row.reason_text == reason);
            rows.map(|row| row.waits.count()).sum()
        };
        let caused = |cause: Cause| {
            let rows = report.causes.iter().filter(|row| row.cause == cause);
            rows.map(|row| row.latency.count()).sum()
        };
        assert_eq!(
            caused(Cause::Created),
            report.summary.made,
            "every goroutine ran"
        );
        Counts {
            made: report.summary.made,
            // The trace is stopped by the main goroutine, which is alive, perhaps before the one that it
            // joined last has written its end.
            ended: report.summary.ended + report.summary.alive - 1,
            yields: report.summary.yields,
            receives_that_waited: waits(Text::CHAN_RECEIVE),
            sends_that_waited: waits(Text::CHAN_SEND),
            sleeps: waits(Text::SLEEP),
            joins_that_waited: waits(Text::JOIN),
            ready_by_goroutine: caused(Cause::Goroutine),
            ready_by_timer: caused(Cause::Timer),
            network_waits: waits(Text::IO_WAIT),
            ready_by_netpoller: caused(Cause::Netpoll),
            stolen: report.steals.total().goroutines,
        }
    }

    /// The names of the counts in which the two differ. `steals` says whether those are to be compared.
    fn differences(&self, other: &Counts, steals: bool) -> Vec<&'static str> {
        let mut names = Vec::new();
        for (name, mine, theirs) in [
            ("made", self.made, other.made),
            ("ended", self.ended, other.ended),
            ("yields", self.yields, other.yields),
            (
                "receives",
                self.receives_that_waited,
                other.receives_that_waited,
            ),
            ("sends", self.sends_that_waited, other.sends_that_waited),
            ("sleeps", self.sleeps, other.sleeps),
            ("joins", self.joins_that_waited, other.joins_that_waited),
            (
                "ready by goroutine",
                self.ready_by_goroutine,
                other.ready_by_goroutine,
            ),
            ("ready by timer", self.ready_by_timer, other.ready_by_timer),
            ("network waits", self.network_waits, other.network_waits),
            (
                "ready by netpoller",
                self.ready_by_netpoller,
                other.ready_by_netpoller,
            ),
            ("stolen", self.stolen, other.stolen),
        ] {
            if mine != theirs && (steals || name != "stolen") {
                names.push(name);
            }
        }
        names
    }
}

/// Runs `program` on `procs` Ps with a trace; what it counted and what the report on the trace says.
fn record(procs: usize, program: fn() -> Option<Counts>) -> Option<(Counts, Report)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("gmp-truth-{}-{number}.trace", std::process::id());
    let path = std::env::temp_dir().join(name);
    let runtime = Runtime::builder().procs(procs).build().unwrap();
    let file = path.clone();
    // SAFETY: the programs below keep nothing of a thread across a call that may park.
    let counts = unsafe {
        runtime.run(move || {
            gmp_runtime::trace::start(file).unwrap();
            let counts = program();
            gmp_runtime::trace::stop().unwrap();
            counts
        })
    };
    let report = report_at(&path);
    std::fs::remove_file(&path).unwrap();
    assert_nothing_wrong(&report);
    counts.map(|counts| (counts, report))
}

/// Creations, waits for each reason and wakes by each cause. `None` when the machine was so slow that the
/// program cannot tell whether a join waited.
fn waits() -> Option<Counts> {
    let mut counts = Counts::default();

    // Receives that wait.
    let (sender, receiver) = channel::<u64>(0);
    let receiving = go(move || (0..50).map(|_| receiver.recv().unwrap()).sum::<u64>());
    counts.made += 1;
    for i in 0..50 {
        while sender.try_send(i).is_err() {
            yield_now();
            counts.yields += 1;
        }
        counts.receives_that_waited += 1;
        counts.ready_by_goroutine += 1;
    }
    while !receiving.is_finished() {
        yield_now();
        counts.yields += 1;
    }
    assert_eq!(receiving.join().unwrap(), 50 * 49 / 2);

    // Sends that wait.
    let (sender, receiver) = channel::<u64>(0);
    let sending = go(move || (0..70).for_each(|i| sender.send(i).unwrap()));
    counts.made += 1;
    for i in 0..70 {
        let value = loop {
            match receiver.try_recv() {
                Ok(value) => break value,
                Err(_) => yield_now(),
            }
            counts.yields += 1;
        };
        assert_eq!(value, i);
        counts.sends_that_waited += 1;
        counts.ready_by_goroutine += 1;
    }
    while !sending.is_finished() {
        yield_now();
        counts.yields += 1;
    }
    sending.join().unwrap();

    // Sleeps, of goroutines and of this one.
    let sleepers: Vec<_> = (0..20)
        .map(|i| go(move || (0..3).for_each(|_| sleep(Duration::from_micros(100 + 10 * i)))))
        .collect();
    counts.made += 20;
    counts.sleeps += 60;
    while !sleepers.iter().all(|sleeper| sleeper.is_finished()) {
        sleep(Duration::from_millis(1));
        counts.sleeps += 1;
    }
    drop(sleepers);

    // Joins that wait.
    for _ in 0..3 {
        let sleeper = go(|| {
            sleep(Duration::from_millis(20));
            Instant::now()
        });
        counts.made += 1;
        counts.sleeps += 1;
        let before = Instant::now();
        let end = sleeper.join().unwrap();
        if end < before + Duration::from_millis(10) {
            return None;
        }
        counts.joins_that_waited += 1;
        counts.ready_by_goroutine += 1;
    }
    counts.ended = counts.made;
    counts.ready_by_timer = counts.sleeps;
    Some(counts)
}

/// Reads that wait for a socket: each byte is sent when the dump of all goroutines says that the reader waits
/// for it.
fn network_waits() -> Option<Counts> {
    const BYTES: u64 = 40;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut theirs = TcpStream::from_std(listener.accept().unwrap().0).unwrap();
    let got = Arc::new(AtomicU64::new(0));
    let counter = got.clone();
    let reader = go(move || {
        while theirs.read(&mut [0]).unwrap() == 1 {
            counter.fetch_add(1, Ordering::Release);
        }
    });
    let mut counts = Counts {
        made: 1,
        ended: 1,
        ..Counts::default()
    };
    for byte in 0..=BYTES {
        while !gmp_runtime::debug::dump().contains("[IO wait") {
            yield_now();
            counts.yields += 1;
        }
        counts.network_waits += 1;
        counts.ready_by_netpoller += 1;
        if byte == BYTES {
            // The end is something to wait for, too.
            ours.shutdown(std::net::Shutdown::Both).unwrap();
        } else {
            ours.write_all(&[7]).unwrap();
            while got.load(Ordering::Acquire) == byte {
                yield_now();
                counts.yields += 1;
            }
        }
    }
    while !reader.is_finished() {
        yield_now();
        counts.yields += 1;
    }
    reader.join().unwrap();
    Some(counts)
}

/// Goroutines that can only be stolen: with two Ps, this one spins until the other P has run them all. `None`
/// when that took so long that it was preempted, and they ran on its P.
fn steals() -> Option<Counts> {
    const MADE: u64 = 200;
    let here = proc_id().unwrap();
    let (elsewhere, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for _ in 0..MADE {
        let (elsewhere, done) = (elsewhere.clone(), done.clone());
        go(move || {
            if proc_id().unwrap() != here {
                elsewhere.fetch_add(1, Ordering::Relaxed);
            }
            done.fetch_add(1, Ordering::Release);
        });
    }
    while done.load(Ordering::Acquire) < MADE {
        std::hint::spin_loop();
    }
    let stolen = elsewhere.load(Ordering::Relaxed);
    (stolen == MADE).then(|| Counts {
        made: MADE,
        ended: MADE,
        stolen,
        ..Counts::default()
    })
}

#[test]
fn the_report_counts_what_the_program_counts() {
    let mut compared = 0;
    for procs in [1, 2, 4] {
        let mut left = RUNS;
        for _ in 0..10 * RUNS {
            let Some((program, report)) = record(procs, waits) else {
                continue;
            };
            let told = Counts::of_report(&report);
            assert_eq!(
                program.differences(&told, false),
                [""; 0],
                "{procs} Ps\nprogram {program:#?}\nreport  {told:#?}"
            );
            assert_eq!(report.summary.procs, procs as u64);
            compared += 1;
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    assert_eq!(compared, 3 * RUNS, "the machine is too slow to tell");
}

#[test]
fn waits_for_the_network_are_counted_exactly() {
    for procs in [1, 2, 4] {
        for _ in 0..RUNS {
            let (program, report) = record(procs, network_waits).unwrap();
            let told = Counts::of_report(&report);
            assert_eq!(
                program.differences(&told, false),
                [""; 0],
                "{procs} Ps\nprogram {program:#?}\nreport  {told:#?}"
            );
        }
    }
}

#[test]
fn forced_steals_are_counted_exactly() {
    let mut compared = 0;
    for _ in 0..10 * RUNS {
        let Some((program, report)) = record(2, steals) else {
            continue;
        };
        let told = Counts::of_report(&report);
        assert_eq!(
            program.differences(&told, true),
            [""; 0],
            "program {program:#?}\nreport  {told:#?}"
        );
        compared += 1;
        if compared == RUNS {
            return;
        }
    }
    panic!("the machine is too slow to tell: {compared} of {RUNS} compared");
}

#[test]
fn a_planted_miscount_is_found() {
    let (program, report) = record(1, waits).unwrap();
    let told = Counts::of_report(&report);
    #[allow(clippy::type_complexity)] // names, and what each plants
    let plants: [(&str, fn(&mut Counts)); 11] = [
        ("made", |c| c.made += 1),
        ("ended", |c| c.ended -= 1),
        ("yields", |c| c.yields += 1),
        ("receives", |c| c.receives_that_waited -= 1),
        ("sends", |c| c.sends_that_waited += 1),
        ("sleeps", |c| c.sleeps -= 1),
        ("joins", |c| c.joins_that_waited += 1),
        ("ready by goroutine", |c| c.ready_by_goroutine -= 1),
        ("ready by timer", |c| c.ready_by_timer += 1),
        ("network waits", |c| c.network_waits += 1),
        ("ready by netpoller", |c| c.ready_by_netpoller += 1),
    ];
    for (name, plant) in plants {
        let mut wrong = program;
        plant(&mut wrong);
        assert_eq!(wrong.differences(&told, false), [name]);
    }
    assert_eq!(
        Counts {
            stolen: program.stolen + 1,
            ..program
        }
        .differences(&program, true),
        ["stolen"]
    );
}
