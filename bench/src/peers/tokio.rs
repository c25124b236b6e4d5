//! The rows as a program of the crate `tokio`, on either of its schedulers.

use std::time::{Duration, Instant};

use ::tokio::io::{AsyncReadExt, AsyncWriteExt};
use ::tokio::net::{TcpListener, TcpStream};
use ::tokio::runtime::{Builder, Runtime};
use ::tokio::sync::mpsc;
use ::tokio::task::{self, JoinHandle};

use super::{MESSAGE, number};
use crate::outcome::Outcome;
use crate::peers::NO_PROGRAM;
use crate::rows::{Work, compute};

/// Which of tokio's schedulers runs the work.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flavor {
    /// Worker threads that steal from each other.
    ManyThreads,
    /// The thread that blocks on the runtime, and no other.
    OneThread,
}

/// Runs `work` on `procs` worker threads, in a task on a worker.
pub(super) fn run(
    flavor: Flavor,
    work: Work,
    procs: u64,
    operations: u64,
) -> Result<Outcome, String> {
    let runtime = build(flavor, procs)?;
    let whole = runtime.spawn(async move {
        Some(match work {
            Work::Yield => yields(Work::yielders(procs), operations).await,
            Work::Spawn { batch } => spawns(batch, operations, || 1).await,
            Work::FanOut { batch } => spawns(batch, operations, compute).await,
            Work::PingPong => pingpong(operations).await,
            Work::Buffered { capacity } => buffered(capacity, operations).await,
            Work::Echo { connections } => echo(connections, operations).await,
            Work::Sleep { micros } => sleeps(micros, operations).await,
            Work::Select | Work::Mutex { .. } | Work::Fib { .. } => return None,
        })
    });
    runtime
        .block_on(whole)
        .map_err(|error| format!("the work's task failed: {error}"))?
        .ok_or_else(|| NO_PROGRAM.to_owned())
}

fn build(flavor: Flavor, procs: u64) -> Result<Runtime, String> {
    let mut builder = match flavor {
        Flavor::ManyThreads => Builder::new_multi_thread(),
        Flavor::OneThread => Builder::new_current_thread(),
    };
    let workers = usize::try_from(procs).map_err(|_| "too many workers".to_owned())?;
    builder
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(|error| format!("tokio does not start: {error}"))
}

async fn sum(handles: impl IntoIterator<Item = JoinHandle<u64>>) -> u64 {
    let mut total = 0;
    for handle in handles {
        total += handle.await.expect("a task of the benchmark panicked");
    }
    total
}

async fn yields(yielders: u64, operations: u64) -> Outcome {
    let started = Instant::now();
    let each = operations / yielders;
    let handles: Vec<_> = (0..yielders)
        .map(|_| {
            task::spawn(async move {
                let mut own = 0;
                for _ in 0..each {
                    task::yield_now().await;
                    own += 1;
                }
                own
            })
        })
        .collect();
    let checksum = sum(handles).await;
    Outcome::since(started, operations, checksum)
}

async fn spawns(
    batch: u64,
    operations: u64,
    work: impl Fn() -> u64 + Copy + Send + 'static,
) -> Outcome {
    let started = Instant::now();
    let mut checksum = 0;
    let mut handles = Vec::new();
    for _ in 0..operations / batch {
        handles.extend((0..batch).map(|_| task::spawn(async move { work() })));
        checksum += sum(handles.drain(..)).await;
    }
    Outcome::since(started, operations, checksum)
}

async fn pingpong(operations: u64) -> Outcome {
    let (ask, mut asked) = mpsc::channel::<u64>(1);
    let (answer, mut answered) = mpsc::channel::<u64>(1);
    let started = Instant::now();
    let partner = task::spawn(async move {
        while let Some(value) = asked.recv().await {
            answer.send(value + 1).await.expect("the asker is gone");
        }
    });
    let mut checksum = 0;
    for value in 0..operations {
        ask.send(value).await.expect("the partner is gone");
        checksum += answered.recv().await.expect("the partner is gone");
    }
    drop(ask);
    let result = Outcome::since(started, operations, checksum);
    partner.await.expect("the partner panicked");
    result
}

async fn buffered(capacity: u64, operations: u64) -> Outcome {
    let capacity = usize::try_from(capacity).expect("the capacity is a small constant");
    let (sender, mut receiver) = mpsc::channel::<u64>(capacity);
    let started = Instant::now();
    let producer = task::spawn(async move {
        for value in 0..operations {
            sender.send(value).await.expect("the receiver is gone");
        }
    });
    let mut checksum = 0;
    while let Some(value) = receiver.recv().await {
        checksum += value;
    }
    let result = Outcome::since(started, operations, checksum);
    producer.await.expect("the producer panicked");
    result
}

/// Answers what comes on each connection.
async fn serve(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        task::spawn(async move {
            let mut message = [0; MESSAGE];
            while let Ok(length @ 1..) = stream.read(&mut message).await {
                if stream.write_all(&message[..length]).await.is_err() {
                    break;
                }
            }
        });
    }
}

async fn echo(connections: u64, operations: u64) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("a listener has an address");
    task::spawn(serve(listener));
    let mut streams = Vec::new();
    for _ in 0..connections {
        streams.push(
            TcpStream::connect(address)
                .await
                .expect("the server listens"),
        );
    }
    let rounds = operations / connections;
    let started = Instant::now();
    let clients: Vec<_> = streams
        .into_iter()
        .map(|stream| task::spawn(talk(stream, rounds)))
        .collect();
    let checksum = sum(clients).await;
    Outcome::since(started, operations, checksum)
}

async fn talk(mut stream: TcpStream, rounds: u64) -> u64 {
    let mut message = [0; MESSAGE];
    let mut sum = 0;
    for round in 1..=rounds {
        message[..8].copy_from_slice(&round.to_le_bytes());
        stream.write_all(&message).await.expect("the server reads");
        stream
            .read_exact(&mut message)
            .await
            .expect("the server answers");
        sum += number(&message);
    }
    sum
}

async fn sleeps(micros: u64, operations: u64) -> Outcome {
    let started = Instant::now();
    let mut checksum = 0;
    for _ in 0..operations {
        ::tokio::time::sleep(Duration::from_micros(micros)).await;
        checksum += 1;
    }
    Outcome::since(started, operations, checksum)
}
