"""What a run must have met to count: an oracle that takes notes, and how often each note is needed.

A differential test that never suspends a task proves nothing about suspending. So the run's oracle is a
`Witness`: it behaves as the oracle does and counts every reply by kind, status and dialect, and every event
worth having. `unmet` names the quotas a run has missed, in proportion to its length. Figures are per million
operations, about half of what the generator was measured to give.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from tests.model.fields import Json, Refused
from tests.model.locks import Leaves, Lock
from tests.model.machine import Promise, Schedule, Task, generation
from tests.model.oracle import Answer, Call, Oracle
from tests.model.streams import Asked

# Below this many operations chance weighs more than any quota.
COUNT_MIN = 5_000

EVENTS_PER_MILLION = {
    "suspend 200": 12_000,
    "suspend 300": 10_000,
    "settle with awaiters": 12_000,
    "resume": 8_000,
    "resume buffered": 4_000,
    "awaiter past its deadline left alone": 400,
    "lease expiry": 8_000,
    "taken over": 500,
    "promise timeout in a sweep": 18_000,
    "promise timeout with awaiters": 3_500,
    "several promises in one sweep": 4_000,
    "late settle": 10_000,
    "stale version 409": 10_000,
    "halt": 10_000,
    "continue": 7_000,
    "offered again": 15_000,
    "delayed dispatch": 600,
    "timer with target": 2_500,
    "bounce parking": 300,
    "retry release": 3_500,
    "claim with several": 800,
    "acquire repeated": 900,
    "acquire of a parked task": 4_000,
    "heartbeat of everything": 3_500,
    "heartbeat with lost leases": 5_000,
    "fence refused inside": 300,
    "listener told": 10_000,
    "schedule fired": 12_000,
    "schedule left out by overlap": 500,
    "schedule replaced": 1_200,
    "schedule met an existing id": 3_000,
    "schedule caught up": 2_000,
    "born settled": 6_000,
    "array": 25_000,
    "element appended": 15_000,
    "awaited element settled": 1_500,
    "append under a key again": 1_500,
    "number passed over": 150,
    "answer asked for": 4_000,
    "answer given": 500,
    "dependent ended with its execution": 1_500,
    "mailbox read": 800,
    "fence on a stream": 5_000,
    "restart": 5_000,
    "restart repeated": 50,
    "restart with less records": 300,
    "old elements deleted": 100,
    "event sent": 4_000,
    "event awaited": 1_500,
    "event woke somebody": 100,
    "progress told": 400,
    "tags changed": 1_000,
    "deadline with a grace": 6_000,
    "deadline asked": 1_000,
    "lock taken at once": 1_000,
    "lock waited for": 500,
    "lock granted later": 60,
    "lock refused for a ring": 50,
    "ring broken by a suspension": 50,
    "bound by a call of an entity": 30,
    "lock let go with its execution": 500,
}

STATUSES: dict[str, tuple[int, ...]] = {
    "promise.get": (200, 400, 404),
    "promise.create": (200, 400, 409),
    "promise.settle": (200, 400, 404, 409),
    "promise.register_callback": (200, 400, 404, 422),
    "promise.register": (200, 400, 404, 422),
    "promise.register_listener": (200, 400, 404),
    "promise.subscribe": (200, 400, 404),
    "promise.search": (200, 400),
    "task.get": (200, 400, 404),
    "task.create": (200, 400, 409, 422),
    "task.acquire": (200, 400, 404, 409),
    "task.claim": (200, 400),
    "task.start": (200, 400, 404, 409),
    "task.release": (200, 400, 404, 409),
    "task.fulfill": (200, 400, 404, 409),
    "task.suspend": (200, 300, 400, 404, 409, 422),
    "task.fence": (200, 400, 404, 409),
    "task.restart": (200, 400, 404, 409),
    "task.heartbeat": (200, 400),
    "task.halt": (200, 400, 404, 409),
    "task.continue": (200, 400, 404, 409),
    "task.search": (200, 400),
    "execution.get": (200, 400, 404),
    "execution.search": (200, 400),
    "execution.count": (200, 400),
    "schedule.get": (200, 400, 404),
    "schedule.create": (200, 400),
    "schedule.delete": (200, 400, 404),
    "schedule.search": (200, 400),
    "schedule.update": (200, 400, 404),
    "schedule.pause": (200, 400, 404),
    "schedule.trigger": (200, 400, 404),
    "schedule.backfill": (200, 400, 404),
    "stream.append": (200, 400, 404, 409),
    "stream.next": (200, 400, 404, 409),
    "stream.read": (200, 400, 404),
    "stream.list": (200, 400, 404),
    "event.send": (200, 400),
    "event.search": (200, 400),
    "event.subscribe": (200, 400),
    "event.unsubscribe": (200, 400),
    "lock.get": (200, 400, 404),
    "lock.search": (200, 400),
    "lock.release": (200, 400, 404, 409),
    "debug.tick": (200, 400),
}
CELL_PER_MILLION = 400
CELL_B_PER_MILLION = 100


def unmet(seen: Counter[str], count: int) -> list[str]:
    """The quotas that a run of `count` operations has missed, each as a sentence."""
    wanted = dict(EVENTS_PER_MILLION)
    for kind, statuses in STATUSES.items():
        wanted.update({f"{kind} {status}": CELL_PER_MILLION for status in statuses})
        wanted.update({f"{kind} {status} in B": CELL_B_PER_MILLION for status in statuses})
    needed = {name: _least(per_million * count / 1_000_000) for name, per_million in wanted.items()}
    return [
        f"{name}: {seen[name]} seen, {least} needed" for name, least in needed.items() if seen[name] < least
    ]


def _least(expected: float) -> int:
    """A short run is allowed what chance takes from it: three standard deviations."""
    return max(0, int(expected - 3 * math.sqrt(expected)))


class Witness(Oracle):
    """The oracle, taking notes in `seen`."""

    def __init__(self, *, retry_ms: int = 30_000) -> None:
        super().__init__(retry_ms=retry_ms)
        self.seen: Counter[str] = Counter()

    def handle(self, envelope: Any) -> Json:
        reply = super().handle(envelope)
        kind, head = reply["kind"], reply["head"]
        self.seen[f"{kind} {head['status']}"] += 1
        if head["version"] != "2026-04-01":
            self.seen[f"{kind} {head['status']} in B"] += 1
        if kind.startswith("task.") and head["status"] == 409:
            self._note_conflict(envelope["data"])
        return reply

    def _note_conflict(self, data: Json) -> None:
        task = self.tasks.get(str(data.get("id")))
        if task is not None and data.get("version", task.version) < task.version:
            self.seen["stale version 409"] += 1

    # ------------------------------------------------------------------------------------------- transitions

    def settle(self, promise: Promise, state: str, value: Json, settled_at: int, now: int) -> None:
        awaited, told = bool(promise.callbacks), len(promise.listeners)
        super().settle(promise, state, value, settled_at, now)
        self.seen["listener told"] += told
        if awaited and settled_at < promise.timeout_at:
            self.seen["settle with awaiters"] += 1
        if awaited and settled_at == promise.timeout_at:
            self.seen["promise timeout with awaiters"] += 1

    def resume(self, task: Task, awaited: str, now: int) -> None:
        state = task.state
        super().resume(task, awaited, now)
        if not self.live(task.id, now):
            self.seen["awaiter past its deadline left alone"] += state == "suspended"
        else:
            self.seen["resume" if state == "suspended" else "resume buffered"] += 1

    def add(
        self, promise: Promise, dialect: str, now: int, delay: int | None = None, version: int = 0
    ) -> None:
        super().add(promise, dialect, now, delay, version)
        if promise.timer and promise.id in self.tasks:
            self.seen["timer with target"] += 1
        if promise.state != "pending":
            self.seen["born settled"] += 1

    def acquire(self, task: Task, pid: str, ttl: int, now: int) -> None:
        self.seen["taken over"] += bool(task.lost) and "takenBy" not in task.lost[-1]
        super().acquire(task, pid, ttl, now)

    def set_deadline(self, promise: Promise, now: int) -> None:
        known = len(self.promises)
        super().set_deadline(promise, now)
        self.seen["deadline with a grace"] += len(self.promises) - known

    def sweep(self, now: int) -> None:
        pending = [promise for promise in self.promises.values() if promise.state == "pending"]
        acquired = [task for task in self.tasks.values() if task.state == "acquired"]
        offered = [t for t in self.tasks.values() if t.retry_at is not None and t.retry_at <= now]
        delayed = [t for t in offered if t.parked and "resonate:delay" in self.promises[t.id].tags]
        super().sweep(now)
        expired = sum(p.state != "pending" and p.settled_at == p.timeout_at for p in pending)
        self.seen["promise timeout in a sweep"] += expired
        self.seen["deadline asked"] += sum(
            p.state == "resolved" and p.timer and p.id.endswith("cancel") for p in pending
        )
        self.seen["several promises in one sweep"] += expired > 1
        self.seen["lease expiry"] += sum(task.state == "pending" for task in acquired)
        self.seen["offered again"] += sum(task.state == "pending" for task in offered)
        self.seen["delayed dispatch"] += sum(task.state == "pending" for task in delayed)

    def run_schedule(self, schedule: Schedule, now: int) -> None:
        before = self.seen["schedule fired"]
        super().run_schedule(schedule, now)
        self.seen["schedule caught up"] += self.seen["schedule fired"] > before + 1

    def fire(self, schedule: Schedule, occurrence: int, now: int) -> None:
        existed = schedule.promise_id_at(occurrence) in self.promises
        pending = self.last_run(schedule, now) is not None
        super().fire(schedule, occurrence, now)
        if existed:
            self.seen["schedule met an existing id"] += 1
        elif schedule.last_run_at != occurrence:
            self.seen["schedule left out by overlap"] += 1
        else:
            self.seen["schedule fired"] += 1
            self.seen["schedule replaced"] += pending and schedule.overlap == "replace"

    # ----------------------------------------------------------------------------------------------- streams

    def append(self, asked: Asked, fence: Task | None, call: Call) -> Json:
        before = {**self.streams.get(asked.id, {"counts": {}})["counts"]}
        known = len(self.promises)
        answer = super().append(asked, fence, call)
        if self.streams.get(asked.id, {"counts": {}})["counts"] == before:
            self.seen["append under a key again"] += 1
            return answer
        written = 1 + (asked.key is not None) + ("answer" in answer)
        self.seen["element appended"] += 1
        self.seen["awaited element settled"] += len(self.promises) < known + written
        self.seen["number passed over"] += answer["number"] > before.get(asked.stream, 0) + 1
        self.seen["answer asked for"] += "answer" in answer
        return answer

    def leave_execution(self, promise: Promise) -> None:
        super().leave_execution(promise)
        self.seen["answer given"] += "holdfast:answer" in promise.tags and promise.state == "resolved"

    def end_dependent(self, promise: Promise, now: int, ended: str = "") -> None:
        pending = promise.state == "pending"
        super().end_dependent(promise, now, ended)
        self.seen["dependent ended with its execution"] += pending

    def note_read(self, execution: Promise, number: int) -> None:
        super().note_read(execution, number)
        self.seen["mailbox read"] += number > 0

    # ---------------------------------------------------------------------------------------------- requests

    def promise_settle(self, data: Json, call: Call) -> Answer:
        promise = self.promises.get(str(data.get("id")))
        late = promise is not None and promise.timeout_at <= call.now
        answer = super().promise_settle(data, call)
        self.seen["late settle"] += late
        return answer

    def send_event(self, data: Json, call: Call) -> Json:
        answer = super().send_event(data, call)
        self.seen["event sent"] += 1
        return answer

    def await_event(self, data: Json, task: Task, call: Call) -> Json:
        answer = super().await_event(data, task, call)
        self.seen["event awaited"] += answer["promise"]["state"] == "pending"
        return answer

    def wake_buckets(self, event: Promise, buckets: list[str], now: int) -> None:
        super().wake_buckets(event, buckets, now)
        self.seen["event woke somebody"] += bool(buckets)

    def acquire_lock(self, data: Json, task: Task, call: Call) -> Json:
        try:
            answer = super().acquire_lock(data, task, call)
        except Refused as refused:
            self.seen["lock refused for a ring"] += refused.code == "HF1503"
            raise
        states = {"resolved": "lock taken at once", "pending": "lock waited for"}
        self.seen[states.get(answer["promise"]["state"], "lock asked for too late")] += 1
        return answer

    def bound_by(self, task: Task, awaiteds: list[str]) -> list[str]:
        found = super().bound_by(task, awaiteds)
        self.seen["bound by a call of an entity"] += any(each not in awaiteds for each in found)
        return found

    def break_ring(self, task: Task, now: int) -> None:
        before = sum(len(lock.waiters) for lock in self.locks.values())
        super().break_ring(task, now)
        after = sum(len(lock.waiters) for lock in self.locks.values())
        self.seen["ring broken by a suspension"] += after < before

    def drop(self, lock: Lock, leaves: Leaves, now: int) -> None:
        before, ended = lock.token, any(self.tasks[t.execution].state == "fulfilled" for t in lock.tickets)
        super().drop(lock, leaves, now)
        self.seen["lock granted later"] += lock.token > before
        self.seen["lock let go with its execution"] += ended

    def task_suspend(self, data: Json, call: Call) -> Answer:
        answer = super().task_suspend(data, call)
        self.seen[f"suspend {answer[0]}"] += 1
        return answer

    def task_halt(self, data: Json, call: Call) -> Answer:
        answer = super().task_halt(data, call)
        self.seen["halt"] += 1
        return answer

    def task_continue(self, data: Json, call: Call) -> Answer:
        answer = super().task_continue(data, call)
        self.seen["continue"] += 1
        return answer

    def task_release(self, data: Json, call: Call) -> Answer:
        answer = super().task_release(data, call)
        task = self.tasks[data["id"]]
        if data.get("retry") is not None:
            self.seen["retry release"] += 1
        elif task.parked and not self.promises[task.id].timer:
            self.seen["bounce parking"] += 1
        return answer

    def task_claim(self, data: Json, call: Call) -> Answer:
        answer = super().task_claim(data, call)
        self.seen["claim with several"] += len(answer[1]["tasks"]) > 1
        return answer

    def task_acquire(self, data: Json, call: Call) -> Answer:
        task = self.tasks.get(str(data.get("id")))
        version, parked = (task.version, task.parked) if task is not None else (0, False)
        answer = super().task_acquire(data, call)
        self.seen["acquire repeated"] += task is not None and task.version == version
        self.seen["acquire of a parked task"] += parked
        return answer

    def task_heartbeat(self, data: Json, call: Call) -> Answer:
        answer = super().task_heartbeat(data, call)
        self.seen["heartbeat of everything"] += not data["tasks"]
        self.seen["heartbeat with lost leases"] += "lost" in answer[1]
        self.seen["progress told"] += any(
            told["at"] == call.now for task in self.tasks.values() for told in task.progress
        )
        return answer

    def task_restart(self, data: Json, call: Call) -> Answer:
        known = len(self.promises)
        execution = self.promises.get(str(data.get("id")))
        before = 0 if execution is None else generation(execution)["number"]
        answer = super().task_restart(data, call)
        self.seen["restart"] += 1
        self.seen["restart repeated"] += before == data.get("generation", 0) + 1
        self.seen["restart with less records"] += len(self.promises) < known
        return answer

    def trim_stream(self, execution: Promise, stream: str, end: int, now: int) -> tuple[int, int]:
        before = self.gone(execution, stream)
        found = super().trim_stream(execution, stream, end, now)
        self.seen["old elements deleted"] += found[0] > before
        return found

    def task_fence(self, data: Json, call: Call) -> Answer:
        answer = super().task_fence(data, call)
        self.seen["fence refused inside"] += answer[1]["action"]["head"]["status"] >= 400
        self.seen["tags changed"] += answer[1]["action"]["kind"] == "execution.tag"
        self.seen["fence on a stream"] += answer[1]["action"]["kind"].startswith("stream.")
        return answer
