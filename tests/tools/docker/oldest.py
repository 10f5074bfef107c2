"""docker-py of 2016 at API 1.18: SOCKET make NAME | list | logs NAME | end NAME | remove NAME...; the last line is the answer."""

import sys

import docker

socket, verb, *names = sys.argv[1:]
client = docker.Client("unix://" + socket, version="1.18", timeout=120)
assert client.api_version == "1.18"
if verb == "make":
    made = client.create_container("busybox", "sleep 1000", name=names[0], environment=["old=1"])
    client.start(made["Id"])
    print("made")
elif verb == "list":
    print(" ".join(sorted(name.lstrip("/") for one in client.containers() for name in one["Names"])))
elif verb == "logs":
    print(client.logs(names[0]).decode().strip())
elif verb == "end":
    client.kill(names[0])
    print(client.wait(names[0]))
elif verb == "remove":
    for name in names:
        client.remove_container(name)
    print("gone" if not client.containers(all=True) else "left")
