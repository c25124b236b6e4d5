//! Making goroutines and waiting for them.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::thread;

use crate::sched::g::transition;
use crate::sched::refs::GRef;
use crate::sched::{critical, current, life};
use crate::sync::WaitGroup;

/// Runs `f` on a new goroutine. The goroutine is the next one to run on this P; the caller goes on at
/// once. Nothing is allocated, unless the closure or the result is larger than 80 bytes.
///
/// The handle can be dropped: the goroutine then runs on its own.
///
/// # Panics
/// Outside a goroutine: call it inside [`Runtime::run`](crate::Runtime::run). When 16 Mi goroutines
/// are alive.
///
/// # Examples
/// ```
/// let runtime = gmp_runtime::Runtime::builder().procs(2).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// let sum = unsafe {
///     runtime.run(|| {
///         let parts: Vec<_> = (0..4u64).map(|i| gmp_runtime::go(move || i * i)).collect();
///         parts.into_iter().map(|part| part.join().unwrap()).sum::<u64>()
///     })
/// };
/// assert_eq!(sum, 14);
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
#[inline]
pub fn go<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let creator = current::this_goroutine();
    let f = life::Packed::new(f);
    let section = critical::enter(creator);
    let m = current::m_of(creator);
    let p = m.held_p();
    let Some(g) = m.sched.take_free(&p) else {
        drop(section);
        too_many()
    };
    g.id.set(p.next_goroutine_id(|| m.sched.goroutine_ids()));
    // SAFETY: the goroutine is fresh and ours, and `F` and `T` may go to another thread.
    unsafe { life::prepare(g, f, creator.id.get(), Location::caller()) };
    m.tracer.create(&m, g);
    transition!(g, Idle => Runnable);
    m.sched.put_local(&m, &p, g, true);
    m.sched.wake_p_if_needed();
    drop(section);
    JoinHandle {
        g,
        result: PhantomData,
    }
}

impl WaitGroup {
    /// Runs `f` on a new goroutine, as [`go`], which counts as one thing under way until `f` has
    /// returned, panicked, or will never be run.
    ///
    /// # Panics
    /// As [`go`] and [`add`](WaitGroup::add).
    #[track_caller]
    pub fn go(self: &Arc<Self>, f: impl FnOnce() + Send + 'static) {
        self.add(1);
        let done = Done(Arc::clone(self));
        drop(go(move || {
            f();
            drop(done);
        }));
    }
}

/// Says that it is done when it is dropped.
struct Done(Arc<WaitGroup>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.done();
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn too_many() -> ! {
    panic!(
        "{} goroutines are alive, which is the limit",
        crate::sched::table::MAX_GOROUTINES
    )
}

/// A goroutine that can be waited for. Dropping it lets the goroutine run on its own.
pub struct JoinHandle<T> {
    g: GRef,
    result: PhantomData<T>,
}

// SAFETY: the handle gives access to the result only, to one thread.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: no method gives access to the result through a shared reference.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// Waits until the goroutine ends, and gives its result, or what it panicked with.
    ///
    /// Blocks the goroutine that calls it (reason `join`), not its thread; called on a plain thread it
    /// blocks that.
    ///
    /// # Errors
    /// The payload of the panic that ended the goroutine.
    #[track_caller]
    pub fn join(self) -> thread::Result<T> {
        if !self.is_finished() {
            match current::goroutine() {
                Some(me) if std::ptr::eq(me.sched, self.g.sched) => {
                    life::wait_for_end(me, self.g, Location::caller());
                }
                _ => life::wait_for_end_on_thread(self.g),
            }
        }
        let g = self.g;
        std::mem::forget(self);
        // SAFETY: the handle was made with the goroutine, for a `T`, and is forgotten.
        unsafe { life::take_result(g) }
    }

    /// Whether the goroutine has ended. Does not block.
    pub fn is_finished(&self) -> bool {
        life::has_ended(self.g)
    }

    /// The number of the goroutine.
    pub fn id(&self) -> u64 {
        self.g.id.get()
    }

    /// A handle to [unpark](crate::Goroutine::unpark) the goroutine with.
    pub fn goroutine(&self) -> crate::Goroutine {
        crate::Goroutine::new(self.g)
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        // SAFETY: the handle was made with the goroutine, for a `T`, and is gone after this.
        unsafe { life::release::<T>(self.g) };
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
