//! The range of addresses that all stacks of the process live in, and the arithmetic on it.
//!
//! The range has [`CLASSES`] parts of equal length, one for each stride (64 KiB doubling to 8 MiB), so an
//! address tells its stack with two shifts. Two tables beside it have one entry for every possible stack:
//! the *slot* (the goroutine that runs there) and the link of the pool's free lists. All three cost memory
//! only where they are touched: 8 TiB of addresses for stacks, 1 GiB for slots and 512 MiB for links. The
//! range is halved until the system grants it.

use super::StackError;
use super::guard;
use crate::prim::process_wide::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use crate::sys::memory::{self, Reservation};
use std::num::NonZeroU8;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

/// How many sizes of stacks there are.
pub(crate) const CLASSES: usize = 8;

/// The largest stride.
pub(crate) const LARGEST: usize = stride(CLASSES as u8 - 1);

/// The smallest stride is two to the power of this.
const SMALLEST_STRIDE_SHIFT: u32 = 16;

/// A part of the range is two to the power of this many bytes where address space is plenty.
const PREFERRED_PART_SHIFT: u32 = 40;

/// A part is never smaller than one stack of the largest stride.
const SMALLEST_PART_SHIFT: u32 = SMALLEST_STRIDE_SHIFT + CLASSES as u32 - 1;

/// Stacks enter core dumps in groups of this many: see [`Stack::enter_dumps`].
const DUMP_GROUP: u32 = 64;

/// What the fast path reads, together in one cache line. All zero until [`reserve`].
#[repr(align(64))]
struct Words {
    base: AtomicUsize,
    /// Written last: while it is zero, no address is inside.
    len: AtomicUsize,
    part_shift: AtomicU32,
    slots: AtomicPtr<AtomicPtr<()>>,
    links: AtomicPtr<AtomicU32>,
}

static ARENA: Words = Words {
    base: AtomicUsize::new(0),
    len: AtomicUsize::new(0),
    part_shift: AtomicU32::new(0),
    slots: AtomicPtr::new(null_mut()),
    links: AtomicPtr::new(null_mut()),
};

/// The mappings behind [`ARENA`]: never unmapped.
#[derive(Debug)]
struct Mappings {
    stacks: Reservation,
    slots: Reservation,
    links: Reservation,
    part_shift: u32,
}

/// A stack: whoever has the value may use the memory.
///
/// Its size class and its number within the class say where it is. A value is made by the pool alone and
/// given back to it; dropping one loses the stack until the process ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    /// One more than the class, so that no stack and a stack take the same room.
    class_and_one: NonZeroU8,
    pub(super) index: u32,
}

/// Reserves the range at the first call.
///
/// # Errors
///
/// [`StackError::NoAddressSpace`] when not even the smallest range is granted; every later call says the
/// same.
pub(super) fn reserve() -> Result<(), StackError> {
    static RESERVED: OnceLock<Result<Mappings, StackError>> = OnceLock::new();
    match RESERVED.get_or_init(|| {
        let mappings = largest_mappings(first_part_shift())?;
        publish(&mappings);
        Ok(mappings)
    }) {
        Ok(_) => Ok(()),
        Err(error) => Err(*error),
    }
}

/// The part size to try first: the preferred one, or what leaves at least half of a limited address space
/// to the program.
fn first_part_shift() -> u32 {
    let room = if memory::counts_every_reservation() {
        // Every reserved byte counts as used on the whole machine, so take little.
        1 << 30
    } else {
        match memory::address_space_limit() {
            Some(limit) => limit / 2,
            None => return PREFERRED_PART_SHIFT,
        }
    };
    (room / CLASSES as u64)
        .max(1)
        .ilog2()
        .clamp(SMALLEST_PART_SHIFT, PREFERRED_PART_SHIFT)
}

/// Maps the range and its tables, halving the parts until the system grants all three.
fn largest_mappings(first_part_shift: u32) -> Result<Mappings, StackError> {
    let mut part_shift = first_part_shift;
    loop {
        match map(part_shift) {
            Ok(mappings) => return Ok(mappings),
            Err(_) if part_shift > SMALLEST_PART_SHIFT => part_shift -= 1,
            Err(error) => {
                return Err(StackError::NoAddressSpace(
                    error.raw_os_error().unwrap_or(0),
                ));
            }
        }
    }
}

