#!/bin/bash
# Runs a command with a Docker engine.
#
#   scripts/with-docker.sh [--optional] COMMAND [ARGUMENT ...]
#
# When an engine answers it is used and left alone. Otherwise, as root, dockerd
# is started for the command and that one process is stopped when it ends. Exits
# as the command does, 3 when there is no engine and none can be started, and 1
# when dockerd does not come up. With --optional the command then runs all the
# same, without an engine.
set -euo pipefail

optional=
if [ "${1-}" = --optional ]; then
    optional=1
    shift
fi
[ $# -gt 0 ] || {
    echo "usage: $0 [--optional] COMMAND [ARGUMENT ...]" >&2
    exit 3
}
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

answers() {
    command -v docker >/dev/null && timeout 20 docker info >/dev/null 2>&1
}

if answers; then
    exec "$@"
fi
problem=
if ! command -v docker >/dev/null; then
    problem="no docker command: run scripts/install-deps.sh docker"
elif [ "$(id -u)" != 0 ] || ! command -v dockerd >/dev/null; then
    problem="no Docker engine answers, and only root with dockerd installed can start one here"
fi
if [ -n "$problem" ]; then
    echo "$0: $problem" >&2
    [ -n "$optional" ] || exit 3
    exec "$@"
fi

log=$(mktemp)
pid=
child=
# Stops the command, if it is still running, then the dockerd started here.
stop() {
    status=$?
    trap - EXIT
    trap '' INT TERM HUP
    if [ -n "$child" ] && kill -TERM "$child" 2>/dev/null; then
        wait "$child" || true
    fi
    if [ -n "$pid" ] && kill -TERM "$pid" 2>/dev/null; then
        for _ in $(seq 300); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    fi
    rm -f "$log"
    exit "$status"
}
trap stop EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP

# A session of its own: a Ctrl-C at the terminal is for the command, and
# dockerd is stopped after it.
setsid dockerd >"$log" 2>&1 </dev/null &
pid=$!
for _ in $(seq 60); do
    answers && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 1
done
if answers; then
    echo "$0: started dockerd (pid $pid) for this run" >&2
else
    echo "$0: dockerd did not come up; the end of its log:" >&2
    tail -n 20 "$log" >&2
    [ -n "$optional" ] || exit 1
fi

# In the background, so that a signal is acted on at once and not after it.
"$@" <&0 &
child=$!
status=0
wait "$child" || status=$?
child=
exit "$status"
