//! Dumps: every goroutine with what it waits for, its frames and who made it, on demand and at SIGQUIT.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use common::{child, child_case, run, succeed};
use gmp_runtime::sync::Mutex;
use gmp_runtime::{Receiver, channel, debug, go, park, sleep, yield_now};

/// The parts of a dump that belong to one goroutine, by number.
fn entries(text: &str) -> Vec<&str> {
    text.split("\n\n")
        .filter(|entry| entry.starts_with("goroutine "))
        .collect()
}

#[track_caller]
fn entry_with<'a>(text: &'a str, part: &str) -> &'a str {
    let found: Vec<_> = entries(text)
        .into_iter()
        .filter(|entry| entry.contains(part))
        .collect();
    assert_eq!(found.len(), 1, "{part:?} in\n{text}");
    found[0]
}

/// Frames are found where the hand-written switch is: elsewhere the start function stands for them.
fn has_frames() -> bool {
    cfg!(all(target_arch = "x86_64", not(gmp_portable_switch)))
}

#[inline(never)]
fn wait_deep_down(receiver: &Receiver<u32>, depth: u32) -> u32 {
    if depth == 0 {
        return receiver.recv().unwrap_or(0);
    }
    std::hint::black_box(wait_deep_down(receiver, depth - 1)) + 1
}

#[test]
fn a_goroutine_that_waits_is_shown_with_its_frames() {
    run(1, || {
        let (sender, receiver) = channel(0);
        let waiting = go(move || wait_deep_down(&receiver, 3));
        let parked = go(park);
        yield_now();
        let text = debug::dump();
        let entry = entry_with(&text, "[chan receive]:");
        let id = waiting.id();
        assert!(
            entry.starts_with(&format!("goroutine {id} [chan receive]:\n")),
            "{text}"
        );
        assert!(entry.contains(" waits "), "{entry}");
        assert!(entry.contains(" for 0x"), "{entry}");
        assert!(
            entry.contains("\ncreated by dumps::a_goroutine_that_waits_is_shown_with_its_frames::{{closure}} in goroutine 1\n\t"),
            "{entry}"
        );
        assert!(entry.lines().last().unwrap().contains("tests/dumps.rs:"));
        if has_frames() {
            assert_eq!(
                entry.matches("dumps::wait_deep_down(...)\n").count(),
                4,
                "{entry}"
            );
            assert!(!entry.contains("gmp_runtime::sched"), "{entry}");
            // The innermost function first, its place in this file.
            let lines: Vec<_> = entry.lines().collect();
            assert_eq!(lines[1], "dumps::wait_deep_down(...)", "{entry}");
            assert!(lines[2].contains("tests/dumps.rs:"), "{entry}");
        }
        assert!(entry_with(&text, "[park]:").contains("tests/dumps.rs:"));
        let mine = entries(&text)[0];
        assert!(mine.starts_with("goroutine 1 [running]:\n"), "{text}");
        if cfg!(target_arch = "x86_64") {
            assert!(mine.contains("its_frames::{{closure}}"), "{mine}");
        }
        assert!(mine.contains("\ncreated by gmp_runtime::Runtime::run\n\t"));
        sender.send(5).unwrap();
        assert_eq!(waiting.join().unwrap(), 8, "it goes on after a dump");
        parked.goroutine().unpark();
        parked.join().unwrap();
    });
}

#[test]
fn a_goroutine_that_has_not_started_or_runs_elsewhere_has_no_frames() {
    const NAME: &str = "a_goroutine_that_has_not_started_or_runs_elsewhere_has_no_frames";
    if child_case().is_none() {
        // A dump takes longer than a goroutine may keep its P while others wait: here they shall not move.
        succeed(child(NAME, "").env("GMPDEBUG", "asyncpreemptoff=1"));
        return;
    }
    run(2, || {
        let (going, stop) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let spinner = {
            let (going, stop) = (Arc::clone(&going), Arc::clone(&stop));
            go(move || {
                going.store(true, SeqCst);
                while !stop.load(SeqCst) {
                    std::thread::yield_now();
                }
            })
        };
        while !going.load(SeqCst) {
            yield_now();
        }
        let fresh = go(|| ());
        let text = debug::dump();
        let entry = entry_with(&text, &format!("goroutine {} [runnable]:", fresh.id()));
        assert!(entry.contains("{{closure}}(...)\n"), "{entry}");
        let entry = entry_with(&text, &format!("goroutine {} [running]:", spinner.id()));
        assert!(
            entry.contains("\tgoroutine running on other thread; stack unavailable\n"),
            "{entry}"
        );
        stop.store(true, SeqCst);
        spinner.join().unwrap();
        fresh.join().unwrap();
    });
}

