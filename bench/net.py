#!/usr/bin/env python3
"""Measures networks beside dockerd's, interleaved; called by bench/net."""

import argparse
import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from peers import Docker, Driver, interleaved, text
from shown import table

# Containers that are started at once, and by how many threads.
MANY, THREADS = 64, 8

# The greatest ratio of a row (ours divided by theirs).
GOALS = {
    ("life", "coracle, no network"): 1.6,
    ("life", "docker run --rm -p"): 1 / 45,
    ("many", "dockerd"): 1 / 20,
    ("take-near", "dockerd"): 1.0,
    ("connect-near", "dockerd"): 1.0,
    ("connect-self", "dockerd"): 0.5,
    ("trip-self", "dockerd"): 0.5,
    ("lookup", "dockerd"): 1.0,
    ("ports", "coracle, first port"): 1.1,
}

TITLES = {
    "life": "Whole life of a container with a bridge network and a published port",
    "many": f"{MANY} such containers started at once, by {THREADS} threads",
    "take-near": "1 GiB through a published port, from another host",
    "connect-near": "2,000 connections to a published port, from another host",
    "connect-self": "2,000 connections to a published port, at localhost",
    "trip-self": "10,000 round trips through a published port, at localhost",
    "take-self": "1 GiB through a published port, at localhost",
    "lookup": "2,000 look-ups of a container's name",
    "ports": "A container with one published port, where 1,000 ports are published already",
}


class Here(Driver):
    """The driver, on a host of its own."""

    def __init__(self, work, name, *config):
        self.process = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{name}-ours-host", work / "driver", work / "root", work / "run", *config],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "DOCKER_API_VERSION": "1.24"},
        )


def body(*command, mode="bridge", ports=0, first=0, tools=None):
    exposed = [f"{80 + number}/tcp" for number in range(ports)]
    bindings = {
        port: [{"HostIp": "0.0.0.0", "HostPort": str(first + at) if first else ""}] for at, port in enumerate(exposed)
    }
    host = {"NetworkMode": mode, "PortBindings": bindings}
    if tools:
        host["Binds"] = [f"{tools}:/tools:ro"]
    return {"Image": "busybox", "Cmd": list(command), "ExposedPorts": {port: {} for port in exposed}, "HostConfig": host}


def wire(tools, where, *words):
    """Runs the client on some host; answers its nanoseconds."""
    command = ["nsenter", f"--net={where}", tools / "wire", *map(str, words)]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def pid_of(found):
    return json.loads(found)["State"]["Pid"]


def show(section, taken, lines):
    lines.append(table(section, taken, goals=GOALS, titles=TITLES))
    print(lines[-1], flush=True)


def lives(rounds, driver, docker):
    command = ["docker", "-H", f"unix://{docker.path}", "run", "--rm", "-p", "8080:80", "busybox", "/bin/true"]
    return interleaved(rounds, {
        "coracle": lambda: driver.ask("life", text(body("/bin/true", ports=1, first=8080)))[0],
        "coracle, no network": lambda: driver.ask("life", text(body("/bin/true", mode="none")))[0],
        "docker run --rm -p": lambda: driver.ask("spawn", *command)[0],
    })


def crowds(rounds, driver, docker):
    pool = ThreadPoolExecutor(THREADS)
    asked = body("sleep", "1000", ports=1)

    def ours():
        took = driver.ask("crowd", str(MANY), str(THREADS), text(asked))[0]
        driver.ask("clear", str(THREADS))
        return took

    def theirs():
        def one(_):
            name = docker.create(asked)
            docker.call("POST", f"/containers/{name}/start")
            return name

        begun = time.perf_counter_ns()
        names = list(pool.map(one, range(MANY)))
        took = time.perf_counter_ns() - begun
        list(pool.map(lambda name: docker.call("DELETE", f"/containers/{name}?force=1"), names))
        return took

    return interleaved(rounds, {"coracle": ours, "dockerd": theirs})


