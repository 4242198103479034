"""The oracle's memory: what is stored, how it looks at an instant, and the steps that change it.

Owns the records, the view (a passed deadline counts before it is written down), the transitions that several
requests share, the sweep, and the snapshot. Which request may take which step is oracle.py's matter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from tests.model import fields
from tests.model.fields import INSTANT_MAX, Json

CATCH_UP_DEFAULT = 100
LATE_RUN_MS = 60_000
BACKFILL_MOST = 100
BACKFILL_AHEAD_MOST = 60_000
SUPERSEDED: Json = {"headers": {"holdfast:superseded": "true"}}
NEXT_VERSION = "holdfast:next-version"
RUN = "holdfast:run"
LINEAGE = ("resonate:origin", "resonate:branch", "resonate:parent", "resonate:prefix")

OFFER_LONGEST_MS = 3_600_000  # between two offers of a task that nobody takes


@dataclass(slots=True)
class Promise:
    id: str
    param: Json
    tags: dict[str, str]
    timeout_at: int
    created_at: int
    ikc: str | None = None
    state: str = "pending"
    value: Json = field(default_factory=dict[str, Any])
    settled_at: int | None = None
    iku: str | None = None
    callbacks: list[str] = field(default_factory=list[str])  # awaiters
    listeners: dict[str, str] = field(default_factory=dict[str, str])  # address -> dialect

    @property
    def timer(self) -> bool:
        return self.tags.get("resonate:timer") == "true"

    @property
    def state_at_timeout(self) -> str:
        """What it becomes when nobody settles it in time."""
        return "resolved" if self.timer else "rejected_timedout"


@dataclass(slots=True)
class Task:
    id: str
    target: str
    dialect: str
    state: str = "pending"
    version: int = 0
    resumes: int = 0
    pid: str | None = None
    ttl: int | None = None
    lease_at: int | None = None
    retry_at: int | None = None
    parked: bool = False
    bounces: int = 0
    crashes: int = 0
    acquired_at: int = 0
    offered_since: int = 0
    acquired_by: tuple[str, str, int] | None = None  # corrId, pid, version of the task.acquire of this lease
    woken_by: str | None = None
    started_at: int | None = None
    retries: int | None = None
    error: str | None = None
    halted: Json | None = None  # with a reason
    lapsed: str | None = None  # who held it, if its lease lapsed and nobody has taken it since
    rested_at: int = 0  # when it was suspended or halted
    waits: list[Json] = field(default_factory=list[Json])
    bound: list[str] = field(default_factory=list[str])  # if it waits only for tickets and executions: those
    lost: list[Json] = field(
        default_factory=list[Json]
    )  # claims that lapsed or were given back with an error
    progress: list[Json] = field(default_factory=list[Json])  # what its steps told


@dataclass(slots=True)
class Schedule:
    id: str
    cron: str
    promise_id: str
    promise_timeout: int
    promise_param: Json
    promise_tags: dict[str, str]
    created_at: int
    next_run_at: int
    dialect: str
    timezone: str | None
    overlap: str | None
    catch_up: int | None
    last_run_at: int | None = None
    paused_at: int | None = None

    def promise_id_at(self, instant: int) -> str:
        return self.promise_id.replace("{{.id}}", self.id).replace("{{.timestamp}}", str(instant))


GENERATION = "holdfast:generation"


def headers_of(value: Json) -> dict[str, str]:
    found: dict[str, str] = value.get("headers") or {}
    return found


def generation(promise: Promise, *, ended: bool = False) -> Json:
    """Of a pending execution: how often it has continued, and the message up to which it has read."""
    text = headers_of(promise.value).get(GENERATION)
    told = ended or promise.state == "pending"
    found: Json = {"number": 0, "read": 0} | (json.loads(text) if text and told else {})
    return found


def with_generation(value: Json, before: Json) -> Json:
    """What it settles with says in which generation that was."""
    text = headers_of(before).get(GENERATION)
    if text is None:
        return value
    number = json.loads(text)["number"]
    kept = json.dumps({"number": number}, separators=(",", ":"))
    return {**value, "headers": {**headers_of(value), GENERATION: kept}}


RECORDS = tuple(f"holdfast:{name}" for name in ("lock", "topic", "waits", "bucket", "event"))


def is_kept(promise: Promise) -> bool:
    """Is it a record of the node's: of a lock, or of events?"""
    return (
        any(name in promise.tags for name in RECORDS)
        and not {
            "holdfast:dependent",
            "resonate:target",
        }
        & promise.tags.keys()
    )


