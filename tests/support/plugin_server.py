"""The HTTP server of the plugins for the tests, and the rules by which they misbehave."""

import json
import os
import socketserver
from http.server import BaseHTTPRequestHandler


def rules(log_path):
    """The rules beside the log, which a test may replace at any time; `None`: there are none."""
    try:
        with open(log_path + ".rules") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def serve(socket_path, log_path, kinds, answer):
    """Serves until it is killed; each call is a line `Method BODY` of the log. `answer(method, body)` returns a status and a text."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            method = self.path[1:]
            with open(log_path, "a") as log:
                log.write(f"{method} {body}\n")
            if method == "Plugin.Activate":
                status, text = 200, json.dumps({"Implements": kinds})
            else:
                status, text = answer(method, json.loads(body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *words):
            pass

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

        def handle_error(self, request, client_address):
            """A client that has its answer goes."""

    if os.path.exists(socket_path):
        os.unlink(socket_path)
    Server(socket_path, Handler).serve_forever()
