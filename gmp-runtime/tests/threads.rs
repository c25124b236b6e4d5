//! Threads: how many there are, what happens when one cannot be made, and how little an idle program does.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use common::{child, child_case, run, stderr, succeed};
use gmp_runtime::{Runtime, go, park, sleep};

/// From now on this process gets no thread more. Root may always make threads, so it becomes somebody else.
fn allow_no_more_threads() {
    const NOBODY_ELSE: u32 = 54_321;
    // SAFETY: both calls take numbers, and a record that lives.
    unsafe {
        if libc::getuid() == 0 {
            assert_eq!(libc::setuid(NOBODY_ELSE), 0);
        }
        let limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &limit), 0);
    }
    assert!(thread::Builder::new().spawn(|| ()).is_err());
}

/// Processor time that this process has used.
fn cpu_time() -> Duration {
    // SAFETY: the record is a local variable.
    unsafe {
        let mut time = std::mem::zeroed::<libc::timespec>();
        assert_eq!(
            libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time),
            0
        );
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

/// How often threads of this process gave up their processor to wait.
fn waits() -> i64 {
    // SAFETY: getrusage fills the record that it is given.
    unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage.ru_nvcsw
    }
}

/// The monitor sleeps when there is nothing to look after. In a process of its own, which does nothing else;
/// how soon it comes to rest depends on the machine, and so does what a wake costs there: how often it wakes is the
/// sharp bound.
#[test]
fn an_idle_program_comes_to_rest() {
    const NAME: &str = "an_idle_program_comes_to_rest";
    if child_case().is_none() {
        succeed(&mut child(NAME, "run"));
        return;
    }
    run(2, || {
        go(|| sleep(Duration::from_secs(100_000)));
        (0..100).for_each(|_| go(|| ()).join().unwrap());
        let mut seen = Vec::new();
        for _ in 0..10 {
            let before = (cpu_time(), waits());
            sleep(Duration::from_secs(2));
            let used = (cpu_time() - before.0, waits() - before.1);
            if used.0 <= Duration::from_millis(20) && used.1 < 20 {
                return;
            }
            seen.push(used);
        }
        panic!("it does not come to rest: {seen:?}");
    });
}

/// Eight goroutines that keep their Ps, and no thread for most of them: each runs all the same, and it is said
/// once.
#[test]
fn without_more_threads_a_program_goes_on_with_those_it_has() {
    const NAME: &str = "without_more_threads_a_program_goes_on_with_those_it_has";
    if child_case().is_some() {
        let ran = run(8, || {
            sleep(Duration::from_millis(20));
            allow_no_more_threads();
            let ran = Arc::new(AtomicUsize::new(0));
            let all: Vec<_> = (0..500)
                .map(|i| {
                    let ran = Arc::clone(&ran);
                    go(move || {
                        if i % 10 == 0 {
                            sleep(Duration::from_micros(200));
                        } else {
                            thread::sleep(Duration::from_micros(20));
                        }
                        ran.fetch_add(1, SeqCst);
                    })
                })
                .collect();
            all.into_iter().for_each(|handle| handle.join().unwrap());
            ran.load(SeqCst)
        });
        println!("ran {ran}");
        return;
    }
    let output = succeed(&mut child(NAME, "run"));
    let text = stderr(&output);
    assert_eq!(text.matches("cannot make a thread").count(), 1, "{text}");
    assert!(text.contains("going on with"), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("ran 500"));
}

/// The only M that has nothing to do sleeps until a deadline, and no thread can be made: it comes.
#[test]
fn without_more_threads_the_one_that_sleeps_for_a_timer_comes_to_work() {
    const NAME: &str = "without_more_threads_the_one_that_sleeps_for_a_timer_comes_to_work";
    if child_case().is_none() {
        succeed(&mut child(NAME, "run"));
        return;
    }
    run(8, || {
        sleep(Duration::from_millis(20));
        allow_no_more_threads();
        go(|| sleep(Duration::from_secs(100_000)));
        sleep(Duration::from_millis(1));
        // More than there are Ms; none of them leaves its P before the last one ran.
        let threads = thread_count_of_ms();
        let ran = Arc::new(AtomicUsize::new(0));
        let all: Vec<_> = (0..threads)
            .map(|_| {
                let ran = Arc::clone(&ran);
                go(move || {
                    ran.fetch_add(1, SeqCst);
                    while ran.load(SeqCst) < threads {
                        thread::sleep(Duration::from_micros(100));
                    }
                })
            })
            .collect();
        all.into_iter().for_each(|handle| handle.join().unwrap());
    });
}

/// Threads of this process that are Ms: the caller's, which may have any name, and those with a name of ours.
fn thread_count_of_ms() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    1 + names.filter(|name| name.starts_with("gmp-m")).count()
}

/// A thread that could not be made is no reason to believe that somebody is awake.
#[test]
fn without_more_threads_a_deadlock_is_still_reported() {
    const NAME: &str = "without_more_threads_a_deadlock_is_still_reported";
    if child_case().is_some() {
        let runtime = Runtime::builder()
            .procs(8)
            .threads_wake_goroutines(false)
            .build()
            .unwrap();
        // SAFETY: nothing of a thread lives across calls that may park.
        unsafe {
            runtime.run::<_, ()>(|| {
                sleep(Duration::from_millis(20));
                allow_no_more_threads();
                for _ in 0..50 {
                    go(|| thread::sleep(Duration::from_micros(300)));
                }
                loop {
                    park();
                }
            })
        };
    }
    let output = child(NAME, "run").output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.matches("cannot make a thread").count(), 1, "{text}");
    assert!(text.contains("all goroutines are asleep"), "{text}");
}
