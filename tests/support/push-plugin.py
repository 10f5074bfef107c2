"""Puts a plugin into a registry, as `docker plugin push` does.

push-plugin.py HOST REPOSITORY TAG CONFIG [NAME=FILE...]: CONFIG is the plugin's configuration (JSON, without rootfs); the files are the
only layer.
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile
import urllib.request

host, repository, tag, config = sys.argv[1:5]
base = f"http://{host}/v2/{repository}"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def send(method, url, data, kind):
    request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
    with urllib.request.urlopen(request) as answer:
        return answer.headers.get("Location")


def blob(data, media):
    place = send("POST", f"{base}/blobs/uploads/", b"", "application/octet-stream")
    sign = "&" if "?" in place else "?"
    send("PUT", f"{place}{sign}digest={digest(data)}", data, "application/octet-stream")
    return {"mediaType": media, "size": len(data), "digest": digest(data)}


tar = io.BytesIO()
with tarfile.open(fileobj=tar, mode="w") as archive:
    for pair in sys.argv[5:]:
        name, path = pair.split("=", 1)
        entry = tarfile.TarInfo(name)
        entry.mode = 0o755
        with open(path, "rb") as file:
            data = file.read()
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
document = json.loads(config)
document["rootfs"] = {"type": "layers", "diff_ids": [digest(tar.getvalue())]}
layer = blob(gzip.compress(tar.getvalue(), 1, mtime=0), "application/vnd.docker.image.rootfs.diff.tar.gzip")
manifest = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
    "config": blob(json.dumps(document).encode(), "application/vnd.docker.plugin.v1+json"),
    "layers": [layer],
}
send("PUT", f"{base}/manifests/{tag}", json.dumps(manifest).encode(), manifest["mediaType"])
