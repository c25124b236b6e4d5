//! A program whose goroutines run for as long as they can, recorded, and a trace and report that must agree with
//! what it knows.
//!
//! * With one P, it sees itself how often another goroutine has come on: so often one was preempted, at least.
//! * It knows how often it was woken while the P was busy: each time somebody asked for the P at once.
//! * Whoever was frozen goes on on its thread, if it goes on.

#![allow(clippy::unwrap_used)] // a test: where something is missing it fails

mod common;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{assert_nothing_wrong, report_with};
use gmp_analyze::analysis::report::Report;
use gmp_analyze::machine::Sink;
use gmp_runtime::{JoinHandle, Runtime, go, net, sleep};
use gmp_trace::event::{Found, HandoffReason, PreemptReason, Preemption, RetakeReason};
use gmp_trace::id::GId;
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};

/// What the events of a trace say.
#[derive(Debug, Default)]
struct Told {
    urgent: u64,
    slices: u64,
    by_signal: u64,
    by_flag: u64,
    /// Ps that were given away by a frozen goroutine, and to one.
    from_frozen: u64,
    to_frozen: u64,
    /// Frozen goroutines that went on.
    thawed: u64,
    /// Calls that nobody announced, Ps that were taken from them, and returns from calls.
    calls: u64,
    taken: u64,
    back: u64,
    /// Goroutines that went on without a P.
    without_p: u64,
    made: u64,
    locks: u64,
    slices_seen: Slices,
}

/// Half of the length of a slice: who has run for less is asked for its P for somebody urgent only.
const EARLY: Nanos = Nanos(5_000_000);

/// What the events say of slices that were interrupted, on one P.
#[derive(Debug, Default)]
struct Slices {
    /// When that of each goroutine began, or earlier.
    began: HashMap<GId, Nanos>,
    /// Whose P was asked for early, and who gave its up last and whether that was early.
    asked: Option<GId>,
    last: Option<(GId, bool)>,
    /// Goroutines interrupted early that were the next frozen one to go on, and others that came before them.
    came_back: u64,
    overtaken: u64,
}

impl Slices {
    fn event(&mut self, event: &Event) {
        let now = event.time;
        match (event.body, event.g) {
            (Body::GoPreemptRequested { goroutine, why, .. }, _) => {
                let ran = |g: &GId| self.began.get(g).map(|began| now.since(*began));
                self.asked = goroutine.filter(|g| {
                    why == PreemptReason::Urgent && ran(g).is_some_and(|ran| ran < EARLY)
                });
            }
            (Body::GoPreempted { .. }, Some(g)) => {
                self.last = Some((g, self.asked.take() == Some(g)));
            }
            (Body::GoStart { found }, Some(g)) => {
                if found == Some(Found::Wired)
                    && let Some((last, early)) = self.last.take()
                {
                    let same = last == g;
                    self.came_back += u64::from(early && same);
                    self.overtaken += u64::from(early && !same);
                    if same {
                        return;
                    }
                }
                self.began.insert(g, now);
            }
            _ => {}
        }
    }
}

impl Sink for Told {
    fn event(&mut self, event: &Event) {
        self.slices_seen.event(event);
        match event.body {
            Body::GoPreemptRequested { why, .. } => match why {
                PreemptReason::Urgent => self.urgent += 1,
                PreemptReason::Slice => self.slices += 1,
                _ => panic!("nobody stops the world: {event:?}"),
            },
            Body::GoPreempted { how, .. } => match how {
                Preemption::Signal => self.by_signal += 1,
                Preemption::Cooperative => self.by_flag += 1,
                Preemption::Unknown => panic!("it is known how: {event:?}"),
            },
            Body::ProcHandoff { why, .. } => match why {
                HandoffReason::Frozen => self.from_frozen += 1,
                HandoffReason::Wired => self.to_frozen += 1,
                _ => {}
            },
            Body::GoStart {
                found: Some(Found::Wired),
            } => self.thawed += 1,
            Body::SyscallImplicit { .. } => self.calls += 1,
            Body::ProcSteal { why, .. } => {
                assert_eq!(why, Some(RetakeReason::ImplicitSyscall));
                self.taken += 1;
            }
            Body::SyscallExit | Body::SyscallExitBlocked => self.back += 1,
            Body::RunWithoutP => self.without_p += 1,
            Body::GoCreate { .. } => self.made += 1,
            Body::MLock => self.locks += 1,
            _ => {}
        }
    }
}

/// Goroutines that do not call the runtime until they are to stop.
#[derive(Default)]
struct Hogs {
    stop: AtomicBool,
    /// Who came on last, and how often that changed.
    last: AtomicU64,
    changes: AtomicU64,
}

