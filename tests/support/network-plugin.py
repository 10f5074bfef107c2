"""A network and address plugin for the tests: veth pairs on a bridge of its own, addresses from one pool.

network-plugin.py SOCKET LOG [CERTIFICATES]: at a Unix socket, or, where there is a directory with certificates (ca.pem,
server.pem, server.key), over TLS at port 7443 of this host for clients that it vouches for; serves until it is killed; each call is a line `Method BODY` of the log. A method whose name is
in the file LOG.hang waits until it is not there any more, before it does anything; its end is a line of LOG.late.
"""

import json
import os
import socketserver
import ssl
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler

socket_path, log_path = sys.argv[1:3]
BRIDGE = "plugin0"
taken = set()
pools = [0]
settings = {}


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def names(endpoint):
    return "ph" + endpoint[:8], "pc" + endpoint[:8]


def create_network(body):
    options = body["Options"].get("com.docker.network.generic") or {}
    if "fail" in options:
        raise ValueError("this network is refused")
    settings.update(options)
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("addr", "add", body["IPv4Data"][0]["Gateway"], "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")


def create_endpoint(body):
    last = int(body["Interface"]["Address"].split("/")[0].split(".")[3])
    return {"Interface": {"MacAddress": f"02:11:22:33:44:{last:02x}"}}


def join(body):
    host, inside = names(body["EndpointID"])
    ip("link", "add", host, "type", "veth", "peer", "name", inside)
    ip("link", "set", host, "master", BRIDGE, "up")
    if "missing" in settings:
        inside = "nowhere0"
    return {
        "InterfaceName": {"SrcName": inside, "DstPrefix": settings.get("prefix", "plug")},
        "Gateway": "10.200.0.1",
        "StaticRoutes": [
            {"Destination": "10.201.0.0/16", "RouteType": 0, "NextHop": "10.200.0.1"},
            {"Destination": "10.202.0.0/16", "RouteType": 1},
        ],
    }


def leave(body):
    subprocess.run(["ip", "link", "del", names(body["EndpointID"])[0]], capture_output=True)


def request_pool(body):
    pools[0] += 1
    return {"PoolID": "pool-1", "Pool": "10.200.0.0/24"}


def release_pool(body):
    pools[0] -= 1


def request_address(body):
    wanted = body.get("Address") or ""
    if not wanted:
        kind = (body.get("Options") or {}).get("RequestAddressType")
        numbers = [1] if kind else range(10, 250)
        wanted = next(f"10.200.0.{n}" for n in numbers if f"10.200.0.{n}" not in taken)
    if wanted in taken:
        raise ValueError(f"{wanted} is taken")
    taken.add(wanted)
    return {"Address": wanted + "/24"}


def hangs(method):
    try:
        with open(log_path + ".hang") as names:
            return method in names.read().split()
    except FileNotFoundError:
        return False


CALLS = {
    "Toy.Taken": lambda body: {"Addresses": sorted(taken), "Pools": pools[0]},
    "Plugin.Activate": lambda body: {"Implements": ["NetworkDriver", "IpamDriver"]},
    "NetworkDriver.GetCapabilities": lambda body: {"Scope": "local"},
    "NetworkDriver.CreateNetwork": create_network,
    "NetworkDriver.DeleteNetwork": lambda body: ip("link", "del", BRIDGE),
    "NetworkDriver.CreateEndpoint": create_endpoint,
    "NetworkDriver.DeleteEndpoint": lambda body: None,
    "NetworkDriver.Join": join,
    "NetworkDriver.Leave": leave,
    "IpamDriver.GetDefaultAddressSpaces": lambda body: {"LocalDefaultAddressSpace": "here"},
    "IpamDriver.RequestPool": request_pool,
    "IpamDriver.ReleasePool": release_pool,
    "IpamDriver.RequestAddress": request_address,
    "IpamDriver.ReleaseAddress": lambda body: taken.discard(body["Address"]),
}


class Handler(BaseHTTPRequestHandler):
    def handle(self):
        try:
            super().handle()
        except BrokenPipeError:
            """Who asked is gone."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        method = self.path[1:]
        with open(log_path, "a") as log:
            log.write(f"{method} {body.decode()}\n")
        late = hangs(method)
        while hangs(method):
            time.sleep(0.02)
        status, answer = 200, {}
        try:
            answer = CALLS[method](json.loads(body or "null")) or {}
        except KeyError:
            status, answer = 404, None
        except Exception as error:
            answer = {"Err": str(error)}
        if late:
            with open(log_path + ".late", "a") as ended:
                ended.write(method + "\n")
        text = json.dumps(answer).encode() if answer is not None else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that has its answer goes."""


class TlsServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        """As above."""


if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3] + "/server.pem", sys.argv[3] + "/server.key")
    context.load_verify_locations(sys.argv[3] + "/ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    server = TlsServer(("127.0.0.1", 7443), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
if os.path.exists(socket_path):
    os.unlink(socket_path)
Server(socket_path, Handler).serve_forever()
