"""A checking receiver of Cloud Logging's entries:write: no public program stands in for the service.

cloud_logging.py keys DIR: makes two keys of service accounts, good.json and other.json.
cloud_logging.py serve PORT DIR OUT: serves. A request needs a token that the key of good.json signed, with the claims that
Google documents for tokens of service accounts. Google's own message types read its body, and refuse unknown members.
Entries whose message ends with "n=13" are refused as wrong in themselves, in the service's words; the others are written to
OUT, a line of JSON each, but for those whose name and time are there already.
"""

import http.server
import json
import re
import sys

SERVICE = "https://logging.googleapis.com/"
EMAIL = "shipper@project-1.iam.gserviceaccount.com"


def keys(to):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    for name in ["good", "other"]:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        account = {
            "type": "service_account",
            "project_id": "project-1",
            "private_key_id": "key-1",
            "private_key": key.private_bytes(*form).decode(),
            "client_email": EMAIL,
            "token_uri": "https://oauth2.googleapis.com/token",
        }
        with open(f"{to}/{name}.json", "w") as out:
            json.dump(account, out)


class Refused(Exception):
    def __init__(self, status, word, details=()):
        self.status, self.word, self.details = status, word, list(details)


def check_token(header, key):
    import jwt

    kind, _, token = (header or "").partition(" ")
    if kind != "Bearer":
        raise Refused(401, "UNAUTHENTICATED")
    try:
        needs = {"require": ["iss", "sub", "aud", "iat", "exp"]}
        claims = jwt.decode(token, key, algorithms=["RS256"], audience=SERVICE, options=needs)
        head = jwt.get_unverified_header(token)
    except jwt.InvalidTokenError as error:
        raise Refused(401, f"UNAUTHENTICATED: {error}") from error
    good = claims["iss"] == claims["sub"] == EMAIL and claims["exp"] - claims["iat"] <= 3600
    if not good or head.get("kid") != "key-1" or head.get("typ") != "JWT":
        raise Refused(401, "UNAUTHENTICATED: the claims")


def wrong_entries(asked):
    """The numbers of the entries that are wrong in themselves."""
    texts = [entry.json_payload.get("message", "") for entry in asked.entries]
    return [number for number, text in enumerate(texts) if text.endswith("n=13")]


def check_shape(asked):
    log = re.fullmatch(r"projects/([a-z0-9-]+)/logs/gcplogs-docker-driver", asked.log_name)
    project = log and log.group(1)
    resource, labels = asked.resource.type, dict(asked.resource.labels)
    known = {"global": {"project_id"}, "gce_instance": {"instance_id", "zone"}}.get(resource)
    if known != set(labels) or labels.get("project_id", project) != project:
        raise Refused(400, "INVALID_ARGUMENT: the resource")
    if not asked.partial_success or not 0 < len(asked.entries) <= 1000:
        raise Refused(400, "INVALID_ARGUMENT: the entries")
    for entry in asked.entries:
        if not entry.insert_id or not entry.timestamp or not entry.json_payload:
            raise Refused(400, "INVALID_ARGUMENT: an entry")


def serve(port, directory, path):
    from cryptography.hazmat.primitives import serialization
    from google.cloud.logging_v2.types import LogEntry, WriteLogEntriesRequest

    with open(f"{directory}/good.json") as text:
        private = serialization.load_pem_private_key(json.load(text)["private_key"].encode(), None)
    public, seen = private.public_key(), set()

    def take(headers, body):
        check_token(headers.get("Authorization"), public)
        try:
            asked = WriteLogEntriesRequest.from_json(body, ignore_unknown_fields=False)
        except Exception as error:
            raise Refused(400, f"INVALID_ARGUMENT: {error}") from error
        check_shape(asked)
        wrong = wrong_entries(asked)
        with open(path, "a") as out:
            for number, entry in enumerate(asked.entries):
                name = (entry.insert_id, str(entry.timestamp))
                if number in wrong or name in seen:
                    continue
                seen.add(name)
                one = json.loads(LogEntry.to_json(entry, including_default_value_fields=False))
                one["log"], one["resource"] = asked.log_name, {asked.resource.type: dict(asked.resource.labels)}
                out.write(json.dumps(one) + "\n")
        if wrong:
            kind = "type.googleapis.com/google.logging.v2.WriteLogEntriesPartialErrors"
            errors = {str(number): {"code": 3, "message": "wrong"} for number in wrong}
            raise Refused(400, "INVALID_ARGUMENT", [{"@type": kind, "logEntryErrors": errors}])

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = 200, {}
            try:
                if self.path != "/v2/entries:write" or self.headers["Content-Type"] != "application/json":
                    raise Refused(404, "NOT_FOUND")
                take(self.headers, body.decode())
            except Refused as refused:
                status, word = refused.status, refused.word
                details = {"code": status, "status": word, "message": word, "details": refused.details}
                answer = {"error": details}
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    with open(path + ".ready", "w"):
        pass
    server.serve_forever()


{"keys": keys, "serve": serve}[sys.argv[1]](*sys.argv[2:])
