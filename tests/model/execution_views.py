"""The oracle's answers to execution.*: every task at an instant, newest first.

Owns the words for what a task is at an instant, and the order of pages. Background tasks are not its matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.model import fields
from tests.model.fields import Json
from tests.model.machine import Machine, Promise, Task, generation

KINDS = ("execution", "task")
OPEN = ("pending", "waiting", "running", "suspended", "halted")
ENDS = {
    "resolved": "completed",
    "rejected": "failed",
    "rejected_canceled": "cancelled",
    "rejected_timedout": "timed_out",
}
OF_EXECUTIONS = (*OPEN, *ENDS.values())
OF_TASKS = (
    "pending",
    "waiting",
    "claimed",
    "running",
    "halted",
    "completed",
    "failed",
    "cancelled",
    "expired",
)
STATUSES = tuple(dict.fromkeys((*OF_EXECUTIONS, *OF_TASKS)))
WAIT_TEXTS = ("what", "file", "function", "fiber", "error")
WAIT_NUMBERS = ("line", "attempts", "resumesAt")

Condition = Callable[[Task], bool]


class ExecutionViews(Machine):
    """What of a machine is shown of its executions."""

    def status_of(self, task: Task, now: int | None) -> str:
        """At an instant; or as it is stored, if that is None."""
        promise = self.promises[task.id]
        if promise.state != "pending":
            is_late = promise.state == "rejected_canceled" and told_code(promise) == "HF5103"
            return "timed_out" if is_late else ENDS[promise.state]
        if now is not None and promise.timeout_at <= now:
            return ENDS[promise.state_at_timeout]
        if task.state == "pending":
            return "waiting" if task.parked else "pending"
        return "running" if task.state == "acquired" else task.state

    def show_execution(self, task: Task, now: int) -> Json:
        promise = self.promises[task.id]
        status = self.status_of(task, now)
        record: Json = {
            "id": task.id,
            "kind": "execution",
            "status": status,
            "createdAt": promise.created_at,
            "timeoutAt": promise.timeout_at,
            "tags": promise.tags,
        }
        optional: Json = {
            "attempts": task.version or None,
            "name": promise.tags.get("holdfast:workflow"),
            "group": fields.group_of(task.target),
            "queue": queue_of(fields.group_of(task.target)),
            "retries": task.retries or None,
            "lostClaims": [{**claim} for claim in task.lost] or None,  # the next claim is noted in the last
            "generation": generation(promise, ended=True)["number"] or None,
        }
        if status in OPEN:
            optional |= self._of_an_open_one(task, promise, status)
        else:
            ended_at = promise.timeout_at if promise.settled_at is None else promise.settled_at
            optional |= {"since": ended_at, "settledAt": ended_at}
            if status != "completed":
                optional["code"] = told_code(promise) or None
        return record | {name: value for name, value in optional.items() if value is not None}

    def _of_an_open_one(self, task: Task, promise: Promise, status: str) -> Json:
        since = {
            "pending": task.offered_since,
            "waiting": promise.created_at,
            "running": task.acquired_at,
            "suspended": task.rested_at,
            "halted": task.rested_at,
        }[status]
        found: Json = {"since": since, "error": task.error, "crashes": task.crashes or None}
        found["progress"] = task.progress or None
        if status == "waiting":
            found["dueAt"] = task.offered_since
        elif status == "running":
            found |= {"worker": task.pid, "dueAt": task.lease_at}
        elif status == "suspended":
            found["waits"] = task.waits or None
        elif status == "halted":
            found["code"] = (task.halted or {}).get("code")
        return found

    def times_of(self, awaited: str) -> Json:
        """Since when there is what somebody waits for, and when it settles by itself."""
        promise = self.promises.get(awaited)
        if promise is None or promise.state != "pending":
            return {}
        due = {} if promise.timeout_at >= fields.INSTANT_MAX else {"dueAt": promise.timeout_at}
        return {"since": promise.created_at} | due

    def executions_wanted(self, data: Json, scope: str | None) -> tuple[tuple[str, ...], list[Task]]:
        """The statuses that are asked for, and all tasks that are what else is, newest first."""
        kind = fields.optional_one_of(data, "kind", KINDS)
        statuses = STATUSES
        if data.get("status") is not None:
            chosen = fields.items(data, "status", 1, 16)
            statuses = tuple(fields.one_of({"status": item}, "status", STATUSES) for item in chosen)
        conditions = [*self._conditions(data)]
        found = sorted(
            (task for task in self.tasks.values() if all(condition(task) for condition in conditions)),
            key=lambda task: (self.promises[task.id].created_at, task.id),
            reverse=True,
        )
        if kind == "task":
            found = []
        shown = {"execution": OF_EXECUTIONS, "task": OF_TASKS, None: STATUSES}[kind]
        return tuple(status for status in shown if status in statuses), [
            task for task in found if scope is None or fields.reaches(scope, task.id)
        ]

    def _conditions(self, data: Json) -> Iterator[Condition]:
        tags = fields.optional_map(data, "tags")
        prefix = fields.optional_text(data, "prefix") or ""
        yield lambda task: all(self.promises[task.id].tags.get(key) == tags[key] for key in tags)
        yield lambda task: task.id.startswith(prefix)
        name = filled(data, "name", 4_096)
        if name is not None:
            yield lambda task: self.promises[task.id].tags.get("holdfast:workflow") == name
        queue = filled(data, "queue", 1_024)
        if queue is not None:
            yield lambda task: fields.group_of(task.target) in (queue, f"queue.{queue}")
        code = filled(data, "code", 256)
        if code is not None:
            yield lambda task: self.code_of(task) == code
        since, until = fields.optional_integer(data, "since"), fields.optional_integer(data, "until")
        yield lambda task: since is None or self.promises[task.id].created_at >= since
        yield lambda task: until is None or self.promises[task.id].created_at < until

    def code_of(self, task: Task) -> str | None:
        """As it is stored with an end."""
        promise = self.promises[task.id]
        if promise.state in ("pending", "resolved"):
            return None
        code = told_code(promise)
        return code if code and len(code.encode()) <= 256 else None


def queue_of(group: str | None) -> str | None:
    return group.removeprefix("queue.") if group is not None and group.startswith("queue.") else None


def told_code(promise: Promise) -> str | None:
    """The value of a pending one is no outcome: it holds the arguments of its generation."""
    headers: dict[str, str] = (promise.value.get("headers") or {}) if promise.state != "pending" else {}
    return headers.get("holdfast-code")


def filled(data: Json, name: str, most: int) -> str | None:
    """A text that may be left out, but not empty."""
    value = fields.optional_text(data, name, most)
    if value == "":
        raise fields.bad(f"{name} is empty")
    return value


def read_cursor(data: Json) -> tuple[int, str] | None:
    """Everything at or behind this place was shown before."""
    cursor = fields.optional_text(data, "cursor", 1_044)
    if cursor is None:
        return None
    match = re.fullmatch(r"([0-9]{1,16})(?:/(.+))?", cursor, re.DOTALL | re.ASCII)
    if match is None:
        raise fields.bad("cursor was not given by a search of executions")
    return int(match[1]), match[2] or ""


def read_waits(data: Json) -> list[Json]:
    """What a suspended execution waits for, as its worker says."""
    if data.get("waits") is None:
        return []
    waits: list[Json] = []
    for item in fields.items(data, "waits", 0, 16):
        given = fields.check_object(item, "a wait")
        kept: Json = {"id": fields.identifier(given, "id")}
        for name in WAIT_TEXTS:
            text: Any = given.get(name, "")
            kept[name] = fields.check_text(text, name, 1_024)
        for name in WAIT_NUMBERS:
            kept[name] = fields.integer({name: given.get(name, 0)}, name)
        waits.append({name: value for name, value in kept.items() if value not in ("", 0)})
    return waits
