#!/bin/bash
# scenarios.sh LIBDIR: the scenarios of all bindings, by this one over JNA. bindings/scenarios/run calls it, and says which variables it needs.
set -euo pipefail
exec "$(dirname "$0")/java" 17 jna "$1" Scenarios "${CORACLE_ONE-}"
