"""An engine root."""

from __future__ import annotations

import json
import os
import socket
from ctypes import byref, c_int32, c_void_p, sizeof
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Union

from ._library import Handle, Op, OpenOptions, call, call_json, document, raw, text
from .containers import Containers
from .errors import Misuse
from .images import Images, Progress
from .networks import Networks
from .streams import Body, Events
from .plugins import Plugins
from .volumes import Volumes


@dataclass(frozen=True)
class Response:
    """An answer of the HTTP API."""

    status: int
    body: Body


class Engine:
    """An opened engine root, for any number of threads. Closing it leaves its containers running."""

    def __init__(self, pointer: c_void_p) -> None:
        self._handle = Handle(pointer, "close")
        self.containers = Containers(self)
        self.images = Images(self)
        self.plugins = Plugins(self)
        self.volumes = Volumes(self)
        self.networks = Networks(self)

    @property
    def pointer(self) -> c_void_p:
        """The library's handle."""
        return self._handle.pointer

    def again(self) -> Engine:
        """Another handle of the same engine, which stays open when this one is closed."""
        pointer = raw("ref", self.pointer)
        if not pointer:
            raise Misuse("the engine is closed, or this process is a fork", kind="MISUSE")
        return Engine(c_void_p(pointer))

    def info(self) -> dict[str, Any]:
        """The document of GET /info."""
        with Op() as op:
            return json.loads(op.call_text("engine_info", self.pointer, op.handle))  # type: ignore[no-any-return]

    def disk_usage(self, *kinds: str, timeout: Optional[float] = None) -> dict[str, Any]:
        """The bytes that images, containers and volumes take; kinds: "image", "container", "volume", without any all."""
        with Op(timeout) as op:
            query = document({"type": list(kinds)})
            return json.loads(op.call_text("engine_disk_usage", self.pointer, query, op.handle))  # type: ignore[no-any-return]

    def network_prune(self, timeout: Optional[float] = None, **filters: "list[str]") -> dict[str, Any]:
        """As `networks.prune`."""
        return self.networks.prune(timeout, **filters)

    def metrics(self) -> dict[str, Any]:
        """Numbers about the root and about this engine's work since it was opened."""
        return call_json("engine_metrics", self.pointer)  # type: ignore[no-any-return]

    def leftovers(self) -> list[dict[str, Any]]:
        """What removals could not remove: "Path" and "Reason" of each. Every open tries again."""
        return call_json("root_leftovers", self.pointer)  # type: ignore[no-any-return]

    def sweep(self) -> list[dict[str, Any]]:
        """Tries again to remove what removals left; what stays, as of leftovers()."""
        with Op() as op:
            return json.loads(op.call_text("root_sweep", self.pointer, op.handle))  # type: ignore[no-any-return]

    def copy_root(
        self,
        directory: Union[str, bytes, "os.PathLike[str]"],
        pause: bool = False,
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
    ) -> dict[str, Any]:
        """Copies the whole root, while containers run, into a directory that is not there or empty.

        pause: each container is frozen while what it writes is copied. The answer's "Left" has what the copy does not have.
        """
        with Op(timeout, progress) as op:
            arguments = (self.pointer, os.fsencode(directory), document({"pause": pause}), op.handle)
            answer: dict[str, Any] = json.loads(op.aside(lambda: op.call_text("root_copy", *arguments)))
            return answer

    def import_docker(
        self,
        names: Sequence[str] = (),
        directory: str = "",
        socket: str = "",
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
    ) -> dict[str, Any]:
        """Takes over what a dockerd has, out of its directory (default /var/lib/docker) or by its socket.

        names: images, volumes and containers; none are all. The answer: "Taken", and "Left" with the reasons.
        """
        query = document({"names": list(names), "directory": directory, "socket": socket})
        with Op(timeout, progress) as op:
            answer: dict[str, Any] = json.loads(
                op.aside(lambda: op.call_text("root_import_docker", self.pointer, query, op.handle))
            )
            return answer

    def lease(self, name: str) -> int:
        """Holds a lease: a descriptor, the caller's to close with os.close().

        A container with the label "coracle.lease" of that name ends when no process has such a descriptor open any more.
        """
        fd = c_int32(-1)
        call("lease_hold", self.pointer, text(name), byref(fd))
        return fd.value

    def network_repair(self) -> None:
        """Puts back what another program took of networks: the firewall's rules (`nft flush ruleset` takes all), bridges."""
        with Op() as op:
            op.call("network_repair", self.pointer, op.handle)

    def network_release(self) -> None:
        """Takes away what the kernel has of networks that no running container is on; the next start makes it again."""
        with Op() as op:
            op.call("network_release", self.pointer, op.handle)

    def version(self) -> dict[str, Any]:
        """The document of GET /version."""
        return call_json("engine_version", self.pointer)  # type: ignore[no-any-return]

    def events(
        self,
        since: Optional[float] = None,
        until: Optional[float] = None,
        after: Optional[int] = None,
        filters: Optional[Mapping[str, Sequence[str]]] = None,
    ) -> Events:
        """Follows what any program does on this root; no event from now on is missed.

        since, until: seconds since 1970. after: the "sequence" of the last event that was seen.
        """
        return Events(self._events(since, until, after, filters))

    def _events(
        self,
        since: Optional[float],
        until: Optional[float],
        after: Optional[int],
        filters: Optional[Mapping[str, Sequence[str]]],
    ) -> c_void_p:
        query: dict[str, Any] = {"filters": {name: list(values) for name, values in (filters or {}).items()}}
        if since is not None:
            query["since"] = f"{since:.9f}"
        if until is not None:
            query["until"] = f"{until:.9f}"
        if after is not None:
            query["after"] = after
        stream = c_void_p()
        call("events_open", self.pointer, document(query), byref(stream))
        return stream

    def request(
        self,
        method: str,
        target: str,
        headers: Optional[Mapping[str, str]] = None,
        body: bytes = b"",
        timeout: Optional[float] = None,
    ) -> Response:
        """Answers a request of the HTTP API in process; an HTTP status that tells of a failure is an answer too."""
        status, stream = c_int32(), c_void_p()
        with Op(timeout) as op:
            arguments = (text(method), text(target), document(dict(headers or {})), body, len(body), op.handle)
            op.call("http_request", self.pointer, *arguments, byref(status), byref(stream))
            return Response(status.value, Body(stream))

    def connect(self) -> socket.socket:
        """A private connection that speaks the HTTP API, for clients that bring their own protocol code."""
        fd = c_int32(-1)
        call("http_connect", self.pointer, byref(fd))
        return socket.socket(fileno=fd.value)

    def serve(
        self,
        addresses: Sequence[str] = (),
        sockets: Sequence[socket.socket] = (),
        insecure_tcp: bool = False,
        host_names: Sequence[str] = (),
    ) -> Server:
        """Serves the HTTP API to others, on a thread of the library.

        addresses: "unix:///path", or "tcp://IP:PORT" with insecure_tcp: whoever reaches the port is root here. sockets: they
        listen already; the server takes duplicates. host_names: names that requests over TCP may give as Host.
        """
        options = {"Addresses": list(addresses), "InsecureTcp": insecure_tcp, "HostNames": list(host_names)}
        fds = (c_int32 * len(sockets))(*(one.fileno() for one in sockets))
        server = c_void_p()
        call("http_serve", self.pointer, document(options), fds, len(sockets), byref(server))
        return Server(server)

    def reload(self, labels: Sequence[str], settings: Optional[Mapping[str, str]] = None) -> None:
        """Takes other labels, and tells all who follow the root's events that settings were read again."""
        call("engine_reload", self.pointer, document(list(labels)), document(dict(settings or {})))

    def close(self) -> None:
        self._handle.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Server:
    """A server of the HTTP API; it ends with close(), or as a context manager."""

    def __init__(self, pointer: c_void_p) -> None:
        self._handle = Handle(pointer, "http_server_free")

    @property
    def pointer(self) -> c_void_p:
        """The library's handle."""
        return self._handle.pointer

    def addresses(self) -> list[str]:
        """Where it listens, the sockets that it was given first, with the ports that were chosen."""
        return call_json("http_server_addresses", self._handle.pointer)  # type: ignore[no-any-return]

    def shutdown(self, grace: float = 2.0) -> None:
        """Accepts nothing any more; answers under way have so many seconds, then what is left is cut."""
        with Op() as op:
            op.call("http_server_shutdown", self._handle.pointer, int(grace * 1000), op.handle)

    def close(self) -> None:
        self._handle.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


