#!/bin/bash
# run.sh: the Lua binding's own tests. CORACLE_LIBRARY may name the library, CORACLE_TEST_IMAGE the image; else both are made.
set -euo pipefail
cd "$(dirname "$0")/.."
exec ../scenarios/with-library env LUA_PATH='./?.lua;./?/init.lua;;' luajit tests/own.lua
