"""Archives that the library reads by a descriptor, on its own threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from ctypes import c_void_p
from typing import Any, AsyncIterable, AsyncIterator, Callable, Optional, Union

from .._library import Descriptor
from ._begun import Answer, Begun

#: An archive: a path, its bytes, or an asynchronous iterable of bytes, such as an `asyncio.StreamReader`.
Archive = Union[str, "os.PathLike[str]", bytes, AsyncIterable[bytes]]


class Source:
    """A descriptor for the library, and the task that writes into its other end, if there is one."""

    def __init__(self, fd: int, feeder: "Optional[asyncio.Task[None]]" = None, end: Callable[[], object] = lambda: None) -> None:
        descriptor = Descriptor(fd)
        self.arguments: "tuple[Any, c_void_p]" = (descriptor.function, descriptor.user)
        self._feeder, self._end = feeder, end

    async def answer(self, begun: Begun) -> Answer:
        """The answer of the call that reads the descriptor; an exception of the iterable comes in place of the library's error."""
        try:
            answer = await begun.answer(undo=self.stop)
        except Exception:
            self._check()
            raise
        # The library takes an input that broke off for one that ended.
        self._check()
        return answer

    def _check(self) -> None:
        feeder = self._feeder
        problem = feeder.exception() if feeder is not None and feeder.done() and not feeder.cancelled() else None
        if problem is not None:
            raise problem from None

    def stop(self) -> None:
        """Ends the input, so that a read of the library ends."""
        if self._feeder is not None:
            self._feeder.cancel()
        self._end()


@contextlib.asynccontextmanager
async def described(archive: Archive) -> "AsyncIterator[Source]":
    """The archive as a source for a call that is begun."""
    with contextlib.ExitStack() as stack:
        if isinstance(archive, bytes):
            fd = os.memfd_create("coracle-archive", os.MFD_CLOEXEC)
            stack.callback(os.close, fd)
            with open(os.dup(fd), "wb") as file:
                file.write(archive)
            os.lseek(fd, 0, os.SEEK_SET)
            yield Source(fd)
        elif isinstance(archive, (str, os.PathLike)):
            fd = os.open(archive, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, fd)
            yield Source(fd)
        else:
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            stack.enter_context(theirs)
            ours.setblocking(False)
            feeder = asyncio.ensure_future(_feed(ours, archive))
            # The library has a duplicate of its end, and reads the end of the input when both of ours are closed.
            source = Source(theirs.fileno(), feeder, lambda: _shut(ours))
            try:
                yield source
            finally:
                source.stop()
                await asyncio.wait({feeder})
                if not feeder.cancelled():
                    feeder.exception()


async def _feed(into: socket.socket, archive: AsyncIterable[bytes]) -> None:
    """Writes the pieces of an iterable, until the reader is gone, and ends the input."""
    loop = asyncio.get_running_loop()
    try:
        with contextlib.suppress(ConnectionError):
            async for piece in archive:
                await loop.sock_sendall(into, piece)
    finally:
        _shut(into)


def _shut(into: socket.socket) -> None:
    with contextlib.suppress(OSError):
        into.shutdown(socket.SHUT_WR)
