#!/usr/bin/env python3
"""Measures Coracle beside crun, runc and dockerd in one run, interleaved; called by bench/run.

Every row is a time for the same work, beside the peers' times for it, and what the ratio is to be. Throughputs are
shown too where the work is so many bytes.

Traps that this avoids (each costs a factor): comparing runs of different hours; a peer with the seccomp profile beside
one without; a client's start-up counted for one side only; the page cache of the first round (one round of warm-up is
thrown away); an image that is already there when `load` is timed.
"""

import argparse
import http.client
import io
import json
import os
import socket
import statistics
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from images import builds, images, loads
from peers import MANY, THREADS, Docker, Driver, body, engine_of, interleaved, monitors_of, parent, processor_time, pss
from peers import command_of, init_of, quiet, rss, share_image, text, timed, used_with_children
from shown import MEMORY, bounded, plot, table


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
            figures["monitor"] = sum(pss(pid) for pid in monitors_of(work)) // MANY
            driver.ask("create", str(stopped), sleeping)
            made = [docker.create(body("sleep", "1000")) for _ in range(stopped)]
            names += made
            for _ in range(21):
                listed["coracle"].append(driver.ask("list")[0])
                listed["dockerd's socket"].append(timed(lambda: docker.call("GET", "/containers/json?all=1")))
            figures["watched"] = driver.ask("watch", "5")[0]
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


def inspects(rounds, driver, docker, ours, theirs):
    return interleaved(rounds, {
        "coracle": lambda: driver.ask("inspect", ours)[0],
        "dockerd's socket": lambda: timed(lambda: docker.call("GET", f"/containers/{theirs}/json")),
    })