#[test]
fn dumps_of_goroutines_that_never_stand_still_are_in_order() {
    run(2, || {
        let pairs: Vec<_> = (0..4)
            .map(|_| {
                let (ping, pong) = (channel::<u32>(0), channel::<u32>(0));
                let (there, back) = (ping.1, pong.0);
                go(move || {
                    for value in &there {
                        if back.send(value).is_err() {
                            break;
                        }
                    }
                });
                (ping.0, pong.1)
            })
            .collect();
        let players: Vec<_> = pairs
            .into_iter()
            .map(|(sender, receiver)| {
                go(move || {
                    let mut rounds = 0;
                    for i in 0..20_000 {
                        sender.send(i).unwrap();
                        assert_eq!(receiver.recv(), Ok(i));
                        rounds += 1;
                    }
                    rounds
                })
            })
            .collect();
        let mut dumps = 0;
        while players.iter().any(|player| !player.is_finished()) {
            let text = debug::dump();
            for entry in entries(&text) {
                let header = entry.lines().next().unwrap();
                assert!(header.ends_with("]:"), "{header}");
                assert!(entry.contains("\ncreated by "), "{entry}");
            }
            dumps += 1;
            sleep(Duration::from_micros(200));
        }
        assert!(dumps > 0);
        for player in players {
            assert_eq!(player.join().unwrap(), 20_000);
        }
    });
}

/// Two of three wait for each other for good, and the third goes on: no deadlock of the program, but a dump has it.
#[test]
fn a_deadlock_of_some_is_seen_in_a_dump() {
    run(2, || {
        let locks = [(); 2].map(|()| Arc::new(Mutex::new(())));
        let both = Arc::new(gmp_runtime::sync::Barrier::new(2));
        let stuck = [0, 1].map(|first| {
            let (locks, both) = (locks.clone(), Arc::clone(&both));
            go(move || {
                let _first = locks[first].lock();
                both.wait();
                let _second = locks[1 - first].lock();
            })
        });
        let worker = go(|| {
            loop {
                sleep(Duration::from_micros(50));
            }
        });
        let stuck_for = |text: &str| -> Vec<String> {
            let of = |id: u64| format!("goroutine {id} [sync.Mutex.Lock]:");
            stuck
                .iter()
                .filter_map(|one| {
                    entries(text)
                        .into_iter()
                        .find(|entry| entry.starts_with(&of(one.id())))
                })
                .filter_map(|entry| entry.split(" for 0x").nth(1))
                .map(|rest| rest.lines().next().unwrap().to_owned())
                .collect()
        };
        let text = loop {
            let text = debug::dump();
            if stuck_for(&text).len() == 2 {
                break text;
            }
            sleep(Duration::from_millis(1));
        };
        let objects = stuck_for(&text);
        assert_ne!(
            objects[0], objects[1],
            "each waits for another lock\n{text}"
        );
        // The same for as long as it lasts.
        assert_eq!(stuck_for(&debug::dump()), objects);
        let entry = entry_with(&text, &format!("goroutine {} [", stuck[0].id()));
        assert!(entry.contains(" waits 0."), "{entry}");
        assert!(entry.contains("tests/dumps.rs:"), "{entry}");
        assert!(entry.contains(" in goroutine 1\n"), "{entry}");
        assert!(!worker.is_finished());
    });
}

#[test]
fn a_goroutine_that_is_locked_to_its_thread_is_shown_so() {
    run(2, || {
        let (sender, receiver) = channel::<u32>(0);
        let locked = go(move || {
            gmp_runtime::lock_os_thread();
            receiver.recv()
        });
        let header =
            |status: &str| format!("goroutine {} [{status}, locked to thread]:\n", locked.id());
        while !debug::dump().contains(&header("chan receive")) {
            sleep(Duration::from_micros(100));
        }
        sender.send(3).unwrap();
        assert_eq!(locked.join().unwrap(), Ok(3));
    });
}

/// A token goes round; whoever does not have it waits for it. Looked at one after another, all may seem to wait.
#[test]
fn a_dump_is_of_one_moment() {
    const MEMBERS: usize = 20;
    const DUMPS: usize = 30;
    run(2, || {
        let end = Arc::new(AtomicBool::new(false));
        let channels: Vec<_> = (0..MEMBERS).map(|_| channel::<()>(1)).collect();
        let members: Vec<_> = (0..MEMBERS)
            .map(|member| {
                let receiver = channels[member].1.clone();
                let next = channels[(member + 1) % MEMBERS].0.clone();
                let end = Arc::clone(&end);
                go(move || {
                    while receiver.recv().is_ok() {
                        // The next one may have ended.
                        if next.send(()).is_err() || end.load(SeqCst) {
                            return;
                        }
                    }
                })
            })
            .collect();
        let first = channels[0].0.clone();
        drop(channels);
        first.send(()).unwrap();
        drop(first);
        for _ in 0..DUMPS {
            let text = debug::dump();
            let waiting = entries(&text)
                .iter()
                .filter(|entry| entry.contains("[chan receive"))
                .count();
            assert!(waiting < MEMBERS, "who has the token?\n{text}");
            sleep(Duration::from_micros(300));
        }
        end.store(true, SeqCst);
        for member in members {
            member.join().unwrap();
        }
    });
}

