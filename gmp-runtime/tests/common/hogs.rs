//! Goroutines that run for as long as they can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gmp_runtime::{JoinHandle, go, sleep};

/// What hogs share: when to end, and how far each has come.
#[derive(Debug)]
pub(crate) struct Hogs {
    stop: AtomicBool,
    rounds: Vec<AtomicU64>,
}

impl Hogs {
    /// So many, which have not begun.
    pub(crate) fn new(count: usize) -> Arc<Hogs> {
        Arc::new(Hogs {
            stop: AtomicBool::new(false),
            rounds: (0..count).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Starts a goroutine for each, which calls `work` until it is to stop; `work` must not park.
    pub(crate) fn start(
        self: &Arc<Hogs>,
        work: impl Fn(usize, u64) + Send + Sync + 'static,
    ) -> Vec<JoinHandle<()>> {
        let work = Arc::new(work);
        (0..self.rounds.len())
            .map(|i| {
                let (hogs, work) = (Arc::clone(self), Arc::clone(&work));
                go(move || {
                    while !hogs.stop.load(Ordering::Relaxed) {
                        work(i, hogs.rounds[i].fetch_add(1, Ordering::Relaxed));
                    }
                })
            })
            .collect()
    }

    /// How many rounds each has begun.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.rounds
            .iter()
            .map(|rounds| rounds.load(Ordering::Relaxed))
            .collect()
    }

    /// Waits, on another goroutine, until each of them has come further, `times` times.
    pub(crate) fn wait_for_progress(&self, times: u32) {
        for _ in 0..times {
            let before = self.counts();
            let begun = Instant::now();
            while !self
                .counts()
                .iter()
                .zip(&before)
                .all(|(now, before)| now > before)
            {
                sleep(Duration::from_millis(1));
                assert!(
                    begun.elapsed() < Duration::from_secs(60),
                    "no progress: {:?}",
                    self.counts()
                );
            }
        }
    }

    /// Stops them, and waits until they have ended.
    pub(crate) fn end(&self, handles: Vec<JoinHandle<()>>) {
        self.stop.store(true, Ordering::Relaxed);
        handles.into_iter().for_each(|hog| hog.join().unwrap());
    }
}
