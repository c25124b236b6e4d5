//! References to goroutines, Ms and Ps that the scheduler passes around.
//!
//! Goroutines live in their scheduler's table, Ms and Ps in its lists; none is freed before the
//! scheduler itself, which outlives every thread, queue and stack that could hold a reference (the
//! end of `sched::shutdown`). So a reference made from one of them can be used at any time, and
//! following it needs no proof at each place.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::sched::g::G;
use crate::sched::m::M;
use crate::sched::p::P;

macro_rules! reference {
    ($(#[$doc:meta])* $name:ident, $target:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $name(NonNull<$target>);

        // SAFETY: a reference is an address; what may be done with the target from which thread is
        // the target's own rule.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            /// The reference to `target`.
            ///
            /// # Safety
            /// `target` lives in a scheduler's table or list.
            #[allow(dead_code, reason = "Ps are found by their addresses")]
            #[inline(always)]
            pub(crate) unsafe fn new(target: &$target) -> $name {
                $name(NonNull::from(target))
            }

            /// The reference at `pointer`, which came from [`Self::as_ptr`]; `None` for null.
            #[inline(always)]
            pub(crate) fn from_ptr(pointer: *mut $target) -> Option<$name> {
                NonNull::new(pointer).map($name)
            }

            /// The address.
            #[inline(always)]
            pub(crate) fn as_ptr(self) -> *mut $target {
                self.0.as_ptr()
            }
        }

        impl Deref for $name {
            type Target = $target;

            #[inline(always)]
            fn deref(&self) -> &$target {
                // SAFETY: the target lives as long as its scheduler, and that longer than any
                // reference (see the module).
                unsafe { self.0.as_ref() }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:p})"), self.0)
            }
        }
    };
}

reference! {
    /// A goroutine.
    GRef, G
}

reference! {
    /// An M.
    MRef, M
}

reference! {
    /// A P.
    PRef, P
}

impl GRef {
    /// The reference at `pointer`, which came from [`GRef::as_non_null`].
    #[inline(always)]
    pub(crate) fn from_non_null(pointer: NonNull<G>) -> GRef {
        GRef(pointer)
    }

    /// The address, as run queues hold it.
    #[inline(always)]
    pub(crate) fn as_non_null(self) -> NonNull<G> {
        self.0
    }
}
