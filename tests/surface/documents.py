"""Real documents of a running engine are compared with their schemas, both ways; members that no schema has are refused.

    documents.py WORK IMAGE.tar

As errors.py is called. Every schema of the header must have been compared with a document, except those of UNSEEN.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from ctypes import c_void_p
from pathlib import Path
from typing import Any, Iterator

import library
from library import FUNCTIONS, NUMBERS, PROGRESS, call, check, good, options
from provoke import LONG, archive, create, load, op, open_root, running, session, source

WORK, IMAGE = Path(sys.argv[1]), sys.argv[2]
passed, failures = 0, []

#: Schemas of documents that need another machine than a test has: a search of a registry needs one that has a search.
UNSEEN: set[str] = set()
#: A member that no document has.
STRANGER = "Strangerr"


def fact(true: bool, text: str) -> None:
    global passed
    if true:
        passed += 1
    else:
        failures.append(text)


def records(c: c_void_p, image: str) -> None:
    """Documents that come one by one: samples, events, progress."""
    alive = running(c, image)
    stats = c_void_p(good("coracle_container_stats", c=c, id=alive, query_json={"stream": False, "one-shot": True})["out"])
    frame = good("coracle_stream_next", s=stats)["out"]
    check("container-stats", library.bytes_of(frame).decode(), False)
    library.compared.add(("coracle_container_stats", "record", "container-stats"))
    events = c_void_p(good("coracle_events_open", c=c, query_json={"since": 0, "until": time.time() + 1, "filters": {}})["out"])
    while good("coracle_events_next", e=events, timeout_ms=LONG).status == 0:
        pass
    seen: list[bytes] = []
    made, function = op(), PROGRESS(lambda user, record: seen.append(record) and 0 or 0)
    good("coracle_op_set_progress", op=made, fn=function)
    good("coracle_image_build", c=c, op=made, query_json={"file": f"FROM {image}\nRUN true", "t": ["built"], "q": False})
    for record in filter(None, seen):
        check("progress", record.decode(), False)
        library.compared.add(("coracle_progress_fn", "record_json", "progress"))


def containers(c: c_void_p, image: str) -> None:
    host = {
        "NetworkMode": "net",
        "Binds": ["vol:/vol"],
        "Memory": 64 << 20,
        "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 2},
        "PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "0"}], "81/tcp": None},
        "Ulimits": [{"Name": "nofile", "Soft": 100, "Hard": 200}],
        "Mounts": [{"Type": "tmpfs", "Target": "/t", "TmpfsOptions": {"SizeBytes": 1 << 20}}],
        "LogConfig": {"Type": "json-file", "Config": {}},
        "Tmpfs": {"/u": ""},
        "Devices": [{"PathOnHost": "/dev/null", "PathInContainer": "/dev/n", "CgroupPermissions": "rwm"}],
    }
    more = {
        "Env": ["A=b"],
        "Labels": {"a": "b"},
        "ExposedPorts": {"80/tcp": {}},
        "Volumes": {"/anonymous": {}},
        "StopSignal": 15,
        "StopTimeout": 1,
        "Entrypoint": None,
        "Healthcheck": {"Test": ["CMD", "true"], "Interval": 10**9},
        "NetworkingConfig": {"EndpointsConfig": {"net": {"Aliases": ["other"]}}},
    }
    full = create(c, image, "echo a; touch /new; sleep 1000", HostConfig=host, **more)
    good("coracle_container_inspect", c=c, id=full)
    good("coracle_container_start", c=c, id=full)
    good("coracle_container_inspect", c=c, id=full, with_size=1)
    good("coracle_container_explain", c=c, id=full)
    good("coracle_container_top", c=c, id=full)
    good("coracle_container_update", c=c, id=full, body_json={"Memory": 65 << 20, "MemorySwap": -1, "RestartPolicy": {"Name": "no"}})
    good("coracle_container_list", c=c, query_json={"all": "1", "size": True, "limit": 5, "filters": {"label": ["a=b"]}})
    good("coracle_network_list", c=c, query_json={"filters": {"name": {"net": True}}})
    good("coracle_network_inspect", c=c, id="net")
    good("coracle_network_disconnect", c=c, id="net", body_json={"Container": full, "Force": False})
    good("coracle_network_connect", c=c, id="net", body_json={"Container": full, "EndpointConfig": {"Aliases": ["third"]}})
    good("coracle_container_stat_path", c=c, id=full, path="/bin")
    good("coracle_stream_free", s=c_void_p(good("coracle_container_get_archive", c=c, id=full, path="/bin/")["out"]))
    good("coracle_container_put_archive", c=c, id=full, path="/", query_json={"noOverwriteDirNonDir": 1}, tar=source(archive(x=b"y")))
    good("coracle_container_changes", c=c, id=full)
    logs = {"stdout": True, "since": 1.5, "tail": "all", "timestamps": False, "details": 0, "follow": False}
    good("coracle_stream_free", s=c_void_p(good("coracle_container_logs", c=c, id=full, query_json=logs)["out"]))
    attached = good("coracle_container_attach", c=c, id=full, query_json={"stdout": True, "wait": False})["out"]
    good("coracle_session_free", s=c_void_p(attached))
    body = {"Cmd": ["true"], "AttachStdout": True, "Env": ["A=b"], "User": "0", "WorkingDir": "/", "ConsoleSize": None}
    exec_id = good("coracle_exec_create", c=c, id=full, body_json=body)["out_id"]
    good("coracle_exec_start", c=c, id=exec_id)
    good("coracle_exec_wait", c=c, id=exec_id)
    good("coracle_exec_inspect", c=c, id=exec_id)
    query = {"repo": "made", "tag": "1", "comment": "x", "pause": True, "changes": ["ENV A=c"]}
    good("coracle_container_commit", c=c, id=full, query_json=query, config_json={"Env": ["B=c"], "Labels": {"c": "d"}})
    good("coracle_container_restart_with", c=c, id=full, how_json={"signal": "KILL"})
    good("coracle_container_stop_with", c=c, id=full, how_json={"signal": "9", "grace_ms": 1000})
    good("coracle_container_start", c=c, id=full)
    good("coracle_container_kill", c=c, id=full)
    good("coracle_container_wait", c=c, id=full)
    good("coracle_container_inspect", c=c, id=full)
    good("coracle_container_remove", c=c, id=full)
    create(c, image, "true")
    good("coracle_container_prune", c=c, filters_json={"label!": ["a"]})


def images(c: c_void_p, image: str) -> None:
    good("coracle_image_list", c=c, query_json={"all": True, "filters": {"dangling": {"false": True}}})
    for ref in (image, "made:1"):
        good("coracle_image_inspect", c=c, ref=ref)
        good("coracle_image_history", c=c, ref=ref)
    good("coracle_stream_free", s=c_void_p(good("coracle_image_save", c=c, refs_json={"names": [image], "layout": "oci"})["out"]))
    good("coracle_stream_free", s=c_void_p(good("coracle_image_save", c=c, refs_json=json.dumps(image))["out"]))
    good("coracle_image_import", c=c, query_json={"repo": "imported", "changes": "ENV A=b", "message": "x"}, tar=source(archive(x=b"y")))
    good("coracle_image_tag", c=c, ref=image, new_ref="localhost:5000/busybox:1")
    login = {"username": "u", "password": "p", "serveraddress": "localhost:5000"}
    good("coracle_image_push", c=c, ref="localhost:5000/busybox:1", auth_json=login)
    good("coracle_image_pull", c=c, ref="localhost:5000/busybox:1", auth_json=login)
    for platform in (None, "linux/riscv64", '{"os":"linux","architecture":"arm","variant":"v7"}'):
        good("coracle_image_pull_platform", c=c, ref="localhost:5000/busybox:1", platform=platform, auth_json=login)
    good("coracle_registry_auth", c=c, auth_json=login)
    good("coracle_registry_inspect", c=c, ref="localhost:5000/busybox:1", auth_json=login)
    good("coracle_image_search", c=c, query_json={"term": "localhost:5000/busybox", "limit": 5, "filters": {}})
    good("coracle_image_remove", c=c, ref="localhost:5000/busybox:1")
    good("coracle_image_remove", c=c, ref="imported", flags=NUMBERS["CORACLE_IMAGE_REMOVE_FORCE"])
    good("coracle_image_prune", c=c, filters_json={"dangling": ["true"]})
    good("coracle_build_prune", c=c, filters_json={"type": ["exec.cachemount"]})
    good("coracle_engine_disk_usage", c=c, query_json={"type": ["container", "image", "volume"]})
    good("coracle_volume_prune", c=c, filters_json={"all": ["true"], "label!": ["a"]})
    good("coracle_network_prune", c=c, filters_json={"label": {"none": True}})


def plugins(c: c_void_p) -> None:
    env = [{"Name": "A", "Value": "1", "Settable": ["value"]}]
    config = {"entrypoint": ["/x"], "interface": {"socket": "x.sock", "types": ["docker.authz/1.0"]}, "env": env,
              "mounts": [{"name": "m", "source": "/tmp", "destination": "/m", "type": "bind", "options": ["rbind"]}],
              "linux": {"devices": [{"name": "d", "path": "/dev/null"}]}}
    push = Path(__file__).parent.parent / "support" / "push-plugin.py"
    subprocess.run([sys.executable, push, "localhost:5000", "my/plugin", "1", json.dumps(config), f"x={__file__}"], check=True)
    remote, login = "localhost:5000/my/plugin:1", {"username": "u", "password": "p", "serveraddress": "localhost:5000"}
    needed = json.loads(good("coracle_plugin_privileges", c=c, remote=remote, auth_json=login)["out_json"])
    body = {"Remote": remote, "Name": "plug", "Privileges": needed, "Auth": login}
    good("coracle_plugin_pull", c=c, body_json=body)
    good("coracle_plugin_set", c=c, name="plug", changes_json=["A=2"])
    good("coracle_plugin_upgrade", c=c, name="plug", body_json={"Remote": remote})
    good("coracle_plugin_list", c=c, query_json={"filters": {"enabled": ["false"], "capability": ["authz"]}})
    good("coracle_plugin_inspect", c=c, name="plug")
    good("coracle_plugin_remove", c=c, name="plug", flags=NUMBERS["CORACLE_PLUGIN_FORCE"])


def objects(c: c_void_p) -> None:
    volume = {"Name": "vol", "Driver": "local", "DriverOpts": {}, "Labels": {"a": "b"}}
    good("coracle_volume_create", c=c, body_json=volume)
    good("coracle_volume_list", c=c, query_json={"filters": '{"name":["vol"]}'})
    good("coracle_volume_inspect", c=c, name="vol")
    ipam = {"Driver": "default", "Config": [{"Subnet": "10.98.0.0/24", "Gateway": "10.98.0.1"}]}
    net = {"Name": "net", "Driver": "bridge", "IPAM": ipam, "Internal": False, "Options": {}, "EnableIPv4": True, "Scope": "local"}
    good("coracle_network_create", c=c, body_json=net)


def system(c: c_void_p, root: Path, run: Path) -> None:
    good("coracle_host_report", root=str(root), opt=options(run))
    for name in ("coracle_engine_info", "coracle_engine_metrics", "coracle_engine_version", "coracle_root_leftovers", "coracle_root_sweep"):
        good(name, c=c)
    good("coracle_engine_reload", c=c, labels_json=["a=b"], settings_json={"x": "y"})
    good("coracle_root_verify", c=c, query_json={"repair": False, "auths": {"localhost:5000": {"username": "u", "password": "p"}}})
    good("coracle_root_copy", c=c, dir=str(WORK / "copy"), query_json={"pause": False})
    docker = WORK / "docker"
    (docker / "image" / "overlay2" / "imagedb" / "content" / "sha256").mkdir(parents=True)
    good("coracle_root_import_docker", c=c, query_json={"directory": str(docker), "names": []})
    server = good("coracle_http_serve", c=c, options_json={"Addresses": [f"unix://{WORK}/api.sock"], "InsecureTcp": False, "HostNames": []})
    good("coracle_http_server_addresses", s=c_void_p(server["out"]))
    good("coracle_http_server_free", s=c_void_p(server["out"]))
    answer = good("coracle_http_request", c=c, method="GET", target="/_ping", headers_json={"Accept": "*/*"})
    good("coracle_stream_free", s=c_void_p(answer["out"]))
    check("build-info", library.LIBRARY.coracle_build_info().decode(), False)
    library.compared.add(("coracle_build_info", "answer", "build-info"))
    library.compared.add(("coracle_error_detail", "answer", "error-detail"))
    library.compared.add(("coracle_open", "opt.config_json", "open-config"))


def objects_of(schema: Any, whole: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places of a document at which there is an object of which the members are known."""
    while "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    for form in schema.get("anyOf", []):
        yield from objects_of(form, whole, path)
    if schema.get("additionalProperties") is False:
        yield path
        for name, member in schema["properties"].items():
            yield from objects_of(member, whole, (*path, name))
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from objects_of(schema["additionalProperties"], whole, (*path, "k"))
    if "items" in schema:
        yield from objects_of(schema["items"], whole, (*path, "[]"))


