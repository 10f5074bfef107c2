#!/bin/bash
# run.sh [LIBDIR [IMAGE.tar]]: the Java binding's own tests over JNA and, with a JDK of version 22 or later, over java.lang.foreign; and
# docker-java over the engine, if Maven is there. CORACLE_LIVES is how many lives of containers the test of leaks makes. Needs root.
set -euo pipefail
libdir=${1:+$(realpath "$1")} image=${2-${CORACLE_TEST_IMAGE-}}
image=${image:+$(realpath "$image")}
cd "$(dirname "$0")"
top=$(realpath ../../..) work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-java.XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0
if [ -z "$libdir" ]; then
  libdir=$work/lib
  PROFILE=dev OUT=$libdir "$top/ffi/dist" >/dev/null
fi
if [ -z "$image" ]; then
  image=$work/busybox.tar
  "$top/tools/make-busybox-image" "$image"
fi
export CORACLE_TEST_IMAGE=$image
./java 17 jna "$libdir" Own || status=1
if ../jdk 22 >/dev/null 2>&1; then
  ./java 22 ffm "$libdir" Own || status=1
else
  echo "java.lang.foreign: not run: no JDK of version 22 or later"
fi
docker/run.sh "$libdir" || status=1
exit "$status"
