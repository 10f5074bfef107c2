"""The build files of tests/oracle/build through dockerd's classic builder and Coracle's: SOCKET-OF-DOCKERD SOCKET-OF-CORACLE [CASE...].

Each is built twice by both. Compared are what is said (ids and digests aside), what goes wrong, the image's configuration, its
history, and its layers entry by entry: kind, mode, owner, size, content, link, attributes, time where it is not now.

A case is a text: `? query`, `~ reason: regular expression` for lines that may differ, then files: `== PATH [MODE [UID:GID]]`,
`== PATH -> TARGET`, `== PATH/`. `=== again` begins files that the second build has instead. A content line `@tar NAME...` stands
for an archive of those files, `@gz` before it compresses.
"""

import difflib
import glob
import gzip
import hashlib
import http.client
import io
import json
import os
import re
import socket
import sys
import tarfile
import urllib.parse

TIME = 1000000000


class Engine:
    def __init__(self, path):
        self.path = path

    def call(self, method, target, body=None):
        connection = http.client.HTTPConnection("localhost", timeout=120)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.connect(self.path)
        connection.request(method, "/v1.24" + target, body)
        answer = connection.getresponse()
        return answer.status, answer.read()


def archive(files, names=None):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, (mode, owner, content, link) in files.items():
            if names is not None and name not in names:
                continue
            info = tarfile.TarInfo(name.rstrip("/"))
            info.mtime, info.mode, (info.uid, info.gid) = TIME, mode, owner
            if link is not None:
                info.type, info.linkname = tarfile.SYMTYPE, link
            elif name.endswith("/"):
                info.type = tarfile.DIRTYPE
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return out.getvalue()


def parsed(path):
    case = {"query": "networkmode=none&forcerm=1", "allowed": [], "files": {}, "again": {}}
    files, name, lines = case["files"], None, []

    def end():
        nonlocal name, lines
        if name is not None:
            mode, owner, link = files[name][0], files[name][1], files[name][3]
            content = "".join(lines).encode()
            words = content.decode().split()
            if words and words[0] in ("@tar", "@gz"):
                packed = archive(case["files"], words[words.index("@tar") + 1 :])
                content = gzip.compress(packed, mtime=0) if words[0] == "@gz" else packed
            files[name] = (mode, owner, content, link)
        name, lines = None, []

    for line in open(path, encoding="utf-8"):
        if line.startswith("=== again"):
            end()
            files = case["again"]
        elif line.startswith("== "):
            end()
            words = line[3:].rstrip("\n").split(" ")
            name = words[0]
            link = words[2] if words[1:2] == ["->"] else None
            numbers = [] if link is not None else words[1:]
            mode = int(numbers[0], 8) if numbers else (0o777 if link else 0o755 if name.endswith("/") else 0o644)
            owner = tuple(int(n) for n in numbers[1].split(":")) if len(numbers) > 1 else (0, 0)
            files[name] = (mode, owner, b"", link)
        elif name is not None:
            lines.append(line)
        elif line.startswith("? "):
            pairs = [tuple(pair.split("=", 1)) for pair in line[2:].strip().split("&")]
            case["query"] += "&" + urllib.parse.urlencode(pairs)
        elif line.startswith("~ "):
            reason, expression = line[2:].rstrip("\n").split(": ", 1)
            case["allowed"].append((reason, re.compile(expression)))
    end()
    case["again"] = {**case["files"], **case["again"]}
    return case


def plain(text):
    text = re.sub(r"(file|dir|multi):[0-9a-f]{64}", r"\1:HASH", text)
    return re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b", "ID", text)


def built(engine, query, files):
    """What was said as lines, and the image's id."""
    status, body = engine.call("POST", "/build?" + query, archive(files))
    said, error = "", None
    for line in body.decode().splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        said += message.get("stream", "")
    # How errors come in pieces is the program's and the moment's.
    said = said.replace("\x1b[0m\x1b[91m", "")
    for line in body.decode().splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if "message" in message:
            error = "%d %s" % (status, message["message"])
        if "error" in message:
            error = "stream %s %s" % (message["errorDetail"].get("code", "-"), message["error"])
    done = re.findall(r"Successfully built ([0-9a-f]{12})", said)
    lines = plain(said).splitlines()
    if error:
        lines.append("error: " + plain(error))
    return lines, done[-1] if done else None


