//! Counts, by reason, how many goroutines of a Go trace are blocked at its end.
//!
//! ```text
//! cargo run --release --features go --example go_blocked -- trace.out
//! ```
//!
//! Prints to standard error how fast the trace was read.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs::File;
use std::time::Instant;

use gmp_trace::Body;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("expected the path of a trace")?;
    let mut reader = gmp_trace::open(File::open(path)?)?;
    let begin = Instant::now();
    let mut blocked = HashMap::new();
    reader.for_each_event(|event, _| match event.body {
        Body::GoPark { reason, .. } => {
            blocked.insert(event.g, reason);
        }
        Body::GoReady { goroutine, .. } => {
            blocked.remove(&Some(goroutine));
        }
        _ => {}
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut by_reason = BTreeMap::new();
    for reason in blocked.values() {
        *by_reason.entry(reader.tables().text(*reason)).or_insert(0) += 1;
    }
    for (reason, count) in by_reason {
        println!("{count:>8}  {reason}");
    }
    let events = reader.info().events;
    let rate = events as f64 / seconds / 1e6;
    eprintln!("{events} events, {seconds:.3} s, {rate:.1} million events a second");
    for anomaly in reader.anomalies().iter() {
        eprintln!("{anomaly}");
    }
    Ok(())
}
