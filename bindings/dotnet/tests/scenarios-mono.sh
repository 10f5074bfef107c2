#!/bin/bash
# scenarios-mono.sh LIBDIR: the same on Mono.
set -euo pipefail
exec "$(dirname "$0")/dotnet" mono "$1" scenarios "${CORACLE_ONE-}"
