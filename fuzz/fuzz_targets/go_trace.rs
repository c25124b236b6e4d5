//! Go's formats: stream against file, strict against tolerant.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    gmp_fuzz::go_trace(data);
});
