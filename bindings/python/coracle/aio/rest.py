"""Volumes, networks and plugins in an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence

from .._library import document, text
from ..plugins import plugin_body
from ._begun import Progress, aside, begin, ends_records, watched

if TYPE_CHECKING:
    from .engine import Engine

_FORCE = 1


class Volumes:
    """The volumes of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def create(
        self,
        name: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        driver_opts: Optional[Mapping[str, str]] = None,
    ) -> "dict[str, Any]":
        """Makes one, with a name of the engine's choice where none is given; one that is there is answered as it is."""
        body = {"Name": name or "", "Labels": dict(labels or {}), "DriverOpts": dict(driver_opts or {})}
        return (await begin("volume_create", self._engine.pointer, document(body))).document()  # type: ignore[no-any-return]

    async def list(self, **filters: "List[str]") -> "List[dict[str, Any]]":
        """All by name, or those that pass the filters: dangling, driver, label, name."""
        return await aside(self._engine.blocking.volumes.list, **filters)

    async def inspect(self, name: str) -> "dict[str, Any]":
        """Everything about one."""
        return await aside(self._engine.blocking.volumes.inspect, name)

    async def remove(self, name: str) -> None:
        """Removes it and what is in it; refused as long as a container uses it."""
        await begin("volume_remove", self._engine.pointer, text(name))

    async def prune(self, timeout: Optional[float] = None, **filters: "List[str]") -> "dict[str, Any]":
        """Removes those that no container uses and nobody named; with `all=["true"]` also those with a name."""
        return (await begin("volume_prune", self._engine.pointer, document(filters), timeout=timeout)).document()  # type: ignore[no-any-return]


class Networks:
    """The networks of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def create(self, name: str, labels: Optional[Mapping[str, str]] = None, **body: Any) -> str:
        """Makes one: its id; body: members of POST /networks/create, such as Driver, Internal, IPAM, Options."""
        whole = {"Name": name, "Labels": dict(labels or {}), **body}
        return (await begin("network_create", self._engine.pointer, document(whole))).id

    async def list(self, **filters: "List[str]") -> "List[dict[str, Any]]":
        """All by name, or those that pass the filters: driver, id, label, name, type."""
        return await aside(self._engine.blocking.networks.list, **filters)

    async def inspect(self, name: str) -> "dict[str, Any]":
        """Everything about one, by its name or id."""
        return await aside(self._engine.blocking.networks.inspect, name)

    async def connect(self, name: str, container: str, **endpoint: Any) -> None:
        """Connects a container, running or not; endpoint: members of EndpointConfig, such as Aliases."""
        body = {"Container": container, "EndpointConfig": endpoint}
        await begin("network_connect", self._engine.pointer, text(name), document(body))

    async def disconnect(self, name: str, container: str, force: bool = False) -> None:
        """Disconnects a container, running or not."""
        body = {"Container": container, "Force": force}
        await begin("network_disconnect", self._engine.pointer, text(name), document(body))

    async def remove(self, name: str) -> None:
        """Removes it; refused as long as a running container is on it."""
        await begin("network_remove", self._engine.pointer, text(name))

    async def prune(self, timeout: Optional[float] = None, **filters: "List[str]") -> "dict[str, Any]":
        """Removes networks that no running container is on, or of them those that filters choose: until, label, label!."""
        return (await begin("network_prune", self._engine.pointer, document(filters), timeout=timeout)).document()  # type: ignore[no-any-return]


class Plugins:
    """The plugins of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(self, **filters: "List[str]") -> "List[dict[str, Any]]":
        """All by name, or those that pass the filters: capability, enabled."""
        return await aside(self._engine.blocking.plugins.list, **filters)

    async def inspect(self, name: str) -> "dict[str, Any]":
        """Everything about one."""
        return await aside(self._engine.blocking.plugins.inspect, name)

    async def privileges(
        self, remote: str, auth: "Optional[dict[str, str]]" = None, timeout: Optional[float] = None
    ) -> "List[dict[str, Any]]":
        """The rights on the host that a plugin of a registry needs."""
        arguments = (self._engine.pointer, text(remote), auth and document(auth))
        return (await begin("plugin_privileges", *arguments, timeout=timeout)).document()  # type: ignore[no-any-return]

    @ends_records
    async def pull(
        self,
        remote: str,
        name: str = "",
        privileges: "Optional[Sequence[dict[str, Any]]]" = None,
        auth: "Optional[dict[str, str]]" = None,
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
    ) -> str:
        """Installs one, disabled, with exactly these rights, or with all that it needs; answers its id."""
        if progress is not None:
            plugins = self._engine.blocking.plugins
            return await watched(lambda told: plugins.pull(remote, name, privileges, auth, told, timeout), progress)
        body = document(plugin_body(remote, name, privileges, auth))
        return (await begin("plugin_pull", self._engine.pointer, body, timeout=timeout)).id

    @ends_records
    async def upgrade(
        self,
        name: str,
        remote: str = "",
        privileges: "Optional[Sequence[dict[str, Any]]]" = None,
        auth: "Optional[dict[str, str]]" = None,
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Puts another version in the place of a disabled one."""
        if progress is not None:
            plugins = self._engine.blocking.plugins
            await watched(lambda told: plugins.upgrade(name, remote, privileges, auth, told, timeout), progress)
            return
        body = document(plugin_body(remote, "", privileges, auth))
        await begin("plugin_upgrade", self._engine.pointer, text(name), body, timeout=timeout)

    async def enable(self, name: str, seconds: int = 0, timeout: Optional[float] = None) -> None:
        """Runs it, and waits until it listens: for so many seconds, or 30."""
        await begin("plugin_enable", self._engine.pointer, text(name), seconds, timeout=timeout)

    async def disable(self, name: str, force: bool = False, timeout: Optional[float] = None) -> None:
        """Ends it; refused as long as volumes or networks use it."""
        await begin("plugin_disable", self._engine.pointer, text(name), force * _FORCE, timeout=timeout)

    async def remove(self, name: str, force: bool = False, timeout: Optional[float] = None) -> None:
        """Removes it with its files; force: also while it is enabled or used."""
        await begin("plugin_remove", self._engine.pointer, text(name), force * _FORCE, timeout=timeout)

    async def set(self, name: str, *changes: str) -> None:
        """Changes settings of a disabled one: NAME=VALUE."""
        await aside(self._engine.blocking.plugins.set, name, *changes)
