"""Runs the scenarios that all bindings share (bindings/scenarios) by the Python binding.

    scenarios.py [WORDS]        only those whose names have WORDS in them

Environment: CORACLE_LIBRARY, CORACLE_TEST_IMAGE (an archive), CORACLE_TEST_REGISTRY (host:port), CORACLE_SCENARIOS (the file).
Needs root, and a network namespace of its own.
"""

from __future__ import annotations

import contextlib
import faulthandler
import http.client
import io
import json
import os
import select
import shutil
import socket
import sys
import tarfile
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Optional

import coracle

LIST = json.loads(Path(os.environ["CORACLE_SCENARIOS"]).read_text())
IMAGE, REGISTRY = os.environ["CORACLE_TEST_IMAGE"], os.environ["CORACLE_TEST_REGISTRY"]
#: The features that a scenario or a step may need, and Python has.
FEATURES = {"dynamic", "fork"}
#: How long to wait, in seconds, for something that comes.
LONG = int(os.environ.get("CORACLE_TEST_SECONDS", "300"))


class Wrong(Exception):
    """A result that is not the expected one."""


class Caller(Exception):
    """An error of the caller's own function."""


def match(expected: Any, got: Any, where: str = "") -> None:
    """Whether a result is as expected: members that are not named may be anything."""
    if isinstance(expected, dict) and any(key.startswith("$") for key in expected):
        for key, value in expected.items():
            if not MATCHERS[key](value, got):
                raise Wrong(f"{where or 'result'}: wanted {key} {value!r}, got {str(got)[:600]!r}")
    elif isinstance(expected, dict):
        if not isinstance(got, dict):
            raise Wrong(f"{where or 'result'}: wanted an object, got {str(got)[:600]!r}")
        for key, value in expected.items():
            match(value, got.get(key), f"{where}.{key}")
    elif isinstance(expected, list):
        if not isinstance(got, list) or len(got) != len(expected):
            raise Wrong(f"{where or 'result'}: wanted {expected!r}, got {str(got)[:600]!r}")
        for number, (one, other) in enumerate(zip(expected, got)):
            match(one, other, f"{where}[{number}]")
    elif expected != got or isinstance(expected, bool) != isinstance(got, bool):
        raise Wrong(f"{where or 'result'}: wanted {expected!r}, got {str(got)[:600]!r}")


def matches(expected: Any, got: Any) -> bool:
    try:
        match(expected, got)
    except Wrong:
        return False
    return True


#: An empty list may come as null.
MATCHERS: dict[str, Callable[[Any, Any], bool]] = {
    "$has": lambda value, got: isinstance(got, str) and value in got,
    "$above": lambda value, got: isinstance(got, (int, float)) and got > value,
    "$len": lambda value, got: len(got or []) == value,
    "$len_above": lambda value, got: len(got or []) > value,
    "$not": lambda value, got: got is not None and got != value,
    "$one_of": lambda value, got: got in value,
    "$contains": lambda value, got: isinstance(got, list) and any(matches(value, one) for one in got),
}


def tar_of(files: dict[str, str]) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    out.seek(0)
    return out


def files_of(body: Any) -> dict[str, str]:
    """The small files of a tar."""
    found = {}
    with body, tarfile.open(fileobj=body, mode="r|") as tar:
        for entry in tar:
            file = tar.extractfile(entry) if entry.isreg() and entry.size < 4096 else None
            if file is not None:
                found[entry.name] = file.read().decode(errors="replace")
    return found


def repeated(value: Any) -> bytes:
    return (value["repeat"] * value["times"] if isinstance(value, dict) else value or "").encode()


class Broken:
    def read(self, _count: int) -> bytes:
        raise Caller("the source is broken")


def code_of(problem: BaseException) -> str:
    """The name of an error, as the scenarios have it."""
    if isinstance(problem, coracle.Error):
        return problem.kind
    if isinstance(problem, Caller):
        return "CALLER"
    return "TYPE" if isinstance(problem, TypeError) else type(problem).__name__


