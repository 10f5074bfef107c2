"""What the tests of the surface make: operations, archives, roots, containers, limits."""

from __future__ import annotations

import contextlib
import ctypes
import io as text_io
import json
import os
import resource
import tarfile
from ctypes import c_void_p
from pathlib import Path
from typing import Any, Iterator, Optional

from library import NUMBERS, PROGRESS, READ, good, io, options

# How long to wait, in milliseconds, for something that comes: a disk may stand still for more than a minute.
LONG = 300_000
NONBLOCK = NUMBERS["CORACLE_OP_NONBLOCK"]


def op(flags: int = 0, ms: Optional[int] = None, cancelled: bool = False) -> c_void_p:
    made = c_void_p(good("coracle_op_new", flags=flags)["out"])
    if ms is not None:
        good("coracle_op_set_timeout", op=made, ms=ms)
    if cancelled:
        good("coracle_op_cancel", op=made)
    return made


@contextlib.contextmanager
def refusing() -> Iterator[c_void_p]:
    """An operation whose progress function refuses each record, and each heartbeat."""
    made, function = op(), PROGRESS(lambda user, record: 7)
    good("coracle_op_set_progress", op=made, fn=function, heartbeat_ms=1)
    yield made
    good("coracle_op_free", op=made)


def source(data: bytes) -> Any:
    """A read function that gives these bytes."""
    file = text_io.BytesIO(data)

    def read(_user: Any, buffer: int, length: int) -> int:
        piece = file.read(length)
        ctypes.memmove(buffer, piece, len(piece))
        return len(piece)

    return READ(read)


REFUSE = READ(lambda user, buffer, length: -5)


def archive(**files: bytes) -> bytes:
    out = text_io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, text_io.BytesIO(data))
    return out.getvalue()


@contextlib.contextmanager
def limit(what: int, value: int) -> Iterator[None]:
    old = resource.getrlimit(what)
    resource.setrlimit(what, (value, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, old)


def no_descriptors() -> Any:
    """No further descriptor can be opened."""
    lowest = os.open("/", os.O_RDONLY)
    os.close(lowest)
    return limit(resource.RLIMIT_NOFILE, lowest)


def fill(path: Path, leave: int) -> None:
    """Leaves so many bytes of a disk."""
    free = os.statvfs(path)
    with open(path / "filler", "ab") as file:
        file.write(bytes(max(0, free.f_bavail * free.f_bsize - leave)))


def open_root(path: Path, run: Path, flags: int = 0) -> c_void_p:
    opened = good("coracle_open", root=str(path), opt=options(run, {"durability": "off"}, flags))
    return c_void_p(opened["out"])


def load(c: c_void_p, image: str) -> str:
    names = json.loads(good("coracle_image_load", c=c, tar=source(Path(image).read_bytes()))["out_json"])
    return str(names[0])


def create(c: c_void_p, image: str, script: str = "sleep 1000", name: Optional[str] = None, **more: Any) -> str:
    host = {"NetworkMode": "none", **more.pop("HostConfig", {})}
    body = {"Image": image, "Cmd": ["sh", "-c", script], "HostConfig": host, **more}
    return str(good("coracle_container_create", c=c, name=name, body_json=body)["out_id"])


def running(c: c_void_p, image: str, script: str = "sleep 1000", **more: Any) -> str:
    made = create(c, image, script, **more)
    good("coracle_container_start", c=c, id=made)
    return made


def session(c: c_void_p, id: str) -> c_void_p:
    return c_void_p(good("coracle_container_start", c=c, id=id, io=io())["out"])
