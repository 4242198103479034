"""The properties of locks: 109 to 116, of states and of steps.

| property | what it says |
|---|---|
| 109 | the permits that are held are no more than there are |
| 110 | holders have different tokens, none larger than the lock's |
| 111 | whoever waits has a ticket that is pending; one that is pending, its deadline ahead, waits |
| 112 | whoever holds has a ticket that is resolved with its token |
| 113 | whoever holds or waits is pending and has the lock registered; and nobody else has |
| 114 | the first that waits, if its deadline has not passed, waits for permits |
| 115 | the token of a lock never falls, and every new holder has a larger one |
| 116 | those that wait keep their order, and new ones come last |
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.model.snapshot import Json, Snapshot

LOCK = "holdfast:lock"
TICKET = "holdfast:ticket"


def lock_of(promise: Json | None) -> Json | None:
    """The record in a promise, if it is a lock."""
    if promise is None or LOCK not in promise["tags"]:
        return None
    record: Json = {"holders": [], "waiters": [], "token": 0} | json.loads(promise["value"]["data"])
    return record


def lock_state(s: Snapshot, now: int) -> Iterator[str]:
    waiting: set[str] = set()
    registered = {(awaited, awaiter) for awaited, awaiter in s.callbacks if lock_of(s.promises.get(awaiter))}
    wanted: set[tuple[str, str]] = set()
    for promise_id, promise in s.promises.items():
        lock = lock_of(promise)
        if lock is None:
            continue
        who = f"lock {lock['name']}"
        wanted |= {(each["execution"], promise_id) for each in lock["holders"] + lock["waiters"]}
        held = sum(each.get("count", 1) for each in lock["holders"])
        if held > lock["limit"]:
            yield f"109 {who}: {held} of {lock['limit']} permits are held"
        tokens = [each["token"] for each in lock["holders"]]
        if len(set(tokens)) < len(tokens) or any(token > lock["token"] for token in tokens):
            yield f"110 {who}: tokens {tokens}, the last is {lock['token']}"
        for each in lock["waiters"]:
            waiting.add(each["id"])
            if s.promises[each["id"]]["state"] != "pending":
                yield f"111 {who}: {each['id']} waits and is {s.promises[each['id']]['state']}"
        for each in lock["holders"]:
            headers: Json = s.promises[each["id"]]["value"].get("headers") or {}
            if headers.get("holdfast:token") != str(each["token"]):
                yield f"112 {who}: {each['id']} holds it by {each['token']}, and has {headers}"
        first = lock["waiters"][0] if lock["waiters"] else None
        if first and s.live(first["id"], now) and lock["limit"] - held >= first.get("count", 1):
            yield f"114 {who}: {first['id']} waits for nothing"
    for promise_id, promise in s.promises.items():
        if TICKET in promise["tags"] and s.live(promise_id, now) and promise_id not in waiting:
            yield f"111 ticket {promise_id}: pending, and in no queue"
    for execution, lock_id in wanted:
        if s.promises[execution]["state"] != "pending":
            yield f"113 {lock_id}: {execution} has ended and is in its record"
    for execution, lock_id in wanted ^ registered:
        yield f"113 {lock_id}: {execution} is in its record or registered, not both"


def lock_steps(a: Snapshot, b: Snapshot) -> Iterator[str]:
    for promise_id, promise in a.promises.items():
        old, new = lock_of(promise), lock_of(b.promises.get(promise_id))
        if old is None or new is None:
            continue
        held = {each["id"] for each in old["holders"]}
        fresh = [each["token"] for each in new["holders"] if each["id"] not in held]
        if new["token"] < old["token"] or any(token <= old["token"] for token in fresh):
            yield f"115 {promise_id}: tokens {fresh} after {old['token']}, now {new['token']}"
        before = [each["id"] for each in old["waiters"]]
        after = [each["id"] for each in new["waiters"]]
        stayed = [each for each in before if each in after]
        if after[: len(stayed)] != stayed:
            yield f"116 {promise_id}: {before} became {after}"


def has_left_lock(a: Snapshot, b: Snapshot, execution: str, awaiter: str) -> bool:
    """Has an execution let go of a lock in this step?"""
    old, new = lock_of(a.promises.get(awaiter)), lock_of(b.promises.get(awaiter))
    if old is None or new is None:
        return False
    return all(each["execution"] != execution for each in new["holders"] + new["waiters"])


KEPT = tuple(f"holdfast:{name}" for name in ("lock", "topic", "waits", "bucket", "event"))
OF_WAITS = (TICKET, "holdfast:wait", "holdfast:bucket")


def is_kept_record(promise: Json) -> bool:
    """Of a lock or of events: pending with a value, which changes."""
    return any(name in promise["tags"] for name in KEPT)


def was_granted(promise: Json) -> bool:
    """May settle whenever somebody else lets go, or an event is delivered, also in a sweep."""
    return any(name in promise["tags"] for name in OF_WAITS)
