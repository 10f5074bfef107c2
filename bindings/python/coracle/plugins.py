"""Managed plugins: installed from registries, and run by the engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, List, Optional, Sequence

from ._library import Op, call, call_json, document, text

if TYPE_CHECKING:
    from .engine import Engine
    from .images import Progress

_FORCE = 1


class Plugins:
    """The plugins of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def list(self, **filters: "List[str]") -> "List[dict[str, Any]]":
        """All by name, or those that pass the filters: capability, enabled."""
        return call_json("plugin_list", self._engine.pointer, document({"filters": filters}))  # type: ignore[no-any-return]

    def inspect(self, name: str) -> dict[str, Any]:
        """Everything about one."""
        return call_json("plugin_inspect", self._engine.pointer, text(name))  # type: ignore[no-any-return]

    def privileges(
        self, remote: str, auth: "Optional[dict[str, str]]" = None, timeout: Optional[float] = None
    ) -> "List[dict[str, Any]]":
        """The rights on the host that a plugin of a registry needs."""
        with Op(timeout) as op:
            arguments = (self._engine.pointer, text(remote), auth and document(auth), op.handle)
            return json.loads(op.aside(lambda: op.call_text("plugin_privileges", *arguments)))  # type: ignore[no-any-return]

    def pull(
        self,
        remote: str,
        name: str = "",
        privileges: "Optional[Sequence[dict[str, Any]]]" = None,
        auth: "Optional[dict[str, str]]" = None,
        progress: "Optional[Progress]" = None,
        timeout: Optional[float] = None,
    ) -> str:
        """Installs one, disabled, with exactly these rights, or with all that it needs; answers its id."""
        with Op(timeout, progress) as op:
            arguments = (self._engine.pointer, document(plugin_body(remote, name, privileges, auth)), op.handle)
            return op.aside(lambda: op.call_text("plugin_pull", *arguments))

    def upgrade(
        self,
        name: str,
        remote: str = "",
        privileges: "Optional[Sequence[dict[str, Any]]]" = None,
        auth: "Optional[dict[str, str]]" = None,
        progress: "Optional[Progress]" = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Puts another version in the place of a disabled one."""
        with Op(timeout, progress) as op:
            arguments = (self._engine.pointer, text(name), document(plugin_body(remote, "", privileges, auth)), op.handle)
            op.aside(lambda: op.call("plugin_upgrade", *arguments))

    def enable(self, name: str, seconds: int = 0, timeout: Optional[float] = None) -> None:
        """Runs it, and waits until it listens: for so many seconds, or 30."""
        with Op(timeout) as op:
            op.call("plugin_enable", self._engine.pointer, text(name), seconds, op.handle)

    def disable(self, name: str, force: bool = False, timeout: Optional[float] = None) -> None:
        """Ends it; refused as long as volumes or networks use it."""
        with Op(timeout) as op:
            op.call("plugin_disable", self._engine.pointer, text(name), force * _FORCE, op.handle)

    def remove(self, name: str, force: bool = False, timeout: Optional[float] = None) -> None:
        """Removes it with its files; force: also while it is enabled or used."""
        with Op(timeout) as op:
            op.call("plugin_remove", self._engine.pointer, text(name), force * _FORCE, op.handle)

    def set(self, name: str, *changes: str) -> None:
        """Changes settings of a disabled one: NAME=VALUE."""
        call("plugin_set", self._engine.pointer, text(name), document(list(changes)))


def plugin_body(remote: str, name: str, privileges: Any, auth: Any) -> dict[str, Any]:
    """The document of the arguments of `pull` and `upgrade`."""
    body = {"Remote": remote, "Name": name, "Privileges": privileges and list(privileges), "Auth": auth}
    return {key: value for key, value in body.items() if value is not None}
