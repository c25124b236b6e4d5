#!/usr/bin/env bash
# Fuzzing with coverage: every target in turn, a slice at a time, until they have had so many seconds of
# processor time together (default 3600).
#
# Needs a C++ compiler for the fuzzing library; the flags are those of cargo-fuzz, which is not needed. What
# new inputs reach is kept in fuzz/corpus, minimised, unless KEEP=0. Names of targets run those alone:
#
#     ci/fuzz.sh
#     nice -n 19 ci/fuzz.sh 600 go_trace
#
# A crash, a hang of more than ten seconds, or memory above a limit ends the script with the name of the input.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/steps.sh

wanted=${1:-3600}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(go_trace native_text order_check)
slice=60
host=$(rustc -vV | sed -n 's/^host: //p')
# Changed flags would rebuild everything, so this has a directory of its own.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/fuzz-coverage
sancov=-Cllvm-args=-sanitizer-coverage
coverage="-Cpasses=sancov-module $sancov-level=4 $sancov-inline-8bit-counters $sancov-pc-table $sancov-trace-compares"
export RUSTFLAGS="${RUSTFLAGS:-} $coverage -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1 --cfg fuzzing"
work=$CARGO_TARGET_DIR/inputs
programs=$CARGO_TARGET_DIR/$host/release

build() {
    # With --target the flags are for the crates and not for build scripts.
    cargo build --manifest-path fuzz/Cargo.toml --release --target "$host" "${targets[@]/#/--bin=}"
}

# Runs a slice of a target; what it found is in its folder, for the next one.
run_slice() {
    local target=$1 found=$work/$1 log=$work/$1.log
    mkdir -p "$found" "$work/bad"
    {
        time "$programs/$target" "$found" "fuzz/corpus/$target" -max_total_time=$slice -timeout=10 \
            -rss_limit_mb=256 -malloc_limit_mb=64 -artifact_prefix="$work/bad/$target-" \
            -print_final_stats=1 >"$log" 2>&1
    } 2>"$work/time" || {
        tail -n 40 "$log"
        return 1
    }
    runs[$target]=$((runs[$target] + $(sed -n 's/^stat::number_of_executed_units: *//p' "$log")))
    spent=$((spent + $(awk '{ print int(1000 * ($1 + $2)) }' "$work/time")))
}

fuzz() {
    local target spent=0 TIMEFORMAT='%U %S'
    for target in "${targets[@]}"; do runs[$target]=0; done
    while [ "$spent" -lt $((wanted * 1000)) ]; do
        for target in "${targets[@]}"; do run_slice "$target"; done
        printf '%s s of processor time' $((spent / 1000))
        for target in "${targets[@]}"; do printf ', %s: %s runs' "$target" "${runs[$target]}"; done
        printf '\n'
    done
}

keep() {
    local target
    for target in "${targets[@]}"; do
        mkdir -p "$work/$target.kept"
        "$programs/$target" -set_cover_merge=1 "$work/$target.kept" "fuzz/corpus/$target" "$work/$target" \
            >"$work/$target.merge.log" 2>&1
        rm -rf "fuzz/corpus/$target"
        mv "$work/$target.kept" "fuzz/corpus/$target"
    done
    du -sh fuzz/corpus/*
}

declare -A runs
step "build" build
step "fuzzing" fuzz
[ "${KEEP:-1}" = 0 ] || step "corpus" keep
summary
