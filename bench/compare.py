#!/usr/bin/env python3
"""Measures Coracle beside crun, runc and dockerd in one run, interleaved; called by bench/run.

Every row is a time for the same work, beside the peers' times for it, and what the ratio is to be. Throughputs are
shown too where the work is so many bytes.

Traps that this avoids (each costs a factor): comparing runs of different hours; a peer with the seccomp profile beside
one without; a client's start-up counted for one side only; the page cache of the first round (one round of warm-up is
thrown away); an image that is already there when `load` is timed.
"""

import argparse
import hashlib
import http.client
import io
import json
import math
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


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


def timed(work):
    begun = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begun


def quiet(*command, **more):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **more)


# Containers that are started at a time, and by how many threads.
MANY, THREADS = 100, 8


def bundles(work, docker):
    """OCI bundles with the very configuration that dockerd gives its runtime, with and without its seccomp profile."""
    name = docker.create(body("sleep", "1000"), "pattern")
    docker.call("POST", f"/containers/{name}/start")
    found = list((work / "docker/exec").glob(f"**/moby/{name}/config.json"))
    if not found:
        raise SystemExit("bench: dockerd's own config.json was not found")
    config = json.loads(found[0].read_text())
    docker.call("DELETE", f"/containers/{name}?force=1")
    config["process"]["args"] = ["/bin/true"]
    config.pop("hooks", None)
    # The files that dockerd binds are gone with its container.
    config["mounts"] = [m for m in config["mounts"] if m.get("type") != "bind"]
    root = work / "rootfs"
    with tarfile.open(work / "busybox.tar") as image:
        layer = next(m for m in image.getmembers() if m.name.endswith("layer.tar"))
        root.mkdir()
        subprocess.run(["tar", "-xf", "-", "-C", root], input=image.extractfile(layer).read(), check=True)
    config["root"] = {"path": str(root)}
    config["linux"]["cgroupsPath"] = "/coracle-bench-peer"
    made = {}
    for kind in ("plain", "seccomp", "long", *(f"many{number}" for number in range(MANY))):
        bundle = work / f"bundle-{kind}"
        bundle.mkdir()
        one = json.loads(json.dumps(config))
        if kind != "seccomp":
            one["linux"].pop("seccomp", None)
        if kind not in ("plain", "seccomp"):
            one["process"]["args"] = ["/bin/sleep", "1000"]
            one["linux"]["cgroupsPath"] = f"/coracle-bench-{kind}"
        (bundle / "config.json").write_text(json.dumps(one))
        made[kind] = bundle
    return made


def big_image(path, megabytes):
    """A docker-save archive of three layers with files of every size, links and directories."""
    rng = random.Random(1)
    pool = rng.randbytes(4 << 20)
    parts = path.with_suffix(".parts")
    parts.mkdir()
    layers, digests = [], []
    for number in range(3):
        layer = parts / f"layer{number}.tar"
        left = (megabytes << 20) // 3
        with tarfile.open(layer, "w") as tar:
            index = 0
            while left > 0:
                size = min(left, int(rng.lognormvariate(9, 2)) + 1, len(pool))
                info = tarfile.TarInfo(f"usr/share/d{number}/{index % 97}/f{index}")
                info.size, info.mode, info.mtime = size, 0o644, 1
                at = rng.randrange(len(pool) - size + 1)
                tar.addfile(info, io.BytesIO(pool[at : at + size]))
                if index % 20 == 0:
                    link = tarfile.TarInfo(info.name + ".link")
                    link.type, link.linkname = tarfile.SYMTYPE, f"f{index}"
                    tar.addfile(link)
                left -= size
                index += 1
        digests.append("sha256:" + hashlib.sha256(layer.read_bytes()).hexdigest())
        layers.append(layer)
    config = json.dumps(
        {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["x"]},
         "rootfs": {"type": "layers", "diff_ids": digests}}
    )
    name = hashlib.sha256(config.encode()).hexdigest() + ".json"
    (parts / name).write_text(config)
    manifest = [{"Config": name, "RepoTags": ["big:latest"], "Layers": [layer.name for layer in layers]}]
    (parts / "manifest.json").write_text(json.dumps(manifest))
    with tarfile.open(path, "w") as tar:
        for entry in [parts / name, *layers, parts / "manifest.json"]:
            tar.add(entry, arcname=entry.name)
    shutil.rmtree(parts)


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


