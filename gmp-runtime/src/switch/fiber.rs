//! A build that ThreadSanitizer follows, `--cfg gmp_tsan`: it is told of each stack, and of each switch.
//!
//! Without that it would take the frames of all goroutines that a thread runs for those of the thread. Elsewhere
//! every function here is empty.

/// What the sanitizer knows a stack as.
#[derive(Debug)]
pub(crate) struct Fiber {
    #[cfg(gmp_tsan)]
    handle: crate::prim::process_wide::AtomicUsize,
}

#[cfg(not(gmp_tsan))]
impl Fiber {
    pub(crate) const fn new() -> Fiber {
        Fiber {}
    }

    /// A stack is laid out for somebody new.
    #[inline(always)]
    pub(crate) fn renew(&self) {}

    /// This flow of control, which may be a thread's own, is left for that of `to`.
    #[inline(always)]
    pub(crate) fn leave_for(&self, _to: &Fiber) {}
}

#[cfg(gmp_tsan)]
mod sanitizer {
    use std::ffi::{c_uint, c_void};

    use super::Fiber;
    use crate::prim::process_wide::{AtomicUsize, Ordering};

    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_create_fiber(flags: c_uint) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: c_uint);
    }

    impl Fiber {
        pub(crate) const fn new() -> Fiber {
            Fiber {
                handle: AtomicUsize::new(0),
            }
        }

        pub(crate) fn renew(&self) {
            // SAFETY: the calls have no conditions but that the old one is nobody's current one: it was left
            // for good.
            unsafe {
                let new = __tsan_create_fiber(0);
                // ordering: Relaxed: the caller owns the stack.
                match self.handle.swap(new as usize, Ordering::Relaxed) {
                    0 => {}
                    old => __tsan_destroy_fiber(old as *mut c_void),
                }
            }
        }

        #[inline(always)]
        pub(crate) fn leave_for(&self, to: &Fiber) {
            // SAFETY: `to` was made by `renew`, or is a thread's own that was kept when it was left.
            unsafe {
                let current = __tsan_get_current_fiber() as usize;
                // ordering: Relaxed, both: whoever switches to it has got it through a queue.
                self.handle.store(current, Ordering::Relaxed);
                let next = to.handle.load(Ordering::Relaxed) as *mut c_void;
                __tsan_switch_to_fiber(next, 0);
            }
        }
    }
}
