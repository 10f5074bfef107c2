"""Runs a container, and reads its output: run.py ROOT. The root has the image busybox."""

import sys

import coracle

with coracle.open(sys.argv[1] if len(sys.argv) > 1 else "/var/lib/coracle") as engine:
    container = engine.containers.create("busybox", ["sh", "-c", "echo output; echo errors >&2; exit 3"])
    # The session is there before the program runs, so no byte is missed.
    with container.start_attached() as session:
        for channel, piece in session:
            print(f"{channel}: {piece.decode()}", end="")
        print("exit code", session.wait())
    container.remove()
