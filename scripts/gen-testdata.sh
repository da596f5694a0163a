#!/bin/sh
# Rebuilds testdata/batches from internal/gentestdata. The same sources give the
# same bytes; make golden fails when what is committed differs.
set -eu
cd "$(dirname "$0")/.."
rm -rf testdata/batches
go run ./internal/gentestdata testdata/batches