def document_with(path: tuple[str, ...]) -> Any:
    """A document that has a stranger at this place and nothing else."""
    if not path:
        return {STRANGER: 1}
    inner = document_with(path[1:])
    return [inner] if path[0] == "[]" else {path[0]: inner}


def strangers(c: c_void_p) -> None:
    """A member that no schema has is refused, at each place of each document that goes in."""
    for name, function in FUNCTIONS.items():
        for argument, of in function["schemas"]:
            if dict(function["arguments"]).get(argument) != "const char *" or argument.startswith("out"):
                continue
            whole = library.schema(of, True)
            for path in objects_of(whole, whole):
                given: dict[str, Any] = {a: "absent" for a, kind in function["arguments"] if kind == "const char *" and not a.endswith("_json")}
                if name == "coracle_root_copy":
                    given["dir"] = str(WORK / "never")
                if "platform" in given:
                    given["platform"] = "linux/riscv64"
                answer = call(name, c=c, **{**given, **({"body_json": {}} if "body_json" in dict(function["arguments"]) else {}), argument: document_with(path)})
                where = f"{name}: {argument}: {'.'.join((*path, STRANGER))}"
                fact(answer.code == "EINVALID" and STRANGER in answer.error["detail"].get("field", ""), f"{where}: {answer}")


def main() -> int:
    root, run = WORK / "root", WORK / "run"
    config = {"durability": "off", "log-driver": "json-file", "log-opts": {}, "labels": ["a=b"]}
    opened = good("coracle_open", root=str(root), opt=options(run, config))
    c = c_void_p(opened["out"])
    try:
        image = load(c, IMAGE)
        plugins(c)
        objects(c)
        containers(c, image)
        images(c, image)
        records(c, image)
        system(c, root, run)
        strangers(c)
    finally:
        for found in json.loads(good("coracle_container_list", c=c, query_json={"all": True})["out_json"]):
            good("coracle_container_remove", c=c, id=found["Id"], flags=NUMBERS["CORACLE_REMOVE_FORCE"])
        call("coracle_network_remove", c=c, id="net")
        good("coracle_network_release", c=c)
        good("coracle_close", c=c)
    seen = {(argument, of) for _, argument, of in library.compared}
    named = {(argument, of) for function in FUNCTIONS.values() for argument, of in function["schemas"]}
    for argument, of in sorted(named):
        fact((argument, of) in seen or of in UNSEEN, f"no document {argument} was compared with the schema {of}")
    for line in failures:
        print(f"failed: {line}")
    print(f"{passed} passed, {len(failures)} failed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
