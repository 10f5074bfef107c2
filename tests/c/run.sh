#!/bin/bash
# run.sh [LIBDIR [IMAGE.tar]]: the C tests, each linked with the shared and with the static library in LIBDIR.
#
# Without LIBDIR a development build is made; without IMAGE the busybox image. Needs root: containers run.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-c.XXXXXX")
trap 'rm -rf "$work"' EXIT

libdir=${1-} image=${2-}
if [ -z "$libdir" ]; then
  libdir=$work/lib
  PROFILE=dev OUT=$libdir ffi/dist >/dev/null
fi
if [ -z "$image" ]; then
  image=$work/busybox.tar
  tools/make-busybox-image "$image"
fi
libdir=$(realpath "$libdir") image=$(realpath "$image")

cc=${CC:-gcc} cxx=${CXX:-g++} status=0 passed=0 failed=0
strict=(-pedantic -Wall -Wextra -Werror -Iinclude)
usual=(-std=gnu11 -g -O1 -Wall -Wextra -Werror -Wno-unused-function -Iinclude)

# A command that must succeed.
must() {
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) status=1 && echo "failed: $*" >&2; fi
}

for standard in c99 c11 c17; do must "$cc" "-std=$standard" "${strict[@]}" -o "$work/header" tests/c/header.c; done
must "$work/header"
must "$cxx" -x c++ -std=c++11 "${strict[@]}" -o "$work/header" tests/c/header.c
must "$work/header"
must ffi/check-symbols "$libdir"
# The functions that the library gives out: the hygiene test watches each.
nm -D --defined-only "$libdir/libcoracle.so" | sed -n 's/.* \(coracle_[a-z0-9_]*\)$/\1/p;s/.* \(coracle_[a-z0-9_]*\)@@.*/\1/p' >"$work/functions"
must test -s "$work/functions"
# And each that takes something is misused by the misuse test.
while read -r function; do
  if grep -q "$function(void)" include/coracle.h; then continue; fi
  must grep -q "\b$function(" tests/c/misuse.c tests/c/check.h
done <"$work/functions"

build() {
  must "$cc" "${usual[@]}" -o "$work/$1-shared" "tests/c/$1.c" -L"$libdir" -Wl,-rpath,"$libdir" -lcoracle -lpthread -ldl
  must "$cc" "${usual[@]}" -o "$work/$1-static" "tests/c/$1.c" "$libdir/libcoracle.a" -lpthread -ldl -lm
}

# A program, the kind of its library, more arguments: on a root of its own.
run() {
  local name=$1 kind=$2 root alone=()
  shift 2
  root=$(mktemp -d "$work/root.XXXXXX")
  mkdir -m 700 "$root/root" "$root/run"
  # The hygiene test makes networks, whose firewall table stays for the next ones: it gets a host of its own, with a registry on it.
  if [ "$name" = hygiene ]; then alone=(unshare --net tests/c/with-registry "$root/registry"); fi
  echo "$name, $kind${1:+, $*}"
  timeout 1800 "${alone[@]}" "$work/$name-$kind" "$root/root" "$root/run" "$image" "$@" || status=1
}

for program in main misuse hygiene host mirror; do build "$program"; done
for kind in shared static; do
  run main "$kind"
  run misuse "$kind"
  run mirror "$kind"
  run host "$kind" "$libdir/libcoracle.so.1"
  run hygiene "$kind" 8 "$work/functions"
  run hygiene "$kind" 64 "$work/functions" closed
done
run hygiene shared 8 "$work/functions" ignored
run hygiene shared 64 "$work/functions" ignored closed big
# Freed memory that the C library keeps for itself would count as kept.
GLIBC_TUNABLES=glibc.malloc.tcache_count=0 run hygiene shared 1 "$work/functions" memory
echo "the header and the links:"
echo "$passed passed, $failed failed"
exit "$status"
