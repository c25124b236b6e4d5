#!/usr/bin/env bash
# Measures gmp and its peers in turn on this machine and writes the table to `out/`.
#
# Run it on a quiet machine, before a figure goes into docs/performance.md. Go is measured when `go`
# is in PATH or GO names it. Arguments go to `gmp-bench compare`, for example:
#
#     ci/bench.sh                       # every row, default number of rounds
#     ci/bench.sh --rounds 9 yield-1p spawn-64-1p
#     GO=/usr/local/go/bin/go ci/bench.sh
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}

cargo build --release -p gmp-bench
# The same harness without the tracer: what the tracer costs while it is off is the difference.
cargo build --release -p gmp-bench --no-default-features --target-dir "$target/untraced"
mkdir -p out
"$target/release/gmp-bench" compare --untraced "$target/untraced/release/gmp-bench" \
    --json out/bench.json --markdown out/bench.md "$@"
ls -l out/bench.json out/bench.md
