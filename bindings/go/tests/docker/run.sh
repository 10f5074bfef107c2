#!/bin/bash
# run.sh LIBDIR: Docker's client for Go over a private connection of the library. bindings/scenarios/all calls it.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-go.XXXXXX")
trap 'rm -rf "$work"' EXIT
top=$(realpath ../../../..)
"$top/tools/go-version"
printf '%s\n' "Name: coracle" "Description: the library of this checkout" "Version: 0" "Cflags: -I$top/include" "Libs: -L$1 -lcoracle" >"$work/coracle.pc"
# Go keeps what it built, whatever pkg-config says since then: the place is in a variable that Go compares, too.
export CGO_LDFLAGS="-O2 -g -L$1"
PKG_CONFIG_PATH=$work LD_LIBRARY_PATH=$1 CGO_ENABLED=1 GOFLAGS=-mod=mod timeout 900 go test -count=1 -timeout 800s .
echo "1 passed, 0 failed"
