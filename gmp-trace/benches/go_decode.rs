//! How fast a Go trace is read into ordered events: by one thread, by two, and from a pipe; median and
//! best of several runs of one process, and the most memory that it held.
//!
//! ```text
//! cargo bench --features go --bench go_decode -- trace.out [RUNS [one|two|pipe]]
//! ```
//!
//! Without a path it reads a fixture, which is small: the figure is that of a cold reader. `pipe` is read
//! once, from the standard input.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use gmp_trace::{Error, Options, Reader};

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/go/go1.27-gc.trace");
    let path = arguments.first().map_or(fixture, |path| path.into());
    let runs = arguments.get(1).and_then(|runs| runs.parse().ok());
    let ways: Vec<&str> = match arguments.get(2) {
        Some(way) => vec![way],
        None => vec!["one", "two"],
    };
    for way in ways {
        let runs = match way {
            "pipe" => 1,
            _ => runs.unwrap_or(7).max(1),
        };
        let mut seconds = Vec::new();
        let mut events = 0;
        for _ in 0..runs {
            let begin = Instant::now();
            events = count(open(&path, way).expect("a trace"));
            seconds.push(begin.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        let median = seconds[runs / 2];
        let rate = |seconds: f64| events as f64 / seconds / 1e6;
        println!(
            "{}, {way}: {events} events in {median:.4} s, {:.1} million a second in the median of {runs} \
             runs, {:.1} in the best; {:.1} MB at most so far",
            path.display(),
            rate(median),
            rate(seconds[0]),
            peak_memory(),
        );
    }
}

fn open(path: &Path, way: &str) -> Result<Reader, Error> {
    let file = || File::open(path).expect("a readable file");
    match way {
        "one" => Options::new().one_thread().open_at(file()),
        "two" => Options::new().open_at(file()),
        "pipe" => Options::new().open(std::io::stdin()),
        other => panic!("expected one, two or pipe, found {other}"),
    }
}

fn count(mut reader: Reader) -> u64 {
    let mut events = 0u64;
    let mut with_goroutine = 0u64;
    reader
        .for_each_event(|event, _| {
            events += 1;
            with_goroutine += u64::from(event.g.is_some());
        })
        .expect("read to the end");
    assert!(events > 0 && with_goroutine <= events);
    events
}

/// The most memory that this process has held, in MB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.trim().split(' ').next());
    let kilobytes: f64 = kilobytes.and_then(|n| n.parse().ok()).unwrap_or(0.0);
    kilobytes * 1024.0 / 1e6
}
