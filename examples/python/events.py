"""Follows the events of a root, while a container is made, run and removed: events.py ROOT. The root has the image busybox."""

import sys

import coracle

with coracle.open(sys.argv[1] if len(sys.argv) > 1 else "/var/lib/coracle") as engine:
    # Events of every program on the root, from here on; `fileno()` is for event loops.
    with engine.events(filters={"type": ["container"]}) as events:
        container = engine.containers.create("busybox", ["true"])
        container.start()
        container.wait()
        container.remove()
        while event := events.next(timeout=30):
            print(event["sequence"], event["Action"], event["Actor"]["ID"])
            # A program that begins again later asks for the events `after` this sequence number.
            if event["Action"] == "destroy" and event["Actor"]["ID"] == container.id:
                break
