//! Channels: what is sent is received once, in order; who waits is woken; nothing leaks.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use common::{Drops, PROCS, run};
use gmp_runtime::{
    Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError, channel, go, metrics,
    yield_now,
};

/// Lets other goroutines come to where they wait.
fn let_others_wait() {
    for _ in 0..200 {
        yield_now();
    }
}

/// Comes back when so many goroutines wait.
fn await_waiting(count: u64) {
    while metrics().count("/sched/goroutines/waiting:goroutines") != Some(count) {
        yield_now();
    }
}

#[test]
fn without_a_buffer_a_sender_waits_for_its_receiver() {
    run(1, || {
        let (sender, receiver) = channel(0);
        assert_eq!((sender.capacity(), receiver.capacity()), (0, 0));
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let producer = go(move || {
            for i in 0..3 {
                sender.send(i).unwrap();
                counter.fetch_add(1, SeqCst);
            }
        });
        for i in 0..3 {
            let_others_wait();
            assert_eq!(sent.load(SeqCst), i);
            assert_eq!(receiver.recv(), Ok(i));
        }
        producer.join().unwrap();
        assert_eq!(receiver.recv(), Err(RecvError));
    });
}

#[test]
fn a_sender_waits_when_the_buffer_is_full() {
    run(1, || {
        for capacity in [1, 2, 7, 100] {
            let (sender, receiver) = channel(capacity);
            let sent = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&sent);
            let producer = go(move || {
                for i in 0..3 * capacity {
                    sender.send(i).unwrap();
                    counter.fetch_add(1, SeqCst);
                }
            });
            for i in 0..3 * capacity {
                let_others_wait();
                assert_eq!(sent.load(SeqCst), (capacity + i).min(3 * capacity));
                assert_eq!(receiver.len(), capacity.min(3 * capacity - i));
                assert_eq!(receiver.recv(), Ok(i));
            }
            producer.join().unwrap();
            assert!(receiver.is_empty());
            assert_eq!(receiver.recv(), Err(RecvError));
        }
    });
}

/// Many to many; the sum, the number, and the order of each sender's own values.
fn many_to_many(procs: usize, capacity: usize, senders: usize, receivers: usize, each: usize) {
    let received = run(procs, || {
        let (sender, receiver) = channel(capacity);
        for s in 0..senders {
            let sender = sender.clone();
            go(move || {
                for i in 0..each {
                    sender.send((s, i)).unwrap();
                    if i % 64 == s {
                        yield_now();
                    }
                }
            });
        }
        drop(sender);
        let takers: Vec<_> = (0..receivers)
            .map(|_| {
                let receiver: Receiver<(usize, usize)> = receiver.clone();
                go(move || receiver.iter().collect::<Vec<_>>())
            })
            .collect();
        takers
            .into_iter()
            .map(|taker| taker.join().unwrap())
            .collect::<Vec<_>>()
    });
    let mut seen = vec![vec![0_u8; each]; senders];
    for values in &received {
        let mut last = vec![None; senders];
        for &(s, i) in values {
            assert!(last[s] < Some(i), "values of sender {s} out of order");
            last[s] = Some(i);
            seen[s][i] += 1;
        }
    }
    assert!(seen.iter().flatten().all(|&times| times == 1));
}

#[test]
fn values_are_neither_lost_nor_doubled_and_keep_their_order() {
    for procs in PROCS {
        for capacity in [0, 1, 3, 64] {
            many_to_many(procs, capacity, 1, 1, 2_000);
            many_to_many(procs, capacity, 8, 1, 300);
            many_to_many(procs, capacity, 1, 8, 2_000);
            many_to_many(procs, capacity, 6, 5, 400);
        }
    }
}

/// A value is given to whoever waits, and a place to the value that waits for it: who comes in between gets neither.
#[test]
fn values_and_places_go_straight_to_whoever_waits() {
    for procs in PROCS {
        run(procs, || {
            for capacity in [0, 1, 3] {
                let (sender, receiver) = channel(capacity);
                let waiting: Vec<_> = (0..3)
                    .map(|_| {
                        let receiver = receiver.clone();
                        go(move || receiver.recv())
                    })
                    .collect();
                await_waiting(3);
                for i in 0..3 {
                    assert_eq!(sender.try_send(i), Ok(()));
                    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
                    assert_eq!(receiver.len(), 0);
                }
                let mut got: Vec<_> = waiting.into_iter().map(|one| one.join().unwrap()).collect();
                got.sort_unstable_by_key(|value| value.unwrap_or(9));
                assert_eq!(got, [Ok(0), Ok(1), Ok(2)]);

                for i in 0..capacity {
                    sender.send(i).unwrap();
                }
                let waiting: Vec<_> = (0..3)
                    .map(|_| {
                        let sender = sender.clone();
                        go(move || sender.send(7))
                    })
                    .collect();
                await_waiting(3);
                for i in 0..3 {
                    let expected = if i < capacity { i } else { 7 };
                    assert_eq!(receiver.try_recv(), Ok(expected));
                    assert_eq!(
                        receiver.len(),
                        capacity,
                        "the next one's value is in its place"
                    );
                    assert_eq!(sender.try_send(8), Err(TrySendError::Full(8)));
                }
                for one in waiting {
                    assert_eq!(one.join().unwrap(), Ok(()));
                }
                assert_eq!(receiver.len(), capacity);
            }
        });
    }
}

