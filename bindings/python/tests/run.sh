#!/bin/bash
# run.sh: the Python binding's tests. CORACLE_LIBRARY may name the library; else a development build is made.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$(realpath ../..)
work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-python.XXXXXX")
trap 'rm -rf "$work"' EXIT

if [ -z "${CORACLE_LIBRARY-}" ]; then
  PROFILE=dev OUT=$work/lib "$top/ffi/dist" >/dev/null
  export CORACLE_LIBRARY=$work/lib/libcoracle.so.1
fi
if [ -z "${CORACLE_TEST_IMAGE-}" ]; then
  export CORACLE_TEST_IMAGE=$work/busybox.tar
  "$top/tools/make-busybox-image" "$CORACLE_TEST_IMAGE"
fi
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=. timeout 1800 "${PYTHON:-python3}" - <<'PROGRAM'
import sys
import unittest

result = unittest.TextTestRunner(verbosity=1).run(unittest.defaultTestLoader.discover("tests"))
bad = len(result.failures) + len(result.errors)
print(f"{result.testsRun - bad} passed, {bad} failed")
sys.exit(bool(bad))
PROGRAM
