"""The calls of docker-py that need later versions of the API than 1.24; the last line is `done`."""

import sys

import docker

client = docker.DockerClient(base_url=sys.argv[1], timeout=60)
assert client.api._version == "1.54", client.api._version
container = client.containers.run(
    "busybox", ["sh", "-c", "echo said; sleep 1000"], detach=True, network_mode="none", init=True, nano_cpus=500_000_000,
    labels={"tool": "docker-py"}, name="docker-py")
assert container.exec_run(["sh", "-c", "echo $K"], environment={"K": "v"}).output == b"v\n"
assert container.exec_run(["pwd"], workdir="/tmp").output == b"/tmp\n"
assert container.exec_run(["sh", "-c", "exit 5"]).exit_code == 5
assert container.logs() == b"said\n"
assert container.stats(stream=False, one_shot=True)["id"] == container.id
assert [one.name for one in client.containers.list(filters={"label": "tool"})] == ["docker-py"]
container.stop(timeout=0)
assert container.wait(condition="not-running")["StatusCode"] in (137, 143)
assert client.containers.run("busybox", ["echo", "gone"], network_mode="none", remove=True) == b"gone\n"
client.volumes.create("docker-py")
assert client.df()["Volumes"][0]["UsageData"]["RefCount"] == 0 and client.df()["VolumeUsage"]["TotalCount"] == 1
assert client.volumes.prune(filters={"all": True})["VolumesDeleted"] == ["docker-py"]
assert client.containers.prune(filters={"label": ["tool=docker-py"]})["ContainersDeleted"] == [container.id]
assert client.networks.prune()["NetworksDeleted"] in (None, [])
try:
    client.containers.create("busybox", device_requests=[docker.types.DeviceRequest(count=-1, capabilities=[["gpu"]])])
    raise SystemExit("a request for a GPU passed")
except docker.errors.APIError as error:
    assert "DeviceRequests" in str(error), error
print("done")
