"""member.py LIBRARY|SOCKET ROOT RUN SECONDS SEED OUT: one program of the crowd (tests/suite/container_crowd.rs), by the library in this
process or by the socket of `coracle serve`: random calls on the same few containers. OUT gets, as JSON, how many calls of
each kind changed something."""

import ctypes
import http.client
import json
import random
import socket
import sys
import time

where, root, run, seconds, seed, out = sys.argv[1:]
NAMES = ["ash", "birch", "cedar", "dogwood", "elm"]
SCRIPT = "trap 'exit 0' TERM; while :; do sleep 0.02; done"
CREATE = {"Image": "busybox", "Cmd": ["sh", "-c", SCRIPT], "HostConfig": {"NetworkMode": "none"}}
CALLS = [
    ("create", "POST", "/containers/create?name={0}", CREATE, 201),
    ("start", "POST", "/containers/{0}/start", None, 204),
    ("stop", "POST", "/containers/{0}/stop?t=0", None, 204),
    ("", "POST", "/containers/{0}/kill", None, 0),
    ("pause", "POST", "/containers/{0}/pause", None, 204),
    ("unpause", "POST", "/containers/{0}/unpause", None, 204),
    ("destroy", "DELETE", "/containers/{0}?force=1", None, 204),
    ("exec_create", "POST", "/containers/{0}/exec", {"Cmd": ["true"]}, 201),
    ("rename", "POST", "/containers/{0}/rename?name={1}", None, 204),
    ("", "GET", "/containers/{0}/json", None, 0),
    ("", "GET", "/containers/json?all=1", None, 0),
    ("", "GET", "/containers/{0}/logs?stdout=1", None, 0),
]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("run_dir", ctypes.c_char_p),
        ("config_json", ctypes.c_char_p),
        ("flags", ctypes.c_uint64),
    ]


class Library:
    def __init__(self) -> None:
        self.library = ctypes.CDLL(where)
        self.read = self.library.coracle_stream_read
        self.read.restype = ctypes.c_int64
        options = Options(ctypes.sizeof(Options), run.encode(), b'{"durability":"off"}', 0)
        self.engine, error = ctypes.c_void_p(), ctypes.c_void_p()
        done = self.library.coracle_open(
            root.encode(), ctypes.byref(options), ctypes.byref(self.engine), ctypes.byref(error)
        )
        assert done >= 0, "open"

    def ask(self, method: str, target: str, body: bytes) -> "tuple[int, bytes]":
        status, stream, error = ctypes.c_int32(), ctypes.c_void_p(), ctypes.c_void_p()
        done = self.library.coracle_http_request(
            self.engine, method.encode(), target.encode(), b'{"Content-Type":"application/json"}', body,
            ctypes.c_size_t(len(body)), None, ctypes.byref(status), ctypes.byref(stream), ctypes.byref(error),
        )
        assert done >= 0, (method, target, done)
        pieces, buffer = [], ctypes.create_string_buffer(65536)
        while (count := self.read(stream, buffer, ctypes.c_size_t(65536), None, None)) > 0:
            pieces.append(buffer.raw[:count])
        self.library.coracle_stream_free(stream)
        return status.value, b"".join(pieces)


class Server(http.client.HTTPConnection):
    def __init__(self) -> None:
        super().__init__("localhost")

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(where)

    def ask(self, method: str, target: str, body: bytes) -> "tuple[int, bytes]":
        self.request(method, target, body, {"Content-Type": "application/json"})
        answer = self.getresponse()
        return answer.status, answer.read()


host = Library() if where.endswith(".so") else Server()
choose = random.Random(int(seed))
changed: "dict[str, int]" = {}
end = time.monotonic() + float(seconds)
while time.monotonic() < end:
    kind, method, target, body, done = choose.choice(CALLS)
    target = "/v1.24" + target.format(choose.choice(NAMES), choose.choice(NAMES))
    status, text = host.ask(method, target, json.dumps(body).encode() if body else b"")
    expected = status < 400 or status in (404, 409)
    expected = expected or status == 400 and b"same name" in text or status == 500 and b"is not paused" in text
    assert expected, (method, target, status, text)
    if kind and status == done:
        changed[kind] = changed.get(kind, 0) + 1
with open(out, "w", encoding="utf-8") as file:
    json.dump(changed, file)
