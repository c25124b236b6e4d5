//! How quickly a trace is decoded and ordered, and how many bytes an event takes.
//!
//! `cargo bench -p gmp-trace --features testgen --bench decode`; `-- --test` runs it once, small.

use std::io::Cursor;

use gmp_trace::open;
use gmp_trace::pack::pack;
use gmp_trace::testgen::{Config, Mix, program};

const ROUNDS: usize = 5;

fn main() {
    let quick = std::env::args().any(|a| a == "--test");
    let events = if quick { 20_000 } else { 10_000_000 };
    let channels = Config {
        goroutines: 64,
        ms: 1,
        ps: 1,
        events,
        generations: 5,
        mix: Mix::Channels,
        block_bytes: 64 << 10,
        expect: false,
        ..Config::default()
    };
    report("channels, one M", &channels);
    report(
        "channels, four Ms",
        &Config {
            ms: 4,
            ps: 4,
            ..channels
        },
    );
    report(
        "channels, 10 000 goroutines",
        &Config {
            goroutines: 10_000,
            ..channels
        },
    );
    let everything = Config {
        mix: Mix::Everything,
        ms: 2,
        ps: 2,
        events: events / 5,
        ..channels
    };
    report("everything, two Ms", &everything);
}

/// Seconds that this thread has run: what others do on the machine is not counted.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux machine");
    let nanos = text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    nanos.expect("the first figure is nanoseconds") / 1e9
}

fn report(name: &str, config: &Config) {
    let program = program(1, config);
    let (bytes, recorded) = (program.bytes.len() as f64, program.recorded);
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let source = Cursor::new(program.bytes.clone());
        let begin = cpu_seconds();
        let mut reader = open(source).expect("a trace");
        let mut events = 0u64;
        let mut parity = 0u64;
        reader
            .for_each_event(|event, _| {
                events += 1;
                parity ^= event.time.0 as u64;
            })
            .expect("an undamaged trace");
        best = f64::min(best, cpu_seconds() - begin);
        std::hint::black_box(parity);
        assert_eq!(events, recorded, "every event is read");
        assert!(reader.anomalies().is_empty(), "{:?}", reader.anomalies());
    }
    let mut packed = Vec::new();
    pack(Cursor::new(program.bytes.clone()), &mut packed).expect("a trace");
    println!(
        "{name:<30} {:7.1} M events/s, {:6.1} MB/s, {:5.2} bytes an event ({:.2} packed), {:.1} M",
        recorded as f64 / best / 1e6,
        bytes / best / 1e6,
        bytes / recorded as f64,
        packed.len() as f64 / recorded as f64,
        recorded as f64 / 1e6,
    );
}
