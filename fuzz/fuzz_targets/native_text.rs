//! Binary reader against binary → text → binary.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    gmp_fuzz::native_text(data);
});
