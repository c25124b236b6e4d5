//! How fast a Go trace is read into ordered events: best and median of several runs of one process.
//!
//! ```text
//! cargo bench --features go --bench go_decode -- trace.out [RUNS]
//! ```
//!
//! Without a path it reads a fixture, which is small: the figure is that of a cold reader.

use std::fs::File;
use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/go/go1.27-gc.trace");
    let path = arguments.first().map_or(fixture, |path| path.into());
    let runs = arguments
        .get(1)
        .and_then(|runs| runs.parse().ok())
        .unwrap_or(7)
        .max(1);
    let mut rates = Vec::new();
    for _ in 0..runs {
        let file = File::open(&path).expect("a readable file");
        let begin = cpu_seconds();
        let mut reader = gmp_trace::open(file).expect("a trace");
        let mut events = 0u64;
        let mut with_goroutine = 0u64;
        reader
            .for_each_event(|event, _| {
                events += 1;
                with_goroutine += u64::from(event.g.is_some());
            })
            .expect("read to the end");
        let seconds = cpu_seconds() - begin;
        assert!(events > 0 && with_goroutine <= events);
        rates.push(events as f64 / seconds / 1e6);
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "{}: best {:.1}, median {:.1} million events a second of CPU in {runs} runs",
        path.display(),
        rates.last().copied().unwrap_or(0.0),
        rates.get(rates.len() / 2).copied().unwrap_or(0.0),
    );
}

/// Seconds that this thread has run: what others do on the machine is not counted.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux machine");
    let nanos = text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    nanos.expect("the first figure is nanoseconds") / 1e9
}
