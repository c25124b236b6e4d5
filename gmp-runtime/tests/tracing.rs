//! Recording: what the trace says is what the program did, however the recording ends.

#![cfg(feature = "trace")]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use common::{Directory, PROCS, child, child_case, run, stderr, succeed};
use gmp_runtime::{
    channel, current, go, lock_os_thread, metrics, park, sleep, trace, unlock_os_thread, yield_now,
};
use gmp_trace::anomaly::{AnomalyKind, Severity};
use gmp_trace::event::ExitHow;
use gmp_trace::{Body, Reader};

/// What is counted of a trace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    events: u64,
    creates: u64,
    starts: u64,
    returned: u64,
    panicked: u64,
    cancelled: u64,
    yields: u64,
    readies: u64,
    parks: BTreeMap<String, u64>,
    statuses: u64,
    generations: u64,
}

fn count(mut reader: Reader) -> (Counted, Reader) {
    let mut counted = Counted::default();
    reader
        .for_each_event(|event, tables| {
            counted.events += 1;
            match event.body {
                Body::GoCreate { .. } => counted.creates += 1,
                Body::GoStart { .. } => counted.starts += 1,
                Body::GoExit { how } => match how {
                    Some(ExitHow::Returned) => counted.returned += 1,
                    Some(ExitHow::Panicked) => counted.panicked += 1,
                    Some(ExitHow::Cancelled) => counted.cancelled += 1,
                    Some(ExitHow::Goexit) | None => {}
                },
                Body::GoYield { .. } => counted.yields += 1,
                Body::GoReady { .. } => counted.readies += 1,
                Body::GoPark { reason, .. } => {
                    let reason = tables.text(reason).to_owned();
                    *counted.parks.entry(reason).or_default() += 1;
                }
                Body::GoStatus { .. } => counted.statuses += 1,
                _ => {}
            }
        })
        .unwrap();
    counted.generations = reader.info().generations;
    (counted, reader)
}

/// Reads a trace that has nothing wrong with it.
#[track_caller]
fn read_clean(path: &Path) -> Counted {
    let reader = gmp_trace::open(BufReader::new(File::open(path).unwrap())).unwrap();
    let (counted, reader) = count(reader);
    let anomalies: Vec<String> = reader.anomalies().iter().map(ToString::to_string).collect();
    let worst = reader.anomalies().worst();
    assert!(
        worst.is_none_or(|worst| worst < Severity::DataLoss),
        "{anomalies:#?}"
    );
    assert_eq!(reader.info().finished, Some(true));
    assert_eq!(reader.info().lost_events, 0);
    counted
}

const GOROUTINES: &str = "/sched/goroutines:goroutines";

/// How many goroutines wait.
fn waiting() -> u64 {
    let count = metrics().count("/sched/goroutines/waiting:goroutines");
    count.unwrap()
}

/// Some of everything, of which the counts are known: each goroutine yields, sends, receives, sleeps and
/// parks so often.
const WORKERS: u64 = 40;
const PARKERS: u64 = 5;

fn work() {
    let (sender, receiver) = channel::<u64>(0);
    let parkers: Vec<_> = (0..PARKERS).map(|_| go(park)).collect();
    // Who is woken before it waits does not park.
    while waiting() < PARKERS {
        yield_now();
    }
    for i in 0..WORKERS {
        let sender = sender.clone();
        go(move || {
            for n in 0..10 {
                yield_now();
                sender.send(n).unwrap();
            }
            if i % 4 == 0 {
                sleep(Duration::from_micros(50 * i));
            }
            if i % 10 == 0 {
                std::panic::resume_unwind(Box::new(()));
            }
        });
    }
    drop(sender);
    assert_eq!(receiver.iter().sum::<u64>(), WORKERS * 45);
    for parker in &parkers {
        parker.goroutine().unpark();
    }
    parkers
        .into_iter()
        .for_each(|parker| parker.join().unwrap());
}

