"""The build files of tests/oracle/buildkit through buildkitd and Coracle: BUILDCTL ADDRESS LAYOUT CORACLE ROOT RUN SOCKET
[CASE...].

BUILDCTL is the program, ADDRESS buildkitd's socket, LAYOUT an OCI layout of busybox, CORACLE the command, ROOT and RUN the
directories of a root that has busybox, SOCKET where `coracle serve` serves it.
Compared are the files (path, type, mode, owner, content, target of a link, names of one file, attributes), the configuration, and
of builds that fail the kind of the error. The cases have the form of tests/oracle/build; differences.json has the differences that
remain, each with its reason. A difference that is not there fails the comparison, and so does one of the list that has gone.
"""

import glob
import hashlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
loaded = importlib.util.spec_from_file_location("classic", os.path.join(HERE, "..", "build.py"))
classic = importlib.util.module_from_spec(loaded)
loaded.loader.exec_module(classic)

CONFIG = ["Env", "Cmd", "Entrypoint", "WorkingDir", "User", "Labels", "ExposedPorts", "Volumes", "StopSignal", "Healthcheck", "OnBuild", "Shell"]

# The kinds of errors: the first expression that matches says.
KINDS = [
    ("exit code %s", r"exit code: (\d+)|non-zero code: (\d+)"),
    ("bad mount", r"mount type|invalid mount"),
    ("secret missing", r"secret .*(not found|required)|required.*secret|not found.*secret|no secret"),
    ("unknown instruction", r"unknown instruction"),
    ("unknown flag", r"[uU]nknown flag"),
    ("arguments", r"requires (exactly|at least)|must have two arguments|needs|No such arguments"),
    ("no stage", r"no build stage|target stage .* could not be found|failed to reach build target"),
    ("several sources", r"more than one source file"),
    ("trigger", r"ONBUILD trigger|isn't allowed as an"),
    ("variable", r"none: missing"),
    ("chmod", r"chmod"),
    ("signal", r"[Ii]nvalid signal|signal"),
    ("port", r"[Ii]nvalid proto|proto"),
    ("user", r"unable to find user|no such user|can't find uid|invalid user|no matching entries|user nobody-here"),
    ("no base", r"failed to resolve source metadata|none\.invalid|No such image"),
    ("no program", r"no such file or directory.*(exec|start)|executable file not found|(exec|start).*no such file|nothing in `scratch`"),
    ("a directory is in the way", r"cannot copy to non-directory|not a directory|cannot replace"),
    ("missing file", r"not found|no such file|file does not exist|no source files|forbidden path"),
]


def kind_of(text):
    for name, expression in KINDS:
        found = re.search(expression, text)
        if found:
            code = next((group for group in found.groups() if group), "") if "%s" in name else None
            return name % code if code is not None else name
    return "other: " + text.strip().splitlines()[-1][:200]


