#!/bin/bash
# scenarios.sh LIBDIR: the scenarios of all bindings, by this one. bindings/scenarios/run calls it, and says which variables it needs.
set -euo pipefail
cd "$(dirname "$0")/.."
./build.sh
CORACLE_LIBRARY=$(realpath "$1")/libcoracle.so.1 timeout 1800 node tests/scenarios.js "${CORACLE_ONE-}"
