//! Goroutines that never call the runtime, beside one that sleeps for a millisecond again and again: prints how
//! far each of them came, and how late the sleeper was. Fails when somebody makes no progress or a result is
//! wrong.
//!
//! `hogs PROCS HOGS SECONDS [KIND]`, with a kind of `loop`, `alloc`, `lock`, `hash`, `sort` (libc's), `print` (to a
//! pipe), `unwind`, `local` (a thread-local), or all of them in turn. With 0 for PROCS the same runs on threads of the
//! system, without a runtime: what the hogs would do by themselves.
//!
//! `hogs lone PAIRS ROUNDS`: what a hog loses that has a P to itself, beside nobody, against the same on a thread; and
//! `hogs finish PROCS HOGS MILLISECONDS`: so many that compute for so long each, and then end. `hogs dial PROCS BUSY DIALS`:
//! how long connections to a goroutine of the same process take while so many never call the runtime, and, in another
//! run, yield all the time. `hogs idle SECONDS`: the processor time of a process whose goroutines wait.

use std::cell::Cell;
use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::io::{PipeWriter, Read, Write};
use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use gmp_runtime::net::{TcpListener, TcpStream};
use gmp_runtime::{Runtime, go, sleep, yield_now};

const KINDS: [&str; 8] = [
    "loop", "alloc", "lock", "hash", "sort", "print", "unwind", "local",
];

/// How long somebody may make no progress.
const PATIENCE: Duration = Duration::from_secs(20);

static LOCK: Mutex<u64> = Mutex::new(0);

/// A pipe that somebody reads.
static PIPE: OnceLock<PipeWriter> = OnceLock::new();

thread_local! {
    static DEPTH: Cell<u64> = const { Cell::new(0) };
}

fn spin(rounds: u64) -> u64 {
    (0..rounds).fold(1, |x, i| {
        black_box(x ^ i).wrapping_mul(6_364_136_223_846_793_005)
    })
}

/// One round of work; whether its result is right.
fn work(kind: &str, i: u64, round: u64) -> bool {
    match kind {
        "alloc" => {
            let parts: Vec<Vec<u8>> = (0..40)
                .map(|n| vec![i as u8; ((round * 131 + n * 977) % 20_000) as usize])
                .collect();
            parts.iter().flatten().all(|&byte| byte == i as u8)
        }
        "lock" => match LOCK.lock() {
            Ok(mut value) => {
                let before = *value;
                spin(10_000);
                *value = before + 1;
                *value == before + 1
            }
            Err(_) => false,
        },
        "hash" => {
            let map: HashMap<u64, u64> = (0..300).map(|k| (k + round, k * i)).collect();
            map.len() == 300 && map.get(&(round + 299)) == Some(&(299 * i))
        }
        "sort" => sort(i, round),
        "print" => match PIPE.get() {
            Some(mut pipe) => writeln!(pipe, "hog {i} in round {round}").is_ok(),
            None => false,
        },
        "unwind" => {
            let caught = catch_unwind(|| {
                spin(2_000);
                if round.is_multiple_of(4) {
                    resume_unwind(Box::new(round));
                }
            });
            caught.is_err() == round.is_multiple_of(4) && !thread::panicking()
        }
        // Whoever is frozen has the thread to itself.
        "local" => DEPTH.with(|depth| {
            let before = depth.replace(depth.get() + 1);
            spin(2_000);
            depth.get() == before + 1
        }),
        _ => spin(5_000) != 0,
    }
}

fn sort(i: u64, round: u64) -> bool {
    extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
        // SAFETY: elements of an array of u64.
        let (a, b) = unsafe { (*a.cast::<u64>(), *b.cast::<u64>()) };
        a.cmp(&b) as libc::c_int
    }
    let mut numbers: Vec<u64> = (0..1000_u64)
        .map(|n| (n + round).wrapping_mul(6_364_136_223_846_793_005) ^ i)
        .collect();
    // SAFETY: the array has as many elements of this size.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 8, Some(compare)) };
    numbers.is_sorted()
}

