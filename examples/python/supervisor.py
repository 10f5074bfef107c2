"""A supervisor: supervisor.py ROOT SERVICES.json keeps the services of a file running, each in a container.

The file names each service, with the members of a create request that it needs:

    {"clock": {"Image": "busybox", "Cmd": ["sh", "-c", "while date; do sleep 1; done"]}}

A service that ends is started again, after a pause that doubles from one second to a minute; one that ran for a while begins with
a second again. Output and events are printed as they come. SIGHUP reads the file again, SIGTERM and Ctrl-C stop everything. If the
supervisor is killed, its containers end: they belong to an ephemeral engine.
"""

import json
import pathlib
import signal
import sys
import threading
import time

import coracle

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
RAN_WELL = 10.0  # Seconds after which a service counts as well again.


class Service(threading.Thread):
    """A service: a thread that starts its container again and again."""

    def __init__(self, engine, name, spec):
        super().__init__(name=name, daemon=True)
        self.engine, self.spec = engine, spec
        self.ended = threading.Event()
        self.container = None
        self.lock = threading.Lock()

    def run(self):
        pause = FIRST_PAUSE
        while not self.ended.is_set():
            began = time.monotonic()
            try:
                say(self.name, f"ended with exit code {self.live()}")
            except coracle.Error as error:
                say(self.name, f"failed: {error}")
            if time.monotonic() - began > RAN_WELL:
                pause = FIRST_PAUSE
            if self.ended.is_set():
                return
            say(self.name, f"starts again in {pause:g} s")
            self.ended.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def live(self):
        """One life of the container; its exit code."""
        labels = {"supervisor.service": self.name, **self.spec.get("Labels", {})}
        container = self.engine.containers.create_from({**self.spec, "Labels": labels})
        with self.lock:
            self.container = container
        try:
            if not self.ended.is_set():
                container.start()
                # The log ends when the container does.
                with container.logs(follow=True) as lines:
                    for line in lines:
                        print(f"{self.name} | {line.text}", flush=True)
            return container.wait()
        finally:
            with self.lock:
                self.container = None
            container.remove(force=True)

    def stop(self):
        self.ended.set()
        with self.lock:
            container = self.container
        if container is not None:
            try:
                container.stop(grace=5)
            except coracle.NotFound:
                pass  # The container has just ended by itself.
        self.join()


class Supervisor:
    """The services of a file."""

    def __init__(self, engine, path):
        self.engine, self.path = engine, path
        self.services = {}

    def reload(self):
        """Starts what is new in the file, stops what is gone, and does both to what has changed."""
        try:
            wanted = json.loads(self.path.read_text())
        except (OSError, ValueError) as error:
            say("supervisor", f"{self.path}: {error}; the services stay as they are")
            return
        for name, service in list(self.services.items()):
            if wanted.get(name) != service.spec:
                say(name, "stops")
                self.services.pop(name).stop()
        for name, spec in wanted.items():
            if name not in self.services:
                say(name, "starts")
                self.services[name] = Service(self.engine, name, spec)
                self.services[name].start()

    def stop(self):
        for service in self.services.values():
            service.stop()
        say("supervisor", "everything has stopped")


def say(who, text):
    print(f"{who}: {text}", flush=True)


def main(root, path):
    wants = []  # The signals that came.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: wants.append(number))
    with coracle.open(root, ephemeral=True) as engine:
        supervisor = Supervisor(engine, path)
        of_services = {"type": ["container"], "label": ["supervisor.service"], "event": ["start", "die", "oom"]}
        with engine.events(filters=of_services) as events:
            supervisor.reload()
            while signal.SIGTERM not in wants and signal.SIGINT not in wants:
                if signal.SIGHUP in wants:
                    wants.clear()
                    supervisor.reload()
                if event := events.next(timeout=0.5):
                    say(event["Actor"]["Attributes"]["supervisor.service"], f"event {event['Action']}")
        supervisor.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: supervisor.py ROOT SERVICES.json")
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
