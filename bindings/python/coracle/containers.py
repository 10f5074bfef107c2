"""Containers and the processes in them."""

from __future__ import annotations

import json
import os
from ctypes import byref, c_int32, c_void_p, sizeof
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence

from ._library import UNCHANGED, Io, Op, call, call_json, call_text, document, take_text, text
from .images import Archive, source_of
from .streams import Body, Logs, Pending, Samples, Session

if TYPE_CHECKING:
    from .engine import Engine

_FORCE, _VOLUMES = 1, 2


@dataclass(frozen=True)
class ExecResult:
    """What a process in a container left."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Container:
    """A container, by its id; it outlives this object and this program."""

    def __init__(self, engine: Engine, id: str, warnings: Optional[Sequence[str]] = None) -> None:
        self._engine = engine
        self.id = id
        #: The remarks of the engine about its creation, if it was created here.
        self.warnings = list(warnings or [])

    def __repr__(self) -> str:
        return f"<coracle.Container {self.id[:12]}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Container) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def name(self) -> str:
        return str(self.inspect()["Name"]).lstrip("/")

    @property
    def status(self) -> str:
        """created, running, paused, restarting, removing, exited or dead."""
        return str(self.inspect()["State"]["Status"])

    def inspect(self, size: bool = False) -> dict[str, Any]:
        """Everything about it: the document of GET /containers/{id}/json."""
        return call_json("container_inspect", *self._me, int(size))  # type: ignore[no-any-return]

    def explain(self) -> dict[str, Any]:
        """Its launch in words: "Steps", and where the last start failed the kernel's answer."""
        return call_json("container_explain", *self._me)  # type: ignore[no-any-return]

    def start(self) -> bool:
        """Starts it, detached; False where it ran already."""
        with Op() as op:
            return op.call("container_start", *self._me, None, op.handle, None) != UNCHANGED

    def start_attached(self, rows: int = 0, cols: int = 0, **streams: Optional[int]) -> Session:
        """Starts it with its streams in hand from the first byte on.

        stdin, stdout, stderr: descriptors of the caller's to use in place of the session's own.
        """
        session = c_void_p()
        with Op() as op:
            io = session_io(rows, cols, streams)
            if op.call("container_start", *self._me, byref(io), op.handle, byref(session)) != UNCHANGED:
                return Session(session)
        return self.attach()

    def attach(
        self, stdin: bool = True, stdout: bool = True, stderr: bool = True, wait_for_start: bool = False
    ) -> Session:
        """Attaches to its streams; wait_for_start: before it runs."""
        query = {"stdin": stdin, "stdout": stdout, "stderr": stderr, "wait": wait_for_start}
        session = c_void_p()
        with Op() as op:
            op.call("container_attach", *self._me, None, document(query), op.handle, byref(session))
            return Session(session)

    def stop(
        self, grace: Optional[float] = 10, timeout: Optional[float] = None, signal: "str | int | None" = None
    ) -> bool:
        """Its stop signal, or another one, and, `grace` seconds later, SIGKILL; False where it did not run.

        grace: negative: never SIGKILL; None: the time of its own configuration (`StopTimeout`), or 10 seconds.
        """
        with Op(timeout) as op:
            if grace is not None and signal is None:
                return op.call("container_stop", *self._me, int(grace * 1000), op.handle) != UNCHANGED
            return op.call("container_stop_with", *self._me, how_to_stop(grace, signal), op.handle) != UNCHANGED

    def restart(
        self, grace: Optional[float] = 10, timeout: Optional[float] = None, signal: "str | int | None" = None
    ) -> None:
        """Stops it if it runs, as stop() does, and starts it."""
        with Op(timeout) as op:
            if grace is not None and signal is None:
                op.call("container_restart", *self._me, int(grace * 1000), op.handle)
                return
            op.call("container_restart_with", *self._me, how_to_stop(grace, signal), op.handle)

    def kill(self, signal: "str | int | None" = None) -> None:
        """Sends a signal; without one SIGKILL, whose effect it waits for."""
        # int: a member of signal.Signals is its number.
        name = str(int(signal)) if isinstance(signal, int) else signal
        with Op() as op:
            op.call("container_kill", *self._me, text(name), op.handle)

    def pause(self) -> None:
        with Op() as op:
            op.call("container_pause", *self._me, op.handle)

    def unpause(self) -> None:
        with Op() as op:
            op.call("container_unpause", *self._me, op.handle)

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits until it does not run: its exit code, 128 + n where signal n ended it."""
        code = c_int32()
        with Op(timeout) as op:
            op.call("container_wait", *self._me, None, op.handle, byref(code), None)
        return code.value

    def wait_for(self, condition: str, timeout: Optional[float] = None) -> dict[str, Any]:
        """Waits for "not-running", "next-exit" or "removed": {"StatusCode": 0}, with "Error" where the removal failed."""
        with Op(timeout) as op:
            arguments = (*self._me, text(condition), op.handle, byref(c_int32()))
            return json.loads(op.call_text("container_wait", *arguments))  # type: ignore[no-any-return]

    def begin_wait(self, condition: str = "not-running") -> Pending:
        """Begins a wait for "not-running", "next-exit" or "removed", for a program with an event loop.

        No end after this call is missed: begin, start the container, then wait until `fileno()` is readable.
        """
        return Pending(lambda op: call("container_wait", *self._me, text(condition), op, byref(c_int32()), None))

    def pidfd(self) -> int:
        """A descriptor, the caller's to close, that is readable when its first process ended."""
        fd = c_int32(-1)
        call("container_pidfd", *self._me, byref(fd))
        return fd.value

    def remove(self, force: bool = False, volumes: bool = False) -> None:
        """Removes it; force: running too; volumes: with its anonymous volumes."""
        with Op() as op:
            op.call("container_remove", *self._me, force * _FORCE | volumes * _VOLUMES, op.handle)

    def rename(self, name: str) -> None:
        call("container_rename", *self._me, text(name))

    def top(self, ps_args: Optional[str] = None) -> dict[str, Any]:
        """Its processes: {"Titles": [...], "Processes": [[...], ...]}."""
        return call_json("container_top", *self._me, text(ps_args))  # type: ignore[no-any-return]

    def update(self, **changes: Any) -> "List[str]":
        """Changes limits and restart policy, as in POST /containers/{id}/update: `update(Memory=1 << 26)`: warnings."""
        with Op() as op:
            answer = json.loads(op.call_text("container_update", *self._me, document(changes), op.handle))
        return answer.get("Warnings") or []

    def samples(self) -> Samples:
        """What it uses, a document at once and then one a second until the container is removed."""
        stream = c_void_p()
        with Op() as op:
            op.call("container_stats", *self._me, document({"stream": True}), op.handle, byref(stream))
            return Samples(stream)

    def stats(self) -> dict[str, Any]:
        """What it uses now: the document of GET /containers/{id}/stats."""
        stream = c_void_p()
        with Op() as op:
            query = document({"stream": False, "one-shot": True})
            op.call("container_stats", *self._me, query, op.handle, byref(stream))
        with Body(stream) as body:
            return json.loads(body.read())  # type: ignore[no-any-return]

    def stat(self, path: str) -> dict[str, Any]:
        """What stands at a path of it: {"name", "size", "mode", "mtime", "linkTarget"}."""
        with Op() as op:
            return json.loads(op.call_text("container_stat_path", *self._me, text(path), op.handle))  # type: ignore[no-any-return]

    def get_archive(self, path: str) -> Body:
        """Its files at `path` as a tar, a file to read to its end."""
        stream = c_void_p()
        with Op() as op:
            op.call("container_get_archive", *self._me, text(path), op.handle, byref(stream), None)
            return Body(stream)

    def put_archive(self, path: str, archive: Archive, *, timeout: Optional[float] = None) -> None:
        """Extracts a tar, plain or compressed, into a directory of it."""
        with source_of(archive) as source, Op(timeout) as op:
            arguments = (*self._me, text(path), None, source.function, source.user, op.handle)
            source.told(lambda: op.aside(lambda: op.call("container_put_archive", *arguments)))

    def export(self) -> Body:
        """Its whole file system as a tar, without binds and volumes."""
        stream = c_void_p()
        with Op() as op:
            op.call("container_export", *self._me, op.handle, byref(stream))
            return Body(stream)

    def changes(self) -> "List[dict[str, Any]]":
        """What it changed of its image: `Path` and `Kind` (0 modified, 1 added, 2 deleted)."""
        with Op() as op:
            return json.loads(op.call_text("container_changes", *self._me, op.handle))  # type: ignore[no-any-return]

    def commit(self, repo: str = "", tag: str = "", *, timeout: Optional[float] = None, **query: Any) -> str:
        """Makes an image of it: its id; query: comment, author, pause, changes."""
        with Op(timeout) as op:
            which = document({"repo": repo, "tag": tag, **query})
            return op.aside(lambda: op.call_text("container_commit", *self._me, which, None, op.handle))

    def logs(
        self,
        follow: bool = False,
        stdout: bool = True,
        stderr: bool = True,
        since: Optional[float] = None,
        tail: Optional[int] = None,
    ) -> Logs:
        """The lines of its log; since: seconds since 1970; follow: also those to come."""
        stream = c_void_p()
        with Op() as op:
            query = logs_query(follow, stdout, stderr, since, tail)
            op.call("container_logs", *self._me, document(query), op.handle, byref(stream))
            return Logs(stream)

    def exec(
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
        return self.exec_from(exec_body(command, stdin, tty, **options)).start_attached(rows, cols)

    def exec_from(self, body: Mapping[str, Any]) -> Exec:
        """Prepares a second process of a whole body of POST /containers/{id}/exec."""
        return Exec(self._engine, call_text("exec_create", *self._me, document(body)))

    def exec_run(
        self, command: Sequence[str], *, input: bytes = b"", timeout: Optional[float] = None, **options: Any
    ) -> ExecResult:
        """Runs a second process in it to its end.

        options: user (name or number), env (mapping), privileged.
        """
        with self.exec(command, stdin=bool(input), **options) as session:
            stdout, stderr = session.communicate(input, timeout)
            return ExecResult(session.wait(timeout), stdout, stderr)

    @property
    def _me(self) -> tuple[c_void_p, Optional[bytes]]:
        return self._engine.pointer, text(self.id)


class Exec:
    """A further process of a container, by its id."""

    def __init__(self, engine: Engine, id: str) -> None:
        self._engine = engine
        self.id = id

    def start(self) -> None:
        """Starts it, detached."""
        with Op() as op:
            op.call("exec_start", self._engine.pointer, text(self.id), None, op.handle, None)

    def start_attached(self, rows: int = 0, cols: int = 0, **streams: Optional[int]) -> Session:
        """Starts it with its streams in hand; arguments as of `Container.start_attached`."""
        session = c_void_p()
        with Op() as op:
            io = session_io(rows, cols, streams)
            op.call("exec_start", self._engine.pointer, text(self.id), byref(io), op.handle, byref(session))
            return Session(session)

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits for its end: its exit code, 128 + n where signal n ended it."""
        code = c_int32()
        with Op(timeout) as op:
            op.call("exec_wait", self._engine.pointer, text(self.id), op.handle, byref(code))
        return code.value

    def inspect(self) -> dict[str, Any]:
        """Everything about it: the document of GET /exec/{id}/json."""
        return call_json("exec_inspect", self._engine.pointer, text(self.id))  # type: ignore[no-any-return]


def how_to_stop(grace: Optional[float], signal: "str | int | None") -> bytes:
    """The document of the arguments of `stop` and `restart`."""
    how: "dict[str, Any]" = {} if grace is None else {"grace_ms": int(grace * 1000)}
    if signal is not None:
        # int: a member of signal.Signals is its number.
        how["signal"] = str(int(signal)) if isinstance(signal, int) else signal
    return document(how)


class Containers:
    """The containers of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(
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
        """Creates a container.

        stdin: it has one (kept open over sessions). host_config and further keyword arguments are members of the create
        body of the HTTP API, such as host_config={"Memory": 64 << 20} or Hostname="box".
        """
        whole = create_body(image, command, env, labels, user, workdir, stdin, tty, network, host_config)
        return self.create_from({**whole, **body}, name)

    def prune(self, timeout: Optional[float] = None, **filters: "List[str]") -> "dict[str, Any]":
        """Removes those that do not run, or of them those that the filters of a list choose; volumes stay."""
        with Op(timeout) as op:
            answer = op.call_text("container_prune", self._engine.pointer, document(filters), op.handle)
            return json.loads(answer)  # type: ignore[no-any-return]

    def create_from(self, body: Mapping[str, Any], name: Optional[str] = None) -> Container:
        """Creates a container of a whole create body of the HTTP API."""
        id, answer = c_void_p(), c_void_p()
        with Op() as op:
            arguments = (self._engine.pointer, text(name), document(body), op.handle)
            op.call("container_create", *arguments, byref(id), byref(answer))
        return Container(self._engine, take_text(id), json.loads(take_text(answer)).get("Warnings"))

    def get(self, id: str) -> Container:
        """The one of that name, id or beginning of an id; NotFound where there is none."""
        found = call_json("container_inspect", self._engine.pointer, text(id), 0)
        return Container(self._engine, found["Id"])

    def list(self, all: bool = False, **query: Any) -> "List[dict[str, Any]]":
        """Running ones, or all: documents of GET /containers/json; query: limit, size, since, before, filters."""
        return call_json("container_list", self._engine.pointer, document({"all": all, **query}))  # type: ignore[no-any-return]


def session_io(rows: int, cols: int, streams: Mapping[str, Optional[int]]) -> Io:
    """The struct of the arguments of `start_attached`."""
    unknown = set(streams) - {"stdin", "stdout", "stderr"}
    if unknown:
        raise TypeError(f"unexpected argument {unknown.pop()!r}")
    fds = [-1 if fd is None else int(fd) for fd in map(streams.get, ("stdin", "stdout", "stderr"))]
    for fd in fds:
        if fd >= 0:
            os.fstat(fd)
    return Io(sizeof(Io), 0, *fds, rows, cols)


def create_body(
    image: str,
    command: Optional[Sequence[str]],
    env: Optional[Mapping[str, str]],
    labels: Optional[Mapping[str, str]],
    user: Optional[str],
    workdir: Optional[str],
    stdin: bool,
    tty: bool,
    network: str,
    host_config: Optional[Mapping[str, Any]],
) -> dict[str, Any]:
    """The create body of the arguments of `create`."""
    body: dict[str, Any] = {"Image": image, "Tty": tty, "OpenStdin": stdin}
    if command is not None:
        body["Cmd"] = list(command)
    if env is not None:
        body["Env"] = [f"{key}={value}" for key, value in env.items()]
    if labels is not None:
        body["Labels"] = dict(labels)
    if user is not None:
        body["User"] = user
    if workdir is not None:
        body["WorkingDir"] = workdir
    body["HostConfig"] = {"NetworkMode": network, **(host_config or {})}
    return body


def logs_query(
    follow: bool, stdout: bool, stderr: bool, since: Optional[float], tail: Optional[int]
) -> dict[str, Any]:
    """The query of the arguments of `logs`."""
    query: dict[str, Any] = {"follow": follow, "stdout": stdout, "stderr": stderr}
    if since is not None:
        query["since"] = f"{since:.9f}"
    if tail is not None:
        query["tail"] = tail
    return query


def exec_body(
    command: Sequence[str],
    stdin: bool,
    tty: bool,
    user: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    privileged: bool = False,
) -> dict[str, Any]:
    """The body of the arguments of `exec`."""
    body: dict[str, Any] = {"Cmd": list(command), "AttachStdin": stdin, "AttachStdout": True, "AttachStderr": True}
    body.update(Tty=tty, Privileged=privileged)
    if user is not None:
        body["User"] = user
    if env is not None:
        body["Env"] = [f"{key}={value}" for key, value in env.items()]
    return body
