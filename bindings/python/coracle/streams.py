"""What comes out of the engine bit by bit: sessions, logs, bodies, events."""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import select
import selectors
import socket
import time
from ctypes import byref, c_char_p, c_int32, c_void_p
from dataclasses import dataclass
from typing import Any, BinaryIO, Callable, Iterator, Optional

from ._library import (
    AGAIN,
    DONE,
    HEARTBEAT_MS,
    STDERR,
    STDIN,
    STDOUT,
    Frame,
    Handle,
    Op,
    Result,
    call,
    raw,
    take_error,
)
from .errors import Timeout, Unsupported

_NAMES = {STDIN: "stdin", STDOUT: "stdout", STDERR: "stderr"}
_PIECE = 64 * 1024
_NOT_FOUND = -7004
_NONBLOCK = 1


class Session:
    """An attached process.

    `stdin`, `stdout` and `stderr` are binary files, each None where it is not attached; on a terminal all output is in
    `stdout`. Iterating gives pieces of either output as they come. Closing it detaches: the process runs on.
    """

    def __init__(self, pointer: c_void_p) -> None:
        self._handle = Handle(pointer, "session_free")
        self._files: dict[int, Optional[BinaryIO]] = {}

    @property
    def stdin(self) -> Optional[BinaryIO]:
        """Unbuffered, for writing; closing it ends the process's stdin."""
        return self._file(STDIN)

    @property
    def stdout(self) -> Optional[BinaryIO]:
        """Buffered, for reading."""
        return self._file(STDOUT)

    @property
    def stderr(self) -> Optional[BinaryIO]:
        """Buffered, for reading."""
        return self._file(STDERR)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Pieces of output: ("stdout" or "stderr", bytes), until both have ended."""
        buffer, channel = ctypes.create_string_buffer(_PIECE), c_int32()
        while True:
            with Op() as op:
                arguments = (self._handle.pointer, buffer, len(buffer), op.handle, byref(channel))
                count = op.call("session_read", *arguments)
            if count == 0:
                return
            yield _NAMES[channel.value], buffer.raw[:count]

    def communicate(self, input: bytes = b"", timeout: Optional[float] = None) -> tuple[bytes, bytes]:
        """Writes `input` to stdin and ends it, reads both outputs to their ends: (stdout, stderr)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        outputs: dict[int, bytearray] = {STDOUT: bytearray(), STDERR: bytearray()}
        left = memoryview(input)
        with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
            sender: Optional[socket.socket] = None
            for channel in (STDIN, STDOUT, STDERR):
                file = self._file(channel)
                if file is None or file.closed:
                    continue
                if channel == STDIN and not input:
                    file.close()
                    continue
                if channel == STDIN:
                    sender = stack.enter_context(socket.socket(fileno=os.dup(file.fileno())))
                selector.register(file, selectors.EVENT_WRITE if channel == STDIN else selectors.EVENT_READ, channel)
            while selector.get_map():
                rest = None if deadline is None else deadline - time.monotonic()
                if rest is not None and rest <= 0:
                    raise Timeout.of("the process's output did not end in time")
                for key, _ in selector.select(rest):
                    file, channel = self._file(key.data), key.data
                    assert file is not None
                    if sender is not None and channel == STDIN:
                        left = left[_send_some(sender, left) :]
                        if not left:
                            selector.unregister(file)
                            sender.close()
                            file.close()
                        continue
                    # A file that was read before may hold bytes of its own.
                    piece = file.read1(_PIECE)  # type: ignore[attr-defined]
                    outputs[channel] += piece
                    if not piece:
                        selector.unregister(file)
        return bytes(outputs[STDOUT]), bytes(outputs[STDERR])

    def write(self, data: bytes, timeout: Optional[float] = None) -> int:
        """Writes to stdin, if `stdin` was not used as a file: how many bytes went, which may be fewer than all."""
        with Op(timeout) as op:
            return op.call("session_write", self._handle.pointer, data, len(data), op.handle)

    def close_stdin(self) -> None:
        """Ends the process's stdin, and the file `stdin` if it was used."""
        file = self._files.get(STDIN)
        if file is not None:
            file.close()
        else:
            call("session_close_stdin", self._handle.pointer)

    def has(self, channel: str) -> bool:
        """Whether "stdin", "stdout" or "stderr" is attached, and not yet used as a file."""
        [number] = [number for number, name in _NAMES.items() if name == channel]
        fd: int = raw("session_fd", self._handle.pointer, number)
        if fd == _NOT_FOUND or fd >= 0:
            return fd >= 0
        raise take_error(fd, c_void_p())

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits for the process's end: its exit code, 128 + n where signal n ended it."""
        code = c_int32()
        with Op(timeout) as op:
            op.call("session_wait", self._handle.pointer, op.handle, byref(code))
        return code.value

    def resize(self, rows: int, cols: int) -> None:
        """Sets the size of its terminal."""
        call("session_resize", self._handle.pointer, rows, cols)

    def close(self) -> None:
        """Detaches."""
        for file in self._files.values():
            if isinstance(file, _Input):
                file.leave()
            elif file is not None:
                file.close()
        self._handle.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _file(self, channel: int) -> Optional[BinaryIO]:
        if channel not in self._files:
            fd: int = raw("session_take_fd", self._handle.pointer, channel)
            if fd < 0:
                file: Any = None
            elif channel == STDIN:
                file = _Input(fd, self._handle)
            else:
                file = os.fdopen(fd, "rb")
            self._files[channel] = file
        return self._files[channel]


