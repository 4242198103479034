"""The property of executions that are given a grace: 117, of steps.

| property | what holds |
|---|---|
| 117 | an execution with a grace begins, and begins again, with the timer that asks it to cancel; unless
  something had that id. It rings so long before the timeout, and the execution awaits it |

Properties 57 and 89 know that this timer is born with its execution among those that await it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.machine import below
from tests.model.snapshot import Json, Snapshot, is_timer

GRACE = "holdfast:grace"


def execution_asked_by(b: Snapshot, promise_id: str) -> str | None:
    """The execution whose deadline this promise is, if it is one."""
    promise = b.promises[promise_id]
    execution = b.promises.get(promise.get("tags", {}).get("resonate:parent", ""))
    if execution is None or GRACE not in execution["tags"] or not is_timer(promise):
        return None
    return str(execution["id"]) if promise_id == f"{below(execution['id'])}cancel" else None


def deadline_steps(a: Snapshot, b: Snapshot, again: frozenset[str], now: int) -> Iterator[str]:
    for task_id in b.tasks:
        promise = b.promises.get(task_id)
        if promise is None or (task_id in a.tasks and task_id not in again):
            continue
        name = f"{below(task_id)}cancel"
        if promise["state"] == "pending" and GRACE in promise["tags"] and name not in a.promises:
            yield from _deadline(b, promise, name, now)


def _deadline(b: Snapshot, execution: Json, name: str, now: int) -> Iterator[str]:
    who = f"execution {execution['id']}"
    asked = b.promises.get(name)
    if asked is None:
        yield f"117 {who}: nothing asks it to cancel at its deadline"
    elif asked["timeoutAt"] != max(0, execution["timeoutAt"] - int(execution["tags"][GRACE])):
        yield f"117 {who}: it is asked to cancel at another instant"
    elif asked["state"] == "pending" and (name, execution["id"]) not in b.callbacks:
        yield f"117 {who}: its deadline does not wake it"
