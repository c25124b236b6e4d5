//! Making goroutines and waiting for them.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::thread;

use crate::builder::stack_class;
use crate::sched::g::transition;
use crate::sched::m::M;
use crate::sched::p::P;
use crate::sched::refs::GRef;
use crate::sched::table::MAX_GOROUTINES;
use crate::sched::{critical, current, life};
use crate::stack::{self, StackError};
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
    let handle = start(g, f, creator, &m, &p, Location::caller());
    drop(section);
    handle
}

/// As [`go`], and makes sure that the goroutine can run: it has its stack when this returns, where one of
/// [`go`] gets it when it first runs, and ends the process if there is none then.
///
/// Stacks can run out where each needs memory mappings of its own: on kernels before Linux 6.13, and where
/// memory is locked. The limit is `vm.max_map_count`, 65 530 by default.
///
/// # Errors
/// When there is no stack, or 16 Mi goroutines are alive. The closure is dropped.
///
/// # Panics
/// Outside a goroutine.
///
/// # Examples
/// ```
/// # let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         match gmp_runtime::try_go(|| 6 * 7) {
///             Ok(handle) => assert_eq!(handle.join().unwrap(), 42),
///             Err(error) => eprintln!("one goroutine less: {error}"),
///         }
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn try_go<F, T>(f: F) -> Result<JoinHandle<T>, GoError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let creator = current::this_goroutine();
    let f = life::Packed::new(f);
    let section = critical::enter(creator);
    let m = current::m_of(creator);
    let p = m.held_p();
    let made = match m.sched.take_free(&p) {
        None => Err(Lack::Goroutine),
        Some(g) => match life::reserve_stack(&p, g) {
            Ok(()) => Ok(g),
            Err(error) => {
                m.sched.put_free(&p, g);
                Err(Lack::Stack(error))
            }
        },
    };
    match made {
        Ok(g) => {
            let handle = start(g, f, creator, &m, &p, Location::caller());
            drop(section);
            Ok(handle)
        }
        Err(lack) => {
            drop(section);
            Err(GoError(lack))
        }
    }
}

/// Why there is no goroutine more.
#[derive(Debug)]
pub struct GoError(Lack);

#[derive(Debug)]
enum Lack {
    Goroutine,
    Stack(StackError),
}

impl fmt::Display for GoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Lack::Goroutine => write!(
                f,
                "{MAX_GOROUTINES} goroutines are alive, which is the limit"
            ),
            Lack::Stack(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for GoError {}

/// Sets how many bytes of address space the stacks of goroutines have that first run from now on, in the
/// runtime of the caller; what it was. See [`Builder::stack_size`](crate::Builder::stack_size), whose value it
/// replaces. (Go's `debug.SetMaxStack`, where stacks grow up to that. A stack here has its address space from
/// the beginning, and memory as it is touched.)
///
/// Does not block.
///
/// # Errors
/// `InvalidInput` above 8 MiB.
///
/// # Panics
/// Outside a goroutine.
#[track_caller]
pub fn set_max_stack(bytes: usize) -> io::Result<usize> {
    let sched = current::this_goroutine().sched;
    let before = sched.set_stack_class(stack_class(bytes)?);
    Ok(stack::stride(before))
}

/// Starts `f` on `g`, which nobody uses. In a section.
#[inline(always)]
fn start<F, T>(
    g: GRef,
    f: life::Packed<F>,
    creator: GRef,
    m: &M,
    p: &P,
    site: &'static Location<'static>,
) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    g.id.set(p.next_goroutine_id(|| m.sched.goroutine_ids()));
    // SAFETY: the goroutine is fresh and ours, and `F` and `T` may go to another thread.
    unsafe { life::prepare(g, f, creator.id.get(), site) };
    m.tracer.create(m, g);
    transition!(g, Idle => Runnable);
    m.sched.put_local(m, p, g, true);
    m.sched.wake_p_if_needed();
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
    panic!("{}", GoError(Lack::Goroutine))
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
    #[inline(always)]
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
    #[inline]
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

#[cfg(all(test, not(loom)))]
#[path = "spawn_tests.rs"]
mod tests;