def below(execution: str) -> str:
    return f"{execution}." if ":" in execution else f"{execution}:"


class Machine:
    """The state of a whole server, and everything that can happen to it."""

    def __init__(self, *, retry_ms: int) -> None:
        self.retry_ms = retry_ms
        self.promises: dict[str, Promise] = {}
        self.tasks: dict[str, Task] = {}
        self.schedules: dict[str, Schedule] = {}
        self.messages: dict[tuple[str, ...], Json] = {}
        self.streams: dict[str, Json] = {}  # by execution, as a snapshot shows them

    # ------------------------------------------------------------------------------------------ the view

    def live(self, promise_id: str, now: int) -> bool:
        """Is the promise pending at this instant, whatever is stored?"""
        promise = self.promises[promise_id]
        return promise.state == "pending" and now < promise.timeout_at

    def show_promise(self, promise: Promise, dialect: str, now: int | None) -> Json:
        """A promise record at `now`, or as it is stored if `now` is None."""
        state, settled_at, value = promise.state, promise.settled_at, promise.value
        if now is not None and state == "pending" and promise.timeout_at <= now:
            state, settled_at = promise.state_at_timeout, promise.timeout_at
            value = with_generation({}, value)
        record: Json = {
            "id": promise.id,
            "state": state,
            "param": show_payload(promise.param, dialect),
            "value": show_payload(value, dialect),
            "tags": promise.tags,
            "timeoutAt": promise.timeout_at,
            "createdAt": promise.created_at,
        }
        if settled_at is not None:
            record["settledAt"] = settled_at
        if promise.ikc is not None:
            record["ikc"] = promise.ikc
        if promise.iku is not None:
            record["iku"] = promise.iku
        return record

    def show_task(self, task: Task, now: int | None) -> Json:
        """A task record at `now`, or as it is stored if `now` is None."""
        if now is not None and not self.live(task.id, now):
            record: Json = {"id": task.id, "state": "fulfilled", "version": task.version, "resumes": 0}
        else:
            record = {"id": task.id, "state": task.state, "version": task.version, "resumes": task.resumes}
            if task.state == "acquired":
                record["pid"], record["ttl"] = task.pid, task.ttl
            if task.halted is not None:
                record["halted"] = task.halted
            if task.progress:
                record["progress"] = task.progress
        if task.started_at is not None:
            record["startedAt"] = task.started_at
        if task.retries is not None:
            record["retries"] = task.retries
        if task.error is not None:
            record["error"] = task.error
        return record

    def show_schedule(self, schedule: Schedule, dialect: str) -> Json:
        record: Json = {
            "id": schedule.id,
            "cron": schedule.cron,
            "promiseId": schedule.promise_id,
            "promiseTimeout": schedule.promise_timeout,
            "promiseParam": show_payload(schedule.promise_param, dialect),
            "promiseTags": schedule.promise_tags,
            "createdAt": schedule.created_at,
            "nextRunAt": schedule.next_run_at,
        }
        optional = {
            "lastRunAt": schedule.last_run_at,
            "timezone": schedule.timezone,
            "overlap": schedule.overlap,
            "catchUp": schedule.catch_up,
            "pausedAt": schedule.paused_at,
        }
        record.update({name: value for name, value in optional.items() if value is not None})
        return record

    # --------------------------------------------------------------------------------------- transitions

    def offer(self, task: Task) -> None:
        """Queue the message that asks a worker to take the task; it replaces an older one.

        Open: one of a higher version stays. That can only be of an earlier life under the same id, and
        whoever answers it is refused; the task is offered again.
        """
        waiting = self.messages.get(("execute", task.id))
        if waiting is not None and waiting["message"]["data"]["task"]["version"] > task.version:
            return
        kind = "execute"
        if task.dialect == "B":
            kind = "invoke" if task.woken_by is None else "resume"
        body = {"kind": kind, "head": {}, "data": {"task": {"id": task.id, "version": task.version}}}
        self.messages["execute", task.id] = {"address": task.target, "message": body}

    def enter_pending(self, task: Task, now: int, park_until: int | None = None) -> None:
        """The one way into pending: offered at once, or parked."""
        promise = self.promises[task.id]
        leave_lease(task)
        task.state = "pending"
        if promise.timer:
            park_until = promise.timeout_at
        task.parked = park_until is not None
        if park_until is not None:
            task.retry_at = min(park_until, INSTANT_MAX)
            task.offered_since = task.retry_at
        else:
            task.retry_at = min(now + self.retry_ms, INSTANT_MAX)
            task.offered_since = now
            self.offer(task)

    def acquire(self, task: Task, pid: str, ttl: int, now: int) -> None:
        leave_lease(task)
        task.state = "acquired"
        task.version += 1
        task.resumes = 0
        task.pid, task.ttl = pid, ttl
        task.lease_at = min(now + ttl, INSTANT_MAX)
        task.acquired_at = now
        if task.lost:
            task.lost[-1].setdefault("takenAt", now)
            task.lost[-1].setdefault("takenBy", pid)

    def settle(self, promise: Promise, state: str, value: Json, settled_at: int, now: int) -> None:
        """Settle a pending promise: its task, then its callbacks, its listeners, its dependents."""
        promise.state, promise.settled_at = state, settled_at
        promise.value = with_generation(value, promise.value)
        if promise.id in self.tasks:
            task = self.tasks[promise.id]
            leave_lease(task)
            task.state = "fulfilled"
            task.resumes = 0
            task.progress = []
        self.leave_execution(promise)
        awaiters, promise.callbacks = promise.callbacks, []
        for awaiter in awaiters:
            if awaiter in self.tasks:
                self.resume(self.tasks[awaiter], promise.id, now)
        for address, dialect in promise.listeners.items():
            record = self.show_promise(promise, dialect, None)
            kind = "notify" if dialect == "B" else "unblock"
            body = {"kind": kind, "head": {}, "data": {"promise": record}}
            self.messages["unblock", promise.id, address] = {"address": address, "message": body}
        promise.listeners = {}
        for awaiter in sorted(awaiters):  # by id: whoever awaits two of them is woken by the first
            if awaiter not in self.tasks:
                self.end_dependent(self.promises[awaiter], now, promise.id)

    def end_dependent(self, promise: Promise, now: int, ended: str = "") -> None:
        """What it depended on, `ended`, has settled."""
        if self.live(promise.id, now):
            over: Json = {"headers": {"holdfast-code": "HF1402"}}
            self.settle(promise, "rejected_canceled", over, now, now)
        elif promise.state == "pending":
            self.settle(promise, promise.state_at_timeout, {}, promise.timeout_at, now)

    def leave_execution(self, promise: Promise) -> None:
        """A dependent that settles does not depend any more."""
        execution = self.promises.get(promise.tags.get("holdfast:dependent", ""))
        if execution is None or promise.id not in execution.callbacks:
            return
        execution.callbacks.remove(promise.id)
        if "holdfast:answer" in promise.tags:
            self.streams[execution.id]["openAnswers"] -= 1

    def resume(self, task: Task, awaited: str, now: int) -> None:
        """Tell an awaiter that `awaited` settled."""
        if not self.live(task.id, now) or task.state == "fulfilled":
            return
        if task.state == "suspended":
            task.resumes = 1
            task.woken_by = awaited  # Open: only a wake counts, not a resume that is buffered.
            self.enter_pending(task, now)
        else:
            task.resumes += 1

    def lose(self, task: Task, until: int, end: str) -> None:
        """The last twenty claims that did not end well are remembered."""
        claim: Json = {"worker": task.pid, "since": task.acquired_at, "until": until, "end": end}
        task.lost = [*task.lost, claim][-20:]

    def does_not_get_on(self, task: Task, why: str, delay: int, now: int) -> bool:
        """One more failure without progress: it rests, or is halted. Was it?"""
        tags = self.promises[task.id].tags
        counted = fields.CRASHES in tags or "holdfast:workflow" in tags
        task.crashes = task.crashes + 1 if counted else 0
        if counted and task.crashes >= int(tags.get(fields.CRASHES, "10")):
            leave_lease(task)
            reason = why.format(task.crashes).encode()[:4_096].decode("utf-8", "ignore")
            task.state, task.rested_at, task.error = "halted", now, reason
            task.halted = {"at": now, "reason": reason, "code": "HF1408"}
            return True
        rest = min(600_000, 1_000 * 2 ** (task.crashes - 2)) if task.crashes >= 2 else 0
        longest = max(rest, delay)
        self.enter_pending(task, now, now + longest if longest else None)
        return False

    def sweep(self, now: int) -> None:
        """Everything that is due at `now`. Open: each of the four in the order of (instant, id)."""
        due = [p for p in self.promises.values() if p.state == "pending" and p.timeout_at <= now]
        for promise in sorted(due, key=lambda promise: (promise.timeout_at, promise.id)):
            if promise.state == "pending" and self.somebody_depends_on(promise):  # not ended by one before it
                self.expire(promise, now)
        leases = [
            (t.lease_at, t.id) for t in self.tasks.values() if t.lease_at is not None and t.lease_at <= now
        ]
        for _, task_id in sorted(leases):
            task = self.tasks[task_id]
            task.started_at = None
            pid = task.pid
            assert task.lease_at is not None
            self.lose(task, task.lease_at, "lapsed")
            why = f"its worker died {{}} times in a row without progress, the last one was {pid}"
            if not self.does_not_get_on(task, why, 0, now):
                task.lapsed = pid
        retries = [
            (t.retry_at, t.id) for t in self.tasks.values() if t.retry_at is not None and t.retry_at <= now
        ]
        for _, task_id in sorted(retries):
            task = self.tasks[task_id]
            task.parked = False
            waited = min(now - task.offered_since, OFFER_LONGEST_MS)
            task.retry_at = min(now + max(waited, self.retry_ms), INSTANT_MAX)
            self.offer(task)
        schedules = [(s.next_run_at, s.id) for s in self.schedules.values() if s.next_run_at <= now]
        for _, schedule_id in sorted(schedules):
            self.run_schedule(self.schedules[schedule_id], now)

    def expire(self, promise: Promise, now: int) -> None:
        self.settle(promise, promise.state_at_timeout, {}, promise.timeout_at, now)

    def run_what_is_due(self, schedule: Schedule, now: int) -> None:
        if schedule.next_run_at <= now:
            self.run_schedule(schedule, now)

    def somebody_depends_on(self, promise: Promise) -> bool:
        if promise.id in self.tasks or promise.callbacks or promise.listeners:
            return True
        return (
            promise.timer
            or promise.tags.get("resonate:external") == "true"
            or "holdfast:dependent" in promise.tags
            or "holdfast:ticket" in promise.tags
            or "holdfast:bucket" in promise.tags
        )

    def run_schedule(self, schedule: Schedule, now: int) -> None:
        """Fire the newest due occurrences, oldest first."""
        occurrences: list[int] = []
        instant: int | None = schedule.next_run_at
        while instant is not None and instant <= now:
            occurrences.append(instant)
            instant = fields.next_occurrence(schedule.cron, schedule.timezone, instant)
        schedule.next_run_at = INSTANT_MAX if instant is None else instant
        if schedule.catch_up == 0:
            occurrences = [each for each in occurrences[-1:] if each >= now - LATE_RUN_MS]
        elif schedule.catch_up is None:
            occurrences = occurrences[-CATCH_UP_DEFAULT:]
        else:
            occurrences = occurrences[-schedule.catch_up :]
        for occurrence in occurrences:
            self.fire(schedule, occurrence, now)

    def fire(self, schedule: Schedule, occurrence: int, now: int) -> None:
        """One occurrence. Open: an id that exists comes before the overlap rule."""
        promise_id = schedule.promise_id_at(occurrence)
        if promise_id in self.promises:
            schedule.last_run_at = occurrence
            return
        last = self.last_run(schedule, now)
        if last is not None and schedule.overlap == "skip":
            return
        if last is not None and schedule.overlap == "replace":
            self.settle(last, "rejected_canceled", {}, now, now)
        schedule.last_run_at = occurrence
        self.add_run(schedule, promise_id, occurrence, now)

    def last_run(self, schedule: Schedule, now: int) -> Promise | None:
        """The promise that was fired last, if it is pending. A new template finds none under the old name."""
        if schedule.last_run_at is None:
            return None
        last = self.promises.get(schedule.promise_id_at(schedule.last_run_at))
        return last if last is not None and self.live(last.id, now) else None

    def add_run(self, schedule: Schedule, promise_id: str, occurrence: int, now: int) -> None:
        tags = dict.fromkeys(LINEAGE, promise_id) | schedule.promise_tags | {"resonate:schedule": schedule.id}
        timeout_at = min(occurrence + schedule.promise_timeout, INSTANT_MAX)
        promise = Promise(promise_id, schedule.promise_param, tags, timeout_at, created_at=occurrence)
        self.add(promise, schedule.dialect, now)

    def add(
        self, promise: Promise, dialect: str, now: int, delay: int | None = None, version: int = 0
    ) -> None:
        """A new promise, and its task if it has a target; born settled if its deadline has passed."""
        self.promises[promise.id] = promise
        target = fields.target_of(promise.tags, dialect)
        if target is not None:
            self.tasks[promise.id] = Task(promise.id, target, dialect, version=version)
            if version:
                promise.tags = {**promise.tags, RUN: str(version)}
        elif version:
            promise.tags = {**promise.tags, NEXT_VERSION: str(version)}
        if promise.timeout_at <= now:
            self.settle(promise, promise.state_at_timeout, promise.value, promise.timeout_at, now)
        elif target is not None:
            self.set_deadline(promise, now)
            self.enter_pending(
                self.tasks[promise.id], now, delay if delay is not None and delay > now else None
            )

    def superseded(self, promise_id: str) -> int:
        raise NotImplementedError

    def created(self, promise_id: str) -> Promise | None:
        """What is there for whoever creates something: not what is only kept for its version."""
        promise = self.promises.get(promise_id)
        return None if promise is None or promise.value == SUPERSEDED else promise

    def put_record(self, promise: Promise) -> None:
        """Something new without a task, which carries the version of a task that was there."""
        version = self.superseded(promise.id)
        if version:
            promise.tags = {**promise.tags, NEXT_VERSION: str(version)}
        self.promises[promise.id] = promise

    def keep_version(self, deleted: Promise) -> None:
        """What carries the version of a task that was there before it leaves that."""
        if NEXT_VERSION not in deleted.tags:
            return
        names = ("resonate:origin", NEXT_VERSION)
        tags = {name: text for name, text in deleted.tags.items() if name in names}
        kept = Promise(deleted.id, {}, tags, deleted.timeout_at, deleted.created_at)
        kept.state, kept.value, kept.settled_at = "rejected_canceled", SUPERSEDED, deleted.settled_at
        self.promises[deleted.id] = kept

    def set_deadline(self, promise: Promise, now: int) -> None:
        """With a grace, the promise that asks it to cancel is a timer."""
        grace = int(promise.tags.get(fields.GRACE, "0"))
        name = f"{below(promise.id)}cancel"
        if not grace or name in self.promises:
            return
        tags = {
            "resonate:origin": promise.tags.get("resonate:origin", promise.id),
            "resonate:branch": promise.id,
            "resonate:parent": promise.id,
            "resonate:scope": "global",
            "resonate:timer": "true",
        }
        instant = max(0, promise.timeout_at - grace)
        asked = Promise(name, {"headers": {"holdfast:op": "cancel"}}, tags, instant, min(now, instant))
        self.promises[name] = asked
        if instant <= now:
            asked.state, asked.settled_at = "resolved", instant
        else:
            asked.callbacks.append(promise.id)

    def snap(self, dialect: str = "A") -> Json:
        """What is stored, each list sorted."""
        promises = sorted(self.promises.values(), key=attrgetter("id"))
        tasks = sorted(self.tasks.values(), key=attrgetter("id"))
        shown: Json = {
            "promises": [self.show_promise(promise, dialect, None) for promise in promises],
            "promiseTimeouts": [
                {"id": promise.id, "timeout": promise.timeout_at}
                for promise in promises
                if promise.state == "pending" and self.somebody_depends_on(promise)
            ],
            "callbacks": [
                {"awaiter": awaiter, "awaited": awaited}
                for awaiter, awaited in sorted((awaiter, p.id) for p in promises for awaiter in p.callbacks)
            ],
            "listeners": [
                {"id": promise.id, "address": address}
                for promise in promises
                for address in sorted(promise.listeners)
            ],
            "tasks": [self.show_task(task, None) for task in tasks],
            "taskTimeouts": [
                {"id": task.id, "type": kind, "timeout": instant}
                for task in tasks
                for kind, instant in ((0, task.retry_at), (1, task.lease_at))
                if instant is not None
            ],
            "messages": sorted(self.messages.values(), key=message_order),
            "schedules": [self.show_schedule(s, dialect) for _, s in sorted(self.schedules.items())],
        }
        if self.streams:
            shown["streams"] = [{**record} for _, record in sorted(self.streams.items())]
        return shown


def show_payload(payload: Json, dialect: str) -> Json:
    nothing: Json = {"headers": {}, "data": ""}
    return nothing | payload if dialect == "B" else payload


def leave_lease(task: Task) -> None:
    """Clear what only a pending or an acquired task has."""
    task.pid = task.ttl = task.lease_at = task.retry_at = task.acquired_by = None
    task.halted = task.lapsed = None
    task.parked = False


def message_order(entry: Json) -> tuple[str, str, str]:
    """Open: by address, then kind, then the id of the task or promise."""
    message = entry["message"]
    (record,) = message["data"].values()
    return entry["address"], message["kind"], record["id"]
