#!/bin/bash
# Execs and attached runs by the docker command: URL COUNT RUNNING ENDED OUTPUT. The output has the form of lost.py's.
set -eu
url=$1 count=$2 running=$3 output=$5
export DOCKER_HOST=$url DOCKER_API_VERSION=1.24
for ((number = 0; number < count; number++)); do
  said=$(docker exec "$running" echo "hello $number"; echo .)
  [ "$said" = "hello $number"$'\n.' ] || echo "lost exec $said"
  # The command attaches to nothing that has ended: one of its own, each time.
  told=$(docker run --rm --network none busybox echo "$output"; echo .)
  [ "$told" = "$output"$'\n.' ] || echo "lost attach $told"
done
echo "done $count"
