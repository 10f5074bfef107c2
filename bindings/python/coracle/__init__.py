"""Coracle: containers in process.

    import coracle

    with coracle.open("/var/lib/app/containers") as engine:
        [image] = engine.images.load("busybox.tar")
        container = engine.containers.create(image, ["sh", "-c", "cat; echo done >&2"], stdin=True)
        with container.start_attached() as session:
            stdout, stderr = session.communicate(b"hello\\n")
        print(container.wait(), stdout, stderr)
        container.remove()

Every call blocks and lets other threads run; Ctrl-C ends one that the main thread waits in. Errors are `coracle.Error`
and its subclasses. Documents are those of the Docker API 1.24, as dicts.
"""

from ._library import Scope
from ._library import raw as _raw
from .containers import Container, Containers, Exec, ExecResult
from .engine import Engine, Response, Server, host_report, open
from .errors import (
    Cancelled,
    Conflict,
    Error,
    Forbidden,
    Forked,
    Invalid,
    Misuse,
    NotFound,
    Timeout,
    Unsupported,
)
from .images import Images
from .library import build_info, has_feature, set_log, status_name, version
from .networks import Networks
from .plugins import Plugins
from .streams import Body, Events, LogLine, Logs, Pending, Samples, Session
from .volumes import Volumes

__version__: str = _raw("version_string").decode()

__all__ = [
    "Body",
    "Cancelled",
    "Conflict",
    "Container",
    "Containers",
    "Engine",
    "Error",
    "Events",
    "Exec",
    "ExecResult",
    "Forbidden",
    "Forked",
    "Images",
    "Invalid",
    "LogLine",
    "Logs",
    "Misuse",
    "Networks",
    "NotFound",
    "Pending",
    "Plugins",
    "Response",
    "Samples",
    "Scope",
    "Server",
    "Session",
    "Timeout",
    "Unsupported",
    "Volumes",
    "build_info",
    "has_feature",
    "host_report",
    "open",
    "set_log",
    "status_name",
    "version",
]
