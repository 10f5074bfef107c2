#!/bin/bash
# run.sh [LIBDIR [IMAGE.tar]]: the .NET binding's own tests on .NET and on Mono, and its NuGet package. CORACLE_LIVES is how many lives of containers the
# test of leaks makes. Needs root.
set -euo pipefail
libdir=${1:+$(realpath "$1")} image=${2-${CORACLE_TEST_IMAGE-}}
image=${image:+$(realpath "$image")}
cd "$(dirname "$0")"
top=$(realpath ../../..) work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-dotnet.XXXXXX")
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
./dotnet core "$libdir" own || status=1
./dotnet mono "$libdir" own || status=1
../build.sh
case $(uname -m) in aarch64) kind=linux-arm64 ;; *) kind=linux-x64 ;; esac
../pack "$work/Coracle.nupkg" "$("$top/tools/target-dir")/dotnet-binding/Coracle.dll" "$kind=$libdir/libcoracle.so.1"
./package.sh "$work/Coracle.nupkg" "$image" || status=1
exit "$status"
