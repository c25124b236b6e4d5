//! A program that is slow to give up its P, recorded, and a report that must say how long it took.
//!
//! Without the signal a goroutine is preempted where it calls the runtime, and nowhere else: so it gives up its P no
//! sooner than the program makes that call, and each delay is shorter than the program computed before it.

#![allow(clippy::unwrap_used)] // a test: where something is missing it fails

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{assert_nothing_wrong, report_with};
use gmp_analyze::machine::Sink;
use gmp_runtime::{Runtime, channel, go, yield_now};
use gmp_trace::id::GId;
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};

const ROUNDS: u64 = 12;

/// For how long the goroutine computes in each of them; it is asked after 10 ms.
const COMPUTES: Duration = Duration::from_millis(60);

const SLICE: Duration = Duration::from_millis(10);

/// The first request of each turn, and the end of it.
#[derive(Default)]
struct Told {
    asked: Option<(GId, Nanos)>,
    requests: u64,
    delays: Vec<i64>,
}

impl Sink for Told {
    fn event(&mut self, event: &Event) {
        match event.body {
            Body::GoPreemptRequested { goroutine, .. } => {
                self.requests += 1;
                if self.asked.map(|(asked, _)| asked) != goroutine {
                    self.asked = goroutine.map(|goroutine| (goroutine, event.time));
                }
            }
            Body::GoStart { .. } => self.asked = None,
            Body::GoPreempted { .. } => {
                if let Some((goroutine, since)) = self.asked.take() {
                    assert_eq!(Some(goroutine), event.g);
                    self.delays.push((event.time - since).0);
                }
            }
            _ => {}
        }
    }
}

/// Computes in many rounds while another goroutine waits for the only P; for how long in each.
fn program() -> Vec<Duration> {
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    let other = go(move || {
        while !stops.load(SeqCst) {
            yield_now();
        }
    });
    let (sender, receiver) = channel(1);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        // Its turn begins after this.
        let before = Instant::now();
        yield_now();
        let begun = Instant::now();
        while begun.elapsed() < COMPUTES {
            std::hint::spin_loop();
        }
        // Neither waits, but for the P where it was asked for.
        sender.send(()).unwrap();
        receiver.recv().unwrap();
        rounds.push(before.elapsed());
    }
    stop.store(true, SeqCst);
    other.join().unwrap();
    rounds
}

#[test]
fn delays_are_those_that_the_program_made() {
    // SAFETY: this is the only test of its process, and no thread has been made that looks.
    unsafe { std::env::set_var("GMPDEBUG", "asyncpreemptoff=1") };
    let path = std::env::temp_dir().join(format!("gmp-truth-delays-{}.trace", std::process::id()));
    let runtime = Runtime::builder().procs(1).build().unwrap();
    // SAFETY: the program keeps nothing of a thread across a call that may park.
    let rounds = unsafe {
        runtime.run(|| {
            gmp_runtime::trace::start(&path).unwrap();
            let rounds = program();
            gmp_runtime::trace::stop().unwrap();
            rounds
        })
    };
    let (report, told) = report_with(&path, Told::default());
    std::fs::remove_file(&path).unwrap();
    assert_nothing_wrong(&report);
    let (rescues, preempted) = (&report.rescues, &report.summary.preempted);
    assert_eq!(preempted.signal(), Some(0), "there are no signals");
    let delays = &rescues.delays;
    assert_eq!(
        (delays.count(), rescues.asked()),
        (told.delays.len() as u64, told.requests)
    );
    assert!(
        (1..=preempted.all()).contains(&delays.count()),
        "{rescues:?}"
    );
    assert!(preempted.all() <= rescues.asked(), "{rescues:?}");
    // Nobody is woken here, so nobody is urgent.
    assert_eq!(rescues.asked_urgently, 0);
    let nanos = |time: Nanos| Duration::from_nanos(time.0.try_into().unwrap());
    // A request comes when the slice is over. Clocks differ by a little.
    let longest = *rounds.iter().max().unwrap() + Duration::from_millis(1);
    assert!(
        nanos(delays.max()) + SLICE <= longest,
        "{rounds:?}: {rescues:?}"
    );
    assert_eq!(delays.total().0, told.delays.iter().sum::<i64>());
    assert_eq!(Some(delays.max().0), told.delays.iter().max().copied());
}
