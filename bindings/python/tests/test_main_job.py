"""The main job, and what is particular to Python: exceptions, Ctrl-C, threads, files.

Environment: CORACLE_LIBRARY names the library, CORACLE_TEST_IMAGE an archive with a busybox image. Needs root.
"""

from __future__ import annotations

import io
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
from pathlib import Path

import coracle
from coracle import _library

IMAGE = os.environ.get("CORACLE_TEST_IMAGE", "busybox.tar")
# How long to wait, in seconds, for something that comes: a disk may stand still for more than a minute.
LONG = 300
SLEEP = ["sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"]
TALK = [
    "sh",
    "-c",
    "trap 'echo bye; exit 3' TERM; echo ready; while read line; do echo out $line; echo err $line >&2; done; "
    "while :; do sleep 0.05; done",
]


class Case(unittest.TestCase):
    """An engine on a root of its own, with the image."""

    def setUp(self) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="coracle-python-"))
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.engine = coracle.open(self.dir / "root", run_dir=self.dir / "run", durability="off")
        self.addCleanup(self.engine.close)
        self.addCleanup(self.remove_all)
        [self.image] = self.engine.images.load(IMAGE)

    def remove_all(self) -> None:
        for found in self.engine.containers.list(all=True):
            self.engine.containers.get(found["Id"]).remove(force=True)

    def running(self) -> coracle.Container:
        container = self.engine.containers.create(self.image, SLEEP)
        with container.start_attached() as session:
            assert session.stdout is not None
            self.assertEqual(session.stdout.readline(), b"ready\n")
        return container