impl Hogs {
    fn start(self: &Arc<Hogs>, count: u64) -> Vec<JoinHandle<()>> {
        (1..=count)
            .map(|number| {
                let hogs = Arc::clone(self);
                go(move || {
                    while !hogs.stop.load(Ordering::Relaxed) {
                        if hogs.last.swap(number, Ordering::Relaxed) != number {
                            hogs.changes.fetch_add(1, Ordering::Relaxed);
                        }
                        std::hint::spin_loop();
                    }
                })
            })
            .collect()
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

/// Stops the hogs when `program` has ended, with a panic or without.
struct StopsAtEnd<'a>(&'a Hogs);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Runs `program` on one P beside `count` hogs, all of which have run before, with a trace: what it returns, and
/// what the trace says.
fn record<T: Send>(count: u64, program: impl FnOnce(&Hogs) -> T + Send) -> (T, Told, Report) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("gmp-preempt-{}-{number}.trace", std::process::id());
    let path = std::env::temp_dir().join(name);
    let runtime = Runtime::builder().procs(1).build().unwrap();
    // SAFETY: the programs below keep nothing of a thread across a call that may park.
    let result = unsafe {
        runtime.run(|| {
            let hogs = Arc::new(Hogs::default());
            let handles = hogs.start(count);
            let ends = StopsAtEnd(&hogs);
            while hogs.changes() < count {
                sleep(Duration::from_millis(1));
            }
            gmp_runtime::trace::start(&path).unwrap();
            let result = program(&hogs);
            gmp_runtime::trace::stop().unwrap();
            drop(ends);
            handles.into_iter().for_each(|hog| hog.join().unwrap());
            result
        })
    };
    let (report, told) = report_with(&path, Told::default());
    std::fs::remove_file(&path).unwrap();
    assert_nothing_wrong(&report);
    let preempted = &report.summary.preempted;
    assert_eq!(preempted.all(), told.by_signal + told.by_flag);
    assert_eq!(preempted.signal(), Some(told.by_signal));
    // A request may come to nothing; no goroutine is preempted without one. One may be older than the trace.
    assert!(preempted.all() <= told.urgent + told.slices + 1, "{told:?}");
    // Hogs may be frozen when the trace begins, and when it ends; and those that come back without a P are, and some
    // that see the flag.
    let most = preempted.all() + told.back + count;
    let thawed = told.by_signal.saturating_sub(count)..=most;
    assert!(thawed.contains(&told.thawed), "{told:?}");
    assert!(told.thawed <= told.to_frozen, "{told:?}");
    assert_eq!(told.calls, told.taken, "{told:?}");
    assert!(told.without_p <= told.back, "{told:?}");
    // A call may have begun before the trace.
    assert!(told.back <= told.calls + count + 1, "{told:?}");
    assert!(told.from_frozen <= preempted.all(), "{told:?}");
    // The report says the same.
    let rescues = &report.rescues;
    assert_eq!(
        (rescues.asked_for_slice, rescues.asked_urgently),
        (told.slices, told.urgent)
    );
    assert_eq!(
        (rescues.by_frozen, rescues.to_frozen),
        (told.from_frozen, told.to_frozen)
    );
    assert_eq!(rescues.from_unannounced, told.taken);
    assert!(rescues.delays.count() <= preempted.all(), "{rescues:?}");
    (result, told, report)
}

#[test]
fn hogs_are_preempted_as_often_as_they_see_one_another() {
    let (changes, told, report) = record(2, |hogs| {
        let before = hogs.changes();
        let begun = Instant::now();
        while hogs.changes() < before + 10 {
            sleep(Duration::from_millis(200));
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{}",
                hogs.changes()
            );
        }
        hogs.changes() - before
    });
    // The first change may have begun before.
    assert!(told.by_signal + 1 >= changes, "{changes}: {told:?}");
    assert!(told.slices > 0, "{told:?}");
    // Each time that one came on again, it was given a P where it was frozen; and in each of its turns it was asked.
    let rescues = &report.rescues;
    assert!(rescues.to_frozen + 2 >= changes, "{changes}: {rescues:?}");
    assert!(
        rescues.delays.count() + 2 >= changes,
        "{changes}: {rescues:?}"
    );
    assert!(rescues.delays.total() <= report.summary.span, "{rescues:?}");
}

#[test]
fn nobody_is_preempted_for_nobody() {
    let (_, told, _) = record(0, |_| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
    });
    assert_eq!((told.slices, told.urgent), (0, 0), "{told:?}");
    assert_eq!((told.by_signal, told.by_flag), (0, 0), "{told:?}");
}

/// Wakes of the main goroutine.
const WAKES: u64 = 50;

