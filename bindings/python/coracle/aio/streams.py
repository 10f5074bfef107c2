"""Sessions, logs, samples, bodies and events in an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import socket
from ctypes import byref, c_char_p, c_int32, c_void_p
from typing import Any, AsyncIterator, Callable, Optional, TypeVar

from .._library import AGAIN, DONE, STDERR, STDIN, STDOUT, Frame, Handle, call, raw
from ..errors import Error, Misuse, Timeout
from ..streams import LogLine
from ._begun import Begun, Readiness, begin

T = TypeVar("T")

_NAMES = {STDOUT: "stdout", STDERR: "stderr"}
_PIECE = 64 * 1024
#: How long, in milliseconds, a read may take whose descriptor was readable: another cause than data is possible, but rare.
_GLANCE = 20


class Session:
    """An attached process.

    `stdin` is an `asyncio.StreamWriter`, `stdout` and `stderr` are `asyncio.StreamReader`, each None where it is not attached; on
    a terminal all output is in `stdout`. Iterating gives pieces of either output as they come. Closing it detaches: the process
    runs on.
    """

    def __init__(self, pointer: c_void_p) -> None:
        self._handle = Handle(pointer, "session_free")
        self.stdin: Optional[asyncio.StreamWriter] = None
        self.stdout: Optional[asyncio.StreamReader] = None
        self.stderr: Optional[asyncio.StreamReader] = None
        self._pipes: "list[asyncio.ReadTransport]" = []
        #: Reads under way, by the names of their streams; a cancelled `read()` leaves them, so that no byte is lost.
        self._reads: "dict[str, asyncio.Task[bytes]]" = {}
        self._reading = False

    async def _open(self) -> Session:
        """Takes the streams into the loop."""
        try:
            self.stdout, self.stderr = await self._output(STDOUT), await self._output(STDERR)
            fd = raw("session_take_fd", self._handle.pointer, STDIN)
            if fd >= 0:
                _, self.stdin = await asyncio.open_connection(sock=socket.socket(fileno=fd))
                # So `drain()` means that the process's socket has everything.
                self.stdin.transport.set_write_buffer_limits(0)
        except BaseException:
            self.close()
            raise
        return self

    async def _output(self, channel: int) -> Optional[asyncio.StreamReader]:
        fd = raw("session_take_fd", self._handle.pointer, channel)
        if fd < 0:
            return None
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(fd, "rb", 0))
        self._pipes.append(pipe)
        return reader

    async def read(self) -> Optional["tuple[str, bytes]"]:
        """The next piece of output, ("stdout" or "stderr", bytes); None when both have ended."""
        self._handle.pointer
        if self._reading:
            raise Misuse("another task reads", code=-7016, kind="MISUSE", status=500)
        self._reading = True
        try:
            return await self._read()
        finally:
            self._reading = False

    async def _read(self) -> Optional["tuple[str, bytes]"]:
        while True:
            for name, reader in (("stdout", self.stdout), ("stderr", self.stderr)):
                if reader is not None and name not in self._reads and not reader.at_eof():
                    self._reads[name] = asyncio.ensure_future(reader.read(_PIECE))
            if not self._reads:
                return None
            done, _ = await asyncio.wait(self._reads.values(), return_when=asyncio.FIRST_COMPLETED)
            for name in [name for name, read in self._reads.items() if read in done]:
                piece = self._reads.pop(name).result()
                if piece:
                    return name, piece

    async def __aiter__(self) -> "AsyncIterator[tuple[str, bytes]]":
        piece = await self.read()
        while piece is not None:
            yield piece
            piece = await self.read()

    async def write(self, data: bytes) -> int:
        """Writes all of `data` to stdin, as fast as the process reads."""
        self._handle.pointer
        if self.stdin is None:
            raise Misuse("the session has no stdin", code=-7016, kind="MISUSE", status=500)
        try:
            self.stdin.write(data)
            await self.stdin.drain()
        except ConnectionError as problem:
            raise Error("the process ended", code=-7009, kind="IO", status=500, errno=problem.errno or 0) from None
        return len(data)

    async def close_stdin(self) -> None:
        """Ends the process's stdin: the process reads the bytes that were written, then the end."""
        stdin, self.stdin = self.stdin, None
        try:
            if stdin is not None:
                with contextlib.suppress(ConnectionError):
                    await stdin.drain()
        finally:  # Also if the task is cancelled in the drain: nobody else knows the writer any more.
            try:
                # The library tells the process's keeper before the descriptor goes: else it would take that for a detached session.
                call("session_close_stdin", self._handle.pointer)
            finally:
                if stdin is not None:
                    stdin.close()

    async def communicate(self, input: bytes = b"", timeout: Optional[float] = None) -> "tuple[bytes, bytes]":
        """Writes `input` to stdin and ends it, reads both outputs to their ends: (stdout, stderr)."""
        try:
            return await asyncio.wait_for(self._communicate(input), timeout)
        except asyncio.TimeoutError as problem:
            if isinstance(problem, Error):
                raise
            raise Timeout.of("the process's output did not end in time") from None

    async def _communicate(self, input: bytes) -> "tuple[bytes, bytes]":
        sender = asyncio.ensure_future(self._send(input))
        outputs = {"stdout": bytearray(), "stderr": bytearray()}
        try:
            async for name, piece in self:
                outputs[name] += piece
            await sender
        finally:
            sender.cancel()
        return bytes(outputs["stdout"]), bytes(outputs["stderr"])

    async def _send(self, input: bytes) -> None:
        """Sends all, to a process that may end before it read everything."""
        if self.stdin is None:
            return
        with contextlib.suppress(Error):
            if input:
                await self.write(input)
            await self.close_stdin()

    def has(self, channel: str) -> bool:
        """Whether "stdin", "stdout" or "stderr" is attached."""
        self._handle.pointer
        return {"stdin": self.stdin, "stdout": self.stdout, "stderr": self.stderr}[channel] is not None

    async def wait(self, timeout: Optional[float] = None) -> int:
        """Waits for the process's end: its exit code, 128 + n where signal n ended it."""
        return (await begin("session_wait", self._handle.pointer, timeout=timeout)).code

    def resize(self, rows: int, cols: int) -> None:
        """Sets the size of its terminal."""
        call("session_resize", self._handle.pointer, rows, cols)

    def close(self) -> None:
        """Detaches."""
        for read in self._reads.values():
            read.cancel()
        self._reads.clear()
        for pipe in self._pipes:
            pipe.close()
        if self.stdin is not None:
            self.stdin.close()
        self._handle.close()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


