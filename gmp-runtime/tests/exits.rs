//! Goroutine-locals, deferred calls and `goexit`.

mod common;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use common::{Drops, PROCS, run};
use gmp_runtime::{channel, defer, go, goexit, goroutine_local, yield_now};

goroutine_local! {
    static COUNT: Cell<u64> = Cell::new(0);
    static KEPT: RefCell<Vec<common::Counted>> = RefCell::new(Vec::new());
}

#[test]
fn each_goroutine_has_its_own_values_wherever_it_runs() {
    for procs in PROCS {
        run(procs, || {
            let counters: Vec<_> = (0..50u64)
                .map(|i| {
                    go(move || {
                        for _ in 0..100 {
                            COUNT.with(|count| count.set(count.get() + i));
                            yield_now();
                        }
                        COUNT.with(Cell::get)
                    })
                })
                .collect();
            for (i, counter) in counters.into_iter().enumerate() {
                assert_eq!(counter.join().unwrap_or(0), 100 * i as u64);
            }
            assert_eq!(COUNT.with(Cell::get), 0);
        });
    }
}

#[test]
fn values_are_dropped_with_their_goroutine() {
    let drops = Drops::default();
    for procs in PROCS {
        let made = drops.clone();
        run(procs, move || {
            for round in 0..3 {
                let goroutines: Vec<_> = (0..20)
                    .map(|i| {
                        let value = made.value(i);
                        go(move || {
                            KEPT.with(|kept| kept.borrow_mut().push(value));
                            if i % 3 == round {
                                goexit();
                            }
                        })
                    })
                    .collect();
                let ended: Vec<_> = goroutines
                    .into_iter()
                    .map(|one| one.join().is_ok())
                    .collect();
                assert_eq!(
                    ended.iter().filter(|ok| !**ok).count(),
                    if round == 2 { 6 } else { 7 }
                );
                assert_eq!(made.alive(), 0);
            }
        });
    }
    assert_eq!(drops.made(), 180);
}

#[test]
fn goexit_runs_destructors_and_deferred_calls_in_order() {
    run(2, || {
        let order = Arc::new(Mutex::new(Vec::new()));
        let log = order.clone();
        let ended = go(move || {
            let first = log.clone();
            defer! { first.lock().unwrap_or_else(|e| e.into_inner()).push("first") };
            let second = log.clone();
            defer! { second.lock().unwrap_or_else(|e| e.into_inner()).push("second") };
            if log.lock().is_ok() {
                goexit();
            }
        });
        assert!(ended.join().is_err());
        let order = order.lock().unwrap_or_else(|e| e.into_inner());
        assert_eq!(*order, ["second", "first"]);
    });
}

#[test]
fn a_deferred_call_runs_on_panic_and_may_use_channels() {
    run(1, || {
        let (sender, receiver) = channel(1);
        let panicking = go(move || {
            defer! { let _ = sender.try_send("deferred"); };
            std::panic::resume_unwind(Box::new("quietly"));
        });
        assert!(panicking.join().is_err());
        assert_eq!(receiver.recv(), Ok("deferred"));
    });
}

/// How often the initializer of [`SELFISH`] may use the value that it makes.
static SELFISH_TRIES: AtomicUsize = AtomicUsize::new(0);

goroutine_local! {
    static SELFISH: usize = {
        if SELFISH_TRIES.fetch_add(1, SeqCst) == 0 {
            SELFISH.with(|value| *value)
        } else {
            7
        }
    };
}

#[test]
fn a_goroutine_local_whose_initializer_uses_it_panics_and_can_be_made_then() {
    run(1, || {
        let first = std::panic::catch_unwind(|| SELFISH.with(|value| *value));
        let payload = first.unwrap_err();
        assert!(
            payload
                .downcast_ref::<&str>()
                .is_some_and(|text| text.contains("uses its own value"))
        );
        assert_eq!(SELFISH.with(|value| *value), 7);
        assert_eq!(SELFISH.with(|value| *value), 7);
        assert_eq!(SELFISH_TRIES.load(SeqCst), 2, "made once after the panic");
    });
}
