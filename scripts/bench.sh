#!/bin/bash
# Measures walletarchive beside other tools and writes docs/BENCHMARKS.md.
#
#   scripts/bench.sh [FLAG_OF_BENCH ...]      (bin/walletarchive must be built)
#
# Flags: -run export,verify,restore,drill,batches,memory -rows N -runs N; with
# any of them the document is not written unless -out names it.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-deps.sh mariadb bench
[ $# -gt 0 ] || set -- -out docs/BENCHMARKS.md
exec go run ./internal/bench "$@"
