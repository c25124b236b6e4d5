//! Calls that block their thread: the others go on, and whoever comes back finds a P or waits for one.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::fs::File as StdFile;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::FromRawFd;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::{Directory, OnDrop, PROCS, child, child_case, run, stderr, succeed};
use gmp_runtime::{Runtime, blocking, channel, current, fs, go, goexit, proc_id, sleep, yield_now};

/// A pipe: the end to read from and the end to write to.
fn pipe() -> (StdFile, StdFile) {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors, which nobody else has.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (StdFile::from_raw_fd(ends[0]), StdFile::from_raw_fd(ends[1]))
    }
}

fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// The only P goes on while a goroutine reads from a pipe, into which another one writes at last.
#[test]
fn others_run_while_one_is_blocked() {
    for procs in PROCS {
        for _ in 0..20 {
            let text = run(procs, || {
                let (mut from, mut to) = pipe();
                let reader = go(move || {
                    let mut text = String::new();
                    blocking(|| from.read_to_string(&mut text)).unwrap();
                    text
                });
                // Everybody who is needed can block as well.
                let writers: Vec<_> = (0..4)
                    .map(|i| {
                        let mut to = to.try_clone().unwrap();
                        go(move || {
                            (0..10).for_each(|_| yield_now());
                            blocking(|| to.write_all(&[b'a' + i])).unwrap();
                        })
                    })
                    .collect();
                writers
                    .into_iter()
                    .for_each(|writer| writer.join().unwrap());
                to.write_all(b"!").unwrap();
                drop(to);
                reader.join().unwrap()
            });
            let mut letters: Vec<u8> = text.into_bytes();
            letters.sort_unstable();
            assert_eq!(letters, b"!abcd");
        }
    }
}

/// Each waits for the next one's byte: all threads are blocked at once, however few Ps there are.
#[test]
fn as_many_threads_come_as_are_blocked() {
    const BLOCKED: usize = 100;
    for procs in PROCS {
        let got = run(procs, || {
            let (sender, receiver) = channel(BLOCKED);
            let mut first = None;
            let mut last: Option<StdFile> = None;
            for _ in 0..BLOCKED {
                let (mut from, to) = pipe();
                let next = last.replace(to);
                if next.is_none() {
                    first = Some(from);
                    continue;
                }
                let (mut next, sender) = (next.unwrap(), sender.clone());
                go(move || {
                    let mut byte = [0];
                    blocking(|| from.read_exact(&mut byte)).unwrap();
                    blocking(|| next.write_all(&byte)).unwrap();
                    sender.send(byte[0]).unwrap();
                });
            }
            while thread_count() < BLOCKED {
                sleep(Duration::from_millis(1));
            }
            last.unwrap().write_all(&[7]).unwrap();
            let mut byte = [0];
            blocking(|| first.unwrap().read_exact(&mut byte)).unwrap();
            let others: Vec<u8> = receiver.iter().take(BLOCKED - 1).collect();
            assert_eq!(byte[0], 7);
            others
        });
        assert_eq!(got, vec![7; BLOCKED - 1]);
    }
}

