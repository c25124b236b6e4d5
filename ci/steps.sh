# shellcheck shell=bash
# Runs named steps one after the other, times them, keeps their output, and sums up what ran.
#
# Sourced by .ci/run and the scripts beside it; not a script of its own. Use:
#
#     source "$(dirname "$0")/steps.sh"
#     step "name of the step" command arg…
#     skip "name of the step" "why it cannot run here"
#     summary
#
# A step that fails ends the script after the summary; with KEEP_GOING=1 in the environment the other
# steps run first. A step that runs tests is counted from cargo's own "test result:" lines, so that a
# step which ran nothing shows.

step_names=()
step_results=()
step_seconds=()
step_tests=()
step_logs=$(mktemp -d)
trap 'rm -rf "$step_logs"' EXIT

# step NAME COMMAND…: run the command, show its output, remember name, time and number of tests.
step() {
    local name=$1 started=$SECONDS code log
    shift
    log="$step_logs/${#step_names[@]}"
    printf '\n==> %s\n    %s\n' "$name" "$*"
    # A function as command must stop at its first error too, which bash forgets behind `||`.
    set +e
    (set -e; "$@") </dev/null 2>&1 | tee "$log"
    code=${PIPESTATUS[0]}
    set -e
    record_step "$name" "$code" $((SECONDS - started)) "$(tests_passed "$log")"
    printf '<== %s: %s, %s s\n' "$name" "${step_results[-1]}" "${step_seconds[-1]}"
    if [ "$code" -ne 0 ]; then
        stop_after_failure
    fi
}

# The end of the script, unless it is to keep going.
stop_after_failure() {
    if [ -z "${KEEP_GOING:-}" ]; then
        summary
        exit 1
    fi
}

# skip NAME WHY: say that a step did not run. It is in the summary, so nobody takes it for passed.
skip() {
    printf '\n==> %s: skipped, %s\n' "$1" "$2"
    step_names+=("$1")
    step_results+=("skipped: $2")
    step_seconds+=("-")
    step_tests+=("-")
}

record_step() {
    step_names+=("$1")
    if [ "$2" -eq 0 ]; then step_results+=("ok"); else step_results+=("FAILED ($2)"); fi
    step_seconds+=("$3")
    step_tests+=("$4")
}

# How many tests passed according to cargo's lines in the log; "-" when there is no such line.
tests_passed() {
    awk '/^test result: / { lines++; for (i = 2; i <= NF; i++) if ($i == "passed;") sum += $(i - 1) }
         END { if (lines) print sum + 0; else print "-" }' "$1"
}

# require_tests NAME: fail when the last step ran no test at all.
require_tests() {
    case ${step_results[-1]} in FAILED*) return ;; esac
    if [ "${step_tests[-1]}" = "-" ] || [ "${step_tests[-1]}" -eq 0 ]; then
        printf 'error: step "%s" passed without running a single test\n' "$1" >&2
        step_results[-1]="FAILED (no tests ran)"
        stop_after_failure
    fi
}

# Prints what ran; fails when a step failed.
summary() {
    local i total=0 tests=0 failed=0 skipped=0
    printf '\n%-46s %8s %7s  %s\n' "step" "seconds" "tests" "result"
    for i in "${!step_names[@]}"; do
        printf '%-46s %8s %7s  %s\n' \
            "${step_names[$i]}" "${step_seconds[$i]}" "${step_tests[$i]}" "${step_results[$i]}"
        case ${step_seconds[$i]} in -) ;; *) total=$((total + step_seconds[i])) ;; esac
        case ${step_tests[$i]} in -) ;; *) tests=$((tests + step_tests[i])) ;; esac
        case ${step_results[$i]} in
            FAILED*) failed=$((failed + 1)) ;;
            skipped*) skipped=$((skipped + 1)) ;;
        esac
    done
    printf '%s steps: %s failed, %s skipped; %s tests passed; %s s\n' \
        "${#step_names[@]}" "$failed" "$skipped" "$tests" "$total"
    [ "$failed" -eq 0 ]
}
