#!/bin/sh
# build.sh [OUT]: compiles the addon, coracle.node, beside this file or into OUT. It needs a C compiler and the headers of node, and
# not the library, which is loaded when a program runs. CORACLE_INCLUDE names the directory of coracle.h.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=${CORACLE_INCLUDE:-$here/../../include}
[ -e "$include/coracle.h" ] || include=/usr/include
headers=$(node -p 'require("path").resolve(process.execPath, "../../include/node")')
[ -e "$headers/node_api.h" ] || { echo "build.sh: the headers of node are not in $headers" >&2; exit 1; }
# The flags of CFLAGS come last. Its parts are words.
# shellcheck disable=SC2086
${CC:-cc} -std=gnu11 -O2 -g -fPIC -shared -fvisibility=hidden -fno-strict-aliasing -Wall -Wextra -Werror -Wno-cast-function-type \
  "-I$include" "-I$headers" "-I$here/src" ${CFLAGS-} -o "${1:-$here/coracle.node}" "$here/src/addon.c" -lpthread -ldl
