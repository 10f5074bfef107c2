"""Every error that the header lists for a function is provoked, and every error that is provoked is listed.

    errors.py WORK IMAGE.tar

WORK is an empty directory; IMAGE.tar has busybox. To be called as root, in a mount and a network namespace of its own, where
localhost:5000 is a registry. Each error is compared: its code, its errno, its area.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import http.server
import io as text_io
import json
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
import traceback
from ctypes import byref, c_char_p, c_int32, c_void_p
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import library
from library import FUNCTIONS, NUMBERS, call, good, io, options
from provoke import *
from provoke import LONG, NONBLOCK, REFUSE

WORK, IMAGE = Path(sys.argv[1]), sys.argv[2]
passed, failures = 0, []
provoked: set[tuple[str, str]] = set()

#: The area of an error of a function, if its engine names none: its object.
AREAS = {"build": "image", "lease": "lease", "stream": "stream", "host": "host", "set": "library", "open": "root", "events": "event", "op": "operation", "registry": "registry"}


def area_of(name: str) -> str:
    noun = name.split("_")[1]
    if name.startswith("coracle_http"):
        return "http"
    if name in ("coracle_image_pull", "coracle_image_pull_platform", "coracle_image_push", "coracle_image_search"):
        return "registry"
    return AREAS.get(noun, noun)


def expect(code: str, function: str, /, area: Optional[str] = None, errno: int = 0, detail: Any = None, **given: Any) -> Any:
    """A call that fails with this code (without CORACLE_), area and errno."""
    global passed
    try:
        answer = call(function, **given)
    except Exception as problem:
        failures.append(f"line {traceback.extract_stack()[-2].lineno}: {function}: {str(problem)[:300]}")
        return None
    error = answer.error or {"code": answer.status, "area": "", "errno": 0, "message": "", "detail": {}}
    got = (library.NAMES.get(answer.status), error["code"] == answer.status, error["area"], error["errno"])
    wanted = (code, True, area_of(function) if area is None else area, errno)
    if got != wanted or (detail is not None and error["detail"] != detail) or not error["message"] and answer.error:
        at = traceback.extract_stack()[-2].lineno
        failures.append(f"line {at}: {function}: wanted {wanted} {detail or ''}, got {got} {error['detail']}: {error['message']}")
    else:
        passed += 1
        provoked.add((function, code))
    return answer


# ---- what the calls need ----


def ends(function: str, /, **given: Any) -> None:
    """Both ends of an operation: it is cancelled, its deadline passed."""
    for code, made in (("ECANCELLED", op(cancelled=True)), ("ETIMEOUT", op(ms=0))):
        expect(code, function, op=made, **given)
        good("coracle_op_free", op=made)


@contextlib.contextmanager
def disk(name: str, size: str) -> Iterator[Path]:
    """A small disk."""
    path = WORK / name
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


class Registry(http.server.BaseHTTPRequestHandler):
    """A registry that refuses: names that begin with "secret" need credentials, those that begin with "closed" are nobody's."""

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        closed = "/closed" in self.path
        self.send_response(403 if closed else 401)
        if not closed:
            self.send_header("WWW-Authenticate", 'Basic realm="here"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = answer

    def log_message(self, *_: Any) -> None:
        pass


# ---- by noun, in the order of the header ----


def library_itself() -> None:
    expect("EINVALID", "coracle_set_log", level=99)
    expect("EINVALID", "coracle_op_new", flags=8)
    with no_descriptors():
        expect("EIO", "coracle_op_new", errno=24)
    blocking, begun = op(), op(NONBLOCK)
    expect("EMISUSE", "coracle_op_fd", area="", op=blocking)
    expect("EMISUSE", "coracle_op_result", op=begun)
    expect("EINVALID", "coracle_op_result", op=begun, out=None)


def opening(c: c_void_p, root: Path, run: Path) -> None:
    expect("EINVALID", "coracle_open", root=str(root), opt=options(run, flags=1 << 20), detail={"argument": "opt.flags"})
    expect("EINVALID", "coracle_host_report", root=str(root), opt=options(run, flags=1 << 20), detail={"argument": "opt.flags"})
    existing = NUMBERS["CORACLE_OPEN_EXISTING"]
    expect("ENOT_FOUND", "coracle_open", root=str(WORK / "none"), opt=options(WORK / "none-run", flags=existing))
    (WORK / "file").write_bytes(b"")
    expect("EIO", "coracle_open", errno=20, root=str(WORK / "file" / "root"), opt=options(WORK / "none-run"))

    # A database of a later version.
    later = WORK / "later"
    good("coracle_close", c=open_root(later, WORK / "later-run"))
    with contextlib.closing(sqlite3.connect(later / "coracle.db")) as database:
        database.execute("PRAGMA user_version = 1000000")
    expect("EUNSUPPORTED", "coracle_open", area="store", root=str(later), opt=options(WORK / "later-run"))

    # The library twice in one process.
    copy = WORK / "libcopy.so"
    shutil.copyfile(os.environ["CORACLE_LIBRARY"], copy)
    other = library.load(str(copy))
    first, library.LIBRARY = library.LIBRARY, other
    try:
        expect("ECONFLICT", "coracle_open", area="store", root=str(root), opt=options(run))
    finally:
        library.LIBRARY = first

    # A process without a capability.
    drop = ["setpriv", "--bounding-set", "-chown", sys.executable, __file__, str(WORK), IMAGE, "weak"]
    child = subprocess.run(drop, capture_output=True, text=True)
    told = child.stdout.strip().splitlines()
    if child.returncode == 0 and told:
        provoked.add(("coracle_open", told[-1]))
    else:
        failures.append(f"a process without CAP_CHOWN: {child.stdout} {child.stderr}")


def containers(c: c_void_p, image: str) -> None:
    good_body = {"Image": image, "Cmd": ["true"], "HostConfig": {"NetworkMode": "none"}}

    def body(**more: Any) -> Any:
        return {**good_body, **more}

    name = "coracle_container_create"
    wrong_type = {"argument": "body_json", "field": "HostConfig.Memory"}
    expect("EINVALID", name, c=c, body_json=body(HostConfig={"Memory": "lots"}), detail=wrong_type)
    stranger = {"argument": "body_json", "field": "HostConfig.Memoryy"}
    expect("EINVALID", name, c=c, body_json=body(HostConfig={"Memoryy": 1}), detail=stranger)
    expect("ENOT_FOUND", name, c=c, body_json=body(Image="none"))
    taken = create(c, image, name="taken")
    expect("ECONFLICT", name, c=c, name="taken", body_json=body(), detail={"id": taken})
    refused = {"argument": "body_json", "field": "HostConfig.CpuRealtimePeriod"}
    expect("EUNSUPPORTED", name, c=c, body_json=body(HostConfig={"CpuRealtimePeriod": 1}), detail=refused)
    ends(name, c=c, body_json=body())

    expect("EINVALID", "coracle_lease_hold", c=c, name="a/b")
    expect("ECONFLICT", name, c=c, body_json=body(Labels={"coracle.lease": "nobody"}))

    asleep, alive, paused = create(c, image), running(c, image), running(c, image)
    good("coracle_container_pause", c=c, id=paused)

    name = "coracle_container_start"
    expect("ENOT_FOUND", name, c=c, id="absent")
    lost = str(good("coracle_container_create", c=c, body_json=body(Cmd=["/none"]))["out_id"])
    expect("EINVALID", name, c=c, id=lost)
    expect("ECONFLICT", name, c=c, id=paused)
    ends(name, c=c, id=asleep)

    name = "coracle_container_attach"
    expect("ENOT_FOUND", name, c=c, id="absent")
    expect("ECONFLICT", name, c=c, id=paused)
    expect("EINVALID", name, c=c, id=alive, query_json={"stdou": True}, detail={"argument": "query_json", "field": "stdou"})
    ends(name, c=c, id=alive)

    name = "coracle_container_stop"
    expect("ENOT_FOUND", name, c=c, id="absent")
    ends(name, c=c, id=alive, grace_ms=-1)
    deaf = running(c, image, "trap '' TERM; while :; do sleep 0.1; done")
    with refusing() as made:
        expect("ECALLBACK", name, c=c, id=deaf, grace_ms=-1, op=made, detail={"callback": 7})
    name = "coracle_container_restart"
    expect("ENOT_FOUND", name, c=c, id="absent")
    expect("EINVALID", name, c=c, id=lost)
    ends(name, c=c, id=alive, grace_ms=-1)
    with refusing() as made:
        expect("ECALLBACK", name, c=c, id=deaf, grace_ms=-1, op=made, detail={"callback": 7})

    for name in ("coracle_container_stop_with", "coracle_container_restart_with"):
        expect("ENOT_FOUND", name, c=c, id="absent")
        expect("EINVALID", name, c=c, id=alive, how_json={"signal": "SIGNOTHING"})
        ends(name, c=c, id=alive, how_json={"grace_ms": -1})
        with refusing() as made:
            expect("ECALLBACK", name, c=c, id=deaf, how_json={"grace_ms": -1}, op=made, detail={"callback": 7})

    name = "coracle_container_kill"
    expect("ENOT_FOUND", name, c=c, id="absent")
    expect("ECONFLICT", name, c=c, id=asleep)
    expect("EINVALID", name, c=c, id=alive, signal="SIGNOTHING")
    ends(name, c=c, id=alive)
    for _ in range(100):  # Most end before the first heartbeat.
        with refusing() as made:
            if call(name, c=c, id=running(c, image), op=made).code == "ECALLBACK":
                provoked.add((name, "ECALLBACK"))
                break

    for name, code, other in (("coracle_container_pause", "ECONFLICT", paused), ("coracle_container_unpause", "EINTERNAL", alive)):
        expect("ENOT_FOUND", name, c=c, id="absent")
        expect(code, name, c=c, id=asleep)
        expect(code, name, c=c, id=other)
        ends(name, c=c, id=alive)

    name = "coracle_container_wait"
    expect("ENOT_FOUND", name, c=c, id="absent")
    expect("EINVALID", name, c=c, id=alive, condition="later")
    ends(name, c=c, id=alive)
    with refusing() as made:
        expect("ECALLBACK", name, c=c, id=alive, op=made, detail={"callback": 7})
    expect("ENOT_FOUND", "coracle_container_pidfd", c=c, id="absent")
    expect("ECONFLICT", "coracle_container_pidfd", c=c, id=asleep)

    name = "coracle_container_remove"
    expect("ENOT_FOUND", name, c=c, id="absent")
    expect("ECONFLICT", name, c=c, id=alive)
    expect("EINVALID", name, c=c, id=alive, flags=1 << 20, detail={"argument": "flags"})
    ends(name, c=c, id=alive, flags=NUMBERS["CORACLE_REMOVE_FORCE"])
    name = "coracle_container_prune"
    expect("EINVALID", name, c=c, filters_json={"odd": ["x"]})
    ends(name, c=c, filters_json={"label": ["none"]})
    expect("EINVALID", "coracle_container_list", c=c, query_json={"filters": {"odd": ["x"]}})
    expect("EINTERNAL", "coracle_container_list", c=c, query_json={"since": "absent"})
    expect("ENOT_FOUND", "coracle_container_inspect", c=c, id="absent")
    expect("ENOT_FOUND", "coracle_container_explain", c=c, id="absent")
    shares = create(c, image, HostConfig={"NetworkMode": f"container:{asleep}"})
    expect("ECONFLICT", "coracle_container_explain", c=c, id=shares)
    name = "coracle_container_top"
    expect("ENOT_FOUND", name, c=c, id="absent")
    expect("ECONFLICT", name, c=c, id=asleep)
    expect("EINTERNAL", name, c=c, id=alive, ps_args="--nothing")
    name = "coracle_container_stats"
    expect("ENOT_FOUND", name, c=c, id="absent")
    expect("EINVALID", name, c=c, id=alive, query_json={"stream": []}, detail={"argument": "query_json", "field": "stream"})
    ends(name, c=c, id=alive)
    name = "coracle_container_rename"
    expect("ENOT_FOUND", name, c=c, id="absent", name="x")
    expect("ECONFLICT", name, c=c, id=asleep, name="taken", detail={"id": taken})
    expect("EINVALID", name, c=c, id=asleep, name="a/b")

    name = "coracle_container_update"
    expect("ENOT_FOUND", name, c=c, id="absent", body_json={})
    expect("EINVALID", name, c=c, id=alive, body_json={"Memory": 1}, detail={"field": "Memory", "limit": 6 << 20})
    expect("ECONFLICT", name, c=c, id=running(c, image, HostConfig={"Memory": 64 << 20, "MemorySwap": 64 << 20}), body_json={"Memory": 128 << 20})
    # Memory that cannot be taken back.
    full = create(c, image, "head -c 40000000 /dev/zero >/dev/shm/x; echo ready; sleep 1000", HostConfig={"Memory": 256 << 20, "MemorySwap": 256 << 20})
    talks = session(c, full)
    room = ctypes.create_string_buffer(16)
    good("coracle_session_read", s=talks, buf=ctypes.addressof(room), len=16, op=op(ms=LONG))
    expect("EINTERNAL", name, c=c, id=full, body_json={"Memory": 8 << 20, "MemorySwap": 8 << 20})
    ends(name, c=c, id=alive, body_json={})

    for name in ("coracle_container_stat_path", "coracle_container_get_archive"):
        expect("ENOT_FOUND", name, c=c, id="absent", path="/")
        expect("ENOT_FOUND", name, c=c, id=asleep, path="/none")
        expect("EINVALID", name, c=c, id=asleep, path="")
        expect("EINVALID", name, c=c, id=asleep, path="/bin/busybox/")
        ends(name, c=c, id=asleep, path="/")
    name = "coracle_container_put_archive"
    small = archive(file=b"x")
    expect("ENOT_FOUND", name, c=c, id="absent", path="/", tar=source(small))
    expect("ENOT_FOUND", name, c=c, id=asleep, path="/none", tar=source(small))
    expect("EINVALID", name, c=c, id=asleep, path="/", tar=source(b"x" * 1024))
    fixed = create(c, image, HostConfig={"ReadonlyRootfs": True})
    expect("EFORBIDDEN", name, c=c, id=fixed, path="/", tar=source(small))
    expect("ECALLBACK", name, c=c, id=asleep, path="/", tar=REFUSE, detail={"callback": -5})
    ends(name, c=c, id=asleep, path="/", tar=source(small))
    for name in ("coracle_container_export", "coracle_container_changes"):
        expect("ENOT_FOUND", name, c=c, id="absent")
        ends(name, c=c, id=asleep)
    name = "coracle_container_commit"
    expect("ENOT_FOUND", name, c=c, id="absent")
    expect("EINVALID", name, c=c, id=asleep, query_json={"changes": ["WHAT x"]})
    ends(name, c=c, id=asleep)
    name = "coracle_container_logs"
    expect("ENOT_FOUND", name, c=c, id="absent")
    expect("EINVALID", name, c=c, id=asleep, query_json={"tail": []}, detail={"argument": "query_json", "field": "tail"})
    silent = create(c, image, HostConfig={"LogConfig": {"Type": "none"}})
    expect("EUNSUPPORTED", name, c=c, id=silent)
    ends(name, c=c, id=asleep)
    execs(c, asleep, alive, paused)


def execs(c: c_void_p, asleep: str, alive: str, paused: str) -> None:
    name = "coracle_exec_create"
    expect("ENOT_FOUND", name, c=c, id="absent", body_json={"Cmd": ["true"]})
    expect("ECONFLICT", name, c=c, id=asleep, body_json={"Cmd": ["true"]})
    expect("ECONFLICT", name, c=c, id=paused, body_json={"Cmd": ["true"]})
    expect("EINVALID", name, c=c, id=alive, body_json={})
    name = "coracle_exec_start"
    made = good("coracle_exec_create", c=c, id=alive, body_json={"Cmd": ["sleep", "1000"]})["out_id"]
    expect("ENOT_FOUND", name, c=c, id="absent")
    lost = good("coracle_exec_create", c=c, id=alive, body_json={"Cmd": ["/none"]})["out_id"]
    expect("EINVALID", name, c=c, id=lost)
    ends(name, c=c, id=made)
    good(name, c=c, id=made)
    expect("ECONFLICT", name, c=c, id=made)
    name = "coracle_exec_wait"
    expect("ENOT_FOUND", name, c=c, id="absent")
    ends(name, c=c, id=made)
    with refusing() as op_made:
        expect("ECALLBACK", name, c=c, id=made, op=op_made, detail={"callback": 7})
    expect("ENOT_FOUND", "coracle_exec_inspect", c=c, id="absent")


def sessions(c: c_void_p, image: str) -> None:
    talker = session(c, create(c, image, "sleep 1000", OpenStdin=True))
    mute = session(c, create(c, image, "sleep 1000"))
    room = ctypes.create_string_buffer(4096)
    place = ctypes.addressof(room)

    name = "coracle_session_read"
    ends(name, s=talker, buf=place, len=4096)
    expect("EINVALID", name, s=talker, buf=None, len=4)
    with refusing() as made:
        expect("ECALLBACK", name, s=talker, buf=place, len=4096, op=made, detail={"callback": 7})
    busy(lambda op: call(name, s=talker, buf=place, len=4096, op=op), lambda: expect("EMISUSE", name, s=talker, buf=place, len=4096, op=op(ms=100)))

    name = "coracle_session_write"
    expect("EINVALID", name, s=talker, buf=None, len=4)
    expect("EMISUSE", name, s=mute, buf=place, len=4)
    big = ctypes.create_string_buffer(1 << 20)
    full = lambda op: call(name, s=talker, buf=ctypes.addressof(big), len=1 << 20, op=op)
    refused = 0
    while refused < 5:  # Until nothing more goes, as nobody reads; the monitor takes its part later than the socket.
        refused = refused + 1 if full(op(ms=500)).status < 0 else 0
    ends(name, s=talker, buf=place, len=4096)
    with refusing() as made:
        expect("ECALLBACK", name, s=talker, buf=place, len=4096, op=made, detail={"callback": 7})
    busy(full, lambda: expect("EMISUSE", name, s=talker, buf=place, len=4096, op=op(ms=100)))

    expect("EINVALID", "coracle_session_fd", area="", s=talker, channel=9)
    expect("ENOT_FOUND", "coracle_session_fd", area="", s=mute, channel=0)
    expect("EINVALID", "coracle_session_take_fd", area="", s=talker, channel=9)
    expect("ENOT_FOUND", "coracle_session_take_fd", area="", s=mute, channel=0)
    name = "coracle_session_wait"
    ends(name, s=talker)
    with refusing() as made:
        expect("ECALLBACK", name, s=talker, op=made, detail={"callback": 7})

    gone = create(c, image, "sleep 1000", OpenStdin=True, Tty=True)
    ended = session(c, gone)
    good("coracle_container_kill", c=c, id=gone)
    for _ in range(LONG):
        answer = call("coracle_session_write", s=ended, buf=ctypes.addressof(big), len=1 << 20, op=op(ms=LONG))
        if answer.status < 0:
            break
    expect("EIO", "coracle_session_write", errno=32, s=ended, buf=place, len=4)
    expect("ECONFLICT", "coracle_session_resize", s=ended, rows=10, cols=10)


def busy(blocks: Callable[[c_void_p], Any], other: Callable[[], Any]) -> None:
    """Another call while one waits in another thread."""
    made = op(ms=LONG)

    def wait() -> None:
        # The other calls may be in the way of the first attempts.
        while blocks(made).code == "EMISUSE":
            time.sleep(0.01)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.5)
    before = len(failures)
    for _ in range(600):  # The thread may not be there yet.
        del failures[before:]
        other()
        if len(failures) == before:
            break
        time.sleep(0.1)
    good("coracle_op_cancel", op=made)
    thread.join()