def whole_life(rounds, driver, docker, bundle, work):
    life = json.dumps(body("/bin/true"), separators=(",", ":"))
    sock = f"unix://{docker.path}"

    def over_socket():
        name = docker.create(body("/bin/true"))
        docker.call("POST", f"/containers/{name}/start")
        docker.call("POST", f"/containers/{name}/wait")
        docker.call("DELETE", f"/containers/{name}")

    def runtime(program, kind):
        state = work / f"run/state-{program}"
        return spawned(program, "--root", str(state), "run", "--bundle", str(bundle[kind]), "life")

    def spawned(*command):
        return lambda: driver.ask("spawn", *command)[0]

    return interleaved(rounds, {
        "coracle": lambda: driver.ask("life", life)[0],
        "posix_spawn of busybox true": spawned("busybox", "true"),
        "crun run, no seccomp profile": runtime("crun", "plain"),
        "crun run, Docker's profile": runtime("crun", "seccomp"),
        "runc run, no seccomp profile": runtime("runc", "plain"),
        "runc run, Docker's profile": runtime("runc", "seccomp"),
        "dockerd's socket, four calls": lambda: timed(over_socket),
        "docker run --rm --network none": spawned(
            "docker", "-H", sock, "run", "--rm", "--network", "none", "busybox", "/bin/true"
        ),
    })


