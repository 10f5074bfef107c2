#!/bin/bash
# install.sh: `make install` into an empty tree, and a program that is built from that tree alone, by pkg-config, with the
# shared and with the static library, and does the main job. Of a development build; needs root: containers run.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
must() {
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "failed: $*" >&2; fi
}

tree=$work/tree prefix=/opt/coracle
# Cargo builds where CARGO_TARGET_DIR says; a link to the usual place has everything built already.
ln -s "$(tools/target-dir)" "$work/target"
must env CARGO_TARGET_DIR="$work/target" make -s install PROFILE=dev DIST="$work/dist" PREFIX=$prefix DESTDIR="$tree"
# Nothing is anywhere else, nothing in the tree names where it was staged or built.
must test "$(cd "$tree" && find . -mindepth 2 -maxdepth 2)" = ./opt/coracle
must test "$(cd "$tree$prefix" && find . ! -type d ! -name 'coracle-*.1' ! -name 'coracle_*.3' ! -path './share/coracle/schema/*.json' | LC_ALL=C sort | tr '\n' ' ')" = \
  "./bin/coracle ./include/coracle.ffi.h ./include/coracle.h ./include/coracle.hpp ./lib/cmake/Coracle/CoracleConfig.cmake $(
    : )./lib/cmake/Coracle/CoracleConfigVersion.cmake ./lib/libcoracle.a ./lib/libcoracle.so ./lib/libcoracle.so.1 ./lib/$(
    basename "$(realpath "$work/dist/libcoracle.so")") ./lib/pkgconfig/coracle.pc ./share/bash-completion/completions/coracle $(
    : )./share/fish/vendor_completions.d/coracle.fish ./share/man/man1/coracle.1 ./share/zsh/site-functions/_coracle "
must test -s "$tree$prefix/share/man/man1/coracle-run.1"
# A page for each function of the header.
must test "$(find "$tree$prefix/share/man/man3" -name 'coracle_*.3' -size +0 | wc -l)" = "$(grep -c '^    coracle_' ffi/coracle.map)"
must diff -r include/schema "$tree$prefix/share/coracle/schema"
must cmp include/coracle.h "$tree$prefix/include/coracle.h"
must cmp include/coracle.ffi.h "$tree$prefix/include/coracle.ffi.h"
must test "$(grep -c "$work" "$tree$prefix/lib/pkgconfig/coracle.pc")" = 0
must test -L "$tree$prefix/lib/libcoracle.so"
must test "$(find "$tree" -type f -perm /022 | wc -l)" = 0

# The tree's own description, as one who cross-builds uses it: PKG_CONFIG_SYSROOT_DIR comes before every path.
export PKG_CONFIG_LIBDIR=$tree$prefix/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$tree
must pkg-config --exists --print-errors 'coracle >= 0.1'
must test "$(pkg-config --modversion coracle)" = "$("$tree$prefix/bin/coracle" --version | grep -o '[0-9][0-9.]*' | head -1)"
read -ra cflags < <(pkg-config --cflags coracle)
read -ra libs < <(pkg-config --libs coracle)
read -ra static < <(pkg-config --static --libs coracle)
mkdir "$work/source"
cp tests/c/main.c tests/c/check.h "$work/source"
must gcc -Wall -Wextra -Werror -Wno-unused-function -o "$work/shared" "$work/source/main.c" "${cflags[@]}" "${libs[@]}"
# `-Bstatic` only for this library: the C library stays shared.
must gcc -Wall -Wextra -Werror -Wno-unused-function -o "$work/static" "$work/source/main.c" "${cflags[@]}" \
  "${static[@]/#-lcoracle/-l:libcoracle.a}"
# Without any shared library. (The linker warns of look-ups of names, which load libraries at run time.)
must gcc -static -w -o "$work/whole" "$work/source/main.c" "${cflags[@]}" "${static[@]}" -Wl,--no-warnings
must sh -c "! ldd $work/whole >/dev/null 2>&1"
must sh -c "! ldd $work/static | grep -q libcoracle"
must sh -c "LD_LIBRARY_PATH=$tree$prefix/lib ldd $work/shared | grep -q '$tree$prefix/lib/libcoracle.so.1'"

# The CMake package, with the shared and with the static library.
cat >"$work/source/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.13)
project(user CXX)
find_package(Coracle 0.1 REQUIRED)
add_executable(by-shared header.cpp other.cpp)
target_link_libraries(by-shared Coracle::coracle)
add_executable(by-static header.cpp other.cpp)
target_link_libraries(by-static Coracle::static)
set_target_properties(by-shared by-static PROPERTIES CXX_STANDARD 17)
CMAKE
(echo '#define MAIN' && cat bindings/cpp/tests/header.cpp) >"$work/source/header.cpp"
cp bindings/cpp/tests/header.cpp "$work/source/other.cpp"
must cmake -S "$work/source" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$tree$prefix" >/dev/null
must cmake --build "$work/cmake" >/dev/null
must "$work/cmake/by-shared"
must "$work/cmake/by-static"
must sh -c "! ldd $work/cmake/by-static | grep -q libcoracle"

image=$work/busybox.tar
tools/make-busybox-image "$image"
for kind in shared static whole; do
  mkdir -m 700 "$work/root-$kind" "$work/run-$kind"
  must env LD_LIBRARY_PATH="$tree$prefix/lib" timeout 1800 "$work/$kind" "$work/root-$kind" "$work/run-$kind" "$image"
done

# Installing again changes nothing and works.
must make -s install PROFILE=dev DIST="$work/dist" PREFIX=$prefix DESTDIR="$tree"
echo "the tree and the links:"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