async def session_of(pointer: c_void_p) -> Session:
    """The session of an answer."""
    return await Session(pointer)._open()


class _Stream:
    """A handle of the library whose descriptor says when there may be something."""

    def __init__(self, pointer: c_void_p, fd: str, free: str) -> None:
        self._handle = Handle(pointer, free)
        self._ready = Readiness(fd, self._handle)

    async def _get(self, name: str, *arguments: Any, last: "tuple[Any, ...]" = ()) -> int:
        """Calls with an operation that lasts for a moment, whenever the descriptor is readable, until there is something."""
        while True:
            await self._ready.wait()
            op = c_void_p()
            call("op_new", 0, byref(op))
            raw("op_set_timeout", op, _GLANCE)
            try:
                return call(name, self._handle.pointer, *arguments, op, *last)
            except Timeout:
                continue
            finally:
                raw("op_free", op)

    def fileno(self) -> int:
        """The descriptor that the loop watches while a task waits here."""
        return self._ready.fileno()

    def close(self) -> None:
        """Ends it; a task that waits here gets `Misuse`."""
        self._ready.close()
        self._handle.close()

    async def __aenter__(self: T) -> T:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Logs(_Stream):
    """The lines of a log, as an asynchronous iterator; while it is followed, it waits for the next one."""

    def __init__(self, pointer: c_void_p) -> None:
        super().__init__(pointer, "stream_fd", "stream_free")

    def __aiter__(self) -> Logs:
        return self

    async def __anext__(self) -> LogLine:
        frame = Frame(size=ctypes.sizeof(Frame))
        if await self._get("stream_next", last=(byref(frame),)) == DONE:
            raise StopAsyncIteration
        data = ctypes.string_at(frame.data, frame.len) if frame.len else b""
        return LogLine(_NAMES[frame.channel], frame.time_ns, data)

    @property
    def lost(self) -> int:
        """How many lines it missed so far: the log's bounds deleted them before they were read."""
        return int(raw("stream_lost", self._handle.pointer))


