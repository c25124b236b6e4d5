//! How late timers fire: one goroutine that sleeps for 100 µs on an idle machine, and a hundred thousand that
//! sleep at once.
//!
//! ```console
//! cargo run --release -p gmp-runtime --example lateness
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gmp_runtime::{Runtime, go, sleep};

/// How often the one sleeps, and how many sleep at once.
const SLEEPS: usize = 5_000;
const SLEEPERS: u64 = 100_000;

fn main() -> io::Result<()> {
    let runtime = Runtime::builder().procs(2).build()?;
    // SAFETY: nothing that belongs to a thread lives across a call that may park.
    unsafe {
        runtime.run(|| {
            one();
            many();
        });
    }
    Ok(())
}

/// Sleeps again and again; prints by how much each was late.
fn one() {
    let wanted = Duration::from_micros(100);
    let mut late: Vec<Duration> = (0..SLEEPS)
        .map(|_| {
            let start = Instant::now();
            sleep(wanted);
            start.elapsed() - wanted
        })
        .collect();
    late.sort_unstable();
    let at = |part: f64| late[(part * (SLEEPS - 1) as f64) as usize];
    println!(
        "{SLEEPS} sleeps of 100 µs, late by: median {:?}, p99 {:?}, p99.9 {:?}, max {:?}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

/// Many sleep until moments of half a second, which begins when all of them can sleep; prints the latest.
fn many() {
    let (latest, sum) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let start = Instant::now();
    let sleepers: Vec<_> = (0..SLEEPERS)
        .map(|number| {
            let (latest, sum) = (Arc::clone(&latest), Arc::clone(&sum));
            go(move || {
                let until = start + Duration::from_micros(2_000_000 + number * 7_919 % 500_000);
                sleep(until.saturating_duration_since(Instant::now()));
                let late = until.elapsed().as_nanos() as u64;
                latest.fetch_max(late, Ordering::Relaxed);
                sum.fetch_add(late, Ordering::Relaxed);
            })
        })
        .collect();
    let made = start.elapsed();
    let count = sleepers.len() as u64;
    for sleeper in sleepers {
        if sleeper.join().is_err() {
            println!("a sleeper panicked");
        }
    }
    println!(
        "{count} sleepers, made in {made:?}, late by: mean {:?}, max {:?}",
        Duration::from_nanos(sum.load(Ordering::Relaxed) / count),
        Duration::from_nanos(latest.load(Ordering::Relaxed))
    );
}
