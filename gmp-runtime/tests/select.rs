//! Selects: which case is done, that nothing is lost or done twice, deadlines, shutdown.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::run;
use gmp_runtime::{
    RecvTimeoutError, Select, SendTimeoutError, channel, go, metrics, never, select, sleep,
    yield_now,
};

#[test]
fn a_default_is_taken_only_when_nothing_is_possible() {
    run(1, || {
        let (sender, receiver) = channel::<u32>(1);
        let first = select! {
            recv(receiver) -> value => value.ok(),
            default => None,
        };
        assert_eq!(first, None);
        let sent = select! {
            send(sender, 7) -> result => { result.is_ok() }
            default => false
        };
        assert!(sent);
        let full = select! {
            send(sender, 8) -> result => result.is_ok(),
            recv(receiver) -> value => value.is_err(),
            default => true,
        };
        assert!(!full, "receiving was possible");
        drop(sender);
        let closed = select! {
            recv(receiver) -> value => value.is_err(),
            default => false,
        };
        assert!(closed, "a closed channel is always ready");
    });
}

#[test]
fn control_flow_leaves_a_case() {
    fn first_even(receiver: &gmp_runtime::Receiver<u32>) -> u32 {
        loop {
            select! {
                recv(receiver) -> value => {
                    let Ok(value) = value else { break 0 };
                    if value % 2 == 1 {
                        continue;
                    }
                    return value;
                }
            }
        }
    }
    run(2, || {
        let (sender, receiver) = channel(0);
        go(move || {
            for i in 1..=4 {
                let _ = sender.send(i);
            }
        });
        assert_eq!(first_even(&receiver), 2);
    });
}

/// The probability that a fair choice is at least this uneven is below one in a million.
fn assert_uniform(counts: &[u64]) {
    let total: u64 = counts.iter().sum();
    let expected = total as f64 / counts.len() as f64;
    let chi_square: f64 = counts
        .iter()
        .map(|&count| (count as f64 - expected).powi(2) / expected)
        .sum();
    // Quantiles of the chi-square distribution at 1 - 1e-6, for 1, 2 and 3 degrees of freedom.
    let limit = [23.93, 27.63, 30.66][counts.len() - 2];
    assert!(chi_square < limit, "{counts:?}: chi-square {chi_square}");
}

#[test]
fn the_choice_among_ready_cases_is_uniform() {
    const ROUNDS: u64 = 40_000;
    run(1, || {
        let (a, from_a) = channel::<()>(1);
        let (_b, from_b) = channel::<()>(1);
        let (c, from_c) = channel::<()>(1);
        let (d, from_d) = channel::<()>(1);
        let mut counts = [0; 3];
        for _ in 0..ROUNDS {
            for sender in [&a, &c, &d] {
                let _ = sender.try_send(());
            }
            // The second one is never ready, so the others do not follow one another evenly.
            select! {
                recv(from_a) -> _ => counts[0] += 1,
                recv(from_b) -> _ => unreachable!(),
                recv(from_c) -> _ => counts[1] += 1,
                recv(from_d) -> _ => counts[2] += 1,
            }
        }
        assert_eq!(counts.iter().sum::<u64>(), ROUNDS);
        assert_uniform(&counts);
    });
}

/// The same of sending and receiving, by the macro and by the builder.
#[test]
fn the_choice_among_sends_and_receives_is_uniform() {
    const ROUNDS: u64 = 40_000;
    run(1, || {
        let (full, from_full) = channel::<usize>(1);
        let (room, from_room) = channel::<usize>(1);
        let (other, from_other) = channel::<usize>(1);
        for builder in [false, true] {
            let mut counts = [0; 3];
            for _ in 0..ROUNDS {
                let _ = full.try_send(0);
                let _ = (from_room.try_recv(), from_other.try_recv());
                let done = if builder {
                    let mut select = Select::new();
                    select
                        .send(&room, 1, |sent| sent.map_or(9, |()| 1))
                        .recv(&from_full, |value| value.unwrap_or(9))
                        .send(&other, 2, |sent| sent.map_or(9, |()| 2));
                    select.wait()
                } else {
                    select! {
                        send(room, 1) -> sent => sent.map_or(9, |()| 1),
                        recv(from_full) -> value => value.unwrap_or(9),
                        send(other, 2) -> sent => sent.map_or(9, |()| 2),
                    }
                };
                counts[done] += 1;
            }
            assert_eq!(counts.iter().sum::<u64>(), ROUNDS);
            assert_uniform(&counts);
        }
    });
}

#[test]
fn a_case_that_is_never_ready_is_turned_off() {
    run(1, || {
        let nothing = never::<u8>();
        assert!(nothing.try_recv().is_err());
        let (sender, receiver) = channel(1);
        for i in 0..1_000 {
            sender.send(i).unwrap();
            let value = select! {
                recv(nothing) -> _ => None,
                recv(receiver) -> value => value.ok(),
            };
            assert_eq!(value, Some(i));
        }
        let blocked = [
            go({
                let nothing = nothing.clone();
                move || {
                    let _ = nothing.recv();
                }
            }),
            go(move || {
                select! {
                    recv(nothing) -> _ => {}
                }
            }),
            go(|| select! {}),
            go(|| Select::new().wait()),
        ];
        // A timer that comes back many times gives everybody time enough.
        for _ in 0..50 {
            sleep(Duration::from_micros(200));
        }
        assert!(blocked.iter().all(|one| !one.is_finished()));
    });
}

