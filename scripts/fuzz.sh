#!/bin/bash
# Runs each fuzz target for a while.
#
#   scripts/fuzz.sh [TIME_A_TARGET]      (30s by default)
set -euo pipefail
cd "$(dirname "$0")/.."

count=0
while read -r package target; do
    echo "== $package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-30s}" "$package"
    count=$((count + 1))
done < <(for package in $(go list ./...); do
    go test -list '^Fuzz' "$package" | sed -n "s|^\(Fuzz.*\)|$package \1|p"
done)
[ "$count" -gt 0 ] || {
    echo "$0: found no fuzz target" >&2
    exit 1
}
echo "$count fuzz targets, ${1:-30s} each"