class Run:
    """A scenario on a root of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.values: dict[str, Any] = {**LIST["values"], "dir": str(directory), "archive": IMAGE, "registry": REGISTRY}
        self.things: dict[str, Any] = {}
        self.read: dict[str, dict[str, bytes]] = {}
        self.engine = coracle.open(directory / "root", run_dir=directory / "run", durability="off")
        self.things["engine"] = self.engine
        [self.values["image"]] = self.engine.images.load(IMAGE)

    def end(self) -> None:
        for found in self.engine.containers.list(all=True):
            with contextlib.suppress(coracle.NotFound):
                coracle.Container(self.engine, found["Id"]).remove(force=True, volumes=True)
        for plugin in self.engine.plugins.list():
            self.engine.plugins.remove(plugin["Id"], force=True)
        self.engine.networks.prune()
        self.engine.network_release()
        for thing in self.things.values():
            if hasattr(thing, "close"):
                thing.close()

    # ---- steps ----

    def steps(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            if set(step.get("needs", ())) - FEATURES:
                continue
            if "use" in step:
                self.steps(LIST["fragments"][step["use"]])
                continue
            try:
                self.step(step)
            except Wrong as problem:
                raise Wrong(f"{json.dumps(step, ensure_ascii=False)[:200]}: {problem}") from None

    def step(self, step: dict[str, Any]) -> None:
        end = time.monotonic() + LONG
        while True:
            try:
                self.once(step)
                return
            except Wrong:
                if not step.get("retry") or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def once(self, step: dict[str, Any]) -> None:
        # The steps of a step get their values when they run.
        given = {key: value if key == "steps" else self.filled(value) for key, value in step.items()}
        try:
            with contextlib.ExitStack() as stack:
                if "scope" in given:
                    stack.enter_context(self.things[given["scope"]])
                if "timeout_ms" in given and given["do"] != "events_next":
                    stack.enter_context(coracle.Scope(timeout=given["timeout_ms"] / 1000))
                result = getattr(self, "do_" + given["do"])(given)
        except Wrong:
            raise
        except Exception as problem:
            self.failed(given, problem)
            return
        if "error" in given:
            raise Wrong(f"wanted {given['error']}, got {str(result)[:300]!r}")
        if "expect" in given:
            match(given["expect"], result)
        for name, path in given.get("save", {}).items():
            value = result
            for part in filter(None, path.split(".")):
                value = value[part]
            self.values[name] = value

    def failed(self, given: dict[str, Any], problem: Exception) -> None:
        code = code_of(problem)
        if code != given.get("error"):
            raise Wrong(f"wanted {given.get('error', 'success')}, got {code}: {problem}") from problem
        if "status" in given:
            match(given["status"], getattr(problem, "status", None), "status")
        if "detail" in given:
            match(given["detail"], getattr(problem, "detail", None), "detail")
        if given.get("has", "") not in str(problem):
            raise Wrong(f"wanted {given['has']!r} in {str(problem)!r}")

    def filled(self, value: Any) -> Any:
        """The value with the values of names such as $id; $$ is a dollar sign."""
        if isinstance(value, dict):
            return {key: self.filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.filled(one) for one in value]
        if not isinstance(value, str) or "$" not in value:
            return value
        if value[0] == "$" and value[1:] in self.values:
            found = self.values[value[1:]]
            return self.filled(found) if value[1:] in LIST["values"] and isinstance(found, dict) else found
        for name in sorted(self.values, key=len, reverse=True):
            if isinstance(self.values[name], str):
                value = value.replace(f"$${name}", "\0").replace(f"${name}", self.values[name]).replace("\0", f"$${name}")
        return value.replace("$$", "$")

    def on(self, given: dict[str, Any]) -> coracle.Engine:
        engine: coracle.Engine = self.things[given.get("on", "engine")]
        return engine

    def container(self, given: dict[str, Any]) -> coracle.Container:
        return coracle.Container(self.on(given), given["id"])

    def told(self, given: dict[str, Any]) -> dict[str, Any]:
        """The argument `progress`."""
        if given.get("refuse"):

            def refuse(_record: dict[str, Any]) -> None:
                raise Caller("refused")

            return {"progress": refuse}
        if "progress" not in given:
            return {}
        records: list[Any] = []
        self.values[given["progress"]] = records
        return {"progress": records.append}

    def source(self, given: dict[str, Any]) -> Any:
        if given.get("broken"):
            return Broken()
        if "path" in given and given["do"] == "image_load":
            return given["path"]
        return io.BytesIO(repeated(given["bytes"])) if "bytes" in given else tar_of(given["files"])

    # ---- the scenario's own ----

    def do_scope(self, given: Any) -> None:
        self.things[given["as"]] = coracle.Scope()

    def do_cancel(self, given: Any) -> None:
        self.things[given["of"]].cancel()

    def do_sleep(self, given: Any) -> None:
        time.sleep(given["ms"] / 1000)

    def do_value(self, given: Any) -> Any:
        return given["value"]

    def do_file_exists(self, given: Any) -> bool:
        return os.path.exists(given["path"])

    def do_spawn(self, given: Any) -> None:
        problems: list[BaseException] = []

        def run() -> None:
            try:
                self.steps(given["steps"])
            except BaseException as problem:
                problems.append(problem)

        thread = threading.Thread(target=run)
        thread.start()
        self.things[given["as"]] = (thread, problems)

    def do_join(self, given: Any) -> None:
        thread, problems = self.things[given["of"]]
        thread.join(LONG)
        if thread.is_alive():
            raise Wrong("the thread does not end")
        if problems:
            raise problems[0]

    def do_parallel(self, given: Any) -> None:
        runs = []
        for number in range(given["times"]):
            run = object.__new__(Run)
            run.__dict__.update(self.__dict__, values=dict(self.values), read={})
            run.do_spawn({"as": f"parallel-{number}", "steps": given["steps"]})
            runs.append(run)
        for number, run in enumerate(runs):
            run.do_join({"of": f"parallel-{number}"})

    def do_fork(self, given: Any) -> None:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            text = b""
            try:
                self.steps(given["steps"])
            except BaseException:
                text = traceback.format_exc().encode()
            os.write(writer, text[-4000:] or b"good")
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            text = file.read()
        os.waitpid(child, 0)
        if text != b"good":
            raise Wrong(text.decode(errors="replace"))

    # ---- the library, a root ----

    def do_version(self, _: Any) -> Any:
        major, minor, patch = coracle.version()
        return {"text": coracle.__version__, "number": major << 16 | minor << 8 | patch}

    def do_build_info(self, _: Any) -> Any:
        return coracle.build_info()

    def do_has_feature(self, given: Any) -> bool:
        return coracle.has_feature(given["name"])

    def do_status_name(self, given: Any) -> str:
        return coracle.status_name(given["code"])

    def do_set_log(self, given: Any) -> None:
        records: list[Any] = []
        coracle.set_log(lambda level, target, text: records.append([level, target, text]), given["level"])
        self.things[given["as"]] = records

    def do_unset_log(self, _: Any) -> None:
        coracle.set_log(None)

    def do_log_records(self, given: Any) -> Any:
        return self.things[given["of"]]

    def do_host_report(self, given: Any) -> Any:
        return coracle.host_report(given["root"])

    def do_open(self, given: Any) -> None:
        flags = given.get("flags", [])
        config = {key.replace("-", "_"): value for key, value in given.get("config", {}).items()}
        self.things[given["as"]] = coracle.open(
            given["root"],
            run_dir=given["run_dir"],
            create="existing" not in flags,
            lenient="lenient" in flags,
            ephemeral="ephemeral" in flags,
            **config,
        )

    def do_ref(self, given: Any) -> None:
        self.things[given["as"]] = self.on(given).again()

    def do_close(self, given: Any) -> None:
        self.on(given).close()

    def do_engine_info(self, given: Any) -> Any:
        return self.on(given).info()

    def do_engine_version(self, given: Any) -> Any:
        return self.on(given).version()

    def do_engine_metrics(self, given: Any) -> Any:
        return self.on(given).metrics()

    def do_engine_disk_usage(self, given: Any) -> Any:
        return self.on(given).disk_usage(*given.get("query", {}).get("type", []))

    def do_engine_reload(self, given: Any) -> None:
        self.on(given).reload(given["labels"], given["settings"])

    def do_root_verify(self, given: Any) -> Any:
        return self.on(given).images.verify(**given["query"], **self.told(given))

    def do_root_leftovers(self, given: Any) -> Any:
        return self.on(given).leftovers()

    def do_root_sweep(self, given: Any) -> Any:
        return self.on(given).sweep()

    def do_root_copy(self, given: Any) -> Any:
        return self.on(given).copy_root(given["dir"], **given.get("query", {}))

    def do_root_import_docker(self, given: Any) -> Any:
        return self.on(given).import_docker(**given["query"])

    # ---- containers ----

    def do_container_create(self, given: Any) -> Any:
        made = self.on(given).containers.create_from(given["body"], given.get("name"))
        return {"id": made.id, "Warnings": made.warnings}

    def do_container_start(self, given: Any) -> Any:
        if not given.get("attach"):
            return {"changed": self.container(given).start()}
        session = self.container(given).start_attached(given.get("rows", 0), given.get("cols", 0))
        self.things[given["as"]] = session
        return {"changed": True}

    def do_container_attach(self, given: Any) -> None:
        query = given.get("query")
        streams = {name: bool(query.get(name)) for name in ("stdin", "stdout", "stderr")} if query else {}
        self.things[given["as"]] = self.container(given).attach(**streams)

    def do_container_stop(self, given: Any) -> Any:
        return {"changed": self.container(given).stop(grace=given["grace_ms"] / 1000)}

    def do_container_stop_with(self, given: Any) -> Any:
        how, grace = given["how"], given["how"].get("grace_ms")
        return {"changed": self.container(given).stop(None if grace is None else grace / 1000, signal=how.get("signal"))}

    def do_container_restart(self, given: Any) -> None:
        self.container(given).restart(grace=given["grace_ms"] / 1000)

    def do_container_restart_with(self, given: Any) -> None:
        self.container(given).restart(grace=None, signal=given["how"]["signal"])

    def do_container_kill(self, given: Any) -> None:
        self.container(given).kill(given.get("signal"))

    def do_container_pause(self, given: Any) -> None:
        self.container(given).pause()

    def do_container_unpause(self, given: Any) -> None:
        self.container(given).unpause()

    def do_container_wait(self, given: Any) -> Any:
        if "condition" in given:
            return {"code": self.container(given).wait_for(given["condition"])["StatusCode"]}
        return {"code": self.container(given).wait()}

    def do_begin_wait(self, given: Any) -> None:
        self.things[given["as"]] = self.container(given).begin_wait(given.get("condition", "not-running"))

    def do_pending_result(self, given: Any) -> Any:
        return {"code": self.things[given["of"]].result(LONG)}

    def do_container_pidfd(self, given: Any) -> Any:
        fd = self.container(given).pidfd()
        ended = bool(select.select([fd], [], [], 0)[0])
        self.things[given.get("as", "pidfd")] = Fd(fd)
        return {"ended": ended}

    def do_pidfd_wait(self, given: Any) -> None:
        if not select.select([self.things[given["of"]].fd], [], [], LONG)[0]:
            raise Wrong("the descriptor does not become readable")

    def do_container_remove(self, given: Any) -> None:
        self.container(given).remove(force=given.get("force", False), volumes=given.get("volumes", False))

    def do_container_prune(self, given: Any) -> Any:
        return self.on(given).containers.prune(**given.get("filters", {}))

    def do_container_list(self, given: Any) -> Any:
        return self.on(given).containers.list(**given.get("query", {}))

    def do_container_inspect(self, given: Any) -> Any:
        return self.container(given).inspect(given.get("size", False))

    def do_container_explain(self, given: Any) -> Any:
        return self.container(given).explain()

    def do_container_top(self, given: Any) -> Any:
        return self.container(given).top(given.get("ps_args"))

    def do_container_stats(self, given: Any) -> Any:
        if "count" not in given:
            return [self.container(given).stats()]
        with self.container(given).samples() as samples:
            samples.fileno()
            return [next(samples) for _ in range(given["count"])]

    def do_container_rename(self, given: Any) -> None:
        self.container(given).rename(given["name"])

    def do_container_update(self, given: Any) -> Any:
        return self.container(given).update(**given["body"])

    def do_container_stat_path(self, given: Any) -> Any:
        return self.container(given).stat(given["path"])

    def do_container_get_archive(self, given: Any) -> Any:
        body = self.container(given).get_archive(given["path"])
        return {"files": files_of(body), "stat": self.container(given).stat(given["path"])}

    def do_container_put_archive(self, given: Any) -> None:
        self.container(given).put_archive(given["path"], self.source(given))

    def do_container_export(self, given: Any) -> Any:
        return {"files": files_of(self.container(given).export())}

    def do_container_changes(self, given: Any) -> Any:
        return self.container(given).changes()

    def do_container_commit(self, given: Any) -> Any:
        return {"id": self.container(given).commit(**given["query"])}

    def do_lease_hold(self, given: Any) -> None:
        self.things[given["as"]] = Fd(self.on(given).lease(given["name"]))

    def do_lease_free(self, given: Any) -> None:
        self.things[given["of"]].close()

    # ---- streams ----

    def do_session_read(self, given: Any) -> Any:
        session = self.things[given["of"]]
        seen = self.read.setdefault(given["of"], {"stdout": b"", "stderr": b""})
        until, channel = given.get("until", "").encode(), given.get("channel")

        def there() -> bool:
            return bool(until) and any(until in text for name, text in seen.items() if channel in (None, name))

        if not there():
            for name, piece in session:
                seen[name] += piece
                if there():
                    break
        if until and not there():
            raise Wrong(f"the output ended without {until!r}: {seen}")
        return {name: text.decode(errors="replace") for name, text in seen.items()}

    def do_session_write(self, given: Any) -> Any:
        return {"count": self.things[given["of"]].write(given["data"].encode())}

    def do_session_close_stdin(self, given: Any) -> None:
        self.things[given["of"]].close_stdin()

    def do_session_streams(self, given: Any) -> Any:
        stdout, stderr = self.things[given["of"]].communicate(repeated(given["input"]), LONG)
        return {"stdout": stdout.decode(), "stderr": stderr.decode()}

    def do_session_fd(self, given: Any) -> bool:
        found: bool = self.things[given["of"]].has(given["channel"])
        return found

    def do_session_resize(self, given: Any) -> None:
        self.things[given["of"]].resize(given["rows"], given["cols"])

    def do_session_wait(self, given: Any) -> Any:
        return {"code": self.things[given["of"]].wait()}

    def do_session_free(self, given: Any) -> None:
        self.things[given["of"]].close()

    def do_stream_free(self, given: Any) -> None:
        self.things[given["of"]].close()

    def do_events_free(self, given: Any) -> None:
        self.things[given["of"]].close()

    def do_exec_create(self, given: Any) -> Any:
        return {"id": self.container(given).exec_from(given["body"]).id}

    def do_exec_start(self, given: Any) -> None:
        made = coracle.Exec(self.on(given), given["id"])
        if given.get("attach"):
            self.things[given["as"]] = made.start_attached()
        else:
            made.start()

    def do_exec_wait(self, given: Any) -> Any:
        return {"code": coracle.Exec(self.on(given), given["id"]).wait()}

    def do_exec_inspect(self, given: Any) -> Any:
        return coracle.Exec(self.on(given), given["id"]).inspect()

    def do_container_logs(self, given: Any) -> Any:
        query = given.get("query", {})
        both = not {"stdout", "stderr"} & set(query)
        channels = {name: both or bool(query.get(name)) for name in ("stdout", "stderr")}
        with self.container(given).logs(**{**query, **channels}) as logs:
            return [{"channel": line.channel, "text": line.text} for line in logs]

    def do_logs_open(self, given: Any) -> None:
        self.things[given["as"]] = self.container(given).logs(**given["query"])

    def do_logs_next(self, given: Any) -> Any:
        line = next(self.things[given["of"]])
        return {"channel": line.channel, "text": line.text}

    def do_stream_fd(self, given: Any) -> bool:
        return bool(self.things[given["of"]].fileno() >= 0)

    do_events_fd = do_stream_fd

    def do_stream_lost(self, given: Any) -> Any:
        return self.things[given["of"]].lost

    def do_events_open(self, given: Any) -> None:
        query = {key: float(value) if key != "after" and isinstance(value, str) else value for key, value in given.get("query", {}).items()}
        self.things[given["as"]] = self.on(given).events(**query)

    def do_events_next(self, given: Any) -> Any:
        events = self.things[given["of"]]
        if "timeout_ms" in given:
            return events.next(given["timeout_ms"] / 1000) or {"again": True}
        return next(events, {"done": True})

    def do_events_until(self, given: Any) -> Any:
        actions: list[str] = []
        while given["action"] not in actions:
            event = self.things[given["of"]].next(LONG)
            if event is None:
                raise Wrong(f"the events end at {actions}")
            actions.append(event["Action"])
        return actions

    # ---- images ----

    def do_image_list(self, given: Any) -> Any:
        return self.on(given).images.list(**given.get("query", {}))

    def do_image_inspect(self, given: Any) -> Any:
        return self.on(given).images.inspect(given["ref"])

    def do_image_history(self, given: Any) -> Any:
        return self.on(given).images.history(given["ref"])

    def do_image_tag(self, given: Any) -> None:
        self.on(given).images.tag(given["ref"], given["new_ref"])

    def do_image_remove(self, given: Any) -> Any:
        return self.on(given).images.remove(given["ref"], given.get("force", False), given.get("no_prune", False))

    def do_image_prune(self, given: Any) -> Any:
        return self.on(given).images.prune(**given.get("filters", {}))

    def do_build_prune(self, given: Any) -> Any:
        return self.on(given).images.prune_caches(**given.get("filters", {}))

    def do_image_load(self, given: Any) -> Any:
        return self.on(given).images.load(self.source(given), **self.told(given))

    def do_image_save(self, given: Any) -> Any:
        with self.on(given).images.save(*given["names"], layout=given["layout"]) as body, open(given["file"] if "file" in given else os.devnull, "wb") as file:
            shutil.copyfileobj(body, file)
            return {"bytes": file.tell()}

    def do_image_import(self, given: Any) -> Any:
        return {"id": self.on(given).images.import_rootfs(self.source(given), **given["query"])}

    def do_image_build(self, given: Any) -> Any:
        return {"id": self.on(given).images.build(self.source(given), **given["query"], **self.told(given))}

    def do_image_build_dir(self, given: Any) -> Any:
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            for name, text in given["files"].items():
                (Path(directory) / name).write_text(text)
            return {"id": self.on(given).images.build(directory, **given["query"], **self.told(given))}

    def do_image_pull(self, given: Any) -> Any:
        return {"id": self.on(given).images.pull(given["ref"], platform=given.get("platform"), **self.told(given))}

    def do_image_push(self, given: Any) -> Any:
        return self.on(given).images.push(given["ref"], **self.told(given))

    def do_image_search(self, given: Any) -> Any:
        return self.on(given).images.search(**given["query"])

    def do_registry_inspect(self, given: Any) -> Any:
        return self.on(given).images.inspect_remote(given["ref"])

    def do_registry_auth(self, given: Any) -> Any:
        return self.on(given).images.check_login(given["auth"])

    # ---- volumes, networks ----

    def do_volume_create(self, given: Any) -> Any:
        body = given["body"]
        return self.on(given).volumes.create(body.get("Name"), labels=body.get("Labels"))

    def do_volume_list(self, given: Any) -> Any:
        return {"Volumes": self.on(given).volumes.list(**given.get("query", {}).get("filters", {}))}

    def do_volume_inspect(self, given: Any) -> Any:
        return self.on(given).volumes.inspect(given["name"])

    def do_volume_remove(self, given: Any) -> None:
        self.on(given).volumes.remove(given["name"])

    def do_volume_prune(self, given: Any) -> Any:
        return self.on(given).volumes.prune(**given.get("filters", {}))

    def do_network_create(self, given: Any) -> Any:
        body = dict(given["body"])
        return {"id": self.on(given).networks.create(body.pop("Name"), **{"labels" if k == "Labels" else k: v for k, v in body.items()})}

    def do_network_list(self, given: Any) -> Any:
        return self.on(given).networks.list(**given.get("query", {}).get("filters", {}))

    def do_network_inspect(self, given: Any) -> Any:
        return self.on(given).networks.inspect(given["id"])

    def do_network_connect(self, given: Any) -> None:
        self.on(given).networks.connect(given["id"], given["body"]["Container"], **given["body"].get("EndpointConfig", {}))

    def do_network_disconnect(self, given: Any) -> None:
        self.on(given).networks.disconnect(given["id"], given["body"]["Container"])

    def do_network_remove(self, given: Any) -> None:
        self.on(given).networks.remove(given["id"])

    def do_network_prune(self, given: Any) -> Any:
        return self.on(given).networks.prune(**given.get("filters", {}))

    def do_network_repair(self, given: Any) -> None:
        self.on(given).network_repair()

    def do_network_release(self, given: Any) -> None:
        self.on(given).network_release()

    # ---- plugins ----

    def do_plugin_list(self, given: Any) -> Any:
        return self.on(given).plugins.list(**given.get("query", {}).get("filters", {}))

    def do_plugin_inspect(self, given: Any) -> Any:
        return self.on(given).plugins.inspect(given["name"])

    def do_plugin_privileges(self, given: Any) -> Any:
        return self.on(given).plugins.privileges(given["remote"], given.get("auth"))

    def do_plugin_pull(self, given: Any) -> Any:
        return {"id": self.on(given).plugins.pull(**lowered(given["body"]), **self.told(given))}

    def do_plugin_upgrade(self, given: Any) -> None:
        self.on(given).plugins.upgrade(given["name"], **lowered(given.get("body", {})), **self.told(given))

    def do_plugin_enable(self, given: Any) -> None:
        self.on(given).plugins.enable(given["name"], given.get("seconds", 0))

    def do_plugin_disable(self, given: Any) -> None:
        self.on(given).plugins.disable(given["name"], given.get("force", False))

    def do_plugin_remove(self, given: Any) -> None:
        self.on(given).plugins.remove(given["name"], given.get("force", False))

    def do_plugin_set(self, given: Any) -> None:
        self.on(given).plugins.set(given["name"], *given["changes"])

    # ---- HTTP ----

    def do_http_request(self, given: Any) -> Any:
        body = given.get("body")
        text = b"" if body is None else json.dumps(body).encode()
        answer = self.on(given).request(given["method"], given["target"], given.get("headers"), text)
        with answer.body as file:
            return {"status": answer.status, "body": parsed(file.read())}

    def do_http_connect(self, given: Any) -> Any:
        return asked(self.on(given).connect(), given["target"])

    def do_http_get_unix(self, given: Any) -> Any:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(given["path"])
        return asked(connection, given["target"])

    def do_http_serve(self, given: Any) -> None:
        self.things[given["as"]] = self.on(given).serve(given["options"]["Addresses"])

    def do_http_server_addresses(self, given: Any) -> Any:
        return self.things[given["of"]].addresses()

    def do_http_server_shutdown(self, given: Any) -> None:
        self.things[given["of"]].shutdown(given["grace_ms"] / 1000)

    def do_http_server_free(self, given: Any) -> None:
        self.things[given["of"]].close()


class Fd:
    """A descriptor that ends with the scenario."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def lowered(body: dict[str, Any]) -> dict[str, Any]:
    """The members of a body as arguments."""
    return {name.lower(): value for name, value in body.items()}


def parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace").strip()


def asked(connection: socket.socket, target: str) -> Any:
    """A request over a connection."""
    client = http.client.HTTPConnection("localhost")
    client.sock = connection
    with contextlib.closing(client):
        client.request("GET", target)
        answer = client.getresponse()
        return {"status": answer.status, "body": parsed(answer.read())}


def run(scenario: dict[str, Any]) -> Optional[str]:
    """Why a scenario failed."""
    directory = Path(tempfile.mkdtemp(prefix="scn-"))
    problem = None
    # A call that does not come back shows where it stands, and ends the program.
    faulthandler.dump_traceback_later(2 * LONG, exit=True)
    one: Optional[Run] = None
    try:
        one = Run(directory)
        one.steps(scenario["steps"])
    except Wrong as wrong:
        problem = str(wrong)
    except BaseException:
        problem = traceback.format_exc()
    finally:
        try:
            if one is not None:
                one.end()
        except Exception:
            problem = problem or traceback.format_exc()
        faulthandler.cancel_dump_traceback_later()
        shutil.rmtree(directory, ignore_errors=True)
    return problem


def main() -> int:
    words, passed, failed, left_out = " ".join(sys.argv[1:]), 0, 0, []
    for scenario in LIST["scenarios"]:
        if words not in scenario["name"]:
            continue
        missing = set(scenario.get("needs", ())) - FEATURES
        if missing:
            left_out.append(f"{scenario['name']} ({', '.join(missing)})")
            continue
        problem = run(scenario)
        passed, failed = passed + (problem is None), failed + (problem is not None)
        if problem is not None:
            print(f"failed: {scenario['name']}\n    {problem}", flush=True)
    for name in left_out:
        print(f"not for Python: {name}")
    print(f"{passed} passed, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