#[test]
fn a_recording_says_what_the_program_did() {
    let directory = Directory::new("recording");
    for procs in PROCS {
        let path = directory.file(&format!("{procs}.trace"));
        let summary = run(procs, || {
            trace::start(&path).unwrap();
            work();
            trace::stop().unwrap()
        });
        let counted = read_clean(&path);
        assert_eq!(summary.lost, 0);
        assert_eq!(counted.creates, WORKERS + PARKERS);
        // A worker that has sent its last value may still be on its way out when the trace ends.
        assert!(counted.returned + counted.panicked <= WORKERS + PARKERS);
        assert!(counted.returned >= PARKERS, "{counted:?}");
        assert!(counted.yields >= WORKERS * 10, "{counted:?}");
        let known: Vec<&str> = counted.parks.keys().map(String::as_str).collect();
        assert!(
            known.iter().all(
                |reason| ["chan send", "chan receive", "sleep", "join", "park"].contains(reason)
            ),
            "{known:?}"
        );
    }
}

#[test]
fn a_trace_can_be_started_again_in_the_same_run() {
    let directory = Directory::new("twice");
    for procs in PROCS {
        let paths: Vec<_> = (0..4)
            .map(|i| directory.file(&format!("{procs}-{i}.trace")))
            .collect();
        run(procs, || {
            assert!(trace::stop().is_err(), "nothing is recorded");
            let (sender, receiver) = channel::<()>(0);
            // These are there, running or waiting, when each of the recordings begins.
            let stop = Arc::new(AtomicBool::new(false));
            let waiting = go(move || receiver.iter().count());
            let seen = Arc::clone(&stop);
            let yielding = go(move || {
                while !seen.load(SeqCst) {
                    yield_now();
                }
            });
            for path in &paths {
                work();
                trace::start(path).unwrap();
                let again = trace::start(path).unwrap_err();
                assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
                work();
                sender.send(()).unwrap();
                trace::stop().unwrap();
                work();
            }
            stop.store(true, SeqCst);
            drop(sender);
            assert_eq!(waiting.join().unwrap(), 4);
            yielding.join().unwrap();
        });
        for path in &paths {
            let counted = read_clean(path);
            assert_eq!(counted.creates, WORKERS + PARKERS);
            assert!(counted.statuses >= 3, "{counted:?}");
        }
    }
}

/// Many short recordings, begun and ended at any moment of a busy scheduler.
#[test]
fn recordings_begin_and_end_at_any_moment() {
    let directory = Directory::new("moments");
    for procs in PROCS {
        for round in 0..15 {
            let path = directory.file(&format!("{procs}-{round}.trace"));
            run(procs, || {
                let stop = Arc::new(AtomicBool::new(false));
                for _ in 0..4 {
                    let (ping, pings) = channel::<()>(0);
                    let (pong, pongs) = channel::<()>(0);
                    let seen = Arc::clone(&stop);
                    go(move || while pings.recv().is_ok() && pong.send(()).is_ok() {});
                    go(move || {
                        let mut rounds = 0;
                        while !seen.load(SeqCst) {
                            ping.send(()).unwrap();
                            pongs.recv().unwrap();
                            rounds += 1;
                            if rounds % 7 == 0 {
                                go(yield_now).join().unwrap();
                            }
                            if rounds % 50 == 0 {
                                sleep(Duration::from_micros(30));
                            }
                        }
                    });
                }
                (0..round * 3).for_each(|_| yield_now());
                trace::start(&path).unwrap();
                (0..200).for_each(|_| yield_now());
                trace::stop().unwrap();
                stop.store(true, SeqCst);
            });
            let counted = read_clean(&path);
            assert!(counted.yields >= 199, "{counted:?}");
        }
    }
}

/// A recording ends while the only goroutine that is awake is locked to its thread, and everybody else sleeps (go#39004).
#[test]
fn a_recording_ends_beside_nobody_but_a_locked_goroutine() {
    const ROUNDS: u64 = 20;
    let directory = Directory::new("locked");
    for procs in PROCS {
        let path = directory.file(&format!("{procs}.trace"));
        let (sender, receiver) = channel::<u64>(0);
        run(procs, || {
            let taker = go(move || receiver.iter().sum::<u64>());
            lock_os_thread();
            let asleep = || {
                while waiting() < 1 {
                    yield_now();
                }
            };
            asleep();
            for round in 0..ROUNDS {
                trace::start(&path).unwrap();
                // Woken on another thread, and asleep again when it ends.
                sender.send(round).unwrap();
                asleep();
                trace::stop().unwrap();
                let counted = read_clean(&path);
                assert!(counted.parks.values().sum::<u64>() >= 1, "{counted:?}");
                std::fs::remove_file(&path).unwrap();
            }
            drop(sender);
            assert_eq!(taker.join().unwrap(), ROUNDS * (ROUNDS - 1) / 2);
            unlock_os_thread();
        });
    }
}

