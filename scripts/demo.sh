#!/bin/bash
# Runs the demo: the main job, end to end, on a private server and a directory.
#
#   scripts/demo.sh BINARY [FLAG_OF_DEMO ...]
#
# Takes the MySQL or MariaDB server that is installed; else, as root with apt,
# installs MariaDB; else uses Docker when an engine answers; else says what to
# install and exits 3.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$1
shift
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

installed() { command -v mysqld >/dev/null || { command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null; }; }
engine() { command -v docker >/dev/null && timeout 20 docker info >/dev/null 2>&1; }

if ! installed && ! scripts/install-deps.sh mariadb; then
    if ! engine; then
        cat >&2 <<'TEXT'
demo: this machine has neither a MySQL or MariaDB server nor a Docker engine.
Install one of them, on Debian for example

    apt-get install mariadb-server-core mariadb-client-core

and run make demo again.
TEXT
        exit 3
    fi
    echo "demo: no server is installed, using Docker" >&2
fi
exec "$binary" demo "$@"
