//! Atomics, cells and spin hints: std's, or loom's when models are checked.
//!
//! Every other file of the crate takes them from here, so that one `cfg(loom)` turns the same code into a
//! model in which loom tries the interleavings and the reorderings that the orderings allow.
//!
//! # What differs under loom
//!
//! * A loom atomic is not one machine word, has no `const` constructor and lives for one execution of a
//!   model only: it can be neither a `static` nor the word of a futex.
//! * loom weakens `SeqCst` *accesses* to `AcqRel`. Where the argument needs a total order, use
//!   [`atomic::fence`] with `SeqCst`, which loom does model.
//! * [`atomic::compiler_fence`] is the light half of an asymmetric barrier (the heavy half is
//!   [`crate::sys::memory_barrier`]). The kernel's half acts on every running thread, so in a model both
//!   halves are full fences.

/// Atomic words and fences.
pub(crate) mod atomic {
    #[cfg(not(loom))]
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
        Ordering, compiler_fence, fence,
    };

    #[cfg(loom)]
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
        Ordering, fence,
    };

    /// A full fence: see the module's notes on asymmetric barriers.
    #[cfg(loom)]
    pub(crate) fn compiler_fence(order: Ordering) {
        fence(order);
    }
}

/// Words that live as long as the process and belong to no model: std's atomics, under loom too.
pub(crate) mod process_wide {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
}

/// The cell whose accesses loom checks against each other.
pub(crate) mod cell {
    #[cfg(loom)]
    pub(crate) use loom::cell::UnsafeCell;

    /// [`std::cell::UnsafeCell`] with loom's interface: the pointer is seen only inside a closure, so
    /// that a model knows how long each access lasts.
    #[cfg(not(loom))]
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

    #[cfg(not(loom))]
    impl<T> UnsafeCell<T> {
        /// A cell that holds `value`.
        #[inline(always)]
        pub(crate) const fn new(value: T) -> Self {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        /// The value, once nobody else can see the cell.
        #[inline(always)]
        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    #[cfg(not(loom))]
    impl<T: ?Sized> UnsafeCell<T> {
        /// Calls `read` with a pointer for reading.
        #[inline(always)]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        /// Calls `write` with a pointer for reading and writing.
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

/// Hints to the processor.
pub(crate) mod hint {
    #[cfg(loom)]
    pub(crate) use loom::hint::spin_loop;
    #[cfg(not(loom))]
    pub(crate) use std::hint::spin_loop;

    /// Brings the cache line at `address` near, which is about to be used. Nothing is read: any address will do.
    #[inline(always)]
    pub(crate) fn prefetch<T>(address: *const T) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which does not fault.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
}

/// Sleep in place of spinning: in a model two that spin could take turns for ever.
#[cfg(loom)]
pub(crate) mod model {
    use loom::sync::{Condvar, Mutex};

    /// Threads that wait for something to change.
    #[derive(Debug, Default)]
    pub(crate) struct Sleepers {
        lock: Mutex<()>,
        woken: Condvar,
    }

    impl Sleepers {
        /// Sleeps until `done`, which is asked again after each change.
        pub(crate) fn sleep_until(&self, mut done: impl FnMut() -> bool) {
            let mut guard = self.lock.lock().expect("nothing panics under the lock");
            while !done() {
                guard = self
                    .woken
                    .wait(guard)
                    .expect("nothing panics under the lock");
            }
        }

        /// Something has changed.
        pub(crate) fn wake_all(&self) {
            let _guard = self.lock.lock().expect("nothing panics under the lock");
            self.woken.notify_all();
        }
    }
}

/// Defines functions that are `const` except under loom, whose primitives cannot be made in a constant.
macro_rules! const_unless_loom {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {
        $(
            #[cfg(not(loom))]
            $(#[$meta])* $vis const fn $name($($arg: $ty),*) -> $ret $body
            #[cfg(loom)]
            $(#[$meta])* $vis fn $name($($arg: $ty),*) -> $ret $body
        )*
    };
}
pub(crate) use const_unless_loom;
