//! The rows as a program of `gmp-runtime`, and the reading of its traces.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gmp_runtime::net::{TcpListener, TcpStream};
use gmp_runtime::sync::Mutex;
use gmp_runtime::{JoinHandle, Runtime, channel, go, select, sleep, yield_now};
use gmp_trace::Body;
use gmp_trace::anomaly::Severity;

use super::{MESSAGE, number};
use crate::outcome::Outcome;
use crate::rows::{Work, compute, forks};

/// Runs `work` on `procs` Ps, from the main goroutine.
pub(super) fn run(work: Work, procs: u64, operations: u64) -> Result<Outcome, String> {
    let procs = usize::try_from(procs).map_err(|_| "too many Ps".to_owned())?;
    let runtime = Runtime::builder()
        .procs(procs)
        .build()
        .map_err(|error| format!("the runtime does not start: {error}"))?;
    let program = move || match work {
        Work::Yield => yields(Work::yielders(procs as u64), operations),
        Work::Spawn { batch } => spawns(batch, operations, || 1),
        Work::FanOut { batch } => spawns(batch, operations, compute),
        Work::PingPong => pingpong(operations),
        Work::Buffered { capacity } => buffered(capacity, operations),
        Work::Select => selects(operations),
        Work::Mutex { goroutines } => locks(goroutines, operations),
        Work::Fib { n } => fibs(n, operations),
        Work::Echo { connections } => echo(connections, operations),
        Work::Sleep { micros } => sleeps(micros, operations),
    };
    // SAFETY: the programs below take no reference, guard or handle out of a thread-local, so none
    // lives across a call that may park.
    Ok(unsafe { runtime.run(program) })
}

/// Decodes and orders the trace at `path` with our own reader and counts its events.
///
/// Fails when it cannot be read to its end, or when the reader finds something wrong with it.
pub(crate) fn read(path: &Path) -> Result<Outcome, String> {
    let describe = |error: gmp_trace::Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let started = Instant::now();
    let mut reader = gmp_trace::open_at(file).map_err(describe)?;
    let mut events = 0;
    let mut starts = 0;
    reader
        .for_each_event(|event, _| {
            events += 1;
            starts += u64::from(matches!(event.body, Body::GoStart { .. }));
        })
        .map_err(describe)?;
    let outcome = Outcome::since(started, events, starts);
    let wrong: Vec<String> = reader
        .anomalies()
        .iter()
        .filter(|anomaly| anomaly.kind.severity() != Severity::Info)
        .map(|anomaly| anomaly.to_string())
        .collect();
    match wrong.as_slice() {
        [] => Ok(outcome),
        _ => Err(format!(
            "{} is damaged: {}",
            path.display(),
            wrong.join("; ")
        )),
    }
}

/// Makes `command`, a program of ours, record itself into the file at `path`.
pub(super) fn record(command: &mut Command, path: &Path) {
    let mut setting = OsString::from("trace=");
    setting.push(path);
    command.env("GMPDEBUG", setting);
}

fn sum(handles: impl IntoIterator<Item = JoinHandle<u64>>) -> u64 {
    handles
        .into_iter()
        .map(|handle| {
            handle
                .join()
                .expect("a goroutine of the benchmark panicked")
        })
        .sum()
}

fn yields(yielders: u64, operations: u64) -> Outcome {
    let started = Instant::now();
    let each = operations / yielders;
    let handles: Vec<_> = (0..yielders)
        .map(|_| {
            go(move || {
                let mut own = 0;
                for _ in 0..each {
                    yield_now();
                    own += 1;
                }
                own
            })
        })
        .collect();
    let checksum = sum(handles);
    Outcome::since(started, operations, checksum)
}

fn spawns(batch: u64, operations: u64, work: impl Fn() -> u64 + Copy + Send + 'static) -> Outcome {
    let started = Instant::now();
    let mut checksum = 0;
    let mut handles = Vec::new();
    for _ in 0..operations / batch {
        handles.extend((0..batch).map(|_| go(work)));
        checksum += sum(handles.drain(..));
    }
    Outcome::since(started, operations, checksum)
}

