"""Bad requests of many sorts: takes a sound envelope and damages one thing in it.

Owns the list of damages. Whether a damaged request is refused is the oracle's to say: now and then the damage
falls on a field that may be left out.
"""

from __future__ import annotations

import copy
import random
from typing import Any

Json = dict[str, Any]
Choices = tuple[Any, ...]

MISSING: Any = object()
LONG = "x" * 1_025
BAD_NAMES: Choices = ("", 7, None, MISSING, LONG, "nul\0", True, [])
BAD_NUMBERS: Choices = (-1, 1.5, "1", True, None, MISSING, 2**53, [])
BAD_MAPS: Choices = (
    None,
    [],
    "x",
    {"k": 1},
    {"k": None},
    {str(n): "" for n in range(65)},
    {"k": "v" * 4_097},
)
BAD_PAYLOADS: Choices = (None, [], "x", {"data": 5}, {"headers": {"a": 1}}, {"headers": []})
BAD_ADDRESSES: Choices = (
    "",
    "nowhere",
    "poll://uni@g",
    "poll://any@",
    "poll://any",
    "ftp://x",
    "https://",
    5,
    None,
    MISSING,
)
BAD_LISTS: Choices = (None, {}, "x", MISSING, [5], [None], [[]])
BAD_TAGS: Choices = (
    {"resonate:target": ""},
    {"resonate:target": "nowhere"},
    {"resonate:target": "poll://any@g", "resonate:delay": "soon"},
    {"resonate:target": "poll://any@g", "resonate:delay": "-5"},
    {"resonate:target": "poll://any@g", "resonate:delay": "9007199254740991"},
    {"resonate:delay": "5"},
    {"holdfast:dependent": "a"},
    {"holdfast:priority": "high"},
    {"holdfast:crashes": "0"},
    {"holdfast:crashes": "often"},
    {"holdfast:grace": "100"},
    {"resonate:target": "poll://any@g", "holdfast:grace": "0"},
    {"resonate:target": "poll://any@g", "holdfast:grace": "86400001"},
    {"holdfast:priority": "1000001"},
    {"holdfast:priority": "1.5"},
)

BAD_FIELDS: dict[str, Choices] = {
    "id": BAD_NAMES,
    "awaited": BAD_NAMES,
    "awaiter": BAD_NAMES,
    "promiseId": BAD_NAMES,
    "pid": BAD_NAMES,
    "timeoutAt": BAD_NUMBERS,
    "promiseTimeout": BAD_NUMBERS,
    "version": BAD_NUMBERS,
    "time": BAD_NUMBERS,
    "ttl": (*BAD_NUMBERS, 0, 86_400_001),
    "count": (*BAD_NUMBERS, 0, 1_001),
    "limit": (0, 1_001, "5", -1, 1.5, True),
    "cursor": (5, []),
    "prefix": (5, []),
    "catchUp": (0, 1_001, "5", 1.5),
    "tags": (*BAD_MAPS, *BAD_TAGS),
    "promiseTags": (*BAD_MAPS, *BAD_TAGS),
    "param": BAD_PAYLOADS,
    "promiseParam": BAD_PAYLOADS,
    "value": BAD_PAYLOADS,
    "state": ("done", "", 3, "pending", "rejected_timedout", "acquired"),
    "address": BAD_ADDRESSES,
    "action": (None, [], "x", MISSING, {}, {"kind": "promise.get", "head": {}, "data": {"id": "a"}}),
    "actions": (*BAD_LISTS, []),
    "tasks": (*BAD_LISTS, [{"id": "a"}], [{"version": 1}], [{"id": "", "version": 1}]),
    "groups": (*BAD_LISTS, [], [""], ["g"] * 65),
    "cron": ("", "* * * *", "61 * * * *", "*/0 * * * *", "0 0 30 2 *", "x" * 257, 5, None, MISSING),
    "timezone": ("Mars/Olympus", "", 5),
    "overlap": ("maybe", "", 5),
    "retry": ([], "x", {}, {"delay": -1}, {"delay": 1.5}, {"delay": 1, "error": 5}, {"delay": 2**53}),
    "reason": (5, [], "x" * 4_097),
    "code": ("", 5, [], "x" * 257),
    "stream": (*BAD_NAMES, "inn", "out", "out.", "out.a b", "value.ä", "out." + "x" * 101),
    "number": (*BAD_NUMBERS, 0, 1_000_001),
    "after": (-1, 1.5, "1", True, 1_000_001, []),
    "last": (5, "x", []),
    "peek": (5, "x", []),
    "key": ("", 5, [], "x" * 257),
    "answer": (
        [],
        "x",
        {},
        {"timeoutAt": -1},
        {"timeoutAt": 9, "id": ""},
        {"timeoutAt": 9, "param": 5},
        {"timeoutAt": 9, "tags": {"resonate:target": "poll://any@g"}},
        {"timeoutAt": 9, "tags": {"holdfast:dependent": "a"}},
    ),
    "expect": ([], "x", {"k": 1}, {"k": None}),
    "ikc": (5, [], LONG),
    "iku": (5, [], LONG),
    "target": (5, []),
    "group": (5, []),
    "kind": ("workflow", "", 5),
    "status": ("running", [], [5], ["done"], ["running"] * 17),
    "name": (5, [], "", "x" * 4_097),
    "queue": (5, [], "", LONG),
    "since": (-1, 1.5, "1", 2**53),
    "until": (-1, 1.5, "1", 2**53),
    "waits": ("x", [5], [{}], [{"id": ""}], [{"id": "a", "line": -1}], [{"id": "a", "file": LONG}]),
}