/// A pipe whose other end somebody reads to the end of the process.
fn open_pipe() -> Result<(), Box<dyn Error>> {
    let (mut reader, writer) = std::io::pipe()?;
    thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    PIPE.set(writer).map_err(|_| "a second pipe".into())
}

/// The processor time that this thread (or the whole process) has used.
fn used(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call fills in the local variable.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Nanoseconds of processor time for a round of `spin`, over so many of them, and what the rest of the process used
/// meanwhile. By the processor's time, because other programs take some of the clock's.
fn cost_of(rounds: u64) -> (f64, Duration) {
    let times = || {
        [
            libc::CLOCK_THREAD_CPUTIME_ID,
            libc::CLOCK_PROCESS_CPUTIME_ID,
        ]
        .map(used)
    };
    let before = times();
    for _ in 0..rounds {
        black_box(spin(50_000));
    }
    let after = times();
    let [own, all] = [0, 1].map(|i| after[i] - before[i]);
    (
        own.as_nanos() as f64 / rounds as f64,
        all.saturating_sub(own),
    )
}

/// Pairs of a hog on a thread and one on a goroutine of a runtime with two Ps, in turn; prints what the latter loses.
fn lone(pairs: u64, rounds: u64) -> Result<(), Box<dyn Error>> {
    let on_thread = || {
        let thread = thread::spawn(move || cost_of(rounds));
        thread.join().map_err(|_| "a hog panicked")
    };
    let on_goroutine = || -> Result<_, Box<dyn Error>> {
        let runtime = Runtime::builder().procs(2).build()?;
        // SAFETY: nothing that belongs to a thread lives across a call that may park.
        let cost = unsafe { runtime.run(move || go(move || cost_of(rounds)).join()) };
        cost.map_err(|_| "a hog panicked".into())
    };
    let (mut lost, mut beside) = (Vec::new(), Duration::ZERO);
    for pair in 0..pairs {
        // Whoever comes first may have the cooler machine.
        let (thread, goroutine) = if pair.is_multiple_of(2) {
            let thread = on_thread()?;
            (thread, on_goroutine()?)
        } else {
            let goroutine = on_goroutine()?;
            (on_thread()?, goroutine)
        };
        lost.push(100.0 * (goroutine.0 / thread.0 - 1.0));
        beside += goroutine.1;
    }
    lost.sort_by(f64::total_cmp);
    let mean = lost.iter().sum::<f64>() / lost.len() as f64;
    println!(
        "lost, of {pairs} pairs: median {:+.2} %, mean {mean:+.2} %, {:+.2} to {:+.2} %; beside each hog {:?} of other threads",
        lost[lost.len() / 2],
        lost[0],
        lost[lost.len() - 1],
        beside / pairs as u32,
    );
    Ok(())
}

/// So many hogs that compute for `time` of their own each.
fn finish(procs: u64, hogs: u64, time: Duration) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let rounds = {
        let probe = Instant::now();
        spin(10_000_000);
        10_000_000 * time.as_nanos() as u64 / probe.elapsed().as_nanos() as u64
    };
    let runtime = Runtime::builder().procs(procs as usize).build()?;
    // SAFETY: nothing that belongs to a thread lives across a call that may park.
    let (ended, late, threads) = unsafe {
        runtime.run(|| {
            let ended = Arc::new(AtomicU64::new(0));
            let goroutines: Vec<_> = (0..hogs)
                .map(|_| {
                    let ended = Arc::clone(&ended);
                    go(move || {
                        black_box(spin(rounds));
                        ended.fetch_add(1, Ordering::Relaxed);
                    })
                })
                .collect();
            let mut late = Duration::ZERO;
            while ended.load(Ordering::Relaxed) < hogs {
                let before = Instant::now();
                sleep(Duration::from_millis(1));
                late = late.max(before.elapsed());
            }
            let joined = goroutines.into_iter().map(|hog| hog.join());
            let all = joined.filter(|result| result.is_ok()).count();
            let threads = gmp_runtime::metrics().count("/sched/threads/total:threads");
            (all, late, threads)
        })
    };
    println!(
        "P={procs}: {ended} hogs of {time:?} each ended in {:?}; a sleeper of 1 ms waited {late:?} at most; {threads:?} threads",
        begun.elapsed()
    );
    if ended as u64 != hogs {
        return Err("not all ended".into());
    }
    Ok(())
}