class MainJob(Case):
    def test_a_whole_life(self) -> None:
        events = self.engine.events(filters={"type": ["container"]})
        container = self.engine.containers.create(self.image, TALK, name="main-job", stdin=True, labels={"a": "b"})
        with container.start_attached() as session:
            assert session.stdin and session.stdout and session.stderr
            self.assertEqual(session.stdout.readline(), b"ready\n")
            session.stdin.write(b"hello\n")
            self.assertEqual(session.stdout.readline(), b"out hello\n")
            self.assertEqual(session.stderr.readline(), b"err hello\n")
            self.assertFalse(container.start())

        self.assertEqual((container.name, container.status), ("main-job", "running"))
        self.assertEqual(container.inspect()["Config"]["Labels"]["a"], "b")
        self.assertEqual([c["Id"] for c in self.engine.containers.list(filters={"label": ["a"]})], [container.id])
        self.assertEqual(self.engine.containers.get("main-job"), container)

        result = container.exec_run(["sh", "-c", "cat; echo $X >&2; exit 5"], input=b"in" * 100_000, env={"X": "y"})
        self.assertEqual((result.exit_code, len(result.stdout), result.stderr), (5, 200_000, b"y\n"))
        self.assertIn("sh", str(container.top()["Processes"]))

        self.assertEqual(container.update(PidsLimit=50), [])
        self.assertGreater(container.stats()["pids_stats"]["current"], 0)
        container.pause()
        self.assertEqual(container.status, "paused")
        container.unpause()
        pidfd = container.pidfd()
        self.assertTrue(container.stop(grace=LONG))
        self.assertEqual(select.select([pidfd], [], [], LONG)[0], [pidfd])
        os.close(pidfd)
        self.assertFalse(container.stop())
        self.assertEqual(container.wait(), 3)
        with container.start_attached() as session:
            assert session.stdout is not None
            self.assertEqual(session.stdout.readline(), b"ready\n")
        container.kill(signal.SIGKILL)
        self.assertEqual(container.wait(timeout=LONG), 137)

        logs = container.logs()
        lines = [(line.channel, line.text) for line in logs]
        self.assertEqual(logs.lost, 0)
        self.assertIn(("stdout", "out hello"), lines)
        self.assertIn(("stderr", "err hello"), lines)
        self.assertEqual([line.text for line in container.logs(stdout=False)], ["err hello"])
        self.assertEqual([line.text for line in container.logs(tail=1)], ["ready"])

        container.rename("retired")
        self.assertEqual(container.name, "retired")
        container.remove()
        with self.assertRaises(coracle.NotFound):
            container.inspect()

        actions = []
        while (event := events.next(timeout=LONG)) is not None:
            actions.append(event["Action"].split(":")[0])
            if actions[-1] == "destroy":
                break
        wanted = ["create", "start", "exec_create", "exec_start", "pause", "unpause", "kill", "die", "rename", "destroy"]
        self.assertEqual([action for action in wanted if action not in actions], [])
        self.assertIsNone(events.next(timeout=0))
        events.close()
        idle = self.engine.containers.create(self.image, ["true"])
        self.assertEqual(self.engine.containers.prune(name=["nobody"])["ContainersDeleted"], [])
        self.assertEqual(self.engine.containers.prune()["ContainersDeleted"], [idle.id])

    def test_a_stop_has_a_signal_and_a_time(self) -> None:
        script = "trap 'exit 5' USR1; trap '' TERM; echo ready; while :; do sleep 0.05; done"
        container = self.engine.containers.create(self.image, ["sh", "-c", script], StopTimeout=0)
        ready = 0
        for how in [{"signal": "USR1", "grace": -1}, {"signal": signal.SIGUSR1, "grace": -1}, {"grace": None}]:
            container.start()
            ready += 1
            while len([line for line in container.logs() if line.text == "ready"]) < ready:
                time.sleep(0.02)
            self.assertTrue(container.stop(**how))
            # The time of its own configuration is zero: SIGKILL follows at once.
            self.assertEqual(container.wait(), 5 if "signal" in how else 137)
        self.assertFalse(container.stop(grace=None))
        container.restart(signal="KILL")
        container.remove(force=True)

    def test_prunes_and_disk_usage(self) -> None:
        self.engine.volumes.create("named")
        self.engine.volumes.create()
        pruned = self.engine.volumes.prune()
        self.assertEqual(len(pruned["VolumesDeleted"]), 1)
        self.assertNotEqual(pruned["VolumesDeleted"], ["named"])
        usage = self.engine.disk_usage("volume")
        self.assertEqual([volume["Name"] for volume in usage["Volumes"]], ["named"])
        self.assertEqual(usage["Images"], [])
        self.assertGreater(self.engine.disk_usage()["LayersSize"], 0)
        with self.assertRaises(coracle.Invalid):
            self.engine.disk_usage("planet")
        self.assertEqual(self.engine.volumes.prune(all=["true"])["VolumesDeleted"], ["named"])
        self.assertEqual(self.engine.network_prune(label=["nobody"])["NetworksDeleted"], [])
        with self.assertRaises(coracle.Error):
            self.engine.images.inspect_remote("127.0.0.1:1/nothing")

    def test_images(self) -> None:
        images = self.engine.images
        records: list[dict] = []
        images.load(io.BytesIO(Path(IMAGE).read_bytes()), progress=records.append)
        images.tag(self.image, "other:one")
        self.assertIn("other:one", images.inspect(self.image)["RepoTags"])
        self.assertTrue(images.history("other:one"))
        saved = images.save("other:one").read()
        self.assertEqual(images.remove("other:one"), [{"Untagged": "other:one"}])
        self.assertNotIn("other:one", str(images.list()))
        self.assertEqual(images.load(io.BytesIO(saved)), ["other:one"])

    def test_http_in_process(self) -> None:
        answer = self.engine.request("GET", "/v1.24/_ping")
        self.assertEqual((answer.status, answer.body.read()), (200, b"OK"))
        self.assertEqual(self.engine.request("GET", "/v1.24/containers/none/json").status, 404)
        with self.engine.connect() as connection:
            connection.sendall(b"GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            self.assertTrue(connection.makefile("rb").read().endswith(b"\r\n\r\nOK"))


class Python(Case):
    def test_errors_are_exceptions(self) -> None:
        with self.assertRaises(coracle.NotFound) as caught:
            self.engine.containers.get("none")
        error = caught.exception
        self.assertEqual((error.kind, error.status, error.message), ("NOT_FOUND", 404, "No such container: none"))
        self.assertIsInstance(error, LookupError)
        with self.assertRaises(coracle.Invalid):
            self.engine.containers.create_from({"Image": 3})
        with self.assertRaises(ValueError):
            self.engine.containers.get("a\0b")
        with self.assertRaises(coracle.Invalid):
            coracle.open(self.dir / "root", durability="perhaps")
        self.engine.containers.create(self.image, name="taken")
        with self.assertRaises(coracle.Conflict):
            self.engine.containers.create(self.image, name="taken")

    def test_a_closed_engine_is_an_error(self) -> None:
        engine = coracle.open(self.dir / "root", run_dir=self.dir / "run")
        engine.close()
        engine.close()
        with self.assertRaises(coracle.Error):
            engine.info()

    def test_only_an_existing_root_is_opened(self) -> None:
        with self.assertRaises(coracle.Error) as raised:
            coracle.open(self.dir / "none", run_dir=self.dir / "run2", create=False)
        self.assertIn("there is no engine root", str(raised.exception))
        self.assertFalse((self.dir / "none").exists())
        coracle.open(self.dir / "root", run_dir=self.dir / "run", create=False).close()

    def test_waits_for_what_a_condition_names(self) -> None:
        with self.assertRaises(TimeoutError):
            self.running().wait_for("removed", timeout=0.05)
        with self.assertRaises(coracle.Error):
            self.running().wait_for("never")
        policy = {"RestartPolicy": {"Name": "always"}}
        again = self.engine.containers.create(self.image, ["sh", "-c", "sleep 0.1; exit 5"], host_config=policy)
        again.start()
        self.assertEqual(again.wait_for("next-exit", timeout=LONG), {"StatusCode": 5})

    def test_one_that_goes_leaves_its_code(self) -> None:
        short = self.engine.containers.create(self.image, ["sh", "-c", "exit 7"], host_config={"AutoRemove": True})
        with short.start_attached() as session:
            self.assertEqual(session.wait(timeout=LONG), 7)
        self.assertEqual(self.engine.containers.list(all=True), [])

    def test_a_timeout_ends_a_wait(self) -> None:
        with self.assertRaises(TimeoutError):
            self.running().wait(timeout=0.05)

    def test_ctrl_c_ends_what_the_main_thread_waits_in(self) -> None:
        container = self.running()
        logs = container.logs(follow=True)
        self.assertEqual(next(logs).text, "ready")
        session = container.exec(["sleep", "1000"])
        events = self.engine.events()
        old = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, old)
        for wait in (container.wait, lambda: next(logs), lambda: next(events), session.wait, lambda: list(session)):
            # The container and its session last for longer than anybody waits here.
            with self.assertRaises(KeyboardInterrupt):
                threading.Timer(0.15, signal.raise_signal, [signal.SIGINT]).start()
                wait()

    def test_ctrl_c_ends_a_load(self) -> None:
        class Endless:
            """An archive with one entry of a terabyte."""

            def __init__(self) -> None:
                entry = tarfile.TarInfo("layer.tar")
                entry.size = 1 << 40
                self.head = entry.tobuf(tarfile.GNU_FORMAT)

            def read(self, size: int) -> bytes:
                time.sleep(0.01)
                head, self.head = self.head, b""
                return head or bytes(512)

        old = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, old)
        with self.assertRaises(KeyboardInterrupt):
            threading.Timer(0.15, signal.raise_signal, [signal.SIGINT]).start()
            self.engine.images.load(Endless())  # type: ignore[arg-type]

    def test_other_threads_run_while_one_waits(self) -> None:
        container, codes = self.running(), []
        waiter = threading.Thread(target=lambda: codes.append(container.wait()))
        waiter.start()
        time.sleep(0.05)
        container.kill()
        waiter.join(LONG)
        self.assertEqual(codes, [137])

    def test_what_a_callback_raises_comes_out(self) -> None:
        class Broken:
            def read(self, size: int) -> bytes:
                raise RuntimeError("no more")

        with self.assertRaisesRegex(RuntimeError, "no more"):
            self.engine.images.load(Broken())  # type: ignore[arg-type]

        def refuse(record: dict) -> None:
            raise RuntimeError("stop")

        with coracle.open(self.dir / "other", run_dir=self.dir / "other-run", durability="off") as engine:
            with self.assertRaisesRegex(RuntimeError, "stop"):
                engine.images.load(IMAGE, progress=refuse)
            self.assertEqual(engine.images.list(), [])

    def test_sessions_take_the_callers_descriptors(self) -> None:
        container = self.engine.containers.create(self.image, ["echo", "mine"])
        reader, writer = os.pipe()
        with container.start_attached(stdout=writer) as session:
            os.close(writer)
            self.assertIsNone(session.stdout)
            with open(reader, "rb") as output:
                self.assertEqual(output.readline(), b"mine\n")
            self.assertEqual(session.wait(), 0)

    def test_a_terminal(self) -> None:
        container = self.engine.containers.create(self.image, ["stty", "size"], tty=True, stdin=True)
        with container.start_attached(rows=11, cols=22) as session:
            self.assertEqual(b"".join(data for _, data in session), b"11 22\r\n")

    def test_a_forked_child_gets_an_error(self) -> None:
        child = os.fork()
        if child == 0:
            try:
                self.engine.info()
            except coracle.Forked:
                pass
            try:
                coracle.open(self.dir / "root", run_dir=self.dir / "run")
            except coracle.Forked:
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.engine.info()

    def test_a_registry_that_is_not_there(self) -> None:
        name = "127.0.0.1:1/none/such:v1"
        with self.assertRaisesRegex(coracle.Error, "127.0.0.1:1"):
            self.engine.images.pull(name, auth={"username": "u", "password": "secret"}, timeout=LONG)
        with self.assertRaises(coracle.NotFound):
            self.engine.images.push(name)

    def test_no_descriptor_is_lost(self) -> None:
        container = self.running()
        container.exec_run(["true"])
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            container.exec_run(["true"])
            list(container.logs())
            self.engine.events().close()
        # A thread that ends may close its own a moment later.
        end = time.monotonic() + LONG
        while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < end:
            time.sleep(0.05)
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), before)


