"""A volume plugin for the tests: directories below one of its own.

volume-plugin.py SOCKET LOG DIR: serves until it is killed; each call is a line `Method BODY` of the log. The file LOG.rules, where it
is there, is a JSON object: a method's name without its kind, and what it does: `hang` (until the rule is gone), `garbage`, or the
text of an error.
"""

import json
import os
import shutil
import sys
import time

from plugin_server import rules, serve

socket_path, log_path, top = sys.argv[1:4]


def place(body):
    return os.path.join(top, body["Name"])


def get(body):
    if not os.path.isdir(place(body)):
        raise ValueError("no such volume")
    return {"Volume": {"Name": body["Name"], "Mountpoint": place(body), "Status": {"files": len(os.listdir(place(body)))}}}


CALLS = {
    "Create": lambda body: os.makedirs(place(body), exist_ok=True),
    "Remove": lambda body: shutil.rmtree(place(body)),
    "Mount": lambda body: {"Mountpoint": place(body)},
    "Unmount": lambda body: None,
    "Path": lambda body: {"Mountpoint": place(body)},
    "Get": get,
    "List": lambda body: {"Volumes": [{"Name": name, "Mountpoint": os.path.join(top, name)} for name in os.listdir(top)]},
    "Capabilities": lambda body: {"Capabilities": {"Scope": "global"}},
}


def rule_of(method):
    return (rules(log_path) or {}).get(method)


def answer(method, body):
    method = method.split(".")[1]
    while rule_of(method) == "hang":
        time.sleep(0.02)
    rule = rule_of(method)
    if rule == "garbage":
        return 200, "garbage"
    if rule:
        return 200, json.dumps({"Err": rule})
    try:
        return 200, json.dumps({**(CALLS[method](body) or {}), "Err": ""})
    except Exception as error:
        return 200, json.dumps({"Err": str(error)})


os.makedirs(top, exist_ok=True)
serve(socket_path, log_path, ["VolumeDriver"], answer)