def crowd(rounds, driver, docker, work, figures):
    """Starts MANY containers, lists them, looks at memory, removes them; answers two sections and a third."""
    sleeping, state, bundle = text(body("sleep", "1000")), str(work / "run/state-crun"), str(work / "bundle-many%")
    stopped = 300
    started = {"coracle": [], "crun run --detach": [], "dockerd's socket": []}
    removed, listed = {name: [] for name in started}, {"coracle": [], "dockerd's socket": []}
    pool = ThreadPoolExecutor(THREADS)

    def at_once(work):
        return timed(lambda: list(pool.map(work, range(MANY))))

    for number in range(rounds):
        before = rss(driver.process.pid)
        started["coracle"].append(driver.ask("crowd", str(MANY), str(THREADS), sleeping)[0])
        figures["grown"] = rss(driver.process.pid) - before
        started["crun run --detach"].append(
            driver.ask("spawns", "0", str(MANY), str(THREADS), "crun", "--root", state, "run", "--detach", "--bundle", bundle, "many%")[0])
        names = []

        def start_one(_):
            name = docker.create(body("sleep", "1000"))
            names.append(name)
            docker.call("POST", f"/containers/{name}/start")

        started["dockerd's socket"].append(at_once(start_one))
        if number == rounds - 1:
            sizes = sorted(pss(pid) for pid in monitors_of(work))
            figures["monitor"] = sizes[len(sizes) // 2] if sizes else 0
            driver.ask("create", str(stopped), sleeping)
            made = [docker.create(body("sleep", "1000")) for _ in range(stopped)]
            names += made
            for _ in range(21):
                listed["coracle"].append(driver.ask("list")[0])
                listed["dockerd's socket"].append(timed(lambda: docker.call("GET", "/containers/json?all=1")))
            driver.ask("create", str(1000 - MANY - stopped), sleeping)
            figures["open"] = statistics.median(driver.ask("open")[0] for _ in range(21))
            extra = True
        else:
            extra = False
        cleared = driver.ask("clear", str(THREADS))[0]
        gone = timed(lambda: list(pool.map(lambda name: docker.call("DELETE", f"/containers/{name}?force=1"), names)))
        crun = driver.ask("spawns", "0", str(MANY), str(THREADS), "crun", "--root", state, "delete", "--force", "many%")[0]
        if not extra or rounds == 1:
            # The last round has more than MANY to remove.
            for name, ns in zip(removed, (cleared, crun, gone)):
                removed[name].append(ns)
        print(f"\r  round {number + 1}/{rounds} ", end="", file=sys.stderr, flush=True)
    print("\r", end="", file=sys.stderr)
    return started, removed, listed


def floods(rounds, driver, docker, work, line, size, docker_size):
    """Lines of one length into a json-file log, and read back; the writer tells its own time. Scaled to `size`."""
    tools, took = work / "tools", work / "tools/took"
    binds, number = {"Binds": [f"{tools}:/tools"]}, 0
    order = lambda count: body("/tools/flood", str(line), str(count), "/tools/took", **binds)
    last = {}

    def ours():
        nonlocal number
        number += 1
        if "ours" in last:
            driver.ask("remove", last["ours"])
        last["ours"] = driver.ask("run", f"flood-{line}-{number}", text(order(size)))[1]
        return int(took.read_text())

    def theirs():
        if "theirs" in last:
            docker.call("DELETE", f"/containers/{last['theirs']}?force=1")
        last["theirs"] = docker.create(order(docker_size))
        docker.call("POST", f"/containers/{last['theirs']}/start")
        docker.call("POST", f"/containers/{last['theirs']}/wait")
        return int(took.read_text()) * size // docker_size

    def read_ours():
        ns, count = driver.ask("logs", last["ours"])
        if int(count) != size:
            raise SystemExit(f"bench: read {count} of {size} bytes of a log")
        return ns

    def read_theirs():
        return timed(lambda: docker.drain("GET", f"/containers/{last['theirs']}/logs?stdout=1")) * size // docker_size

    write = interleaved(rounds, {"coracle": ours, "dockerd": theirs})
    read = interleaved(rounds, {"coracle": read_ours, "dockerd's socket": read_theirs})
    driver.ask("remove", last["ours"])
    docker.call("DELETE", f"/containers/{last['theirs']}?force=1")
    return write, read


def attaches(rounds, driver, docker, work, size):
    """Bulk output with no log, to an attached client."""
    host = {"Binds": [f"{work / 'tools'}:/tools"], "LogConfig": {"Type": "none"}}
    order = body("/tools/flood", "8192", str(size), **host)
    whole = text(order)

    def checked(answer):
        ns, count = answer
        if int(count) != size:
            raise SystemExit(f"bench: {count} of {size} bytes came")
        return ns

    def theirs():
        name = docker.create({**order, "AttachStdout": True})
        begun = 0

        def start():
            nonlocal begun
            begun = time.perf_counter_ns()
            docker.call("POST", f"/containers/{name}/start")

        docker.drain("POST", f"/containers/{name}/attach?stream=1&stdout=1", start)
        took = time.perf_counter_ns() - begun
        docker.call("DELETE", f"/containers/{name}?force=1")
        return took

    return interleaved(rounds, {
        "coracle": lambda: checked(driver.ask("attach", whole)),
        "coracle, the caller's own pipe": lambda: checked(driver.ask("attach-own", whole)),
        "coracle, that pipe as its stdout": lambda: checked(driver.ask("attach-direct", whole)),
        "a bare pipe": lambda: checked(driver.ask("pipe", str(work / "tools/flood"), "8192", str(size))),
        "dockerd's socket": theirs,
    })


def execs(rounds, driver, docker, work, ours, theirs):
    order = json.dumps({"Cmd": ["/bin/true"], "AttachStdout": True, "AttachStderr": True}, separators=(",", ":"))
    state = str(work / "run/state-crun")

    def over_socket():
        made = json.loads(docker.call("POST", f"/containers/{theirs}/exec", json.loads(order)))["Id"]
        docker.call("POST", f"/exec/{made}/start", {})
        docker.call("GET", f"/exec/{made}/json")

    return interleaved(rounds, {
        "coracle": lambda: driver.ask("exec", ours, order)[0],
        "crun exec": lambda: driver.ask("spawn", "crun", "--root", state, "exec", "long", "/bin/true")[0],
        "dockerd's socket, three calls": lambda: timed(over_socket),
    })


def ends(rounds, driver, docker, work):
    """From a process's end to the return of who waits for it and to its die event; a stop of one that is willing."""
    took, heard = work / "tools/ended", []
    binds = {"Binds": [f"{work / 'tools'}:/tools"]}
    order, willing = body("/tools/flood", "end", "/tools/ended", **binds), body("/tools/flood", "willing", **binds)

    def ours():
        ns, event = driver.ask("end", str(took), text(order))
        heard.append(int(event))
        return ns

    def theirs():
        name = docker.create(order)
        docker.call("POST", f"/containers/{name}/start")
        docker.call("POST", f"/containers/{name}/wait")
        returned = time.monotonic_ns()
        docker.call("DELETE", f"/containers/{name}")
        return returned - int(took.read_text())

    def stop_theirs():
        name = docker.create(willing)
        docker.call("POST", f"/containers/{name}/start")
        time.sleep(0.02)
        ns = timed(lambda: docker.call("POST", f"/containers/{name}/stop"))
        docker.call("DELETE", f"/containers/{name}")
        return ns

    ended = interleaved(rounds, {"coracle": ours, "dockerd's socket": theirs})
    ended = {"coracle": ended["coracle"], "coracle, the die event": heard[1:], "dockerd's socket": ended["dockerd's socket"]}
    stopped = interleaved(rounds, {"coracle": lambda: driver.ask("stop", text(willing))[0], "dockerd's socket": stop_theirs})
    return ended, stopped


def loads(rounds, driver, docker, work, megabytes):
    archive = work / "big.tar"
    big_image(archive, megabytes)
    layers = work / "layers"
    layers.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", layers], check=True)

    def untar():
        target = work / "untarred"
        target.mkdir()
        for layer in sorted(layers.glob("layer*.tar")):
            into = target / layer.stem
            into.mkdir()
            quiet("tar", "-xf", str(layer), "-C", str(into))
        quiet("sync", "-f", str(target))

    def ours():
        ns = driver.ask("load", str(archive))[0]
        driver.ask("rmi", "big")
        return ns

    def tar():
        ns = timed(untar)
        shutil.rmtree(work / "untarred")
        return ns

    def theirs():
        with open(archive, "rb") as file:
            ns = timed(lambda: docker.call("POST", "/images/load?quiet=1", file, "application/x-tar"))
        docker.call("DELETE", "/images/big")
        return ns

    return interleaved(rounds, {"coracle": ours, "tar -x of its layers, sync": tar, "dockerd's socket": theirs})


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


def images(rounds, driver, docker, work, megabytes, figures):
    """Pull, push, save and commit; answers a section each."""
    archive = work / "big.tar"
    if not archive.exists():
        big_image(archive, megabytes)
    registry = Registry(work / "registry")
    name = f"127.0.0.1:{registry.port}/bench/big"
    # dockerd's helpers (docker-untar, unpigz) come and go: their memory is not counted.
    pids = {"coracle": [driver.process.pid], "dockerd": engine_of(work)}
    peaks = {f"{what}, {who}": [] for what in ("pull", "push", "save") for who in pids}
    sent = {}

    def peak(what, who):
        return Peak(pids[who], peaks[f"{what}, {who}"])

    def load_both():
        driver.ask("load", str(archive))
        with open(archive, "rb") as file:
            docker.call("POST", "/images/load?quiet=1", file, "application/x-tar")
        docker.call("POST", f"/images/big/tag?repo={name}&tag=latest")
        driver.ask("tag", "big", f"{name}:latest")

    def checked(text):
        if b'"error"' in text:
            raise SystemExit(f"bench: dockerd: {text[-300:]!r}")

    try:
        load_both()

        def push_ours():
            registry.empty()
            with peak("push", "coracle"):
                ns = driver.ask("push", f"{name}:latest")[0]
            sent["coracle"] = registry.bytes()
            return ns

        def push_theirs():
            registry.empty()
            with peak("push", "dockerd"):
                ns = timed(lambda: checked(docker.call("POST", f"/images/{name}/push?tag=latest", "{}")))
            sent["dockerd"] = registry.bytes()
            return ns

        pushed = interleaved(rounds, {"coracle": push_ours, "dockerd's socket": push_theirs})

        def save_ours():
            with peak("save", "coracle"):
                return driver.ask("save", "big")[0]

        def save_theirs():
            with peak("save", "dockerd"):
                return timed(lambda: docker.drain("GET", "/images/big/get"))

        saved = interleaved(rounds, {"coracle": save_ours, "dockerd's socket": save_theirs})
        driver.ask("rmi", "big")
        driver.ask("rmi", f"{name}:latest")
        docker.call("DELETE", "/images/big")
        docker.call("DELETE", f"/images/{name}:latest")

        def pull_ours():
            with peak("pull", "coracle"):
                ns = driver.ask("pull", f"{name}:latest")[0]
            driver.ask("rmi", f"{name}:latest")
            return ns

        def pull_theirs():
            with peak("pull", "dockerd"):
                ns = timed(lambda: checked(docker.call("POST", f"/images/create?fromImage={name}&tag=latest")))
            docker.call("DELETE", f"/images/{name}:latest")
            return ns

        pulled = interleaved(rounds, {"coracle": pull_ours, "dockerd's socket": pull_theirs})
    finally:
        registry.stop()

    committed = {}
    for what, size in (("commit", 65536), ("commit-big", 100 << 20)):
        command = body("sh", "-c", f"head -c {size} /dev/urandom > /file")
        _, ours = driver.ask("run", f"bench-{what}", text(command))[:2]
        theirs = docker.create(command, f"bench-{what}")
        docker.call("POST", f"/containers/{theirs}/start")
        docker.call("POST", f"/containers/{theirs}/wait")

        def commit_ours():
            ns, image = driver.ask("commit", ours.split()[0], "bench-committed")
            driver.ask("rmi", "bench-committed")
            return ns

        def commit_theirs():
            ns = timed(lambda: docker.call("POST", f"/commit?container={theirs}&repo=bench-committed", "{}"))
            docker.call("DELETE", "/images/bench-committed")
            return ns

        committed[what] = interleaved(max(rounds, 5), {"coracle": commit_ours, "dockerd's socket": commit_theirs})
        driver.ask("remove", ours.split()[0])
        docker.call("DELETE", f"/containers/{theirs}?force=1")
    for what, grown in peaks.items():
        figures[f"peak memory beyond before, {what}"] = max(grown[1:] or grown)
    for who, size in sent.items():
        figures[f"bytes in the registry after a push, {who}"] = size
    return pulled, pushed, saved, committed["commit"], committed["commit-big"]


def builds(rounds, driver, docker):
    """Ten RUN steps that do nothing, made anew; and the same from the cache."""
    file = "FROM busybox\n" + "".join(f"RUN true {number}\n" for number in range(10))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(file)
        tar.addfile(member, io.BytesIO(file.encode()))

    def ours(nocache):
        query = {"file": file, "networkmode": "none", "nocache": nocache}
        return driver.ask("build", text(query))

    def theirs(nocache):
        target = f"/build?networkmode=none&nocache={int(nocache)}"
        said = []
        ns = timed(lambda: said.append(docker.call("POST", target, packed.getvalue(), "application/x-tar")))
        return ns, said[0].decode().rsplit("Successfully built ", 1)[1][:12]

    def anew(build, remove):
        ns, image = build(True)
        remove(image)
        return ns

    def remove(image):
        docker.call("DELETE", f"/images/{image}")

    cases = {"coracle": lambda: anew(ours, lambda image: driver.ask("rmi", image)), "dockerd's socket": lambda: anew(theirs, remove)}
    made = interleaved(rounds, cases)
    kept = ours(False)[1], theirs(False)[1]
    cached = interleaved(rounds, {"coracle": lambda: ours(False)[0], "dockerd's socket": lambda: theirs(False)[0]})
    driver.ask("rmi", kept[0])
    remove(kept[1])
    return made, cached


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


def samples(rounds, driver, docker, work, ours, theirs):
    """Processor time of one sample: dockerd's is that of a stream, less what it uses in the same time without one."""
    pids = engine_of(work)

    def spent(work_of_it):
        before = processor_time(pids)
        work_of_it()
        return processor_time(pids) - before

    def follow():
        connection = http.client.HTTPConnection("docker")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(docker.path))
        connection.request("GET", f"/v1.24/containers/{theirs}/stats")
        answer = connection.getresponse()
        for _ in range(4):
            answer.readline()
        connection.close()

    def over_socket():
        idle = spent(lambda: time.sleep(4))
        return max((spent(follow) - idle) // 4, 1)

    return interleaved(rounds, {
        "coracle": lambda: driver.ask("stats", ours, "200")[0],
        "dockerd's stream, without its client": over_socket,
    })


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
    """The monitors of the root that is measured: each stands in its run directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "comm").read_text() == "coracle-monitor\n" and os.readlink(entry / "cwd").startswith(str(work)):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def footprints(work, library, ours, figures):
    """Sizes and memory: ours, and containerd's shim."""
    # The container's process is the one whose cgroup has its id; its parent is the monitor.
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, groups = (entry / "comm").read_text().strip(), (entry / "cgroup").read_text()
        except OSError:
            continue
        if ours in groups:
            found.setdefault("init", int(entry.name))
        if name.startswith("containerd-shim") and str(work) in (entry / "cmdline").read_text():
            found["shim"] = int(entry.name)
    rows = [("libcoracle.so, stripped", os.path.getsize(library), 6_000_000)]
    for name, size in figures.items():
        if name.startswith(("peak memory", "bytes in")):
            rows.append((name, size, MEMORY if name.startswith("peak") and name.endswith("coracle") else None))
    if "grown" in figures:
        rows.append((f"growth of the host program, {MANY} containers", figures["grown"], 5_000_000))
        rows.append((f"monitor, one of {MANY} (PSS)", figures["monitor"], 300_000))
    if "init" in found:
        monitor = parent(found["init"])
        rows.append(("monitor, its program", os.stat(f"/proc/{monitor}/exe").st_size, 150_000))
        rows.append(("monitor, memory of its own (PSS)", pss(monitor), 300_000))
    if "shim" in found:
        rows.append(("containerd-shim, memory of its own (PSS)", pss(found["shim"]), None))
    return rows


# (section, peer): at most so many times the peer's time, from the project's goals.
GOALS = {
    ("life", "crun run, no seccomp profile"): 1.0,
    ("life", "crun run, Docker's profile"): 0.33,
    ("life", "dockerd's socket, four calls"): 1 / 25,
    ("life", "docker run --rm --network none"): 1 / 40,
    ("start", "crun run --detach"): 1.0,
    ("start", "dockerd's socket"): 1 / 20,
    ("remove", "crun run --detach"): 1.0,
    ("remove", "dockerd's socket"): 1 / 20,
    ("list", "dockerd's socket"): 1 / 10,
    ("exec", "crun exec"): 1.0,
    ("exec", "dockerd's socket, three calls"): 1 / 10,
    ("write-32", "dockerd"): 1 / 10,
    ("write-8192", "dockerd"): 1 / 5,
    ("read-32", "dockerd's socket"): 1 / 20,
    ("read-8192", "dockerd's socket"): 1 / 20,
    ("attach", "dockerd's socket"): 1 / 5,
    ("stats", "dockerd's stream, without its client"): 0.2,
    ("load", "tar -x of its layers, sync"): 1.2,
    ("load", "dockerd's socket"): 1.0,
    ("pull", "dockerd's socket"): 1 / 2,
    ("push", "dockerd's socket"): 1 / 2,
    ("save", "dockerd's socket"): 1 / 2,
    ("commit", "dockerd's socket"): 1 / 5,
    ("commit-big", "dockerd's socket"): 1 / 5,
    ("build", "dockerd's socket"): 1 / 20,
    ("build-cached", "dockerd's socket"): 1 / 20,
}

# The growth of the host program by any one operation on an image.
MEMORY = 64 << 20

TITLES = {
    "life": "Whole life of /bin/true: create, start, wait, remove",
    "exec": "Exec of /bin/true in a running container",
    "start": f"{MANY} containers created and started, {THREADS} at a time",
    "remove": f"Those {MANY} removed by force, {THREADS} at a time",
    "list": f"List of 400 containers, {MANY} of them running",
    "write-32": "json-file log, lines of 32 bytes written",
    "read-32": "The same read back",
    "write-8192": "json-file log, lines of 8 KiB written",
    "read-8192": "The same read back ",
    "attach": "Bulk output, attached, no log",
    "end": "From a process's end to the return of who waits",
    "stop": "Stop of a willing container",
    "load": "Load of an image",
    "pull": "Pull of it from a registry on this machine",
    "push": "Push of it to an empty registry on this machine",
    "save": "Save of it",
    "commit": "Commit of a container with 64 KiB of changes",
    "commit-big": "Commit of a container with 100 MiB of changes",
    "build": "Build of ten RUN steps that do nothing",
    "build-cached": "The same build from the cache",
    "stats": "One sample of a container's use, processor time",
}

# What is measured together.
PARTS = ["life", "exec", "ends", "many", "logs", "attach", "stats", "load", "images", "build"]


def table(section, taken, size):
    """`size`: the bytes of the work, or 0."""
    own = statistics.median(taken["coracle"])
    lines = [f"\n{TITLES[section]}", f"  {'':34} {'min ms':>9} {'median ms':>10} {'coracle / it':>13}  goal"]
    for name, times in taken.items():
        median = statistics.median(times)
        ratio = own / median
        goal = GOALS.get((section, name))
        said = "" if goal is None else f"<= {goal:.3g} {'met' if ratio <= goal else 'MISSED'}"
        shown = "" if name == "coracle" else f"{ratio:.3f}"
        speed = f"{size / median * 1e3:8.0f} MB/s" if size else ""
        lines.append(f"  {name:34} {min(times) / 1e6:9.2f} {median / 1e6:10.2f} {shown:>13}  {speed} {said}".rstrip())
    return "\n".join(lines)


def plot(results, path):
    """Medians as bars on a logarithmic scale, one group a section."""
    bars = []
    for section, taken in results.items():
        bars.append((TITLES[section], None))
        bars += [(name, statistics.median(times) / 1e6) for name, times in taken.items()]
    values = [value for _, value in bars if value]


    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    left, width, row = 250, 520, 22
    scale = lambda value: (math.log10(value) - low) / (high - low) * width
    height = row * len(bars) + 50
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" height="{height}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for power in range(low, high + 1):
        x = left + scale(10**power)
        out.append(f'<line x1="{x}" x2="{x}" y1="10" y2="{height - 30}" stroke="#ddd"/>')
        out.append(f'<text x="{x}" y="{height - 12}" text-anchor="middle">{10**power:g} ms</text>')
    for number, (name, value) in enumerate(bars):
        y = 10 + number * row
        if value is None:
            out.append(f'<text x="8" y="{y + 16}" font-weight="bold">{name}</text>')
            continue
        colour = "#1b7f5c" if name == "coracle" else "#9aa5b1"
        label = name.replace("&", "&amp;").replace("<", "&lt;")
        out.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{label}</text>')
        out.append(f'<rect x="{left}" y="{y + 3}" width="{max(scale(value), 1):.1f}" height="{row - 6}" fill="{colour}"/>')
        out.append(f'<text x="{left + scale(value) + 6:.1f}" y="{y + 15}">{value:.3g}</text>')
    path.write_text("\n".join(out + ["</svg>\n"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--few", type=int, default=5, help="rounds of what takes seconds each")
    parser.add_argument("--megabytes", type=int, default=360, help="size of the image that is loaded")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, less work: to see where things are")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True, help="the libcoracle.so that is measured")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.few, options.megabytes = 7, 1, 100
    work, wanted, mega = options.work, options.only or PARTS, 1 << (18 if options.quick else 20)

    driver, docker = Driver(work), Docker(work / "docker/sock")
    archive = work / "busybox.tar"
    driver.ask("load", str(archive))
    with open(archive, "rb") as file:
        docker.call("POST", "/images/load?quiet=1", file, "application/x-tar")
    bundle = bundles(work, docker)
    _, ours = driver.ask("start", "bench-long", text(body("sleep", "1000")))
    theirs = docker.create(body("sleep", "1000"), "bench-long")
    state = str(work / "run/state-crun")
    quiet("crun", "--root", state, "run", "--detach", "--bundle", str(bundle["long"]), "long")
    results, sizes, figures, lines = {}, {}, {}, []

    def show(**sections):
        for section, taken in sections.items():
            section = section.replace("_", "-")
            results[section] = taken
            lines.append(table(section, taken, sizes.get(section, 0)))
            print(lines[-1], flush=True)

    try:
        docker.call("POST", f"/containers/{theirs}/start")
        if "life" in wanted:
            show(life=whole_life(options.rounds, driver, docker, bundle, work))
        if "exec" in wanted:
            show(exec=execs(options.rounds, driver, docker, work, ours, theirs))
        if "ends" in wanted:
            ended, stopped = ends(options.rounds, driver, docker, work)
            show(end=ended, stop=stopped)
        if "many" in wanted:
            started, removed, listed = crowd(max(options.few, 2), driver, docker, work, figures)
            show(start=started, remove=removed, list=listed)
        if "logs" in wanted:
            for line, size, docker_size in ((32, 256 * mega, 32 * mega), (8192, 1024 * mega, 256 * mega)):
                sizes[f"write-{line}"] = sizes[f"read-{line}"] = size
                written, read = floods(options.few, driver, docker, work, line, size, docker_size)
                show(**{f"write_{line}": written, f"read_{line}": read})
        if "attach" in wanted:
            sizes["attach"] = 1024 * mega
            show(attach=attaches(options.few, driver, docker, work, sizes["attach"]))
        if "stats" in wanted:
            show(stats=samples(options.few, driver, docker, work, ours, theirs))
        if "build" in wanted:
            made, cached = builds(options.few, driver, docker)
            show(build=made, build_cached=cached)
        if "load" in wanted:
            show(load=loads(options.few, driver, docker, work, options.megabytes))
        if "images" in wanted:
            taken = images(options.few, driver, docker, work, options.megabytes, figures)
            show(**dict(zip(("pull", "push", "save", "commit", "commit_big"), taken)))
        parts = footprints(work, options.library, ours, figures)
    finally:
        driver.ask("clear", str(THREADS))
        driver.ask("remove", ours)
        driver.close()
        for name in ("long", *(f"many{number}" for number in range(MANY if "many" in wanted else 0))):
            subprocess.run(["crun", "--root", state, "delete", "--force", name], check=False, stderr=subprocess.DEVNULL)
        docker.call("DELETE", f"/containers/{theirs}?force=1")

    shown = ""
    if "open" in figures:
        took = figures["open"] / 1e6
        shown += f"\nOpening a root of 1,000 containers, {MANY} running: {took:.1f} ms  <= 50 {'met' if took <= 50 else 'MISSED'}"
    shown += "\n\nSize and memory\n"
    for name, size, goal in parts:
        said = "" if goal is None else f"  <= {goal / 1000:.0f} kB {'met' if size <= goal else 'MISSED'}"
        shown += f"  {name:50} {size / 1000:9.0f} kB{said}\n"
    print(shown)
    (options.out / "table.txt").write_text("\n".join([*lines, shown]))
    kept = {"rounds": options.rounds, "few": options.few, "ns": results, "bytes": parts, "open_ns": figures.get("open")}
    (options.out / "figures.json").write_text(json.dumps(kept, indent=1))
    plot(results, options.out / "plot.svg")


if __name__ == "__main__":
    main()
