//! The rows as a program of the crate `may`, with its default settings.

use std::time::Instant;

use ::may::coroutine::{self, JoinHandle};
use ::may::go;
use ::may::sync::mpsc;

use crate::outcome::Outcome;
use crate::peers::NO_PROGRAM;
use crate::rows::{Work, compute};

/// Runs `work` on `procs` workers, from a coroutine of its own.
pub(super) fn run(work: Work, procs: u64, operations: u64) -> Result<Outcome, String> {
    let workers = usize::try_from(procs).map_err(|_| "too many workers".to_owned())?;
    ::may::config().set_workers(workers);
    let whole = go!(move || match work {
        Work::Yield => Ok(yields(Work::yielders(procs), operations)),
        Work::Spawn { batch } => Ok(spawns(batch, operations, || 1)),
        Work::FanOut { batch } => Ok(spawns(batch, operations, compute)),
        Work::PingPong => Ok(pingpong(operations)),
        Work::Buffered { .. } => Ok(unbounded(operations)),
        _ => Err(NO_PROGRAM.to_owned()),
    });
    whole
        .join()
        .map_err(|_| "a coroutine panicked".to_owned())?
}

fn sum(handles: impl IntoIterator<Item = JoinHandle<u64>>) -> u64 {
    handles
        .into_iter()
        .map(|handle| {
            handle
                .join()
                .expect("a coroutine of the benchmark panicked")
        })
        .sum()
}

fn yields(yielders: u64, operations: u64) -> Outcome {
    let started = Instant::now();
    let each = operations / yielders;
    let handles: Vec<_> = (0..yielders)
        .map(|_| {
            go!(move || {
                let mut own = 0;
                for _ in 0..each {
                    coroutine::yield_now();
                    own += 1;
                }
                own
            })
        })
        .collect();
    Outcome::since(started, operations, sum(handles))
}

fn spawns(batch: u64, operations: u64, work: impl Fn() -> u64 + Copy + Send + 'static) -> Outcome {
    let started = Instant::now();
    let mut checksum = 0;
    let mut handles = Vec::new();
    for _ in 0..operations / batch {
        handles.extend((0..batch).map(|_| go!(work)));
        checksum += sum(handles.drain(..));
    }
    Outcome::since(started, operations, checksum)
}

fn pingpong(operations: u64) -> Outcome {
    let (ask, asked) = mpsc::channel::<u64>();
    let (answer, answered) = mpsc::channel::<u64>();
    let started = Instant::now();
    let partner = go!(move || {
        while let Ok(value) = asked.recv() {
            answer.send(value + 1).expect("the asker is gone");
        }
    });
    let mut checksum = 0;
    for value in 0..operations {
        ask.send(value).expect("the partner is gone");
        checksum += answered.recv().expect("the partner is gone");
    }
    drop(ask);
    let result = Outcome::since(started, operations, checksum);
    partner.join().expect("the partner panicked");
    result
}

fn unbounded(operations: u64) -> Outcome {
    let (sender, receiver) = mpsc::channel::<u64>();
    let started = Instant::now();
    let producer = go!(move || {
        for value in 0..operations {
            sender.send(value).expect("the receiver is gone");
        }
    });
    let checksum = receiver.iter().sum();
    let result = Outcome::since(started, operations, checksum);
    producer.join().expect("the producer panicked");
    result
}