/// Those who wait in a select run only when it is over.
#[test]
fn who_waits_in_a_select_does_not_run() {
    run(1, || {
        let (sender, receiver) = channel::<u32>(0);
        let nothing = never::<u8>();
        let waiting = go(move || {
            select! {
                recv(nothing) -> _ => 0,
                recv(receiver) -> value => value.unwrap(),
                timeout(Duration::from_secs(3600)) => 1,
            }
        });
        let count = |state: &str| {
            let name = format!("/sched/goroutines/{state}:goroutines");
            metrics().count(&name).unwrap()
        };
        while count("waiting") == 0 {
            yield_now();
        }
        for _ in 0..1_000 {
            yield_now();
            assert_eq!((count("waiting"), count("runnable")), (1, 0));
        }
        sender.send(7).unwrap();
        assert_eq!(waiting.join().unwrap(), 7);
    });
}

/// Values of no size and of a large one, each through both kinds of case, with those that wait and those that do not.
#[test]
fn values_of_no_size_and_of_a_large_one_pass_through_selects() {
    const EACH: u64 = 300;
    for procs in [1, 2, 4] {
        for capacity in [0, 2] {
            let (none, large) = run(procs, || {
                let (nothing, from_nothing) = channel::<()>(capacity);
                let (large, from_large) = channel::<[u64; 512]>(capacity);
                // These stay: a channel that is closed is always ready.
                let (to_nothing, to_large) = (nothing.clone(), large.clone());
                go(move || {
                    let (mut nothings, mut larges) = (0, 0);
                    while nothings + larges < 2 * EACH {
                        let value = std::array::from_fn(|n| larges ^ n as u64);
                        select! {
                            send(to_nothing, ()) -> sent => { sent.unwrap(); nothings += 1 }
                            send(to_large, value) -> sent => { sent.unwrap(); larges += 1 }
                        }
                    }
                });
                let (mut nothings, mut larges) = (0, 0);
                while nothings + larges < 2 * EACH {
                    select! {
                        recv(from_nothing) -> value => { value.unwrap(); nothings += 1 }
                        recv(from_large) -> value => {
                            let words = value.unwrap();
                            assert!((0_u64..).zip(words).all(|(n, word)| word == larges ^ n));
                            larges += 1;
                        }
                    }
                }
                (nothings, larges)
            });
            assert_eq!(none + large, 2 * EACH);
            assert!(none > 0 && large > 0, "{none} and {large}");
        }
    }
}

/// A test of the test: a choice that prefers the first one is found.
#[test]
#[should_panic(expected = "chi-square")]
fn an_uneven_choice_is_found() {
    assert_uniform(&[20_600, 19_400]);
}

#[test]
fn every_value_arrives_once_through_selects_on_both_sides() {
    const SENDERS: u64 = 4;
    const EACH: u64 = 2_000;
    for procs in [1, 2, 4] {
        let (sum, count) = run(procs, || {
            let (a, from_a) = channel::<u64>(0);
            let (b, from_b) = channel::<u64>(2);
            for sender in 0..SENDERS {
                let (a, b) = (a.clone(), b.clone());
                go(move || {
                    for i in 0..EACH {
                        let value = sender * EACH + i;
                        select! {
                            send(a, value) -> sent => sent.unwrap(),
                            send(b, value) -> sent => sent.unwrap(),
                        }
                    }
                });
            }
            drop((a, b));
            let parts: Vec<_> = (0..3)
                .map(|_| {
                    let (from_a, from_b) = (from_a.clone(), from_b.clone());
                    go(move || {
                        let (mut sum, mut count) = (0, 0);
                        loop {
                            let (which, value) = select! {
                                recv(from_a) -> value => (0, value),
                                recv(from_b) -> value => (1, value),
                            };
                            match value {
                                Ok(value) => {
                                    sum += value;
                                    count += 1;
                                }
                                Err(_) => {
                                    // The other one may still have values.
                                    let rest = if which == 0 { &from_b } else { &from_a };
                                    for value in rest {
                                        sum += value;
                                        count += 1;
                                    }
                                    return (sum, count);
                                }
                            }
                        }
                    })
                })
                .collect();
            parts
                .into_iter()
                .map(|part| part.join().unwrap())
                .fold((0, 0), |all, part| (all.0 + part.0, all.1 + part.1))
        });
        let total = SENDERS * EACH;
        assert_eq!((sum, count), (total * (total - 1) / 2, total), "{procs} Ps");
    }
}

