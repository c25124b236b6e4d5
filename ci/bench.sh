#!/usr/bin/env bash
# Measures gmp and its peers in turn on this machine and writes the table to `out/`.
#
# Run it on a quiet machine, before a figure goes into docs/performance.md. Go is measured when `go`
# is in PATH or GO names it. Arguments go to `gmp-bench compare`, for example:
#
#     ci/bench.sh                       # every row, default number of rounds
#     ci/bench.sh --rounds 9 yield spawn-64
#     GO=/usr/local/go/bin/go ci/bench.sh
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}

cargo build --release -p gmp-bench
mkdir -p out
"$target/release/gmp-bench" compare --json out/bench.json --markdown out/bench.md "$@"
ls -l out/bench.json out/bench.md
