#!/bin/bash
# scenarios.sh LIBDIR: the scenarios of all bindings, by this one. bindings/scenarios/run calls it, and says which variables it needs.
#
# The header is compiled as C++17 and C++23 by gcc and clang, without exceptions too; the scenarios run as C++17 with sanitizers
# (gcc), and as C++23 (clang).
set -euo pipefail
cd "$(dirname "$0")/../../.."
work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-cpp.XXXXXX")
trap 'rm -rf "$work"' EXIT
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Werror)
paths=(-Iinclude -Ibindings/cpp/include)
libs=("-L$1" "-Wl,-rpath,$1" -lcoracle -lpthread)
passed=0 failed=0
must() {
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "failed: $*"; fi
}

if [ -n "${CORACLE_ONE-}" ]; then
  g++ -std=c++17 "${warnings[@]}" "${paths[@]}" -o "$work/one" bindings/cpp/tests/scenarios.cpp "${libs[@]}"
  timeout 1800 "$work/one" "$CORACLE_ONE"
  exit
fi

for kind in "g++ -std=c++17" "g++ -std=c++23" "clang++ -std=c++17" "clang++ -std=c++2b" "g++ -std=c++17 -fno-exceptions -fno-rtti"; do
  read -ra compiler <<<"$kind"
  must "${compiler[@]}" "${warnings[@]}" "${paths[@]}" -c -o "$work/other.o" bindings/cpp/tests/header.cpp
  must "${compiler[@]}" "${warnings[@]}" "${paths[@]}" -DMAIN -o "$work/header" bindings/cpp/tests/header.cpp "$work/other.o" "${libs[@]}"
  must "$work/header"
done
echo "the header: $passed passed, $failed failed"

must g++ -std=c++17 -g1 -O0 -fsanitize=address,undefined -fno-sanitize-recover=all "${warnings[@]}" "${paths[@]}" -o "$work/sane" \
  bindings/cpp/tests/scenarios.cpp "${libs[@]}"
must clang++ -std=c++2b "${warnings[@]}" "${paths[@]}" -o "$work/new" bindings/cpp/tests/scenarios.cpp "${libs[@]}"
for program in sane new; do
  timeout 1800 "$work/$program" >"$work/told" || failed=$((failed + 1))
  grep -v ' passed, ' "$work/told" || true
  passed=$((passed + $(sed -n 's/^\([0-9]*\) passed, .*/\1/p' "$work/told")))
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