#[test]
fn a_sleeper_has_the_p_asked_for_at_once() {
    let (_, told, _) = record(3, |_| {
        (0..WAKES).for_each(|_| sleep(Duration::from_millis(1)));
    });
    // Where a slice ends just then nobody need ask.
    assert!(told.urgent >= WAKES / 2, "{told:?}");
}

/// Whoever is interrupted for somebody urgent has the rest of its slice before others of the queue have one.
#[test]
fn an_interrupted_goroutine_has_its_p_back_first() {
    let (_, told, _) = record(3, |_| {
        (0..WAKES).for_each(|_| sleep(Duration::from_millis(1)));
    });
    let slices = &told.slices_seen;
    assert!(slices.came_back > 0, "{told:?}");
    assert_eq!(slices.overtaken, 0, "{told:?}");
}

/// The rest is no more than that: those who are interrupted all the time take turns as well.
#[test]
fn who_is_interrupted_has_no_longer_slice() {
    let ((), told, _) = record(3, |hogs| {
        let before = hogs.changes();
        let begun = Instant::now();
        while hogs.changes() < before + 9 {
            sleep(Duration::from_millis(1));
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
    });
    assert!(told.slices_seen.came_back > 0, "{told:?}");
}

#[test]
fn a_socket_has_the_p_asked_for_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let echo = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut byte = [0];
        while socket.read(&mut byte).unwrap() == 1 {
            std::thread::sleep(Duration::from_millis(1));
            socket.write_all(&byte).unwrap();
        }
    });
    let (_, told, _) = record(3, |_| {
        let mut socket = net::TcpStream::connect(address).unwrap();
        for number in 0..WAKES {
            socket.write_all(&[number as u8]).unwrap();
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            assert_eq!(u64::from(byte[0]), number);
        }
    });
    echo.join().unwrap();
    assert!(told.urgent >= WAKES / 2, "{told:?}");
}

/// Reads of a pipe that only another goroutine can end, which has to wait for something itself before.
const READS: u64 = 20;

#[test]
fn a_goroutine_that_blocks_its_thread_loses_its_p() {
    let (_, told, _) = record(1, |_| {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let (asked, to_write) = gmp_runtime::channel::<()>(1);
        let other = go(move || {
            while to_write.recv().is_ok() {
                sleep(Duration::from_millis(5));
                writer.write_all(&[1]).unwrap();
            }
        });
        for _ in 0..READS {
            asked.send(()).unwrap();
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
        }
        drop(asked);
        other.join().unwrap();
    });
    // Nobody writes before the reader has lost its P; where the machine is slow, to a signal.
    assert!(told.calls + told.by_signal >= READS, "{told:?}");
    assert!(told.calls >= READS / 2, "{told:?}");
    assert!(told.calls <= 3 * READS, "{told:?}");
}

#[test]
fn a_goroutine_that_waits_for_a_lock_of_std_loses_its_p() {
    let (_, told, _) = record(1, |_| {
        let lock = Arc::new(std::sync::Mutex::new(0_u64));
        let lockers: Vec<_> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                go(move || {
                    for _ in 0..10 {
                        let mut value = lock.lock().unwrap();
                        let before = *value;
                        std::thread::sleep(Duration::from_millis(3));
                        *value = before + 1;
                    }
                })
            })
            .collect();
        lockers.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(*lock.lock().unwrap(), 40);
    });
    // Each goes on without the runtime, and so has no P to lose again, unless a signal stopped it and it was given one.
    assert!((1..=5 + told.by_signal).contains(&told.calls), "{told:?}");
}

#[test]
fn one_that_goes_on_without_a_p_is_stopped() {
    let (_, told, _) = record(2, |_| {
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(10));
            // Longer than the monitor takes to see it.
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(100) {
                std::hint::spin_loop();
            }
        }
    });
    assert!(told.without_p > 0, "{told:?}");
}

/// Whatever it does: it computes for longer than a slice, or calls the runtime, which ends it.
#[test]
fn a_child_of_fork_records_nothing() {
    const CHILDREN: u64 = 6;
    let (_, told, report) = record(1, |_| {
        for number in 0..CHILDREN {
            let calls = number % 2 == 1;
            // SAFETY: the child calls nothing that takes a lock that a thread of the parent may have, and ends.
            let child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child == 0 {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(30) {
                    std::hint::spin_loop();
                }
                if calls {
                    gmp_runtime::lock_os_thread();
                }
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(7) };
            }
            let mut status = 0;
            // SAFETY: the status is a local variable.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            let by_itself = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7;
            let by_message = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT;
            assert_eq!((by_itself, by_message), (!calls, calls), "{status}");
        }
        go(|| ()).join().unwrap();
    });
    assert_eq!((told.made, report.summary.made, told.locks), (1, 1, 0));
}