#: CORACLE_OPEN_EXISTING
_EXISTING = 1
#: CORACLE_OPEN_LENIENT
_LENIENT = 2
#: CORACLE_OPEN_EPHEMERAL
_EPHEMERAL = 4


def host_report(root: Union[str, bytes, "os.PathLike[str]"] = "/var/lib/coracle") -> dict[str, Any]:
    """Everything that an engine on this root needs of the host, what is lost without it, and the cure; opens nothing."""
    return call_json("host_report", os.fsencode(root), None)  # type: ignore[no-any-return]


def open(
    root: Union[str, bytes, "os.PathLike[str]"],
    *,
    run_dir: Optional[Union[str, bytes, "os.PathLike[str]"]] = None,
    durability: Optional[str] = None,
    create: bool = True,
    lenient: bool = False,
    ephemeral: bool = False,
    **config: Any,
) -> Engine:
    """Opens an engine root, a directory, and makes it if it is not there; with create=False that is `NotFound`.

    run_dir: a directory on tmpfs. durability: "full" (what was acknowledged survives a power cut), "normal" or "off".
    lenient: members of bodies and queries that this library does not know are passed over, and told by the warnings of
    answers; without it they are Invalid.
    ephemeral: containers created here end when the engine is closed or this program ends, however it ends.
    Further arguments, by the names of the header's `config_json`: log_driver, log_opts, ship_logs, outbox_max_size,
    outbox_max_age, cgroup_parent,
    userns_remap, apparmor, selinux_enabled, ip, plugin_dirs, authorization_plugins, labels, insecure_registries, registry_mirrors,
    http_proxy, https_proxy, no_proxy, small_memory, large_windows, relay_loopback, leave_docker_user, restart_containers.
    """
    if durability is not None:
        config["durability"] = durability
    config = {name.replace("_", "-"): value for name, value in config.items()}
    run = None if run_dir is None else os.fsencode(run_dir)
    flags = (0 if create else _EXISTING) | (_LENIENT if lenient else 0) | (_EPHEMERAL if ephemeral else 0)
    options = OpenOptions(sizeof(OpenOptions), run, document(config), flags)
    engine = c_void_p()
    call("open", os.fsencode(root), byref(options), byref(engine))
    return Engine(engine)
