#!/usr/bin/env bash
# All tests of the project: the command of the README, and a step of .ci/run.
#
# Runs the tests of every crate, the tests of the runtime once more on the portable switch, and
# compiles the combinations of features that the workspace build does not reach. Needs a Rust
# toolchain and the crates, nothing else. Run it before every push.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/steps.sh

# A second configuration keeps its own directory: changed flags would rebuild everything twice.
target=${CARGO_TARGET_DIR:-target}

# Arguments: a directory name, then a `--cfg` name, then what cargo is to do.
cargo_with_cfg() {
    local directory=$1 cfg=$2
    shift 2
    CARGO_TARGET_DIR="$target/$directory" RUSTFLAGS="${RUSTFLAGS:-} --cfg $cfg" cargo "$@"
}

step "tests" cargo test --workspace --no-fail-fast
require_tests "tests"

step "tests, every feature of trace" cargo test -p gmp-trace --all-features --no-fail-fast
require_tests "tests, every feature of trace"

step "tests, portable switch" \
    cargo_with_cfg portable gmp_portable_switch test -p gmp-runtime --no-fail-fast
require_tests "tests, portable switch"

# Only programs without the test harness can be built so.
tests_that_abort() {
    CARGO_TARGET_DIR="$target/abort" RUSTFLAGS="${RUSTFLAGS:-} -C panic=abort" \
        cargo test -p gmp-runtime --test abort
}
step "tests, panics abort" tests_that_abort
require_tests "tests, panics abort"

step "tests, SQL" cargo test -p gmp-analyze --features tables --lib --test query --no-fail-fast
require_tests "tests, SQL"

step "features: trace, writer alone" cargo check -p gmp-trace --no-default-features --features write
step "features: trace, reader alone" cargo check -p gmp-trace --no-default-features --features read
step "features: trace, nothing" cargo check -p gmp-trace --no-default-features
step "features: runtime without trace" cargo check -p gmp-runtime --no-default-features
step "features: bench without tracer" cargo check -p gmp-bench --no-default-features

summary
