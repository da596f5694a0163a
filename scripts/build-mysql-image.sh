#!/bin/bash
# Builds the Docker image walletarchive-mysql:9.7 from Debian's own packages.
#
#   scripts/build-mysql-image.sh [IMAGE]
#
# Debian ships MySQL itself only in unstable: debootstrap fetches the server
# and what it needs from the mirror that this machine's apt is configured with,
# and the folder becomes the image. Does nothing when the image is there. Needs
# root and a Docker engine (scripts/with-docker.sh starts one), and installs
# debootstrap.
set -euo pipefail
cd "$(dirname "$0")"

image=${1:-${WALLETARCHIVE_TEST_MYSQL_IMAGE:-walletarchive-mysql:9.7}}
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# One build at a time; who waited finds the image.
exec 9<"build-mysql-image.sh"
flock -w 900 9
if timeout 60 docker image inspect "$image" >/dev/null 2>&1; then
    echo "$image is there" >&2
    exit 0
fi
[ "$(id -u)" = 0 ] || {
    echo "$0: needs root, for debootstrap" >&2
    exit 3
}
./install-deps.sh mysql-image

# The first plain Debian archive of apt's configuration; its other archives
# (security, backports, third parties) carry no unstable.
# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
    sed -n 's/^Debian|//p' | head -n 1)
[ -n "$mirror" ] || {
    echo "$0: apt knows no Debian archive: run apt-get update" >&2
    exit 1
}
# debootstrap fetches with wget, which takes its proxy from the environment.
proxy=$(apt-config dump Acquire::http::Proxy --format '%v%n' | head -n 1)
[ -z "$proxy" ] || export http_proxy="$proxy"

work=$(mktemp -d)
chmod 0755 "$work" # the server initialises its data as another user
cleanup() {
    # Where debootstrap was stopped half-way its mounts are still there.
    for mounted in proc sys dev/pts dev; do
        if mountpoint -q "$work/tree/$mounted"; then umount "$work/tree/$mounted"; fi
    done
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

echo "building $image with debootstrap" >&2
if ! timeout 600 debootstrap --variant=minbase --include=mysql-server-core,mysql-client-core \
    sid "$work/tree" "$mirror" >"$work/log" 2>&1 </dev/null; then
    tail -n 20 "$work/log" >&2
    echo "$0: debootstrap failed" >&2
    exit 1
fi
chroot "$work/tree" useradd --system --no-create-home --home-dir /var/lib/mysql --shell /usr/sbin/nologin mysql
install -m 0755 mysql-image/entrypoint.sh "$work/tree/usr/local/bin/walletarchive-mysqld"
# The data directory comes with the image, so that a container is up in a second;
# without auto.cnf each server chooses an identity of its own.
if ! timeout 120 chroot "$work/tree" mysqld --no-defaults --initialize-insecure --user=mysql \
    --datadir=/var/lib/mysql >"$work/log" 2>&1 </dev/null; then
    tail -n 20 "$work/log" >&2
    echo "$0: mysqld --initialize-insecure failed" >&2
    exit 1
fi
rm "$work/tree/var/lib/mysql/auto.cnf"
version=$(chroot "$work/tree" mysqld --version | sed 's/.*Ver \([^ ]*\).*/\1/')
case $version in
"${image##*:}".*) ;;
*) echo "$0: note: the tag of $image says otherwise, but unstable has MySQL $version now" >&2 ;;
esac

tar -C "$work/tree" --one-file-system \
    --exclude=./var/cache/apt/'*' --exclude=./var/lib/apt/lists/'*' --exclude=./var/log/'*' \
    --exclude=./usr/share/doc/'*' --exclude=./usr/share/man/'*' --exclude=./usr/share/locale/'*' -c . |
    timeout 300 docker import \
        --change 'ENTRYPOINT ["/usr/local/bin/walletarchive-mysqld"]' --change 'EXPOSE 3306' \
        --change "LABEL walletarchive.mysql.version=$version" - "$image" >/dev/null
echo "built $image: MySQL $version" >&2
