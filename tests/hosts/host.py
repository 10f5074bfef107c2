"""host.py LIBJOB ROOT RUN IMAGE: the main job on a thread of Python, which goes on with its own work and children."""

import ctypes
import signal
import subprocess
import sys
import threading
import time

library, root, run, image = sys.argv[1:]
job = ctypes.CDLL(library)
job.host_look.restype = ctypes.c_void_p
passed = failed = 0


def check(fact: bool, text: str) -> None:
    global passed, failed
    passed, failed = passed + bool(fact), failed + (not fact)
    if not fact:
        print("failed:", text)


def look() -> "list[str]":
    text = job.host_look(root.encode(), run.encode())
    lines = ctypes.string_at(text).decode(errors="replace").splitlines()
    job.host_free(ctypes.c_void_p(text))
    return lines


ticks = []
children = []
signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
signal.signal(signal.SIGCHLD, lambda *_: children.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
# Facts that the runtime sets up at its first use: the C library's handler for set*id comes with the first thread.
subprocess.run(["true"])
warm = threading.Thread(target=int)
warm.start()
warm.join()
children.clear()
before = look()
result = []
thread = threading.Thread(target=lambda: result.append(job.host_job(root.encode(), run.encode(), image.encode(), 2)))
thread.start()
own = 0
while thread.is_alive():
    own += 1
    check(subprocess.run(["sh", "-c", "exit 7"]).returncode == 7, "the status of a child of its own")
    thread.join(0.05)
check(result == [0], f"the main job: {result}")
after = look()
# Threads that end may take a moment.
end = time.monotonic() + 300
while before != after and time.monotonic() < end:
    time.sleep(0.05)
    after = look()
check(before == after, "\n".join(sorted(set(before) ^ set(after))))
ticks.clear()
while len(ticks) <= 5 and time.monotonic() < end:
    time.sleep(0.01)
signal.setitimer(signal.ITIMER_REAL, 0)
check(len(ticks) > 5, "its timer goes on")
check(len(children) <= own, f"SIGCHLD came for its own children only: {len(children)} for {own}")
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
