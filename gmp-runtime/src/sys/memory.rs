//! Address space: reservations, guards inside them, and giving pages back.

use super::check;
use crate::prim::process_wide::{AtomicU8, Ordering};
use std::io;
use std::ptr::NonNull;

/// Pages that fault when touched, without a mapping of their own (Linux 6.13; libc has no name for it).
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// A range of address space that is readable and writable, but costs memory only where it is touched.
/// Dropping it unmaps the range.
#[derive(Debug)]
pub(crate) struct Reservation {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the mapping and gives out addresses only; who uses them answers for the accesses.
unsafe impl Send for Reservation {}
// SAFETY: as for Send; no method changes the value through a shared reference.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `len` bytes, rounded up to pages, at an address of the kernel's choice: zeroed, without
    /// huge pages, and not counted as used memory (unless the machine is set to count every reservation).
    ///
    /// # Errors
    ///
    /// The kernel's: no such range is free, or a limit on address space (`ulimit -v`) or strict
    /// overcommit forbids it.
    pub(crate) fn reserve(len: usize) -> io::Result<Reservation> {
        let len = len
            .max(1)
            .checked_next_multiple_of(page_size())
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // SAFETY: a new private mapping at an address of the kernel's choice touches no existing one.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base =
            NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        let reservation = Reservation { base, len };
        reservation.advise(libc::MADV_NOHUGEPAGE);
        Ok(reservation)
    }

    /// The first byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The length in bytes, a multiple of the page size.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Leaves the whole range out of core dumps: a dump looks at every page of a mapping, and a
    /// reservation has a great many that were never touched.
    pub(crate) fn exclude_from_dumps(&self) {
        self.advise(libc::MADV_DONTDUMP);
    }

    /// Brings `len` bytes from `offset` on, both whole pages, into memory at once, which costs less than a fault for
    /// each page. Kernels before Linux 5.14 refuse, and the pages come when they are touched.
    pub(crate) fn populate(&self, offset: usize, len: usize) {
        let len = len.min(self.len - offset);
        let address = self.base.as_ptr().wrapping_add(offset);
        // SAFETY: the part is inside the mapping, which is ours, and what the memory holds stays.
        unsafe { libc::madvise(address.cast(), len, libc::MADV_POPULATE_WRITE) };
    }

    /// Gives advice for the range. Kernels built without the feature refuse, and then there is nothing to
    /// advise against: the result does not matter.
    fn advise(&self, advice: libc::c_int) {
        // SAFETY: the mapping is ours, and the advice given here (huge pages, dumps) does not change what
        // the memory holds.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, advice) };
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody uses it any more, because its owner is being dropped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Takes a part of a range that was left out of core dumps into them again.
pub(crate) fn include_in_dumps(address: NonNull<u8>, len: usize) {
    // SAFETY: the advice changes a mark of the mapping, not what the memory holds; where there is no such
    // mapping the kernel refuses.
    unsafe { libc::madvise(address.as_ptr().cast(), len, libc::MADV_DODUMP) };
}

/// How much address space the process may have (`ulimit -v`), in bytes; `None` without a limit.
pub(crate) fn address_space_limit() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is a local variable.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Whether the machine counts reserved memory as used although nobody touched it (strict overcommit).
pub(crate) fn counts_every_reservation() -> bool {
    std::fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.trim() == "2")
}

/// Whether an error of [`install_guard`] says that the process has as many mappings as it may have.
pub(crate) fn is_out_of_mappings(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOMEM)
}

/// The size of a page in bytes.
pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf reads a constant.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Gives the memory of a range back to the system; whoever touches it next finds zeros.
///
/// # Errors
///
/// `EINVAL` for locked memory (`mlock`), which stays as it is.
///
/// # Safety
///
/// The range consists of whole pages of a private mapping without a file, and nobody needs what it holds, nor
/// touches it meanwhile.
pub(crate) unsafe fn discard(address: NonNull<u8>, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::madvise(address.as_ptr().cast(), len, libc::MADV_DONTNEED) }).map(drop)
}