/// A child that says `ready` when it waits to be asked.
fn start(test: &str, case: &str) -> (Child, impl Iterator<Item = String>) {
    let mut command = child(test, case);
    // Whoever runs the tests in the background of a shell may have it ignored.
    // SAFETY: `signal` is async-signal-safe, and the default is a valid action.
    unsafe {
        command.pre_exec(|| match libc::signal(libc::SIGQUIT, libc::SIG_DFL) {
            libc::SIG_ERR => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    start_command(&mut command)
}

fn start_command(command: &mut Command) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(|line| line.unwrap());
    // The harness writes a line of its own first.
    assert!(lines.any(|line| line.ends_with("ready")));
    (child, lines)
}

fn quit(child: &Child) {
    let status = Command::new("kill")
        .args(["-QUIT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

fn finish(mut child: Child) -> (ExitStatus, String) {
    let mut text = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        text.push_str(&line.unwrap());
        text.push('\n');
    }
    (child.wait().unwrap(), text)
}

fn say_ready() {
    println!("ready");
    std::io::stdout().flush().unwrap();
}

/// Goroutines that wait for everything, and two that do not.
fn many_kinds() {
    let (sender, receiver) = channel::<u32>(0);
    let (other_sender, other_receiver) = channel::<u32>(0);
    let mutex = Arc::new(Mutex::new(()));
    let guard = mutex.lock();
    go(move || wait_deep_down(&receiver, 1));
    go(move || other_sender.send(3));
    {
        let mutex = Arc::clone(&mutex);
        go(move || drop(mutex.lock()));
    }
    go(|| sleep(Duration::from_secs(1000)));
    go(|| {
        loop {
            std::thread::yield_now();
        }
    });
    sleep(Duration::from_millis(150));
    say_ready();
    park();
    drop((guard, sender, other_receiver));
}

#[test]
fn sigquit_prints_every_goroutine_and_exits_with_2() {
    const NAME: &str = "sigquit_prints_every_goroutine_and_exits_with_2";
    if child_case().is_some() {
        return run(2, many_kinds);
    }
    let (child, _) = start(NAME, "many kinds");
    quit(&child);
    let (status, text) = finish(child);
    assert_eq!(status.code(), Some(2), "{status}: {text}");
    assert!(
        text.starts_with("SIGQUIT: quit\n\ngoroutine 1 [park]:\n"),
        "{text}"
    );
    let mut checked = 0;
    for reason in [
        "[park]:",
        "[chan receive]:",
        "[chan send]:",
        "[sync.Mutex.Lock]:",
        "[sleep]:",
        "[running]:",
    ] {
        let entry = entry_with(&text, reason);
        assert!(entry.contains("\ncreated by "), "{entry}");
        if reason != "[running]:" && reason != "[park]:" {
            assert!(entry.contains(" waits "), "{entry}");
            // It slept for 150 ms after they began.
            assert!(!entry.contains(" waits 0.0s"), "{entry}");
        }
        checked += 1;
    }
    assert_eq!((checked, entries(&text).len()), (6, 6), "{text}");
    if has_frames() {
        assert!(
            entry_with(&text, "[chan receive]:").contains("dumps::wait_deep_down(...)\n"),
            "{text}"
        );
    }
}

#[test]
fn sigquit_is_left_to_a_program_that_ignores_it() {
    const NAME: &str = "sigquit_is_left_to_a_program_that_ignores_it";
    if child_case().is_some() {
        run(1, || {
            say_ready();
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).unwrap();
            println!("got {line}");
        });
        return;
    }
    let inner = child(NAME, "ignores");
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' QUIT; exec \"$0\" \"$@\""])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env("GMP_TEST_CHILD", "ignores")
        .stdin(Stdio::piped())
        .process_group(0);
    let (mut child, mut lines) = start_command(&mut command);
    quit(&child);
    child.stdin.take().unwrap().write_all(b"through\n").unwrap();
    assert!(lines.any(|line| line == "got through"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn sigquit_after_the_last_runtime_ends_the_process_by_the_signal() {
    const NAME: &str = "sigquit_after_the_last_runtime_ends_the_process_by_the_signal";
    if child_case().is_some() {
        run(1, || ());
        say_ready();
        loop {
            std::thread::park();
        }
    }
    let (child, _) = start(NAME, "after");
    quit(&child);
    let (status, text) = finish(child);
    assert_eq!(status.signal(), Some(libc::SIGQUIT), "{status}: {text}");
    assert!(!text.contains("goroutine"), "{text}");
}
