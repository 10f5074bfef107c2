#!/bin/bash
# run.sh [LIBDIR [IMAGE.tar]]: the Node binding's own tests; the package, packed and installed into an empty directory; its types by
# TypeScript, which `tools/setup bindings` installs. CORACLE_LIVES is how many lives of containers the test of leaks makes (100). Needs root.
set -euo pipefail
libdir=${1:+$(realpath "$1")} image=${2-${CORACLE_TEST_IMAGE-}}
image=${image:+$(realpath "$image")}
cd "$(dirname "$0")/.."
top=$(realpath ../..) work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-node.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
if [ -z "$libdir" ]; then
  libdir=$work/lib
  PROFILE=dev OUT=$libdir "$top/ffi/dist" >/dev/null
fi
if [ -z "$image" ]; then
  image=$work/busybox.tar
  "$top/tools/make-busybox-image" "$image"
fi
CORACLE_LIBRARY=$libdir/libcoracle.so.1 CORACLE_TEST_IMAGE=$image
export CORACLE_LIBRARY CORACLE_TEST_IMAGE
modules=$("$top/tools/target-dir")/clients/node_modules
[ ! -e "$modules/dockerode" ] || export CORACLE_NODE_MODULES=$modules
./build.sh

# A check by its name, whose output is told if it fails.
must() {
  local out
  if out=$("${@:2}" 2>&1); then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'failed: %s\n%s\n' "$1" "$out"
  fi
}

# The package as npm packs it, with the addon that its own build.sh makes there, says hello from an empty directory.
packed() {
  local archive
  archive=$(npm pack --silent --offline --pack-destination "$work") || return
  mkdir -p "$work/empty/node_modules/libcoracle"
  tar -C "$work/empty/node_modules/libcoracle" --strip-components 1 -xf "$work/$archive"
  CORACLE_INCLUDE=$top/include "$work/empty/node_modules/libcoracle/build.sh" || return
  cp tests/hello.js "$work/empty/hello.js"
  (cd "$work/empty" && node hello.js "$work/root" "$CORACLE_TEST_IMAGE" >"$work/told") && grep -qx 'hello' "$work/told" || return
  # A program that imports it has the package, too.
  (cd "$work/empty" && node --input-type=module -e 'import {version, open} from "libcoracle"; if (!version() || !open) process.exit(1);')
}

# The library of a platform's package is found without CORACLE_LIBRARY.
platform() {
  local package
  package=$work/empty/node_modules/@libcoracle/linux-$(node -p process.arch)-gnu
  mkdir -p "$package"
  echo '{"name": "platform", "version": "0.1.0"}' >"$package/package.json"
  cp "$CORACLE_LIBRARY" "$package/libcoracle.so.1"
  mv "$work/empty/node_modules/libcoracle/coracle.node" "$package/"
  (cd "$work/empty" && env -u CORACLE_LIBRARY node -p 'require("libcoracle").version()')
}

must "the packed package" packed
must "the package of a platform" platform
# TypeScript and @types/node stand beside each other.
must "the types" "$modules/.bin/tsc" --noEmit --strict --target es2022 --module node16 --moduleResolution node16 \
  --typeRoots "$modules/@types" --types node tests/types.ts
must "the binding's own tests" timeout 3000 node --expose-gc --test tests/binding.test.js
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