/// Ten thousand goroutines, each in calls of a millisecond: threads are as many as are blocked at a time, and the
/// time is nearer to that of one call than to the sum of all.
#[test]
fn ten_thousand_goroutines_in_short_calls_end_with_few_threads() {
    const NAME: &str = "ten_thousand_goroutines_in_short_calls_end_with_few_threads";
    const GOROUTINES: usize = 10_000;
    if child_case().is_none() {
        succeed(&mut child(NAME, "run"));
        return;
    }
    let begin = Instant::now();
    let (most, all) = run(2, || {
        let (blocked, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let all: Vec<_> = (0..GOROUTINES)
            .map(|_| {
                let (blocked, most) = (Arc::clone(&blocked), Arc::clone(&most));
                go(move || {
                    blocking(|| {
                        most.fetch_max(blocked.fetch_add(1, SeqCst) + 1, SeqCst);
                        thread::sleep(Duration::from_millis(1));
                        blocked.fetch_sub(1, SeqCst);
                    })
                })
            })
            .collect();
        all.into_iter().for_each(|handle| handle.join().unwrap());
        (most.load(SeqCst), thread_count())
    });
    println!("{most} at once, {all} threads, {:?}", begin.elapsed());
    // Threads are never ended: how many there are is how many there were at most. Besides those that are blocked:
    // two that run, spares, those of the runtime and the harness, and one that is between two states for each P.
    assert!(
        all <= most + 30,
        "{all} threads for {most} in calls at a time"
    );
    assert!(most > 2, "nobody was blocked while others ran");
}

/// Goroutines that come back from calls and find no P run all the same, and in which thread does not matter.
#[test]
fn whoever_comes_back_without_a_p_runs() {
    for procs in PROCS {
        let sum = run(procs, || {
            let handles: Vec<_> = (0..64_u64)
                .map(|i| {
                    go(move || {
                        let mut sum = 0;
                        for round in 0..20 {
                            sum += blocking(|| {
                                thread::sleep(Duration::from_micros(10 * (i % 8)));
                                i
                            });
                            if round % 4 == 0 {
                                yield_now();
                            }
                            assert!(proc_id().is_some_and(|p| (p as usize) < procs));
                        }
                        sum
                    })
                })
                .collect();
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap())
                .sum::<u64>()
        });
        assert_eq!(sum, 20 * (0..64).sum::<u64>());
    }
}

/// The timers of a P that is in a call are fired.
#[test]
fn sleepers_wake_while_their_p_is_in_a_call() {
    run(1, || {
        let (mut from, mut to) = pipe();
        let sleeper = go(move || {
            sleep(Duration::from_millis(20));
            to.write_all(b"x").unwrap();
        });
        yield_now();
        let mut byte = [0];
        // Nobody else ends this call.
        blocking(|| from.read_exact(&mut byte)).unwrap();
        sleeper.join().unwrap();
        assert_eq!(byte, *b"x");
    });
}

/// A thread of the program makes a goroutine ready while all Ps are in calls.
#[test]
fn who_is_woken_from_outside_runs_while_every_p_is_in_a_call() {
    for procs in [1, 2] {
        run(procs, || {
            let (sender, receiver) = channel(1);
            let pipes: Vec<_> = (0..procs).map(|_| pipe()).collect();
            let (mut reading, mut writing): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
            let waiting = go(move || {
                receiver.recv().unwrap();
                writing
                    .iter_mut()
                    .for_each(|to| to.write_all(b"x").unwrap());
            });
            yield_now();
            let thread = thread::spawn(move || {
                thread::sleep(Duration::from_millis(30));
                sender.try_send(()).unwrap();
            });
            let mut mine = reading.pop().unwrap();
            let others: Vec<_> = reading
                .into_iter()
                .map(|mut from| go(move || blocking(|| from.read_exact(&mut [0])).unwrap()))
                .collect();
            blocking(|| mine.read_exact(&mut [0])).unwrap();
            others.into_iter().for_each(|handle| handle.join().unwrap());
            waiting.join().unwrap();
            thread.join().unwrap();
        });
    }
}

/// Inside a call the caller is a thread.
#[test]
fn in_a_call_there_is_no_goroutine() {
    let runtime_of_its_own = || run(1, || go(|| 3).join().unwrap());
    run(2, || {
        let me = current().unwrap();
        let (sender, receiver) = channel(0);
        let receiving = go(move || receiver.recv());
        yield_now();
        blocking(|| {
            assert!(current().is_none());
            assert!(proc_id().is_none());
            assert!(panic::catch_unwind(|| goexit()).is_err());
            assert!(panic::catch_unwind(|| go(|| ())).is_err());
            // What a thread may do.
            while sender.try_send(5).is_err() {
                thread::yield_now();
            }
            assert_eq!(receiving.join().unwrap(), Ok(5));
            me.unpark();
            sleep(Duration::from_millis(1));
            // One in another is one.
            assert_eq!(blocking(|| 4), 4);
        });
        gmp_runtime::park();
        assert_eq!(current().unwrap().id(), me.id());
    });
    assert_eq!(blocking(runtime_of_its_own), 3, "on a thread it is a call");
}

