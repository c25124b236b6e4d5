//! `go` and `join`: results of every size, panics, handles that come and go, many goroutines.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::collections::HashSet;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use common::{Counted, Drops, OnDrop, PROCS, run};
use gmp_runtime::{JoinHandle, channel, current, go, yield_now};

/// A goroutine whose closure and result have `N` bytes, joined early and late.
fn result_of<const N: usize>() {
    let bytes = |seed: usize| -> [u8; N] { std::array::from_fn(|i| (i * 7 + seed) as u8) };
    for seed in 0..20 {
        let sent = bytes(seed);
        let handle = go(move || (sent, sent.iter().map(|&b| usize::from(b)).sum::<usize>()));
        if seed % 2 == 0 {
            while !handle.is_finished() {
                yield_now();
            }
        }
        let (received, sum) = handle.join().unwrap();
        assert_eq!(received, bytes(seed));
        assert_eq!(sum, received.iter().map(|&b| usize::from(b)).sum::<usize>());
    }
}

#[test]
fn results_of_every_size_arrive() {
    for procs in PROCS {
        run(procs, || {
            result_of::<0>();
            result_of::<1>();
            result_of::<64>();
            result_of::<71>();
            result_of::<72>();
            result_of::<73>();
            result_of::<80>();
            result_of::<81>();
            result_of::<4096>();
        });
    }
}

#[test]
fn results_with_large_alignment_arrive() {
    #[repr(align(64))]
    struct Aligned(u8);
    for procs in PROCS {
        let sum = run(procs, || {
            (0..50)
                .map(|i| {
                    let value = Aligned(i);
                    let handle = go(move || {
                        assert_eq!(std::ptr::from_ref(&value) as usize % 64, 0);
                        value
                    });
                    let value = handle.join().unwrap();
                    assert_eq!(std::ptr::from_ref(&value) as usize % 64, 0);
                    usize::from(value.0)
                })
                .sum::<usize>()
        });
        assert_eq!(sum, 25 * 49);
    }
}

#[test]
fn zero_sized_results_and_closures_work() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    fn work() {
        RUNS.fetch_add(1, SeqCst);
    }
    run(2, || {
        let handles: Vec<JoinHandle<()>> = (0..100).map(|_| go(work)).collect();
        for handle in handles {
            handle.join().unwrap();
        }
    });
    assert_eq!(RUNS.load(SeqCst), 100);
}

/// Whichever comes first of the goroutine's end and the handle's, the result is dropped once.
#[test]
fn results_are_dropped_once_whoever_comes_first() {
    for procs in PROCS {
        let drops = Drops::default();
        run(procs, || {
            for i in 0..3_000 {
                let value = drops.value(i);
                let large = [i as u8; 200];
                let handle = go(move || {
                    if i % 5 == 0 {
                        yield_now();
                    }
                    (i % 2 == 0).then_some((value, large))
                });
                match i % 7 {
                    0 => drop(handle),
                    1 => {
                        yield_now();
                        drop(handle);
                    }
                    2 => {
                        while !handle.is_finished() {
                            yield_now();
                        }
                        drop(handle);
                    }
                    _ => {
                        let result = handle.join().unwrap();
                        assert_eq!(result.is_some(), i % 2 == 0);
                        assert!(result.is_none_or(|(value, large)| {
                            value.number == i && large == [i as u8; 200]
                        }));
                    }
                }
            }
            // Those without a handle may still run.
            while drops.alive() > 0 {
                yield_now();
            }
        });
        assert_eq!((drops.made(), drops.alive()), (3_000, 0));
    }
}

/// The handle goes on another P at the same moment as the goroutine ends.
#[test]
fn handles_dropped_elsewhere_race_with_the_end() {
    for procs in [2, 4] {
        let drops = Drops::default();
        run(procs, || {
            let (sender, receiver) = channel::<JoinHandle<Counted>>(8);
            let dropper = go(move || {
                let mut taken = 0;
                for (i, handle) in receiver.iter().enumerate() {
                    if i % 2 == 0 {
                        drop(handle);
                    } else {
                        drop(handle.join().unwrap());
                    }
                    taken += 1;
                }
                taken
            });
            for i in 0..20_000 {
                let value = drops.value(i);
                sender.send(go(move || value)).unwrap();
            }
            drop(sender);
            assert_eq!(dropper.join().unwrap(), 20_000);
            while drops.alive() > 0 {
                yield_now();
            }
        });
        assert_eq!((drops.made(), drops.alive()), (20_000, 0));
    }
}

