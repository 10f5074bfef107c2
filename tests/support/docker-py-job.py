"""The main job by docker-py, against the socket and at the API version that the arguments name: SOCKET VERSION ARCHIVE.

Prints the statuses of the second container's events.
"""

import sys
import time

import docker
from docker.utils.socket import frames_iter

socket, version, archive = sys.argv[1:]
client = docker.DockerClient(base_url="unix://" + socket, version=version, timeout=60)
assert client.ping() and client.version()["ApiVersion"] == "1.54" and client.info()["Images"] >= 0
with open(archive, "rb") as file:
    client.api.load_image(file)
image = client.images.get("busybox")
assert "busybox:latest" in image.tags, image.tags

# Attach before start; streams apart.
script = "read l; echo out $l; echo err $l >&2; exit 3"
first = client.containers.create(
    "busybox", ["sh", "-c", script], stdin_open=True, network_mode="none", name="first", labels={"k": "v"}
)
attached = client.api.attach_socket(first.id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
first.start()
attached._sock.sendall(b"hi\n")
attached._sock.shutdown(1)
got = {}
for stream, data in frames_iter(attached, tty=False):
    got[stream] = got.get(stream, b"") + data
assert got == {1: b"out hi\n", 2: b"err hi\n"}, got
assert first.wait()["StatusCode"] == 3
assert first.logs(stdout=True, stderr=False) == b"out hi\n"
assert first.logs(stdout=False, stderr=True) == b"err hi\n"
assert [c.name for c in client.containers.list(all=True, filters={"label": "k=v", "exited": 3})] == ["first"]
first.reload()
assert (first.status, first.attrs["State"]["ExitCode"]) == ("exited", 3)
first.remove()

began = int(time.time())
loop = ["sh", "-c", "trap 'exit 7' TERM; while :; do echo tick; sleep 0.1; done"]
second = client.containers.run("busybox", loop, detach=True, network_mode="none", name="second")
assert second.exec_run(["sh", "-c", "echo in; exit 4"]) == (4, b"in\n")
assert second.exec_run(["sh", "-c", "echo o; echo e >&2"], demux=True).output == (b"o\n", b"e\n")
terminal = second.exec_run("tty", tty=True, stdin=True)
assert terminal.exit_code == 0 and terminal.output.startswith(b"/dev/pts/"), terminal
followed = second.logs(stream=True, follow=True)
assert next(followed).startswith(b"tick")
followed.close()
second.pause()
second.reload()
assert second.status == "paused"
second.unpause()
assert second.top()["Processes"]
second.rename("third")
second.kill("WINCH")
second.stop(timeout=20)
second.reload()
assert second.attrs["State"]["ExitCode"] == 7
second.restart(timeout=20)
second.kill()
assert second.wait()["StatusCode"] == 137


def refused(kind, status, text, call):
    try:
        call()
    except kind as error:
        said = error.explanation if isinstance(error.explanation, str) else error.explanation.decode()
        assert error.status_code == status and text in said, (error.status_code, said)
    else:
        raise AssertionError("not refused: " + text)


refused(docker.errors.APIError, 409, "is not running", second.pause)
refused(docker.errors.NotFound, 404, "No such container: nosuch", lambda: client.containers.get("nosuch"))
second.remove(force=True)
assert client.containers.run("busybox", "echo hello", remove=True, network_mode="none") == b"hello\n"
try:
    client.containers.run("busybox", ["sh", "-c", "exit 5"], remove=True, network_mode="none")
    raise AssertionError("a code of 5 is an error")
except docker.errors.ContainerError as error:
    assert error.exit_status == 5

# A client whose HTTP reader has a buffer: what is sent with the head of the answer would be lost.
third = client.containers.run("busybox", loop, detach=True, network_mode="none")
outputs = [third.exec_run(["echo", "hello"]).output for _ in range(30)]
assert outputs == [b"hello\n"] * 30, outputs
third.remove(force=True)

image.tag("harbour/box", "v2")
assert client.images.get("harbour/box:v2").id == image.id
client.images.remove("harbour/box:v2")
assert len(b"".join(image.save())) > 1000000
assert image.history()

events = client.events(since=began, until=int(time.time()) + 1, decode=True, filters={"container": second.id})
for event in events:
    print(event["status"])
