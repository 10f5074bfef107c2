"""The built library beside the surface of the last release (`tests/abi/baseline`): a symbol that is gone, has another version or
is new must stand in CHANGELOG.md.

    abi.py LIBRARY BASELINE CHANGELOG
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def main() -> int:
    library, baseline, changelog = sys.argv[1:]
    named = set(re.findall(r"\w+", Path(changelog).read_text()))
    lines = [line.split(": ", 1) for line in Path(baseline).read_text().splitlines()]
    before = {name.split()[0]: text for name, text in lines if name.endswith(" symbol")}
    listed = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True, capture_output=True, text=True)
    symbols = [line.split()[2] for line in listed.stdout.splitlines() if line.split()[1] != "A"]
    now = {symbol.split("@")[0]: symbol for symbol in symbols}
    silent = [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name) and name not in named]
    for name in silent:
        print(f"failed: {name}: {before.get(name)} in the baseline, {now.get(name)} in the library, and nothing in {changelog}")
    print(f"{len(now) - len(silent)} passed, {len(silent)} failed")
    return bool(silent or not now)


if __name__ == "__main__":
    sys.exit(main())