#[test]
fn a_panic_in_a_call_is_the_goroutines() {
    for procs in PROCS {
        let told = run(procs, || {
            let handles: Vec<_> = (0..20)
                .map(|i| {
                    go(move || {
                        blocking(|| {
                            thread::sleep(Duration::from_millis(2));
                            if i % 2 == 0 {
                                panic::resume_unwind(Box::new(i));
                            }
                        });
                        thread::panicking()
                    })
                })
                .collect();
            handles
                .into_iter()
                .map(|handle| match handle.join() {
                    Ok(panicking) => {
                        assert!(!panicking);
                        0
                    }
                    Err(payload) => *payload.downcast::<i32>().unwrap(),
                })
                .sum::<i32>()
        });
        assert_eq!(told, (0..20).step_by(2).sum());
    }
}

/// Main returns while others are in calls: those come back, and are unwound.
#[test]
fn calls_that_last_longer_than_main_are_waited_for() {
    for procs in PROCS {
        let (after, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        run(procs, || {
            let (entered, all_entered) = channel(10);
            for _ in 0..10 {
                let (after, dropped, entered) =
                    (Arc::clone(&after), Arc::clone(&dropped), entered.clone());
                go(move || {
                    let _counted = OnDrop(|| {
                        dropped.fetch_add(1, SeqCst);
                    });
                    blocking(|| {
                        entered.try_send(()).unwrap();
                        thread::sleep(Duration::from_millis(30));
                        after.fetch_add(1, SeqCst);
                    });
                    loop {
                        yield_now();
                    }
                });
            }
            all_entered.iter().take(10).count()
        });
        assert_eq!((after.load(SeqCst), dropped.load(SeqCst)), (10, 10));
    }
}

/// Goroutines that are ended in the middle may make calls in their destructors.
#[test]
fn destructors_may_make_calls_at_the_end() {
    for procs in PROCS {
        let dropped = Arc::new(AtomicUsize::new(0));
        run(procs, || {
            for _ in 0..5 {
                let dropped = Arc::clone(&dropped);
                go(move || {
                    let _first = OnDrop(|| {
                        blocking(|| dropped.fetch_add(1, SeqCst));
                    });
                    let _second = OnDrop(|| {
                        blocking(|| thread::sleep(Duration::from_millis(1)));
                        blocking(|| dropped.fetch_add(1, SeqCst));
                    });
                    gmp_runtime::park();
                });
            }
            sleep(Duration::from_millis(2));
        });
        assert_eq!(dropped.load(SeqCst), 10);
    }
}

/// A goroutine in a call is not asleep, and one that has come back is.
#[test]
fn a_call_is_no_deadlock_but_what_comes_after_it_may_be() {
    const NAME: &str = "a_call_is_no_deadlock_but_what_comes_after_it_may_be";
    if let Some(case) = child_case() {
        let runtime = Runtime::builder()
            .procs(2)
            .threads_wake_goroutines(false)
            .build()
            .unwrap();
        // SAFETY: nothing of a thread lives across calls that may park.
        unsafe {
            runtime.run(|| {
                let (sender, receiver) = channel(1);
                go(move || {
                    blocking(|| thread::sleep(Duration::from_millis(100)));
                    if case == "sends" {
                        sender.send(1).unwrap();
                    } else {
                        gmp_runtime::park();
                    }
                });
                assert_eq!(receiver.recv(), Ok(1));
            })
        };
        return;
    }
    succeed(&mut child(NAME, "sends"));
    let output = child(NAME, "parks").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("all goroutines are asleep"));
}

