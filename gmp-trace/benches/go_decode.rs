//! How fast a Go trace is read into ordered events: by one thread, and by two; best and median of
//! several runs of one process, and the most memory that it held.
//!
//! ```text
//! cargo bench --features go --bench go_decode -- trace.out [RUNS]
//! ```
//!
//! Without a path it reads a fixture, which is small: the figure is that of a cold reader.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use gmp_trace::Options;

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
    for (threads, options) in [(1, Options::new().one_thread()), (2, Options::new())] {
        let mut rates: Vec<f64> = (0..runs).map(|_| rate(&path, options)).collect();
        rates.sort_by(f64::total_cmp);
        println!(
            "{}, at most {threads} threads: best {:.1}, median {:.1} million events a second in \
             {runs} runs; {:.1} MB at most so far",
            path.display(),
            rates.last().copied().unwrap_or(0.0),
            rates.get(rates.len() / 2).copied().unwrap_or(0.0),
            peak_memory(),
        );
    }
}

/// Millions of events a second of elapsed time.
fn rate(path: &Path, options: Options) -> f64 {
    let file = File::open(path).expect("a readable file");
    let begin = Instant::now();
    let mut reader = options.open_at(file).expect("a trace");
    let mut events = 0u64;
    let mut with_goroutine = 0u64;
    reader
        .for_each_event(|event, _| {
            events += 1;
            with_goroutine += u64::from(event.g.is_some());
        })
        .expect("read to the end");
    let seconds = begin.elapsed().as_secs_f64();
    assert!(events > 0 && with_goroutine <= events);
    events as f64 / seconds / 1e6
}

/// The most memory that this process has held, in MB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.trim().split(' ').next());
    let kilobytes: f64 = kilobytes.and_then(|n| n.parse().ok()).unwrap_or(0.0);
    kilobytes * 1024.0 / 1e6
}
