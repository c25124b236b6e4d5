#!/usr/bin/env bash
# The runtime's tests with perturbed schedules: choices that the scheduler is free in are made at random
# (sched/fuzz.rs).
#
# Takes some minutes a round. Run it after a change in the scheduler or in what blocks goroutines. Each round has
# a seed, which is printed; a failure is tried again with GMP_SCHED_SEED=that. Tests of an exact order, which
# perturbing is about to change, say so and are left out. Arguments go to cargo test:
#
#     ci/sched-fuzz.sh
#     ROUNDS=10 ci/sched-fuzz.sh --test channels
#     GMP_SCHED_SEED=17 ROUNDS=1 ci/sched-fuzz.sh --test select
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/steps.sh

# Changed flags would rebuild everything, so this has a directory of its own.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/sched-fuzz
export RUSTFLAGS="${RUSTFLAGS:-} --cfg gmp_sched_fuzz"

first=${GMP_SCHED_SEED:-$(date +%s)}
for round in $(seq 1 "${ROUNDS:-3}"); do
    export GMP_SCHED_SEED=$((first + round - 1))
    step "perturbed schedules, seed $GMP_SCHED_SEED" \
        cargo test -p gmp-runtime --no-fail-fast "${@:---tests}"
    require_tests "perturbed schedules, seed $GMP_SCHED_SEED"
done
summary
