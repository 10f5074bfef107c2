"""Networks of containers."""

from __future__ import annotations

import json
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, List, Mapping, Optional

from ._library import Op, call_json, document, take_text, text

if TYPE_CHECKING:
    from .engine import Engine


class Networks:
    """The networks of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(self, name: str, labels: Optional[Mapping[str, str]] = None, **body: Any) -> str:
        """Makes one: its id; body: members of POST /networks/create, such as Driver, Internal, IPAM, Options."""
        whole = {"Name": name, "Labels": dict(labels or {}), **body}
        id, answer = c_void_p(), c_void_p()
        with Op() as op:
            op.call("network_create", self._engine.pointer, document(whole), op.handle, byref(id), byref(answer))
        take_text(answer)
        return take_text(id)

    def list(self, **filters: "List[str]") -> "List[dict[str, Any]]":
        """All by name, or those that pass the filters: driver, id, label, name, type."""
        return call_json("network_list", self._engine.pointer, document({"filters": filters}))  # type: ignore[no-any-return]

    def inspect(self, name: str) -> "dict[str, Any]":
        """Everything about one, by its name or id."""
        return call_json("network_inspect", self._engine.pointer, text(name))  # type: ignore[no-any-return]

    def connect(self, name: str, container: str, **endpoint: Any) -> None:
        """Connects a container, running or not; endpoint: members of EndpointConfig, such as Aliases."""
        body = {"Container": container, "EndpointConfig": endpoint}
        with Op() as op:
            op.call("network_connect", self._engine.pointer, text(name), document(body), op.handle)

    def disconnect(self, name: str, container: str, force: bool = False) -> None:
        """Disconnects a container, running or not."""
        body = {"Container": container, "Force": force}
        with Op() as op:
            op.call("network_disconnect", self._engine.pointer, text(name), document(body), op.handle)

    def remove(self, name: str) -> None:
        """Removes it; refused as long as a running container is on it."""
        with Op() as op:
            op.call("network_remove", self._engine.pointer, text(name), op.handle)

    def prune(self, timeout: Optional[float] = None, **filters: "List[str]") -> "dict[str, Any]":
        """Removes networks that no running container is on, or of them those that filters choose: until, label, label!."""
        with Op(timeout) as op:
            answer = op.call_text("network_prune", self._engine.pointer, document(filters), op.handle)
            return json.loads(answer)  # type: ignore[no-any-return]
