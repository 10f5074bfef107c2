"""Builds an image, and shows what the builder says: build.py ROOT. The root has the image busybox."""

import pathlib
import sys
import tempfile

import coracle

with coracle.open(sys.argv[1] if len(sys.argv) > 1 else "/var/lib/coracle") as engine, tempfile.TemporaryDirectory() as context:
    pathlib.Path(context, "greeting").write_text("hello\n")
    pathlib.Path(context, "Dockerfile").write_text('FROM busybox\nCOPY greeting /\nRUN cat /greeting\nCMD ["cat", "/greeting"]\n')

    image = engine.images.build(
        context, t=["greeting:python"], networkmode="none", progress=lambda record: print(record.get("stream", ""), end="")
    )
    print("built", image)
    engine.images.remove("greeting:python")
