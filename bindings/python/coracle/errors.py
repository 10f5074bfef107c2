"""What goes wrong, as exceptions."""

from __future__ import annotations

from typing import Any, Optional


class Error(Exception):
    """An error of the engine.

    kind: the coarse reason, such as "NOT_FOUND". status: the HTTP status of it. errno: the kernel's number, where the
    kernel said no, else 0. area: the part of the engine that failed; may be empty. detail: more for programs.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        kind: str = "",
        status: int = 0,
        errno: int = 0,
        area: str = "",
        detail: Optional[dict[str, Any]] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.kind = kind
        self.status = status
        self.errno = errno
        self.area = area
        self.detail = detail or {}


class Invalid(Error, ValueError):
    """A parameter or document is wrong."""


class Forbidden(Error, PermissionError):  # type: ignore[misc]
    """Not permitted."""


class NotFound(Error, LookupError):
    """No such container, image or exec instance."""


class Conflict(Error):
    """The object's state, or another object, is in the way."""


class Unsupported(Error, NotImplementedError):
    """Not built, or not supported by this kernel."""


class Timeout(Error, TimeoutError):  # type: ignore[misc]
    """The timeout passed: the only exception for that, of every call and in every loop."""

    @classmethod
    def of(cls, message: str) -> Timeout:
        """The error of a time that passed in Python, and not in the library."""
        return cls(message, code=-7011, kind="TIMEOUT", status=500)


class Cancelled(Error):
    """The operation was cancelled."""


class Forked(Error):
    """This process is a fork of the one that opened the engine: it has to open the root for itself."""


class Misuse(Error):
    """A handle is closed, or in use by another thread."""


_CLASSES: dict[int, type[Error]] = {
    -7001: Invalid,
    -7003: Forbidden,
    -7004: NotFound,
    -7005: Conflict,
    -7007: Unsupported,
    -7011: Timeout,
    -7012: Cancelled,
    -7014: Forked,
    -7016: Misuse,
}


def error_class(code: int) -> type[Error]:
    """The exception for a code of the library."""
    return _CLASSES.get(code, Error)