fn pingpong(operations: u64) -> Outcome {
    let (ask, asked) = channel::<u64>(0);
    let (answer, answered) = channel::<u64>(0);
    let started = Instant::now();
    let partner = go(move || {
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

fn buffered(capacity: u64, operations: u64) -> Outcome {
    let capacity = usize::try_from(capacity).expect("the capacity is a small constant");
    let (sender, receiver) = channel::<u64>(capacity);
    let started = Instant::now();
    let producer = go(move || {
        for value in 0..operations {
            sender.send(value).expect("the receiver is gone");
        }
    });
    let mut checksum = 0;
    while let Ok(value) = receiver.recv() {
        checksum += value;
    }
    let result = Outcome::since(started, operations, checksum);
    producer.join().expect("the producer panicked");
    result
}

/// Answers what comes on each connection.
fn serve(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept() {
        go(move || {
            let mut message = [0; MESSAGE];
            while let Ok(length @ 1..) = stream.read(&mut message) {
                if stream.write_all(&message[..length]).is_err() {
                    break;
                }
            }
        });
    }
}

fn echo(connections: u64, operations: u64) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a listener has an address");
    go(move || serve(listener));
    let streams: Vec<_> = (0..connections)
        .map(|_| TcpStream::connect(address).expect("the server listens"))
        .collect();
    let rounds = operations / connections;
    let started = Instant::now();
    let clients: Vec<_> = streams
        .into_iter()
        .map(|stream| go(move || talk(stream, rounds)))
        .collect();
    let checksum = sum(clients);
    Outcome::since(started, operations, checksum)
}

fn talk(mut stream: TcpStream, rounds: u64) -> u64 {
    let mut message = [0; MESSAGE];
    let mut sum = 0;
    for round in 1..=rounds {
        message[..8].copy_from_slice(&round.to_le_bytes());
        stream.write_all(&message).expect("the server reads");
        stream.read_exact(&mut message).expect("the server answers");
        sum += number(&message);
    }
    sum
}

fn sleeps(micros: u64, operations: u64) -> Outcome {
    let started = Instant::now();
    let mut checksum = 0;
    for _ in 0..operations {
        sleep(Duration::from_micros(micros));
        checksum += 1;
    }
    Outcome::since(started, operations, checksum)
}

fn selects(operations: u64) -> Outcome {
    let ((even, evens), (odd, odds)) = (channel::<u64>(0), channel::<u64>(0));
    let (quit, quits) = channel::<u64>(0);
    let started = Instant::now();
    let producer = go(move || {
        for value in 0..operations {
            let sender = if value % 2 == 0 { &even } else { &odd };
            sender.send(value).expect("the receiver is gone");
        }
        quit.close();
    });
    let mut checksum = 0;
    loop {
        select! {
            recv(evens) -> value => checksum += value.unwrap_or(0),
            recv(odds) -> value => checksum += value.unwrap_or(0),
            recv(quits) -> _ => break,
        }
    }
    let result = Outcome::since(started, operations, checksum);
    producer.join().expect("the producer panicked");
    result
}

fn locks(goroutines: u64, operations: u64) -> Outcome {
    let sum = Arc::new(Mutex::new(0));
    let each = operations / goroutines;
    let started = Instant::now();
    let handles: Vec<_> = (0..goroutines)
        .map(|_| {
            let sum = Arc::clone(&sum);
            go(move || {
                for _ in 0..each {
                    *sum.lock() += 1;
                }
            })
        })
        .collect();
    for handle in handles {
        handle
            .join()
            .expect("a goroutine of the benchmark panicked");
    }
    let checksum = *sum.lock();
    Outcome::since(started, operations, checksum)
}

fn fibs(n: u64, operations: u64) -> Outcome {
    let started = Instant::now();
    let checksum = (0..operations / forks(n)).map(|_| fib(n)).sum();
    Outcome::since(started, operations, checksum)
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let left = go(move || fib(n - 1));
    let right = fib(n - 2);
    left.join().expect("a goroutine of the benchmark panicked") + right
}
