"""The properties that hold in every state: 1 to 45. invariants.py says which of them are bent, and why."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.fields import INSTANT_MAX
from tests.model.lock_properties import is_kept_record, lock_state
from tests.model.restart_properties import generation_in
from tests.model.snapshot import (
    DELIVERABLE,
    Json,
    Snapshot,
    is_empty,
    is_timer,
    possible_target,
    state_at_timeout,
    target,
)
from tests.model.stream_properties import stream_state

DUPLICATES = {
    "promises": 31,
    "tasks": 32,
    "schedules": 33,
    "messages": 34,
    "callbacks": 11,
    "listeners": 12,
    "promiseTimeouts": 13,
    "taskTimeouts": 20,
    "streams": 105,
}


GONE_MAX = 4  # of the promises that woke a task, so many may be deleted since


def state_violations(s: Snapshot, now: int) -> Iterator[str]:
    for name, key in s.twice:
        yield f"{DUPLICATES[name]} {name}: {key} is there twice"
    for promise in s.promises.values():
        yield from _promise_state(promise, now)
    settled = sum(promise["state"] != "pending" for promise in s.promises.values())
    for task in s.tasks.values():
        yield from _task_state(s, task, now, settled)
    for schedule in s.schedules.values():
        yield from _schedule_state(schedule)
    yield from _relations(s)
    yield from _message_state(s)
    yield from stream_state(s, now)
    yield from lock_state(s, now)


def _promise_state(promise: Json, now: int) -> Iterator[str]:
    state, created, deadline = promise["state"], promise["createdAt"], promise["timeoutAt"]
    settled: int | None = promise.get("settledAt")
    who = f"promise {promise['id']}"
    if created > deadline:
        yield f"1 {who}: created after its deadline"
    if created > now:
        yield f"15 {who}: created in the future"
    if (settled is None) != (state == "pending"):
        yield f"5 {who}: {state} with settledAt {settled}"
    if state == "pending":
        if created >= deadline:
            yield f"2 {who}: pending but born at or after its deadline"
        if not is_empty(promise["value"]) and not (
            generation_in(promise)["number"] or is_kept_record(promise)
        ):
            yield f"6 {who}: pending with a value"
    if settled is None:
        return
    if settled > deadline:
        yield f"3 {who}: settled after its deadline"
    if created > settled:
        yield f"4 {who}: settled before it was created"
    if settled > now:
        yield f"16 {who}: settled in the future"
    if promise["value"] == {"headers": {"holdfast:superseded": "true"}}:
        return  # it is only kept for its version
    if settled == deadline and state != state_at_timeout(promise):
        yield f"7 {who}: {state} at its deadline"
    if settled == deadline and not is_empty(promise["value"]):
        yield f"8 {who}: timed out with a value"
    if state == "rejected_timedout" and settled != deadline:
        yield f"10 {who}: timed out at another instant than its deadline"


def _task_state(s: Snapshot, task: Json, now: int, settled: int) -> Iterator[str]:
    task_id, state = task["id"], task["state"]
    who = f"task {task_id}"
    acquired = state == "acquired"
    has_retry, has_lease = task_id in s.retries, task_id in s.leases
    if acquired != ("pid" in task):
        yield f"17 {who}: {state}, pid {task.get('pid')}"
    if acquired != ("ttl" in task):
        yield f"18 {who}: {state}, ttl {task.get('ttl')}"
    if acquired != has_lease:
        yield f"19 {who}: {state}, lease {s.leases.get(task_id)} (acquired_task_no_lease)"
    if (state == "pending") != has_retry:
        yield f"20 {who}: {state}, retry {s.retries.get(task_id)} (pending_task_no_ttimeout)"
    holds = "pid" in task or "ttl" in task or has_retry or has_lease
    if state == "fulfilled" and (holds or task["resumes"]):
        yield f"21 {who}: fulfilled but not bare (fulfilled_task_has_ttimeout)"
    if state == "suspended" and holds:
        yield f"22 {who}: suspended but not bare (suspended_task_has_ttimeout)"
    if state == "halted" and holds:
        yield f"23 {who}: halted but not bare"
    if "halted" in task and state != "halted":
        yield f"23 {who}: {state}, with a reason for being halted"
    if state == "suspended" and task["resumes"]:
        yield f"24 {who}: suspended with resumes (suspended_with_consumed_callbacks)"
    if not 0 <= task["resumes"] <= settled + GONE_MAX:
        yield f"25 {who}: {task['resumes']} resumes from {settled} settled promises"
    if acquired and task["version"] < 1:
        yield f"26 {who}: acquired at version {task['version']}"
    promise = s.promises.get(task_id)
    if promise is None or possible_target(promise) is None:
        yield f"35 {who}: no promise with a target (orphan_tasks)"
        return
    if promise["state"] != "pending" and state != "fulfilled":
        yield f"36 {who}: {state} though its promise is settled"
    if promise["state"] == "pending" and state == "fulfilled":
        yield f"44 {who}: fulfilled though its promise is pending"
    if (
        state == "suspended"
        and s.live(task_id, now)
        and not any(awaiter == task_id for _, awaiter in s.callbacks)
    ):
        yield f"45 {who}: suspended and live without a callback (suspended_no_callback)"


def _schedule_state(schedule: Json) -> Iterator[str]:
    who = f"schedule {schedule['id']}"
    created, following, last = schedule["createdAt"], schedule["nextRunAt"], schedule.get("lastRunAt")
    if created > following:
        yield f"28 {who}: next run before it was created"
    if last is not None and created > last:
        yield f"29 {who}: last run before it was created"
    if last is not None and last >= following:
        yield f"30 {who}: last run not before the next"
    if "pausedAt" in schedule and following != INSTANT_MAX:
        yield f"108 {who}: paused, and it has a next run"


def _relations(s: Snapshot) -> Iterator[str]:
    depended = {awaited for awaited, _ in s.callbacks} | {awaited for awaited, _ in s.listeners}
    for promise_id, promise in s.promises.items():
        if target(promise) is not None and promise_id not in s.tasks:
            yield f"35 promise {promise_id}: a target but no task"
        tags = promise["tags"]
        expected = promise["state"] == "pending" and (
            promise_id in s.tasks
            or promise_id in depended
            or is_timer(promise)
            or tags.get("resonate:external") == "true"
            or "holdfast:dependent" in tags
            or "holdfast:ticket" in tags
            or "holdfast:bucket" in tags
        )
        if s.deadlines.get(promise_id) != (promise["timeoutAt"] if expected else None):
            yield f"13 promise {promise_id}: the sweep has {s.deadlines.get(promise_id)} for it"
    for promise_id in s.deadlines:
        if promise_id not in s.promises:
            yield f"13 promise {promise_id}: awaited by the sweep but missing"
    for task_id in (*s.retries, *s.leases):
        if task_id not in s.tasks:
            yield f"20 task {task_id}: a timeout but no task"
    for awaited, awaiter in s.callbacks:
        if awaited == awaiter:
            yield f"14 promise {awaited}: awaits itself"
        depends = awaiter in s.promises and s.promises[awaiter]["tags"].get("holdfast:dependent") == awaited
        depends |= awaiter in s.promises and (
            "holdfast:lock" in s.promises[awaiter]["tags"]
            or s.promises[awaiter]["tags"].get("holdfast:wait") == awaited
        )
        if not depends and (awaiter not in s.promises or possible_target(s.promises[awaiter]) is None):
            yield f"37 callback {awaiter} on {awaited}: the awaiter has no target"
    for promise_id, address in s.listeners:
        if not DELIVERABLE.fullmatch(address):
            yield f"38 listener of {promise_id}: {address} cannot be delivered to"


def _message_state(s: Snapshot) -> Iterator[str]:
    for task_id, entry in s.offers.items():
        task = s.tasks.get(task_id)
        if task is None:
            continue  # 39 is a property of the step that sends it
        if entry["message"]["data"]["task"]["version"] > task["version"]:
            yield f"40 execute {task_id}: a version that does not exist yet"
        promise = s.promises.get(task_id)
        is_current = entry["message"]["data"]["task"]["version"] == task["version"]
        if promise is not None and is_current and entry["address"] != possible_target(promise):
            yield f"41 execute {task_id}: to {entry['address']} instead of the target"
    for (promise_id, address), entry in s.notices.items():
        carried = entry["message"]["data"]["promise"]
        if carried["state"] == "pending":
            yield f"42 unblock {promise_id}: not about a settled promise"
        if not DELIVERABLE.fullmatch(address):
            yield f"43 unblock {promise_id}: {address} cannot be delivered to"