#[test]
fn a_thread_can_join() {
    for procs in PROCS {
        let sum = run(procs, || {
            let threads: Vec<_> = (0..20_u64)
                .map(|i| {
                    let handle = go(move || {
                        for _ in 0..i {
                            yield_now();
                        }
                        i
                    });
                    thread::spawn(move || handle.join().unwrap())
                })
                .collect();
            // Waiting for a thread keeps a P.
            while !threads.iter().all(|thread| thread.is_finished()) {
                yield_now();
            }
            threads.into_iter().map(|t| t.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum, 190);
    }
}

#[test]
fn a_handle_may_outlive_the_runtime() {
    let drops = Drops::default();
    let handles: Vec<_> = (0..10)
        .map(|i| {
            run(2, || {
                let value = drops.value(i);
                let handle = go(move || value);
                while !handle.is_finished() {
                    yield_now();
                }
                handle
            })
        })
        .collect();
    assert_eq!(drops.alive(), 10);
    for (i, handle) in handles.into_iter().enumerate() {
        assert!(handle.is_finished());
        if i % 2 == 0 {
            assert_eq!(handle.join().unwrap().number, i);
        }
    }
    assert_eq!(drops.alive(), 0);
}

#[test]
fn is_finished_tells() {
    for procs in PROCS {
        run(procs, || {
            let go_on = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&go_on);
            let handle = go(move || {
                while !flag.load(SeqCst) {
                    yield_now();
                }
            });
            for _ in 0..10 {
                yield_now();
                assert!(!handle.is_finished());
            }
            go_on.store(true, SeqCst);
            while !handle.is_finished() {
                yield_now();
            }
            handle.join().unwrap();
        });
    }
}

#[test]
fn a_panic_reaches_the_handle_and_nobody_else() {
    for procs in PROCS {
        let drops = Drops::default();
        run(procs, || {
            for i in 0..50 {
                let value = drops.value(i);
                let handle = go(move || -> usize {
                    let value = value;
                    yield_now();
                    panic::resume_unwind(Box::new(value.number));
                });
                if i % 3 == 0 {
                    drop(handle);
                    continue;
                }
                let payload = handle.join().unwrap_err();
                assert_eq!(*payload.downcast::<usize>().unwrap(), i);
            }
            while drops.alive() > 0 {
                yield_now();
            }
            assert!(!thread::panicking());
        });
    }
}

#[test]
fn a_panic_with_a_message_has_it_as_payload() {
    run(2, || {
        let text = go(|| panic!("number {}", std::hint::black_box(7)))
            .join()
            .unwrap_err();
        assert_eq!(*text.downcast::<String>().unwrap(), "number 7");
        assert_eq!(go(|| 3).join().unwrap(), 3);
    });
}

/// A destructor of a result that panics: on the goroutine when nobody wants the result, else where the
/// handle is.
#[test]
fn a_panic_in_a_results_destructor_is_contained() {
    struct Loud(Arc<AtomicUsize>);
    impl Drop for Loud {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            panic::resume_unwind(Box::new("loud"));
        }
    }
    for procs in PROCS {
        let dropped = Arc::new(AtomicUsize::new(0));
        run(procs, || {
            for round in 0..30 {
                let loud = Loud(Arc::clone(&dropped));
                let handle = go(move || loud);
                if round % 2 == 0 {
                    // On one P the goroutine has not started; elsewhere it may have ended.
                    let result = panic::catch_unwind(AssertUnwindSafe(|| drop(handle)));
                    assert!(procs > 1 || result.is_ok());
                } else {
                    while !handle.is_finished() {
                        yield_now();
                    }
                    let result = panic::catch_unwind(AssertUnwindSafe(|| drop(handle)));
                    assert!(result.is_err());
                }
            }
            while dropped.load(SeqCst) < 30 {
                yield_now();
            }
            assert_eq!(go(|| 5).join().unwrap(), 5);
        });
        assert_eq!(dropped.load(SeqCst), 30);
    }
}

