//! Values that belong to a goroutine, as thread-locals belong to a thread.

use std::any::Any;
use std::fmt;

use crate::sched::current::this_goroutine;
use crate::sched::g::G;

/// A value that each goroutine has for itself, made at its first use and dropped at the goroutine's end.
/// Declared with [`goroutine_local!`](crate::goroutine_local).
///
/// This is what `thread_local!` is for code that runs on goroutines: a goroutine keeps its value when it goes
/// on on another thread.
pub struct LocalKey<T: 'static> {
    make: fn() -> T,
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn new(make: fn() -> T) -> LocalKey<T> {
        LocalKey { make }
    }

    /// Calls `f` with the value of the calling goroutine. `f` may park: the value stays where it is.
    ///
    /// # Panics
    /// On a thread that runs no goroutine; in the initializer of this very value; with what the initializer
    /// panics with.
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        let g = this_goroutine();
        let key = std::ptr::from_ref(self) as usize;
        let value = match find(&g, key) {
            Found::Value(value) => value,
            Found::BeingMade => panic!("the initializer of a goroutine-local uses its own value"),
            Found::Nothing => {
                let being_made = BeingMade::begin(&g, key);
                being_made.end(Box::new((self.make)()))
            }
        };
        // SAFETY: the box stays until the goroutine ends, which is after `f`; it was made by this key.
        f(unsafe { &*value.cast::<T>() })
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

/// What a goroutine has for a key.
enum Found {
    Nothing,
    BeingMade,
    Value(*const ()),
}

/// The values of the calling goroutine, `g`.
///
/// # Safety
/// No other reference to them is kept.
#[expect(
    clippy::mut_from_ref,
    reason = "only the goroutine itself touches its values"
)]
unsafe fn locals(g: &G) -> &mut Vec<(usize, Option<Box<dyn Any>>)> {
    // SAFETY: the caller's contract, and the caller runs on `g`.
    unsafe { &mut (*g.locals.get()).get_or_insert_default().0 }
}

/// What the calling goroutine, `g`, has for `key`.
fn find(g: &G, key: usize) -> Found {
    // SAFETY: the reference ends here.
    let entry = unsafe { locals(g) }.iter().find(|(of, _)| *of == key);
    match entry {
        None => Found::Nothing,
        Some((_, None)) => Found::BeingMade,
        Some((_, Some(value))) => Found::Value(std::ptr::from_ref::<dyn Any>(&**value).cast()),
    }
}

/// A value that is being made. If that ends by a panic there is no trace of it.
struct BeingMade<'a> {
    g: &'a G,
    key: usize,
}

impl BeingMade<'_> {
    /// Begins to make the value of `key` for the calling goroutine, `g`.
    fn begin(g: &G, key: usize) -> BeingMade<'_> {
        // SAFETY: the reference ends here.
        unsafe { locals(g) }.push((key, None));
        BeingMade { g, key }
    }

    /// The value is made; where it stays.
    fn end(self, value: Box<dyn Any>) -> *const () {
        let address = std::ptr::from_ref::<dyn Any>(&*value).cast();
        // SAFETY: the reference ends here.
        for (of, place) in unsafe { locals(self.g) } {
            if *of == self.key {
                *place = Some(value);
                break;
            }
        }
        std::mem::forget(self);
        address
    }
}

impl Drop for BeingMade<'_> {
    fn drop(&mut self) {
        // SAFETY: the reference ends here.
        unsafe { locals(self.g) }.retain(|(of, _)| *of != self.key);
    }
}

/// Declares values that each goroutine has for itself; see [`LocalKey`].
///
/// # Examples
/// ```
/// use std::cell::Cell;
/// gmp_runtime::goroutine_local! {
///     /// How deep the caller is in something.
///     static DEPTH: Cell<u32> = Cell::new(0);
/// }
/// # let runtime = gmp_runtime::Runtime::builder().procs(2).build()?;
/// // SAFETY: nothing that belongs to a thread lives across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         DEPTH.with(|depth| depth.set(7));
///         let other = gmp_runtime::go(|| DEPTH.with(Cell::get)).join();
///         assert_eq!(other.unwrap(), 0, "each goroutine has its own");
///         gmp_runtime::yield_now();
///         assert_eq!(DEPTH.with(Cell::get), 7);
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
#[macro_export]
macro_rules! goroutine_local {
    ($($(#[$meta:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)+) => {
        $(
            $(#[$meta])*
            $visibility static $name: $crate::LocalKey<$type> = $crate::LocalKey::new(|| $value);
        )+
    };
}
