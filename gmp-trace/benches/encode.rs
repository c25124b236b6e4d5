//! What one call of the encoder costs: nanoseconds a call, best of several rounds, on memory that
//! was touched before.

use std::hint::black_box;
use std::time::Instant;

use gmp_trace::event::{Found, Waker};
use gmp_trace::id::{GId, MId, PId};
use gmp_trace::write::{BlockHead, BlockKind, Encoder, Seq, Wait};

const CALLS: u64 = 2_000_000;
const ROUNDS: usize = 7;

fn main() {
    let quick = std::env::args().any(|a| a == "--test");
    let calls = if quick { 10_000 } else { CALLS };
    let wait = Wait {
        reason: 2,
        site: 1,
        object: 0x1000,
    };
    report(
        "park_start, wait known, delta < 128",
        2,
        calls,
        |e, c, n| {
            e.park_start(c, n * 3, wait, 100 + n % 2, (Found::Runnext, Seq::Local));
        },
    );
    report("park_start, delta of two bytes", 2, calls, |e, c, n| {
        e.park_start(c, n * 300, wait, 100 + n % 2, (Found::Runnext, Seq::Local));
    });
    report("park_start with sequence number", 2, calls, |e, c, n| {
        e.park_start(
            c,
            n * 3,
            wait,
            100 + n % 2,
            (Found::Runnext, Seq::Remote(n as u32)),
        );
    });
    report("park_start, eight waits in turn", 2, calls, |e, c, n| {
        let wait = Wait {
            reason: 2,
            site: 1,
            object: 0x1000 + n % 8,
        };
        e.park_start(c, n * 3, wait, 100 + n % 2, (Found::Runnext, Seq::Local));
    });
    report("ready", 1, calls, |e, c, n| {
        e.ready(c, n * 3, 100 + n % 2, Waker::Goroutine, Seq::Local);
    });
    report("yield_start", 2, calls, |e, c, n| {
        e.yield_start(c, n * 3, 100 + n % 2, Found::Local, Seq::Local);
    });
}

fn report(name: &str, events_a_call: u64, calls: u64, call: impl Fn(&mut Encoder, &mut [u8], u64)) {
    let (nanos, bytes) = measure(calls, call);
    println!(
        "{name:<40} {nanos:5.2} ns a call, {:5.2} ns and {:4.2} bytes an event",
        nanos / events_a_call as f64,
        bytes / events_a_call as f64
    );
}

/// Nanoseconds and bytes a call; blocks are opened and sealed (without checksum) on the way.
fn measure(calls: u64, call: impl Fn(&mut Encoder, &mut [u8], u64)) -> (f64, f64) {
    let mut chunk = vec![0u8; 64 << 10];
    let (mut best, mut bytes) = (f64::MAX, 0);
    for _ in 0..ROUNDS {
        let mut encoder = Encoder::new();
        bytes = 0;
        let mut spent = 0.0;
        let mut n = 0;
        while n < calls {
            chunk.fill(0);
            let begin = Instant::now();
            let head = BlockHead {
                kind: BlockKind::Events,
                generation: 1,
                sequence: 0,
                m: MId::new(0),
                base_time: n * 3,
                g: GId::new(100),
                p: PId::new(0),
            };
            encoder.begin(&mut chunk, &head);
            while encoder.has_room(&chunk) {
                call(&mut encoder, &mut chunk, black_box(n));
                n += 1;
            }
            bytes += encoder.used() as u64;
            encoder.seal(&mut chunk, false);
            spent += begin.elapsed().as_nanos() as f64;
        }
        assert_eq!(encoder.refused(), 0);
        best = f64::min(best, spent / n as f64);
        bytes = bytes * 1_000_000 / n;
    }
    (best, bytes as f64 / 1e6)
}
