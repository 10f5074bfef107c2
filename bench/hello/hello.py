"""hello.py ROOT [CALLS]: prints a container's hello, then waits for the end of its input; or what a call takes, in nanoseconds."""

import sys
import time

import coracle


def hello(engine):
    box = engine.containers.create("busybox", ["echo", "hello"])
    with box.start_attached() as session:
        stdout, _ = session.communicate(b"")
    print(stdout.decode(), end="", flush=True)
    box.wait()
    box.remove()
    sys.stdin.read()


def calls(engine, count):
    begun = time.perf_counter_ns()
    for _ in range(count):
        engine.containers.list()
    print((time.perf_counter_ns() - begun) // count)


with coracle.open(sys.argv[1]) as engine:
    if len(sys.argv) > 2:
        calls(engine, int(sys.argv[2]))
    else:
        hello(engine)
