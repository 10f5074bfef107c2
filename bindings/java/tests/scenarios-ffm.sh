#!/bin/bash
# scenarios-ffm.sh LIBDIR: the same over java.lang.foreign.
set -euo pipefail
exec "$(dirname "$0")/java" 22 ffm "$1" Scenarios "${CORACLE_ONE-}"
