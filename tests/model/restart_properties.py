"""The properties of executions that continue as new: 109 to 111; and what they change of others.

| property | what it says |
|---|---|
| 6, 55 | a pending promise has a value only if it is an execution that has continued; that changes only
when it continues again |
| 48, 49 | a promise goes only when its execution continues; it is a record of it, and no task of its own |
| 109 | the generation of an execution grows by one or stays, and grows only under a claim that stays as it
is |
| 110 | what was read never falls, and is no more than there is |
| 111 | a message that was not read, what was emitted, and the last value that was published stay |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tests.model.snapshot import Json, Snapshot

GENERATION = "holdfast:generation"


def generation_in(promise: Json) -> Json:
    headers: dict[str, str] = promise["value"].get("headers") or {}
    text = headers.get(GENERATION)
    found: Json = {"number": 0, "read": 0} | (json.loads(text) if text else {})
    return found


def has_continued(a: Snapshot, b: Snapshot, execution: str) -> bool:
    old, new = a.promises.get(execution), b.promises.get(execution)
    return (
        old is not None
        and new is not None
        and new["state"] == "pending"
        and generation_in(new)["number"] > generation_in(old)["number"]
    )


def may_vanish(a: Snapshot, b: Snapshot, promise_id: str) -> bool:
    parent = a.promises[promise_id]["tags"].get("resonate:parent", "")
    return promise_id not in a.tasks and promise_id.startswith(parent) and has_continued(a, b, parent)


def restart_steps(a: Snapshot, b: Snapshot, is_anew: Callable[[str], bool]) -> Iterator[str]:
    """`is_anew`: of those that begin anew, and have nothing of what they had."""
    for execution, new in b.promises.items():
        old = a.promises.get(execution)
        if old is None or new is old or is_anew(execution):
            continue
        was, became = generation_in(old), generation_in(new)
        who = f"execution {execution}"
        if became["number"] not in (was["number"], was["number"] + 1):
            yield f"109 {who}: from generation {was['number']} to {became['number']}"
        if new["state"] == "pending" and became["number"] != was["number"]:
            task, held = a.tasks.get(execution, {}), b.tasks.get(execution, {})
            if task.get("state") != "acquired" or held.get("state") != "acquired":
                yield f"109 {who}: it has continued, and nobody held it"
            elif task["version"] != held["version"] or task["pid"] != held["pid"]:
                yield f"109 {who}: its claim is another one"
            yield from _reading(b, execution, was["read"], became["read"])
            yield from _streams(a, b, execution, became["read"])


def _reading(b: Snapshot, execution: str, was: int, became: int) -> Iterator[str]:
    count = b.streams.get(execution, {"counts": {}})["counts"].get("in", 0)
    if not was <= became <= count:
        yield f"110 execution {execution}: read from {was} to {became}, of {count}"


def _streams(a: Snapshot, b: Snapshot, execution: str, read: int) -> Iterator[str]:
    prefix = f"{execution}{'.' if ':' in execution else ':'}"
    for stream, count in a.streams.get(execution, {"counts": {}})["counts"].items():
        first = read + 1 if stream == "in" else 1 if stream.startswith("out.") else max(count, 1)
        for number in range(first, count + 1):
            name = f"{prefix}{stream}.{number}"
            if name in a.promises and name not in b.promises:
                yield f"111 element {name}: deleted"
