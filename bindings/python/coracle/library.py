"""The library itself: its version, its features, its log. No function here needs a root."""

from __future__ import annotations

import atexit
import json
from ctypes import c_void_p, cast
from typing import Any, Callable, Optional

from ._library import LOG, call, raw, text

#: Takes a message of the library: its level (1 error, 2 warning, 3 info, 4 debug), the part of the engine, the text.
Sink = Callable[[int, str, str], object]


def version() -> "tuple[int, int, int]":
    """The library's version: major, minor, patch."""
    number = raw("version")
    return number >> 16, number >> 8 & 0xFF, number & 0xFF


def build_info() -> "dict[str, Any]":
    """How the library was built: "version", "os", "arch", "debug"."""
    return json.loads(raw("build_info"))  # type: ignore[no-any-return]


def has_feature(name: str) -> bool:
    """Whether the library has a feature, such as "registry" or "leases"."""
    return bool(raw("has_feature", text(name)))


def status_name(code: int) -> str:
    """The name of a code of the library, such as "NOT_FOUND" for -7004."""
    return str(raw("status_name", code).decode())


#: The library may call a sink for a moment after its removal, so that each one stays.
_sinks: "list[Any]" = []


def set_log(sink: Optional[Sink], level: int = 3) -> None:
    """Has `sink` called with the messages of that level and graver, on any thread; None: nothing is called any more.

    The sink must not call the library; what it raises is dropped.
    """
    if sink is None:
        call("set_log", level, None, None, None)
        return

    def told(_user: Optional[int], of: int, target: bytes, message: bytes) -> None:
        sink(of, target.decode(errors="replace"), message.decode(errors="replace"))

    callback = LOG(told)
    if not _sinks:
        # A thread of the library must not call into an interpreter that has ended.
        atexit.register(set_log, None)
    _sinks.append(callback)
    call("set_log", level, cast(callback, c_void_p), None, None)