class Files(Case):
    def test_files_and_what_becomes_of_them(self) -> None:
        container = self.running()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            entry = tarfile.TarInfo("note")
            entry.size = 5
            tar.addfile(entry, io.BytesIO(b"hello"))
        packed.seek(0)
        container.put_archive("/tmp", packed)
        self.assertEqual(container.stat("/tmp/note")["size"], 5)
        self.assertEqual(container.exec_run(["cat", "/tmp/note"]).stdout, b"hello")
        with container.get_archive("/tmp/note") as body, tarfile.open(fileobj=io.BytesIO(body.read())) as tar:
            self.assertEqual(tar.getnames(), ["note"])
        self.assertIn({"Path": "/tmp/note", "Kind": 1}, container.changes())
        with container.export() as body, tarfile.open(fileobj=io.BytesIO(body.read())) as tar:
            self.assertIn("tmp/note", tar.getnames())
        id = container.commit("kept", changes=["ENV kept=yes"])
        self.assertIn("kept=yes", self.engine.images.inspect(id)["Config"]["Env"])
        with self.assertRaises(coracle.NotFound):
            container.stat("/nowhere")

    def test_builds(self) -> None:
        context = self.dir / "context"
        context.mkdir()
        (context / "Dockerfile").write_text(f"FROM {self.image}\nARG WORD\nCOPY said /said\nRUN echo $WORD >> /said\n")
        (context / "said").write_text("one\n")
        told: "list[str]" = []
        id = self.engine.images.build(
            context,
            t=["said:1"],
            buildargs={"WORD": "two"},
            networkmode="none",
            progress=lambda record: told.append(record.get("stream", "")),
        )
        self.assertEqual(self.engine.images.inspect("said:1")["Id"], id)
        self.assertIn("Step 1/4", "".join(told))
        container = self.engine.containers.create("said:1", ["cat", "/said"])
        container.start()
        self.assertEqual(container.wait(), 0)
        self.assertEqual([line.text for line in container.logs()], ["one", "two"])
        (context / "Dockerfile").write_text("FROM x\nWHAT")
        with self.assertRaisesRegex(coracle.Invalid, "line 2: unknown instruction: WHAT"):
            self.engine.images.build(context)

    def test_volumes(self) -> None:
        self.assertEqual(self.engine.volumes.create("kept", {"a": "b"})["Labels"], {"a": "b"})
        self.assertEqual([volume["Name"] for volume in self.engine.volumes.list(label=["a"])], ["kept"])
        self.assertEqual(self.engine.volumes.inspect("kept")["Driver"], "local")
        self.engine.volumes.remove("kept")
        self.assertEqual(self.engine.volumes.list(), [])

    def test_plugins(self) -> None:
        plugins = self.engine.plugins
        self.assertEqual(plugins.list(enabled=["true"]), [])
        for call in (plugins.inspect, plugins.enable, plugins.disable, plugins.remove, plugins.set, plugins.upgrade):
            with self.assertRaises(coracle.NotFound):
                call("none")
        with self.assertRaises(coracle.Invalid):
            plugins.privileges("BAD")
        with self.assertRaises(coracle.Invalid):
            plugins.pull("BAD", "name", [{"Name": "network", "Value": ["host"]}])

    def test_a_root_is_copied(self) -> None:
        told: "list[str]" = []
        answer = self.engine.copy_root(self.dir / "copied", progress=lambda record: told.append(record["status"]))
        self.assertEqual((answer["Left"], set(told)), ([], {"copied"}))
        with coracle.open(self.dir / "copied", run_dir=self.dir / "copied-run", create=False) as copy:
            self.assertEqual(len(copy.images.list()), len(self.engine.images.list()))
        with self.assertRaises(coracle.Conflict):
            self.engine.copy_root(self.dir / "copied")

    def test_the_api_is_served_and_settings_are_read_again(self) -> None:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind("")
        listening.listen()
        with listening, self.engine.serve(sockets=[listening]) as server:
            self.assertEqual(len(server.addresses()), 1)
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(listening.getsockname())
                client.sendall(b"GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answer = client.makefile("rb").read()
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK") and answer.endswith(b"OK"), answer)
            server.shutdown()
        with self.assertRaises(coracle.Invalid):
            self.engine.serve()
        with self.engine.events(filters={"type": ["daemon"]}) as events:
            self.engine.reload(["a=b"], {"debug": "true"})
            event = events.next(LONG) or {}
        self.assertEqual(event["Action"], "reload")
        self.assertEqual(self.engine.info()["Labels"], ["a=b"])

    def test_networks_are_repaired_and_released(self) -> None:
        # Nothing runs on one: each call succeeds, and leaves no bridge.
        self.engine.network_repair()
        self.engine.network_release()
        bridge = self.engine.request("GET", "/networks/bridge").body.read()
        self.assertNotIn(json.loads(bridge)["Options"].get("com.docker.network.bridge.name"), os.listdir("/sys/class/net"))


# A program that tells, at its very end, how many messages its sink got since the sinks were removed.
LOGGING = """
import atexit, sys, coracle
told = []

def last():
    before = len(told)
    container = engine.containers.create(image, ["true"])
    container.remove(force=True)
    engine.close()
    print(before > 0, len(told) - before)

# The function that is registered first runs last.
atexit.register(last)
coracle.set_log(lambda level, target, message: told.append(message), 4)
engine = coracle.open(sys.argv[1] + "/root", run_dir=sys.argv[1] + "/run", durability="off")
[image] = engine.images.load(sys.argv[2])
engine.containers.create(image, ["true"]).remove(force=True)
"""


class Log(unittest.TestCase):
    def test_no_sink_is_called_when_the_interpreter_ends(self) -> None:
        with tempfile.TemporaryDirectory(prefix="coracle-python-") as directory:
            made = subprocess.run(
                [sys.executable, "-c", LOGGING, directory, IMAGE], stdout=subprocess.PIPE, text=True, timeout=LONG, check=True
            )
        self.assertEqual(made.stdout, "True 0\n")


class Table(unittest.TestCase):
    def test_the_table_of_functions_is_the_headers(self) -> None:
        header = (Path(__file__).parents[3] / "include/coracle.h").read_text()
        header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
        declared = re.findall(r"^[a-z][\w *]*?\bcoracle_(\w+)\(([^;]*)\);", header, flags=re.M)
        arities = {name: 0 if text.strip() == "void" else text.count(",") + 1 for name, text in declared}
        self.assertEqual({name: len(arguments) for name, (_, arguments) in _library.FUNCTIONS.items()}, arities)


if __name__ == "__main__":
    unittest.main()
