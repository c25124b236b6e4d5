//! Whether a stack can be unwound, before anybody tries.
//!
//! A panic that comes to a function which nothing may unwind through (`extern "C"`, a C++ `noexcept`, code without
//! unwind tables) ends the process. [`can_unwind_to`] asks the tables that would be asked then, frame by frame, and
//! changes nothing.
//!
//! The tables are those of the Itanium C++ ABI's exception handling, which compilers for Rust, C and C++ write, and
//! whose reader in std (`sys/personality/gcc.rs`, `dwarf/eh.rs`) decides what becomes of a panic: a *call site* that
//! is not in the table, or whose action is a *filter*, is one where it ends.
//!
//! # Names
//!
//! Tables do not tell of one case: an `extern "C"` function of Rust that has a destructor to run first. Whoever calls
//! such a function is mostly C, and C is known by its names ([`super::foreign`]).

use std::ffi::{c_int, c_void};

use super::foreign;

/// An unwinder's view of a frame.
#[repr(C)]
struct Frame {
    _opaque: [u8; 0],
}

const GO_ON: c_int = 0;
const STOP: c_int = 5;

// May unwind, as far as the compiler knows: so the calls of this file and those that lead to it are in the tables as
// those of a panic are.
unsafe extern "C-unwind" {
    fn _Unwind_Backtrace(
        look: extern "C" fn(frame: *mut Frame, search: *mut c_void) -> c_int,
        search: *mut c_void,
    ) -> c_int;
}

unsafe extern "C" {
    fn _Unwind_GetIPInfo(frame: *mut Frame, before: *mut c_int) -> usize;
    fn _Unwind_GetRegionStart(frame: *mut Frame) -> usize;
    fn _Unwind_GetLanguageSpecificData(frame: *mut Frame) -> *const u8;
}

struct Search {
    last: usize,
    can: bool,
}

/// Reads what [`can_unwind_to`] needs, which takes milliseconds and some stack the first time.
pub(crate) fn prepare() {
    foreign::is_foreign(prepare as *const () as usize);
}

/// Whether a panic of the caller would get through every frame up to that of the function that begins at `last`,
/// should nobody catch it. One through code of another language counts as one that would not.
#[inline(never)]
pub(crate) fn can_unwind_to(last: usize) -> bool {
    let mut search = Search { last, can: false };
    // SAFETY: the function is given frames of this thread while it runs, and the search, which outlives the call.
    unsafe { _Unwind_Backtrace(look, (&raw mut search).cast()) };
    search.can
}

extern "C" fn look(frame: *mut Frame, search: *mut c_void) -> c_int {
    // SAFETY: it is the search of `can_unwind_to`.
    let search = unsafe { &mut *search.cast::<Search>() };
    // SAFETY: the frame is there while this runs.
    let (function, address, table) = unsafe {
        let mut before = 0;
        let address = _Unwind_GetIPInfo(frame, &raw mut before);
        (
            _Unwind_GetRegionStart(frame),
            // A call returns behind itself, perhaps where another call site begins.
            address.saturating_sub(usize::from(before == 0)),
            _Unwind_GetLanguageSpecificData(frame),
        )
    };
    if function == search.last {
        search.can = true;
        return STOP;
    }
    if foreign::is_foreign(address) {
        return STOP;
    }
    // SAFETY: the table is that of the function.
    let lets_through =
        table.is_null() || unsafe { Table(table).lets_through(address.wrapping_sub(function)) };
    if lets_through { GO_ON } else { STOP }
}

/// A place in a function's table of call sites.
struct Table(*const u8);

/// An encoding that says that there is nothing.
const OMIT: u8 = 0xff;

impl Table {
    /// Whether a panic gets through the call at `offset` of the function. What is not understood lets nothing through.
    ///
    /// # Safety
    /// It is at the beginning of a table of that function.
    unsafe fn lets_through(mut self, offset: usize) -> bool {
        // SAFETY: the table has what its encodings say.
        unsafe {
            // Landing pads that are counted from elsewhere than the function's beginning: no compiler writes them.
            if self.byte() != OMIT {
                return false;
            }
            if self.byte() != OMIT {
                self.uleb128();
            }
            let encoding = self.byte();
            let length = self.uleb128();
            let actions = self.0.wrapping_add(length);
            while self.0 < actions {
                let (Some(begin), Some(length), Some(pad)) = (
                    self.number(encoding),
                    self.number(encoding),
                    self.number(encoding),
                ) else {
                    return false;
                };
                let action = self.uleb128();
                if offset < begin {
                    break;
                }
                if offset < begin + length {
                    return pad == 0
                        || action == 0
                        // A negative one is a filter, zero a destructor, and others catch.
                        || Table(actions.wrapping_add(action - 1)).sleb128() >= 0;
                }
            }
            false
        }
    }

