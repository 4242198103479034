"""The properties of streams: 98 to 105, of states and of steps.

| property | what it says |
|---|---|
| 98 | the numbers of a stream, from the first that was not trimmed to `count`, are there, and settled |
| 99 | under one key a stream has one element, and the record of the key names it |
| 100 | the open answers of an execution that is not settled are as many as its record says |
| 101 | a dependent that is pending is registered, and what it depends on is pending |
| 102 | what is unread of a mailbox is as large as its record says |
| 103 | counts and what was read never fall, and no more was read than there is |
| 104 | nothing is appended to an execution that is over |
| 105 | a record belongs to an execution, and there is one of each |
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.restart_properties import GENERATION
from tests.model.snapshot import Json, Snapshot

DEPENDENT = "holdfast:dependent"
ANSWER = "holdfast:answer"


def element_of(execution: str, stream: str, number: int) -> str:
    return f"{execution}{'.' if ':' in execution else ':'}{stream}.{number}"


def stream_state(s: Snapshot, now: int) -> Iterator[str]:
    for execution, record in s.streams.items():
        who = f"streams of {execution}"
        promise = s.promises.get(execution)
        if execution not in s.tasks or promise is None or promise["createdAt"] != record["createdAt"]:
            yield f"105 {who}: no such execution"
            continue
        for stream, count in record["counts"].items():
            yield from _elements(s, execution, stream, count, record["trimmed"].get(stream, 0))
        if record["read"] > record["counts"].get("in", 0):
            yield f"103 {who}: {record['read']} were read of {record['counts']}"
        unread = sum(_unread(s, execution, record))
        if record["sentBytes"] - record["readBytes"] != unread:
            yield f"102 {who}: {unread} unread, {record['sentBytes']} sent and {record['readBytes']} read"
        answers = [name for owner, name in s.callbacks if owner == execution and _is_answer(s, name)]
        if promise["state"] == "pending" and record["openAnswers"] != len(answers):
            yield f"100 {who}: {record['openAnswers']} open answers, there are {answers}"
    for promise_id, promise in s.promises.items():
        owner = promise["tags"].get(DEPENDENT)
        if owner is not None and promise["state"] == "pending":
            settled = owner not in s.promises or s.promises[owner]["state"] != "pending"
            if settled or (owner, promise_id) not in s.callbacks:
                yield f"101 promise {promise_id}: pending, and does not end with {owner}"


def _elements(s: Snapshot, execution: str, stream: str, count: int, gone: int) -> Iterator[str]:
    keys: dict[str, str] = {}
    for number in range(gone + 1, count + 1):
        name = element_of(execution, stream, number)
        element = s.promises.get(name)
        if element is None or (element["state"] == "pending" and "holdfast:stream" in element["tags"]):
            yield f"98 element {name}: not there, of {count}"
            continue
        key = element.get("ikc")
        if "holdfast:stream" not in element["tags"] or key is None:
            continue
        if key in keys:
            yield f"99 element {name}: has the key of {keys[key]}"
        keys[key] = name
        kept: Json = s.promises.get(f"{element_of(execution, stream, 0)[:-2]}~{key}", {"value": {}})
        headers: Json = kept["value"].get("headers") or {}
        if headers.get("holdfast:number") != str(number):
            yield f"99 element {name}: its key {key} leads elsewhere"


def _unread(s: Snapshot, execution: str, record: Json) -> Iterator[int]:
    for number in range(record["read"] + 1, record["counts"].get("in", 0) + 1):
        message = s.promises.get(element_of(execution, "in", number))
        if message is not None and message.get("iku", "").isdecimal():
            headers: Json = message["value"].get("headers") or {}
            size = len(message["value"].get("data") or "") + 256
            # An execution that bears the id of a message, and has continued, says so in what settled it.
            sent = {name: text for name, text in headers.items() if name != GENERATION}
            yield size + sum(len(name) + len(text) for name, text in sent.items())


def _is_answer(s: Snapshot, promise_id: str) -> bool:
    return promise_id in s.promises and ANSWER in s.promises[promise_id]["tags"]


def is_superseded(s: Snapshot, promise_id: str) -> bool:
    promise = s.promises.get(promise_id)
    return promise is not None and promise["value"] == {"headers": {"holdfast:superseded": "true"}}


def stream_steps(a: Snapshot, b: Snapshot, again: frozenset[str], now: int) -> Iterator[str]:
    """`again`: executions that begin again in this step."""
    for name, key in b.twice:
        if name == "streams":
            yield f"105 {name}: {key} is there twice"
    for execution, old in a.streams.items():
        new = b.streams.get(execution)
        ended = execution in again or is_superseded(b, execution)
        if ended and new is not None and (new["createdAt"] > old["createdAt"] or not new["counts"]):
            continue  # under the same id, with nothing of the old one
        if new is None:
            if (execution not in b.promises and execution in a.promises) or is_superseded(a, execution):
                continue
            yield f"105 streams of {execution}: vanished"
        elif new["read"] < old["read"] or any(
            new["counts"].get(stream, -1) < count for stream, count in old["counts"].items()
        ):
            yield f"103 streams of {execution}: from {old} back to {new}"
    for execution, new in b.streams.items():
        counts = a.streams.get(execution, {"counts": {}})["counts"]
        grown = [stream for stream, count in new["counts"].items() if count > counts.get(stream, 0)]
        if grown and execution in a.promises and not a.live(execution, now):
            yield f"104 streams of {execution}: {grown} grew after its end"


def has_left(a: Snapshot, b: Snapshot, promise_id: str) -> bool:
    """Has a dependent settled in this step?"""
    was, became = a.promises.get(promise_id), b.promises.get(promise_id)
    return (
        was is not None
        and became is not None
        and DEPENDENT in was["tags"]
        and was["state"] == "pending" != became["state"]
    )


def ended_with_execution(a: Snapshot, b: Snapshot, promise: Json) -> bool:
    """Was it cancelled because what it depended on settled in this step?"""
    owner = promise["tags"].get(DEPENDENT)
    was, became = a.promises.get(str(owner)), b.promises.get(str(owner))
    return was is not None and became is not None and was["state"] == "pending" != became["state"]
