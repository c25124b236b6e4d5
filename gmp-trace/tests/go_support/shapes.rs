//! Traces as Go 1.26 would write them, of programs that nobody has at hand: many threads whose clocks
//! disagree, many goroutines, many stacks.

use gmp_trace::varint;

/// What a trace is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Threads, each with a P.
    pub(crate) threads: u64,
    /// Goroutines of each thread.
    pub(crate) goroutines: u64,
    /// How often each goroutine runs.
    pub(crate) rounds: u64,
    /// How far the clocks of two threads are apart, at most, in units of 64 ns.
    pub(crate) skew: u64,
    /// Different stacks, of 16 frames each.
    pub(crate) stacks: u64,
}

/// Types of events.
const EVENT_BATCH: u8 = 1;
const STACKS: u8 = 2;
const STACK: u8 = 3;
const STRINGS: u8 = 4;
const STRING: u8 = 5;
const FREQUENCY: u8 = 8;
const PROC_STATUS: u8 = 13;
const GO_CREATE: u8 = 14;
const GO_START: u8 = 16;
const GO_BLOCK: u8 = 20;
const GO_UNBLOCK: u8 = 21;
const SYNC: u8 = 50;
const CLOCK_SNAPSHOT: u8 = 51;
const END_OF_GENERATION: u8 = 52;

fn event(out: &mut Vec<u8>, kind: u8, numbers: &[u64]) {
    out.push(kind);
    for &number in numbers {
        varint::push(out, number);
    }
}

fn batch(out: &mut Vec<u8>, m: u64, time: u64, data: &[u8]) {
    event(out, EVENT_BATCH, &[1, m, time, data.len() as u64]);
    out.extend_from_slice(data);
}

/// One thread's batches, as long as they are.
struct Thread {
    m: u64,
    /// When the next batch begins, and how far it has come.
    time: u64,
    now: u64,
    data: Vec<u8>,
}

impl Thread {
    fn event(&mut self, out: &mut Vec<u8>, at: u64, kind: u8, numbers: &[u64]) {
        if self.data.len() > 63 << 10 {
            batch(out, self.m, self.time, &self.data);
            self.data.clear();
            self.time = self.now;
        }
        self.data.push(kind);
        varint::push(&mut self.data, at - self.now);
        self.now = at;
        for &number in numbers {
            varint::push(&mut self.data, number);
        }
    }
}

/// A trace of `shape`, and how many events it has, the one that begins it not counted. Each goroutine
/// runs and blocks; the next thread unblocks it.
pub(crate) fn trace(shape: &Shape) -> (Vec<u8>, u64) {
    let mut out = b"go 1.26 trace\0\0\0".to_vec();
    let begin = 1 << 32;
    let mut data = vec![SYNC];
    event(&mut data, FREQUENCY, &[15_625_000]);
    event(&mut data, CLOCK_SNAPSHOT, &[0, 1, 1_700_000_000, 0]);
    batch(&mut out, u64::MAX, begin, &data);
    tables(&mut out, shape);
    let skew = |thread: u64| (thread.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % (shape.skew + 1);
    let mut threads: Vec<Thread> = (0..shape.threads)
        .map(|thread| {
            let time = begin + skew(thread);
            let (m, data) = (1000 + thread, Vec::new());
            Thread {
                m,
                time,
                now: time,
                data,
            }
        })
        .collect();
    let goroutine = |thread: u64, nth: u64| 1 + thread * shape.goroutines + nth;
    let mut events = 0;
    for (thread, place) in threads.iter_mut().enumerate() {
        let at = place.now;
        place.event(&mut out, at, PROC_STATUS, &[thread as u64, 1]);
        for nth in 0..shape.goroutines {
            let id = goroutine(thread as u64, nth);
            place.event(&mut out, at, GO_CREATE, &[id, 1, 1]);
        }
        events += 1 + shape.goroutines;
    }
    let step = 2 + shape.threads / 16;
    let mut truth = shape.skew + 1;
    let mut stack = 0;
    for round in 0..shape.rounds {
        for nth in 0..shape.goroutines {
            for (thread, place) in threads.iter_mut().enumerate() {
                truth += 1;
                let at = begin + truth + skew(thread as u64);
                stack = (stack + 1) % shape.stacks.max(1);
                let id = goroutine(thread as u64, nth);
                place.event(&mut out, at, GO_START, &[id, 2 * round + 1]);
                place.event(&mut out, at + step, GO_BLOCK, &[1, stack + 1]);
            }
            for (thread, place) in threads.iter_mut().enumerate() {
                truth += 1;
                let at = begin + truth + step + skew(thread as u64);
                let other = (thread as u64 + 1) % shape.threads;
                let id = goroutine(other, nth);
                place.event(&mut out, at, GO_UNBLOCK, &[id, 2 * round + 2, 1]);
            }
            truth += step + 1;
            events += 3 * shape.threads;
        }
    }
    for thread in &threads {
        batch(&mut out, thread.m, thread.time, &thread.data);
    }
    out.push(END_OF_GENERATION);
    (out, events)
}

fn tables(out: &mut Vec<u8>, shape: &Shape) {
    let mut data = vec![STRINGS];
    for (id, text) in [(1, "chan receive"), (2, "main.work"), (3, "main.go")] {
        event(&mut data, STRING, &[id, text.len() as u64]);
        data.extend_from_slice(text.as_bytes());
    }
    batch(out, u64::MAX, 1 << 32, &data);
    let mut data = vec![STACKS];
    for stack in 0..shape.stacks.max(1) {
        event(&mut data, STACK, &[stack + 1, 16]);
        for frame in 0..16 {
            // A tree: the outer frames are those of many stacks.
            let pc = 0x40_0000 + (((stack >> frame) * 16 + frame) << 4);
            for number in [pc, 2, 3, 10 + frame] {
                varint::push(&mut data, number);
            }
        }
        if data.len() > 60 << 10 {
            batch(out, u64::MAX, 1 << 32, &data);
            data = vec![STACKS];
        }
    }
    batch(out, u64::MAX, 1 << 32, &data);
}
