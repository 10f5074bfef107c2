"""The C library: finding it, its functions with their types, errors as exceptions, operations that Ctrl-C ends.

ctypes drops the interpreter's lock around every call, so a call that blocks stops no other thread.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
import types
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Callable, Generator, Optional, TypeVar

from .errors import Error, error_class

T = TypeVar("T")

OK, DONE, AGAIN, UNCHANGED = 0, 1, 2, 3
STDIN, STDOUT, STDERR = 0, 1, 2
_EINVALID, _EMISUSE = -7001, -7016
ECALLBACK = -7013

#: How often, in milliseconds, a call that blocks the main thread looks whether Python has a signal to handle.
HEARTBEAT_MS = 100


class OpenOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("run_dir", c_char_p), ("config_json", c_char_p), ("flags", c_uint64)]


class Io(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint64),
        ("fd_in", c_int32),
        ("fd_out", c_int32),
        ("fd_err", c_int32),
        ("rows", c_uint16),
        ("cols", c_uint16),
    ]


class Frame(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("channel", c_int32),
        ("time_ns", c_int64),
        ("data", c_void_p),
        ("len", c_size_t),
    ]


class Result(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("code", c_int32),
        ("id", c_void_p),
        ("json", c_void_p),
        ("session", c_void_p),
        ("stream", c_void_p),
    ]


#: `user` is the generator that gets the records, given to the callback as an object.
PROGRESS = ctypes.CFUNCTYPE(c_int32, ctypes.py_object, c_char_p)
READ = ctypes.CFUNCTYPE(c_int64, c_void_p, c_void_p, c_size_t)
LOG = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p, c_char_p)

_h, _s, _err = c_void_p, c_char_p, POINTER(c_void_p)
_out_h, _out_s, _out_i = POINTER(c_void_p), POINTER(c_void_p), POINTER(c_int32)

#: Name (without `coracle_`) to result and arguments, in the header's order.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "version": (c_uint32, []),
    "version_string": (_s, []),
    "build_info": (_s, []),
    "has_feature": (c_int32, [_s]),
    "status_name": (_s, [c_int32]),
    "free": (None, [c_void_p]),
    "read_fd": (c_int64, [c_void_p, c_void_p, c_size_t]),
    "set_log": (c_int32, [c_int32, c_void_p, c_void_p, c_void_p, _err]),
    "error_code": (c_int32, [_h]),
    "error_http_status": (c_int32, [_h]),
    "error_errno": (c_int32, [_h]),
    "error_area": (_s, [_h]),
    "error_message": (_s, [_h]),
    "error_detail": (_s, [_h]),
    "error_free": (None, [_h]),
    "open": (c_int32, [_s, POINTER(OpenOptions), _out_h, _err]),
    "host_report": (c_int32, [_s, POINTER(OpenOptions), _out_s, _err]),
    "ref": (_h, [_h]),
    "close": (None, [_h]),
    "engine_info": (c_int32, [_h, _h, _out_s, _err]),
    "engine_disk_usage": (c_int32, [_h, _s, _h, _out_s, _err]),
    "engine_metrics": (c_int32, [_h, _out_s, _err]),
    "root_leftovers": (c_int32, [_h, _out_s, _err]),
    "root_sweep": (c_int32, [_h, _h, _out_s, _err]),
    "engine_version": (c_int32, [_h, _out_s, _err]),
    "http_request": (c_int32, [_h, _s, _s, _s, _s, c_size_t, _h, _out_i, _out_h, _err]),
    "http_connect": (c_int32, [_h, _out_i, _err]),
    "http_serve": (c_int32, [_h, _s, _out_i, c_size_t, _out_h, _err]),
    "http_server_addresses": (c_int32, [_h, _out_s, _err]),
    "http_server_shutdown": (c_int32, [_h, c_int64, _h, _err]),
    "http_server_free": (None, [_h]),
    "engine_reload": (c_int32, [_h, _s, _s, _err]),
    "op_new": (c_int32, [c_uint64, _out_h, _err]),
    "op_free": (None, [_h]),
    "op_cancel": (None, [_h]),
    "op_set_timeout": (None, [_h, c_int64]),
    "op_set_progress": (None, [_h, c_void_p, c_void_p, c_void_p, c_int32]),
    "op_fd": (c_int32, [_h]),
    "op_result": (c_int32, [_h, POINTER(Result), _err]),
    "container_list": (c_int32, [_h, _s, _out_s, _err]),
    "lease_hold": (c_int32, [_h, _s, _out_i, _err]),
    "container_create": (c_int32, [_h, _s, _s, _h, _out_s, _out_s, _err]),
    "container_inspect": (c_int32, [_h, _s, c_int32, _out_s, _err]),
    "container_start": (c_int32, [_h, _s, POINTER(Io), _h, _out_h, _err]),
    "container_stop": (c_int32, [_h, _s, c_int64, _h, _err]),
    "container_restart": (c_int32, [_h, _s, c_int64, _h, _err]),
    "container_stop_with": (c_int32, [_h, _s, _s, _h, _err]),
    "container_restart_with": (c_int32, [_h, _s, _s, _h, _err]),
    "container_kill": (c_int32, [_h, _s, _s, _h, _err]),
    "container_pause": (c_int32, [_h, _s, _h, _err]),
    "container_unpause": (c_int32, [_h, _s, _h, _err]),
    "container_wait": (c_int32, [_h, _s, _s, _h, _out_i, _out_s, _err]),
    "container_pidfd": (c_int32, [_h, _s, _out_i, _err]),
    "container_remove": (c_int32, [_h, _s, c_uint64, _h, _err]),
    "container_prune": (c_int32, [_h, _s, _h, _out_s, _err]),
    "container_rename": (c_int32, [_h, _s, _s, _err]),
    "container_explain": (c_int32, [_h, _s, _out_s, _err]),
    "container_top": (c_int32, [_h, _s, _s, _out_s, _err]),
    "container_update": (c_int32, [_h, _s, _s, _h, _out_s, _err]),
    "container_stats": (c_int32, [_h, _s, _s, _h, _out_h, _err]),
    "container_logs": (c_int32, [_h, _s, _s, _h, _out_h, _err]),
    "container_attach": (c_int32, [_h, _s, POINTER(Io), _s, _h, _out_h, _err]),
    "exec_create": (c_int32, [_h, _s, _s, _out_s, _err]),
    "exec_start": (c_int32, [_h, _s, POINTER(Io), _h, _out_h, _err]),
    "exec_wait": (c_int32, [_h, _s, _h, _out_i, _err]),
    "exec_inspect": (c_int32, [_h, _s, _out_s, _err]),
    "session_fd": (c_int32, [_h, c_int32]),
    "session_take_fd": (c_int32, [_h, c_int32]),
    "session_read": (c_int64, [_h, c_void_p, c_size_t, _h, _out_i, _err]),
    "session_write": (c_int64, [_h, _s, c_size_t, _h, _err]),
    "session_close_stdin": (c_int32, [_h, _err]),
    "session_resize": (c_int32, [_h, c_uint16, c_uint16, _err]),
    "session_wait": (c_int32, [_h, _h, _out_i, _err]),
    "session_free": (None, [_h]),
    "stream_fd": (c_int32, [_h]),
    "stream_read": (c_int64, [_h, c_void_p, c_size_t, _h, _err]),
    "stream_next": (c_int32, [_h, _h, POINTER(Frame), _err]),
    "stream_lost": (c_int64, [_h]),
    "stream_free": (None, [_h]),
    "events_open": (c_int32, [_h, _s, _out_h, _err]),
    "events_fd": (c_int32, [_h]),
    "events_next": (c_int32, [_h, c_int64, POINTER(c_char_p), _err]),
    "events_free": (None, [_h]),
    "container_stat_path": (c_int32, [_h, _s, _s, _h, _out_s, _err]),
    "container_get_archive": (c_int32, [_h, _s, _s, _h, _out_h, _out_s, _err]),
    "container_put_archive": (c_int32, [_h, _s, _s, _s, c_void_p, c_void_p, _h, _err]),
    "container_export": (c_int32, [_h, _s, _h, _out_h, _err]),
    "container_changes": (c_int32, [_h, _s, _h, _out_s, _err]),
    "container_commit": (c_int32, [_h, _s, _s, _s, _h, _out_s, _err]),
    "image_build": (c_int32, [_h, _s, c_void_p, c_void_p, _h, _out_s, _err]),
    "image_build_dir": (c_int32, [_h, _s, c_int32, _h, _out_s, _err]),
    "image_list": (c_int32, [_h, _s, _out_s, _err]),
    "image_import": (c_int32, [_h, _s, c_void_p, c_void_p, _h, _out_s, _err]),
    "image_load": (c_int32, [_h, c_void_p, c_void_p, _h, _out_s, _err]),
    "image_save": (c_int32, [_h, _s, _h, _out_h, _err]),
    "image_inspect": (c_int32, [_h, _s, _out_s, _err]),
    "image_history": (c_int32, [_h, _s, _out_s, _err]),
    "image_tag": (c_int32, [_h, _s, _s, _err]),
    "image_remove": (c_int32, [_h, _s, c_uint64, _h, _out_s, _err]),
    "image_pull": (c_int32, [_h, _s, _s, _h, _out_s, _err]),
    "image_pull_platform": (c_int32, [_h, _s, _s, _s, _h, _out_s, _err]),
    "registry_inspect": (c_int32, [_h, _s, _s, _h, _out_s, _err]),
    "image_search": (c_int32, [_h, _s, _s, _h, _out_s, _err]),
    "image_prune": (c_int32, [_h, _s, _h, _out_s, _err]),
    "build_prune": (c_int32, [_h, _s, _h, _out_s, _err]),
    "root_verify": (c_int32, [_h, _s, _h, _out_s, _err]),
    "root_import_docker": (c_int32, [_h, _s, _h, _out_s, _err]),
    "root_copy": (c_int32, [_h, _s, _s, _h, _out_s, _err]),
    "image_push": (c_int32, [_h, _s, _s, _h, _out_s, _err]),
    "registry_auth": (c_int32, [_h, _s, _h, _out_s, _err]),
    "plugin_list": (c_int32, [_h, _s, _out_s, _err]),
    "plugin_inspect": (c_int32, [_h, _s, _out_s, _err]),
    "plugin_privileges": (c_int32, [_h, _s, _s, _h, _out_s, _err]),
    "plugin_pull": (c_int32, [_h, _s, _h, _out_s, _err]),
    "plugin_enable": (c_int32, [_h, _s, c_uint32, _h, _err]),
    "plugin_disable": (c_int32, [_h, _s, c_uint64, _h, _err]),
    "plugin_remove": (c_int32, [_h, _s, c_uint64, _h, _err]),
    "plugin_set": (c_int32, [_h, _s, _s, _err]),
    "plugin_upgrade": (c_int32, [_h, _s, _s, _h, _err]),
    "volume_list": (c_int32, [_h, _s, _out_s, _err]),
    "volume_create": (c_int32, [_h, _s, _h, _out_s, _out_s, _err]),
    "volume_inspect": (c_int32, [_h, _s, _out_s, _err]),
    "volume_remove": (c_int32, [_h, _s, _h, _err]),
    "volume_prune": (c_int32, [_h, _s, _h, _out_s, _err]),
    "network_list": (c_int32, [_h, _s, _out_s, _err]),
    "network_inspect": (c_int32, [_h, _s, _out_s, _err]),
    "network_create": (c_int32, [_h, _s, _h, _out_s, _out_s, _err]),
    "network_remove": (c_int32, [_h, _s, _h, _err]),
    "network_prune": (c_int32, [_h, _s, _h, _out_s, _err]),
    "network_release": (c_int32, [_h, _h, _err]),
    "network_repair": (c_int32, [_h, _h, _err]),
    "network_connect": (c_int32, [_h, _s, _s, _h, _err]),
    "network_disconnect": (c_int32, [_h, _s, _s, _h, _err]),
}


def _load() -> ctypes.CDLL:
    """`CORACLE_LIBRARY` where that is set, else the one beside this package, else the system's."""
    named = os.environ.get("CORACLE_LIBRARY")
    beside = [Path(__file__).with_name(name) for name in ("libcoracle.so.1", "libcoracle.so")]
    places = [named] if named else [str(path) for path in beside if path.exists()] or ["libcoracle.so.1"]
    try:
        library = ctypes.CDLL(places[0])
    except OSError as problem:
        raise ImportError(f"libcoracle cannot be loaded: {problem}; CORACLE_LIBRARY may name it") from None
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, f"coracle_{name}")
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()
_functions: dict[str, Callable[..., Any]] = {name: getattr(_library, f"coracle_{name}") for name in FUNCTIONS}


