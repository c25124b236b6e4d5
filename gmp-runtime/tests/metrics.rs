//! Metrics: counts that the program knows too.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::run;
use gmp_runtime::sync::{Mutex, WaitGroup};
use gmp_runtime::{MetricValue, channel, debug, gc, go, metrics, park, sleep, yield_now};

fn count(name: &str) -> u64 {
    metrics().count(name).unwrap()
}

#[test]
fn goroutines_are_counted_by_state() {
    run(1, || {
        let parked: Vec<_> = (0..5).map(|_| go(park)).collect();
        while count("/sched/goroutines/waiting:goroutines") < 5 {
            yield_now();
        }
        let runnable: Vec<_> = (0..3).map(|_| go(|| ())).collect();
        let now = metrics();
        let counts: Vec<_> = ["not-in-go", "runnable", "running", "waiting"]
            .iter()
            .map(|state| {
                now.count(&format!("/sched/goroutines/{state}:goroutines"))
                    .unwrap()
            })
            .collect();
        assert_eq!(counts, [0, 3, 1, 5]);
        assert_eq!(now.count("/sched/goroutines:goroutines"), Some(9));
        assert_eq!(now.count("/sched/goroutines-created:goroutines"), Some(9));
        assert_eq!(now.count("/sched/gomaxprocs:threads"), Some(1));
        assert!(now.count("/sched/threads/total:threads").unwrap() >= 1);
        for goroutine in runnable {
            goroutine.join().unwrap();
        }
        for goroutine in &parked {
            goroutine.goroutine().unpark();
        }
        for goroutine in parked {
            goroutine.join().unwrap();
        }
        assert_eq!(count("/sched/goroutines:goroutines"), 1);
        assert_eq!(count("/sched/goroutines-created:goroutines"), 9);
    });
}

#[test]
fn goroutines_made_on_several_ps_are_counted_once() {
    run(2, || {
        let makers: Vec<_> = (0..4)
            .map(|_| {
                go(|| {
                    for _ in 0..500 {
                        go(|| ()).join().unwrap();
                    }
                })
            })
            .collect();
        for maker in makers {
            maker.join().unwrap();
        }
        assert_eq!(
            count("/sched/goroutines-created:goroutines"),
            1 + 4 + 4 * 500
        );
    });
}

#[test]
fn one_in_64_wakes_is_in_the_histogram_of_latencies() {
    const ROUNDS: u64 = 50_000;
    run(1, || {
        let (sender, receiver) = channel(0);
        let (back, answers) = channel(0);
        go(move || {
            for value in &receiver {
                back.send(value).unwrap();
            }
        });
        for i in 0..ROUNDS {
            sender.send(i).unwrap();
            assert_eq!(answers.recv(), Ok(i));
        }
        let metrics = metrics();
        let Some(MetricValue::Histogram(latencies)) = metrics.get("/sched/latencies:seconds")
        else {
            panic!("{metrics:?}");
        };
        // Two wakes a round, more where a rendezvous takes two.
        let expected = ROUNDS * 2 / 64;
        assert!(
            (expected / 2..expected * 4).contains(&latencies.count()),
            "{} counted",
            latencies.count()
        );
        let median = latencies.quantile(0.5).unwrap();
        assert!(median > 0.0 && median <= latencies.quantile(1.0).unwrap());
        let classes: Vec<_> = latencies.buckets().collect();
        assert!(classes.windows(2).all(|two| two[0].0.end <= two[1].0.start));
        assert_eq!(latencies.quantile(1.5), None);
    });
}

#[test]
fn time_in_locks_is_summed() {
    run(2, || {
        let mutex = Arc::new(Mutex::new(()));
        let group = Arc::new(WaitGroup::new());
        let guard = mutex.lock();
        for _ in 0..3 {
            let mutex = Arc::clone(&mutex);
            group.go(move || drop(mutex.lock()));
        }
        sleep(Duration::from_millis(30));
        drop(guard);
        group.wait();
        let metrics = metrics();
        let Some(MetricValue::Seconds(waited)) = metrics.get("/sync/mutex/wait/total:seconds")
        else {
            panic!("{metrics:?}");
        };
        // On two Ps all three began to wait long before the sleep was over, but a busy machine may be late.
        assert!(*waited > 0.0, "{waited}");
    });
}

#[test]
fn names_are_gos_and_come_once() {
    run(1, || {
        let metrics = metrics();
        let names: Vec<_> = metrics.iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                "/sched/gomaxprocs:threads",
                "/sched/goroutines:goroutines",
                "/sched/goroutines-created:goroutines",
                "/sched/goroutines/not-in-go:goroutines",
                "/sched/goroutines/runnable:goroutines",
                "/sched/goroutines/running:goroutines",
                "/sched/goroutines/waiting:goroutines",
                "/sched/latencies:seconds",
                "/sched/pauses/stopping/gc:seconds",
                "/sched/pauses/stopping/other:seconds",
                "/sched/pauses/total/gc:seconds",
                "/sched/pauses/total/other:seconds",
                "/sched/threads/total:threads",
                "/sync/mutex/wait/total:seconds",
            ]
        );
        assert!(metrics.get("/sched/none").is_none());
        assert!(metrics.count("/sched/latencies:seconds").is_none());
        for (name, value) in metrics.iter() {
            assert!(!value.to_string().is_empty(), "{name}");
        }
    });
}

#[test]
fn stops_of_the_world_are_counted_with_their_lengths() {
    const STOPS: u64 = 20;
    const PAUSE: Duration = Duration::from_millis(2);
    run(2, || {
        for _ in 0..STOPS {
            // Whoever has stopped the world may do it again within, which stops nobody.
            debug::stop_the_world("pause", || {
                debug::stop_the_world("again", || ());
                thread::sleep(PAUSE);
            });
        }
        // Cycles stop nobody.
        gc();
        let metrics = metrics();
        let seen = |name: &str| match metrics.get(name) {
            Some(MetricValue::Histogram(seen)) => seen.clone(),
            other => panic!("{name}: {other:?}"),
        };
        let stopping = seen("/sched/pauses/stopping/other:seconds");
        let total = seen("/sched/pauses/total/other:seconds");
        assert_eq!((stopping.count(), total.count()), (STOPS, STOPS));
        // Classes end an eighth above their beginning.
        let shortest = total.quantile(0.0).unwrap();
        assert!(shortest >= PAUSE.as_secs_f64(), "{shortest}");
        assert!(stopping.quantile(0.0).unwrap() < shortest);
        for name in ["stopping", "total"] {
            assert_eq!(seen(&format!("/sched/pauses/{name}/gc:seconds")).count(), 0);
        }
    });
}
