"""The rows of images: load, pull, push, save, commit, build."""

import hashlib
import io
import json
import random
import shutil
import subprocess
import tarfile

from peers import Peak, Registry, body, engine_of, interleaved, quiet, text, timed, written_to_disk


def big_image(path, megabytes):
    """A docker-save archive of three layers with files of every size, links and directories."""
    rng = random.Random(1)
    pool = rng.randbytes(4 << 20)
    parts = path.with_suffix(".parts")
    parts.mkdir()
    layers, digests = [], []
    for number in range(3):
        layer = parts / f"layer{number}.tar"
        left = (megabytes << 20) // 3
        with tarfile.open(layer, "w") as tar:
            index = 0
            while left > 0:
                size = min(left, int(rng.lognormvariate(9, 2)) + 1, len(pool))
                info = tarfile.TarInfo(f"usr/share/d{number}/{index % 97}/f{index}")
                info.size, info.mode, info.mtime = size, 0o644, 1
                at = rng.randrange(len(pool) - size + 1)
                tar.addfile(info, io.BytesIO(pool[at : at + size]))
                if index % 20 == 0:
                    link = tarfile.TarInfo(info.name + ".link")
                    link.type, link.linkname = tarfile.SYMTYPE, f"f{index}"
                    tar.addfile(link)
                left -= size
                index += 1
        digests.append("sha256:" + hashlib.sha256(layer.read_bytes()).hexdigest())
        layers.append(layer)
    config = json.dumps(
        {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["x"]},
         "rootfs": {"type": "layers", "diff_ids": digests}}
    )
    name = hashlib.sha256(config.encode()).hexdigest() + ".json"
    (parts / name).write_text(config)
    manifest = [{"Config": name, "RepoTags": ["big:latest"], "Layers": [layer.name for layer in layers]}]
    (parts / "manifest.json").write_text(json.dumps(manifest))
    with tarfile.open(path, "w") as tar:
        for entry in [parts / name, *layers, parts / "manifest.json"]:
            tar.add(entry, arcname=entry.name)
    shutil.rmtree(parts)


def loads(rounds, driver, docker, work, megabytes):
    archive = work / "big.tar"
    big_image(archive, megabytes)
    layers = work / "layers"
    layers.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", layers], check=True)

    def untar():
        target = work / "untarred"
        target.mkdir()
        for layer in sorted(layers.glob("layer*.tar")):
            into = target / layer.stem
            into.mkdir()
            quiet("tar", "-xf", str(layer), "-C", str(into))
        quiet("sync", "-f", str(target))

    def ours():
        ns = driver.ask("load", str(archive))[0]
        driver.ask("rmi", "big")
        return ns

    def tar():
        ns = timed(untar)
        shutil.rmtree(work / "untarred")
        return ns

    def theirs():
        with open(archive, "rb") as file:
            ns = timed(lambda: docker.call("POST", "/images/load?quiet=1", file, "application/x-tar"))
        docker.call("DELETE", "/images/big")
        return ns

    return interleaved(rounds, {"coracle": ours, "tar -x of its layers, sync": tar, "dockerd's socket": theirs})


