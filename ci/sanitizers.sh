#!/usr/bin/env bash
# AddressSanitizer and ThreadSanitizer over the runtime's tests.
#
# Takes ten minutes. Run it after a change in how goroutines, stacks or waiters are kept in memory, or in what
# threads do side by side. Needs an x86-64 Linux; sanitizers are unstable flags, which RUSTC_BOOTSTRAP=1 lets the
# project's own toolchain take. Arguments are which of the two, and what goes to cargo test:
#
#     ci/sanitizers.sh
#     ci/sanitizers.sh address --test shutdown
#     ci/sanitizers.sh thread --test channels
#
# AddressSanitizer: frames on stacks are not watched, because a goroutine leaves its last frames without returning
# from them, so the next one on that stack would find them marked. Heap and mapped memory are watched; the
# sanitizer's handler for SIGSEGV stays out of the way of the overflow report.
#
# ThreadSanitizer is told of goroutines' stacks and of switches (switch/fiber.rs). It delivers signals later than
# they come, so goroutines are preempted only in calls; and it has a thread of its own, which might wake goroutines,
# so deadlocks are not found.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/steps.sh

target=$(rustc -vV | sed -n 's/^host: //p')
# Changed flags would rebuild everything, so each has a directory of its own.
targets=${CARGO_TARGET_DIR:-target}
flags=${RUSTFLAGS:-}
export RUSTC_BOOTSTRAP=1

# The programs that both follow.
programs=(--test joining --test fairness --test channels --test select --test parking --test sleeping --test timers
    --test wakeups --test shutdown --test sync_locks --test sync_meeting --test sync_ending --test system_calls
    --test locked_threads --test net --test net_waiting --test net_runtime)
# Of the modules' tests these are left out: they limit the address space or the number of mappings, of which a sanitizer
# itself needs much, overflow a stack whose frames are larger with it, or lock pages, which it does not let them.
modules=(--lib -- --skip overflow_tests --skip a_limited_address_space --skip a_guard_that_cannot_be_a_marker
    --skip running_out_of_mappings --skip locked_pages)

# With --target the flags are for the crate and not for build scripts.
run() {
    step "$1" cargo test -p gmp-runtime --target "$target" --no-fail-fast "${@:2}"
    require_tests "$1"
}

address() {
    export CARGO_TARGET_DIR=$targets/asan
    export RUSTFLAGS="$flags -Zsanitizer=address -Cllvm-args=-asan-stack=0"
    export ASAN_OPTIONS="detect_stack_use_after_return=0:detect_leaks=0:handle_segv=0:allow_user_segv_handler=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
    if [ $# -gt 0 ]; then
        run "AddressSanitizer, as asked" "$@"
        return
    fi
    run "AddressSanitizer, programs" "${programs[@]}" --test preemption --test preemption_signals --test tracing
    run "AddressSanitizer, modules" "${modules[@]}"
}

thread() {
    export CARGO_TARGET_DIR=$targets/tsan
    export RUSTFLAGS="$flags -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg gmp_tsan"
    export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.txt${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
    export GMPDEBUG=asyncpreemptoff=1
    # Locks of std are not instrumented: those for what prints backtraces, keeps what a test prints, or is there once for
    # the tests that would run side by side.
    export RUST_BACKTRACE=0 RUST_TEST_NOCAPTURE=1 RUST_TEST_THREADS=1
    if [ $# -gt 0 ]; then
        run "ThreadSanitizer, as asked" "$@"
        return
    fi
    # Those that are skipped look at the threads of the process, the sanitizer's among them, need the signal, or make
    # more goroutines than the sanitizer can know.
    run "ThreadSanitizer, programs" "${programs[@]}" --test exits --test context --test metrics \
        -- --skip no_thread_and_no_mapping_is_left --skip an_idle_process_does_nothing \
        --skip who_is_waited_for --skip a_hundred_thousand
    # A goroutine is larger by what the sanitizer knows it as.
    run "ThreadSanitizer, modules" "${modules[@]}" --skip a_goroutine_takes_few_cache_lines
}

case ${1:-both} in
both)
    # Each sets its own environment.
    ci/sanitizers.sh address
    exec ci/sanitizers.sh thread
    ;;
address | thread) "$@" ;;
*)
    echo "ci/sanitizers.sh: expected address or thread, found $1" >&2
    exit 2
    ;;
esac
summary
