//! Goroutine-locals, deferred calls and `goexit`.

mod common;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use common::{Drops, PROCS, child, child_case, run, stderr, succeed};
use gmp_runtime::{channel, defer, go, goexit, goroutine_local, num_goroutine, yield_now};

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

/// The last one first, whether one of them uses the runtime or not, and destructors between them in their place.
#[test]
fn deferred_calls_run_in_order_on_panic() {
    run(2, || {
        let order = Arc::new(Mutex::new(Vec::new()));
        let log = order.clone();
        let panicking = go(move || {
            let note = |what| log.lock().unwrap_or_else(|e| e.into_inner()).push(what);
            defer! { note("first") };
            let _value = common::OnDrop(|| note("destructor"));
            defer! {
                yield_now();
                note("last");
            };
            note("body");
            std::panic::resume_unwind(Box::new("quietly"));
        });
        assert!(panicking.join().is_err());
        let order = order.lock().unwrap_or_else(|e| e.into_inner());
        assert_eq!(*order, ["body", "last", "destructor", "first"]);
    });
}

/// There is no result for whoever called `run`; the others end as if main had returned.
#[test]
fn goexit_of_main_ends_the_program_and_run_panics() {
    for procs in PROCS {
        let drops = Drops::default();
        let counted = drops.clone();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(procs, || {
                let (own, other) = (counted.value(0), counted.value(1));
                go(move || {
                    let _kept = other;
                    gmp_runtime::park();
                });
                yield_now();
                let _kept = own;
                if num_goroutine() > 0 {
                    goexit();
                }
            });
        }));
        let payload = ended.unwrap_err();
        assert!(!payload.is::<&str>() && !payload.is::<String>());
        assert_eq!((drops.made(), drops.alive()), (2, 0), "{procs} Ps");
        assert!(!std::thread::panicking());
    }
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

/// Whether it is joined or not: the panic hook tells once, and the program goes on.
#[test]
fn a_panic_is_reported_once() {
    const NAME: &str = "a_panic_is_reported_once";
    if child_case().is_some() {
        run(2, || {
            let joined = go(|| panic!("of one that is joined"));
            drop(go(|| panic!("of one that is let go")));
            assert!(joined.join().is_err());
            go(|| {
                defer! { println!("deferred") };
                goexit();
            });
            while num_goroutine() > 1 {
                yield_now();
            }
            println!("went on");
        });
        return;
    }
    let output = succeed(child(NAME, "panic").env("RUST_BACKTRACE", "0"));
    let (said, told) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(
        said.contains("deferred\n") && said.contains("went on\n"),
        "{said}"
    );
    // `goexit` is no panic.
    assert_eq!(told.matches(" panicked at ").count(), 2, "{told}");
    for one in ["joined", "let go"] {
        let message = format!("of one that is {one}\n");
        assert_eq!(told.matches(&message).count(), 1, "{told}");
    }
}

thread_local! {
    /// How often goroutines came by on this thread; told to [`VISITS`] at its end.
    static VISITS_HERE: Tally = const { Tally(Cell::new(0)) };
}

static VISITS: AtomicUsize = AtomicUsize::new(0);
static THREADS: AtomicUsize = AtomicUsize::new(0);

struct Tally(Cell<usize>);

impl Drop for Tally {
    fn drop(&mut self) {
        VISITS.fetch_add(self.0.get(), SeqCst);
        THREADS.fetch_add(1, SeqCst);
    }
}

/// The safe way with a thread-local: each use begins and ends between two calls that may park, and nothing of it is
/// kept. What is to follow the goroutine is a goroutine-local.
#[test]
fn thread_locals_are_used_between_calls_that_park() {
    const GOROUTINES: usize = 20;
    const VISITS_EACH: usize = 2_000;
    // On a thread of its own, whose end is waited for, as that of the runtime's threads is.
    let runtime = std::thread::spawn(|| {
        run(4, || {
            let goroutines: Vec<_> = (0..GOROUTINES)
                .map(|_| {
                    go(|| {
                        for round in 0..VISITS_EACH {
                            VISITS_HERE.with(|tally| tally.0.set(tally.0.get() + 1));
                            COUNT.with(|count| count.set(count.get() + 1));
                            yield_now();
                            if round % 100 == 0 {
                                // Others take its thread's P meanwhile.
                                gmp_runtime::sleep(std::time::Duration::from_micros(100));
                            }
                        }
                        COUNT.with(Cell::get)
                    })
                })
                .collect();
            for goroutine in goroutines {
                assert_eq!(goroutine.join().unwrap_or(0), VISITS_EACH as u64);
            }
        });
    });
    assert!(runtime.join().is_ok());
    // No use of another thread's value was lost, however often goroutines changed threads.
    assert_eq!(VISITS.load(SeqCst), GOROUTINES * VISITS_EACH);
    assert!(THREADS.load(SeqCst) > 1, "all on one thread");
}

/// What a goroutine does in a child that it made by `fork`.
fn in_fork(what: fn()) -> i32 {
    run(2, || {
        // Others are there to be run by mistake.
        let others: Vec<_> = (0..10).map(|_| go(|| println!("other"))).collect();
        // SAFETY: the child runs `what` and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            what();
            // SAFETY: it ends here.
            unsafe { libc::_exit(7) };
        }
        assert!(pid > 0);
        let mut status = 0;
        // SAFETY: the child is ours, and the status is there.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        for other in others {
            assert!(other.join().is_ok());
        }
        status
    })
}

#[test]
fn the_runtime_is_not_used_in_a_child_of_fork() {
    const NAME: &str = "the_runtime_is_not_used_in_a_child_of_fork";
    let cases: [(&str, fn()); 4] = [
        ("nothing", || ()),
        ("yields", yield_now),
        ("spawns", || drop(go(|| ()))),
        ("wakes", || {
            let (sender, receiver) = channel(1);
            let _ = (sender.send(1), receiver.recv());
        }),
    ];
    if let Some(name) = child_case() {
        let what = cases.iter().find(|(of, _)| *of == name);
        println!("status {}", in_fork(what.unwrap_or(&cases[0]).1));
        return;
    }
    for (name, _) in cases {
        let output = succeed(&mut child(NAME, name));
        let (said, told) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
        // The child itself runs no goroutine.
        assert_eq!(said.matches("other\n").count(), 10, "{name}: {said}");
        let expected = if name == "nothing" {
            7 << 8
        } else {
            libc::SIGABRT
        };
        let is_expected = |line: &str| {
            let status = line
                .strip_prefix("status ")
                .and_then(|rest| rest.parse::<i32>().ok());
            // Without the bit that says that memory was written to a file.
            status.is_some_and(|status| status & !0x80 == expected)
        };
        assert!(said.lines().any(is_expected), "{name}: {said}");
        let message = "fatal error: goroutine 1 uses the runtime in a child that `fork` made, ";
        assert_eq!(told.contains(message), name != "nothing", "{name}: {told}");
    }
}
