"""An engine root in an event loop."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Union

from .. import engine as blocking
from .._library import document, text
from ._begun import Progress, aside, begin, ends_records, watched
from .containers import Containers
from .images import Images
from .rest import Networks, Plugins, Volumes
from .streams import Body, Events


@dataclass(frozen=True)
class Response:
    """An answer of the HTTP API."""

    status: int
    body: Body


class Engine:
    """An opened engine root, for any number of tasks and loops. Closing it leaves its containers running.

    `blocking` is the same engine as a `coracle.Engine`.
    """

    def __init__(self, engine: blocking.Engine) -> None:
        self.blocking = engine
        self.containers = Containers(self)
        self.images = Images(self)
        self.plugins = Plugins(self)
        self.volumes = Volumes(self)
        self.networks = Networks(self)

    @property
    def pointer(self) -> Any:
        """The library's handle."""
        return self.blocking.pointer

    def again(self) -> Engine:
        """Another handle of the same engine, which stays open when this one is closed."""
        return Engine(self.blocking.again())

    async def info(self) -> "dict[str, Any]":
        """The document of GET /info."""
        return (await begin("engine_info", self.pointer)).document()  # type: ignore[no-any-return]

    async def version(self) -> "dict[str, Any]":
        """The document of GET /version."""
        return await aside(self.blocking.version)

    async def disk_usage(self, *kinds: str, timeout: Optional[float] = None) -> "dict[str, Any]":
        """The bytes that images, containers and volumes take; kinds: "image", "container", "volume", without any all."""
        query = document({"type": list(kinds)})
        return (await begin("engine_disk_usage", self.pointer, query, timeout=timeout)).document()  # type: ignore[no-any-return]

    async def metrics(self) -> "dict[str, Any]":
        """Numbers about the root and about this engine's work since it was opened."""
        return await aside(self.blocking.metrics)

    async def leftovers(self) -> "list[dict[str, Any]]":
        """What removals could not remove: "Path" and "Reason" of each. Every open tries again."""
        return await aside(self.blocking.leftovers)

    async def sweep(self) -> "list[dict[str, Any]]":
        """Tries again to remove what removals left; what stays, as of leftovers()."""
        return (await begin("root_sweep", self.pointer)).document()  # type: ignore[no-any-return]

    @ends_records
    async def copy_root(
        self,
        directory: Union[str, bytes, "os.PathLike[str]"],
        pause: bool = False,
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
    ) -> "dict[str, Any]":
        """Copies the whole root, while containers run, into a directory that is not there or empty.

        pause: each container is frozen while what it writes is copied. The answer's "Left" has what the copy does not have.
        """
        if progress is not None:
            return await watched(lambda told: self.blocking.copy_root(directory, pause, told, timeout), progress)
        arguments = (self.pointer, os.fsencode(directory), document({"pause": pause}))
        return (await begin("root_copy", *arguments, timeout=timeout)).document()  # type: ignore[no-any-return]

    @ends_records
    async def import_docker(
        self,
        names: Sequence[str] = (),
        directory: str = "",
        socket: str = "",
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
    ) -> "dict[str, Any]":
        """Takes over what a dockerd has, out of its directory (default /var/lib/docker) or by its socket.

        names: images, volumes and containers; none are all. The answer: "Taken", and "Left" with the reasons.
        """
        if progress is not None:
            engine = self.blocking
            return await watched(lambda told: engine.import_docker(names, directory, socket, told, timeout), progress)
        query = document({"names": list(names), "directory": directory, "socket": socket})
        return (await begin("root_import_docker", self.pointer, query, timeout=timeout)).document()  # type: ignore[no-any-return]

    async def lease(self, name: str) -> int:
        """Holds a lease: a descriptor, the caller's to close with os.close().

        A container with the label "coracle.lease" of that name ends when no process has such a descriptor open any more.
        """
        return await aside(self.blocking.lease, name)

    async def network_repair(self) -> None:
        """Puts back what another program took of networks: the firewall's rules (`nft flush ruleset` takes all), bridges."""
        await begin("network_repair", self.pointer)

    async def network_release(self) -> None:
        """Takes away what the kernel has of networks that no running container is on; the next start makes it again."""
        await begin("network_release", self.pointer)

    async def events(
        self,
        since: Optional[float] = None,
        until: Optional[float] = None,
        after: Optional[int] = None,
        filters: Optional[Mapping[str, Sequence[str]]] = None,
    ) -> Events:
        """Follows what any program does on this root; no event from now on is missed.

        since, until: seconds since 1970. after: the "sequence" of the last event that was seen.
        """
        return Events(await aside(self.blocking._events, since, until, after, filters))

    async def request(
        self,
        method: str,
        target: str,
        headers: Optional[Mapping[str, str]] = None,
        body: bytes = b"",
        timeout: Optional[float] = None,
    ) -> Response:
        """Answers a request of the HTTP API in process; an HTTP status that tells of a failure is an answer too."""
        arguments = (text(method), text(target), document(dict(headers or {})), body, len(body))
        answer = await begin("http_request", self.pointer, *arguments, timeout=timeout)
        return Response(answer.code, Body(answer.stream))

    async def connect(self) -> socket.socket:
        """A private connection that speaks the HTTP API, for clients that bring their own protocol code; it does not block."""
        connection = await aside(self.blocking.connect)
        connection.setblocking(False)
        return connection

    async def serve(
        self,
        addresses: Sequence[str] = (),
        sockets: Sequence[socket.socket] = (),
        insecure_tcp: bool = False,
        host_names: Sequence[str] = (),
    ) -> Server:
        """Serves the HTTP API to others, on a thread of the library; arguments as of `coracle.Engine.serve`."""
        return Server(await aside(self.blocking.serve, addresses, sockets, insecure_tcp, host_names))

    async def reload(self, labels: Sequence[str], settings: Optional[Mapping[str, str]] = None) -> None:
        """Takes other labels, and tells all who follow the root's events that settings were read again."""
        await aside(self.blocking.reload, labels, settings)

    def close(self) -> None:
        self.blocking.close()

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Server:
    """A server of the HTTP API; it ends with close(), or as an asynchronous context manager."""

    def __init__(self, server: blocking.Server) -> None:
        self._server = server

    def addresses(self) -> "list[str]":
        """Where it listens, the sockets that it was given first, with the ports that were chosen."""
        return self._server.addresses()

    async def shutdown(self, grace: float = 2.0) -> None:
        """Accepts nothing any more; answers under way have so many seconds, then what is left is cut."""
        await begin("http_server_shutdown", self._server.pointer, int(grace * 1000))

    def close(self) -> None:
        self._server.close()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


async def open(root: Union[str, bytes, "os.PathLike[str]"], **options: Any) -> Engine:
    """Opens an engine root, as `coracle.open` with the same arguments."""
    return Engine(await aside(blocking.open, root, **options))


async def host_report(root: Union[str, bytes, "os.PathLike[str]"] = "/var/lib/coracle") -> "dict[str, Any]":
    """Everything that an engine on this root needs of the host, what is lost without it, and the cure; opens nothing."""
    return await aside(blocking.host_report, root)
