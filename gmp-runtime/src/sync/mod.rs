//! Locks and meeting points for goroutines, as Go's package `sync`, usable from plain threads too.
//!
//! What waits here is the goroutine, not its thread; on a thread that runs no goroutine it is the thread.
//! Both may meet at one object. A wait is recorded with its reason, the address of the object, and the place
//! of the call.
//!
//! | type | who is served first | reason in dumps and traces |
//! |---|---|---|
//! | [`Mutex`] | whoever comes by; after 1 ms of waiting in vain, the first in the queue | `sync.Mutex.Lock` |
//! | [`RwLock`] | first come, first served; readers at the head of the queue together | `sync.RWMutex.RLock`, `sync.RWMutex.Lock` |
//! | [`WaitGroup`] | everybody, when the counter is zero | `sync.WaitGroup.Wait` |
//! | [`Cond`] | first come, first served | `sync.Cond.Wait` |
//! | [`Once`], [`OnceLock`] | everybody, when it is done | `semacquire` |
//! | [`Semaphore`] | first come, first served, also those who want many permits | `semacquire` |
//! | [`Barrier`] | everybody, when all are there | `semacquire` |
//!
//! # Panics and cancelled goroutines
//!
//! Nothing is poisoned: a guard that is dropped by a panic unlocks, and the value is as it was left.
//!
//! When a program ends, goroutines that wait are unwound. One that waits here takes itself out of the queue,
//! and what it had been given in the meantime (a lock, permits, a notification) goes on to the next.
//!
//! # Giving back never blocks
//!
//! To unlock, release or notify makes others runnable and goes on: the caller stays on its thread. (Go's
//! `Unlock` yields to the waiter that it serves in starvation mode.) So a guard may be dropped where a
//! goroutine must not change threads.

mod barrier;
mod cond;
#[cfg(all(test, loom))]
mod model_tests;
mod mutex;
mod once;
mod raw_mutex;
mod raw_rwlock;
mod rwlock;
mod semaphore;
mod spin;
mod wait_group;
mod waiters;

pub use barrier::Barrier;
pub use cond::Cond;
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceLock};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use wait_group::WaitGroup;