fn map(part_shift: u32) -> std::io::Result<Mappings> {
    let entries = CLASSES << (part_shift - SMALLEST_STRIDE_SHIFT);
    let stacks = Reservation::reserve(CLASSES << part_shift)?;
    stacks.exclude_from_dumps();
    let slots = Reservation::reserve(entries * size_of::<AtomicPtr<()>>())?;
    let links = Reservation::reserve(entries * size_of::<AtomicU32>())?;
    Ok(Mappings {
        stacks,
        slots,
        links,
        part_shift,
    })
}

fn publish(mappings: &Mappings) {
    // ordering: Relaxed for all but the length, which publishes them: see there.
    ARENA
        .base
        .store(mappings.stacks.base().as_ptr() as usize, Ordering::Relaxed);
    ARENA
        .part_shift
        .store(mappings.part_shift, Ordering::Relaxed);
    ARENA
        .slots
        .store(mappings.slots.base().as_ptr().cast(), Ordering::Relaxed);
    ARENA
        .links
        .store(mappings.links.base().as_ptr().cast(), Ordering::Relaxed);
    // ordering: Release; pairs with the Acquire load in `locate`.
    ARENA.len.store(mappings.stacks.len(), Ordering::Release);
}

/// The size class and number of the stack that `address` is inside of (its guard and its colour included).
#[inline(always)]
fn locate(address: usize) -> Option<(usize, usize)> {
    // ordering: Acquire; pairs with the Release store in `publish`: the words below are those of the range.
    let len = ARENA.len.load(Ordering::Acquire);
    // ordering: Relaxed here and below; ordered by the load above, and never changed after.
    let offset = address.wrapping_sub(ARENA.base.load(Ordering::Relaxed));
    if offset >= len {
        return None;
    }
    let part_shift = ARENA.part_shift.load(Ordering::Relaxed);
    let class = offset >> part_shift;
    let within = offset & ((1 << part_shift) - 1);
    Some((class, within >> (SMALLEST_STRIDE_SHIFT as usize + class)))
}

/// The number of the entry of a stack in the tables: each class has room for as many as the first, so that
/// no table of starts is needed.
#[inline(always)]
fn entry(class: usize, index: usize) -> usize {
    // ordering: Relaxed; whoever names a stack has seen the range published.
    let part_shift = ARENA.part_shift.load(Ordering::Relaxed);
    (class << (part_shift - SMALLEST_STRIDE_SHIFT)) + index
}

/// The slot of the stack that the stack pointer `sp` is inside of: which goroutine runs there. `None` on a
/// stack that is not ours (a thread's own, or one that other code made).
#[inline(always)]
pub(crate) fn slot_of(sp: usize) -> Option<&'static AtomicPtr<()>> {
    let (class, index) = locate(sp)?;
    Some(slot_at(class, index))
}

#[inline(always)]
fn slot_at(class: usize, index: usize) -> &'static AtomicPtr<()> {
    // ordering: Relaxed; as in `entry`.
    let slots = ARENA.slots.load(Ordering::Relaxed);
    // SAFETY: class and index are those of a stack inside the range, so the entry is inside the table, which
    // is zeroed memory (a null pointer is a valid value) and is never unmapped.
    unsafe { &*slots.add(entry(class, index)) }
}

/// The link of a stack in the pool's free lists.
pub(super) fn link_of(class: u8, index: u32) -> &'static AtomicU32 {
    // ordering: Relaxed; as in `entry`.
    let links = ARENA.links.load(Ordering::Relaxed);
    // SAFETY: as in `slot_at`, for the table of links.
    unsafe { &*links.add(entry(usize::from(class), index as usize)) }
}

/// The stack that `address` is inside of, for reports about it. Whoever uses the value as a stack needs to
/// own it.
pub(crate) fn stack_at(address: usize) -> Option<Stack> {
    let (class, index) = locate(address)?;
    Some(Stack::new(
        u8::try_from(class).ok()?,
        u32::try_from(index).ok()?,
    ))
}

