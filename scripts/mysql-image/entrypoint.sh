#!/bin/sh
# Starts mysqld in the image of scripts/build-mysql-image.sh. It takes what the
# official image takes, as far as the tests need it: MYSQL_ROOT_PASSWORD or
# MYSQL_ALLOW_EMPTY_PASSWORD, and arguments that are handed to mysqld.
set -eu

case ${1:--} in
-*) ;;
mysqld) shift ;;
*) exec "$@" ;;
esac
if [ -z "${MYSQL_ROOT_PASSWORD-}" ] && [ -z "${MYSQL_ALLOW_EMPTY_PASSWORD-}" ]; then
    echo "set MYSQL_ROOT_PASSWORD or MYSQL_ALLOW_EMPTY_PASSWORD" >&2
    exit 1
fi

datadir=/var/lib/mysql
rundir=/run/mysqld
mkdir -p "$datadir" "$rundir"
chown mysql:mysql "$datadir" "$rundir"
if [ ! -d "$datadir/mysql" ]; then
    mysqld --no-defaults --initialize-insecure --user=mysql --datadir="$datadir"
fi

# mysqld runs this before it accepts the first connection, so whoever gets in
# over TCP finds root@'%' with its password.
password=$(printf %s "${MYSQL_ROOT_PASSWORD-}" | sed -e 's/\\/\\\\/g' -e "s/'/''/g")
(
    umask 077
    cat >"$rundir/init.sql" <<SQL
CREATE USER IF NOT EXISTS 'root'@'%';
ALTER USER 'root'@'%' IDENTIFIED BY '$password';
GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;
ALTER USER 'root'@'localhost' IDENTIFIED BY '$password';
SQL
)
chown mysql:mysql "$rundir/init.sql"

exec mysqld --no-defaults --user=mysql --datadir="$datadir" --socket="$rundir/mysqld.sock" \
    --mysqlx=OFF --secure-file-priv=NULL --init-file="$rundir/init.sql" "$@"
