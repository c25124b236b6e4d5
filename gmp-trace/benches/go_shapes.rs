//! How fast a reader is on traces of unusual programs: many threads whose clocks disagree, many
//! goroutines, many stacks; by one thread and by two, and the most memory that was held.
//!
//! `cargo bench -p gmp-trace --features go --bench go_shapes [-- FOLDER]`: with a folder the traces
//! are left there for other readers, named by their number.

#[path = "../tests/go_support/shapes.rs"]
mod shapes;

use std::fs::{self, File};
use std::time::Instant;

use gmp_trace::Options;
use shapes::{Shape, trace};

fn main() {
    let folder = std::env::args().skip(1).find(|a| !a.starts_with("--"));
    let quick = std::env::args().any(|a| a == "--test");
    let scale = if quick { 1 } else { 20 };
    let usual = Shape {
        threads: 1,
        goroutines: 10,
        rounds: 5000 * scale,
        skew: 0,
        stacks: 1000,
    };
    let shapes = [
        ("one thread", usual),
        (
            "one thread, 10 000 goroutines",
            Shape {
                goroutines: 10_000,
                rounds: 5 * scale,
                ..usual
            },
        ),
        (
            "8 threads, clocks 30 us apart",
            Shape {
                threads: 8,
                rounds: 600 * scale,
                skew: 470,
                ..usual
            },
        ),
        (
            "1000 threads, clocks 1 ms apart",
            Shape {
                threads: 1000,
                rounds: 5 * scale,
                skew: 15_600,
                ..usual
            },
        ),
        (
            "one thread, 500 000 stacks",
            Shape {
                stacks: 25_000 * scale,
                rounds: 2500 * scale,
                ..usual
            },
        ),
    ];
    for (number, (name, shape)) in shapes.into_iter().enumerate() {
        let (bytes, events) = trace(&shape);
        let temporary = std::env::temp_dir();
        let folder_of = folder.as_ref().map_or(temporary, |folder| folder.into());
        let path = folder_of.join(format!("gmp-shape-{number}.trace"));
        fs::write(&path, &bytes).expect("a folder that can be written to");
        let one = rate(&path, events, Options::new().one_thread());
        let two = rate(&path, events, Options::new());
        let megabytes = bytes.len() as f64 / 1e6;
        println!(
            "{number} {name:<32} {:5.1} M events, {megabytes:6.1} MB: {one:5.1} M events/s by one \
             thread, {two:5.1} by two",
            events as f64 / 1e6,
        );
        if folder.is_none() {
            fs::remove_file(&path).expect("a file of our own");
        }
    }
}

/// Millions of events a second of elapsed time, the best of three.
fn rate(path: &std::path::Path, events: u64, options: Options) -> f64 {
    let mut best = 0f64;
    for _ in 0..3 {
        let file = File::open(path).expect("a readable file");
        let begin = Instant::now();
        let mut reader = options.open_at(file).expect("a trace");
        let mut given = 0u64;
        reader
            .for_each_event(|_, _| given += 1)
            .expect("read to the end");
        let seconds = begin.elapsed().as_secs_f64();
        assert_eq!(given, events + 1, "and the beginning of the generation");
        best = best.max(events as f64 / seconds / 1e6);
    }
    best
}