# What a search may leave out it may also give as anything that is a string.
SEARCH_FIELDS: dict[str, Choices] = {
    "pid": (5, []),
    "state": ("done", "", 3),
    "tags": (None, [], "x", {"k": 1}),
}
OPTIONAL_VERSION: dict[str, Choices] = {"version": (-1, 1.5, "1", True, 2**53)}

BAD_VERSIONS: Choices = ("2026-04-02", "2030-01-01", "latest", "", "2025-1-15", "2025-02-30", 5, MISSING)
BAD_KINDS: Choices = ("", "promise.nope", "task", "promise.Create", 5, MISSING)
BAD_DATA: Choices = (None, [], "x", 5, MISSING)


def spoil(rng: random.Random, envelope: Json) -> Json:
    """A copy of the envelope with one thing damaged, most often a field of its data."""
    spoiled = copy.deepcopy(envelope)
    luck = rng.random()
    if luck < 0.05:
        _put(spoiled["head"], "version", rng.choice(BAD_VERSIONS))
    elif luck < 0.10:
        _put(spoiled, "kind", rng.choice(BAD_KINDS))
    elif luck < 0.15:
        _put(spoiled, "data", rng.choice(BAD_DATA))
    elif luck < 0.17:
        _put(spoiled["head"], "corrId", rng.choice((5, MISSING)))
    else:
        _spoil_field(rng, spoiled["kind"], spoiled["data"])
    return spoiled


def _spoil_field(rng: random.Random, kind: str, data: Json) -> None:
    if "action" in data and rng.random() < 0.5:
        _spoil_field(rng, data["action"]["kind"], data["action"]["data"])
        return
    known = [name for name in data if name in BAD_FIELDS]
    if not known:
        return
    name = rng.choice(known)
    choices = BAD_FIELDS[name]
    if kind.endswith(".search"):
        choices = SEARCH_FIELDS.get(name, choices)
    if kind in ("task.halt", "task.continue"):
        choices = OPTIONAL_VERSION.get(name, choices)
    _put(data, name, rng.choice(choices))


def _put(where: Json, name: str, value: Any) -> None:
    if value is MISSING:
        del where[name]
    else:
        where[name] = value
