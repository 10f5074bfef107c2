"""Images in an event loop: those that are here, and those of registries."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Union

from .. import images as blocking
from .._library import document, text
from ._begun import Begun, Progress, aside, begin, ends_records, watched
from .sources import Archive, described
from .streams import Body

if TYPE_CHECKING:
    from .engine import Engine


class Images:
    """The images of an engine.

    `progress=` gets the records of a call in the loop; with it the call has a thread of the loop's executor while it lasts. An
    archive for such a call is a path or bytes.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @ends_records
    async def load(
        self, archive: Archive, *, progress: Optional[Progress] = None, timeout: Optional[float] = None
    ) -> "List[str]":
        """Loads every image of an archive (docker save, OCI layout; plain or compressed): their names."""
        if progress is not None:
            file = _file(archive)
            return await watched(lambda told: self._blocking.load(file, progress=told, timeout=timeout), progress)
        async with described(archive) as source:
            begun = Begun("image_load", self._engine.pointer, *source.arguments, timeout=timeout)
            return (await source.answer(begun)).document()  # type: ignore[no-any-return]

    async def import_rootfs(
        self,
        archive: Archive,
        repo: str = "",
        tag: str = "",
        *,
        message: str = "",
        changes: Sequence[str] = (),
        timeout: Optional[float] = None,
    ) -> str:
        """Makes an image of a root file system tar: its id."""
        query = document({"repo": repo, "tag": tag, "message": message, "changes": list(changes)})
        async with described(archive) as source:
            begun = Begun("image_import", self._engine.pointer, query, *source.arguments, timeout=timeout)
            return (await source.answer(begun)).id

    @ends_records
    async def build(
        self,
        context: Archive,
        *,
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
        **query: Any,
    ) -> str:
        """Builds an image of a directory, or of a tar (bytes or an asynchronous iterable): its id.

        query: the parameters of POST /build by their names; progress: a record's "stream" is what the builder says.
        """
        if progress is not None:
            where = _file(context)
            return await watched(
                lambda told: self._blocking.build(where, progress=told, timeout=timeout, **query), progress
            )
        if isinstance(context, (str, os.PathLike)):
            directory = os.open(context, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                arguments = (self._engine.pointer, document(query), directory)
                return (await begin("image_build_dir", *arguments, timeout=timeout)).id
            finally:
                os.close(directory)
        async with described(context) as source:
            begun = Begun("image_build", self._engine.pointer, document(query), *source.arguments, timeout=timeout)
            return (await source.answer(begun)).id

    async def save(self, *names: str, layout: str = "docker") -> Body:
        """The images as an archive, to read to its end: docker save's, or an OCI layout (`oci`)."""
        which = document({"names": list(names), "layout": layout})
        return Body((await begin("image_save", self._engine.pointer, which)).stream)

    async def list(self, all: bool = False, **query: Any) -> "List[dict[str, Any]]":
        """Documents of GET /images/json; query: filter, filters."""
        return await aside(self._blocking.list, all, **query)

    async def inspect(self, name: str) -> "dict[str, Any]":
        """Everything about one: the document of GET /images/{name}/json."""
        return await aside(self._blocking.inspect, name)

    async def history(self, name: str) -> "List[dict[str, Any]]":
        """Its steps, newest first."""
        return await aside(self._blocking.history, name)

    async def tag(self, name: str, new_name: str) -> None:
        """Gives it another name."""
        await aside(self._blocking.tag, name, new_name)

    async def remove(self, name: str, force: bool = False, no_prune: bool = False) -> "List[dict[str, str]]":
        """Takes that name and, where nothing else holds it, the image away: what was untagged and deleted."""
        answer = await begin("image_remove", self._engine.pointer, text(name), force * 1 | no_prune * 2)
        return answer.document()  # type: ignore[no-any-return]

    async def prune(self, **filters: "List[str]") -> "dict[str, Any]":
        """Removes images that nothing uses: those without a name, or all with `dangling=["false"]`."""
        return (await begin("image_prune", self._engine.pointer, document(filters))).document()  # type: ignore[no-any-return]

    async def prune_caches(self, timeout: Optional[float] = None, **filters: "List[str]") -> "dict[str, Any]":
        """Removes the caches of builds (RUN --mount=type=cache) that no step uses; `id`, `type` and `until` choose among them."""
        return (await begin("build_prune", self._engine.pointer, document(filters), timeout=timeout)).document()  # type: ignore[no-any-return]

    async def search(self, term: str, auth: "Optional[dict[str, str]]" = None, **query: Any) -> "List[dict[str, Any]]":
        """What a registry finds; query: limit, filters."""
        which = document({"term": term, **query})
        return (await begin("image_search", self._engine.pointer, which, auth and document(auth))).document()  # type: ignore[no-any-return]

    @ends_records
    async def verify(
        self, repair: bool = False, progress: Optional[Progress] = None, timeout: Optional[float] = None
    ) -> "dict[str, Any]":
        """Looks at every layer and image of the store; what is damaged stands in the answer's `Damage`."""
        if progress is not None:
            return await watched(lambda told: self._blocking.verify(repair, told, timeout), progress)
        which = document({"repair": repair})
        return (await begin("root_verify", self._engine.pointer, which, timeout=timeout)).document()  # type: ignore[no-any-return]

    @ends_records
    async def pull(
        self,
        name: str,
        auth: "Optional[dict[str, str]]" = None,
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
        platform: Optional[str] = None,
    ) -> str:
        """
        Fetches it from its registry; answers its id.

        `auth`: `username` and `password`, or a token. `platform`: such as `"linux/arm64"`; None: this machine's.
        """
        if progress is not None:
            return await watched(lambda told: self._blocking.pull(name, auth, told, timeout, platform), progress)
        function, which = blocking.pull_of(name, platform)
        return (await begin(function, self._engine.pointer, *which, auth and document(auth), timeout=timeout)).id

    @ends_records
    async def push(
        self,
        name: str,
        auth: "Optional[dict[str, str]]" = None,
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
    ) -> "dict[str, Any]":
        """Sends it to the registry that its name says; answers what is there now, by tag and digest."""
        if progress is not None:
            return await watched(lambda told: self._blocking.push(name, auth, told, timeout), progress)
        arguments = (self._engine.pointer, text(name), auth and document(auth))
        return (await begin("image_push", *arguments, timeout=timeout)).document()  # type: ignore[no-any-return]

    async def inspect_remote(
        self, name: str, auth: "Optional[dict[str, str]]" = None, timeout: Optional[float] = None
    ) -> "dict[str, Any]":
        """The manifest that a registry has for a name, without a pull: `Descriptor` and `Platforms`."""
        arguments = (self._engine.pointer, text(name), auth and document(auth))
        return (await begin("registry_inspect", *arguments, timeout=timeout)).document()  # type: ignore[no-any-return]

    async def check_login(self, auth: "dict[str, str]", timeout: Optional[float] = None) -> "dict[str, Any]":
        """Asks a registry, `serveraddress`, whether credentials are good: `Status`, and maybe `IdentityToken`."""
        return (await begin("registry_auth", self._engine.pointer, document(auth), timeout=timeout)).document()  # type: ignore[no-any-return]

    @property
    def _blocking(self) -> blocking.Images:
        return self._engine.blocking.images


def _file(archive: Archive) -> "Union[str, os.PathLike[str], io.BytesIO]":
    """The archive for a call on a thread."""
    if isinstance(archive, bytes):
        return io.BytesIO(archive)
    if isinstance(archive, (str, os.PathLike)):
        return archive
    raise TypeError("with progress, an archive is a path or bytes")
