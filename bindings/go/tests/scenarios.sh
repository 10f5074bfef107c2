#!/bin/bash
# scenarios.sh LIBDIR [TESTS]: the scenarios of all bindings, by this one. bindings/scenarios/run calls it, and says which variables it
# needs. TESTS is an expression for other tests (go test -run); RACE=1 has the race detector look on.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-go.XXXXXX")
trap 'rm -rf "$work"' EXIT
top=$(realpath ../..)
"$top/tools/go-version"
printf '%s\n' "Name: coracle" "Description: the library of this checkout" "Version: 0" "Cflags: -I$top/include" "Libs: -L$1 -lcoracle" >"$work/coracle.pc"
# Go keeps what it built, whatever pkg-config says since then: the place is in a variable that Go compares, too.
export PKG_CONFIG_PATH=$work LD_LIBRARY_PATH=$1 CGO_ENABLED=1 CGO_LDFLAGS="-O2 -g -L$1"
# Built outside of the time that a test may take.
go test ${RACE:+-race} -c -o "$work/tests" .
status=0
tests=${2-TestScenarios}
# Go writes the names of tests with lines for spaces.
[ -z "${CORACLE_ONE-}" ] || tests=TestScenarios/${CORACLE_ONE// /_}
timeout 1800 "$work/tests" -test.timeout "${GO_TIMEOUT-1700s}" -test.run "$tests" -test.v >"$work/told" 2>&1 || status=1
grep -vE '^(=== |--- PASS|ok |PASS|FAIL$)|^ *--- PASS' "$work/told" || true
echo "$(grep -cE '^ *--- PASS' "$work/told") passed, $(grep -cE '^ *--- FAIL' "$work/told") failed"
exit "$status"