class _Input(io.FileIO):
    """A process's stdin: closing it ends it, also where it is kept open over sessions."""

    _session: Optional[Handle] = None

    def __init__(self, fd: int, session: Handle) -> None:
        super().__init__(fd, "wb")
        self._session = session

    def close(self) -> None:
        session, self._session = self._session, None
        try:
            if session is not None and not self.closed:
                call("session_close_stdin", session.pointer)
        finally:
            super().close()

    def leave(self) -> None:
        """Closes it, and leaves the process its stdin if that is kept open."""
        self._session = None
        self.close()

    def __del__(self) -> None:
        self.leave()


def _send_some(sender: socket.socket, data: memoryview) -> int:
    """Sends what goes at once; a reader that is gone takes all."""
    try:
        return sender.send(data[:_PIECE], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except BlockingIOError:
        return 0
    except (BrokenPipeError, ConnectionResetError):
        return len(data)


@dataclass(frozen=True)
class LogLine:
    """A line of a log, with its newline; `time_ns` is nanoseconds since 1970."""

    channel: str
    time_ns: int
    data: bytes

    @property
    def text(self) -> str:
        """The line without its newline."""
        return self.data.decode(errors="replace").rstrip("\n")


class Logs(Iterator[LogLine]):
    """The lines of a log; while it is followed, next() waits for the next one."""

    def __init__(self, pointer: c_void_p) -> None:
        self._handle = Handle(pointer, "stream_free")

    def __next__(self) -> LogLine:
        frame = Frame(size=ctypes.sizeof(Frame))
        with Op() as op:
            if op.call("stream_next", self._handle.pointer, op.handle, byref(frame)) == DONE:
                raise StopIteration
        data = ctypes.string_at(frame.data, frame.len) if frame.len else b""
        return LogLine(_NAMES[frame.channel], frame.time_ns, data)

    @property
    def lost(self) -> int:
        """How many lines it missed so far: the log's bounds deleted them before they were read."""
        return _number("stream_lost", self._handle)

    def fileno(self) -> int:
        """Readable while a line may be waiting."""
        return _fileno("stream_fd", self._handle)

    def close(self) -> None:
        self._handle.close()

    def __enter__(self) -> Logs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Samples(Iterator["dict[str, Any]"]):
    """Samples of what a container uses, one a second: documents of GET /containers/{id}/stats."""

    def __init__(self, pointer: c_void_p) -> None:
        self._handle = Handle(pointer, "stream_free")

    def __next__(self) -> "dict[str, Any]":
        frame = Frame(size=ctypes.sizeof(Frame))
        with Op() as op:
            if op.call("stream_next", self._handle.pointer, op.handle, byref(frame)) == DONE:
                raise StopIteration
        return json.loads(ctypes.string_at(frame.data, frame.len))  # type: ignore[no-any-return]

    def fileno(self) -> int:
        """Readable when the next sample is due."""
        return _fileno("stream_fd", self._handle)

    def close(self) -> None:
        self._handle.close()

    def __enter__(self) -> Samples:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Pending:
    """A wait that was begun: `fileno()` is readable when `result()` has the exit code at once."""

    def __init__(self, begin: "Callable[[c_void_p], object]") -> None:
        pointer = c_void_p()
        call("op_new", _NONBLOCK, byref(pointer))
        self._handle = Handle(pointer, "op_free")
        begin(pointer)

    def fileno(self) -> int:
        return _number("op_fd", self._handle)

    def result(self, timeout: Optional[float] = None) -> int:
        """The exit code; Timeout when the time (seconds) passed, and the wait goes on."""
        result = Result(size=ctypes.sizeof(Result), code=-1)
        deadline = None if timeout is None else time.monotonic() + timeout
        while call("op_result", self._handle.pointer, byref(result)) == AGAIN:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Timeout.of("the container did not end in time")
            select.select([self.fileno()], [], [], left)
        for text in (result.id, result.json):
            raw("free", text)
        return int(result.code)

    def cancel(self) -> None:
        """Ends the wait: `result()` raises `Cancelled`."""
        raw("op_cancel", self._handle.pointer)

    def close(self) -> None:
        self._handle.close()

    def __enter__(self) -> Pending:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Body(io.RawIOBase):
    """Bytes out of the engine, as a file: an archive, the body of an answer."""

    def __init__(self, pointer: c_void_p) -> None:
        super().__init__()
        self._handle = Handle(pointer, "stream_free")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if not len(view):
            return 0
        place = (ctypes.c_char * len(view)).from_buffer(view)
        with Op() as op:
            return op.call("stream_read", self._handle.pointer, place, len(view), op.handle)

    def fileno(self) -> int:
        """Readable while there may be something to read; the bytes come by read()."""
        return _fileno("stream_fd", self._handle)

    def close(self) -> None:
        self._handle.close()
        super().close()


class Events(Iterator["dict[str, Any]"]):
    """Events of a root, as documents of the HTTP API; next() waits for the next one."""

    def __init__(self, pointer: c_void_p) -> None:
        self._handle = Handle(pointer, "events_free")

    def next(self, timeout: Optional[float] = None) -> Optional[dict[str, Any]]:
        """The next event; None when the timeout (seconds) passed or `until` is reached."""
        found = self._next(timeout)
        return found if isinstance(found, dict) else None

    def __next__(self) -> dict[str, Any]:
        found = self._next(None)
        if isinstance(found, dict):
            return found
        raise StopIteration

    def _next(self, timeout: Optional[float]) -> Any:
        left = None if timeout is None else int(timeout * 1000)
        while True:
            # In pieces, so that Python's signal handlers get their turn.
            piece = HEARTBEAT_MS if left is None else min(left, HEARTBEAT_MS)
            out = c_char_p()
            status = call("events_next", self._handle.pointer, piece, byref(out))
            if status == AGAIN:
                if left is None or left > piece:
                    left = None if left is None else left - piece
                    continue
                return AGAIN
            return DONE if status == DONE else json.loads(out.value or b"null")

    def fileno(self) -> int:
        """Readable while an event may be waiting, for an event loop: then `next(0)` until that is None."""
        return _fileno("events_fd", self._handle)

    def close(self) -> None:
        self._handle.close()

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _fileno(function: str, handle: Handle) -> int:
    try:
        return _number(function, handle)
    except Unsupported:
        raise io.UnsupportedOperation("fileno") from None


def _number(function: str, handle: Handle) -> int:
    number: int = raw(function, handle.pointer)
    if number < 0:
        raise take_error(number, c_void_p())
    return number
