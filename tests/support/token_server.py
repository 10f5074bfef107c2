"""A token server as registries have them: token_server.py DIR PORT.

TLS with DIR/cert.pem and DIR/key.pem, which sign the tokens too. The user "sailor" may do everything, everybody may pull
from "open/". Answers basic logins (GET) and identity tokens (POST). Each request is a line of DIR/tokens.log; while
DIR/busy is there, it is removed and 503 is the answer.
"""

import base64
import json
import ssl
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import jwt

DIR, PORT = Path(sys.argv[1]), int(sys.argv[2])
KEY = (DIR / "key.pem").read_text()
DER = subprocess.run(
    ["openssl", "x509", "-in", DIR / "cert.pem", "-outform", "DER"], check=True, capture_output=True
).stdout
USERS = {"sailor": "s3cr3t-word"}
REFRESH = {"refresh-of-sailor": "sailor"}


def allowed(user, scope):
    kind, _, rest = scope.partition(":")
    name, _, actions = rest.rpartition(":")
    actions = actions.split(",")
    if user is None:
        actions = [a for a in actions if a == "pull" and name.startswith("open/")]
    return {"type": kind, "name": name, "actions": actions}


def token(user, service, scopes):
    now = int(time.time())
    access = [one for one in (allowed(user, scope) for scope in scopes) if one["actions"]]
    claims = {
        "iss": "tokens", "sub": user or "", "aud": service, "exp": now + 300, "nbf": now - 10, "iat": now,
        "jti": str(now), "access": access,
    }
    header = {"x5c": [base64.b64encode(DER).decode()]}
    return jwt.encode(claims, KEY, algorithm="RS256", headers=header)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, document, **headers):
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def note(self, user, scopes):
        with open(DIR / "tokens.log", "a") as log:
            log.write(f"{self.command} {user or '-'} {' '.join(scopes)}\n")

    def busy(self):
        try:
            (DIR / "busy").unlink()
        except FileNotFoundError:
            return False
        self.answer(503, {}, Retry_After="1")
        return True

    def do_GET(self):
        if self.busy():
            return
        query = parse_qs(urlsplit(self.path).query)
        user, login = None, self.headers.get("Authorization", "")
        if login.startswith("Basic "):
            user, _, word = base64.b64decode(login[6:]).decode().partition(":")
            if USERS.get(user) != word:
                self.answer(401, {"details": "incorrect username or password"})
                return
        scopes = [one for text in query.get("scope", []) for one in text.split(" ") if one]
        self.note(user, scopes)
        document = {"token": token(user, query.get("service", [""])[0], scopes), "expires_in": 300}
        if query.get("offline_token") == ["true"]:
            document["refresh_token"] = f"refresh-of-{user}"
        self.answer(200, document)

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        if self.busy():
            return
        user = REFRESH.get(form.get("refresh_token", [""])[0])
        if user is None:
            self.answer(401, {"details": "invalid refresh token"})
            return
        scopes = [one for one in form.get("scope", [""])[0].split(" ") if one]
        self.note(user, scopes)
        self.answer(200, {"access_token": token(user, form["service"][0], scopes), "expires_in": 300})


server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(DIR / "cert.pem", DIR / "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
