#!/bin/bash
# run.sh [LIBDIR [IMAGE.tar]]: the Java binding's own tests over JNA and, with a JDK of version 22 or later, over java.lang.foreign; and
# docker-java over the engine, if Maven is there. CORACLE_LIVES is how many lives of containers the test of leaks makes. Needs root.
set -euo pipefail
libdir=${1:+$(realpath "$1")} image=${2-${CORACLE_TEST_IMAGE-}}
image=${image:+$(realpath "$image")}
cd "$(dirname "$0")"
top=$(realpath ../../..) work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-java.XXXXXX")
# The program in the jar names no run directory: it has its name from the root's path.
trap 'rm -rf "$work" "/run/coracle/$(printf %s "$work/root" | sha256sum | cut -c 1-16)"' EXIT
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
# A program with the library inside of a jar needs no other one, and leaves no copy behind.
CORACLE_NATIVE=$libdir ../build.sh "$work/jar"
for layer in jna ffm; do
  home=$(../jdk "$([ "$layer" = jna ] && echo 17 || echo 22)") || continue
  mkdir -p "$work/tmp"
  native=()
  [ "$layer" = jna ] || native=(--enable-native-access=ALL-UNNAMED)
  path=$(printf '%s:' "$work"/jar/*.jar)$("$top/tools/target-dir")/java/tests:$(../jars)
  if (cd "$work" && env -u CORACLE_LIBRARY "$home/bin/java" "${native[@]}" "-Dcoracle.layer=$layer" "-Dcoracle.native.dir=$work/tmp" -cp "$path" dev.coracle.Hello "$work/root" "$image") |
    grep -qx hello && [ -z "$(ls "$work/tmp")" ]; then
    echo "a jar with the library over $layer: 1 passed, 0 failed"
  else
    echo "failed: a jar with the library over $layer"
    status=1
  fi
done
docker/run.sh "$libdir" || status=1
exit "$status"