def placed(files, directory):
    for name, (mode, _, content, link) in files.items():
        path = os.path.join(directory, name.rstrip("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if link is not None:
            os.symlink(link, path)
        elif name.endswith("/"):
            os.makedirs(path, exist_ok=True)
            os.chmod(path, mode)
        else:
            with open(path, "wb") as out:
                out.write(content)
            os.chmod(path, mode)


class BuildKit:
    def __init__(self, buildctl, address, layout):
        index = json.load(open(os.path.join(layout, "index.json")))
        self.words = [buildctl, "--addr", address, "build", "--progress", "plain", "--frontend", "dockerfile.v0"]
        self.words += ["--oci-layout", "busybox=" + layout, "--opt", "context:busybox=oci-layout://busybox@" + index["manifests"][0]["digest"]]

    def built(self, case):
        with tempfile.TemporaryDirectory() as place:
            context, out = os.path.join(place, "context"), os.path.join(place, "out.tar")
            os.mkdir(context)
            placed(case["files"], context)
            words = self.words + ["--local", "context=" + context, "--local", "dockerfile=" + context]
            words += ["--output", "type=docker,dest=" + out]
            query = dict(urllib.parse.parse_qsl(case["query"]))
            for key, name in [("buildargs", "build-arg"), ("labels", "label")]:
                for one, value in json.loads(query.get(key, "{}")).items():
                    words += ["--opt", "%s:%s=%s" % (name, one, value)]
            if "target" in query:
                words += ["--opt", "target=" + query["target"]]
            ran = subprocess.run(words, capture_output=True, text=True)
            if ran.returncode:
                return None, ran.stderr[ran.stderr.rindex("error: ") :] if "error: " in ran.stderr else ran.stderr
            with open(out, "rb") as saved:
                return saved.read(), None


class Coracle:
    """By its command, which reads the ignore file as a client does."""

    def __init__(self, command, root, run, path):
        self.words, self.engine = [command, "--root", root, "--run", run, "build", "-q", "--progress", "plain", "--network", "none", "--force-rm"], classic.Engine(path)

    def built(self, case):
        with tempfile.TemporaryDirectory() as context:
            placed(case["files"], context)
            words = list(self.words)
            query = dict(urllib.parse.parse_qsl(case["query"]))
            for key, flag in [("buildargs", "--build-arg"), ("labels", "--label")]:
                for one, value in json.loads(query.get(key, "{}")).items():
                    words += [flag, "%s=%s" % (one, value)]
            if "target" in query:
                words += ["--target", query["target"]]
            ran = subprocess.run(words + [context], capture_output=True, text=True)
            if ran.returncode:
                return None, ran.stderr
            return self.engine.call("GET", "/images/%s/get" % ran.stdout.strip())[1], None


def image_of(saved):
    """The configuration, and the files that the layers make."""
    with tarfile.open(fileobj=io.BytesIO(saved)) as tar:
        manifest = json.load(tar.extractfile("manifest.json"))[0]
        config = json.load(tar.extractfile(manifest["Config"]))["config"]
        files = {}
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(tar.extractfile(name).read())) as layer:
                laid(files, layer)
        return config, files


def removed(files, path):
    for name in [name for name in files if name == path or name.startswith(path + "/")]:
        del files[name]


def laid(files, layer):
    members = [(os.path.normpath(member.name).lstrip("/"), member) for member in layer]
    for path, _ in members:
        directory, name = os.path.split(path)
        if name == ".wh..wh..opq":
            for below in [below for below in files if below.startswith(directory + "/")]:
                del files[below]
        elif name.startswith(".wh."):
            removed(files, os.path.join(directory, name[4:]))
    for path, member in members:
        if os.path.basename(path).startswith(".wh.") or path == ".":
            continue
        if not (member.isdir() and files.get(path, {}).get("type") == "directory"):
            removed(files, path)
        if member.islnk():
            files[path] = files[os.path.normpath(member.linkname).lstrip("/")]
            continue
        kind = {tarfile.DIRTYPE: "directory", tarfile.SYMTYPE: "link", tarfile.CHRTYPE: "device", tarfile.BLKTYPE: "device", tarfile.FIFOTYPE: "pipe"}
        one = {"type": kind.get(member.type, "file"), "mode": "%o" % (member.mode & 0o7777), "owner": "%d:%d" % (member.uid, member.gid)}
        if member.isreg():
            content = layer.extractfile(member).read()
            one["content"] = content.decode("utf-8", "replace") if len(content) < 200 else hashlib.sha256(content).hexdigest()
        if member.issym():
            one["target"], one["mode"] = member.linkname, "777"
        if one["type"] == "device":
            one["device"] = "%d,%d" % (member.devmajor, member.devminor)
        attributes = sorted((k, v) for k, v in member.pax_headers.items() if k.startswith("SCHILY.xattr"))
        if attributes:
            one["attributes"] = attributes
        files[path] = one


def lines_of(saved, error):
    if saved is None:
        return {"error": kind_of(error)}
    config, files = image_of(saved)
    lines = {}
    # Files with several names, by the names.
    names = {}
    for path, one in files.items():
        names.setdefault(id(one), []).append(path)
    for path, one in files.items():
        same = sorted(names[id(one)])
        words = ["%s=%r" % item for item in sorted(one.items())] + (["names=%s" % same] if len(same) > 1 else [])
        lines["file " + path] = " ".join(words)
    for key in CONFIG:
        value = config.get(key) or None
        if key in ("Env",) and value:
            value = sorted(value)
        lines["config " + key] = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return lines


def main():
    buildctl, address, layout, command, root, run, served = sys.argv[1:8]
    theirs, ours = BuildKit(buildctl, address, layout), Coracle(command, root, run, served)
    known = json.load(open(os.path.join(HERE, "differences.json")))
    names = sys.argv[8:] or sorted(os.path.basename(path)[:-6] for path in glob.glob(HERE + "/*.build"))
    seen, wrong, differences = set(), 0, 0
    for name in names:
        case = classic.parsed(os.path.join(HERE, name + ".build"))
        sides = []
        for builder in (theirs, ours):
            saved, error = builder.built(case)
            sides.append(lines_of(saved, error))
            if error and os.environ.get("SHOW"):
                print("%s: %s: %s" % (name, type(builder).__name__, error.strip()))
        failed = any("error" in side for side in sides)
        for key in ["error"] if failed else sorted(set(sides[0]) | set(sides[1])):
            two = [side.get(key, "(builds)" if failed else None) for side in sides]
            if two[0] == two[1]:
                continue
            reasons = [number for number, one in enumerate(known) if re.fullmatch(one["case"], name) and re.fullmatch(one["line"], key)]
            seen.update(reasons)
            if reasons:
                differences += 1
            else:
                wrong += 1
                print("%s: %s\n  buildkitd %s\n  coracle   %s" % (name, key, *two))
    if not sys.argv[8:]:
        for number, one in enumerate(known):
            if number not in seen:
                wrong += 1
                print("differences.json: nothing differs any more as this says: %s" % json.dumps(one))
    print("%d build files, %d lines differ, %d lines differ for a reason" % (len(names), wrong, differences))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