/// The smallest size class whose stride is at least `size` bytes, and of which the guard takes no more
/// than a quarter (where pages are large, the small classes are not used); `None` above 8 MiB.
pub(crate) fn class_for(size: usize) -> Option<u8> {
    (0..CLASSES as u8)
        .find(|&class| stride(class) >= size && guard::size(class) <= stride(class) / 4)
}

/// Bytes of address space of one stack of a class.
pub(crate) const fn stride(class: u8) -> usize {
    1 << (SMALLEST_STRIDE_SHIFT + class as u32)
}

/// How many stacks of a class the range has room for.
pub(super) fn capacity(class: u8) -> u32 {
    // ordering: Relaxed; as in `entry`.
    let part_shift = ARENA.part_shift.load(Ordering::Relaxed);
    1 << (part_shift - SMALLEST_STRIDE_SHIFT - u32::from(class))
}

impl Stack {
    #[inline(always)]
    pub(super) fn new(class: u8, index: u32) -> Stack {
        Stack {
            class_and_one: NonZeroU8::MIN.saturating_add(class),
            index,
        }
    }

    /// The lowest address of the stack's piece: where its guard starts.
    #[inline]
    fn low(&self) -> usize {
        // ordering: Relaxed; as in `entry`.
        let part_shift = ARENA.part_shift.load(Ordering::Relaxed);
        ARENA.base.load(Ordering::Relaxed)
            + (usize::from(self.class()) << part_shift)
            + self.index as usize * stride(self.class())
    }

    /// Where the stack pointer starts: a multiple of 64, and different enough for neighbours that their
    /// first frames do not compete for the same cache sets.
    #[inline]
    pub(crate) fn top(&self) -> usize {
        self.low() + stride(self.class()) - (self.index as usize & 31) * 64
    }

