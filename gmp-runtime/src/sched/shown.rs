//! Words that one thread at a time writes and dumps read meanwhile.
//!
//! A dump does not stop the goroutines that it looks at. What it reads of them is therefore atomic, one
//! word each, without any order: a dump that must not mix the words of two waits reads them twice.

use std::fmt;
use std::panic::Location;

use crate::prim::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::sched::g::{Wait, WaitReason};

/// A number.
#[derive(Debug)]
pub(crate) struct ShownNumber(AtomicU64);

impl ShownNumber {
    pub(crate) fn new(value: u64) -> ShownNumber {
        ShownNumber(AtomicU64::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        // ordering: Relaxed: the owner reads its own value, others a snapshot.
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        // ordering: Relaxed, as in `get`.
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Yes or no.
#[derive(Debug)]
pub(crate) struct ShownFlag(AtomicBool);

impl ShownFlag {
    pub(crate) fn new(value: bool) -> ShownFlag {
        ShownFlag(AtomicBool::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> bool {
        // ordering: Relaxed: as for numbers.
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: bool) {
        // ordering: Relaxed: as for numbers.
        self.0.store(value, Ordering::Relaxed);
    }

    /// Sets it; what it was.
    #[inline(always)]
    pub(crate) fn replace(&self, value: bool) -> bool {
        let before = self.get();
        self.set(value);
        before
    }
}

/// A reference to something that is never freed, or none.
pub(crate) struct ShownRef<T: 'static>(AtomicPtr<T>);

impl<T> ShownRef<T> {
    pub(crate) fn none() -> ShownRef<T> {
        ShownRef(AtomicPtr::new(std::ptr::null_mut()))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // ordering: Relaxed: what it refers to is constant for the life of the process.
        let pointer = self.0.load(Ordering::Relaxed);
        // SAFETY: null, or from the reference in `set`.
        unsafe { pointer.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: Option<&'static T>) {
        let pointer = value.map_or(std::ptr::null_mut(), |value| {
            std::ptr::from_ref(value).cast_mut()
        });
        // ordering: Relaxed, as in `get`.
        self.0.store(pointer, Ordering::Relaxed);
    }
}

impl<T> fmt::Debug for ShownRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShownRef")
            .field(&self.get().is_some())
            .finish()
    }
}

/// What a goroutine waits for, and since when.
#[derive(Debug)]
pub(crate) struct ShownWait {
    /// The time in nanoseconds, its last byte replaced by the number of the reason; zero while it waits
    /// for nothing.
    since_and_reason: AtomicU64,
    object: ShownNumber,
    site: ShownRef<Location<'static>>,
}

/// The bits of [`ShownWait::since_and_reason`] that hold the reason.
const REASON_BITS: u64 = 0xff;

impl ShownWait {
    pub(crate) fn nothing() -> ShownWait {
        ShownWait {
            since_and_reason: AtomicU64::new(0),
            object: ShownNumber::new(0),
            site: ShownRef::none(),
        }
    }

    /// It begins to wait. `now` is what the scheduler's [coarse clock](crate::sched::clock) says.
    #[inline(always)]
    pub(crate) fn begin(&self, wait: Wait, now: u64) {
        self.object.set(wait.object);
        self.site.set(Some(wait.site));
        let word = now & !REASON_BITS | wait.reason as u64;
        // ordering: Relaxed: a snapshot for others.
        self.since_and_reason.store(word, Ordering::Relaxed);
    }

    /// It waits no longer.
    #[inline(always)]
    pub(crate) fn end(&self) {
        // ordering: Relaxed: a snapshot for others.
        self.since_and_reason.store(0, Ordering::Relaxed);
    }

    /// What it waits for. For the owner, and for whoever lets nobody change it.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<Wait> {
        Some(Wait {
            reason: WaitReason::from_number((self.word() & REASON_BITS) as u8)?,
            object: self.object.get(),
            site: self.site.get()?,
        })
    }

    /// What it waits for and since when, in nanoseconds of the monotonic clock, while others may change it.
    pub(crate) fn look(&self) -> Option<(Wait, u64)> {
        const TRIES: u32 = 16;
        for _ in 0..TRIES {
            let word = self.word();
            let wait = self.get()?;
            let again = self.get()?;
            if self.word() == word && again.object == wait.object && again.site == wait.site {
                return Some((wait, word & !REASON_BITS));
            }
        }
        None
    }

    #[inline(always)]
    fn word(&self) -> u64 {
        // ordering: Relaxed: the owner reads its own value, others a snapshot.
        self.since_and_reason.load(Ordering::Relaxed)
    }
}