/// How many pages of a range, which begins at a page, are in memory; `None` where the kernel does not say. A
/// snapshot, and a page that is swapped out is not in memory. `pages` is room for the kernel's answer: what does
/// not fit is not looked at.
pub(crate) fn resident_pages(address: NonNull<u8>, len: usize, pages: &mut [u8]) -> Option<usize> {
    let count = len.div_ceil(page_size()).min(pages.len());
    let len = count * page_size();
    // SAFETY: the answer is one byte a page, and `pages` has so many; the range is only asked about.
    check(unsafe { libc::mincore(address.as_ptr().cast(), len, pages.as_mut_ptr()) }).ok()?;
    Some(
        pages
            .iter()
            .take(count)
            .filter(|&&page| page & 1 != 0)
            .count(),
    )
}

/// Bytes of the process in memory; `None` where `/proc` does not say.
pub(crate) fn resident_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size())
}

/// How a guard was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Markers in the page table: no mapping is split, so there can be any number.
    Marker,
    /// Protection of its own: splits the mapping, and the number of mappings is limited
    /// (`vm.max_map_count`).
    Protection,
}

/// Makes `len` bytes from `address` on fault when touched: by markers where the kernel has them, else (or
/// where it refuses them, as for locked memory) by protection.
///
/// # Errors
///
/// `ENOMEM` when the process has as many mappings as it may have; otherwise what the kernel says.
///
/// # Safety
///
/// The range consists of whole pages of a private mapping, and nobody uses what it holds: the contents
/// are lost.
pub(crate) unsafe fn install_guard(address: NonNull<u8>, len: usize) -> io::Result<Guard> {
    if guard_markers_supported() {
        // SAFETY: the caller's promise.
        if unsafe { libc::madvise(address.as_ptr().cast(), len, MADV_GUARD_INSTALL) } == 0 {
            return Ok(Guard::Marker);
        }
    }
    // SAFETY: the caller's promise.
    check(unsafe { libc::mprotect(address.as_ptr().cast(), len, libc::PROT_NONE) })?;
    Ok(Guard::Protection)
}