#[test]
fn the_environment_records_a_whole_run() {
    const NAME: &str = "the_environment_records_a_whole_run";
    if let Some(case) = child_case() {
        run(case.parse().unwrap(), || {
            work();
            // Some are left at the end.
            for i in 0..20 {
                go(move || match i % 2 {
                    0 => park(),
                    _ => sleep(Duration::from_secs(1_000)),
                });
            }
            // The workers have ended by then.
            while metrics().count(GOROUTINES) > Some(20 + 1) || waiting() < 20 {
                yield_now();
            }
        });
        return;
    }
    let directory = Directory::new("environment");
    for procs in PROCS {
        let path = directory.file(&format!("{procs}.trace"));
        let output = succeed(
            child(NAME, &procs.to_string()).env("GMPDEBUG", format!("trace={}", path.display())),
        );
        assert!(!stderr(&output).contains("gmp: "), "{}", stderr(&output));
        let counted = read_clean(&path);
        let workers = WORKERS + PARKERS;
        // Main is one, too.
        assert_eq!(counted.creates, workers + 20 + 1);
        assert_eq!(counted.returned, workers - WORKERS / 10 + 1);
        assert_eq!((counted.panicked, counted.cancelled), (WORKERS / 10, 20));
        assert_eq!(counted.parks["park"], PARKERS + 10);
    }
}

/// Records until it is killed.
fn record_for_ever() {
    run(2, || {
        println!("begun");
        loop {
            work();
        }
    });
}