def raw(name: str, *arguments: Any) -> Any:
    """Calls a function that has no error argument."""
    return _functions[name](*arguments)


def call(name: str, *arguments: Any) -> int:
    """Calls a function whose last argument is the error; answers its status or count, or raises the error."""
    error = c_void_p()
    result: int = _functions[name](*arguments, byref(error))
    if result < 0:
        raise take_error(result, error)
    return result


def take_error(code: int, error: c_void_p) -> Error:
    """The exception for an error object, which is freed."""
    if not error:
        return error_class(code)("no details", code=code, kind=raw("status_name", code).decode())
    try:
        return error_class(code)(
            raw("error_message", error).decode(errors="replace"),
            code=raw("error_code", error),
            kind=raw("status_name", code).decode(),
            status=raw("error_http_status", error),
            errno=raw("error_errno", error),
            area=raw("error_area", error).decode(),
            detail=json.loads(raw("error_detail", error)),
        )
    finally:
        raw("error_free", error)


def text(value: Optional[str]) -> Optional[bytes]:
    """Text for the library; a NUL in it would cut it."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"a text is needed here, and not {type(value).__name__}")
    if "\0" in value:
        raise error_class(_EINVALID)("a text has a NUL in it", code=_EINVALID, kind="INVALID", status=400)
    return value.encode()


def document(value: Any) -> bytes:
    """A JSON document for the library."""
    return json.dumps(value).encode()


def take_text(pointer: c_void_p) -> str:
    """A string that the library gave, which is freed."""
    try:
        return ctypes.string_at(pointer.value or 0).decode(errors="replace") if pointer else ""
    finally:
        raw("free", pointer)


def call_text(name: str, *arguments: Any) -> str:
    """Calls a function whose last but one argument is a string that it gives."""
    out = c_void_p()
    call(name, *arguments, byref(out))
    return take_text(out)


def call_json(name: str, *arguments: Any) -> Any:
    """Calls a function whose last but one argument is a document that it gives."""
    return json.loads(call_text(name, *arguments))


class Scope:
    """Bounds and cancels the calls of a thread: `with coracle.Scope(timeout=5) as scope: container.wait()`.

    Every call that the thread makes inside of the `with` ends when the time has passed (`Timeout`), or when any thread calls
    `scope.cancel()` (`Cancelled`). Scopes may stand in one another, and several threads may enter one scope.
    """

    def __init__(self, timeout: Optional[float] = None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout
        self._lock = threading.Lock()
        self._ops: set[Op] = set()
        self.cancelled = False

    def cancel(self) -> None:
        """Ends the calls under way, and every later one inside of the scope."""
        with self._lock:
            self.cancelled = True
            for op in self._ops:
                raw("op_cancel", op.handle)

    def __enter__(self) -> Scope:
        _scopes().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _scopes().remove(self)

    def left(self) -> Optional[float]:
        """Seconds until its end; None: it has none."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def _enter(self, op: Op) -> None:
        with self._lock:
            self._ops.add(op)
            if self.cancelled:
                raw("op_cancel", op.handle)

    def _leave(self, op: Op) -> None:
        with self._lock:
            self._ops.discard(op)


