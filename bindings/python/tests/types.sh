#!/bin/sh
# types.sh: the type hints of the package, by mypy and pyright out of an environment in target/types, which is made if it is missing.
set -eu
cd "$(dirname "$0")/.."
# Where packages come from is out of reach by chance at times, so there are three attempts, with pauses.
installed() {
  for attempt in 1 2 3; do
    if "$types/bin/pip" install -q "$@"; then return; fi
    echo "types.sh: pip: attempt $attempt of 3 failed" >&2
    if [ "$attempt" != 3 ]; then sleep $((attempt * 15)); fi
  done
  return 1
}

types=${CARGO_TARGET_DIR:-../../target}/types
if ! "$types/bin/pyright" --version >/dev/null 2>&1; then
  rm -rf "$types"
  python3 -m venv "$types"
  installed 'mypy==2.4.1' 'pyright[nodejs]==1.1.414'
fi
"$types/bin/mypy" --strict coracle
"$types/bin/pyright" coracle
