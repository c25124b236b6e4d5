#!/usr/bin/env bash
# AddressSanitizer over the runtime's tests.
#
# Takes some minutes. Run it after a change in how goroutines, stacks or waiters are kept in memory.
# Needs an x86-64 Linux; sanitizers are unstable flags, which RUSTC_BOOTSTRAP=1 lets the project's own
# toolchain take. Arguments go to cargo test:
#
#     ci/sanitizers.sh
#     ci/sanitizers.sh --test shutdown
#
# Frames on stacks are not watched: a goroutine leaves its last frames without returning from them, so the next
# one on that stack would find them marked. Heap and mapped memory are watched; the sanitizer's handler for
# SIGSEGV stays out of the way of the overflow report.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/steps.sh

target=$(rustc -vV | sed -n 's/^host: //p')
# Changed flags would rebuild everything, so this has a directory of its own.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/asan
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="${RUSTFLAGS:-} -Zsanitizer=address -Cllvm-args=-asan-stack=0"
export ASAN_OPTIONS="detect_stack_use_after_return=0:detect_leaks=0:handle_segv=0:allow_user_segv_handler=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"

# With --target the flags are for the crate and not for build scripts.
run() {
    step "AddressSanitizer, $1" cargo test -p gmp-runtime --target "$target" --no-fail-fast "${@:2}"
    require_tests "AddressSanitizer, $1"
}

if [ $# -gt 0 ]; then
    run "as asked" "$@"
else
    run "programs" --test joining --test fairness --test channels --test select --test parking \
        --test sleeping --test wakeups --test shutdown
    # These limit the address space or the number of mappings, of which the sanitizer itself needs much, or
    # overflow a stack whose frames are larger with it.
    run "modules" --lib -- --skip overflow_tests --skip a_limited_address_space \
        --skip a_guard_that_cannot_be_a_marker --skip running_out_of_mappings
fi
summary
