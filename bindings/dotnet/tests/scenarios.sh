#!/bin/bash
# scenarios.sh LIBDIR: the scenarios of all bindings, by this one on .NET. bindings/scenarios/run calls it, and says which variables it needs.
set -euo pipefail
exec "$(dirname "$0")/dotnet" core "$1" scenarios "${CORACLE_ONE-}"
