//! Sleeping until a word changes: the futex system call.
//!
//! Both calls are async-signal-safe. They may change `errno`: a signal handler saves it.

#[cfg(not(loom))]
use crate::prim::atomic::AtomicU32;
use crate::prim::process_wide::AtomicU32 as ProcessWord;

/// Why [`wait`] came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Somebody called [`wake`], or the kernel woke us for no reason: look at the word again.
    Woken,
    /// The word did not have the expected value, so the thread did not sleep.
    Changed,
    /// The timeout passed.
    TimedOut,
    /// A signal handler ran on this thread.
    Interrupted,
}

/// Sleeps while `word` holds `expected`, at most `timeout_ns` nanoseconds by the monotonic clock (`None`:
/// without limit).
///
/// The kernel compares and goes to sleep in one step with respect to [`wake`]: a change of the word that
/// is followed by a wake cannot be missed. Changes of the word need their own orderings, since a return
/// from here orders nothing.
#[cfg(not(loom))]
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> Wait {
    let limit = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let limit: *const libc::timespec = limit.as_ref().map_or(std::ptr::null(), |limit| limit);
    // SAFETY: `word` and `limit` are valid for the whole call, because both are borrowed or owned here;
    // FUTEX_WAIT only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            limit,
        )
    };
    if result == 0 {
        return Wait::Woken;
    }
    match last_errno() {
        libc::EAGAIN => Wait::Changed,
        libc::ETIMEDOUT => Wait::TimedOut,
        libc::EINTR => Wait::Interrupted,
        // EINVAL and EFAULT are impossible for a valid word and a normalised time.
        errno => crate::fatal!("futex wait failed with error number {errno}"),
    }
}

/// Sleeps while `word` holds `expected`. For a word of the process, which belongs to no model.
pub(crate) fn wait_process_wide(word: &ProcessWord, expected: u32) {
    // SAFETY: the word is valid for the whole call; FUTEX_WAIT only reads it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            std::ptr::null::<libc::timespec>(),
        )
    };
}

/// Wakes everybody who sleeps on a word of the process.
pub(crate) fn wake_process_wide(word: &ProcessWord) {
    // SAFETY: FUTEX_WAKE uses the address as a key only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}

/// Wakes at most `count` threads that wait on `word`; the number woken.
#[cfg(not(loom))]
pub(crate) fn wake(word: &AtomicU32, count: u32) -> u32 {
    wake_address(word, count)
}

/// [`wake`] for a word that may be gone by now, because the thread that waited on it saw the change. Whoever
/// waits at the same address then, for something else, is woken for no reason, as [`wait`] allows.
#[cfg(not(loom))]
pub(crate) fn wake_address(word: *const AtomicU32, count: u32) -> u32 {
    let count = count.min(i32::MAX as u32);
    // SAFETY: FUTEX_WAKE uses the address as a key only.
    let woken = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            count,
        )
    };
    // A negative result would mean an address that is not a word's; a reference is one.
    u32::try_from(woken).unwrap_or(0)
}

#[cfg(not(loom))]
fn last_errno() -> i32 {
    // SAFETY: the pointer is to this thread's errno, which lives as long as the thread.
    unsafe { *libc::__errno_location() }
}

#[cfg(loom)]
pub(crate) use model::{wait, wake, wake_address};

/// The futex in a model: one lock and one condition for all words.
///
/// Like the kernel's, a wake before the wait is lost, so a protocol that relies on more deadlocks in the
/// model. Timeouts never pass.
#[cfg(loom)]
mod model {
    use super::Wait;
    use crate::prim::atomic::{AtomicU32, Ordering};

    loom::lazy_static! {
        static ref SLEEPERS: (loom::sync::Mutex<()>, loom::sync::Condvar) =
            (loom::sync::Mutex::new(()), loom::sync::Condvar::new());
    }

    pub(crate) fn wait(word: &AtomicU32, expected: u32, _timeout_ns: Option<u64>) -> Wait {
        let (lock, condition) = &*SLEEPERS;
        let guard = lock
            .lock()
            .expect("no thread of a model panics while it holds the lock");
        // ordering: SeqCst; the kernel's comparison is a read under the lock of the futex bucket.
        if word.load(Ordering::SeqCst) != expected {
            return Wait::Changed;
        }
        drop(condition.wait(guard));
        Wait::Woken
    }

    pub(crate) fn wake(word: &AtomicU32, count: u32) -> u32 {
        wake_address(word, count)
    }

    pub(crate) fn wake_address(_word: *const AtomicU32, _count: u32) -> u32 {
        let (lock, condition) = &*SLEEPERS;
        let guard = lock
            .lock()
            .expect("no thread of a model panics while it holds the lock");
        condition.notify_all();
        drop(guard);
        1
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::prim::atomic::Ordering;
    use std::sync::Arc;

    #[test]
    fn another_value_does_not_sleep() {
        let word = AtomicU32::new(7);
        assert_eq!(wait(&word, 8, None), Wait::Changed);
    }

    #[test]
    fn a_timeout_passes() {
        let word = AtomicU32::new(7);
        assert_eq!(wait(&word, 7, Some(1_000)), Wait::TimedOut);
        assert_eq!(wake(&word, 1), 0, "nobody waits any more");
    }

    #[test]
    fn a_wake_after_the_change_is_seen() {
        let word = Arc::new(AtomicU32::new(0));
        let waiter = {
            let word = Arc::clone(&word);
            std::thread::spawn(move || {
                // ordering: Acquire; pairs with the Release store below.
                while word.load(Ordering::Acquire) == 0 {
                    wait(&word, 0, None);
                }
            })
        };
        std::thread::yield_now();
        // ordering: Release; pairs with the Acquire load of the waiter.
        word.store(1, Ordering::Release);
        wake(&word, u32::MAX);
        waiter.join().unwrap();
    }
}