def streams(c: c_void_p, image: str) -> None:
    quiet = running(c, image)
    follow = lambda: c_void_p(good("coracle_container_logs", c=c, id=quiet, query_json={"follow": True})["out"])
    room = ctypes.create_string_buffer(4096)
    place = ctypes.addressof(room)
    for name, given in (("coracle_stream_read", {"buf": place, "len": 4096}), ("coracle_stream_next", {})):
        s = follow()
        ends(name, s=s, **given)
        with refusing() as made:
            expect("ECALLBACK", name, s=s, op=made, detail={"callback": 7}, **given)
        busy(lambda op: call(name, s=s, op=op, **given), lambda: expect("EMISUSE", name, s=s, op=op(ms=100), **given))
        if name == "coracle_stream_next":
            busy(lambda op: call(name, s=s, op=op), lambda: expect("EMISUSE", "coracle_stream_lost", area="", s=s))
        good("coracle_stream_free", s=s)
    s = follow()
    expect("EINVALID", "coracle_stream_read", s=s, buf=None, len=4)
    expect("EINVALID", "coracle_stream_next", s=s, out=None)
    # The error of a stream's maker comes in place of its end.
    for name, given in (("coracle_stream_read", {"buf": place, "len": 4096}), ("coracle_stream_next", {})):
        dying = create(c, image)
        answer = good("coracle_container_export", c=c, id=dying)
        good("coracle_stream_free", s=c_void_p(answer["out"]))