#[test]
fn what_was_recorded_survives_a_kill() {
    const NAME: &str = "what_was_recorded_survives_a_kill";
    if child_case().is_some() {
        record_for_ever();
        return;
    }
    let directory = Directory::new("kill");
    for round in 0..3_u32 {
        let path = directory.file(&format!("{round}.trace"));
        let mut process = child(NAME, "run")
            .env("GMPDEBUG", format!("trace={}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut begun = [0; 200];
        let mut out = process.stdout.take().unwrap();
        let mut seen = String::new();
        while !seen.contains("begun") {
            let n = out.read(&mut begun).unwrap();
            assert!(n > 0, "{seen}");
            seen.push_str(&String::from_utf8_lossy(&begun[..n]));
        }
        thread::sleep(Duration::from_millis(u64::from(150 + 450 * round)));
        common::kill(process);
        let reader = gmp_trace::open(BufReader::new(File::open(&path).unwrap())).unwrap();
        let (counted, reader) = count(reader);
        let anomalies: Vec<String> = reader.anomalies().iter().map(ToString::to_string).collect();
        assert_eq!(reader.info().finished, Some(false));
        assert_eq!(reader.anomalies().count(AnomalyKind::NotFinished), 1);
        assert!(
            reader.anomalies().worst() < Some(Severity::Error),
            "{anomalies:#?}"
        );
        assert!(counted.creates > 0 && counted.events > 1_000, "{counted:?}");
    }
}

#[test]
fn a_pipe_gets_the_trace_as_a_stream() {
    const NAME: &str = "a_pipe_gets_the_trace_as_a_stream";
    if child_case().is_some() {
        run(2, || (0..10).for_each(|_| work()));
        return;
    }
    let directory = Directory::new("pipe");
    let path = directory.file("pipe");
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the name is a string that ends in zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let process = child(NAME, "run")
        .env("GMPDEBUG", format!("trace={}", path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let reader = gmp_trace::open(BufReader::new(File::open(&path).unwrap())).unwrap();
    let (counted, reader) = count(reader);
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("gmp: "), "{}", stderr(&output));
    let anomalies: Vec<String> = reader.anomalies().iter().map(ToString::to_string).collect();
    assert!(
        reader.anomalies().worst() < Some(Severity::DataLoss),
        "{anomalies:#?}"
    );
    assert_eq!(reader.info().finished, Some(true));
    assert_eq!(counted.creates, 10 * (WORKERS + PARKERS) + 1);
}

/// The reader goes away: the program goes on, and says at its end that the trace is not whole.
#[test]
fn a_pipe_without_its_reader_does_not_stop_the_program() {
    const NAME: &str = "a_pipe_without_its_reader_does_not_stop_the_program";
    if child_case().is_some() {
        run(2, || (0..60).for_each(|_| work()));
        println!("ran");
        return;
    }
    let directory = Directory::new("broken-pipe");
    let path = directory.file("pipe");
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the name is a string that ends in zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let process = child(NAME, "run")
        .env("GMPDEBUG", format!("trace={}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = File::open(&path).unwrap();
    let mut header = [0; 64];
    reader.read_exact(&mut header).unwrap();
    drop(reader);
    let output = process.wait_with_output().unwrap();
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("ran"));
    assert_eq!(
        text.matches("gmp: the trace is not whole: ").count(),
        1,
        "{text}"
    );
}

#[test]
fn a_file_that_cannot_be_made_is_one_warning() {
    const NAME: &str = "a_file_that_cannot_be_made_is_one_warning";
    if child_case().is_some() {
        run(2, work);
        println!("ran");
        return;
    }
    let mut checked = 0;
    for path in ["/nonexistent/directory/file", "/"] {
        let output = succeed(child(NAME, "run").env("GMPDEBUG", format!("trace={path}")));
        let text = stderr(&output);
        assert_eq!(text.matches("gmp: ").count(), 1, "{text}");
        assert!(
            text.contains(&format!("cannot record a trace into {path}: ")),
            "{text}"
        );
        assert!(String::from_utf8_lossy(&output.stdout).contains("ran"));
        checked += 1;
    }
    assert_eq!(checked, 2);
}

/// A file that may not become larger stands for a disk that is full: what finds no room is counted.
#[test]
fn a_full_disk_loses_events_and_counts_them() {
    const NAME: &str = "a_full_disk_loses_events_and_counts_them";
    if child_case().is_some() {
        let limit = libc::rlimit {
            rlim_cur: 2 << 20,
            rlim_max: 2 << 20,
        };
        // SAFETY: numbers; the signal is the process's own to ignore.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
        run(2, || (0..250).for_each(|_| work()));
        println!("ran");
        return;
    }
    let directory = Directory::new("full");
    let path = directory.file("trace");
    let output = succeed(child(NAME, "run").env("GMPDEBUG", format!("trace={}", path.display())));
    let text = stderr(&output);
    assert_eq!(
        text.matches("gmp: the trace is not whole: ").count(),
        1,
        "{text}"
    );
    let reader = gmp_trace::open(BufReader::new(File::open(&path).unwrap())).unwrap();
    let (counted, reader) = count(reader);
    let anomalies: Vec<String> = reader.anomalies().iter().map(ToString::to_string).collect();
    assert!(counted.events > 1_000);
    assert!(
        reader.info().lost_events > 0 || reader.anomalies().worst() >= Some(Severity::DataLoss),
        "{anomalies:#?}"
    );
    assert!(std::fs::metadata(&path).unwrap().len() <= 2 << 20);
}

/// Threads that are no Ms make goroutines ready.
#[test]
fn what_threads_make_ready_is_recorded() {
    let directory = Directory::new("threads");
    for procs in PROCS {
        let path = directory.file(&format!("{procs}.trace"));
        run(procs, || {
            trace::start(&path).unwrap();
            let me = current().unwrap();
            let asked = Arc::new(AtomicUsize::new(0));
            let given = Arc::clone(&asked);
            let thread = thread::spawn(move || {
                for round in 1..=100 {
                    while given.load(SeqCst) != 2 * round - 1 {
                        thread::yield_now();
                    }
                    given.store(2 * round, SeqCst);
                    me.unpark();
                }
            });
            for round in 1..=100 {
                asked.store(2 * round - 1, SeqCst);
                while asked.load(SeqCst) != 2 * round {
                    park();
                }
            }
            thread.join().unwrap();
            trace::stop().unwrap();
        });
        let counted = read_clean(&path);
        let parks = counted.parks.get("park").copied().unwrap_or(0);
        assert!(
            counted.readies <= parks && parks <= counted.readies + 1,
            "{counted:?}"
        );
    }
}
