#!/usr/bin/env bash
# Checks that every relative link in the Markdown files of the project leads to a file that exists.
#
# A step of .ci/run. Links inside a page (#…) and to the web are not followed.
set -euo pipefail
cd "$(dirname "$0")/.."

checked=0
broken=0
while IFS=: read -r file link; do
    target=${link%%#*}
    case $target in
        '' | http://* | https://*) continue ;;
    esac
    checked=$((checked + 1))
    if [ ! -e "$(dirname "$file")/$target" ]; then
        echo "$file: expected a file at $target, found none" >&2
        broken=$((broken + 1))
    fi
done < <(git ls-files -co --exclude-standard '*.md' | while read -r file; do
    grep -oE '\]\([^) ]+\)' "$file" | sed -e 's/^](//' -e 's/)$//' -e "s|^|$file:|" || true
done)

echo "$checked links checked, $broken broken"
[ "$checked" -gt 0 ] && [ "$broken" -eq 0 ]
