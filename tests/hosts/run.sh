#!/bin/bash
# run.sh [LIBDIR [IMAGE.tar]]: the main job inside programs of other languages, each of which must be left as it was.
#
# A language that is not installed is said to be left out. Without LIBDIR a development build is made. Needs root.
# The functions of the languages are called by name.
# shellcheck disable=SC2317
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-hosts.XXXXXX")
trap 'rm -rf "$work"' EXIT
libdir=${1-} image=${2-} status=0
if [ -z "$libdir" ]; then
  libdir=$work/lib
  PROFILE=dev OUT=$libdir ffi/dist >/dev/null
fi
if [ -z "$image" ]; then
  image=$work/busybox.tar
  tools/make-busybox-image "$image"
fi
libdir=$(realpath "$libdir") image=$(realpath "$image")
shared=(-std=gnu11 -g -O1 -Wall -Wextra -Werror -Wno-unused-function -fPIC -shared -Iinclude)
libs=("-L$libdir" "-Wl,-rpath,$libdir" -lcoracle)
gcc "${shared[@]}" -fvisibility=hidden -o "$work/libjob.so" tests/hosts/job.c "${libs[@]}"
libs+=("-L$work" "-Wl,-rpath,$work" -ljob)

# A language, the command that must be there for it, a function that builds and runs.
language() {
  local name=$1 command=$2
  if ! command -v "$command" >/dev/null 2>&1; then
    echo "$name: left out, there is no $command"
    return
  fi
  echo "$name"
  root=$work/$name-root run=$work/$name-run
  mkdir -m 700 "$root" "$run"
  "host_$name" || status=1
}

host_python() { timeout 1800 python3 tests/hosts/host.py "$work/libjob.so" "$root" "$run" "$image"; }

host_go() {
  CGO_ENABLED=1 CGO_CFLAGS="-I$PWD/include" CGO_LDFLAGS="${libs[*]}" CGO_LDFLAGS_ALLOW='-Wl,-rpath,.*' GOFLAGS=-buildvcs=false \
    GOTOOLCHAIN=local go build -o "$work/host-go" tests/hosts/host.go &&
    timeout 1800 "$work/host-go" "$root" "$run" "$image"
}

host_node() {
  local headers
  headers=$(node -p 'require("path").resolve(process.execPath, "../../include/node")')
  if [ ! -e "$headers/node_api.h" ]; then
    echo "node: left out, its headers are not installed"
    return
  fi
  gcc "${shared[@]}" -I"$headers" -o "$work/host.node" tests/hosts/node.c "${libs[@]}" &&
    timeout 1800 node tests/hosts/host.js "$work/host.node" "$root" "$run" "$image"
}

host_java() {
  local home
  home=$(dirname "$(dirname "$(realpath "$(command -v javac)")")")
  gcc "${shared[@]}" -I"$home/include" -I"$home/include/linux" -o "$work/libhost.so" tests/hosts/java.c "${libs[@]}" &&
    javac -d "$work" tests/hosts/Host.java &&
    timeout 1800 "$home/bin/java" -Xcheck:jni -Xmx256m -cp "$work" Host "$work/libhost.so" "$root" "$run" "$image"
}

host_dotnet() {
  if ! bindings/dotnet/runtime >/dev/null 2>&1; then
    echo "dotnet: left out, there is no runtime of .NET"
    return
  fi
  bindings/dotnet/mcs core -out:"$work/host.exe" tests/hosts/Host.cs &&
    LD_LIBRARY_PATH=$work timeout 1800 bindings/dotnet/run core "$work/host.exe" "$root" "$run" "$image"
}

language python python3
language node node
language go go
language java javac
language dotnet mcs
exit "$status"
