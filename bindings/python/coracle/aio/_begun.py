"""Calls that are begun, and awaited by the descriptor of their operation: no thread of Python waits."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import json
from ctypes import byref, c_void_p
from dataclasses import dataclass
from typing import Any, Callable, Coroutine, Generator, Optional, TypeVar, cast

from .._library import AGAIN, FUNCTIONS, Handle, Result, Scope, call, raw, take_error, take_text
from ..errors import Error, Misuse, Unsupported

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Coroutine[Any, Any, Any]])

_NONBLOCK = 1


@dataclass(frozen=True)
class Answer:
    """The answer of a call: its status, and the members that the call has. The session and the stream are the taker's to end."""

    status: int
    code: int
    id: str
    json: str
    session: c_void_p
    stream: c_void_p

    def document(self) -> Any:
        """The JSON document of the answer."""
        return json.loads(self.json)


class Begun:
    """A call that has begun. The library refuses wrong arguments here, at once; `answer()` has everything else."""

    def __init__(self, name: str, *arguments: Any, timeout: Optional[float] = None) -> None:
        pointer = c_void_p()
        call("op_new", _NONBLOCK, byref(pointer))
        self._handle = Handle(pointer, "op_free")
        self._ready = Readiness("op_fd", self._handle)
        try:
            if timeout is not None:
                raw("op_set_timeout", pointer, max(0, int(timeout * 1000)))
            # After the operation come the "out" arguments, which a call that is begun does not write, and the error.
            outs = len(FUNCTIONS[name][1]) - len(arguments) - 2
            call(name, *arguments, pointer, *[None] * outs)
        except BaseException:
            self._handle.close()
            raise

    async def answer(self, undo: Callable[[], object] = lambda: None) -> Answer:
        """The answer. If the task is cancelled, the call is cancelled and the task ends when the call has ended.

        undo: is called at a cancellation, before the end of the call is awaited. A second cancellation does not await it.
        """
        try:
            return await self._await()
        except asyncio.CancelledError:
            raw("op_cancel", self._handle.pointer)
            undo()
            with contextlib.suppress(Error):
                _drop(await self._await())
            raise
        finally:
            self.close()

    async def _await(self) -> Answer:
        while True:
            result = Result(size=ctypes.sizeof(Result), code=-1)
            status = call("op_result", self._handle.pointer, byref(result))
            if status != AGAIN:
                id, document = take_text(c_void_p(result.id)), take_text(c_void_p(result.json))
                return Answer(status, result.code, id, document, c_void_p(result.session), c_void_p(result.stream))
            await self._ready.wait()

    def cancel(self) -> None:
        """Ends the call: `answer()` raises `Cancelled`."""
        raw("op_cancel", self._handle.pointer)

    def close(self) -> None:
        """Drops the call, and its answer."""
        self._ready.close()
        self._handle.close()


def _drop(answer: Answer) -> None:
    """Ends what an answer has that nobody takes."""
    raw("session_free", answer.session)
    raw("stream_free", answer.stream)


async def begin(name: str, *arguments: Any, timeout: Optional[float] = None) -> Answer:
    """Calls a function of the library, whose operation stands behind these arguments, and awaits its answer."""
    return await Begun(name, *arguments, timeout=timeout).answer()


class Readiness:
    """Waits until the descriptor of a handle is readable, one task at a time. It must be closed before its handle."""

    def __init__(self, function: str, handle: Handle) -> None:
        self._function, self._handle = function, handle
        self._waiter: Optional[asyncio.Future[None]] = None

    async def wait(self) -> None:
        """Returns when the descriptor is readable, or at once if the handle has none: then its calls do not wait."""
        if self._waiter is not None:
            raise Misuse("another task waits here", code=-7016, kind="MISUSE", status=500)
        try:
            fd = self.fileno()
        except Unsupported:
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        loop.add_reader(fd, _wake, self._waiter)
        try:
            await self._waiter
        finally:
            self._waiter = None
            # A handle that was closed meanwhile took its descriptor out of the loop.
            if self._handle.open:
                loop.remove_reader(fd)

    def fileno(self) -> int:
        """The descriptor; Unsupported if the handle has none."""
        fd: int = raw(self._function, self._handle.pointer)
        if fd < 0:
            raise take_error(fd, c_void_p())
        return fd

    def close(self) -> None:
        """Ends a wait with an error: the descriptor leaves the loop before the handle closes it."""
        waiter = self._waiter
        if waiter is None or not self._handle.open:
            return
        waiter.get_loop().remove_reader(raw(self._function, self._handle.pointer))
        if not waiter.done():
            waiter.set_exception(Misuse("it was closed meanwhile", code=-7016, kind="MISUSE", status=500))


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


