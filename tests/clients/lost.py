#!/usr/bin/env python3
"""Counts output that clients lose: execs and attaches by clients of other makers, at a busy machine.

A client that reads the head of an answer through a buffer loses what comes with it (docs/differences.md). Each client program
takes URL COUNT RUNNING ENDED OUTPUT, makes COUNT execs in the container RUNNING and as many attaches (to the logs of
the container ENDED, which printed OUTPUT), prints a line `lost exec WHAT` or `lost attach WHAT` for each that came
out otherwise, and `done COUNT`. Over a Unix socket none may be lost; over TCP it is measured.
"""

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUTPUT = "what the container said"

CLIENTS = {
    "docker-py": ["/usr/bin/python3", HERE / "lost-docker-py.py"],
    "dockerode": ["node", HERE / "lost-dockerode.js"],
    "go-dockerclient": [os.environ.get("GODOCKER", "godocker")],
    "docker": ["bash", HERE / "lost-docker.sh"],
}


class Unix(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Server:
    """What is asked of the server beside the clients."""

    def __init__(self, path):
        self.path = path

    def call(self, method, target, body=None):
        connection = Unix(self.path)
        text = None if body is None else json.dumps(body)
        connection.request(method, "/v1.24" + target, text, {"Content-Type": "application/json"} if text else {})
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        if answer.status >= 400:
            raise SystemExit(f"lost.py: {method} {target}: {said.decode()}")
        return json.loads(said) if said.strip() else None

    def container(self, *command):
        body = {"Image": "busybox", "Cmd": command, "HostConfig": {"NetworkMode": "none"}}
        name = self.call("POST", "/containers/create", body)["Id"]
        self.call("POST", f"/containers/{name}/start")
        return name

    def unread(self):
        # dockerd, which is measured with the same program, does not count it.
        return self.call("GET", "/info").get("NHeadsUnread", 0)


def campaign(client, url, jobs, count, running, ended):
    """Runs a client's program several times at once. Answers how many execs and attaches were made and lost."""
    shares = [count // jobs + (number < count % jobs) for number in range(jobs)]
    started = [
        subprocess.Popen(
            [*CLIENTS[client], url, str(share), running, ended, OUTPUT], stdout=subprocess.PIPE, text=True
        )
        for share in shares
        if share
    ]
    made, lost = 0, {"exec": [], "attach": []}
    for process in started:
        for line in process.stdout.read().splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "lost":
                which, _, what = rest.partition(" ")
                lost[which].append(what)
            elif kind == "done":
                made += int(rest)
        if process.wait() != 0:
            raise SystemExit(f"lost.py: {client} at {url} failed with {process.returncode}")
    if made != count:
        raise SystemExit(f"lost.py: {client} at {url} did {made} of {count}")
    return lost


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", required=True, help="where the server listens, with the image busybox")
    parser.add_argument("--tcp", help="HOST:PORT where it listens, too")
    parser.add_argument("--count", type=int, default=10000, help="execs, and attaches, of each client")
    parser.add_argument("--tcp-count", type=int, default=1000, help="the same over TCP")
    parser.add_argument("--jobs", type=int, default=4, help="programs of one client at once")
    parser.add_argument("--busy", type=int, default=8, help="processes that keep the processors busy")
    parser.add_argument("--clients", default=",".join(CLIENTS), help="names with commas")
    options = parser.parse_args()
    server = Server(options.socket)
    running, ended = server.container("sleep", "100000"), server.container("echo", OUTPUT)
    server.call("POST", f"/containers/{ended}/wait")
    places = [(f"unix://{options.socket}", options.count)]
    if options.tcp:
        places.append((f"tcp://{options.tcp}", options.tcp_count))
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(options.busy)]
    failed = False
    try:
        for url, count in places:
            for client in options.clients.split(","):
                begun, before = time.monotonic(), server.unread()
                lost = campaign(client, url, options.jobs, count, running, ended)
                took, unread = time.monotonic() - begun, server.unread() - before
                execs, attaches = len(lost["exec"]), len(lost["attach"])
                print(
                    f"{client:16} {url.partition(':')[0]:5} lost {execs} of {count} execs, {attaches} of {count} attaches; "
                    f"bound reached {unread} times; {took:.0f} s",
                    flush=True,
                )
                for what in (lost["exec"] + lost["attach"])[:5]:
                    print(f"    {what}", flush=True)
                failed |= url.startswith("unix:") and execs + attaches > 0
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()
        for name in (running, ended):
            server.call("DELETE", f"/containers/{name}?force=1")
    sys.exit(failed)


if __name__ == "__main__":
    main()
