"""Execs and attaches by docker-py: URL COUNT RUNNING ENDED OUTPUT. What it prints is as of lost.py."""

import sys

import docker

url, count, running, ended, output = sys.argv[1:]
api = docker.APIClient(base_url=url, version="1.24", timeout=120)
for number in range(int(count)):
    text = f"hello {number}"
    exec_id = api.exec_create(running, ["echo", text])["Id"]
    out = api.exec_start(exec_id)
    if out != text.encode() + b"\n":
        print("lost exec", out)
    told = api.attach(ended, stdout=True, stderr=True, stream=False, logs=True)
    if told != output.encode() + b"\n":
        print("lost attach", told)
print("done", count)