#[test]
fn closing_wakes_everybody() {
    for procs in PROCS {
        let drops = Drops::default();
        run(procs, || {
            let (sender, receiver) = channel::<usize>(0);
            let receivers: Vec<_> = (0..50)
                .map(|_| {
                    let receiver = receiver.clone();
                    go(move || receiver.recv())
                })
                .collect();
            let_others_wait();
            sender.close();
            sender.close();
            for waiting in receivers {
                assert_eq!(waiting.join().unwrap(), Err(RecvError));
            }
            assert_eq!(sender.send(1), Err(SendError(1)));
            assert_eq!(sender.try_send(1), Err(TrySendError::Closed(1)));

            let (sender, _receiver) = channel(0);
            let senders: Vec<_> = (0..50)
                .map(|i| {
                    let (sender, value) = (sender.clone(), drops.value(i));
                    go(move || sender.send(value).unwrap_err().0.number)
                })
                .collect();
            let_others_wait();
            sender.close();
            for (i, waiting) in senders.into_iter().enumerate() {
                assert_eq!(waiting.join().unwrap(), i, "the value came back");
            }
        });
        assert_eq!((drops.made(), drops.alive()), (50, 0));
    }
}

#[test]
fn what_was_sent_before_closing_is_received() {
    run(1, || {
        let (sender, receiver) = channel(5);
        for i in 0..5 {
            sender.send(i).unwrap();
        }
        sender.close();
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    });
}

#[test]
fn the_last_sender_and_the_last_receiver_close() {
    for procs in PROCS {
        run(procs, || {
            let (sender, receiver) = channel::<u8>(0);
            let second = sender.clone();
            let waiting = go(move || receiver.recv());
            let_others_wait();
            drop(sender);
            let_others_wait();
            assert!(!waiting.is_finished(), "a sender is left");
            drop(second);
            assert_eq!(waiting.join().unwrap(), Err(RecvError));

            let (sender, receiver) = channel::<u8>(0);
            let second = receiver.clone();
            let waiting = go(move || sender.send(9));
            let_others_wait();
            drop(receiver);
            let_others_wait();
            assert!(!waiting.is_finished(), "a receiver is left");
            drop(second);
            assert_eq!(waiting.join().unwrap(), Err(SendError(9)));
        });
    }
}

#[test]
fn trying_does_not_wait() {
    run(1, || {
        let (sender, receiver) = channel(1);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(sender.try_send(1), Ok(()));
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(receiver.try_recv(), Ok(1));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));

        let (sender, receiver) = channel(0);
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
        let waiting = go({
            let receiver = receiver.clone();
            move || receiver.recv()
        });
        let_others_wait();
        assert_eq!(sender.try_send(3), Ok(()));
        assert_eq!(waiting.join().unwrap(), Ok(3));
        let waiting = go({
            let sender = sender.clone();
            move || sender.send(4)
        });
        let_others_wait();
        assert_eq!(receiver.try_recv(), Ok(4));
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
}

#[test]
fn values_of_no_size_and_of_a_large_one_pass() {
    for procs in PROCS {
        for capacity in [0, 4] {
            run(procs, || {
                let (sender, receiver) = channel::<()>(capacity);
                go(move || (0..1_000).for_each(|_| sender.send(()).unwrap()));
                assert_eq!(receiver.iter().count(), 1_000);

                let (sender, receiver) = channel::<[u64; 512]>(capacity);
                go(move || {
                    for i in 0..200_u64 {
                        sender.send(std::array::from_fn(|n| i ^ n as u64)).unwrap();
                    }
                });
                let mut count = 0;
                for (i, value) in (0_u64..).zip(&receiver) {
                    assert!((0_u64..).zip(value).all(|(n, word)| word == i ^ n));
                    count += 1;
                }
                assert_eq!(count, 200);
            });
        }
    }
}

#[test]
fn every_value_is_dropped_once() {
    for procs in PROCS {
        for capacity in [0, 1, 16] {
            let drops = Drops::default();
            run(procs, || {
                let (sender, receiver) = channel(capacity);
                let senders: Vec<_> = (0..5)
                    .map(|_| {
                        let (sender, drops) = (sender.clone(), drops.clone());
                        go(move || {
                            let mut i = 0;
                            while sender.send(drops.value(i)).is_ok() {
                                i += 1;
                            }
                        })
                    })
                    .collect();
                for _ in 0..500 {
                    drop(receiver.recv().unwrap());
                }
                // Some are in the buffer, some wait to be sent.
                drop(receiver);
                senders.into_iter().for_each(|s| s.join().unwrap());
            });
            assert!(drops.made() > 500);
            assert_eq!(drops.alive(), 0);
        }
    }
}

