"""Testcontainers for Python without its reaper, on an image that is here; the last line is `done`."""

import urllib.request

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.core.waiting_utils import wait_for_logs

with Network() as network:
    script = "echo ready; echo hi > /index.html; exec httpd -f -p 8080 -h /"
    server = DockerContainer("busybox:latest").with_command(["sh", "-c", script]).with_env("KIND", "server")
    with server.with_exposed_ports(8080).with_network(network).with_network_aliases("web") as server:
        wait_for_logs(server, "ready", timeout=30)
        code, output = server.exec(["sh", "-c", "echo $KIND; exit 3"])
        assert (code, output) == (3, b"server\n"), (code, output)
        address = f"http://127.0.0.1:{server.get_exposed_port(8080)}/index.html"
        assert urllib.request.urlopen(address, timeout=30).read() == b"hi\n"
        client = DockerContainer("busybox:latest").with_command(["wget", "-qO-", "http://web:8080/index.html"])
        with client.with_network(network) as client:
            wait_for_logs(client, "hi", timeout=30)
        server.get_wrapped_container().reload()
        assert server.get_wrapped_container().status == "running"
print("done")
