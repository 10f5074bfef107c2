#!/bin/bash
# build.sh [OUT]: makes OUT/coracle.jar (target/java) of the sources, by javac alone. Needs the jars of JNA 5.13 and Gson 2.10 or later:
# CORACLE_JARS, or those of Debian's libjna-java and libgoogle-gson-java. With a JDK of version 22 or later at hand the jar has the layer
# by java.lang.foreign, too. With CORACLE_NATIVE, a directory with libcoracle.so.1 for this kind of machine, it makes OUT/coracle-linux-MACHINE.jar,
# too: a program that has this jar on its class path needs no other library. With OUT/coracle.jar newer than the sources it does nothing.
set -euo pipefail
native=${CORACLE_NATIVE:+$(realpath "$CORACLE_NATIVE")}
out=$(realpath -m "${1:-$("$(dirname "$0")/../../tools/target-dir")/java}")
cd "$(dirname "$0")"
jars=$(./jars)
if [ -n "$native" ]; then
  kind=linux-$(uname -m)
  inside=$(mktemp -d "${TMPDIR:-/tmp}/coracle-native.XXXXXX")
  mkdir -p "$out" "$inside/native/$kind"
  cp "$native/libcoracle.so.1" "$inside/native/$kind/"
  "$(./jdk 17)/bin/jar" --create --file "$out/coracle-$kind.jar" -C "$inside" native
  rm -rf "$inside"
fi
if [ -e "$out/coracle.jar" ] && [ -z "$(find build.sh src -newer "$out/coracle.jar" -print -quit)" ]; then exit 0; fi
work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-java.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/classes"
javac=$(./jdk 17)/bin/javac
"$javac" --release 17 -Xlint:all,-processing -Werror -d "$work/classes" -cp "$jars" src/main/java/dev/coracle/*.java
if newer=$(./jdk 22 2>/dev/null); then
  # The jar tool of Java 17 does not know records in jars of several releases: the directory is made by its name.
  "$newer/bin/javac" --release 22 -Xlint:all,-restricted -Werror -d "$work/classes/META-INF/versions/22" -cp "$work/classes:$jars" src/main/java22/dev/coracle/*.java
fi
printf 'Multi-Release: true\nAutomatic-Module-Name: dev.coracle\nEnable-Native-Access: ALL-UNNAMED\n' >"$work/manifest"
"$(dirname "$javac")/jar" --create --file "$work/coracle.jar" --manifest "$work/manifest" -C "$work/classes" .
mv "$work/coracle.jar" "$out/coracle.jar"