/// Dials a listener of this process again and again, beside `busy` goroutines that call `work`; prints how long until
/// the connection is there, and until the first byte of the other side is.
fn dial(procs: u64, busy: u64, dials: u64, what: &str, work: fn()) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().procs(procs as usize).build()?;
    let dial_all = || -> std::io::Result<[Vec<Duration>; 2]> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let hogs: Vec<_> = (0..busy)
            .map(|_| {
                let stop = Arc::clone(&stop);
                go(move || {
                    while !stop.load(Ordering::Relaxed) {
                        work();
                    }
                })
            })
            .collect();
        let server = go(move || -> std::io::Result<()> {
            for _ in 0..dials {
                (&listener.accept()?.0).write_all(b"x")?;
            }
            Ok(())
        });
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..dials {
            let begun = Instant::now();
            let stream = TcpStream::connect(address)?;
            times[0].push(begun.elapsed());
            (&stream).read_exact(&mut [0])?;
            times[1].push(begun.elapsed());
            sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
        server
            .join()
            .map_err(|_| std::io::Error::other("the server panicked"))??;
        hogs.into_iter().for_each(|hog| drop(hog.join()));
        Ok(times)
    };
    // SAFETY: nothing that belongs to a thread lives across a call that may park.
    let times = unsafe { runtime.run(dial_all) }?;
    for (mut times, until) in times.into_iter().zip(["connected", "first byte"]) {
        times.sort_unstable();
        let at = |thousandths: usize| times[(times.len() - 1) * thousandths / 1000];
        println!(
            "P={procs}, {busy} that {what}: {until} after p50 {:?} p99 {:?} p99.9 {:?} most {:?}",
            at(500),
            at(990),
            at(999),
            at(1000)
        );
    }
    Ok(())
}

/// The processor time of this process while everybody waits: nothing but a timer; then somebody for the network, too.
fn idle(time: Duration) -> Result<(), Box<dyn Error>> {
    for network in [false, true] {
        let runtime = Runtime::new()?;
        let wait = || -> std::io::Result<_> {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            if network {
                go(move || listener.accept().map(drop));
            }
            sleep(Duration::from_millis(500));
            let before = used(libc::CLOCK_PROCESS_CPUTIME_ID);
            sleep(time);
            Ok(used(libc::CLOCK_PROCESS_CPUTIME_ID) - before)
        };
        // SAFETY: nothing that belongs to a thread lives across a call that may park.
        let used = unsafe { runtime.run(wait) }?;
        println!(
            "{time:?} in which all wait{}: {used:?} of processor time, {:.4} %",
            if network { ", one for the network" } else { "" },
            100.0 * used.as_secs_f64() / time.as_secs_f64()
        );
    }
    Ok(())
}

struct Shared {
    stop: AtomicBool,
    wrong: AtomicU64,
    rounds: Vec<AtomicU64>,
}

fn counts(shared: &Shared) -> Vec<u64> {
    shared
        .rounds
        .iter()
        .map(|rounds| rounds.load(Ordering::Relaxed))
        .collect()
}

