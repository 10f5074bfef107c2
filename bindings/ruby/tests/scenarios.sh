#!/bin/sh
# scenarios.sh LIBDIR: the scenarios of all bindings, by this one. bindings/scenarios/run calls it, and says which variables it needs.
set -eu
cd "$(dirname "$0")/../../.."
export CORACLE_LIBRARY="$1/libcoracle.so.1"
exec ruby -W1 -Ibindings/ruby/lib bindings/ruby/tests/scenarios.rb "${CORACLE_ONE-}"