def files(rounds, driver, docker, work):
    """Files of 200 MB in all, put into a container that does not run, got out again, and the container exported."""
    size, archive = 200_000_000, work / "files.tar"
    content = os.urandom(1_000_000)
    with tarfile.open(archive, "w") as tar:
        for number in range(size // len(content)):
            member = tarfile.TarInfo(f"data/{number}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    _, ours = driver.ask("make", text(body("true")))
    theirs = docker.create(body("true"))
    sums = {}

    def got(what, who, count):
        """Archives of the same files are of about the same length: else somebody left files out."""
        sums[what, who] = count
        if count < size or abs(count - sums.get((what, "dockerd"), count)) > size // 100:
            raise SystemExit(f"bench: {sums}")

    def put_theirs():
        with open(archive, "rb") as file:
            return timed(lambda: docker.call("PUT", f"/containers/{theirs}/archive?path=/", file, "application/x-tar"))

    def read_ours(what, *words):
        ns, count = driver.ask(what, ours, *words)
        got(what, "coracle", int(count))
        return ns

    def read_theirs(what, target):
        counted = []
        ns = timed(lambda: counted.append(docker.drain("GET", f"/containers/{theirs}/{target}")))
        got(what, "dockerd", counted[0])
        return ns

    put = interleaved(rounds, {
        "coracle": lambda: driver.ask("put", ours, str(archive), "/")[0],
        "dockerd's socket": put_theirs,
    })
    out = interleaved(rounds, {
        "coracle": lambda: read_ours("get", "/data"),
        "dockerd's socket": lambda: read_theirs("get", "archive?path=/data"),
    })
    exported = interleaved(rounds, {
        "coracle": lambda: read_ours("export"),
        "dockerd's socket": lambda: read_theirs("export", "export"),
    })
    driver.ask("remove", ours)
    docker.call("DELETE", f"/containers/{theirs}?force=1")
    archive.unlink()
    return {"put": put, "get": out, "export": exported}, size


def exec_cost(driver, ours):
    """Nanoseconds of processor time that an exec of `true` takes: the program's, the monitor's and the new process's."""
    count, order = 200, text({"Cmd": ["/bin/true"]})
    monitor = parent(init_of(ours))

    def used():
        return int(driver.ask("used")[1]) + used_with_children(monitor)

    before = used()
    for _ in range(count):
        driver.ask("exec", ours, order)
    return (used() - before) / count


def floods(rounds, driver, docker, work, line, size, docker_size):
    """Lines of one length into a json-file log, and read back; the writer reports its own time. Scaled to `size`."""
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
    """From a process's end to the return of who waits for it and to its die event, without and with something of the
    host's bound into the container; a stop of one that is willing."""
    tools, bound = work / "tools", {"Binds": [f"{work / 'tools'}:/tools"]}
    share_image(driver, docker, work, "bench-flood", tools)
    own = {**body("/flood", "end", "/ended"), "Image": "bench-flood"}
    willing = body("/tools/flood", "willing", **bound)

    def over_socket():
        name = docker.create(own)
        docker.call("POST", f"/containers/{name}/start")
        docker.call("POST", f"/containers/{name}/wait")
        returned = time.monotonic_ns()
        layer = json.loads(docker.call("GET", f"/containers/{name}/json"))["GraphDriver"]["Data"]["UpperDir"]
        ended = int((Path(layer) / "ended").read_text())
        docker.call("DELETE", f"/containers/{name}")
        return returned - ended

    def stop_theirs():
        name = docker.create(willing)
        docker.call("POST", f"/containers/{name}/start")
        time.sleep(0.02)
        ns = timed(lambda: docker.call("POST", f"/containers/{name}/stop"))
        docker.call("DELETE", f"/containers/{name}")
        return ns

    orders = {
        "coracle": ("own:/ended", text(own)),
        "coracle, with a bind": (str(tools / "ended"), text(body("/tools/flood", "end", "/tools/ended", **bound))),
    }
    events = {name: [] for name in orders}

    def ours(name):
        ns, event = driver.ask("end", *orders[name])
        events[name].append(int(event))
        return ns

    cases = {name: lambda name=name: ours(name) for name in orders}
    ended = interleaved(rounds, {**cases, "dockerd's socket": over_socket})
    for name, took in events.items():
        ended[f"{name}, the die event"] = took[1:]
    stopped = interleaved(rounds, {"coracle": lambda: driver.ask("stop", text(willing))[0], "dockerd's socket": stop_theirs})
    return ended, stopped


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


def footprints(work, library, ours, figures):
    """Sizes and memory: ours, and containerd's shim."""
    shim = next((pid for pid in engine_of(work) if command_of(pid).startswith("containerd-shim")), 0)
    init = init_of(ours)
    rows = [("libcoracle.so, stripped", os.path.getsize(library), 6_000_000)]
    for name, size in figures.items():
        if name.startswith(("peak memory", "bytes in", "bytes written")):
            rows.append((name, size, MEMORY if name.startswith("peak") and name.endswith("coracle") else None))
    if "grown" in figures:
        rows.append((f"growth of the host program, {MANY} containers", figures["grown"], 5_000_000))
        rows.append((f"monitor, one of {MANY} (PSS of both processes)", figures["monitor"], 200_000))
    if init:
        monitor = parent(init)
        rows.append(("monitor, its program", os.stat(f"/proc/{monitor}/exe").st_size, 165_000))
        both = [pid for pid in monitors_of(work) if pid == monitor or parent(pid) == monitor]
        rows.append(("monitor, memory of its own (PSS of both processes)", sum(map(pss, both)), 330_000))
    if shim:
        rows.append(("containerd-shim, memory of its own (PSS)", pss(shim), None))
    return rows


# Measured together.
PARTS = ["life", "exec", "ends", "many", "inspect", "files", "logs", "attach", "stats", "load", "images", "build"]


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
            figures["exec"] = exec_cost(driver, ours)
        if "ends" in wanted:
            ended, stopped = ends(options.rounds, driver, docker, work)
            show(end=ended, stop=stopped)
        if "inspect" in wanted:
            show(inspect=inspects(options.rounds, driver, docker, ours, theirs))
        if "files" in wanted:
            taken, size = files(options.few, driver, docker, work)
            sizes.update(dict.fromkeys(taken, size))
            show(**taken)
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
    if "exec" in figures:
        took = figures["exec"] / 1e6
        shown += f"\nProcessor time of an exec, all processes': {took:.2f} ms  {bounded(took, 3, 'ms')}"
    if "watched" in figures:
        share = figures["watched"] / 1e7
        shown += f"\nSamples of {MANY} containers once a second: {share:.2f} % of a processor  {bounded(share, 1, '%')}"
    if "open" in figures:
        took = figures["open"] / 1e6
        shown += f"\nOpening a root of 1,000 containers, {MANY} running: {took:.1f} ms  {bounded(took, 50, 'ms')}"
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