#[test]
fn mains_panic_comes_out_of_run_and_mains_result_too() {
    for procs in PROCS {
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            run(procs, || {
                let _unused = go(yield_now);
                panic::resume_unwind(Box::new(17_u8));
            })
        }));
        assert_eq!(*result.unwrap_err().downcast::<u8>().unwrap(), 17);
        let local = String::from("borrowed");
        assert_eq!(run(procs, || local.len()), 8);
    }
}

/// Fork and join, as deep as the number: every goroutine waits for two more.
fn fibonacci(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let one = go(move || fibonacci(n - 1));
    let other = go(move || fibonacci(n - 2));
    one.join().unwrap() + other.join().unwrap()
}

#[test]
fn goroutines_make_goroutines() {
    for procs in PROCS {
        assert_eq!(run(procs, || fibonacci(17)), 1597);
    }
}

#[test]
fn a_long_chain_of_joins_ends() {
    fn chain(n: u32) -> u32 {
        if n == 0 {
            0
        } else {
            go(move || chain(n - 1)).join().unwrap() + 1
        }
    }
    for procs in PROCS {
        assert_eq!(run(procs, || chain(2_000)), 2_000);
    }
}

#[test]
fn a_hundred_thousand_goroutines_have_numbers_of_their_own() {
    const COUNT: usize = 100_000;
    for procs in PROCS {
        run(procs, || {
            let handles: Vec<_> = (0..COUNT).map(|_| go(|| current().unwrap().id())).collect();
            let ids: Vec<u64> = handles.iter().map(JoinHandle::id).collect();
            let mut seen = HashSet::new();
            for (handle, id) in handles.into_iter().zip(ids) {
                assert_eq!(handle.join().unwrap(), id);
                assert!(id > 0 && seen.insert(id), "{id} twice");
            }
            assert_eq!(seen.len(), COUNT);
        });
    }
}

#[test]
fn a_hundred_thousand_goroutines_at_the_same_time() {
    const COUNT: usize = 100_000;
    let sum = run(2, || {
        let (sender, receiver) = channel::<usize>(0);
        let (done, results) = channel::<usize>(COUNT);
        for _ in 0..COUNT {
            let (receiver, done) = (receiver.clone(), done.clone());
            go(move || done.send(receiver.recv().unwrap()).unwrap());
        }
        for i in 0..COUNT {
            sender.send(i).unwrap();
        }
        drop(done);
        results.iter().sum::<usize>()
    });
    assert_eq!(sum, COUNT * (COUNT - 1) / 2);
}

#[test]
fn a_handle_can_be_joined_by_any_goroutine() {
    for procs in PROCS {
        let sum = run(procs, || {
            let mut last = go(|| 1_u64);
            for i in 0..500 {
                let before = last;
                last = go(move || before.join().unwrap() + i % 2);
            }
            last.join().unwrap()
        });
        assert_eq!(sum, 251);
    }
}

#[test]
fn destructors_of_a_goroutines_locals_run_on_it() {
    for procs in PROCS {
        run(procs, || {
            let (sender, receiver) = channel::<u64>(1);
            let handle = go(move || {
                let _guard = OnDrop(|| sender.send(current().unwrap().id()).unwrap());
                yield_now();
            });
            let id = handle.id();
            assert_eq!(receiver.recv().unwrap(), id);
            handle.join().unwrap();
        });
    }
}

#[test]
#[should_panic(expected = "not on a goroutine: call this inside `Runtime::run`")]
fn go_on_a_thread_says_what_to_do() {
    let _ = go(|| ());
}

#[test]
fn a_runtime_on_a_goroutine_is_refused() {
    run(1, || {
        let result = panic::catch_unwind(|| run(1, || ()));
        let text = *result.unwrap_err().downcast::<&'static str>().unwrap();
        assert!(text.contains("cannot be started by a goroutine"), "{text}");
    });
}
