#!/bin/sh
# scenarios.sh LIBDIR: the scenarios of all bindings, by this one. bindings/scenarios/run calls it, and says which variables it needs.
set -eu
cd "$(dirname "$0")/../../.."
export CORACLE_LIBRARY="$1/libcoracle.so.1" LUA_PATH="bindings/lua/?.lua;bindings/lua/?/init.lua;;"
exec luajit bindings/lua/tests/scenarios.lua "${CORACLE_ONE-}"
