//! A place where a number of goroutines wait for one another.

use std::fmt;
use std::panic::Location;

use super::waiters::{self, Place, Waiter, Waiters, grant_all_before};
use crate::prim::const_unless_loom;
use crate::sched::critical;
use crate::sched::g::{Wait, WaitReason};

/// Granted to a waiter: all are there.
const COMPLETE: u32 = 1;

/// Holds whoever comes until `size` are there; then all of them go on, and it holds the next.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use gmp_runtime::{go, sync::Barrier};
///
/// # let runtime = gmp_runtime::Runtime::builder().procs(2).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         let barrier = Arc::new(Barrier::new(3));
///         let others: Vec<_> = (0..2)
///             .map(|_| {
///                 let barrier = Arc::clone(&barrier);
///                 go(move || barrier.wait())
///             })
///             .collect();
///         let mut leaders = usize::from(barrier.wait());
///         for other in others {
///             leaders += usize::from(other.join().unwrap());
///         }
///         assert_eq!(leaders, 1);
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Barrier {
    size: usize,
    waiters: Waiters<Round>,
}

/// The round that is not complete yet.
#[derive(Debug)]
struct Round {
    /// How many are there.
    arrived: usize,
    /// Whoever came before this mark belongs to an earlier round.
    since: u64,
}

impl Barrier {
    const_unless_loom! {
        /// For `size` at a time; 0 is the same as 1, which holds nobody.
        pub fn new(size: usize) -> Barrier {
            Barrier { size, waiters: Waiters::new(Round { arrived: 0, since: 0 }) }
        }
    }

    /// Waits until `size` callers are there; true for one of them, the last that came.
    ///
    /// Blocks the goroutine (reason `semacquire`); on a thread that runs none, the thread.
    #[track_caller]
    pub fn wait(&self) -> bool {
        let me = waiters::me();
        let _section = critical::enter_to_wait_if(me);
        let mut locked = self.waiters.lock();
        locked.state.arrived += 1;
        if locked.state.arrived >= self.size {
            let mark = locked.queue.mark();
            locked.state = Round {
                arrived: 0,
                since: mark,
            };
            drop(locked);
            grant_all_before(&self.waiters, mark, COMPLETE);
            return true;
        }
        let waiter = Waiter::new(me, 0);
        let wait = Wait {
            reason: WaitReason::Semaphore,
            object: std::ptr::from_ref(self) as usize as u64,
            site: Location::caller(),
        };
        self.waiters.wait(
            locked,
            &waiter,
            Place::Last,
            wait,
            |mut locked, complete| {
                // One that is unwound before all were there has not been there.
                if complete.is_none() && waiter.number() >= locked.state.since {
                    locked.state.arrived -= 1;
                }
            },
        );
        false
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
