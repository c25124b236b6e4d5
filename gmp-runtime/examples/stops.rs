//! How long it takes to stop the world, beside goroutines that never call the runtime and beside many that call it
//! all the time:
//!
//! ```console
//! cargo run --release -p gmp-runtime --example stops -- 2000
//! ```

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gmp_runtime::debug::stop_the_world;
use gmp_runtime::{Runtime, go, sleep, yield_now};

/// So many goroutines beside the one that stops the world, which do this in each step.
struct Case {
    name: &'static str,
    procs: usize,
    goroutines: usize,
    step: fn(),
}

fn main() -> std::io::Result<()> {
    let stops = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(1000);
    let compute: fn() = || {
        black_box(0);
    };
    for case in [
        Case {
            name: "2 hogs, 2 Ps",
            procs: 2,
            goroutines: 2,
            step: compute,
        },
        Case {
            name: "2 hogs, 3 Ps",
            procs: 3,
            goroutines: 2,
            step: compute,
        },
        Case {
            name: "1000 busy goroutines, 2 Ps",
            procs: 2,
            goroutines: 1000,
            step: yield_now,
        },
        Case {
            name: "nobody else, 2 Ps",
            procs: 2,
            goroutines: 0,
            step: compute,
        },
    ] {
        let runtime = Runtime::builder().procs(case.procs).build()?;
        // SAFETY: nothing that belongs to a thread lives across a call that may park.
        let mut delays = unsafe { runtime.run(|| measure(&case, stops)) };
        delays.sort_unstable();
        let at = |part: f64| delays[((delays.len() - 1) as f64 * part) as usize];
        println!(
            "{:28} p50 {:?}, p99 {:?}, at most {:?}",
            case.name,
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
    Ok(())
}

/// How long each stop took, from the request until the world stood still.
fn measure(case: &Case, stops: usize) -> Vec<Duration> {
    let end = Arc::new(AtomicBool::new(false));
    let handles: Vec<_> = (0..case.goroutines)
        .map(|_| {
            let (end, step) = (Arc::clone(&end), case.step);
            go(move || {
                while !end.load(Ordering::Relaxed) {
                    step();
                }
            })
        })
        .collect();
    let delays = (0..stops)
        .map(|_| {
            sleep(Duration::from_micros(500));
            let begun = Instant::now();
            stop_the_world("measurement", || begun.elapsed())
        })
        .collect();
    end.store(true, Ordering::Relaxed);
    for handle in handles {
        assert!(handle.join().is_ok());
    }
    delays
}
