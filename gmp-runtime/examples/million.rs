//! What a goroutine costs that is made and parks: time, on stacks that are new and on stacks that were used before, and
//! memory.
//!
//! ```console
//! cargo run --release -p gmp-runtime --example million -- 1000000
//! ```

use std::time::Instant;

use gmp_runtime::{JoinHandle, Runtime, go, metrics, park, yield_now};

fn main() -> std::io::Result<()> {
    let count = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_000_000);
    let runtime = Runtime::builder().procs(1).build()?;
    // SAFETY: nothing that belongs to a thread lives across a call that may park.
    unsafe { runtime.run(|| measure(count)) };
    Ok(())
}

fn measure(count: usize) {
    // What is there once, however many there are.
    let _ = go(|| ()).join();
    for (stacks, goroutines) in [("new stacks", count), ("used stacks", count)] {
        let mut parked = Vec::with_capacity(goroutines);
        let before = memory();
        let begin = Instant::now();
        park_all(&mut parked, goroutines);
        let each = begin.elapsed().as_nanos() as f64 / goroutines as f64;
        let now = memory();
        let grown = |now: usize, before: usize| now.saturating_sub(before) / goroutines;
        println!(
            "{goroutines} made and parked on {stacks}: {each:.0} ns each, {} bytes more each with the handle, and {} of \
             page tables",
            grown(now.0, before.0),
            grown(now.1, before.1)
        );
        end_all(parked);
    }
    // As many as a P keeps: make, park, wake and end again and again.
    const BATCH: usize = 64;
    let rounds = (count / BATCH).max(1);
    let mut parked = Vec::with_capacity(BATCH);
    let (mut park_ns, mut end_ns) = (0, 0);
    for _ in 0..rounds {
        let begin = Instant::now();
        park_all(&mut parked, BATCH);
        park_ns += begin.elapsed().as_nanos();
        let begin = Instant::now();
        end_all(std::mem::take(&mut parked));
        end_ns += begin.elapsed().as_nanos();
    }
    let each = |ns: u128| ns as f64 / (rounds * BATCH) as f64;
    println!(
        "in batches of {BATCH}: {:.0} ns each made and parked, {:.0} ns each woken and joined",
        each(park_ns),
        each(end_ns)
    );
}

fn park_all(parked: &mut Vec<JoinHandle<()>>, count: usize) {
    for _ in 0..count {
        parked.push(go(park));
        if parked.len().is_multiple_of(64) {
            // On one P: they run, each until it parks.
            yield_now();
        }
    }
    yield_now();
    debug_assert_eq!(
        metrics().count("/sched/goroutines/waiting:goroutines"),
        Some(count as u64)
    );
}

fn end_all(parked: Vec<JoinHandle<()>>) {
    for (index, handle) in parked.iter().enumerate() {
        handle.goroutine().unpark();
        if index % 64 == 63 {
            yield_now();
        }
    }
    for handle in parked {
        let _ = handle.join();
    }
}

/// Resident memory of the process and the tables of its pages, in bytes.
fn memory() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let figure = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    };
    let [resident, tables] = ["VmRSS:", "VmPTE:"].map(|name| figure(name).unwrap_or(0) << 10);
    (resident, tables)
}
