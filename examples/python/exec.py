"""Runs a second process in a container, and writes its stdin: exec.py ROOT. The root has the image busybox."""

import sys

import coracle

with coracle.open(sys.argv[1] if len(sys.argv) > 1 else "/var/lib/coracle") as engine:
    container = engine.containers.create("busybox", ["sleep", "1000"])
    container.start()
    result = container.exec_run(["sort"], input=b"pear\napple\nfig\n", timeout=120)
    print(result.stdout.decode(), end="")
    print("exit code", result.exit_code)
    container.remove(force=True)
