#!/bin/bash
# run.sh LIBDIR: docker-java over an engine in process. Maven fetches docker-java. CORACLE_TEST_IMAGE is an archive. Needs root.
set -euo pipefail
libdir=$(realpath "$1")
cd "$(dirname "$0")"
out=$("../../../../tools/target-dir")/java
../../build.sh "$out"
if ! cmp -s pom.xml "$out/docker/pom.xml"; then
  rm -rf "$out/docker"
  mkdir -p "$out/docker"
  mvn -q -B -ntp -f pom.xml dependency:copy-dependencies "-DoutputDirectory=$out/docker/jars"
  cp pom.xml "$out/docker/pom.xml"
fi
path="$out/coracle.jar:$(../../jars):$out/docker/jars/*"
home=$(../../jdk 17)
classes=$(mktemp -d "${TMPDIR:-/tmp}/coracle-docker.XXXXXX")
trap 'rm -rf "$classes"' EXIT
"$home/bin/javac" -proc:none -nowarn -d "$classes" -cp "$path" ../../src/docker/java/dev/coracle/*.java ./*.java
CORACLE_LIBRARY=$libdir/libcoracle.so.1 timeout 1800 "$home/bin/java" "-Djava.io.tmpdir=${TMPDIR:-/tmp}" -cp "$classes:$path" DockerJava