def through_ports(rounds, driver, docker, work, name, lines):
    """One server on each side, reached from its neighbour and from its own host."""
    tools = work / "tools"
    asked = body("/tools/wire", "serve", "80", ports=1, first=8080, tools=tools)
    _, ours = driver.ask("start", "server", text(asked))
    theirs = docker.create(asked, "server")
    docker.call("POST", f"/containers/{theirs}/start")
    time.sleep(0.5)
    places = {
        end: {"coracle": f"/run/netns/{name}-ours-{end}", "dockerd": f"/run/netns/{name}-theirs-{end}"}
        for end in ("host", "near")
    }

    def both(where, address, kind, count):
        return {who: lambda at=at: wire(tools, at, kind, address, 8080, count) for who, at in places[where].items()}

    show("take-near", interleaved(rounds, both("near", "10.99.0.1", "take", 1 << 30)), lines)
    show("connect-near", interleaved(rounds, both("near", "10.99.0.1", "connect", 2000)), lines)
    # Like the row above, through the container's monitor, which relays connections to 127.0.0.1.
    relaying = Here(work, name, text({"relay-loopback": True}))
    passed_on = body("/tools/wire", "serve", "80", ports=1, first=8081, tools=tools)
    _, relayed = relaying.ask("start", "relayed", text(passed_on))
    time.sleep(0.5)
    for section, kind, count in [("take-self", "take", 1 << 30), ("connect-self", "connect", 2000), ("trip-self", "trip", 10000)]:
        cases = both("host", "127.0.0.1", kind, count)
        at = places["host"]["coracle"]
        cases["coracle, relayed"] = lambda: wire(tools, at, kind, "127.0.0.1", 8081, count)
        show(section, interleaved(rounds, cases), lines)
    relaying.ask("remove", relayed)
    relaying.close()
    driver.ask("remove", ours)
    docker.call("DELETE", f"/containers/{theirs}?force=1")


def names(rounds, driver, docker, work):
    """A look-up from inside a container on a network of one's own, on each side."""
    tools = work / "tools"
    docker.call("POST", "/networks/create", {"Name": "own"})
    driver.ask("network", text({"Name": "own"}))
    asked = body("sleep", "1000", mode="own")
    _, ours = driver.ask("start", "names", text(asked))
    theirs = docker.create(asked, "names")
    docker.call("POST", f"/containers/{theirs}/start")
    inside = {
        "coracle": pid_of(driver.ask("inspect", ours)[1]),
        "dockerd": pid_of(docker.call("GET", f"/containers/{theirs}/json")),
    }
    cases = {who: lambda pid=pid: wire(tools, f"/proc/{pid}/ns/net", "lookup", "names", 2000) for who, pid in inside.items()}
    taken = interleaved(rounds, cases)
    driver.ask("remove", ours)
    docker.call("DELETE", f"/containers/{theirs}?force=1")
    return taken


def thousand(rounds, driver):
    one = text(body("/bin/true", ports=1, first=30000))
    first = [driver.ask("life", one)[0] for _ in range(rounds + 1)][1:]
    for number in range(10):
        driver.ask("crowd", "1", "1", text(body("sleep", "1000", ports=100, first=20000 + 100 * number)))
    taken = [driver.ask("life", one)[0] for _ in range(rounds + 1)][1:]
    driver.ask("clear", str(THREADS))
    return {"coracle": taken, "coracle, first port": first}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--few", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.few = 7, 2
    work, name = options.work, options.name
    driver, docker = Here(work, name), Docker(work / "docker/sock")
    lines = []
    driver.ask("load", str(work / "busybox.tar"))
    with open(work / "busybox.tar", "rb") as file:
        docker.call("POST", "/images/load?quiet=1", file, "application/x-tar")
    try:
        show("life", lives(options.rounds, driver, docker), lines)
        show("many", crowds(options.few, driver, docker), lines)
        through_ports(options.few, driver, docker, work, name, lines)
        show("lookup", names(options.few, driver, docker, work), lines)
        show("ports", thousand(options.rounds, driver), lines)
    finally:
        driver.ask("clear", str(THREADS))
        driver.close()
    (options.out / "net.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
