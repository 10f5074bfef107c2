"""Images: those that are here, and those of registries."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from ctypes import byref, c_void_p
from typing import IO, TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Sequence, Union

from ._library import Descriptor, Op, Source, call, call_json, document, text
from .streams import Body

if TYPE_CHECKING:
    from .engine import Engine

#: An archive: a path, or a file that gives bytes.
Archive = Union[str, "os.PathLike[str]", IO[bytes]]
#: Gets the progress records of the HTTP API, on a thread of the call.
Progress = Callable[["dict[str, Any]"], object]


class Images:
    """The images of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def load(
        self, archive: Archive, *, progress: Optional[Progress] = None, timeout: Optional[float] = None
    ) -> "List[str]":
        """Loads every image of an archive (docker save, OCI layout; plain or compressed): their names."""
        return json.loads(self._take("image_load", (), archive, progress, timeout))  # type: ignore[no-any-return]

    def import_rootfs(
        self,
        archive: Archive,
        repo: str = "",
        tag: str = "",
        *,
        message: str = "",
        changes: Sequence[str] = (),
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
    ) -> str:
        """Makes an image of a root file system tar: its id."""
        query = document({"repo": repo, "tag": tag, "message": message, "changes": list(changes)})
        return self._take("image_import", (query,), archive, progress, timeout)

    def build(
        self,
        context: "Union[str, os.PathLike[str], IO[bytes]]",
        *,
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
        **query: Any,
    ) -> str:
        """Builds an image of a directory, or of a file that gives it as a tar: its id.

        query: the parameters of POST /build by their names, so `t=["name:tag"]`, `dockerfile="path"`,
        `buildargs={"VERSION": "1"}`; progress: a record's "stream" is what the builder says.
        """
        if not isinstance(context, (str, os.PathLike)):
            return self._take("image_build", (document(query),), context, progress, timeout)
        directory = os.open(context, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with Op(timeout, progress) as op:
                arguments = (self._engine.pointer, document(query), directory, op.handle)
                return op.aside(lambda: op.call_text("image_build_dir", *arguments))
        finally:
            os.close(directory)

    def save(self, *names: str, layout: str = "docker") -> Body:
        """The images as an archive, a file to read to its end: docker save's, or an OCI layout (`oci`)."""
        stream = c_void_p()
        with Op() as op:
            which = document({"names": list(names), "layout": layout})
            op.call("image_save", self._engine.pointer, which, op.handle, byref(stream))
            return Body(stream)

    def list(self, all: bool = False, **query: Any) -> "List[dict[str, Any]]":
        """Documents of GET /images/json; query: filter, filters."""
        return call_json("image_list", self._engine.pointer, document({"all": all, **query}))  # type: ignore[no-any-return]

    def inspect(self, name: str) -> "dict[str, Any]":
        """Everything about one: the document of GET /images/{name}/json."""
        return call_json("image_inspect", self._engine.pointer, text(name))  # type: ignore[no-any-return]

    def history(self, name: str) -> "List[dict[str, Any]]":
        """Its steps, newest first."""
        return call_json("image_history", self._engine.pointer, text(name))  # type: ignore[no-any-return]

    def tag(self, name: str, new_name: str) -> None:
        """Gives it another name."""
        call("image_tag", self._engine.pointer, text(name), text(new_name))

    def remove(self, name: str, force: bool = False, no_prune: bool = False) -> "List[dict[str, str]]":
        """Takes that name and, where nothing else holds it, the image away: what was untagged and deleted."""
        flags = force * 1 | no_prune * 2
        with Op() as op:
            return json.loads(op.call_text("image_remove", self._engine.pointer, text(name), flags, op.handle))  # type: ignore[no-any-return]

    def prune(self, **filters: "List[str]") -> "dict[str, Any]":
        """Removes images that nothing uses: those without a name, or all with `dangling=["false"]`."""
        with Op() as op:
            return json.loads(op.call_text("image_prune", self._engine.pointer, document(filters), op.handle))  # type: ignore[no-any-return]

    def prune_caches(self, timeout: "Optional[float]" = None, **filters: "List[str]") -> "dict[str, Any]":
        """Removes the caches of builds (RUN --mount=type=cache) that no step uses; `id`, `type` and `until` choose among them."""
        with Op(timeout) as op:
            answer = op.call_text("build_prune", self._engine.pointer, document(filters), op.handle)
            return json.loads(answer)  # type: ignore[no-any-return]

    def search(self, term: str, auth: "Optional[dict[str, str]]" = None, **query: Any) -> "List[dict[str, Any]]":
        """What a registry finds; query: limit, filters."""
        with Op() as op:
            which = document({"term": term, **query})
            arguments = (self._engine.pointer, which, auth and document(auth), op.handle)
            return json.loads(op.aside(lambda: op.call_text("image_search", *arguments)))  # type: ignore[no-any-return]

    def verify(
        self, repair: bool = False, progress: Optional[Progress] = None, timeout: Optional[float] = None
    ) -> "dict[str, Any]":
        """Looks at every layer and image of the store; what is damaged stands in the answer's `Damage`."""
        with Op(timeout, progress) as op:
            which = document({"repair": repair})
            answer: dict[str, Any] = json.loads(
                op.aside(lambda: op.call_text("root_verify", self._engine.pointer, which, op.handle))
            )
            return answer

    def pull(
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
        function, which = pull_of(name, platform)
        with Op(timeout, progress) as op:
            arguments = (self._engine.pointer, *which, auth and document(auth), op.handle)
            return op.aside(lambda: op.call_text(function, *arguments))

    def inspect_remote(
        self, name: str, auth: "Optional[dict[str, str]]" = None, timeout: Optional[float] = None
    ) -> "dict[str, Any]":
        """The manifest that a registry has for a name, without a pull: `Descriptor` and `Platforms`."""
        with Op(timeout) as op:
            arguments = (self._engine.pointer, text(name), auth and document(auth), op.handle)
            answer: dict[str, Any] = json.loads(op.aside(lambda: op.call_text("registry_inspect", *arguments)))
            return answer

    def check_login(self, auth: "dict[str, str]", timeout: Optional[float] = None) -> "dict[str, Any]":
        """Asks a registry, `serveraddress`, whether credentials are good: `Status`, and maybe `IdentityToken`."""
        with Op(timeout) as op:
            arguments = (self._engine.pointer, document(auth), op.handle)
            return json.loads(op.aside(lambda: op.call_text("registry_auth", *arguments)))  # type: ignore[no-any-return]

    def push(
        self,
        name: str,
        auth: "Optional[dict[str, str]]" = None,
        progress: Optional[Progress] = None,
        timeout: Optional[float] = None,
    ) -> "dict[str, Any]":
        """Sends it to the registry that its name says; answers what is there now, by tag and digest."""
        with Op(timeout, progress) as op:
            arguments = (self._engine.pointer, text(name), auth and document(auth), op.handle)
            answer: dict[str, Any] = json.loads(op.aside(lambda: op.call_text("image_push", *arguments)))
            return answer

    def _take(
        self,
        function: str,
        before: "tuple[bytes, ...]",
        archive: Archive,
        progress: Optional[Progress],
        timeout: Optional[float],
    ) -> str:
        with source_of(archive) as source, Op(timeout, progress) as op:
            arguments = (self._engine.pointer, *before, source.function, source.user, op.handle)
            return source.told(lambda: op.aside(lambda: op.call_text(function, *arguments)))


def pull_of(name: str, platform: Optional[str]) -> "tuple[str, tuple[Optional[bytes], ...]]":
    """The function that pulls for that platform, with its arguments before the credentials."""
    if platform is None:
        return "image_pull", (text(name),)
    return "image_pull_platform", (text(name), text(platform))


@contextlib.contextmanager
def source_of(archive: Archive) -> "Iterator[Union[Source, Descriptor]]":
    """The archive as a read function of the library; a file that was opened here is closed at the end."""
    if not isinstance(archive, (str, os.PathLike)):
        yield Source(archive)
        return
    with open(archive, "rb", buffering=0) as file:
        # A pipe may never give anything, and Python's read() ends by Ctrl-C.
        regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        yield Descriptor(file.fileno()) if regular else Source(file)
