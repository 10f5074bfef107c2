"""CloudWatch Logs by moto, which checks signatures.

cloud_watch.py serve PORT CREDENTIALS: serves, and writes the keys of a user who may do all with logs.
cloud_watch.py read PORT CREDENTIALS GROUP STREAM: prints the events of a stream as lines of JSON.
"""

import json
import logging
import os
import sys
import time

ACTIONS_OF_SETUP = "3"


def client(kind, port, keys):
    import boto3

    return boto3.client(
        kind,
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="eu-west-1",
        aws_access_key_id=keys[0],
        aws_secret_access_key=keys[1],
    )


def serve(port, path):
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = ACTIONS_OF_SETUP
    from moto.server import ThreadedMotoServer

    ThreadedMotoServer(ip_address="127.0.0.1", port=int(port), verbose=False).start()
    iam = client("iam", port, ("first", "first"))
    iam.create_user(UserName="shipper")
    policy = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "logs:*", "Resource": "*"}}
    iam.put_user_policy(UserName="shipper", PolicyName="logs", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName="shipper")["AccessKey"]
    text = f"[default]\naws_access_key_id = {key['AccessKeyId']}\naws_secret_access_key = {key['SecretAccessKey']}\n"
    with open(path + ".new", "w") as out:
        out.write(text)
    os.rename(path + ".new", path)
    while True:
        time.sleep(3600)


def read(port, path, group, stream):
    with open(path) as text:
        keys = [line.split(" = ")[1].strip() for line in text if " = " in line]
    logs, token = client("logs", port, keys), {}
    while True:
        page = logs.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True, limit=10000, **token)
        for event in page["events"]:
            print(json.dumps({"message": event["message"], "timestamp": event["timestamp"]}))
        if not page["events"]:
            return
        token = {"nextToken": page["nextForwardToken"]}


{"serve": serve, "read": read}[sys.argv[1]](*sys.argv[2:])
