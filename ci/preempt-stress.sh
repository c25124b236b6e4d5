#!/usr/bin/env bash
# Stress of preemption: goroutines that never call the runtime, of several kinds, on 1, 2 and 4 Ps, for about
# SECONDS_OF_STRESS seconds (60 unless told). Fails when one makes no progress, a result is wrong, or a run does not end.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_OF_STRESS:-60}
cargo build --release -p gmp-runtime --example hogs
each=$(((seconds + 8) / 9))
for procs in 1 2 4; do
    for hogs in 1 5 20; do
        timeout $((each + 60)) target/release/examples/hogs "$procs" "$hogs" "$each"
    done
done