async def aside(work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Runs a call of the library that waits for the disk alone on a thread of the loop's executor: such a call has no operation."""
    return await asyncio.get_running_loop().run_in_executor(None, lambda: work(*arguments, **named))


class Records:
    """Progress records as an asynchronous iterator: pass it as `progress=` of a call that is a task, and iterate.

        records = aio.Records()
        pull = asyncio.create_task(engine.images.pull("localhost:5000/app:v1", progress=records))
        async for record in records:
            print(record["status"])
        await pull
    """

    def __init__(self) -> None:
        self._queue: "asyncio.Queue[Optional[dict[str, Any]]]" = asyncio.Queue()

    def __call__(self, record: "dict[str, Any]") -> None:
        self._queue.put_nowait(record)

    def end(self) -> None:
        """Ends the iteration; the call does it when it ends, with or without an error."""
        self._queue.put_nowait(None)

    def __aiter__(self) -> Records:
        return self

    async def __anext__(self) -> "dict[str, Any]":
        record = await self._queue.get()
        if record is None:
            raise StopAsyncIteration
        return record


#: Gets the progress records of the HTTP API, in the loop; an exception of it ends the call. `Records` is one.
Progress = Callable[["dict[str, Any]"], object]


def ends_records(method: Method) -> Method:
    """A method with progress records: `Records` among its arguments end with its call, also if the call never began.

    A task that is cancelled before its first step runs nothing of an `async def`, no `finally` either; so this wraps the coroutine.
    """

    @functools.wraps(method)
    def begun(*arguments: Any, **named: Any) -> Coroutine[Any, Any, Any]:
        made = method(*arguments, **named)
        for given in (*arguments, *named.values()):
            if isinstance(given, Records):
                return _Ending(made, given)
        return made

    return cast(Method, begun)


class _Ending(Coroutine[Any, Any, T]):
    """A coroutine that ends records once, when it ends itself: by a result, by an error, or before its first step."""

    def __init__(self, made: Coroutine[Any, Any, T], records: Records) -> None:
        self._made, self._records, self._ended = made, records, False
        # asyncio names a task's coroutine by these.
        self.__name__, self.__qualname__ = getattr(made, "__name__", "call"), getattr(made, "__qualname__", "call")

    def send(self, value: Any) -> Any:
        return self._step(lambda: self._made.send(value))

    def throw(self, *problem: Any) -> Any:
        return self._step(lambda: self._made.throw(*problem))

    def close(self) -> None:
        try:
            self._made.close()
        finally:
            self._end()

    def __await__(self) -> Generator[Any, Any, T]:
        try:
            return (yield from self._made.__await__())
        finally:
            self._end()

    def _step(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except BaseException:  # A result comes as StopIteration.
            self._end()
            raise

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._records.end()


async def watched(work: Callable[[Progress], T], progress: Progress) -> T:
    """Runs a call with progress records on a thread of the loop's executor, for as long as the call lasts.

    The library gives such records to a function, on the thread of the call. They are handed to the loop one by one.
    """
    loop, scope = asyncio.get_running_loop(), Scope()

    async def handed(record: "dict[str, Any]") -> None:
        progress(record)

    def told(record: "dict[str, Any]") -> None:
        asyncio.run_coroutine_threadsafe(handed(record), loop).result()

    def run() -> T:
        with scope:
            return work(told)

    call: "asyncio.Future[T]" = loop.run_in_executor(None, run)
    return await _to_its_end(call, scope.cancel)


async def _to_its_end(call: "asyncio.Future[T]", cancel: Callable[[], object]) -> T:
    """The result of work on a thread; a cancelled task cancels the work, and ends when the work has ended."""
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        cancel()
        await asyncio.wait({call})
        if not call.cancelled():
            call.exception()
        raise
