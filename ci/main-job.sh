#!/usr/bin/env bash
# The main job, end to end: build, run a real program on our scheduler, record it, explain it.
#
# The program is `logpipe`: it writes a log file of its own, then parses and adds it up through a
# pipeline of goroutines. Arguments go to it. Everything that is made lands in `out/`.
#
#     ci/main-job.sh            # two Ps
#     GMPMAXPROCS=4 ci/main-job.sh
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
export GMPMAXPROCS=${GMPMAXPROCS:-2}

mkdir -p out
rm -f out/trace.gmpt out/report.txt out/latency.txt out/timeline.svg out/flame.svg out/latency.svg

echo "== build"
cargo build --release -p gmp-runtime --example logpipe -p gmp-analyze --bin gmp-analyze

echo "== run and record (GMPMAXPROCS=$GMPMAXPROCS)"
GMPDEBUG=trace=out/trace.gmpt "$target/release/examples/logpipe" "$@"

echo "== report"
"$target/release/gmp-analyze" report out/trace.gmpt | tee out/report.txt

echo "== pictures"
"$target/release/gmp-analyze" timeline out/trace.gmpt --output out/timeline.svg
"$target/release/gmp-analyze" flamegraph out/trace.gmpt --output out/flame.svg
"$target/release/gmp-analyze" latency out/trace.gmpt --histogram out/latency.svg >out/latency.txt

echo "== files"
ls -l out/trace.gmpt out/report.txt out/latency.txt out/timeline.svg out/flame.svg out/latency.svg
