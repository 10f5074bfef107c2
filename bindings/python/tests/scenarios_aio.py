"""Runs the scenarios that all bindings share by coracle.aio: as scenarios.py, whose steps go through an event loop here.

A step is a task of one loop, a scope's deadline is asyncio.timeout, and a cancelled scope cancels the tasks in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import socket
import sys
import threading
import time
import types
from typing import Any, AsyncIterator, Callable, Iterator, Optional

import scenarios

import coracle
import coracle.aio

LOOP = asyncio.new_event_loop()
_local = threading.local()


class Scope:
    """Bounds and cancels the tasks of a thread's steps, as coracle.Scope does the calls."""

    def __init__(self, timeout: Optional[float] = None) -> None:
        self.end = None if timeout is None else time.monotonic() + timeout
        self.cancelled = False
        self.tasks: "set[asyncio.Task[Any]]" = set()

    def __enter__(self) -> Scope:
        scopes().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        scopes().remove(self)

    def cancel(self) -> None:
        def end() -> None:
            self.cancelled = True
            for task in self.tasks:
                task.cancel()

        LOOP.call_soon_threadsafe(end)


def scopes() -> "list[Scope]":
    if not hasattr(_local, "scopes"):
        _local.scopes = []
    found: "list[Scope]" = _local.scopes
    return found


async def bounded(around: "list[Scope]", work: Callable[[], Any]) -> Any:
    """Runs work in scopes, in a task of its own."""

    async def run() -> Any:
        result = work()
        return await result if inspect.isawaitable(result) else result

    task = asyncio.ensure_future(run())
    for scope in around:
        scope.tasks.add(task)
        if scope.cancelled:
            task.cancel()
    ends = [scope.end for scope in around if scope.end is not None]
    try:
        async with asyncio.timeout(min(ends) - time.monotonic() if ends else None):
            return await task
    except TimeoutError as problem:
        if isinstance(problem, coracle.Error):
            raise
        raise coracle.Timeout.of("asyncio.timeout") from None
    except asyncio.CancelledError:
        raise coracle.Cancelled("a task was cancelled", kind="CANCELLED") from None
    except StopAsyncIteration:
        return Ellipsis
    finally:
        for scope in around:
            scope.tasks.discard(task)


def in_loop(work: Callable[[], Any]) -> Any:
    return wrapped(asyncio.run_coroutine_threadsafe(bounded(list(scopes()), work), LOOP).result())


def wrapped(value: Any) -> Any:
    if isinstance(value, socket.socket):
        value.setblocking(True)
    return Blocking(value) if type(value).__module__.startswith("coracle.aio") else value


class Blocking:
    """An object of coracle.aio whose methods run in the loop and block the caller."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.thing, name)
        if not callable(value):
            return wrapped(value)
        return lambda *arguments, **named: in_loop(lambda: value(*arguments, **named))

    def __enter__(self) -> Blocking:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        if not isinstance(self.thing, coracle.aio.Session):
            return self

        def pieces() -> Iterator[Any]:
            piece = self.read()
            while piece is not None:
                yield piece
                piece = self.read()

        return pieces()

    def __next__(self) -> Any:
        found = in_loop(self.thing.__anext__)
        if found is Ellipsis:
            raise StopIteration
        return found


class Facade(types.SimpleNamespace):
    """The module `coracle` for the runner."""

    def __getattr__(self, name: str) -> Any:
        return getattr(coracle, name)


def of_engine(kind: Any) -> Callable[..., Blocking]:
    return lambda engine, id: Blocking(kind(engine.thing, id))


async def broken() -> AsyncIterator[bytes]:
    raise scenarios.Caller("the source is broken")
    yield b""


class Run(scenarios.Run):
    def source(self, given: "dict[str, Any]") -> Any:
        found = super().source(given)
        if isinstance(found, scenarios.Broken):
            return broken()
        return found.getvalue() if isinstance(found, io.BytesIO) else found


def main() -> int:
    scenarios.FEATURES = {"dynamic"}
    scenarios.Run = Run  # type: ignore[misc]
    scenarios.coracle = Facade(  # type: ignore[assignment]
        open=lambda *arguments, **named: in_loop(lambda: coracle.aio.open(*arguments, **named)),
        host_report=lambda *arguments: in_loop(lambda: coracle.aio.host_report(*arguments)),
        Container=of_engine(coracle.aio.Container),
        Exec=of_engine(coracle.aio.Exec),
        Scope=Scope,
    )
    thread = threading.Thread(target=LOOP.run_forever, daemon=True)
    thread.start()
    status = scenarios.main()
    LOOP.call_soon_threadsafe(LOOP.stop)
    thread.join()
    with contextlib.closing(LOOP):
        LOOP.run_until_complete(LOOP.shutdown_asyncgens())
    return status


if __name__ == "__main__":
    sys.exit(main())