def config_lines(name, config):
    lines = []
    for key, value in sorted((config or {}).items()):
        if key in ("Dns", "VolumesFrom"):
            # Specified for an image's ContainerConfig; dockerd has them no more.
            continue
        if key in ("Hostname", "Image") and isinstance(value, str):
            value = plain(value)
        if key == "Labels":
            # Whether nothing is null or empty is by accident.
            value = value or None
        lines.append("%s.%s = %s" % (name, key, plain(json.dumps(value, sort_keys=True))))
    return lines


def image_lines(engine, image):
    detail = json.loads(engine.call("GET", "/images/%s/json" % image)[1])
    lines = ["author = %r" % detail["Author"], "comment = %r" % plain(detail["Comment"])]
    lines += config_lines("config", detail["Config"]) + config_lines("container_config", detail["ContainerConfig"])
    for step in json.loads(engine.call("GET", "/images/%s/history" % image)[1]):
        lines.append("history %s | %s | %r" % ("here" if step["Id"] != "<missing>" else "missing", plain(step["CreatedBy"]), plain(step["Comment"])))
    with tarfile.open(fileobj=io.BytesIO(engine.call("GET", "/images/%s/get" % image)[1])) as saved:
        names = json.load(saved.extractfile("manifest.json"))[0]["Layers"]
        document = json.load(saved.extractfile(json.load(saved.extractfile("manifest.json"))[0]["Config"]))
        for step in document["history"][1:]:
            lines.append("step empty=%s author=%r" % (step.get("empty_layer"), step.get("author")))
        for number, name in enumerate(names[1:], 1):
            with tarfile.open(fileobj=saved.extractfile(name)) as layer:
                lines += sorted("layer %d %s" % (number, entry(layer, member)) for member in layer)
    return lines


def entry(layer, member):
    content = hashlib.sha256(layer.extractfile(member).read()).hexdigest()[:8] if member.isreg() else "-"
    attributes = sorted((k, v) for k, v in member.pax_headers.items() if k.startswith("SCHILY.xattr"))
    if os.path.basename(member.name).startswith(".wh."):
        return member.name
    time = "now" if member.mtime > 1700000000 else member.mtime
    return "%s %s %o %d:%d %d %s %s %s %s" % (
        member.name, member.type.decode(), member.mode & 0o7777, member.uid, member.gid, member.size, content, member.linkname, time, attributes)


def main():
    theirs, ours = Engine(sys.argv[1]), Engine(sys.argv[2])
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "build")
    names = sys.argv[3:] or sorted(os.path.basename(p)[:-6] for p in glob.glob(here + "/*.build"))
    wrong, allowed = 0, 0
    for name in names:
        case = parsed(os.path.join(here, name + ".build"))
        sides = []
        for engine in (theirs, ours):
            first, image = built(engine, case["query"], case["files"])
            lines = first + (image_lines(engine, image) if image else [])
            second, image = built(engine, case["query"], case["again"])
            lines += ["again"] + second + (["cached = %d" % sum("Using cache" in line for line in second)])
            sides.append(lines)
        different = []
        for line in difflib.unified_diff(*sides, "dockerd", "coracle", n=0, lineterm=""):
            if line.startswith(("---", "+++", "@@")) and (line in ("--- dockerd", "+++ coracle") or line.startswith("@@")):
                continue
            if any(expression.search(line[1:]) for _, expression in case["allowed"]):
                allowed += 1
                continue
            different.append(line)
        if different:
            wrong += 1
            print(name + ":\n  " + "\n  ".join(different))
    print("%d cases, %d differ, %d lines differ for a reason" % (len(names), wrong, allowed))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
