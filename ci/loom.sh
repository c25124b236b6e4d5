#!/usr/bin/env bash
# Model checking: loom runs the lock-free parts of the runtime through the interleavings and the
# reorderings of memory that their orderings allow.
#
# Takes about three minutes on one core. Run it after a change in a protocol that has a model (the files
# *_tests.rs beside it), or in an ordering anywhere. LOOM_MAX_PREEMPTIONS (default 3) bounds how often a thread is interrupted in one
# execution; each step up costs about ten times the time. Arguments are names of models to run alone:
#
#     ci/loom.sh
#     LOOM_MAX_PREEMPTIONS=4 ci/loom.sh loom_two_ms
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/steps.sh

# Changed flags would rebuild everything, so models have a directory of their own.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom
export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}

# All names of models begin with loom_; the summary's count of tests is the number of models that ran.
step "models, $LOOM_MAX_PREEMPTIONS preemptions" \
    cargo test --release -p gmp-runtime --lib -- "${@:-loom_}"
require_tests "models, $LOOM_MAX_PREEMPTIONS preemptions"
printf '\nmodels that ran: %s\n' "${step_tests[-1]}"

summary
