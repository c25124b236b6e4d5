//! Goroutines that never call the runtime, beside one that sleeps for a millisecond again and again: prints how
//! far each of them came, and how late the sleeper was. Fails when somebody makes no progress or a result is
//! wrong.
//!
//! `hogs PROCS HOGS SECONDS [KIND]`, with a kind of `loop`, `alloc`, `lock`, `hash`, or all of them in turn. With 0
//! for PROCS the same runs on threads of the system, without a runtime: what the hogs would do by themselves.

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gmp_runtime::{Runtime, go, sleep};

const KINDS: [&str; 4] = ["loop", "alloc", "lock", "hash"];

/// How long somebody may make no progress.
const PATIENCE: Duration = Duration::from_secs(20);

static LOCK: Mutex<u64> = Mutex::new(0);

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
        _ => spin(5_000) != 0,
    }
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

/// Sleeps until the time is over; how late each wake was.
fn watch(shared: &Shared, seconds: u64, sleep: fn(Duration)) -> Result<Vec<Duration>, String> {
    const PAUSE: Duration = Duration::from_millis(1);
    let begun = Instant::now();
    let mut late = Vec::new();
    let mut last = vec![(0, begun); shared.rounds.len()];
    while begun.elapsed() < Duration::from_secs(seconds) {
        let before = Instant::now();
        sleep(PAUSE);
        late.push(before.elapsed().saturating_sub(PAUSE));
        for (i, (count, (seen, since))) in counts(shared).into_iter().zip(&mut last).enumerate() {
            if count != *seen {
                (*seen, *since) = (count, Instant::now());
            } else if since.elapsed() > PATIENCE {
                return Err(format!("goroutine {i} made no progress for {PATIENCE:?}"));
            }
        }
    }
    late.sort_unstable();
    Ok(late)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: u64| -> Result<u64, std::num::ParseIntError> {
        arguments.get(at).map_or(Ok(default), |text| text.parse())
    };
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
    let late = late.ok_or("a hog panicked")??;
    let rounds = counts(&shared);
    let (least, most) = (rounds.iter().min(), rounds.iter().max());
    let at = |share: usize| late[(late.len() - 1) * share / 100];
    let mean = late.iter().sum::<Duration>() / late.len() as u32;
    println!(
        "P={procs} hogs={hogs}: {} wakes late by mean {mean:?} p50 {:?} p99 {:?} most {:?}; rounds {} in all, {least:?} to {most:?}",
        late.len(),
        at(50),
        at(99),
        at(100),
        rounds.iter().sum::<u64>(),
    );
    let wrong = shared.wrong.load(Ordering::Relaxed);
    if wrong != 0 || least == Some(&0) {
        return Err(format!("{wrong} wrong results; the least progress is {least:?}").into());
    }
    Ok(())
}
