"""Containers and the processes in them, in an event loop."""

from __future__ import annotations

from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence

from .. import containers as blocking
from .._library import UNCHANGED, document, text
from ..containers import _FORCE, _VOLUMES, ExecResult, create_body, exec_body, how_to_stop, logs_query, session_io
from ._begun import Begun, aside, begin
from .sources import Archive, described
from .streams import Body, Logs, Pending, Samples, Session, session_of

if TYPE_CHECKING:
    from .engine import Engine


class Container:
    """A container, by its id; it outlives this object and this program."""

    def __init__(self, engine: Engine, id: str, warnings: Optional[Sequence[str]] = None) -> None:
        self._engine = engine
        self.id = id
        #: The remarks of the engine about its creation, if it was created here.
        self.warnings = list(warnings or [])

    def __repr__(self) -> str:
        return f"<coracle.aio.Container {self.id[:12]}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Container) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    async def inspect(self, size: bool = False) -> "dict[str, Any]":
        """Everything about it: the document of GET /containers/{id}/json."""
        return await aside(self._blocking.inspect, size)

    async def explain(self) -> "dict[str, Any]":
        """Its launch in words: "Steps", and where the last start failed the kernel's answer."""
        return await aside(self._blocking.explain)

    async def start(self) -> bool:
        """Starts it, detached; False where it ran already."""
        return (await begin("container_start", *self._me, None)).status != UNCHANGED

    async def start_attached(self, rows: int = 0, cols: int = 0, **streams: Optional[int]) -> Session:
        """Starts it with its streams in hand from the first byte on.

        stdin, stdout, stderr: descriptors of the caller's to use in place of the session's own.
        """
        io = session_io(rows, cols, streams)
        answer = await begin("container_start", *self._me, byref(io))
        return await (self.attach() if answer.status == UNCHANGED else session_of(answer.session))

    async def attach(
        self, stdin: bool = True, stdout: bool = True, stderr: bool = True, wait_for_start: bool = False
    ) -> Session:
        """Attaches to its streams; wait_for_start: before it runs."""
        query = {"stdin": stdin, "stdout": stdout, "stderr": stderr, "wait": wait_for_start}
        return await session_of((await begin("container_attach", *self._me, None, document(query))).session)

    async def stop(
        self, grace: Optional[float] = 10, timeout: Optional[float] = None, signal: "str | int | None" = None
    ) -> bool:
        """Its stop signal, or another one, and, `grace` seconds later, SIGKILL; False where it did not run.

        grace: negative: never SIGKILL; None: the time of its own configuration (`StopTimeout`), or 10 seconds.
        """
        if grace is not None and signal is None:
            answer = await begin("container_stop", *self._me, int(grace * 1000), timeout=timeout)
        else:
            answer = await begin("container_stop_with", *self._me, how_to_stop(grace, signal), timeout=timeout)
        return answer.status != UNCHANGED

    async def restart(
        self, grace: Optional[float] = 10, timeout: Optional[float] = None, signal: "str | int | None" = None
    ) -> None:
        """Stops it if it runs, as stop() does, and starts it."""
        if grace is not None and signal is None:
            await begin("container_restart", *self._me, int(grace * 1000), timeout=timeout)
        else:
            await begin("container_restart_with", *self._me, how_to_stop(grace, signal), timeout=timeout)

    async def kill(self, signal: "str | int | None" = None) -> None:
        """Sends a signal; without one SIGKILL, whose effect it waits for."""
        # int: a member of signal.Signals is its number.
        name = str(int(signal)) if isinstance(signal, int) else signal
        await begin("container_kill", *self._me, text(name))

    async def pause(self) -> None:
        await begin("container_pause", *self._me)

    async def unpause(self) -> None:
        await begin("container_unpause", *self._me)

    async def wait(self, timeout: Optional[float] = None) -> int:
        """Waits until it does not run: its exit code, 128 + n where signal n ended it."""
        return (await begin("container_wait", *self._me, None, timeout=timeout)).code

    async def wait_for(self, condition: str, timeout: Optional[float] = None) -> "dict[str, Any]":
        """Waits for "not-running", "next-exit" or "removed": {"StatusCode": 0}, with "Error" where the removal failed."""
        return (await begin("container_wait", *self._me, text(condition), timeout=timeout)).document()  # type: ignore[no-any-return]

    def begin_wait(self, condition: str = "not-running") -> Pending:
        """Begins a wait for "not-running", "next-exit" or "removed" before this function returns.

        No end after this call is missed: begin, start the container, then await the `result()`.
        """
        return Pending(Begun("container_wait", *self._me, text(condition)))

    async def pidfd(self) -> int:
        """A descriptor, the caller's to close, that is readable when its first process ended."""
        return await aside(self._blocking.pidfd)

    async def remove(self, force: bool = False, volumes: bool = False) -> None:
        """Removes it; force: running too; volumes: with its anonymous volumes."""
        await begin("container_remove", *self._me, force * _FORCE | volumes * _VOLUMES)

    async def rename(self, name: str) -> None:
        await aside(self._blocking.rename, name)

    async def top(self, ps_args: Optional[str] = None) -> "dict[str, Any]":
        """Its processes: {"Titles": [...], "Processes": [[...], ...]}."""
        return await aside(self._blocking.top, ps_args)

    async def update(self, **changes: Any) -> "List[str]":
        """Changes limits and restart policy, as in POST /containers/{id}/update: `update(Memory=1 << 26)`: warnings."""
        return (await begin("container_update", *self._me, document(changes))).document().get("Warnings") or []

    async def samples(self) -> Samples:
        """What it uses, a document at once and then one a second until the container is removed."""
        return Samples((await begin("container_stats", *self._me, document({"stream": True}))).stream)

    async def stats(self) -> "dict[str, Any]":
        """What it uses now: the document of GET /containers/{id}/stats."""
        query = document({"stream": False, "one-shot": True})
        async with Samples((await begin("container_stats", *self._me, query)).stream) as samples:
            return await samples.__anext__()

    async def stat(self, path: str) -> "dict[str, Any]":
        """What stands at a path of it: {"name", "size", "mode", "mtime", "linkTarget"}."""
        return (await begin("container_stat_path", *self._me, text(path))).document()  # type: ignore[no-any-return]

    async def get_archive(self, path: str) -> Body:
        """Its files at `path` as a tar, to read to its end."""
        return Body((await begin("container_get_archive", *self._me, text(path))).stream)

    async def put_archive(self, path: str, archive: Archive, *, timeout: Optional[float] = None) -> None:
        """Extracts a tar, plain or compressed, into a directory of it."""
        async with described(archive) as source:
            arguments = (*self._me, text(path), None, *source.arguments)
            await source.answer(Begun("container_put_archive", *arguments, timeout=timeout))

    async def export(self) -> Body:
        """Its whole file system as a tar, without binds and volumes."""
        return Body((await begin("container_export", *self._me)).stream)

    async def changes(self) -> "List[dict[str, Any]]":
        """What it changed of its image: `Path` and `Kind` (0 modified, 1 added, 2 deleted)."""
        return (await begin("container_changes", *self._me)).document()  # type: ignore[no-any-return]

    async def commit(self, repo: str = "", tag: str = "", *, timeout: Optional[float] = None, **query: Any) -> str:
        """Makes an image of it: its id; query: comment, author, pause, changes."""
        which = document({"repo": repo, "tag": tag, **query})
        return (await begin("container_commit", *self._me, which, None, timeout=timeout)).id

    async def logs(
        self,
        follow: bool = False,
        stdout: bool = True,
        stderr: bool = True,
        since: Optional[float] = None,
        tail: Optional[int] = None,
    ) -> Logs:
        """The lines of its log; since: seconds since 1970; follow: also those to come."""
        query = document(logs_query(follow, stdout, stderr, since, tail))
        return Logs((await begin("container_logs", *self._me, query)).stream)

    async def exec(
        self,
        command: Sequence[str],
        *,
        stdin: bool = False,
        tty: bool = False,
        rows: int = 0,
        cols: int = 0,
        **options: Any,
    ) -> Session:
        """Starts a second process in it; options as in `exec_run`."""
        made = await self.exec_from(exec_body(command, stdin, tty, **options))
        return await made.start_attached(rows, cols)

    async def exec_from(self, body: Mapping[str, Any]) -> Exec:
        """Prepares a second process of a whole body of POST /containers/{id}/exec."""
        return Exec(self._engine, (await aside(self._blocking.exec_from, body)).id)

    async def exec_run(
        self, command: Sequence[str], *, input: bytes = b"", timeout: Optional[float] = None, **options: Any
    ) -> ExecResult:
        """Runs a second process in it to its end.

        options: user (name or number), env (mapping), privileged.
        """
        async with await self.exec(command, stdin=bool(input), **options) as session:
            stdout, stderr = await session.communicate(input, timeout)
            return ExecResult(await session.wait(timeout), stdout, stderr)

    @property
    def _blocking(self) -> blocking.Container:
        return blocking.Container(self._engine.blocking, self.id)

    @property
    def _me(self) -> "tuple[c_void_p, Optional[bytes]]":
        return self._engine.pointer, text(self.id)


