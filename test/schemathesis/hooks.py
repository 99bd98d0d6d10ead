"""What Schemathesis cannot know of a control plane: who asks, and what is there.

Every choice hangs on the request, so that a failure comes again when it is tried again.
"""
import atexit
import collections
import itertools
import json
import os
import threading
import zlib

import hypothesis
import schemathesis
from schemathesis.core import deserialization

# Schemathesis asks Hypothesis to climb towards requests that are accepted. Here the
# answer hangs on who asks and on what was asked before, so there is no hill: the
# climber goes round among requests that it has made already, which do not count,
# and some operations never come to their end.
hypothesis.target = lambda observation, *, label="": observation

# Manifests are several documents in one answer, of which the OpenAPI says that it is
# text. Schemathesis would read one, dies of the second without a word, and its own
# reader goes before those that hooks may register.
deserialization.deserialize_yaml = lambda stream: stream

with open(os.environ["DROVER_FUZZ_WORLD"], encoding="utf-8") as file:
    WORLD = json.load(file)

TOKENS = WORLD["tokens"]  # the first one asks most of the time
NAMES = WORLD["names"]  # what paths may name, by the name of the parameter
MADE = []  # instances and accounts that were made on the way: most end as quickly
TURN = itertools.count()
ANSWERS = collections.defaultdict(collections.Counter)  # statuses by operation
LOCK = threading.Lock()  # workers share all of this


def number(case, salt):
    text = repr((salt, case.method, case.path, case.path_parameters, case.query, case.body))
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def particular(case, name, value):
    """Whether the document has another operation for this value, which answers in place of this one."""
    path = case.path.replace("{" + name + "}", value)
    return case.method.lower() in case.operation.schema.raw_schema["paths"].get(path, {})


@schemathesis.hook
def before_call(ctx, case, kwargs):
    who = number(case, "who") % 8
    if not (case.path_parameters or case.query or isinstance(case.body, (dict, list))):
        who = next(TURN) % 8  # such requests are all the same
    case.headers["Authorization"] = "Bearer " + TOKENS[who if who < len(TOKENS) else 0]
    for name in case.path_parameters or {}:
        n = number(case, name)
        with LOCK:
            known = NAMES.get(name, []) + (MADE[-8:] if name == "id" else [])
        known = [value for value in known if not particular(case, name, value)]
        if known and n % 2 == 0:
            case.path_parameters[name] = known[n // 2 % len(known)]
    # Most names that are made up are taken.
    if case.method.upper() == "POST" and isinstance(case.body, dict) and isinstance(case.body.get("name"), str) and number(case, "name") % 2:
        case.body["name"] = f"n{next(TURN)}"
    # Held until there is news, at most for an interval: agents' tests wait, two hundred requests cannot.
    if case.path.endswith("/sync") and isinstance(case.body, dict) and case.body.get("wait") is True:
        case.body["wait"] = False
    # Heads of more than 64 KiB are refused by the HTTP server itself (431), before any API.
    if isinstance(case.query, dict):
        for name, value in case.query.items():
            if isinstance(value, str) and len(value) > 2000:
                case.query[name] = value[:2000]
    # Orders without it are all refused for the same reason.
    if isinstance(case.query, dict) and "async" in case.query and number(case, "async") % 8:
        case.query["async"] = "true"


@schemathesis.hook
def after_call(ctx, case, response):
    made = None
    if case.method.upper() == "POST" and "{" not in case.path and response.status_code in (200, 201, 202):
        try:
            made = response.json().get("id")
        except (ValueError, AttributeError):
            pass
    with LOCK:
        ANSWERS[case.method.upper() + " " + case.path][response.status_code] += 1
        if isinstance(made, str) and made:
            MADE.append(made)


@atexit.register
def tell():
    with open(os.environ["DROVER_FUZZ_WORLD"] + ".answers", "w", encoding="utf-8") as out:
        json.dump(ANSWERS, out)