#[test]
fn a_buffer_is_dropped_with_its_channel_on_any_thread() {
    let drops = Drops::default();
    let (sender, receiver) = channel(10);
    for i in 0..10 {
        sender.try_send(drops.value(i)).unwrap();
    }
    drop(receiver);
    assert!(sender.try_send(drops.value(10)).is_err());
    thread::spawn(move || drop(sender)).join().unwrap();
    assert_eq!((drops.made(), drops.alive()), (11, 0));
}

#[test]
fn threads_can_use_what_does_not_wait() {
    const EACH: usize = 2_000;
    for procs in PROCS {
        for capacity in [0, 3] {
            let (to_goroutines, from_thread) = channel::<usize>(capacity);
            let (to_thread, from_goroutines) = channel::<usize>(capacity);
            let thread = thread::spawn(move || {
                let (mut sent, mut received, mut sum) = (0, 0, 0);
                while received < EACH {
                    if sent < EACH && to_goroutines.try_send(sent).is_ok() {
                        sent += 1;
                    }
                    match from_goroutines.try_recv() {
                        Ok(value) => {
                            received += 1;
                            sum += value;
                        }
                        Err(TryRecvError::Empty) => thread::yield_now(),
                        Err(TryRecvError::Closed) => panic!("closed after {received}"),
                    }
                }
                sum
            });
            run(procs, || {
                let workers: Vec<_> = (0..4)
                    .map(|_| {
                        let (from, to) = (from_thread.clone(), to_thread.clone());
                        go(move || from.iter().for_each(|value| to.send(value).unwrap()))
                    })
                    .collect();
                workers
                    .into_iter()
                    .for_each(|worker| worker.join().unwrap());
            });
            assert_eq!(thread.join().unwrap(), EACH * (EACH - 1) / 2);
        }
    }
}

#[test]
fn waiting_on_a_thread_says_what_to_do() {
    let (sender, receiver) = channel::<u8>(1);
    sender.send(1).unwrap();
    let message = |result: thread::Result<()>| -> String {
        (*result.unwrap_err().downcast::<&'static str>().unwrap()).to_owned()
    };
    let full = message(panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let _ = sender.send(2);
    })));
    assert!(full.contains("not on a goroutine"), "{full}");
    assert_eq!(receiver.recv(), Ok(1));
    let empty = message(panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let _ = receiver.recv();
    })));
    assert!(empty.contains("not on a goroutine"), "{empty}");
    // The channel is whole.
    sender.send(3).unwrap();
    assert_eq!(receiver.try_recv(), Ok(3));
}

#[test]
fn errors_say_what_happened() {
    assert_eq!(SendError(1).to_string(), "send on a closed channel");
    assert_eq!(TrySendError::Full(1).to_string(), "send on a full channel");
    assert_eq!(
        TrySendError::Closed(1).to_string(),
        "send on a closed channel"
    );
    assert_eq!(RecvError.to_string(), "receive from a closed channel");
    assert_eq!(
        TryRecvError::Empty.to_string(),
        "receive from an empty channel"
    );
}

#[test]
fn a_pipeline_of_many_stages_delivers() {
    fn stage(from: Receiver<u64>, to: Sender<u64>) {
        go(move || from.iter().for_each(|value| to.send(value + 1).unwrap()));
    }
    for procs in PROCS {
        for capacity in [0, 2] {
            let values = run(procs, || {
                let (first, mut last) = channel(capacity);
                for _ in 0..100 {
                    let (to, next) = channel(capacity);
                    stage(last, to);
                    last = next;
                }
                go(move || (0..50).for_each(|i| first.send(i).unwrap()));
                last.iter().collect::<Vec<_>>()
            });
            assert_eq!(values, (100..150).collect::<Vec<_>>());
        }
    }
}

#[test]
fn channels_pass_through_channels() {
    for procs in PROCS {
        let answers = run(procs, || {
            let (requests, server) = channel::<(u64, Sender<u64>)>(0);
            go(move || {
                for (value, answer) in &server {
                    answer.send(value * value).unwrap();
                }
            });
            let clients: Vec<_> = (0..50)
                .map(|i| {
                    let requests = requests.clone();
                    go(move || {
                        let (answer, answers) = channel(0);
                        requests.send((i, answer)).unwrap();
                        answers.recv().unwrap()
                    })
                })
                .collect();
            clients.into_iter().map(|c| c.join().unwrap()).sum::<u64>()
        });
        assert_eq!(answers, (0..50).map(|i| i * i).sum());
    }
}
