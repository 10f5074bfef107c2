#!/bin/bash
# run.sh: the Python binding's tests. CORACLE_LIBRARY may name the library, CORACLE_TEST_IMAGE the image; else both are made.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=.
exec ../scenarios/with-library "${PYTHON:-python3}" - <<'PROGRAM'
import sys
import unittest

result = unittest.TextTestRunner(verbosity=1).run(unittest.defaultTestLoader.discover("tests"))
bad = len(result.failures) + len(result.errors)
print(f"{result.testsRun - bad} passed, {bad} failed")
sys.exit(bool(bad))
PROGRAM
