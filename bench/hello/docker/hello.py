"""hello.py SOCKET: prints a container's hello by docker-py, then waits for the end of its input."""

import sys

import docker

client = docker.DockerClient(base_url=f"unix://{sys.argv[1]}")
box = client.containers.create("busybox", ["echo", "hello"], network_mode="none")
stream = box.attach(stream=True, logs=True)
box.start()
print(b"".join(stream).decode(), end="", flush=True)
box.wait()
box.remove()
sys.stdin.read()
