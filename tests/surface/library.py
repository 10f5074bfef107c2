"""The C library as its header describes it: each function by the names of its arguments.

The description is what `coracle-header --surface` prints: CORACLE_SURFACE names a file with it. CORACLE_LIBRARY names the
library, and `include/schema` beside this directory has the schemas. Every document that a call gives or takes is compared with
the schema that the header names for it.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Optional

import jsonschema

SURFACE = json.loads(Path(os.environ["CORACLE_SURFACE"]).read_text())
FUNCTIONS = {function["name"]: function for function in SURFACE["functions"]}
NUMBERS = SURFACE["numbers"]
NAMES = {value: name.removeprefix("CORACLE_") for name, value in NUMBERS.items() if name.startswith("CORACLE_E")}
SCHEMAS = Path(__file__).resolve().parents[2] / "include" / "schema"

TYPES: dict[str, Any] = {
    "void": None,
    "coracle_status": c_int32,
    "int32_t": c_int32,
    "int64_t": c_int64,
    "uint16_t": c_uint16,
    "uint32_t": c_uint32,
    "uint64_t": c_uint64,
    "size_t": c_size_t,
    "const char *": c_char_p,
}
READ = ctypes.CFUNCTYPE(c_int64, c_void_p, c_void_p, c_size_t)
PROGRESS = ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p)


class OpenOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("run_dir", c_char_p), ("config_json", c_char_p), ("flags", c_uint64)]


class Io(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("flags", c_uint64), ("fd_in", c_int32), ("fd_out", c_int32), ("fd_err", c_int32)]
    _fields_ += [("rows", c_uint16), ("cols", c_uint16)]


class Frame(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("channel", c_int32), ("time_ns", c_int64), ("data", c_void_p), ("len", c_size_t)]


class Result(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("code", c_int32), ("id", c_void_p), ("json", c_void_p)]
    _fields_ += [("session", c_void_p), ("stream", c_void_p)]


def load(path: str) -> ctypes.CDLL:
    """A library with the types of the header."""
    library = ctypes.CDLL(path)
    for name, function in FUNCTIONS.items():
        found = getattr(library, name)
        found.restype = TYPES.get(function["answer"], c_void_p)
        found.argtypes = [TYPES.get(kind, c_void_p) for _, kind in function["arguments"]]
    return library


LIBRARY = load(os.environ["CORACLE_LIBRARY"])


class Answer:
    """The answer of a call: its status or number, its error, and the values of its out arguments by name."""

    def __init__(self, status: Any, error: Optional[dict[str, Any]], outs: dict[str, Any]) -> None:
        self.status, self.error, self.outs = status, error, outs

    def __getitem__(self, name: str) -> Any:
        return self.outs[name]

    @property
    def code(self) -> str:
        return NAMES.get(self.status, str(self.status))

    def __repr__(self) -> str:
        return f"{self.code} {self.error or self.outs}"


def io(fd_out: int = -1, flags: int = 0) -> Io:
    return Io(ctypes.sizeof(Io), flags, -1, fd_out, -1, 0, 0)


def options(run: Any, config: Any = None, flags: int = 0) -> OpenOptions:
    if config is not None:
        check("open-config", json.dumps(config), True)
    text = None if config is None else json.dumps(config).encode()
    return OpenOptions(ctypes.sizeof(OpenOptions), os.fsencode(run), text, flags)


#: Documents that were compared with their schema: the function, the argument, the schema.
compared: set[tuple[str, str, str]] = set()


@functools.cache
def validator(name: str, way_in: bool) -> Any:
    """What compares documents with a schema."""
    return jsonschema.Draft202012Validator(schema(name, way_in))


def schema(name: str, way_in: bool) -> Any:
    """A schema. Out of the library a member that is not in it is a mistake of the schema, although callers pass over it."""
    whole = json.loads((SCHEMAS / f"{name}.json").read_text())

    def close(part: Any) -> None:
        if isinstance(part, dict):
            if "properties" in part and "additionalProperties" not in part:
                part["unevaluatedProperties"] = False
            for value in part.values():
                close(value)
        elif isinstance(part, list):
            for value in part:
                close(value)

    if not way_in:
        # An event is a whole of two parts, of which none is closed by itself.
        whole_of_parts = "allOf" in whole
        if whole_of_parts:
            whole["unevaluatedProperties"] = False
        else:
            close(whole)
    return whole


def check(name: str, text: str, way_in: bool) -> None:
    """Compares a document with a schema."""
    validator(name, way_in).validate(json.loads(text))


def taken(pointer: int) -> str:
    """A text that the library gave, which is freed."""
    text = ctypes.string_at(pointer).decode()
    LIBRARY.coracle_free(pointer)
    return text


def read_error(pointer: int) -> dict[str, Any]:
    """The facts of an error, which is freed."""
    error = {
        "code": LIBRARY.coracle_error_code(pointer),
        "status": LIBRARY.coracle_error_http_status(pointer),
        "errno": LIBRARY.coracle_error_errno(pointer),
        "area": LIBRARY.coracle_error_area(pointer).decode(),
        "message": LIBRARY.coracle_error_message(pointer).decode(errors="replace"),
        "detail": LIBRARY.coracle_error_detail(pointer).decode(),
    }
    LIBRARY.coracle_error_free(pointer)
    check("error-detail", error["detail"], False)
    error["detail"] = json.loads(error["detail"])
    return error


class Call:
    """A call with its arguments in C's form."""

    def __init__(self, name: str, given: dict[str, Any]) -> None:
        self.function = FUNCTIONS[name]
        self.outs: dict[str, tuple[str, Any]] = {}
        self.error = c_void_p()
        self.documents: dict[str, str] = {}
        unknown = set(given) - {argument for argument, _ in self.function["arguments"]}
        assert not unknown, f"{name} has no {unknown}"
        self.arguments = [self.argument(argument, kind, given) for argument, kind in self.function["arguments"]]

    def argument(self, name: str, kind: str, given: dict[str, Any]) -> Any:
        if name == "err":
            return byref(self.error)
        if name in given:
            value = given[name]
            if name.endswith("_json") and value is not None and not isinstance(value, (str, bytes)):
                value = json.dumps(value)
            if name.endswith("_json") and isinstance(value, str):
                self.documents[name] = value
            if isinstance(value, str):
                return value.encode()
            return byref(value) if isinstance(value, ctypes.Structure) else value
        if name.startswith("out") and kind.endswith("*"):
            place = {"int32_t *": c_int32, "const char **": c_char_p, "coracle_frame *": Frame, "coracle_result *": Result}
            value = place.get(kind, c_void_p)()
            if isinstance(value, ctypes.Structure):
                value.size = ctypes.sizeof(value)
            self.outs[name] = (kind, value)
            return byref(value)
        return 0 if kind in ("size_t", "int32_t", "int64_t", "uint16_t", "uint32_t", "uint64_t") else None

    def out(self, kind: str, value: Any) -> Any:
        if kind == "char **":
            return taken(value.value) if value.value else None
        if isinstance(value, ctypes.Structure):
            return value
        return value.value.decode() if isinstance(value.value, bytes) else value.value


# Read while there are descriptors.
validator("error-detail", False)


def call(name: str, /, **given: Any) -> Answer:
    """Calls a function by the names of its arguments; those that are not given are NULL or 0, and out arguments have places."""
    made = Call(name, given)
    status = getattr(LIBRARY, name)(*made.arguments)
    outs = {out: made.out(kind, value) for out, (kind, value) in made.outs.items()}
    error = read_error(made.error.value) if made.error.value else None
    refused = error is not None and NAMES[error["code"]] in ("EINVALID", "EUNSUPPORTED")
    for argument, of in made.function["schemas"]:
        text = made.documents.get(argument) or outs.get(argument)
        if text is not None and not refused:
            check(of, text, argument in made.documents)
            compared.add((name, argument, of))
    return Answer(status, error, outs)


def good(name: str, /, **given: Any) -> Answer:
    """A call that succeeds."""
    answer = call(name, **given)
    assert answer.error is None and (answer.status is None or answer.status >= 0), f"{name}: {answer}"
    return answer


def bytes_of(frame: Frame) -> bytes:
    """The bytes of a record."""
    return ctypes.string_at(frame.data, frame.len)
