#!/bin/sh
# scenarios-aio.sh LIBDIR: the scenarios of all bindings, by coracle.aio. bindings/scenarios/run calls it, and says which variables it needs.
set -eu
cd "$(dirname "$0")/../../.."
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=bindings/python CORACLE_LIBRARY="$1/libcoracle.so.1"
exec "${PYTHON:-python3}" bindings/python/tests/scenarios_aio.py "${CORACLE_ONE-}"
