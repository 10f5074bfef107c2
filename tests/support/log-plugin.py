"""A log plugin for the tests: what it gets is lines of JSON in a file.

log-plugin.py SOCKET LOG OUT: serves until it is killed; each call is a line `Method BODY` of the log. A message of a container is a
line of OUT: the container's name, and the fields of the message. The file LOG.rules, where it is there, is a JSON object: a
container's name, and what the plugin does with it: `hang` (StartLogging does not answer until the rule is gone), `garbage` (it answers
no JSON), `unread` (it reads nothing until the rule is gone), or the text of an error.
"""

import json
import struct
import sys
import threading
import time

from plugin_server import rules, serve

socket_path, log_path, out_path = sys.argv[1:4]
lock = threading.Lock()


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a message of protocol buffers, by their numbers."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        found[key >> 3] = value
    return found


def entry(data):
    found = fields(data)
    one = {"source": found[1].decode(), "time": found.get(2, 0), "line": found.get(3, b"").decode()}
    if found.get(4):
        part = fields(found[5])
        one["part"] = [part[2].decode(), part[3], bool(part.get(1))]
    return one


def rule_of(name):
    return (rules(log_path) or {}).get(name)


def read(path, name):
    with open(path, "rb") as fifo:
        while rule_of(name) == "unread":
            time.sleep(0.02)
        while len(head := fifo.read(4)) == 4:
            data = fifo.read(struct.unpack(">I", head)[0])
            with lock, open(out_path, "a") as out:
                out.write(json.dumps([name, entry(data)]) + "\n")


def answer(method, body):
    if method == "LogDriver.StartLogging":
        name = body["Info"]["ContainerName"].lstrip("/")
        while rule_of(name) == "hang":
            time.sleep(0.02)
        rule = rule_of(name)
        if rule == "garbage":
            return 200, "garbage"
        if rule and rule != "unread":
            return 200, json.dumps({"Err": rule})
        threading.Thread(target=read, args=(body["File"], name), daemon=True).start()
    return 200, json.dumps({"Err": ""})


serve(socket_path, log_path, ["LogDriver"], answer)