/// Sleeps until the time is over; how late each wake was, and for how long a hog made no progress at most.
fn watch(
    shared: &Shared,
    seconds: u64,
    sleep: fn(Duration),
) -> Result<(Vec<Duration>, Duration), String> {
    const PAUSE: Duration = Duration::from_millis(1);
    let begun = Instant::now();
    let (mut late, mut longest) = (Vec::new(), Duration::ZERO);
    let mut last = vec![(0, begun); shared.rounds.len()];
    while begun.elapsed() < Duration::from_secs(seconds) {
        let before = Instant::now();
        sleep(PAUSE);
        late.push(before.elapsed().saturating_sub(PAUSE));
        for (i, (count, (seen, since))) in counts(shared).into_iter().zip(&mut last).enumerate() {
            longest = longest.max(since.elapsed());
            if count != *seen {
                (*seen, *since) = (count, Instant::now());
            } else if since.elapsed() > PATIENCE {
                return Err(format!("goroutine {i} made no progress for {PATIENCE:?}"));
            }
        }
    }
    late.sort_unstable();
    Ok((late, longest))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: u64| -> Result<u64, std::num::ParseIntError> {
        arguments.get(at).map_or(Ok(default), |text| text.parse())
    };
    open_pipe()?;
    match arguments.get(1).map(String::as_str) {
        Some("lone") => return lone(number(2, 10)?, number(3, 20_000)?),
        Some("finish") => {
            let time = Duration::from_millis(number(4, 20)?);
            return finish(number(2, 2)?, number(3, 5000)?, time);
        }
        Some("dial") => {
            let (procs, busy, dials) = (number(2, 2)?, number(3, 4)?, number(4, 2000)?);
            dial(procs, busy, dials, "never call", || {
                black_box(spin(5_000));
            })?;
            return dial(procs, busy, dials, "yield", || {
                black_box(spin(5_000));
                yield_now();
            });
        }
        Some("idle") => return idle(Duration::from_secs(number(2, 10)?)),
        _ => {}
    }
    let (procs, hogs, seconds) = (number(1, 2)?, number(2, 20)?, number(3, 5)?);
    let kind = arguments.get(4).cloned();
    let shared = Arc::new(Shared {
        stop: AtomicBool::new(false),
        wrong: AtomicU64::new(0),
        rounds: (0..hogs).map(|_| AtomicU64::new(0)).collect(),
    });
    let hog = |i: u64| {
        let shared = Arc::clone(&shared);
        let in_turn = KINDS[i as usize % KINDS.len()];
        let kind = kind.clone().unwrap_or_else(|| in_turn.to_owned());
        move || {
            while !shared.stop.load(Ordering::Relaxed) {
                let round = shared.rounds[i as usize].fetch_add(1, Ordering::Relaxed);
                if !work(&kind, i, round) {
                    shared.wrong.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    let late = if procs == 0 {
        let threads: Vec<_> = (0..hogs).map(|i| thread::spawn(hog(i))).collect();
        let late = watch(&shared, seconds, thread::sleep);
        shared.stop.store(true, Ordering::Relaxed);
        let ended = threads.into_iter().all(|thread| thread.join().is_ok());
        ended.then_some(late)
    } else {
        let runtime = Runtime::builder().procs(procs as usize).build()?;
        // SAFETY: nothing that belongs to a thread lives across a call that may park.
        unsafe {
            runtime.run(|| {
                let goroutines: Vec<_> = (0..hogs).map(|i| go(hog(i))).collect();
                let late = watch(&shared, seconds, sleep);
                shared.stop.store(true, Ordering::Relaxed);
                let ended = goroutines.into_iter().all(|hog| hog.join().is_ok());
                ended.then_some(late)
            })
        }
    };
    let (late, longest) = late.ok_or("a hog panicked")??;
    let rounds = counts(&shared);
    let (least, most) = (rounds.iter().min(), rounds.iter().max());
    let at = |share: usize| late[(late.len() - 1) * share / 100];
    let mean = late.iter().sum::<Duration>() / late.len() as u32;
    println!(
        "P={procs} hogs={hogs}: {} wakes late by mean {mean:?} p50 {:?} p99 {:?} most {:?}; rounds {} in all, {least:?} to {most:?}; nobody stood still for longer than {longest:?}",
        late.len(),
        at(50),
        at(99),
        at(100),
        rounds.iter().sum::<u64>(),
    );
    if let Some(kind) = &kind
        && let (Some(least), Some(most)) = (least, most)
    {
        let mean = rounds.iter().sum::<u64>() as f64 / rounds.len() as f64;
        let off = |rounds: u64| 100.0 * (rounds as f64 / mean - 1.0);
        println!(
            "{kind}: {:+.1} % to {:+.1} % of their mean",
            off(*least),
            off(*most)
        );
    }
    let wrong = shared.wrong.load(Ordering::Relaxed);
    if wrong != 0 || least == Some(&0) {
        return Err(format!("{wrong} wrong results; the least progress is {least:?}").into());
    }
    Ok(())
}