def images(rounds, driver, docker, work, megabytes, figures):
    """Pull, push, save and commit; answers a section each."""
    archive = work / "big.tar"
    if not archive.exists():
        big_image(archive, megabytes)
    registry = Registry(work / "registry")
    name = f"127.0.0.1:{registry.port}/bench/big"
    # dockerd's helpers (docker-untar, unpigz) come and go: their memory is not counted.
    pids = {"coracle": [driver.process.pid], "dockerd": engine_of(work)}
    peaks = {f"{what}, {who}": [] for what in ("pull", "push", "save") for who in pids}
    sent = {}

    def peak(what, who):
        return Peak(pids[who], peaks[f"{what}, {who}"])

    def load_both():
        driver.ask("load", str(archive))
        with open(archive, "rb") as file:
            docker.call("POST", "/images/load?quiet=1", file, "application/x-tar")
        docker.call("POST", f"/images/big/tag?repo={name}&tag=latest")
        driver.ask("tag", "big", f"{name}:latest")

    def checked(text):
        if b'"error"' in text:
            raise SystemExit(f"bench: dockerd: {text[-300:]!r}")

    try:
        load_both()

        def push_ours():
            registry.empty()
            with peak("push", "coracle"):
                ns = driver.ask("push", f"{name}:latest")[0]
            sent["coracle"] = registry.bytes()
            return ns

        def push_theirs():
            registry.empty()
            with peak("push", "dockerd"):
                ns = timed(lambda: checked(docker.call("POST", f"/images/{name}/push?tag=latest", "{}")))
            sent["dockerd"] = registry.bytes()
            return ns

        pushed = interleaved(rounds, {"coracle": push_ours, "dockerd's socket": push_theirs})

        def save_ours():
            with peak("save", "coracle"):
                return driver.ask("save", "big")[0]

        def save_theirs():
            with peak("save", "dockerd"):
                return timed(lambda: docker.drain("GET", "/images/big/get"))

        saved = interleaved(rounds, {"coracle": save_ours, "dockerd's socket": save_theirs})
        driver.ask("rmi", "big")
        driver.ask("rmi", f"{name}:latest")
        docker.call("DELETE", "/images/big")
        docker.call("DELETE", f"/images/{name}:latest")

        def pull_ours():
            with peak("pull", "coracle"):
                ns = driver.ask("pull", f"{name}:latest")[0]
            driver.ask("rmi", f"{name}:latest")
            return ns

        def pull_theirs():
            with peak("pull", "dockerd"):
                ns = timed(lambda: checked(docker.call("POST", f"/images/create?fromImage={name}&tag=latest")))
            docker.call("DELETE", f"/images/{name}:latest")
            return ns

        pulled = interleaved(rounds, {"coracle": pull_ours, "dockerd's socket": pull_theirs})
        for who, pull in (("coracle", pull_ours), ("dockerd", pull_theirs)):
            figures[f"bytes written to the disk by a pull, {who}"] = written_to_disk(work, pull)
    finally:
        registry.stop()

    committed = {}
    for what, size in (("commit", 65536), ("commit-big", 100 << 20)):
        command = body("sh", "-c", f"head -c {size} /dev/urandom > /file")
        _, ours = driver.ask("run", f"bench-{what}", text(command))[:2]
        theirs = docker.create(command, f"bench-{what}")
        docker.call("POST", f"/containers/{theirs}/start")
        docker.call("POST", f"/containers/{theirs}/wait")

        def commit_ours():
            ns, image = driver.ask("commit", ours.split()[0], "bench-committed")
            driver.ask("rmi", "bench-committed")
            return ns

        def commit_theirs():
            ns = timed(lambda: docker.call("POST", f"/commit?container={theirs}&repo=bench-committed", "{}"))
            docker.call("DELETE", "/images/bench-committed")
            return ns

        committed[what] = interleaved(max(rounds, 5), {"coracle": commit_ours, "dockerd's socket": commit_theirs})
        if what == "commit-big":
            for who, commit in (("coracle", commit_ours), ("dockerd", commit_theirs)):
                figures[f"bytes written to the disk by a commit of 100 MiB, {who}"] = written_to_disk(work, commit)
        driver.ask("remove", ours.split()[0])
        docker.call("DELETE", f"/containers/{theirs}?force=1")
    for what, grown in peaks.items():
        figures[f"peak memory beyond before, {what}"] = max(grown[1:] or grown)
    for who, size in sent.items():
        figures[f"bytes in the registry after a push, {who}"] = size
    return pulled, pushed, saved, committed["commit"], committed["commit-big"]


def builds(rounds, driver, docker):
    """Ten RUN steps that do nothing, made anew; and the same from the cache."""
    file = "FROM busybox\n" + "".join(f"RUN true {number}\n" for number in range(10))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(file)
        tar.addfile(member, io.BytesIO(file.encode()))

    def ours(nocache):
        query = {"file": file, "networkmode": "none", "nocache": nocache}
        return driver.ask("build", text(query))

    def theirs(nocache):
        target = f"/build?networkmode=none&nocache={int(nocache)}"
        said = []
        ns = timed(lambda: said.append(docker.call("POST", target, packed.getvalue(), "application/x-tar")))
        return ns, said[0].decode().rsplit("Successfully built ", 1)[1][:12]

    def anew(build, remove):
        ns, image = build(True)
        remove(image)
        return ns

    def remove(image):
        docker.call("DELETE", f"/images/{image}")

    cases = {"coracle": lambda: anew(ours, lambda image: driver.ask("rmi", image)), "dockerd's socket": lambda: anew(theirs, remove)}
    made = interleaved(rounds, cases)
    kept = ours(False)[1], theirs(False)[1]
    cached = interleaved(rounds, {"coracle": lambda: ours(False)[0], "dockerd's socket": lambda: theirs(False)[0]})
    driver.ask("rmi", kept[0])
    remove(kept[1])
    return made, cached
