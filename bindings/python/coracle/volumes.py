"""Volumes: directories that outlive containers."""

from __future__ import annotations

import json
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, List, Mapping, Optional

from ._library import Op, call_json, document, take_text, text

if TYPE_CHECKING:
    from .engine import Engine


class Volumes:
    """The volumes of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(
        self,
        name: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        driver_opts: Optional[Mapping[str, str]] = None,
    ) -> dict[str, Any]:
        """Makes one, with a name of the engine's choice where none is given; one that is there is answered as it is."""
        body = {"Name": name or "", "Labels": dict(labels or {}), "DriverOpts": dict(driver_opts or {})}
        id, answer = c_void_p(), c_void_p()
        with Op() as op:
            op.call("volume_create", self._engine.pointer, document(body), op.handle, byref(id), byref(answer))
        take_text(id)
        return json.loads(take_text(answer))  # type: ignore[no-any-return]

    def list(self, **filters: "List[str]") -> "List[dict[str, Any]]":
        """All by name, or those that pass the filters: dangling, driver, label, name."""
        answer = call_json("volume_list", self._engine.pointer, document({"filters": filters}))
        return answer.get("Volumes") or []

    def inspect(self, name: str) -> dict[str, Any]:
        """Everything about one."""
        return call_json("volume_inspect", self._engine.pointer, text(name))  # type: ignore[no-any-return]

    def remove(self, name: str) -> None:
        """Removes it and what is in it; refused as long as a container uses it."""
        with Op() as op:
            op.call("volume_remove", self._engine.pointer, text(name), op.handle)

    def prune(self, timeout: Optional[float] = None, **filters: "List[str]") -> dict[str, Any]:
        """Removes those that no container uses and nobody named; with `all=["true"]` also those with a name."""
        with Op(timeout) as op:
            answer = op.call_text("volume_prune", self._engine.pointer, document(filters), op.handle)
            return json.loads(answer)  # type: ignore[no-any-return]
