#!/usr/bin/env bash
# Reads traces of Go with our reader and with Go's own in turn, each time in a process of its own, and prints a
# table: millions of events a second of elapsed time (of the whole process for the last two rows), and the most
# memory that the process held. A cell is the median with the smallest and the largest figure.
#
#     ci/go-reading.sh 5 trace.out                  # five rounds
#     ROWS="go one two" ci/go-reading.sh 3 *.trace  # some rows
#
# Go is the program that GO names, else `go` of the path.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
go=${GO:-go}
rounds=$1
shift
read -ra rows <<<"${ROWS:-go one two pipe report parsed}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Go's reader is private to Go's tree: an overlay makes our program appear inside it.
build_go() {
    local commands
    commands=$("$go" env GOROOT)/src/cmd
    printf '{"Replace": {"%s": "%s"}}' "$commands/gmpreader/main.go" "$here/bench/peers/go/reader/main.go" \
        >"$work/overlay.json"
    (
        cd "$commands"
        export GOTOOLCHAIN=local GOFLAGS='' GOPROXY=off
        "$go" build -tags gmpreader -overlay "$work/overlay.json" -o "$work/go-reader" ./gmpreader
        "$go" build -o "$work/go-trace" ./trace
    )
}

build_ours() {
    (cd "$here" && cargo build --release -p gmp-analyze && cargo bench -p gmp-trace --features go --bench go_decode --no-run)
    # Of several builds the newest.
    # shellcheck disable=SC2010,SC2012 # names that cargo made
    decode=$(ls -t "$target"/release/deps/go_decode-* | grep -v '\.d$' | head -n 1)
}

# Runs a program; its peak of memory is in the file of that name.
held() {
    /usr/bin/time -o "$work/memory" -f %M "$@"
}

# The seconds and events of a line of our reader.
ours() {
    sed 's/.*: \([0-9]*\) events in \([0-9.]*\) s.*/\2 \1/'
}

# A pipe, and no file.
piped() {
    cat "$1"
}

# run ROW FILE: prints elapsed seconds and events, where the program says them.
run() {
    case $1 in
        go) held "$work/go-reader" "$2" | sed 's/.*operations=\([0-9]*\).*elapsed_ns=\([0-9]*\).*/\2e-9 \1/' ;;
        one | two) held "$decode" "$2" 1 "$1" | ours ;;
        pipe) piped "$2" | held "$decode" - 1 pipe | ours ;;
        report) held "$target/release/gmp-analyze" report "$2" >/dev/null ;;
        parsed) held "$work/go-trace" -d=parsed "$2" >/dev/null ;;
    esac
}

# once ROW FILE: appends "seconds events kilobytes" to the row's file.
once() {
    local begin end said
    begin=$(date +%s%N)
    run "$1" "$2" >"$work/said"
    end=$(date +%s%N)
    said=$(cat "$work/said")
    echo "${said:-$(((end - begin) / 1000))e-6 0} $(tail -n 1 "$work/memory")" >>"$work/$1"
}

# figures ROW EVENTS: the cells of a row.
figures() {
    sort -g "$work/$1" | awk -v events="$2" '
        { seconds[NR] = $1 + 0; if ($3 > most) most = $3; if ($2 > 0) events = $2 }
        END { printf "%.2f (%.2f–%.2f) | %.1f (%.1f–%.1f) | %.1f |\n",
            seconds[int((NR + 1) / 2)], seconds[1], seconds[NR],
            events / seconds[int((NR + 1) / 2)] / 1e6, events / seconds[NR] / 1e6, events / seconds[1] / 1e6,
            most * 1024 / 1e6 }'
}

build_go
build_ours
declare -A names=([go]="Go's reader" [one]="one thread" [two]="two threads" [pipe]="from a pipe"
    [report]="gmp-analyze report" [parsed]="go tool trace -d=parsed")
printf '\nload average %s, %s, %s rounds\n\n' "$(cut -d' ' -f1-3 /proc/loadavg)" "$("$go" version)" "$rounds"
printf '| trace | read by | seconds | M events/s | MB |\n|---|---|---|---|---|\n'
for file in "$@"; do
    for row in "${rows[@]}"; do : >"$work/$row"; done
    for ((round = 0; round < rounds; round++)); do
        for row in "${rows[@]}"; do once "$row" "$file"; done
    done
    events=$("$decode" "$file" 1 two | ours | cut -d' ' -f2)
    for row in "${rows[@]}"; do
        printf '| %s | %s | ' "$(basename "$file")" "${names[$row]}"
        figures "$row" "$events"
    done
done
