"""Follows a container's log while the container runs: logs.py ROOT. The root has the image busybox."""

import sys

import coracle

with coracle.open(sys.argv[1] if len(sys.argv) > 1 else "/var/lib/coracle") as engine:
    container = engine.containers.create("busybox", ["sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.1; done"])
    container.start()
    # The iterator waits for lines, and ends after the container.
    with container.logs(follow=True) as log:
        for line in log:
            print(line.text)
        # A reader that is slower than the rotation of the log misses lines, and learns how many.
        print(log.lost, "lines were missed")
    container.wait()
    container.remove()