class Samples(_Stream):
    """Samples of what a container uses, one a second, as an asynchronous iterator of documents."""

    def __init__(self, pointer: c_void_p) -> None:
        super().__init__(pointer, "stream_fd", "stream_free")

    def __aiter__(self) -> Samples:
        return self

    async def __anext__(self) -> "dict[str, Any]":
        frame = Frame(size=ctypes.sizeof(Frame))
        if await self._get("stream_next", last=(byref(frame),)) == DONE:
            raise StopAsyncIteration
        return json.loads(ctypes.string_at(frame.data, frame.len))  # type: ignore[no-any-return]


class Body(_Stream):
    """Bytes out of the engine: an archive, the body of an answer. Iterating gives pieces."""

    def __init__(self, pointer: c_void_p) -> None:
        super().__init__(pointer, "stream_fd", "stream_free")

    async def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, b"" at the end; without a size all to the end."""
        if size < 0:
            return b"".join([piece async for piece in self])
        buffer = ctypes.create_string_buffer(max(size, 1))
        count = await self._get("stream_read", buffer, size)
        return buffer.raw[:count]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        piece = await self.read(_PIECE)
        while piece:
            yield piece
            piece = await self.read(_PIECE)


class Events(_Stream):
    """Events of a root, as documents of the HTTP API; an asynchronous iterator that waits for the next one."""

    def __init__(self, pointer: c_void_p) -> None:
        super().__init__(pointer, "events_fd", "events_free")

    async def next(self, timeout: Optional[float] = None) -> Optional["dict[str, Any]"]:
        """The next event; None when the timeout (seconds) passed or `until` is reached."""
        found = self._look()
        if found is None and timeout != 0:
            with contextlib.suppress(asyncio.TimeoutError, StopAsyncIteration):
                return await asyncio.wait_for(self.__anext__(), timeout)
        return found or None

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> "dict[str, Any]":
        while True:
            found = self._look()
            if found:
                return found
            if found is not None:
                raise StopAsyncIteration
            await self._ready.wait()

    def _look(self) -> "Optional[dict[str, Any]]":
        """The next event if it is there; None if there is none yet, an empty document at the end."""
        out = c_char_p()
        status = call("events_next", self._handle.pointer, 0, byref(out))
        if status == AGAIN:
            return None
        return {} if status == DONE else json.loads(out.value or b"null")


class Pending:
    """A wait that was begun: no end after that moment is missed. `await pending.result()` has the exit code."""

    def __init__(self, begun: Begun) -> None:
        self._begun = begun
        self._task: "Optional[asyncio.Task[int]]" = None

    async def result(self, timeout: Optional[float] = None) -> int:
        """The exit code; Timeout when the time (seconds) passed. The wait goes on then, and if the task is cancelled."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._code())
        try:
            return await asyncio.wait_for(asyncio.shield(self._task), timeout)
        except asyncio.TimeoutError as problem:
            if isinstance(problem, Error):
                raise
            raise Timeout.of("the container did not end in time") from None

    async def _code(self) -> int:
        return (await self._begun.answer()).code

    def cancel(self) -> None:
        """Ends the wait: `result()` raises `Cancelled`."""
        self._begun.cancel()

    def close(self) -> None:
        """Drops the wait; a task that awaits the result gets `Misuse`."""
        self._begun.close()

    async def __aenter__(self) -> Pending:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
