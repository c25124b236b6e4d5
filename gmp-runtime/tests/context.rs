//! Contexts: what ends them, what ends with them, and what they carry.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{PROCS, run};
use gmp_runtime::context::{Context, ContextError, ContextRecvError, ContextSendError};
use gmp_runtime::{RecvError, TryRecvError, channel, go, metrics, select, sleep, yield_now};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_cancel_ends_everything_below_and_nothing_above() {
    run(1, || {
        let root = Context::background();
        let (middle, cancel_middle) = root.with_cancel();
        let (left, _cancel_left) = middle.with_cancel();
        let right = middle.with_value(5_u8);
        let (below_right, _cancel_below) = right.with_timeout(HOUR);
        let (beside, _cancel_beside) = root.with_cancel();
        let all = [&root, &middle, &left, &right, &below_right, &beside];
        assert!(all.iter().all(|context| context.error().is_none()));
        assert!(
            all.iter()
                .all(|context| context.done().try_recv() == Err(TryRecvError::Empty))
        );
        cancel_middle.cancel();
        cancel_middle.cancel();
        let ended = |context: &&Context| context.error() == Some(ContextError::Canceled);
        assert_eq!(
            all.iter().map(ended).collect::<Vec<_>>(),
            [false, true, true, true, true, false]
        );
        assert!(left.done().recv() == Err(RecvError));
        // One that is made too late is done from the beginning.
        let (late, _cancel_late) = left.with_cancel();
        assert_eq!(late.error(), Some(ContextError::Canceled));
        drop(_cancel_beside);
        assert_eq!(beside.error(), Some(ContextError::Canceled), "by the drop");
        assert_eq!(root.error(), None);
    });
}

#[test]
fn a_deadline_passes_and_the_sooner_one_counts() {
    run(2, || {
        let root = Context::background();
        let begin = Instant::now();
        let (context, _cancel) = root.with_timeout(Duration::from_millis(20));
        let (child, _cancel_child) = context.with_timeout(HOUR);
        assert_eq!(child.deadline(), context.deadline());
        assert_eq!(child.done().recv(), Err(RecvError));
        assert!(begin.elapsed() >= Duration::from_millis(20));
        for context in [&context, &child] {
            assert_eq!(context.error(), Some(ContextError::DeadlineExceeded));
        }
        let (past, _cancel_past) = root.with_deadline(begin);
        assert_eq!(past.error(), Some(ContextError::DeadlineExceeded));
        let (never, cancel_never) = root.with_timeout(Duration::MAX);
        assert_eq!((never.error(), never.deadline()), (None, None));
        cancel_never.cancel();
        assert_eq!(never.error(), Some(ContextError::Canceled));
        assert_eq!(root.error(), None);
    });
}

#[test]
fn values_are_found_by_type_the_nearest_first() {
    struct User(&'static str);
    let root = Context::background();
    let outer = root.with_value(User("outer")).with_value(7_u64);
    let (inner, _cancel) = outer.with_cancel();
    let inner = inner.with_value(User("inner"));
    assert_eq!(outer.value::<User>().unwrap().0, "outer");
    assert_eq!(inner.value::<User>().unwrap().0, "inner");
    assert_eq!(inner.value(), Some(&7_u64));
    assert!(inner.value::<i8>().is_none() && root.value::<u64>().is_none());
}

#[test]
fn what_blocks_ends_with_the_context_and_loses_nothing() {
    for procs in PROCS {
        run(procs, || {
            let (context, cancel) = Context::background().with_cancel();
            let (sender, receiver) = channel::<String>(0);
            let receiving = {
                let context = context.clone();
                go(move || context.recv(&receiver))
            };
            let sending = {
                let (context, other) = (context.clone(), channel::<u8>(0));
                go(move || (context.send(&other.0, 9), other.1))
            };
            let sleeper = {
                let context = context.clone();
                go(move || context.sleep(HOUR))
            };
            let runner = {
                let context = context.clone();
                go(move || context.run(|| sleep(Duration::from_millis(1))))
            };
            assert_eq!(runner.join().unwrap(), Ok(()));
            for _ in 0..10 {
                yield_now();
            }
            cancel.cancel();
            let done = ContextError::Canceled;
            assert_eq!(receiving.join().unwrap(), Err(ContextRecvError::Done(done)));
            let (sent, _receiver) = sending.join().unwrap();
            assert_eq!(sent, Err(ContextSendError::Done(done, 9)));
            assert_eq!(sleeper.join().unwrap(), Err(done));
            // Done already: nothing is tried.
            assert!(sender.try_send("unsent".to_owned()).is_err());
            assert_eq!(context.run(|| unreachable!()), Err::<(), _>(done));
        });
    }
}

#[test]
fn without_an_end_everything_is_as_without_a_context() {
    run(2, || {
        let (context, _cancel) = Context::background().with_timeout(HOUR);
        let (sender, receiver) = channel(0);
        let echo = {
            let context = context.clone();
            go(move || {
                let mut sum = 0;
                while let Ok(value) = context.recv(&receiver) {
                    sum += value;
                }
                (sum, context.recv(&receiver))
            })
        };
        for i in 0..100 {
            context.send(&sender, i).unwrap();
        }
        drop(sender);
        assert_eq!(
            echo.join().unwrap(),
            (99 * 100 / 2, Err(ContextRecvError::Closed))
        );
        assert_eq!(context.sleep(Duration::from_millis(1)), Ok(()));
        let (closed, receiver) = channel(0);
        drop(receiver);
        assert_eq!(context.send(&closed, 3), Err(ContextSendError::Closed(3)));
        let panicked = go(move || context.run(|| panic!("out of f"))).join();
        assert!(panicked.unwrap_err().downcast_ref::<&str>() == Some(&"out of f"));
    });
}

#[test]
fn many_children_of_a_long_lived_parent_leave_nothing_behind() {
    run(1, || {
        let (parent, cancel) = Context::background().with_cancel();
        for i in 0..10_000 {
            let (child, cancel_child) = parent.with_timeout(HOUR);
            if i % 2 == 0 {
                cancel_child.cancel();
            }
            assert_eq!(child.error().is_some(), i % 2 == 0);
        }
        // Their timers are gone, too: no goroutine of theirs is left, and none comes.
        assert_eq!(metrics().count("/sched/goroutines:goroutines"), Some(1));
        cancel.cancel();
        assert_eq!(parent.error(), Some(ContextError::Canceled));
    });
}

/// A value is received or the context is seen to be done, each exactly once, while both come at once.
#[test]
fn an_end_at_the_same_moment_as_a_value_loses_no_value() {
    const ROUNDS: usize = 2_000;
    run(2, || {
        let received = Arc::new(AtomicUsize::new(0));
        let mut left = 0;
        for round in 0..ROUNDS {
            let (context, cancel) = Context::background().with_cancel();
            let (sender, receiver) = channel(1);
            let taker = {
                let (received, receiver) = (Arc::clone(&received), receiver.clone());
                go(move || {
                    let got = select! {
                        recv(receiver) -> value => value.ok(),
                        recv(context.done()) -> _ => None,
                    };
                    if let Some(value) = got {
                        assert_eq!(value, round);
                        received.fetch_add(1, SeqCst);
                    }
                })
            };
            if round % 3 == 0 {
                yield_now();
            }
            let canceler = go(move || cancel.cancel());
            sender.send(round).unwrap();
            canceler.join().unwrap();
            taker.join().unwrap();
            left += usize::from(receiver.try_recv().is_ok());
        }
        assert_eq!(received.load(SeqCst) + left, ROUNDS);
    });
}
