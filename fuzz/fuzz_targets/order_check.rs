//! The reader's order against the independent check.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    gmp_fuzz::order_check(data);
});
