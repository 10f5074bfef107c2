#!/bin/bash
# run.sh [LIBRARY [IMAGE.tar]]: the C library beside its header: errors, documents, and the surface of the last release.
#
# Without LIBRARY a development build is made; without IMAGE the busybox image. Needs root: containers run.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-surface.XXXXXX")
trap 'rm -rf "$work"' EXIT

export CORACLE_LIBRARY=${1-} CORACLE_SURFACE=$work/surface.json PYTHONDONTWRITEBYTECODE=1
image=${2-}
if [ -z "$CORACLE_LIBRARY" ]; then
  PROFILE=dev OUT=$work/lib ffi/dist >/dev/null
  CORACLE_LIBRARY=$work/lib/libcoracle.so.1
fi
if [ -z "$image" ]; then
  image=$work/busybox.tar
  tools/make-busybox-image "$image"
fi
CORACLE_LIBRARY=$(realpath "$CORACLE_LIBRARY") image=$(realpath "$image")
cargo run -q -p coracle-header -- --surface >"$CORACLE_SURFACE"
export CORACLE_TEST_PLUGIN=$work/plugin
(cd tests/support/plugin && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$CORACLE_TEST_PLUGIN" .)

status=0
# Networks and mounts of a host of their own, with a registry.
for program in errors documents; do
  mkdir "$work/$program"
  unshare --net --mount tests/c/with-registry "$work/registry-$program" \
    timeout 1800 python3 "tests/surface/$program.py" "$work/$program" "$image" || status=1
done

# The structs and symbols of the last release.
cargo run -q -p coracle-header -- --layouts >"$work/layouts.c"
gcc -std=c11 -Iinclude -fsyntax-only "$work/layouts.c" || status=1
python3 tests/surface/abi.py "$CORACLE_LIBRARY" tests/abi/baseline CHANGELOG.md || status=1
exit "$status"