_local = threading.local()


def _scopes() -> list[Scope]:
    """The scopes that this thread is in."""
    if not hasattr(_local, "scopes"):
        _local.scopes = []
    scopes: list[Scope] = _local.scopes
    return scopes


def scope_left() -> Optional[float]:
    """Seconds until the first end of the scopes that this thread is in."""
    ends = [left for left in (scope.left() for scope in _scopes()) if left is not None]
    return min(ends, default=None)


class Op:
    """An operation for one call: `with Op(timeout) as op: op.call(...)`.

    On the main thread Python's signal handlers run while the call blocks; what they raise (KeyboardInterrupt) ends the
    call and goes on from there, or from the end of the `with` where the call came through all the same: what it gave
    belongs in an object by then. `progress` gets the records of the call, on the thread that makes it.
    """

    def __init__(
        self, timeout: Optional[float] = None, progress: Optional[Callable[[dict[str, Any]], object]] = None
    ) -> None:
        self.handle = c_void_p()
        self.raised: Optional[BaseException] = None
        self._in = list(_scopes())
        main = threading.current_thread() is threading.main_thread()
        timeout = min((t for t in (timeout, scope_left()) if t is not None), default=None)
        if timeout is None and progress is None and not main and not self._in:
            return
        call("op_new", 0, byref(self.handle))
        for scope in self._in:
            scope._enter(self)
        if timeout is not None:
            raw("op_set_timeout", self.handle, max(0, int(timeout * 1000)))
        if progress is not None or main:
            self._watch = self._watching(progress)
            next(self._watch)
            raw("op_set_progress", self.handle, _send, id(self._watch), None, HEARTBEAT_MS)

    def __enter__(self) -> Op:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for scope in self._in:
            scope._leave(self)
        raw("op_free", self.handle)
        self.handle = c_void_p()
        if kind is None and self.raised is not None:
            raise self.raised

    def call(self, name: str, *arguments: Any) -> int:
        """As `call`; what was raised meanwhile comes out in place of the library's error about it."""
        error = c_void_p()
        result: int = _functions[name](*arguments, byref(error))
        if result >= 0:
            return result
        problem = take_error(result, error)
        raise self.raised or problem

    def call_text(self, name: str, *arguments: Any) -> str:
        out = c_void_p()
        self.call(name, *arguments, byref(out))
        return take_text(out)

    def aside(self, work: Callable[[], T]) -> T:
        """Runs `work`, which calls with this operation, on a thread of its own and waits for it.

        For calls that call Python all the time: on the main thread a signal handler would run at the begin of each such
        function, where what it raises can only be dropped. Here it runs while this waits, and ends the work.
        """
        results: list[T] = []
        problems: list[BaseException] = []
        # Not the thread's `join`: in Python up to 3.12 one that is interrupted takes the thread for ended.
        ended = threading.Event()

        def run() -> None:
            try:
                results.append(work())
            except BaseException as problem:
                problems.append(problem)
            finally:
                ended.set()

        threading.Thread(target=run, name="coracle", daemon=True).start()
        try:
            # Not one long wait: a signal that another thread took does not interrupt it.
            while not ended.wait(HEARTBEAT_MS / 1000):
                pass
        except BaseException:
            raw("op_cancel", self.handle)
            ended.wait()
            raise
        for problem in problems:
            raise problem
        return results[0]

    def _watching(self, progress: Optional[Callable[[dict[str, Any]], object]]) -> Generator[int, Optional[bytes], None]:
        """Gets what the library tells.

        A generator, because it waits inside of `try`: Python runs a pending signal handler at once when it goes on here,
        and with a function that would be before its `try`, where ctypes can only drop the exception.
        """
        answer = 0
        while True:
            try:
                record = yield answer
                if record is not None and progress is not None:
                    progress(json.loads(record))
                answer = 0
            except GeneratorExit:
                return
            except BaseException as problem:
                self.raised = problem
                answer = 1


