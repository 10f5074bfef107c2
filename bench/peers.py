"""Who is measured, and what is asked of them: the driver with our library, dockerd, a registry, their processes."""

import http.client
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path


# Containers that are started at a time, and by how many threads.
MANY, THREADS = 100, 8


class Driver:
    """The C program that is linked with libcoracle.so."""

    def __init__(self, work):
        self.process = subprocess.Popen(
            [work / "driver", work / "root", work / "run"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "DOCKER_API_VERSION": "1.24"},
        )

    def ask(self, *words):
        """Sends an order; answers its nanoseconds and text."""
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("bench: the driver ended")
        state, _, rest = line.strip().partition(" ")
        if state != "ok":
            raise SystemExit(f"bench: {words[0]}: {rest}")
        ns, _, text = rest.partition(" ")
        return int(ns), text

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Docker:
    """dockerd's API over its socket, one connection a call as its clients do."""

    def __init__(self, path):
        self.path = path

    def call(self, method, target, body=None, content="application/json"):
        connection = http.client.HTTPConnection("docker")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.path))
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        headers = {"Content-Type": content} if data is not None else {}
        connection.request(method, "/v1.24" + target, data, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 400:
            raise SystemExit(f"bench: dockerd: {method} {target}: {answer.status} {text[:200]!r}")
        return text

    def drain(self, method, target, after=lambda: None):
        """Reads an answer that is a stream (a log, an attached output) to its end; how many bytes came."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.path))
        upgrade = "Connection: Upgrade\r\nUpgrade: tcp\r\n" if method == "POST" else "Connection: close\r\n"
        connection.sendall(f"{method} /v1.24{target} HTTP/1.1\r\nHost: docker\r\n{upgrade}\r\n".encode())
        room, total = bytearray(1 << 20), connection.recv_into(bytearray(4096))
        after()
        while got := connection.recv_into(room):
            total += got
        connection.close()
        return total

    def create(self, body, name=None):
        query = f"?name={name}" if name else ""
        return json.loads(self.call("POST", "/containers/create" + query, body))["Id"]


def body(*command, **host):
    """The create body of every container here."""
    return {"Image": "busybox", "Cmd": list(command), "HostConfig": {"NetworkMode": "none", **host}}


def text(value):
    return json.dumps(value, separators=(",", ":"))


def share_image(driver, docker, work, name, tree):
    """Gives both engines an image of the files in a directory."""
    layer, archive = io.BytesIO(), work / f"{name}.tar"
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(tree, ".")
    docker.call("POST", f"/images/create?fromSrc=-&repo={name}", layer.getvalue(), "application/x-tar")
    archive.write_bytes(docker.call("GET", f"/images/{name}/get"))
    driver.ask("load", str(archive))


def timed(work):
    begun = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begun


def quiet(*command, **more):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **more)


def interleaved(rounds, cases):
    """Runs every case once a round; answers the nanoseconds of each. The first round is thrown away."""
    taken = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, case in cases.items():
            ns = case()
            if number:
                taken[name].append(ns)
        print(f"\r  round {number}/{rounds} ", end="", file=sys.stderr, flush=True)
    print("\r", end="", file=sys.stderr)
    return taken


class Registry:
    """Debian's docker-registry on a port of 127.0.0.1."""

    def __init__(self, dir):
        self.dir, self.process = dir, None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir()
        (self.dir / "config.yml").write_text(
            f"version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\n"
            f"storage: {{filesystem: {{rootdirectory: {self.dir}/data}}}}\nhttp: {{addr: '127.0.0.1:{self.port}'}}\n"
        )
        with open(self.dir / "log", "w") as log:
            self.process = subprocess.Popen(
                ["docker-registry", "serve", self.dir / "config.yml"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(200):
            try:
                return socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                time.sleep(0.05)
        raise SystemExit("bench: docker-registry does not start")

    def stop(self):
        self.process.kill()
        self.process.wait()

    def empty(self):
        self.stop()
        self.start()

    def bytes(self):
        return sum(f.stat().st_size for f in (self.dir / "data").glob("**/data"))


class Peak:
    """The most memory that programs take meanwhile, beyond what they had."""

    def __init__(self, pids, kept):
        self.pids, self.kept = pids, kept

    def __enter__(self):
        for pid in self.pids:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        self.before = {pid: self.status(pid, "VmRSS") for pid in self.pids}

    def __exit__(self, *_):
        self.kept.append(sum(self.status(pid, "VmHWM") - self.before[pid] for pid in self.pids))

    @staticmethod
    def status(pid, name):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        return 0


def written_to_disk(work, what):
    """How many bytes the disk below `work` gets by `what` and what it leaves to be written; of everybody on the machine."""
    device = os.stat(work).st_dev
    place = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    sectors = lambda: int(place.read_text().split()[6]) if place.exists() else 0
    os.sync()
    before = sectors()
    what()
    os.sync()
    return (sectors() - before) * 512


def processor_time(pids):
    """Nanoseconds that processes have run."""
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            total += int(task.read_text().split()[0])
    return total


def engine_of(work):
    """dockerd, its containerd and its shims."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        program = os.path.basename(words[0].decode())
        if program.startswith(("dockerd", "containerd")) and str(work / "docker").encode() in b" ".join(words):
            found.append(int(entry.name))
    return found


def rollup(pid, name):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def pss(pid):
    return rollup(pid, "Pss:")


def rss(pid):
    return rollup(pid, "Rss:")


def monitors_of(work):
    """Both processes of each monitor of the root that is measured: they stand in its run directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ours = (entry / "comm").read_text().strip() in ("coracle-monitor", "coracle-worker")
            if ours and os.readlink(entry / "cwd").startswith(str(work)):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def command_of(pid):
    """The name of the program that a process runs; "": it is gone."""
    try:
        return os.path.basename(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode())
    except OSError:
        return ""


def init_of(container):
    """The first process of a container of ours: the one whose cgroup has its id; 0: it does not run."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if container in (entry / "cgroup").read_text():
                return int(entry.name)
        except OSError:
            pass
    return 0


def used_with_children(pid):
    """Nanoseconds that a process and those of its children that it has waited for have run."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, ticks)) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