/// Whether this kernel has guard markers: tried once, on a page of its own.
pub(crate) fn guard_markers_supported() -> bool {
    const UNTRIED: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(UNTRIED);
    // ordering: Relaxed; the answer publishes nothing else, and two threads that both try agree.
    match ANSWER.load(Ordering::Relaxed) {
        UNTRIED => {
            let supported = Reservation::reserve(1).is_ok_and(|page| {
                // SAFETY: the page is ours, and nothing is stored in it.
                let result = unsafe {
                    libc::madvise(page.base().as_ptr().cast(), page.len(), MADV_GUARD_INSTALL)
                };
                result == 0
            });
            // ordering: Relaxed; as for the load.
            ANSWER.store(if supported { YES } else { NO }, Ordering::Relaxed);
            supported
        }
        answer => answer == YES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the kernel can read a byte there without a fault.
    fn is_readable(address: *const u8) -> bool {
        let mut pipe = [0; 2];
        // SAFETY: `pipe` holds two descriptors; `write` reports a bad address instead of faulting.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let written = libc::write(pipe[1], address.cast(), 1);
            libc::close(pipe[0]);
            libc::close(pipe[1]);
            written == 1
        }
    }

    #[test]
    fn a_reservation_costs_nothing_until_touched() {
        let before = resident_bytes().unwrap();
        let range = Reservation::reserve(16 << 30).unwrap();
        range.exclude_from_dumps();
        include_in_dumps(range.base(), 1 << 20);
        assert_eq!(range.len(), 16 << 30);
        // SAFETY: the last byte lies inside the reservation.
        let value = unsafe {
            let last = range.base().add(range.len() - 1);
            last.write(7);
            last.read()
        };
        assert_eq!(value, 7);
        assert!(
            resident_bytes().unwrap().saturating_sub(before) < 64 << 20,
            "the reservation is resident"
        );
    }

    #[test]
    fn an_impossible_reservation_is_an_error() {
        assert!(Reservation::reserve(usize::MAX).is_err());
        assert!(Reservation::reserve(1 << 60).is_err());
    }

    #[test]
    fn a_guard_stops_accesses_to_itself_alone() {
        let page = page_size();
        let range = Reservation::reserve(8 * page).unwrap();
        let at = |index: usize| range.base().as_ptr().wrapping_add(index * page);
        assert!((0..8).all(|index| is_readable(at(index))));
        // SAFETY: pages 2 and 3 are in the reservation and hold nothing.
        unsafe { install_guard(range.base().add(2 * page), 2 * page) }.unwrap();
        let readable: Vec<bool> = (0..8).map(|index| is_readable(at(index))).collect();
        assert_eq!(readable, [true, true, false, false, true, true, true, true]);
    }

    #[test]
    fn discarded_pages_leave_memory_and_come_back_as_zeros() {
        let page = page_size();
        let range = Reservation::reserve(8 * page).unwrap();
        let mut pages = [0; 8];
        let mut resident =
            |range: &Reservation| resident_pages(range.base(), range.len(), &mut pages).unwrap();
        assert_eq!(resident(&range), 0);
        // SAFETY: the bytes and the pages are inside the reservation.
        unsafe {
            range.base().as_ptr().write_bytes(7, range.len());
            assert_eq!(resident(&range), 8);
            discard(range.base().add(2 * page), 3 * page).unwrap();
            assert_eq!(resident(&range), 5);
            let byte = |index: usize| range.base().add(index * page).read();
            assert_eq!([byte(1), byte(2), byte(4), byte(5)], [7, 0, 0, 7]);
        }
        // What does not fit is not looked at.
        assert_eq!(
            resident_pages(range.base(), range.len(), &mut [0; 2]),
            Some(2)
        );
    }

    #[test]
    fn locked_pages_are_not_discarded() {
        let range = locked_pages();
        // SAFETY: the pages are in the reservation.
        let error = unsafe {
            range.base().write(7);
            discard(range.base(), range.len()).unwrap_err()
        };
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        // SAFETY: as above.
        assert_eq!(unsafe { range.base().read() }, 7);
    }

    /// Two locked pages: the kernel refuses markers there.
    fn locked_pages() -> Reservation {
        let range = Reservation::reserve(2 * page_size()).unwrap();
        // SAFETY: locking does not change what the memory holds.
        let result = unsafe { libc::mlock(range.base().as_ptr().cast(), range.len()) };
        assert_eq!(result, 0);
        range
    }

    #[test]
    fn a_guard_that_cannot_be_a_marker_is_a_protection() {
        let range = locked_pages();
        // SAFETY: the first page is in the reservation and holds nothing.
        let guard = unsafe { install_guard(range.base(), page_size()) }.unwrap();
        assert_eq!(guard, Guard::Protection);
        assert!(!is_readable(range.base().as_ptr()));
        assert!(is_readable(range.base().as_ptr().wrapping_add(page_size())));
    }

    #[test]
    fn running_out_of_mappings_is_recognised() {
        const NAME: &str = "sys::memory::tests::running_out_of_mappings_is_recognised";
        if crate::test_child::requested_case().is_none() {
            let output = crate::test_child::run(NAME, "mappings");
            assert!(output.status.success(), "{output:?}");
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
            return;
        }
        let locked = locked_pages();
        // Every second page of this range becomes a mapping of its own until no more are allowed. A machine
        // that allows more than two million cannot be exhausted here, and the loop says so.
        let page = page_size();
        let range = Reservation::reserve((4 << 20) * page).unwrap();
        let full = (0..2 << 20).find(|index| {
            let address = range.base().as_ptr().wrapping_add(2 * index * page);
            // SAFETY: the page is in the reservation and holds nothing.
            unsafe { libc::mprotect(address.cast(), page, libc::PROT_NONE) != 0 }
        });
        assert!(
            full.is_some(),
            "the machine allows more mappings than this test makes"
        );
        // SAFETY: the first page is in the reservation and holds nothing.
        let error = unsafe { install_guard(locked.base(), page) }.unwrap_err();
        assert!(is_out_of_mappings(&error), "{error}");
    }
}