#[test]
fn a_select_that_sends_and_receives_on_one_channel_does_not_serve_itself() {
    run(2, || {
        let (sender, receiver) = channel::<u32>(0);
        let alone = select! {
            send(sender, 1) -> _ => "sent",
            recv(receiver) -> _ => "received",
            timeout(Duration::from_millis(5)) => "nothing",
        };
        assert_eq!(alone, "nothing");
        // Two of them serve each other.
        let (other_sender, other_receiver) = (sender.clone(), receiver.clone());
        let other = go(move || {
            select! {
                send(other_sender, 1) -> sent => sent.map(|()| "sent").unwrap(),
                recv(other_receiver) -> value => value.map(|_| "received").unwrap(),
            }
        });
        let mine = select! {
            send(sender, 2) -> sent => sent.map(|()| "sent").unwrap(),
            recv(receiver) -> value => value.map(|_| "received").unwrap(),
        };
        let both = [mine, other.join().unwrap()];
        assert!(
            both == ["sent", "received"] || both == ["received", "sent"],
            "{both:?}"
        );
    });
}

#[test]
fn deadlines_are_not_early_and_values_come_back() {
    run(2, || {
        let (sender, receiver) = channel::<String>(0);
        let begin = Instant::now();
        let wait = Duration::from_millis(3);
        assert_eq!(receiver.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
        assert!(begin.elapsed() >= wait);
        match sender.send_timeout("kept".to_owned(), wait) {
            Err(SendTimeoutError::Timeout(value)) => assert_eq!(value, "kept"),
            other => panic!("{other:?}"),
        }
        let receiving = go(move || receiver.recv_timeout(Duration::from_secs(60)));
        sender
            .send_timeout("sent".to_owned(), Duration::from_secs(60))
            .unwrap();
        assert_eq!(receiving.join().unwrap(), Ok("sent".to_owned()));
        // The receiver is gone.
        match sender.send_timeout("late".to_owned(), wait) {
            Err(SendTimeoutError::Closed(value)) => assert_eq!(value, "late"),
            other => panic!("{other:?}"),
        }
    });
}

/// Counts how often it is dropped.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn deadlines_that_race_with_values_neither_lose_nor_double_any() {
    const VALUES: u64 = 3_000;
    for procs in [1, 2, 4] {
        let dropped = Arc::new(AtomicU64::new(0));
        let made = dropped.clone();
        let (sent, received) = run(procs, move || {
            let (sender, receiver) = channel::<Counted>(0);
            let receiving = go(move || {
                let mut received = 0u64;
                loop {
                    match receiver.recv_timeout(Duration::from_micros(received % 40)) {
                        Ok(_) => received += 1,
                        Err(RecvTimeoutError::Timeout) => yield_now(),
                        Err(RecvTimeoutError::Closed) => return received,
                    }
                }
            });
            let mut sent = 0;
            for i in 0..VALUES {
                let value = Counted(made.clone());
                match sender.send_timeout(value, Duration::from_micros(i % 50)) {
                    Ok(()) => sent += 1,
                    Err(SendTimeoutError::Timeout(_)) => {}
                    Err(SendTimeoutError::Closed(_)) => unreachable!(),
                }
            }
            drop(sender);
            (sent, receiving.join().unwrap())
        });
        assert_eq!(sent, received, "{procs} Ps");
        assert_eq!(dropped.load(Ordering::Relaxed), VALUES, "{procs} Ps");
    }
}

#[test]
fn a_select_with_a_number_of_cases_known_at_run_time() {
    run(2, || {
        let channels: Vec<_> = (0..40).map(|_| channel::<usize>(0)).collect();
        let senders: Vec<_> = channels.iter().map(|(sender, _)| sender.clone()).collect();
        go(move || {
            for (i, sender) in senders.iter().enumerate().rev() {
                sender.send(i).unwrap();
            }
        });
        for expected in (0..40).rev() {
            let mut select = Select::new();
            for (index, (_, receiver)) in channels.iter().enumerate() {
                select.recv(receiver, move |value| (index, value.unwrap()));
            }
            assert_eq!(select.wait(), (expected, expected));
        }
        let mut select = Select::new();
        select.recv(&channels[0].1, |_| ());
        assert_eq!(select.wait_timeout(Duration::from_millis(1)), None);
        assert_eq!(Select::<()>::new().try_now(), None);
    });
}

#[test]
fn goroutines_in_selects_are_unwound_at_the_end() {
    let dropped = Arc::new(AtomicU64::new(0));
    for procs in [1, 2] {
        let counter = dropped.clone();
        run(procs, move || {
            let (sender, receiver) = channel::<Counted>(0);
            for _ in 0..10 {
                let (sender, receiver, value) =
                    (sender.clone(), receiver.clone(), Counted(counter.clone()));
                go(move || {
                    let (_never, nothing) = channel::<u8>(0);
                    let held = value;
                    select! {
                        recv(nothing) -> _ => {}
                        timeout(Duration::from_secs(3600)) => {}
                    }
                    drop((sender, receiver, held));
                });
            }
            let sent = Counted(counter.clone());
            go(move || {
                let (_never, nothing) = channel::<u8>(0);
                let (own, _full) = channel::<Counted>(0);
                select! {
                    send(own, sent) -> _ => {}
                    recv(nothing) -> _ => {}
                }
            });
            go(|| select! {});
            sleep(Duration::from_millis(5));
        });
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 22);
}