class Exec:
    """A further process of a container, by its id."""

    def __init__(self, engine: Engine, id: str) -> None:
        self._engine = engine
        self.id = id

    async def start(self) -> None:
        """Starts it, detached."""
        await begin("exec_start", self._engine.pointer, text(self.id), None)

    async def start_attached(self, rows: int = 0, cols: int = 0, **streams: Optional[int]) -> Session:
        """Starts it with its streams in hand; arguments as of `Container.start_attached`."""
        io = session_io(rows, cols, streams)
        return await session_of((await begin("exec_start", self._engine.pointer, text(self.id), byref(io))).session)

    async def wait(self, timeout: Optional[float] = None) -> int:
        """Waits for its end: its exit code, 128 + n where signal n ended it."""
        return (await begin("exec_wait", self._engine.pointer, text(self.id), timeout=timeout)).code

    async def inspect(self) -> "dict[str, Any]":
        """Everything about it: the document of GET /exec/{id}/json."""
        return await aside(blocking.Exec(self._engine.blocking, self.id).inspect)


class Containers:
    """The containers of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def create(
        self,
        image: str,
        command: Optional[Sequence[str]] = None,
        *,
        name: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        labels: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        workdir: Optional[str] = None,
        stdin: bool = False,
        tty: bool = False,
        network: str = "none",
        host_config: Optional[Mapping[str, Any]] = None,
        **body: Any,
    ) -> Container:
        """Creates a container; arguments as of `coracle.Containers.create`."""
        whole = create_body(image, command, env, labels, user, workdir, stdin, tty, network, host_config)
        return await self.create_from({**whole, **body}, name)

    async def create_from(self, body: Mapping[str, Any], name: Optional[str] = None) -> Container:
        """Creates a container of a whole create body of the HTTP API."""
        answer = await begin("container_create", self._engine.pointer, text(name), document(body))
        return Container(self._engine, answer.id, answer.document().get("Warnings"))

    async def get(self, id: str) -> Container:
        """The one of that name, id or beginning of an id; NotFound where there is none."""
        return Container(self._engine, (await aside(self._engine.blocking.containers.get, id)).id)

    async def list(self, all: bool = False, **query: Any) -> "List[dict[str, Any]]":
        """Running ones, or all: documents of GET /containers/json; query: limit, size, since, before, filters."""
        return await aside(self._engine.blocking.containers.list, all, **query)

    async def prune(self, timeout: Optional[float] = None, **filters: "List[str]") -> "dict[str, Any]":
        """Removes those that do not run, or of them those that the filters of a list choose; volumes stay."""
        return (await begin("container_prune", self._engine.pointer, document(filters), timeout=timeout)).document()  # type: ignore[no-any-return]
