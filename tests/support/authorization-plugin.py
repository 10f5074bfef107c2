"""An authorization plugin for the tests.

authorization-plugin.py SOCKET LOG: serves until it is killed; each call is a line `Method BODY` of the log. The file LOG.rules,
where it is there, is a JSON list: the first rule whose `method` is the call's and whose `uri` is a part of the request's
RequestUri decides: `answer` (a document), `text` (whatever it says), `status`, `hang` (until the rule is gone), `die`.
Without a rule it consents.
"""

import json
import os
import sys
import time

from plugin_server import rules, serve

socket_path, log_path = sys.argv[1:3]


def rule_of(method, uri):
    fits = (rule for rule in rules(log_path) or [] if method.endswith(rule["method"]) and rule.get("uri", "") in uri)
    return next(fits, {})


def answer(method, body):
    uri = body.get("RequestUri", "")
    rule = rule_of(method, uri)
    while rule.get("hang"):
        time.sleep(0.02)
        rule = rule_of(method, uri)
    if rule.get("die"):
        os._exit(1)
    return rule.get("status", 200), rule.get("text", json.dumps(rule.get("answer", {"Allow": True})))


serve(socket_path, log_path, ["authz"], answer)