#: One callback for all: `user` comes in as the generator, and the C function `send` has the two arguments that it needs.
_progress_callback = PROGRESS(types.GeneratorType.send)
_send = ctypes.cast(_progress_callback, c_void_p)


class Source:
    """A readable object (`read(n)` gives bytes) as the library's read function."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.raised: Optional[BaseException] = None
        # The object keeps it alive for the call.
        self._callback = READ(self._read)
        self.function, self.user = ctypes.cast(self._callback, c_void_p), None

    def _read(self, _user: Optional[int], buffer: int, length: int) -> int:
        try:
            data = self._file.read(length)
            if len(data) > length:
                raise ValueError("read() gave more than it was asked for")
            ctypes.memmove(buffer, data, len(data))
            return len(data)
        except BaseException as problem:
            self.raised = problem
            return -1

    def told(self, run: "Callable[[], T]") -> T:
        """Runs what reads it; what the object raised is raised here."""
        try:
            return run()
        except Exception:
            if self.raised is not None:
                raise self.raised from None
            raise


class Descriptor:
    """A file of the system as the library's read function: the library reads it by itself, without a call of Python."""

    def __init__(self, fd: int) -> None:
        self.function, self.user = _library.coracle_read_fd, c_void_p(fd)

    def told(self, run: "Callable[[], T]") -> T:
        return run()


class Handle:
    """A handle of the library with the function that ends it."""

    def __init__(self, pointer: c_void_p, free: str) -> None:
        self._pointer = pointer
        self._free = free

    @property
    def pointer(self) -> c_void_p:
        if not self._pointer:
            raise error_class(_EMISUSE)("it was closed before", code=_EMISUSE, kind="MISUSE", status=500)
        return self._pointer

    @property
    def open(self) -> bool:
        """Whether it was not closed yet."""
        return bool(self._pointer)

    def close(self) -> None:
        pointer, self._pointer = self._pointer, c_void_p()
        if pointer:
            raw(self._free, pointer)

    def __del__(self) -> None:
        # At the end of the interpreter what is needed here may be gone.
        try:
            self.close()
        except Exception:
            pass
