#!/bin/sh
# Installs what the tests, the demo and the benchmarks need, from Debian.
#
#   scripts/install-deps.sh build|mariadb|docker|mysql-image|bench|all ...
#
# What is there already is left alone, so running it twice is safe. Packages
# are only installed as root on a machine with apt; elsewhere it says what to
# install and exits 3.
set -eu

usage() {
    echo "usage: $0 build|mariadb|docker|mysql-image|bench|all ..." >&2
    exit 3
}

# have is true when every named program can be found; servers live in sbin.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
have() {
    for program in "$@"; do
        command -v "$program" >/dev/null 2>&1 || return 1
    done
}

# any_ca is true when the machine has root certificates, which go needs to
# fetch modules.
any_ca() {
    [ -s /etc/ssl/certs/ca-certificates.crt ] || [ -s /etc/pki/tls/certs/ca-bundle.crt ] || [ -s /etc/ssl/cert.pem ]
}

need=
for what in "${@:-none}"; do
    case $what in
    build | mariadb | docker | mysql-image | bench) ;;
    all) ;;
    *) usage ;;
    esac
    case $what in build | all)
        { have gcc && [ -e /usr/include/stdlib.h ]; } || need="$need gcc libc6-dev"
        have make || need="$need make"
        have git || need="$need git"
        any_ca || need="$need ca-certificates"
        ;;
    esac
    case $what in mariadb | all)
        # mariadb-install-db calls my_print_defaults, which is in the second.
        have mariadbd mariadb-install-db my_print_defaults || need="$need mariadb-server-core mariadb-client-core"
        ;;
    esac
    case $what in docker | all)
        # Any engine that answers will do; without one, Debian's is installed.
        have docker && timeout 20 docker info >/dev/null 2>&1 ||
            have dockerd docker iptables || need="$need docker.io iptables"
        ;;
    esac
    case $what in mysql-image | all)
        have debootstrap || need="$need debootstrap"
        ;;
    esac
    case $what in bench | all)
        have mydumper myloader || need="$need mydumper"
        have pt-archiver || need="$need percona-toolkit"
        have mariadb mariadb-dump || need="$need mariadb-client"
        ;;
    esac
done
[ -n "$need" ] || exit 0

# One word a package, each once.
# shellcheck disable=SC2086
need=$(printf '%s\n' $need | sort -u | tr '\n' ' ')
if [ "$(id -u)" != 0 ] || ! have apt-get; then
    echo "$0: install these, or what your system calls them, and run again: $need" >&2
    echo "$0: on Debian, as root: apt-get install --no-install-recommends $need" >&2
    exit 3
fi

echo "installing $need" >&2
export DEBIAN_FRONTEND=noninteractive
# Keeps invoke-rc.d from starting services where no init system runs.
export RUNLEVEL=1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    timeout 600 apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -qq "$@" </dev/null >"$log" 2>&1
}
apt update || echo "$0: apt-get update did not succeed, trying with the lists at hand" >&2
# shellcheck disable=SC2086
apt install -y --no-install-recommends $need || {
    tail -n 20 "$log" >&2
    echo "$0: could not install $need" >&2
    exit 1
}