def events(c: c_void_p) -> None:
    expect("EINVALID", "coracle_events_open", c=c, query_json={"since": "soon"}, detail={"argument": "query_json", "field": "since"})
    e = c_void_p(good("coracle_events_open", c=c)["out"])
    # More than the journal keeps.
    for _ in range(700):
        good("coracle_engine_reload", c=c, labels_json=[], settings_json={"x": "y" * (32 << 10)})
    expect("EUNAVAILABLE", "coracle_events_next", e=e, timeout_ms=0)
    good("coracle_events_free", e=e)
    e = c_void_p(good("coracle_events_open", c=c)["out"])
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(expect("ECANCELLED", "coracle_events_next", e=e, timeout_ms=-1)))
    thread.start()
    time.sleep(0.5)
    for _ in range(600):  # Until the thread waits there.
        if call("coracle_events_next", e=e, timeout_ms=0).status != NUMBERS["CORACLE_AGAIN"]:
            break
        time.sleep(0.1)
    expect("EMISUSE", "coracle_events_next", e=e, timeout_ms=0)
    good("coracle_events_free", e=e)
    thread.join()


def images(c: c_void_p, image: str) -> None:
    expect("EINVALID", "coracle_image_list", c=c, query_json={"filters": {"odd": ["x"]}})
    for name in ("coracle_image_inspect", "coracle_image_history"):
        expect("ENOT_FOUND", name, c=c, ref="absent")
    expect("ENOT_FOUND", "coracle_image_tag", c=c, ref="absent", new_ref="x")
    expect("EINVALID", "coracle_image_tag", c=c, ref=image, new_ref="UPPER")
    name = "coracle_image_remove"
    expect("ENOT_FOUND", name, c=c, ref="absent")
    create(c, image)
    in_use = expect("ECONFLICT", name, c=c, ref=image)
    assert good("coracle_container_inspect", c=c, id=in_use.error["detail"]["id"])["out_json"]
    expect("EINVALID", name, c=c, ref=image, flags=4, detail={"argument": "flags"})
    ends(name, c=c, ref=image)
    name = "coracle_image_prune"
    expect("EINVALID", name, c=c, filters_json={"odd": ["x"]})
    ends(name, c=c, filters_json={"label": ["none"]})
    name = "coracle_build_prune"
    expect("EINVALID", name, c=c, filters_json={"odd": ["x"]})
    ends(name, c=c, filters_json={"id": ["none"]})
    name = "coracle_image_load"
    whole = Path(IMAGE).read_bytes()
    expect("EINVALID", name, c=c, tar=source(b"x" * 2048))
    expect("ECALLBACK", name, c=c, tar=REFUSE, detail={"callback": -5})
    ends(name, c=c, tar=source(whole))
    name = "coracle_image_save"
    expect("EINVALID", name, c=c, refs_json=7)
    expect("ENOT_FOUND", name, c=c, refs_json=["none"])
    ends(name, c=c, refs_json=[image])
    name = "coracle_image_import"
    expect("EINVALID", name, c=c, tar=source(b"x" * 2048))
    expect("EINTERNAL", name, c=c, query_json={"url": "http://127.0.0.1:1/x"})
    expect("ECALLBACK", name, c=c, tar=REFUSE, detail={"callback": -5})
    ends(name, c=c, tar=source(archive(file=b"x")))

    (WORK / "context").mkdir()
    directory = os.open(WORK / "context", os.O_RDONLY)
    def building(context: dict[str, Any], name: str) -> None:
        build = lambda code, file, **more: expect(code, name, c=c, query_json={"file": file}, **context, **more)
        build("EINVALID", "FROM x\nWHAT")
        build("ENOT_FOUND", f"FROM {image}\nCOPY none /")
        build("EINTERNAL", f"FROM {image}\nRUN exit 3", detail={"exitCode": 3})
        with refusing() as made:
            build("ECALLBACK", f"FROM {image}\nENV a=b", op=made, detail={"callback": 7})
        ends(name, c=c, query_json={"file": f"FROM {image}"}, **context)

    small = archive(file=b"x")
    building({"tar": source(small)}, "coracle_image_build")
    building({"dirfd": directory}, "coracle_image_build_dir")
    expect("EINVALID", "coracle_image_build_dir", c=c, dirfd=-1)