/// A signal every millisecond, whose handler does not restart calls: nobody sees EINTR.
#[test]
fn interruptions_are_not_seen() {
    const NAME: &str = "interruptions_are_not_seen";
    if child_case().is_none() {
        succeed(&mut child(NAME, "run"));
        return;
    }
    static SIGNALS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: libc::c_int) {
        SIGNALS.fetch_add(1, SeqCst);
    }
    // SAFETY: the handler is async-signal-safe, and the record is complete.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
            0
        );
    }
    run(2, || {
        let (from, to) = pipe();
        let (mut from, mut to) = (fs::File::from(from), fs::File::from(to));
        let reading = go(move || {
            // SAFETY: the call has no arguments.
            let thread = unsafe { libc::pthread_self() } as usize;
            let mut bytes = [0; 64];
            let mut total = 0;
            let interrupter = thread::spawn(move || {
                for _ in 0..100 {
                    // SAFETY: threads of a runtime live as long as it runs.
                    unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR1) };
                    thread::sleep(Duration::from_millis(1));
                }
            });
            loop {
                match from.read(&mut bytes).unwrap() {
                    0 => break,
                    n => total += n,
                }
            }
            interrupter.join().unwrap();
            total
        });
        for _ in 0..15 {
            sleep(Duration::from_millis(8));
            to.write_all(b"ten bytes.").unwrap();
        }
        drop(to);
        assert_eq!(reading.join().unwrap(), 150);
    });
    assert!(SIGNALS.load(SeqCst) >= 50);
}

#[test]
fn files_are_stds() {
    let directory = Directory::new("fs");
    let (path, other) = (directory.file("a"), directory.file("b"));
    for procs in PROCS {
        run(procs, || {
            let error = fs::File::open(&path).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            let mut file = fs::File::create(&path).unwrap();
            file.write_all(b"one two three").unwrap();
            file.flush().unwrap();
            file.sync_all().unwrap();
            assert_eq!(file.metadata().unwrap().len(), 13);
            let mut same = fs::File::options()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap();
            same.seek(SeekFrom::Start(4)).unwrap();
            let mut word = [0; 3];
            same.read_exact(&mut word).unwrap();
            assert_eq!(word, *b"two");
            let mut rest = Vec::new();
            (&same).read_to_end(&mut rest).unwrap();
            assert_eq!(rest, b" three");
            assert_eq!(same.write_at(b"ONE", 0).unwrap(), 3);
            assert_eq!(same.read_at(&mut word, 0).unwrap(), 3);
            assert_eq!(word, *b"ONE");
            same.set_len(7).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"ONE two");
            assert_eq!(fs::copy(&path, &other).unwrap(), 7);
            fs::write(&path, "x").unwrap();
            fs::rename(&path, &other).unwrap();
            assert_eq!(fs::read_to_string(&other).unwrap(), "x");
            assert!(!fs::exists(&path).unwrap());
            fs::create_dir_all(directory.file("c/d")).unwrap();
            fs::remove_dir_all(directory.file("c")).unwrap();
            fs::remove_file(&other).unwrap();
            assert_eq!(same.into_std().metadata().unwrap().len(), 1);
        });
    }
}

/// Closing a connection that lingers waits until the other side has taken what was sent.
#[test]
fn closing_a_file_leaves_the_p_to_others() {
    const NAME: &str = "closing_a_file_leaves_the_p_to_others";
    if child_case().is_none() {
        // Preemption would help, too.
        succeed(child(NAME, "lingers").env("GMPDEBUG", "asyncpreemptoff=1"));
        return;
    }
    run(1, || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        socket2::SockRef::from(&ours)
            .set_linger(Some(Duration::from_secs(5)))
            .unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(length) = ours.write(&[1; 65_536]) {
            sent += length;
        }
        ours.set_nonblocking(false).unwrap();
        let file = fs::File::from(std::os::fd::OwnedFd::from(ours));
        let began = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&began);
        let reader = go(move || {
            begins.store(true, SeqCst);
            let mut received = Vec::new();
            blocking(|| theirs.read_to_end(&mut received)).unwrap();
            received.len()
        });
        drop(file);
        assert!(began.load(SeqCst));
        assert_eq!(reader.join().unwrap(), sent);
    });
}
