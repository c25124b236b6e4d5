//! Collectors that the program registered.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

type Collector = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Those of the process, with the numbers of their registrations.
static COLLECTORS: Mutex<Collectors> = Mutex::new(Collectors {
    next: 0,
    all: Vec::new(),
});

struct Collectors {
    next: u64,
    all: Vec<(u64, Collector)>,
}

/// Has `collector` called in every collection cycle of the process, from the next one until the value that is
/// returned is dropped. It gives back what the program does not need (an arena, a cache, what an epoch has freed)
/// and returns the number of bytes.
///
/// It is called on a thread that runs no goroutine, while goroutines run: it may block that thread, which holds up
/// the cycle and the end of the runtime; it cannot call what blocks a goroutine. A panic in it prints its message and
/// counts as nothing given back.
///
/// Blocks neither G, M nor P for longer than another call of this function takes.
///
/// # Examples
/// ```
/// use std::sync::{Arc, Mutex};
///
/// let cache = Arc::new(Mutex::new(vec![0_u8; 1 << 20]));
/// let cleaned = Arc::clone(&cache);
/// let _registration = gmp_runtime::gc::register(move || {
///     let old = std::mem::take(&mut *cleaned.lock().unwrap());
///     old.capacity() as u64
/// });
/// let runtime = gmp_runtime::Runtime::new()?;
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// unsafe { runtime.run(gmp_runtime::gc) };
/// assert!(cache.lock().unwrap().is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "dropping the registration ends it"]
pub fn register(collector: impl Fn() -> u64 + Send + Sync + 'static) -> Registration {
    let collector: Collector = Arc::new(collector);
    let mut collectors = COLLECTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = collectors.next;
    collectors.next += 1;
    collectors.all.push((number, collector));
    Registration { number }
}

/// A registered collector; dropping it ends the registration. A call that has begun goes on.
pub struct Registration {
    number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut collectors = COLLECTORS.lock().unwrap_or_else(PoisonError::into_inner);
        let place = collectors
            .all
            .iter()
            .position(|(number, _)| *number == self.number);
        let ended = place.map(|place| collectors.all.swap_remove(place));
        // What the collector holds is the program's: not under the lock.
        drop(collectors);
        drop(ended);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").finish_non_exhaustive()
    }
}

/// Calls every collector, without the lock; the bytes that they gave back.
pub(super) fn collect() -> u64 {
    let collectors: Vec<Collector> = {
        let collectors = COLLECTORS.lock().unwrap_or_else(PoisonError::into_inner);
        collectors
            .all
            .iter()
            .map(|(_, collector)| Arc::clone(collector))
            .collect()
    };
    let mut bytes = 0_u64;
    for collector in collectors {
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            let bytes = collector();
            // Perhaps the last one to hold it.
            drop(collector);
            bytes
        }));
        match result {
            Ok(collected) => bytes = bytes.saturating_add(collected),
            // The panic hook has told of it.
            Err(payload) => std::mem::forget(payload),
        }
    }
    bytes
}