    /// The lowest address that may be used: the end of the guard.
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        self.low() + guard::size(self.class())
    }

    /// Usable bytes.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.top() - self.limit()
    }

    /// The size class.
    #[inline]
    pub(crate) fn class(&self) -> u8 {
        self.class_and_one.get() - 1
    }

    /// Which goroutine runs here: what [`slot_of`] finds for an address of this stack.
    #[inline]
    pub(crate) fn slot(&self) -> &'static AtomicPtr<()> {
        slot_at(usize::from(self.class()), self.index as usize)
    }

    /// Whether `address` is inside the guard.
    #[inline]
    pub(crate) fn guard_contains(&self, address: usize) -> bool {
        (self.low()..self.limit()).contains(&address)
    }

    /// The pages between the guard and `in_use`, an address inside the stack: their first address and bytes.
    /// `None` when there is none.
    pub(super) fn pages_below(&self, in_use: usize) -> Option<(NonNull<u8>, usize)> {
        let limit = self.limit();
        let end = in_use & !(memory::page_size() - 1);
        let len = end.checked_sub(limit).filter(|&len| len > 0)?;
        Some((NonNull::new(limit as *mut u8)?, len))
    }

    /// All pages but the guard's: their first address and bytes.
    pub(super) fn all_pages(&self) -> (NonNull<u8>, usize) {
        let guard = guard::size(self.class());
        let start = self.guard_start().as_ptr().wrapping_add(guard);
        // As in `guard_start`.
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        (start, stride(self.class()) - guard)
    }

    /// Where the guard starts.
    pub(super) fn guard_start(&self) -> NonNull<u8> {
        // A stack lies inside the reservation, and that is not at zero.
        NonNull::new(self.low() as *mut u8).unwrap_or(NonNull::dangling())
    }

    /// Takes the stack into core dumps. A dump looks at every page of a mapping, and the range has two
    /// thousand million of them, so it is left out and only the used front of each part comes in; by
    /// groups, since that is a system call.
    pub(super) fn enter_dumps(&self) {
        if self.index.is_multiple_of(DUMP_GROUP) {
            let group = (capacity(self.class()) - self.index).min(DUMP_GROUP) as usize;
            memory::include_in_dumps(self.guard_start(), group * stride(self.class()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_up_to_a_stride() {
        assert_eq!(class_for(0), Some(0));
        assert_eq!(class_for(64 << 10), Some(0));
        assert_eq!(class_for((64 << 10) + 1), Some(1));
        assert_eq!(class_for(256 << 10), Some(2));
        assert_eq!(class_for(8 << 20), Some(7));
        assert_eq!(class_for((8 << 20) + 1), None);
    }

    #[test]
    fn every_address_of_a_stack_finds_its_slot_and_no_other() {
        reserve().unwrap();
        let mut checked = 0;
        for class in 0..CLASSES as u8 {
            for index in [0, 1, 31, 32, capacity(class) - 1] {
                let stack = Stack::new(class, index);
                let (low, end) = (stack.low(), stack.low() + stride(class));
                for address in [low, stack.limit(), stack.top() - 1, end - 1] {
                    assert!(std::ptr::eq(slot_of(address).unwrap(), stack.slot()));
                    assert_eq!(stack_at(address).as_ref(), Some(&stack));
                    checked += 1;
                }
                assert_ne!(stack_at(low.wrapping_sub(1)).as_ref(), Some(&stack));
                assert_ne!(stack_at(end).as_ref(), Some(&stack));
            }
        }
        assert_eq!(checked, CLASSES * 5 * 4);
    }

    #[test]
    fn slots_of_different_stacks_are_different() {
        reserve().unwrap();
        let mut slots = std::collections::HashSet::new();
        for class in 0..CLASSES as u8 {
            for index in [0, 1, 2, capacity(class) - 1] {
                slots.insert(Stack::new(class, index).slot() as *const _ as usize);
                slots.insert(link_of(class, index) as *const _ as usize);
            }
        }
        assert_eq!(slots.len(), CLASSES * 4 * 2);
    }

    #[test]
    fn tops_are_aligned_and_coloured() {
        reserve().unwrap();
        let tops: std::collections::HashSet<usize> = (0..64)
            .map(|index| {
                let stack = Stack::new(2, index);
                assert_eq!(stack.top() % 16, 0);
                assert!(stack.size() >= stride(2) - guard::size(2) - 31 * 64);
                stack.top() % 4096
            })
            .collect();
        assert_eq!(tops.len(), 32);
    }

    #[test]
    fn addresses_outside_have_no_slot() {
        reserve().unwrap();
        let local = 0_u8;
        assert!(
            slot_of(&raw const local as usize).is_none(),
            "a thread's own stack"
        );
        assert!(slot_of(0).is_none());
        assert!(slot_of(usize::MAX).is_none());
        let base = Stack::new(0, 0).low();
        assert!(slot_of(base - 1).is_none());
    }

    #[test]
    fn a_refused_range_is_halved() {
        // More than any machine grants (the upper half of the addresses is the kernel's).
        let mappings = largest_mappings(50).unwrap();
        assert!(mappings.part_shift < 50);
        assert_eq!(mappings.stacks.len(), CLASSES << mappings.part_shift);
    }

    #[test]
    fn a_limited_address_space_gives_a_smaller_range() {
        const NAME: &str = "stack::arena::tests::a_limited_address_space_gives_a_smaller_range";
        if crate::test_child::requested_case().is_none() {
            let output = crate::test_child::run(NAME, "limit");
            assert!(output.status.success(), "{output:?}");
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
            return;
        }
        let bytes = 2 << 30;
        let limit = libc::rlimit {
            rlim_cur: bytes,
            rlim_max: bytes,
        };
        // SAFETY: `limit` is a local variable.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        reserve().unwrap();
        // ordering: Relaxed; the same thread wrote it.
        let len = ARENA.len.load(Ordering::Relaxed) as u64;
        assert!((bytes / 8..=bytes / 2).contains(&len), "{len}");
        let stack = crate::stack::StackPool::global().unwrap().take(2).unwrap();
        // SAFETY: the stack is ours.
        unsafe { (stack.limit() as *mut u8).write(1) };
    }
}
