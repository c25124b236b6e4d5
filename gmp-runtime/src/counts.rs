//! How many there are: goroutines, Ps, processors, threads.

use std::time::Duration;

use crate::debug::stop;
use crate::procs::{self, MAX_PROCS, Offer};
use crate::sched::current::this_goroutine;
use crate::sched::{Sched, critical};

/// Why the world is stopped to change the number of Ps (Go's word).
const WHY: &str = "GOMAXPROCS";

/// For so long the world is asked to stop when nobody waits for the change.
const PATIENCE: Duration = Duration::from_millis(100);

/// How many processors the process may use, by the affinity of the calling thread: at least 1 (Go's
/// `runtime.NumCPU`). How many goroutines run at once is [`gomaxprocs`].
///
/// Does not block.
pub fn num_cpu() -> usize {
    procs::available()
}

/// How many goroutines there are that have not ended, the caller included (Go's `runtime.NumGoroutine`).
///
/// Looks at each goroutine that ever lived at the same time as others; those that begin and end meanwhile are
/// counted or not. Does not block.
///
/// # Panics
/// On a thread that runs no goroutine.
pub fn num_goroutine() -> usize {
    this_goroutine().sched.table.living()
}

/// Makes `n` the number of Ps, which is how many goroutines run at once; how many it was before (Go's
/// `runtime.GOMAXPROCS`). 0 changes nothing and only asks. More than 4096 is 4096.
///
/// Without a number in [`Builder::procs`](crate::Builder::procs) or `GMPMAXPROCS` the number follows the affinity of
/// the process and the quota of its control group, which are looked at once a second while goroutines run, until this
/// is called with another number than 0 (the rules of Go 1.25).
///
/// The world is stopped for the change, for some ten microseconds (reason `GOMAXPROCS` in the trace). Nothing that is
/// runnable or sleeps is lost: queues and timers of a P that goes are moved. A P that runs a goroutine goes when that
/// goroutine next calls into the runtime; until then one more runs than was asked for.
///
/// Blocks the goroutine while others stop the world, and its thread until the world stands still, as
/// [`debug::stop_the_world`](crate::debug::stop_the_world).
///
/// # Panics
/// On a thread that runs no goroutine.
///
/// # Examples
/// ```
/// let runtime = gmp_runtime::Runtime::builder().procs(4).build()?;
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         assert_eq!(gmp_runtime::gomaxprocs(2), 4);
///         assert_eq!(gmp_runtime::gomaxprocs(0), 2);
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn gomaxprocs(n: usize) -> usize {
    let g = this_goroutine();
    if n == 0 {
        return g.sched.procs.wanted() as usize;
    }
    let wanted = n.min(MAX_PROCS) as u32;
    // While the world is stopped nothing may be allocated.
    g.sched.procs.make(wanted);
    let _stop = stop::begin(WHY);
    let _section = critical::enter(g);
    g.sched.follow.end();
    g.sched.set_procs(wanted) as usize
}

/// Changes the number of Ps of `sched` when the system offers another one, until the scheduler ends or the program says
/// how many there are to be. On a thread that runs no goroutine.
pub(crate) fn follow(sched: &'static Sched, offer: &Offer) {
    let mut seen = 0;
    while sched.follow.wait(sched, &mut seen) {
        let wanted = offer.count() as u32;
        if wanted == sched.procs.wanted() {
            continue;
        }
        sched.procs.make(wanted);
        // Where it does not stand still, the next look tries again.
        if let Some(_stop) = stop::begin_of(sched, WHY, PATIENCE)
            && sched.follow.is_on()
            && !sched.stopping()
        {
            sched.set_procs(wanted);
        }
    }
}

/// Makes `n` the largest number of threads that run goroutines or are blocked in system calls of goroutines; how
/// many it was before. It is 10 000 unless it is set (Go's `debug.SetMaxThreads`).
///
/// A program that needs more ends with a fatal error that says so: goroutines that block their threads without
/// bound would else take the machine down. At least 1.
///
/// Does not block.
///
/// # Panics
/// On a thread that runs no goroutine.
pub fn set_max_threads(n: usize) -> usize {
    let most = u32::try_from(n).unwrap_or(u32::MAX).max(1);
    this_goroutine().sched.spawner.set_most_threads(most) as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Instant;

    use super::*;
    use crate::{Builder, Runtime, go, sleep, yield_now};

    /// Writes the file with the quota.
    type SetQuota<'a> = dyn Fn(&str) + 'a;

    /// Waits until there are `wanted` Ps, while somebody computes.
    fn wait_for(wanted: usize) {
        let begun = Instant::now();
        while gomaxprocs(0) != wanted {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{} Ps, not {wanted}",
                gomaxprocs(0)
            );
            sleep(Duration::from_micros(200));
        }
    }

    #[test]
    fn the_number_follows_the_quota_until_it_is_chosen() {
        static PROCESSORS: AtomicUsize = AtomicUsize::new(6);
        let root = std::env::temp_dir().join(format!("gmp-follow-{}", std::process::id()));
        fs::create_dir_all(root.join("proc/self")).expect("a directory");
        fs::create_dir_all(root.join("cg")).expect("a directory");
        let file = |name: &str, text: &str| fs::write(root.join(name), text).expect("a file");
        file("proc/self/cgroup", "0::/\n");
        file(
            "proc/self/mountinfo",
            "30 23 0:26 / /cg rw - cgroup2 none rw\n",
        );
        file("cg/cpu.max", "300000 100000\n");
        let offer = Offer::of(|| PROCESSORS.load(SeqCst), root.clone());
        let run = |builder: Builder, f: fn(&SetQuota)| {
            let runtime = builder.offer(offer.clone()).build().expect("a runtime");
            // SAFETY: nothing of a thread lives across a call that may park.
            unsafe { runtime.run(|| f(&|text| file("cg/cpu.max", text))) };
        };
        run(Runtime::builder(), |set| {
            assert_eq!(gomaxprocs(0), 3);
            set("500000 100000\n");
            wait_for(5);
            set("200000 100000\n");
            wait_for(2);
            set("max 100000\n");
            wait_for(6);
            PROCESSORS.store(4, SeqCst);
            wait_for(4);
            // All of them run something.
            let running = std::sync::Arc::new(AtomicUsize::new(0));
            let all: Vec<_> = (0..4)
                .map(|_| {
                    let running = running.clone();
                    go(move || {
                        running.fetch_add(1, SeqCst);
                        while running.load(SeqCst) < 4 {
                            std::thread::yield_now();
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|g| g.join().expect("no panic"));
            // From here on it is the program that chooses.
            assert_eq!(gomaxprocs(5), 4);
            set("300000 100000\n");
            stays(5);
        });
        run(Runtime::builder().procs(2), |set| {
            set("400000 100000\n");
            stays(2);
        });
        let _ = fs::remove_dir_all(&root);
    }

    /// There are `procs` Ps for as long as many looks would take.
    fn stays(procs: usize) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(100) {
            yield_now();
            assert_eq!(gomaxprocs(0), procs);
        }
    }
}
