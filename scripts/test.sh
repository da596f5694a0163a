#!/bin/bash
# Runs all tests, with the race detector, on real servers.
#
#   scripts/test.sh [FLAG_OF_GO_TEST ...]     (PACKAGES=./... by default)
#
# As root on Debian it first installs what is missing; elsewhere the checks of a
# missing server are skipped and said to be, unless WALLETARCHIVE_TEST_REQUIRE
# (mysql,mariadb) names it. One MySQL container and one MariaDB process serve
# the whole run. What it starts, dockerd included, it stops. Prints go test's
# line for each package, what failed in full, and the counts.
set -euo pipefail
cd "$(dirname "$0")/.."
export TESTCONTAINERS_HOST_OVERRIDE=${TESTCONTAINERS_HOST_OVERRIDE-127.0.0.1}
export TESTCONTAINERS_RYUK_DISABLED=${TESTCONTAINERS_RYUK_DISABLED-true}

need_mysql=
[ -n "${WALLETARCHIVE_TEST_MYSQL_DSN-}" ] || need_mysql=1

if [ "${1-}" != --with-engine ]; then
    # What cannot be installed is missed, or not, by the tests themselves.
    scripts/install-deps.sh build || [ $? = 3 ]
    [ -n "${WALLETARCHIVE_TEST_MARIADB_DSN-}" ] || scripts/install-deps.sh mariadb || [ $? = 3 ]
    if [ -n "$need_mysql" ]; then
        scripts/install-deps.sh docker || [ $? = 3 ]
        exec scripts/with-docker.sh --optional scripts/test.sh --with-engine "$@"
    fi
    set -- --with-engine "$@"
fi
shift

if [ -n "$need_mysql" ] && timeout 20 docker info >/dev/null 2>&1; then
    scripts/build-mysql-image.sh || [ $? = 3 ]
fi

race=-race
if ! command -v "$(go env CC)" >/dev/null || [ "$(go env CGO_ENABLED)" != 1 ]; then
    echo "test.sh: no C compiler, so without the race detector" >&2
    race=
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pid=
# In the background, so that a signal to this script alone stops the servers.
stop() {
    trap '' TERM INT
    [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null || true
    wait || true
    exit "$1"
}
trap 'stop 143' TERM
trap 'stop 130' INT
go build -o "$work/withservers" ./internal/mysqltest/withservers

: >"$work/log"
# shellcheck disable=SC2086
"$work/withservers" go test $race -v -count=1 -timeout="${TEST_TIMEOUT:-10m}" "$@" ${PACKAGES:-./...} \
    >"$work/log" 2>&1 </dev/null &
pid=$!
tail -n +1 -f --pid="$pid" "$work/log" |
    grep --line-buffered -E '^(withservers: |ok  |FAIL|--- FAIL|panic: )' &
status=0
wait "$pid" || status=$?
wait || true
pid=

if [ "$status" != 0 ]; then
    echo "--- what failed ---"
    grep -vE '^ *(=== (RUN|PAUSE|CONT|NAME)|--- PASS)|^(ok  |\?   |PASS$)' "$work/log" || true
fi
grep -E '^ *--- SKIP' "$work/log" || true
awk '/^ *--- PASS/ { passed++ } /^ *--- FAIL/ { failed++ } /^ *--- SKIP/ { skipped++ }
    END { printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$work/log"
exit "$status"