    /// # Safety
    /// There is a byte.
    unsafe fn byte(&mut self) -> u8 {
        // SAFETY: the caller's contract.
        let byte = unsafe { *self.0 };
        self.0 = self.0.wrapping_add(1);
        byte
    }

    /// A number of this encoding.
    ///
    /// # Safety
    /// There is one.
    unsafe fn number(&mut self, encoding: u8) -> Option<usize> {
        // SAFETY: the caller's contract.
        unsafe {
            match encoding {
                0x01 => Some(self.uleb128()),
                0x02 => Some(self.little_endian(2)),
                0x03 => Some(self.little_endian(4)),
                0x00 | 0x04 => Some(self.little_endian(8)),
                _ => None,
            }
        }
    }

    /// # Safety
    /// There are so many bytes.
    unsafe fn little_endian(&mut self, bytes: u32) -> usize {
        // SAFETY: the caller's contract.
        (0..bytes).fold(0, |value, index| unsafe {
            value | usize::from(self.byte()) << (8 * index)
        })
    }

    /// # Safety
    /// There is one.
    unsafe fn uleb128(&mut self) -> usize {
        // SAFETY: the caller's contract.
        unsafe { self.leb128().0 }
    }

    /// # Safety
    /// There is one.
    unsafe fn sleb128(mut self) -> isize {
        // SAFETY: the caller's contract.
        let (value, bits, last) = unsafe { self.leb128() };
        let is_negative = last & 0x40 != 0 && bits < usize::BITS;
        (value | if is_negative { usize::MAX << bits } else { 0 }) as isize
    }

    /// The value without a sign, how many bits it has, and its last byte.
    ///
    /// # Safety
    /// There is one.
    unsafe fn leb128(&mut self) -> (usize, u32, u8) {
        let (mut value, mut bits) = (0, 0);
        loop {
            // SAFETY: the caller's contract.
            let byte = unsafe { self.byte() };
            if bits < usize::BITS {
                value |= usize::from(byte & 0x7f) << bits;
            }
            bits += 7;
            if byte & 0x80 == 0 {
                return (value, bits, byte);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::panic::{self, AssertUnwindSafe};

    /// The last frame: a function whose calls are through a pointer, so that it stays one.
    #[inline(never)]
    fn last(step: fn() -> bool) -> bool {
        black_box(black_box(step)())
    }

    fn can() -> bool {
        black_box(can_unwind_to(last as *const () as usize))
    }

    struct Loud;

    impl Drop for Loud {
        fn drop(&mut self) {
            black_box(&self);
        }
    }

    #[inline(never)]
    fn with_a_destructor(step: fn() -> bool) -> bool {
        let _loud = Loud;
        black_box(black_box(step)())
    }

    #[inline(never)]
    fn that_catches(step: fn() -> bool) -> bool {
        black_box(panic::catch_unwind(AssertUnwindSafe(step)).unwrap_or(false))
    }

    #[expect(improper_ctypes_definitions, reason = "only Rust calls it")]
    #[inline(never)]
    extern "C" fn that_stops(step: fn() -> bool) -> bool {
        black_box(black_box(step)())
    }

    #[expect(improper_ctypes_definitions, reason = "only Rust calls it")]
    #[inline(never)]
    extern "C-unwind" fn that_lets_through(step: fn() -> bool) -> bool {
        black_box(black_box(step)())
    }

    #[test]
    fn frames_are_told_apart() {
        assert!(last(can));
        assert!(last(|| with_a_destructor(can)));
        assert!(last(|| that_catches(can)));
        assert!(last(|| that_lets_through(can)));
        assert!(!last(|| that_stops(can)));
        assert!(!last(|| that_stops(|| with_a_destructor(can))));
        assert!(!last(|| with_a_destructor(|| that_stops(can))));
        // Whoever catches goes on, and comes to the next frame some time.
        assert!(!last(|| that_stops(|| that_catches(can))));
        assert!(!can(), "the last frame is not there");
    }

    #[test]
    fn numbers_are_read() {
        let read = |bytes: &[u8]| {
            // SAFETY: the bytes hold a number.
            unsafe {
                (
                    Table(bytes.as_ptr()).uleb128(),
                    Table(bytes.as_ptr()).sleb128(),
                )
            }
        };
        assert_eq!(read(&[0x02]), (2, 2));
        assert_eq!(read(&[0x7f]), (127, -1));
        assert_eq!(read(&[0xe5, 0x8e, 0x26]), (624_485, 624_485));
        assert_eq!(read(&[0x80, 0x7f]), (0x3f80, -128));
    }
}