@contextlib.contextmanager
def refusing_registry() -> Iterator[str]:
    """Where a registry is that refuses."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def registries(c: c_void_p, image: str) -> None:
    with refusing_registry() as here:
        registries_that_refuse(c, image, here)


def registries_that_refuse(c: c_void_p, image: str, here: str) -> None:
    good("coracle_image_tag", c=c, ref=image, new_ref="localhost:5000/busybox:1")
    good("coracle_image_push", c=c, ref="localhost:5000/busybox:1")
    expect("EINVALID", "coracle_image_pull_platform", c=c, ref="localhost:5000/busybox:1", platform="linux/a b", detail={"argument": "platform"})
    for name, more in (("coracle_image_pull", {}), ("coracle_image_pull_platform", {"platform": "linux/riscv64"})):
        expect("ENOT_FOUND", name, c=c, ref="localhost:5000/none", **more)
        expect("EUNAUTHORIZED", name, c=c, ref=f"{here}/secret/x", **more)
        expect("EINVALID", name, c=c, ref="UPPER", **more)
        stranger = {"argument": "auth_json", "field": "pasword"}
        expect("EINVALID", name, c=c, ref="localhost:5000/busybox:1", auth_json={"pasword": "x"}, detail=stranger, **more)
        with refusing() as made:
            expect("ECALLBACK", name, c=c, ref="localhost:5000/busybox:1", op=made, detail={"callback": 7}, **more)
        ends(name, c=c, ref="localhost:5000/busybox:1", **more)
    name = "coracle_image_push"
    expect("ENOT_FOUND", name, c=c, ref="localhost:5000/none")
    for tag, code in (("secret", "EUNAUTHORIZED"), ("closed", "EFORBIDDEN")):
        good("coracle_image_tag", c=c, ref=image, new_ref=f"{here}/{tag}/x:1")
        expect(code, name, c=c, ref=f"{here}/{tag}/x:1")
    expect("EINVALID", name, c=c, ref="UPPER")
    with refusing() as made:
        expect("ECALLBACK", name, c=c, ref="localhost:5000/busybox:1", op=made, detail={"callback": 7})
    ends(name, c=c, ref="localhost:5000/busybox:1")
    name = "coracle_image_search"
    expect("EINVALID", name, c=c, query_json={})
    expect("EUNAUTHORIZED", name, c=c, query_json={"term": f"{here}/secret"})
    ends(name, c=c, query_json={"term": "localhost:5000/x"})
    name = "coracle_registry_inspect"
    expect("ENOT_FOUND", name, c=c, ref="localhost:5000/none")
    expect("EUNAUTHORIZED", name, c=c, ref=f"{here}/secret/x")
    expect("EINVALID", name, c=c, ref="UPPER")
    ends(name, c=c, ref="localhost:5000/busybox:1")
    name = "coracle_registry_auth"
    expect("EUNAUTHORIZED", name, c=c, auth_json={"username": "u", "password": "p", "serveraddress": here})
    expect("EINVALID", name, c=c, auth_json={"user": "u"}, detail={"argument": "auth_json", "field": "user"})
    ends(name, c=c, auth_json={"serveraddress": here})


def volumes(c: c_void_p, image: str) -> None:
    name = "coracle_volume_create"
    expect("EINVALID", name, c=c, body_json={"Name": "a/b"})
    expect("ENOT_FOUND", name, c=c, body_json={"Name": "vol", "Driver": "none"})
    ends(name, c=c)
    expect("EINVALID", "coracle_volume_list", c=c, query_json={"filters": {"odd": ["x"]}})
    expect("ENOT_FOUND", "coracle_volume_inspect", c=c, name="absent")
    name = "coracle_volume_remove"
    expect("ENOT_FOUND", name, c=c, name="absent")
    good("coracle_volume_create", c=c, body_json={"Name": "used"})
    user = create(c, image, HostConfig={"Binds": ["used:/used"]})
    expect("ECONFLICT", name, c=c, name="used", detail={"id": user})
    ends(name, c=c, name="absent")
    name = "coracle_volume_prune"
    expect("EINVALID", name, c=c, filters_json={"odd": ["x"]})
    ends(name, c=c, filters_json={"label": ["none"]})


def plugins(c: c_void_p) -> None:
    absent_plugins(c)
    toy, remote = push_plugin("toy"), "localhost:5000/none"
    with refusing_registry() as here:
        for name, given in (("coracle_plugin_privileges", "remote"), ("coracle_plugin_pull", "Remote")):
            for code, value in (("ENOT_FOUND", remote), ("EINVALID", "UPPER"), ("EUNAUTHORIZED", f"{here}/secret/x")):
                expect(code, name, c=c, **({given: value} if given == "remote" else {"body_json": {given: value}}))
    ends("coracle_plugin_privileges", c=c, remote=toy)
    name = "coracle_plugin_pull"
    expect("EINVALID", name, c=c, body_json={"Remote": toy, "Privileges": []})
    with refusing() as made:
        expect("ECALLBACK", name, c=c, body_json={"Remote": toy}, op=made, detail={"callback": 7})
    ends(name, c=c, body_json={"Remote": toy})
    good(name, c=c, body_json={"Remote": toy, "Name": "toy"})
    expect("EINVALID", name, c=c, body_json={"Remote": toy, "Name": "toy"})
    there_plugins(c, toy)


def absent_plugins(c: c_void_p) -> None:
    expect("EINVALID", "coracle_plugin_list", c=c, query_json={"filters": {"odd": ["x"]}})
    expect("ENOT_FOUND", "coracle_plugin_inspect", c=c, name="absent")
    for name in ("coracle_plugin_disable", "coracle_plugin_remove"):
        expect("ENOT_FOUND", name, c=c, name="absent")
        expect("EINVALID", name, c=c, name="absent", flags=2)
        ends(name, c=c, name="absent")
    expect("ENOT_FOUND", "coracle_plugin_enable", c=c, name="absent")
    ends("coracle_plugin_enable", c=c, name="absent")
    expect("ENOT_FOUND", "coracle_plugin_set", c=c, name="absent", changes_json=[])
    expect("EINVALID", "coracle_plugin_set", c=c, name="absent", changes_json={})
    expect("ENOT_FOUND", "coracle_plugin_upgrade", c=c, name="absent", body_json={})
    expect("EINVALID", "coracle_plugin_upgrade", c=c, name="absent", body_json={"Odd": 1})


def there_plugins(c: c_void_p, toy: str) -> None:
    """The installed plugin "toy": disabled, without a source of its mount, enabled, used."""
    for name in ("coracle_plugin_upgrade", "coracle_plugin_disable"):
        ends(name, c=c, name="toy", **({"body_json": {}} if "upgrade" in name else {}))
    expect("ECONFLICT", "coracle_plugin_disable", c=c, name="toy")
    expect("EINTERNAL", "coracle_plugin_set", c=c, name="toy", changes_json=["NOPE=1"])
    expect("ENOT_FOUND", "coracle_plugin_upgrade", c=c, name="toy", body_json={"Remote": "localhost:5000/none"})
    with refusing_registry() as here:
        expect("EUNAUTHORIZED", "coracle_plugin_upgrade", c=c, name="toy", body_json={"Remote": f"{here}/secret/x"})
    with refusing() as made:
        other = push_plugin("other")
        expect("ECALLBACK", "coracle_plugin_upgrade", c=c, name="toy", body_json={"Remote": other}, op=made, detail={"callback": 7})
    expect("EINVALID", "coracle_plugin_enable", c=c, name="toy")
    good("coracle_plugin_set", c=c, name="toy", changes_json=[f"state.source={WORK}"])
    good("coracle_plugin_enable", c=c, name="toy", seconds=300)
    expect("ECONFLICT", "coracle_plugin_enable", c=c, name="toy")
    expect("ECONFLICT", "coracle_plugin_upgrade", c=c, name="toy", body_json={"Remote": toy})
    expect("EINTERNAL", "coracle_plugin_set", c=c, name="toy", changes_json=[])
    expect("ECONFLICT", "coracle_plugin_remove", c=c, name="toy")
    good("coracle_volume_create", c=c, body_json={"Name": "far", "Driver": "toy"})
    expect("ECONFLICT", "coracle_plugin_disable", c=c, name="toy")
    good("coracle_volume_remove", c=c, name="far")
    good("coracle_plugin_remove", c=c, name="toy", flags=NUMBERS["CORACLE_PLUGIN_FORCE"])


def push_plugin(name: str) -> str:
    """Puts a plugin for volumes with a mount that has no source yet into the registry: its reference."""
    mount = {"name": "state", "destination": "/state", "type": "bind", "options": ["rbind"], "settable": ["source"]}
    config = {"description": name, "entrypoint": ["/plugin", "toy", "volume"], "network": {"type": "null"}, "mounts": [mount],
              "interface": {"socket": "toy.sock", "types": ["docker.volumedriver/1.0"]}, "propagatedMount": "/mnt/volumes",
              "linux": {"capabilities": ["CAP_SYS_ADMIN"]}}
    push = Path(__file__).parent.parent / "support" / "push-plugin.py"
    file = f"plugin={os.environ['CORACLE_TEST_PLUGIN']}"
    subprocess.run([sys.executable, push, "localhost:5000", f"my/{name}", "1", json.dumps(config), file], check=True)
    return f"localhost:5000/my/{name}:1"



def networks(c: c_void_p, image: str) -> None:
    name = "coracle_network_create"
    expect("EINVALID", name, c=c, body_json={"Name": 7}, detail={"argument": "body_json", "field": "Name"})
    expect("EFORBIDDEN", name, c=c, body_json={"Name": "host"})
    net = {"Name": "net", "IPAM": {"Config": [{"Subnet": "10.99.0.0/24"}]}}
    made = good(name, c=c, body_json=net)["out_id"]
    other = {"Name": "other", "IPAM": {"Config": [{"Subnet": "10.99.0.0/16"}]}}
    expect("EFORBIDDEN", name, c=c, body_json=other, detail={"id": made})
    expect("ECONFLICT", name, c=c, body_json={"Name": "net", "CheckDuplicate": True}, detail={"id": made})
    expect("ENOT_FOUND", name, c=c, body_json={"Name": "odd", "Driver": "none"})
    ends(name, c=c, body_json={"Name": "late"})
    expect("EINVALID", "coracle_network_list", c=c, query_json={"filters": {"odd": ["x"]}})
    expect("ENOT_FOUND", "coracle_network_inspect", c=c, id="absent")
    # Of 17 ids two begin with the same of 16 digits.
    ids = [str(good(name, c=c, body_json={"Name": f"many{n}"})["out_id"]) for n in range(17)]
    first = [id[0] for id in ids]
    expect("EINVALID", "coracle_network_inspect", c=c, id=next(digit for digit in first if first.count(digit) > 1))

    asleep, host = create(c, image), create(c, image, HostConfig={"NetworkMode": "host"})
    inside = create(c, image, HostConfig={"NetworkMode": "net"})
    good("coracle_container_start", c=c, id=inside)
    name = "coracle_network_connect"
    expect("ENOT_FOUND", name, c=c, id="absent", body_json={"Container": asleep})
    expect("EFORBIDDEN", name, c=c, id="net", body_json={"Container": inside})
    expect("EFORBIDDEN", name, c=c, id="net", body_json={"Container": host})
    wrong = {"argument": "body_json", "field": "Container"}
    expect("EINVALID", name, c=c, id="net", body_json={"Container": 7}, detail=wrong)
    ends(name, c=c, id="net", body_json={"Container": asleep})
    name = "coracle_network_disconnect"
    expect("ENOT_FOUND", name, c=c, id="absent", body_json={"Container": inside})
    expect("EINTERNAL", name, c=c, id="net", body_json={"Container": asleep})
    expect("EFORBIDDEN", name, c=c, id="host", body_json={"Container": host})
    expect("EINVALID", name, c=c, id="net", body_json={"Container": 7}, detail=wrong)
    ends(name, c=c, id="net", body_json={"Container": inside})
    name = "coracle_network_remove"
    expect("ENOT_FOUND", name, c=c, id="absent")
    expect("EFORBIDDEN", name, c=c, id="host")
    expect("EFORBIDDEN", name, c=c, id="net")
    ends(name, c=c, id="net")
    name = "coracle_network_prune"
    expect("EINVALID", name, c=c, filters_json={"odd": ["x"]})
    ends(name, c=c, filters_json={"label": ["none"]})
    for name in ("coracle_network_release", "coracle_network_repair"):
        ends(name, c=c)


def system(c: c_void_p, root: Path) -> None:
    ends("coracle_engine_info", c=c)
    expect("EINVALID", "coracle_engine_disk_usage", c=c, query_json={"type": ["odd"]})
    ends("coracle_engine_disk_usage", c=c)
    expect("EINVALID", "coracle_engine_reload", c=c, labels_json={}, detail={"argument": "labels_json"})
    with limit(resource.RLIMIT_FSIZE, 0):
        expect("EIO", "coracle_engine_reload", area="event", errno=27, c=c, labels_json=[])
    name = "coracle_root_verify"
    expect("EINVALID", name, c=c, query_json={"repare": True}, detail={"argument": "query_json", "field": "repare"})
    with refusing() as made:
        expect("ECALLBACK", name, c=c, op=made, detail={"callback": 7})
    ends(name, c=c)
    ends("coracle_root_sweep", c=c)
    name = "coracle_root_copy"
    expect("EINVALID", name, c=c, dir=str(WORK / "copy"), query_json={"pauze": True}, detail={"argument": "query_json", "field": "pauze"})
    expect("EINVALID", name, c=c, dir=str(root / "copy"))
    (WORK / "held").mkdir()
    (WORK / "held" / "file").write_bytes(b"")
    expect("ECONFLICT", name, c=c, dir=str(WORK / "held"))
    with refusing() as made:
        expect("ECALLBACK", name, c=c, dir=str(WORK / "copy"), op=made, detail={"callback": 7})
    ends(name, c=c, dir=str(WORK / "copy"))
    name = "coracle_root_import_docker"
    expect("EINVALID", name, c=c, query_json={"dir": "/"}, detail={"argument": "query_json", "field": "dir"})
    expect("ENOT_FOUND", name, c=c, query_json={"directory": str(WORK / "none")})
    expect("EIO", name, errno=2, c=c, query_json={"socket": str(WORK / "none.sock")})
    docker = WORK / "docker"
    (docker / "image" / "overlay2" / "imagedb" / "content" / "sha256").mkdir(parents=True)
    (docker / "volumes").mkdir()
    with refusing() as made:
        (docker / "volumes" / "v" / "_data").mkdir(parents=True)
        expect("ECALLBACK", name, c=c, query_json={"directory": str(docker)}, op=made, detail={"callback": 7})
    held = open(docker / "volumes" / "metadata.db", "wb")
    fcntl.flock(held, fcntl.LOCK_EX)
    expect("ECONFLICT", name, c=c, query_json={"directory": str(docker)})
    ends(name, c=c, query_json={"directory": str(docker)})


def http_api(c: c_void_p) -> None:
    name = "coracle_http_request"
    expect("EINVALID", name, c=c, method="GET", target="x", detail={"argument": "target"})
    ends(name, c=c, method="GET", target="/_ping")
    with no_descriptors():
        expect("EIO", name, errno=24, c=c, method="GET", target="/_ping")
        expect("EIO", "coracle_http_connect", errno=24, c=c)
    name = "coracle_http_serve"
    expect("EINVALID", name, c=c)
    path = f"unix://{WORK}/api.sock"
    server = c_void_p(good(name, c=c, options_json={"Addresses": [path]})["out"])
    expect("ECONFLICT", name, c=c, options_json={"Addresses": [path]})
    expect("EIO", name, errno=2, c=c, options_json={"Addresses": [f"unix://{WORK}/none/api.sock"]})
    name = "coracle_http_server_shutdown"
    expect("EINVALID", name, s=server, grace_ms=-1, detail={"argument": "grace_ms"})
    ends(name, s=server)
    good("coracle_http_server_free", s=server)


@contextlib.contextmanager
def root_on_disk(name: str, size: str) -> Iterator[tuple[Path, c_void_p]]:
    with disk(name, size) as path:
        c = open_root(path / "root", path / "run")
        try:
            yield path, c
        finally:
            good("coracle_close", c=c)


def full_disk() -> None:
    """Disks without room."""
    large, whole = archive(file=bytes(80 << 20)), Path(IMAGE).read_bytes()
    with root_on_disk("put", "40m") as (path, c):
        id = create(c, load(c, IMAGE))
        expect("EIO", "coracle_container_put_archive", errno=28, c=c, id=id, path="/", tar=source(large))
    with root_on_disk("import", "40m") as (path, c):
        expect("EIO", "coracle_image_import", errno=28, c=c, tar=source(large))
    with root_on_disk("commit", "60m") as (path, c), disk("tiny", "1m") as tiny:
        id = create(c, load(c, IMAGE))
        expect("EIO", "coracle_root_copy", errno=28, c=c, dir=str(tiny / "copy"))
        good("coracle_container_put_archive", c=c, id=id, path="/", tar=source(archive(file=bytes(20 << 20))))
        fill(path, 4 << 20)
        expect("EIO", "coracle_container_commit", errno=28, c=c, id=id)
    with root_on_disk("load", "16m") as (path, c):
        fill(path, 256 << 10)
        expect("EIO", "coracle_image_load", errno=28, c=c, tar=source(whole))
    with root_on_disk("pull", "16m") as (path, c):
        fill(path, 256 << 10)
        expect("EIO", "coracle_image_pull", errno=28, c=c, ref="localhost:5000/busybox:1")
        expect("EIO", "coracle_image_pull_platform", errno=28, c=c, ref="localhost:5000/busybox:1", platform="linux/riscv64")


def compare() -> None:
    """The errors that were provoked with those that the header lists."""
    listed = {(name, code) for name, function in FUNCTIONS.items() for code in function["errors"]}
    for name, code in sorted(listed - provoked):
        failures.append(f"{name}: {code} is listed, and was not provoked")
    for name, code in sorted(provoked - listed):
        failures.append(f"{name}: {code} was provoked, and is not listed")


def main() -> int:
    global passed
    root, run = WORK / "root", WORK / "run"
    if sys.argv[3:] == ["weak"]:
        answer = call("coracle_open", root=str(WORK / "weak"), opt=options(WORK / "weak-run"))
        print(answer.code)
        return answer.code != "EFORBIDDEN"
    c = open_root(root, run)
    image = load(c, IMAGE)
    parts: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (library_itself, ()),
        (opening, (c, root, run)),
        (containers, (c, image)),
        (sessions, (c, image)),
        (streams, (c, image)),
        (events, (c,)),
        (images, (c, image)),
        (registries, (c, image)),
        (volumes, (c, image)),
        (plugins, (c,)),
        (networks, (c, image)),
        (system, (c, root)),
        (http_api, (c,)),
        (full_disk, ()),
    ]
    try:
        for part, arguments in parts:
            try:
                part(*arguments)
            except Exception:
                failures.append(f"{part.__name__}: {traceback.format_exc()}")
    finally:
        for found in json.loads(good("coracle_container_list", c=c, query_json={"all": True})["out_json"]):
            good("coracle_container_remove", c=c, id=found["Id"], flags=NUMBERS["CORACLE_REMOVE_FORCE"])
        for found in json.loads(good("coracle_network_list", c=c)["out_json"]):
            call("coracle_network_remove", c=c, id=found["Id"])
        good("coracle_network_release", c=c)
        good("coracle_close", c=c)
    compare()
    for line in failures:
        print(f"failed: {line}")
    print(f"{passed} passed, {len(failures)} failed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
