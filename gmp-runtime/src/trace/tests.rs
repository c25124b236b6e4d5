//! Recordings of very many short generations, each of which must be whole by itself.

use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use gmp_trace::anomaly::Severity;
use gmp_trace::{Body, open};

use crate::{Runtime, channel, go, park, sleep, yield_now};

/// What a program did, by its own count.
#[derive(Debug, Default)]
struct Did {
    creates: AtomicU64,
    sleeps: AtomicU64,
}

/// Goroutines that live through many generations, and ones that begin and end in one; Ps that become idle
/// and busy. Ends after `rounds` sleeps of the main goroutine.
fn work(rounds: u64, did: &Arc<Did>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (to_wait, waits) = channel::<u64>(0);
    // Touched by few generations.
    let waiting: Vec<_> = (0..300)
        .map(|_| {
            let waits = waits.clone();
            did.creates.fetch_add(1, SeqCst);
            go(move || waits.recv().is_err())
        })
        .collect();
    did.creates.fetch_add(1, SeqCst);
    let parked = go(park);
    let mut busy = Vec::new();
    for i in 0..4 {
        let (stop, did) = (Arc::clone(&stop), Arc::clone(did));
        did.creates.fetch_add(1, SeqCst);
        busy.push(go(move || {
            while !stop.load(SeqCst) {
                did.creates.fetch_add(1, SeqCst);
                assert!(go(yield_now).join().is_ok());
                if i % 2 == 0 {
                    did.sleeps.fetch_add(1, SeqCst);
                    sleep(Duration::from_micros(20 + 30 * i));
                } else {
                    yield_now();
                }
            }
        }));
    }
    for round in 0..rounds {
        did.sleeps.fetch_add(1, SeqCst);
        sleep(Duration::from_micros(200));
        if round % 10 == 0 {
            assert!(to_wait.send(round).is_ok());
        }
    }
    stop.store(true, SeqCst);
    drop(to_wait);
    waiting.into_iter().for_each(|handle| drop(handle.join()));
    parked.goroutine().unpark();
    assert!(parked.join().is_ok());
    busy.into_iter()
        .for_each(|handle| assert!(handle.join().is_ok()));
}

#[test]
fn every_generation_is_whole() {
    let directory = std::env::temp_dir();
    let mut whole = 0;
    for procs in [1, 2, 4] {
        for round in 0..3 {
            let name = format!("gmp-generations-{}-{procs}-{round}", std::process::id());
            let path = directory.join(name);
            let did = Arc::new(Did::default());
            let runtime = Runtime::builder().procs(procs).build().unwrap();
            // SAFETY: nothing of a thread lives across calls that may park.
            unsafe {
                runtime.run(|| {
                    super::start(&path).unwrap();
                    work(300, &did);
                    super::stop().unwrap();
                });
            }
            let mut reader = open(BufReader::new(File::open(&path).unwrap())).unwrap();
            let (mut creates, mut sleeps) = (0, 0);
            reader
                .for_each_event(|event, tables| match event.body {
                    Body::GoCreate { .. } => creates += 1,
                    Body::GoPark { reason, .. } if tables.text(reason) == "sleep" => sleeps += 1,
                    _ => {}
                })
                .unwrap();

            let anomalies: Vec<String> =
                reader.anomalies().iter().map(ToString::to_string).collect();
            assert!(reader.info().generations >= 2, "{:?}", reader.info());
            if reader.info().lost_events > 0 {
                // The machine was too busy to make room for so many generations.
                continue;
            }
            whole += 1;
            assert!(
                reader.anomalies().worst() < Some(Severity::DataLoss),
                "{anomalies:#?}"
            );
            assert_eq!(creates, did.creates.load(SeqCst));
            assert_eq!(sleeps, did.sleeps.load(SeqCst));
        }
    }
    assert!(whole > 0, "every recording lost events");
}
