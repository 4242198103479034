"""The oracle: the protocol of docs/reference/protocol.md as a naive machine over dictionaries.

One request envelope in, one reply envelope out. It was written from the texts alone, imports nothing from
`src/`, and is meant to be read next to the specification. Nothing here is fast on purpose, nothing is clever.
Messages are never delivered: they wait in `messages` until `debug.reset`.

1. Fields are checked before anything is looked up, and everything is looked up before anything is written,
   so a refused request changes nothing.
2. No request writes a passed deadline down; every guard and reply asks `live()` or shows the view. Only
   `sweep()` writes it.
3. A task exists exactly when its promise was created with a target, and is fulfilled in the same step in
   which its promise settles.

What the texts leave open is decided here in the simplest way, and marked with "Open:".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from tests.model import fields
from tests.model.events import EventMachine, read_await, read_send
from tests.model.execution_views import ExecutionViews, read_cursor, read_waits
from tests.model.fields import INSTANT_MAX, Json, Refused, bad
from tests.model.locks import LockMachine, read_acquire, read_release
from tests.model.machine import (
    BACKFILL_AHEAD_MOST,
    BACKFILL_MOST,
    RUN,
    Promise,
    Schedule,
    Task,
    generation,
    is_kept,
    leave_lease,
)
from tests.model.mending import ON_EXISTING, MendingMachine
from tests.model.restarts import RestartMachine
from tests.model.streams import StreamMachine, below

LISTENERS_MAX = 10_000

CLIENT_STATES = ("resolved", "rejected", "rejected_canceled")
PROMISE_STATES = ("pending", *CLIENT_STATES, "rejected_timedout")
TASK_STATES = ("pending", "acquired", "suspended", "halted", "fulfilled")
FENCED = (
    "event.send",
    "event.await",
    "promise.create",
    "promise.settle",
    "stream.append",
    "stream.next",
    "lock.acquire",
    "lock.release",
    "execution.tag",
)
STEERED = {
    "execution.cancel": "execution_cancel",
    "execution.retry": "execution_retry",
    "task.halt": "task_halt",
    "task.continue": "task_continue",
}
PROGRESS = ("promise.create", "promise.settle", "lock.acquire", "event.await")  # each names its record
REGISTER_KINDS = ("promise.register_callback", "promise.register")

BOUNCE_WITHIN_MS = 1_000
BOUNCE_FIRST_MS = 100
BOUNCE_LONGEST_MS = 60_000

# The kind of a request -> the method of Oracle that answers it.
OPERATIONS = {
    "promise.get": "promise_get",
    "promise.create": "promise_create",
    "promise.settle": "promise_settle",
    "promise.register_callback": "promise_register_callback",
    "promise.register": "promise_register_callback",
    "promise.register_listener": "promise_register_listener",
    "promise.subscribe": "promise_register_listener",
    "promise.search": "promise_search",
    "task.get": "task_get",
    "task.create": "task_create",
    "task.acquire": "task_acquire",
    "task.claim": "task_claim",
    "task.start": "task_start",
    "task.release": "task_release",
    "task.fulfill": "task_fulfill",
    "task.suspend": "task_suspend",
    "task.fence": "task_fence",
    "task.restart": "task_restart",
    "task.heartbeat": "task_heartbeat",
    "task.halt": "task_halt",
    "task.continue": "task_continue",
    "task.search": "task_search",
    "execution.get": "execution_get",
    "execution.search": "execution_search",
    "execution.count": "execution_count",
    "execution.start": "execution_begin",
    "execution.cancel": "execution_cancel",
    "execution.retry": "execution_retry",
    "execution.fork": "execution_fork",
    "schedule.get": "schedule_get",
    "schedule.create": "schedule_create",
    "schedule.delete": "schedule_delete",
    "schedule.search": "schedule_search",
    "schedule.update": "schedule_update",
    "schedule.pause": "schedule_pause",
    "schedule.trigger": "schedule_trigger",
    "schedule.backfill": "schedule_backfill",
    "stream.append": "stream_append",
    "stream.next": "stream_next",
    "stream.read": "stream_read",
    "stream.list": "stream_list",
    "event.send": "event_send",
    "event.search": "event_search",
    "event.subscribe": "event_subscribe",
    "event.unsubscribe": "event_unsubscribe",
    "lock.get": "lock_get",
    "lock.search": "lock_search",
    "lock.release": "lock_release",
    "debug.start": "debug_nothing",
    "debug.stop": "debug_nothing",
    "debug.reset": "debug_reset",
    "debug.tick": "debug_tick",
    "debug.snap": "debug_snap",
}


@dataclass(frozen=True, slots=True)
class Call:
    """What a request brings along besides its data."""

    now: int
    dialect: str
    version: str
    corr_id: str
    debug_time: int | None


Answer = tuple[int, Any]


class Oracle(ExecutionViews, EventMachine, LockMachine, MendingMachine, RestartMachine):
    """The whole server as one object; `handle` is its only door."""

    answer_chars = 8 * 1_048_576  # about so much is in a page, and in the answer to a claim

    def __init__(self, *, retry_ms: int = 30_000, debug: bool = True) -> None:
        super().__init__(retry_ms=retry_ms)
        self.debug = debug
        self.scope: str | None = None
        self.now = 0  # used when a request carries no debug time

    # ---------------------------------------------------------------------------------------- envelopes

    def handle(self, envelope: Any) -> Json:
        kind, corr_id, version = "unknown", "0", fields.DIALECT_A
        wrong = "HF1000"  # the code of what is not as it should be, as far as was looked
        code = None
        try:
            envelope = fields.check_object(envelope, "the envelope")
            if isinstance(envelope.get("kind"), str):
                kind = envelope["kind"]
            head = fields.check_object(envelope.get("head"), "head")
            if isinstance(head.get("corrId"), str):
                corr_id = head["corrId"]
            if kind in ("unknown", "") or not isinstance(head.get("version"), str):
                raise bad("kind and head.version must be strings, kind not empty")
            fields.check_text(head.get("corrId"), "head.corrId", fields.NAME_BYTES_MAX)
            data = fields.check_object(envelope.get("data"), "data")
            wrong = "HF1002"
            dialect = fields.dialect_of(head["version"])
            version = head["version"]
            wrong = "HF1003"
            if kind not in OPERATIONS:
                raise bad("unknown kind")
            wrong = "HF1000"
            if kind.startswith("debug.") and not self.debug:
                raise Refused(403, "debug mode is off", "HF1004")
            debug_time = fields.optional_integer(head, "resonate:debug_time") if self.debug else None
            if debug_time is not None:
                self.now = debug_time
            wrong = "HF1001"
            operation: Callable[[Json, Call], Answer] = getattr(self, OPERATIONS[kind])
            status, answer = operation(data, Call(self.now, dialect, version, corr_id, debug_time))
        except Refused as refused:
            code = refused.code or wrong
            status, answer = refused.status, f"{refused.why} [{code}]"
        head = {"corrId": corr_id, "status": status, "version": version}
        return {"kind": kind, "head": _with_code(head, code), "data": answer}

    def preload(self, task_id: str, call: Call) -> list[Json]:
        """Every other promise of the same branch, by id."""
        branch = self.promises[task_id].tags.get("resonate:branch")
        if branch is None:
            return []
        first: list[Promise] = []
        if number := generation(self.promises[task_id])["number"]:
            branch = f"{below(task_id)}g{number}"
            cancel = self.promises.get(f"{below(task_id)}cancel")
            first = [] if cancel is None else [cancel]
        members = [
            promise
            for _, promise in sorted(self.promises.items())
            if promise.id != task_id and promise.tags.get("resonate:branch") == branch
        ]
        return [self.show_promise(promise, call.dialect, call.now) for promise in (*first, *members)]

    def acquired_answer(self, task: Task, call: Call, is_known: bool = False) -> Json:
        """The union of both dialects' replies to an acquire. What is known is not preloaded."""
        promise = self.show_promise(self.promises[task.id], call.dialect, call.now)
        data: Json = {"invoked": promise}
        if task.woken_by is not None and task.woken_by in self.promises:
            data["awaited"] = self.show_promise(self.promises[task.woken_by], call.dialect, call.now)
        return {
            "task": self.show_task(task, call.now),
            "promise": promise,
            "preload": [] if is_known else self.preload(task.id, call),
            "kind": "invoke" if task.woken_by is None else "resume",
            "data": data,
            **({"cursor": ""} if is_known and "resonate:branch" in self.promises[task.id].tags else {}),
        }

    def chars(self, promise: Promise) -> int:
        """About how large it is in an answer."""
        return chars(promise.param, promise.tags) + chars(promise.value, {}) + len(promise.id) + 256

    def schedule_chars(self, name: str) -> int:
        schedule = self.schedules[name]
        return chars(schedule.promise_param, schedule.promise_tags)

    def fitting(self, sizes: list[int]) -> int:
        """How many go into one answer: the first one always does."""
        count = total = 0
        for size in sizes:
            total += size
            if count and total > self.answer_chars:
                break
            count += 1
        return count

    def page(
        self, name: str, found: Iterable[Json], data: Json, limit_default: int, size: Callable[[str], int]
    ) -> Json:
        """One page of records, by id; the cursor is there only if more follow that the caller may see."""
        limit = fields.optional_integer(data, "limit", 1, 1_000) or limit_default
        cursor = fields.optional_text(data, "cursor") or ""
        prefix = fields.optional_text(data, "prefix") or ""
        rest = sorted(
            (
                record
                for record in found
                if record["id"] > cursor
                and record["id"].startswith(prefix)
                and (self.scope is None or fields.reaches(self.scope, record["id"]))
            ),
            key=lambda record: record["id"],
        )
        count = self.fitting([size(record["id"]) for record in rest[:limit]])
        answer: Json = {name: rest[:count]}
        if len(rest) > count:
            answer["cursor"] = rest[count - 1]["id"]
        return answer

    # ------------------------------------------------------------------------------------------ promises

    def promise_or_404(self, promise_id: str) -> Promise:
        if promise_id not in self.promises:
            raise Refused(404, "no such promise", "HF1101")
        return self.promises[promise_id]

    def promise_answer(self, promise: Promise, call: Call) -> Answer:
        return 200, {"promise": self.show_promise(promise, call.dialect, call.now)}

    def promise_get(self, data: Json, call: Call) -> Answer:
        return self.promise_answer(self.promise_or_404(fields.identifier(data, "id")), call)

    def promise_create(self, data: Json, call: Call) -> Answer:
        new, delay = self.read_create(data, call)
        settle = read_settle_at_once(data, new, call)
        version = self.superseded(new.id)
        existing = self.existing(new)
        if existing is None:
            self.add(new, call.dialect, call.now, delay, version)
        if settle is not None:
            return self.promise_settle(settle, call)
        return self.promise_answer(existing or new, call)

    def read_create(self, data: Json, call: Call) -> tuple[Promise, int | None]:
        """The promise a promise.create asks for, and its delay."""
        timeout_at = fields.integer(data, "timeoutAt")
        promise = Promise(
            id=fields.identifier(data, "id"),
            param=fields.payload(data, "param"),
            tags=fields.tags(data, "tags", call.dialect),
            timeout_at=timeout_at,
            created_at=min(call.now, timeout_at),
            ikc=fields.optional_text(data, "ikc"),
        )
        delay = fields.delay_of(promise.tags)
        if delay is not None and fields.target_of(promise.tags, call.dialect) is None:
            raise bad("a delay needs a target")
        if delay is not None and delay >= timeout_at:
            raise bad("the delay must end before timeoutAt")
        return promise, delay

    def existing(self, new: Promise) -> Promise | None:
        """The promise already stored under that id; 409 if it was created under another key."""
        promise = self.promises.get(new.id)
        if promise is not None and differ(promise.ikc, new.ikc):
            raise Refused(409, "the promise was created with another ikc", "HF1202")
        return promise

    def promise_settle(self, data: Json, call: Call) -> Answer:
        promise_id, state, value, iku = read_settle(data)
        promise = self.promise_or_404(promise_id)
        if promise.state == "pending" and is_kept(promise):
            raise bad("the record of a lock or of events is not settled")
        if differ(promise.iku, iku):
            raise Refused(409, "the promise was settled with another iku", "HF1202")
        if self.live(promise_id, call.now):
            promise.iku = iku
            self.settle(promise, state, value, call.now, call.now)
        return self.promise_answer(promise, call)

    def promise_register_callback(self, data: Json, call: Call) -> Answer:
        awaited, awaiter = fields.identifier(data, "awaited"), fields.identifier(data, "awaiter")
        if awaited == awaiter:
            raise bad("a promise cannot await itself")
        promise = self.promise_or_404(awaited)
        if awaiter not in self.tasks:
            raise Refused(422, "the awaiter does not exist or has no target", "HF1301")
        if self.live(awaited, call.now) and self.live(awaiter, call.now) and awaiter not in promise.callbacks:
            promise.callbacks.append(awaiter)
        return self.promise_answer(promise, call)

    def promise_register_listener(self, data: Json, call: Call) -> Answer:
        awaited = fields.identifier(data, "awaited")
        address = fields.check_address(data.get("address"), "address")
        promise = self.promise_or_404(awaited)
        if self.live(awaited, call.now):
            if address not in promise.listeners and len(promise.listeners) >= LISTENERS_MAX:
                raise Refused(400, "too many listeners")
            promise.listeners.setdefault(
                address, call.dialect
            )  # Open: the first registration's dialect stays.
        return self.promise_answer(promise, call)

    def promise_search(self, data: Json, call: Call) -> Answer:
        state = fields.optional_one_of(data, "state", PROMISE_STATES)
        tags = fields.optional_map(data, "tags")
        views = (self.show_promise(promise, call.dialect, call.now) for promise in self.promises.values())
        found = (v for v in views if state in (None, v["state"]) and carries(v["tags"], tags))
        return 200, self.page("promises", found, data, 100, lambda name: self.chars(self.promises[name]))

    # --------------------------------------------------------------------------------------------- tasks

    def task_or_404(self, task_id: str) -> Task:
        if task_id not in self.tasks:
            raise Refused(404, "no such task", "HF1102")
        return self.tasks[task_id]

    def held_task(self, data: Json, call: Call, *, of_generation: bool = False) -> Task:
        """The task that the caller holds at the version it presents."""
        task = self.task_or_404(fields.identifier(data, "id"))
        if task.state != "acquired" or task.version != data["version"] or not self.live(task.id, call.now):
            raise Refused(409, "the task is not held at that version", "HF1201")
        if of_generation and (data.get("generation") or 0) != generation(self.promises[task.id])["number"]:
            raise Refused(409, "the execution is in another generation", "HF1201")
        return task

    def task_get(self, data: Json, call: Call) -> Answer:
        return 200, {"task": self.show_task(self.task_or_404(fields.identifier(data, "id")), call.now)}

    def task_create(self, data: Json, call: Call) -> Answer:
        pid, ttl = read_lease(data)
        new, delay = self.read_create(read_action(data.get("action"), ("promise.create",)), call)
        if delay is not None:
            raise bad("a task that is acquired at once cannot be delayed")
        if data["action"]["data"].get("settle") is not None:
            raise bad("a task that is to be done cannot be settled already")
        target = fields.target_of(new.tags, call.dialect)
        if target is None:
            raise bad("the promise has no target")
        version = self.superseded(new.id)
        promise = self.existing(new)
        if promise is None:
            return self.create_acquired(new, target, pid, ttl, version, call)
        if promise.id not in self.tasks:
            raise Refused(422, "the promise exists without a target", "HF1302")
        if call.dialect == "B":
            return self.promise_answer(promise, call)
        task, live = self.tasks[promise.id], self.live(promise.id, call.now)
        if live and task.state != "pending":
            raise Refused(409, "the task is taken", "HF1201")
        if live:
            self.acquire(task, pid, ttl, call.now)
        return self.created_answer(task, call, acquired=live)

    def create_acquired(
        self, new: Promise, target: str, pid: str, ttl: int, version: int, call: Call
    ) -> Answer:
        task = Task(new.id, target, call.dialect, version=version)
        if version:
            new.tags = {**new.tags, RUN: str(version)}
        live = call.now < new.timeout_at
        self.promises[new.id], self.tasks[new.id] = new, task
        if live:
            self.set_deadline(new, call.now)
            self.acquire(task, pid, ttl, call.now)
        else:
            self.settle(new, new.state_at_timeout, new.value, new.timeout_at, call.now)
        return self.created_answer(task, call, acquired=live)

    def created_answer(self, task: Task, call: Call, *, acquired: bool) -> Answer:
        return 200, {
            "task": self.show_task(task, call.now),
            "promise": self.show_promise(self.promises[task.id], call.dialect, call.now),
            "preload": self.preload(task.id, call) if acquired else [],
        }

    def task_acquire(self, data: Json, call: Call) -> Answer:
        task_id, version = fields.identifier(data, "id"), fields.integer(data, "version")
        pid, ttl = read_lease(data)
        task = self.task_or_404(task_id)
        if not self.live(task_id, call.now):
            raise Refused(409, "the promise is settled", "HF1201")
        repeated = (call.corr_id, pid, version)
        if task.state == "acquired" and task.acquired_by == repeated:
            return 200, self.acquired_answer(task, call)
        if task.state != "pending" or task.version != version:
            raise Refused(409, "the task is not pending at that version", "HF1201")
        self.acquire(task, pid, ttl, call.now)
        task.acquired_by = repeated
        return 200, self.acquired_answer(task, call)

    def task_claim(self, data: Json, call: Call) -> Answer:
        groups = fields.items(data, "groups", 1, 64)
        for group in groups:
            if not fields.check_text(group, "a group", fields.NAME_BYTES_MAX):
                raise bad("a group is empty")
        count = fields.integer(data, "count", 1, 1_000)
        known = fields.items(data, "known", 0, 64) if "known" in data else []
        for name in known:
            if not fields.check_text(name, "known", fields.NAME_BYTES_MAX):
                raise bad("a known task is empty")
        pid, ttl = read_lease(data)

        def rank(task: Task) -> tuple[int, int, str]:
            promise = self.promises[task.id]
            return -int(promise.tags.get(fields.PRIORITY, "0")), promise.created_at, task.id

        claimable = [
            task
            for task in self.tasks.values()
            if task.state == "pending"
            and not task.parked  # Open: parking ends with the sweep, not when its instant passes.
            and self.live(task.id, call.now)
            and fields.group_of(task.target, casts=("any",)) in groups
            and (self.scope is None or fields.reaches(self.scope, task.id))
        ]
        claimed = sorted(claimable, key=rank)[:count]
        shown = ([task.id, *([task.woken_by] if task.woken_by in self.promises else [])] for task in claimed)
        fits = self.fitting([sum(self.chars(self.promises[name]) for name in names) for names in shown])
        lapsed = {task.id: {"lapsed": task.lapsed} for task in claimed[:fits] if task.lapsed is not None}
        for task in claimed[:fits]:
            self.acquire(task, pid, ttl, call.now)
        answer: Json = {
            "tasks": [
                self.acquired_answer(task, call, task.id in known) | lapsed.get(task.id, {})
                for task in claimed[:fits]
            ]
        }
        return 200, answer if fits == len(claimed) else answer | {"nextAt": call.now}

    def task_start(self, data: Json, call: Call) -> Answer:
        fields.integer(data, "version")
        task = self.held_task(data, call)
        if task.started_at is None:
            task.started_at = call.now
        return 200, {"task": self.show_task(task, call.now)}

    def task_release(self, data: Json, call: Call) -> Answer:
        fields.integer(data, "version")
        delay, error = None, None
        if data.get("retry") is not None:
            retry = fields.check_object(data["retry"], "retry")
            delay = fields.integer(retry, "delay")
            error = fields.optional_text(retry, "error", 4_096)
        task = self.held_task(data, call)
        task.started_at = None
        if delay is None:
            task.bounces = task.bounces + 1 if call.now - task.acquired_at < BOUNCE_WITHIN_MS else 0
            delay = bounce_delay(task.bounces)
        else:
            task.bounces = 0
            task.retries = (task.retries or 0) + 1
            if error is not None:  # Open: no error leaves the last one, and counts for nothing.
                task.error = error
                why = "it could not be run {} times in a row: " + error.replace("{", "{{").replace("}", "}}")
                self.lose(task, call.now, "given_back")
                self.does_not_get_on(task, why, delay, call.now)
                return 200, {}
        self.enter_pending(task, call.now, call.now + delay if delay else None)
        return 200, {}

    def task_fulfill(self, data: Json, call: Call) -> Answer:
        task_id, version = fields.identifier(data, "id"), fields.integer(data, "version")
        fields.optional_integer(data, "generation")
        action = read_action(data.get("action"), ("promise.settle",))
        promise_id, _, _, _ = read_settle(action)
        if promise_id != task_id:
            raise bad("the action settles another promise")
        task = self.task_or_404(task_id)
        settled = not self.live(task_id, call.now)
        if settled and not (call.dialect == "B" and task.version == version):
            raise Refused(409, "the promise is settled, or another version holds the task", "HF1201")
        if not settled:
            self.held_task(data, call, of_generation=True)
        return self.promise_settle(action, call)

    def task_suspend(self, data: Json, call: Call) -> Answer:
        task_id = fields.identifier(data, "id")
        fields.integer(data, "version")
        fields.optional_integer(data, "generation")
        check_woken = fields.flag(data, "checkWoken")
        awaiteds: list[str] = []
        for item in fields.items(data, "actions", 1, 10_000):
            action = read_action(item, REGISTER_KINDS)
            awaited = fields.identifier(action, "awaited")
            if fields.identifier(action, "awaiter") != task_id or awaited == task_id:
                raise bad("the awaiter must be the task, and the awaited another promise")
            awaiteds.append(awaited)
        waits = read_waits(data)
        task = self.held_task(data, call, of_generation=True)
        if any(awaited not in self.promises for awaited in awaiteds):
            raise Refused(422, "an awaited promise does not exist", "HF1301")
        task.bound = []
        woken, task.resumes = task.resumes, 0
        settled = any(not self.live(awaited, call.now) for awaited in awaiteds)
        if waits and not settled and not (check_woken and woken):
            task.bound = self.bound_by(task, awaiteds)
            task.resumes = woken
            self.break_ring(task, call.now)
            woken, task.resumes = task.resumes, 0
            settled = any(not self.live(awaited, call.now) for awaited in awaiteds)
        if (check_woken and woken) or settled:
            return 300, {"preload": self.preload(task_id, call)}
        for awaited in awaiteds:
            callbacks = self.promises[awaited].callbacks
            if task_id not in callbacks:
                callbacks.append(task_id)
        leave_lease(task)
        task.state = "suspended"
        task.bounces = task.crashes = 0
        task.rested_at, task.waits = call.now, waits
        return 200, {}

    READERS: dict[str, Callable[[Any, Json], Any]] = {
        "stream.append": StreamMachine.read_append,
        "stream.next": StreamMachine.read_next,
        "event.send": lambda _, data: read_send(data),
        "event.await": lambda _, data: read_await(data),
        "lock.acquire": lambda _, data: read_acquire(data),
        "lock.release": lambda _, data: read_release(data),
        "execution.tag": lambda _, data: read_tags(data),
    }

    def task_fence(self, data: Json, call: Call) -> Answer:
        task_id = fields.identifier(data, "id")
        fields.integer(data, "version")
        fields.optional_integer(data, "generation")
        action = read_action(data.get("action"), (*FENCED, *STEERED))
        kind: str = data["action"]["kind"]
        if kind == "promise.create":
            new, _ = self.read_create(action, call)
            read_settle_at_once(action, new, call)
            inner_id = new.id
        elif kind == "promise.settle":
            inner_id = read_settle(action)[0]
        elif kind in STEERED:
            inner_id = self.read_steering(kind, action)
        else:
            inner_id = None
            self.READERS[kind](self, action)
        if inner_id == task_id:
            raise bad("a task cannot fence its own promise")
        if kind == "execution.tag" and action["id"] != task_id:
            raise bad("these are the tags of another execution")
        task = self.held_task(data, call, of_generation=True)
        code = None
        answer: Any
        made = action["id"] if kind in PROGRESS else None
        before = None if made is None else self.promises.get(made)
        state_before = None if before is None else before.state
        try:
            if kind == "promise.create":
                status, answer = self.promise_create(action, call)
            elif kind == "promise.settle":
                status, answer = self.promise_settle(action, call)
            elif kind in STEERED:
                status, answer = getattr(self, STEERED[kind])(action, call)
            elif kind == "stream.append":
                status, answer = 200, self.append(self.read_append(action), task, call)
            elif kind == "stream.next":
                status, answer = 200, self.next_element(*self.read_next(action), task, call)
            elif kind == "event.send":
                status, answer = 200, self.send_event(action, call)
            elif kind == "event.await":
                status, answer = 200, self.await_event(action, task, call)
            elif kind == "execution.tag":
                status, answer = 200, self.change_tags(task, read_tags(action))
            elif kind == "lock.acquire":
                status, answer = 200, self.acquire_lock(action, task, call)
            else:
                status, answer = 200, self.release_lock(action, task, call)
        except Refused as refused:
            code = refused.code or "HF1001"
            status, answer = refused.status, f"{refused.why} [{code}]"
        after = None if made is None else self.promises.get(made)
        if after is not None and (after is not before or after.state != state_before):
            task.crashes = 0
        if (
            status == 200
            and kind in ("promise.create", "promise.settle")
            and after
            and after.state != "pending"
        ):
            task.progress = [told for told in task.progress if told.get("step", "") != inner_id]
        corr_id = data["action"].get("head", {}).get("corrId", call.corr_id)
        head = {"corrId": corr_id, "status": status, "version": call.version}
        return 200, {"action": {"kind": kind, "head": _with_code(head, code), "data": answer}, "preload": []}

    def change_tags(self, task: Task, changes: dict[str, str | None]) -> Json:
        promise = self.promises[task.id]
        tags = dict(promise.tags)
        for name, text in changes.items():
            if text is None:
                tags.pop(name, None)
            else:
                tags[name] = text
        if len(tags) > 64:
            raise bad("too many tags")
        promise.tags = tags
        return {}

    def read_steering(self, kind: str, data: Json) -> str:
        """What is wrong with the fields is said before anything is looked up."""
        if kind == "execution.cancel":
            fields.flag(data, "now")
        elif kind == "execution.retry":
            fields.optional_integer(data, "timeoutAt")
        else:
            fields.optional_integer(data, "version")
            if kind == "task.halt":
                read_reason(data)
        return fields.identifier(data, "id")

    def execution_begin(self, data: Json, call: Call) -> Answer:
        """execution.start"""
        action = read_action(data.get("action"), ("promise.create",))
        on_existing = fields.optional_one_of(data, "onExisting", ON_EXISTING) or "return"
        new, delay = self.read_create(action, call)
        if "resonate:target" not in new.tags or action.get("settle") is not None:
            raise bad("an execution has a target and is not settled already")
        promise = self.execution_start(new, delay, on_existing, call)
        return 200, {"promise": self.show_promise(promise, call.dialect, call.now)}

    def task_heartbeat(self, data: Json, call: Call) -> Answer:
        pid = fields.identifier(data, "pid")
        pairs = [
            (fields.identifier(item, "id"), fields.integer(item, "version"))
            for item in (fields.check_object(raw, "a pair") for raw in fields.items(data, "tasks", 0, 10_000))
        ]
        held = {t.id: t for t in self.tasks.values() if t.pid == pid and self.live(t.id, call.now)}
        check_woken = fields.flag(data, "checkWoken")
        told = [
            read_progress(raw, call.now)
            for raw in fields.items(data | {"progress": data.get("progress") or []}, "progress", 0, 10_000)
        ]
        lost: list[Json] = []
        woken: list[Json] = []
        for task_id, version in pairs or [(task.id, task.version) for task in held.values()]:
            task = held.get(task_id)
            if task is None or task.version != version or task.ttl is None:
                lost.append({"id": task_id, "version": version})
            else:
                task.lease_at = min(call.now + task.ttl, INSTANT_MAX)
                for of, entry in told if pairs else ():
                    if of == task_id:
                        others = [each for each in task.progress if each.get("step") != entry.get("step")]
                        task.progress = [*others, entry][-16:]
                if check_woken and pairs and task.resumes:
                    woken.append({"id": task_id, "version": version})
        answer: Json = {"lost": lost} if lost else {}
        return 200, answer | {"woken": woken} if woken else answer

    def task_halt(self, data: Json, call: Call) -> Answer:
        task_id, version = fields.identifier(data, "id"), fields.optional_integer(data, "version")
        reason, code = read_reason(data)
        task = self.task_or_404(task_id)
        if not self.live(task_id, call.now) or differ(task.version, version):
            raise Refused(409, "the task is fulfilled, or its version differs", "HF1201")
        if task.state != "halted":
            leave_lease(task)
            task.state = "halted"
            task.rested_at = call.now
            if reason is not None:
                task.halted = {"at": call.now, "reason": reason} | ({} if code is None else {"code": code})
                task.error = reason
        return 200, {}

    def task_continue(self, data: Json, call: Call) -> Answer:
        task_id, version = fields.identifier(data, "id"), fields.optional_integer(data, "version")
        task = self.task_or_404(task_id)
        if task.state != "halted" or not self.live(task_id, call.now) or differ(task.version, version):
            raise Refused(409, "the task is not halted, or its version differs", "HF1201")
        task.bounces = task.crashes = 0
        self.enter_pending(task, call.now)
        return 200, {}

    def task_search(self, data: Json, call: Call) -> Answer:
        state = fields.optional_one_of(data, "state", TASK_STATES)
        tags = fields.optional_map(data, "tags")
        target = fields.optional_text(data, "target")
        group = fields.optional_text(data, "group")  # Open: matches uni addresses of that group too.
        pid = fields.optional_text(data, "pid")
        found = (
            view
            for view in (self.show_task(task, call.now) for task in self.tasks.values())
            if state in (None, view["state"])
            and pid in (None, view.get("pid"))
            and target in (None, self.tasks[view["id"]].target)
            and group in (None, fields.group_of(self.tasks[view["id"]].target))
            and carries(self.promises[view["id"]].tags, tags)
        )
        return 200, self.page("tasks", found, data, 100, lambda name: self.chars(self.promises[name]))

    # ---------------------------------------------------------------------------------------- executions

    def execution_get(self, data: Json, call: Call) -> Answer:
        task = self.tasks.get(fields.identifier(data, "id"))
        if task is None:
            raise Refused(404, "no such execution", "HF1401")
        found = self.show_execution(task, call.now)
        if "waits" in found:
            found["waits"] = [
                wait | self.times_of(wait["id"]) | self.holder_of(wait["id"]) for wait in found["waits"]
            ]
        return 200, {"execution": found}

    def execution_search(self, data: Json, call: Call) -> Answer:
        """A page of what is stored so; of that is shown what is still so at this instant."""
        limit = fields.optional_integer(data, "limit", 1, 1_000) or 100
        after = read_cursor(data)
        statuses, wanted = self.executions_wanted(data, self.scope)
        rest = [
            task
            for task in wanted
            if self.status_of(task, None) in statuses
            and (after is None or (self.promises[task.id].created_at, task.id) < after)
        ]
        count = self.fitting([self.chars(self.promises[task.id]) for task in rest[:limit]])
        views = [self.show_execution(task, call.now) for task in rest[:count]]
        shown = [view for view in views if data.get("status") is None or view["status"] in statuses]
        answer: Json = {"executions": shown}
        if len(rest) > count:
            last = rest[count - 1].id
            answer["cursor"] = f"{self.promises[last].created_at}/{last}"
        return 200, answer

    def execution_count(self, data: Json, call: Call) -> Answer:
        """As they are stored."""
        statuses, wanted = self.executions_wanted(data, self.scope)
        found = [self.status_of(task, None) for task in wanted]
        return 200, {"counts": {status: found.count(status) for status in statuses}}

    # ----------------------------------------------------------------------------------------- schedules

    def schedule_or_404(self, data: Json) -> Schedule:
        schedule_id = fields.identifier(data, "id")
        if schedule_id not in self.schedules:
            raise Refused(404, "no such schedule", "HF1103")
        return self.schedules[schedule_id]

    def schedule_get(self, data: Json, call: Call) -> Answer:
        return 200, {"schedule": self.show_schedule(self.schedule_or_404(data), call.dialect)}

    def schedule_create(self, data: Json, call: Call) -> Answer:
        cron, timezone = fields.cron(data), fields.timezone(data)
        schedule = Schedule(
            id=fields.identifier(data, "id"),
            cron=cron,
            promise_id=fields.identifier(data, "promiseId"),
            promise_timeout=fields.integer(data, "promiseTimeout"),
            promise_param=fields.payload(data, "promiseParam"),
            promise_tags=fields.tags(data, "promiseTags", call.dialect),
            created_at=call.now,
            next_run_at=fields.next_occurrence(cron, timezone, call.now) or INSTANT_MAX,
            dialect=call.dialect,
            timezone=timezone,
            overlap=fields.optional_one_of(data, "overlap", ("allow", "skip", "replace")),
            catch_up=fields.optional_integer(data, "catchUp", 0, 1_000),
        )
        if fields.DELAY in schedule.promise_tags:
            raise bad("a scheduled promise cannot be delayed")
        schedule = self.schedules.setdefault(schedule.id, schedule)
        return 200, {"schedule": self.show_schedule(schedule, call.dialect)}

    def schedule_delete(self, data: Json, call: Call) -> Answer:
        del self.schedules[self.schedule_or_404(data).id]
        return 200, {}

    def schedule_update(self, data: Json, call: Call) -> Answer:
        schedule_id = fields.identifier(data, "id")
        given: Json = {
            "cron": None if data.get("cron") is None else fields.cron(data),
            "timezone": fields.timezone(data),
            "promise_id": None if data.get("promiseId") is None else fields.identifier(data, "promiseId"),
            "promise_timeout": fields.optional_integer(data, "promiseTimeout"),
            "overlap": fields.optional_one_of(data, "overlap", ("allow", "skip", "replace")),
            "catch_up": fields.optional_integer(data, "catchUp", 0, 1_000),
        }
        if data.get("promiseParam") is not None:
            given["promise_param"] = fields.payload(data, "promiseParam")
        if data.get("promiseTags") is not None:
            given["promise_tags"] = fields.tags(data, "promiseTags", call.dialect)
            given["dialect"] = call.dialect
            if fields.DELAY in given["promise_tags"]:
                raise bad("a scheduled promise cannot be delayed")
        schedule = self.schedule_or_404({"id": schedule_id})
        self.run_what_is_due(schedule, call.now)
        for name, value in given.items():
            if value is not None:
                setattr(schedule, name, value)
        is_new_rhythm = given["cron"] is not None or given["timezone"] is not None
        if is_new_rhythm and schedule.paused_at is None:
            following = fields.next_occurrence(schedule.cron, schedule.timezone, call.now)
            schedule.next_run_at = following or INSTANT_MAX
        return 200, {"schedule": self.show_schedule(schedule, call.dialect)}

    def schedule_pause(self, data: Json, call: Call) -> Answer:
        paused = data.get("paused") is None or fields.flag(data, "paused")
        schedule = self.schedule_or_404(data)
        self.run_what_is_due(schedule, call.now)
        if paused and schedule.paused_at is None:
            schedule.paused_at, schedule.next_run_at = call.now, INSTANT_MAX
        elif not paused and schedule.paused_at is not None:
            following = fields.next_occurrence(schedule.cron, schedule.timezone, call.now)
            schedule.paused_at, schedule.next_run_at = None, following or INSTANT_MAX
        return 200, {"schedule": self.show_schedule(schedule, call.dialect)}

    def schedule_trigger(self, data: Json, call: Call) -> Answer:
        schedule = self.schedule_or_404(data)
        self.run_what_is_due(schedule, call.now)
        promise_id = schedule.promise_id_at(call.now)
        last = self.last_run(schedule, call.now)
        self.fire(schedule, call.now, call.now)
        found = self.promises.get(promise_id) or last
        assert found is not None
        return 200, {"promise": self.show_promise(found, call.dialect, call.now)}

    def schedule_backfill(self, data: Json, call: Call) -> Answer:
        since = fields.integer(data, "since")
        until = fields.integer(data, "until", since)
        schedule = self.schedule_or_404(data)
        if until > call.now + BACKFILL_AHEAD_MOST:
            raise bad("what lies ahead cannot be made up for")
        until = min(until, call.now)
        ids: list[str] = []
        instant = fields.next_occurrence(schedule.cron, schedule.timezone, since - 1)
        seen = 0
        while instant is not None and instant <= until and seen < BACKFILL_MOST:
            promise_id = schedule.promise_id_at(instant)
            if promise_id not in self.promises:
                self.add_run(schedule, promise_id, call.now, call.now)
                ids.append(promise_id)
            seen += 1
            instant = fields.next_occurrence(schedule.cron, schedule.timezone, instant)
        rest = {"nextAt": instant} if instant is not None and instant <= until else {}
        return 200, {"ids": ids} | rest

    def schedule_search(self, data: Json, call: Call) -> Answer:
        tags = fields.optional_map(data, "tags")
        views = (self.show_schedule(schedule, call.dialect) for schedule in self.schedules.values())
        found = (view for view in views if carries(view["promiseTags"], tags))
        return 200, self.page("schedules", found, data, 10, self.schedule_chars)

    # --------------------------------------------------------------------------------------------- debug

    def debug_nothing(self, data: Json, call: Call) -> Answer:
        """debug.start and debug.stop: there is no background here."""
        return 200, {}

    def debug_reset(self, data: Json, call: Call) -> Answer:
        for store in (self.promises, self.tasks, self.schedules, self.messages, self.streams, self.locks):
            store.clear()
        return 200, {}

    def debug_tick(self, data: Json, call: Call) -> Answer:
        time = fields.integer(data, "time")
        if call.debug_time not in (None, time):
            raise bad("time differs from the debug time of the request")
        self.now = time
        self.sweep(time)
        return 200, []

    def debug_snap(self, data: Json, call: Call) -> Answer:
        return 200, self.snap(call.dialect)


# --------------------------------------------------------------------------------------- small functions


def bounce_delay(bounces: int) -> int:
    return min(BOUNCE_LONGEST_MS, BOUNCE_FIRST_MS * 2 ** (bounces - 2)) if bounces >= 2 else 0


def read_reason(data: Json) -> tuple[str | None, str | None]:
    reason, code = fields.optional_text(data, "reason", 4_096), fields.optional_text(data, "code", 256)
    if code == "" or (code is not None and reason is None):
        raise bad("the code of a reason is empty, or there is no reason")
    return reason, code


def differ(stored: object, presented: object) -> bool:
    return stored is not None and presented is not None and stored != presented


def carries(tags: Json, wanted: Json) -> bool:
    return all(tags.get(key) == value for key, value in wanted.items())


def chars(value: Json, tags: Json) -> int:
    headers: Json = value.get("headers") or {}
    entries = [*tags.items(), *headers.items()]
    return len(value.get("data") or "") + sum(len(key) + len(text) for key, text in entries)


def read_tags(data: Json) -> dict[str, str | None]:
    fields.identifier(data, "id")
    given = fields.check_object(data.get("tags"), "tags")
    fields.check_map({name: "" if text is None else text for name, text in given.items()}, "tags")
    if any(name.startswith(("resonate:", "holdfast:")) for name in given):
        raise bad("the protocol's own tags do not change")
    return given


def read_progress(raw: object, now: int) -> tuple[str, Json]:
    """The task that a report of progress is about, and what is kept of it."""
    data = fields.check_object(raw, "a report of progress")
    entry: Json = {"at": now}
    step = data.get("step", "")
    if not isinstance(step, str) or len(step.encode()) > 1_024 or "\0" in step:
        raise bad("step must be a text")
    if step:
        entry = {"step": step, "at": now}
    fraction = data.get("fraction")
    if fraction is not None:
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
            raise bad("fraction must be from 0 to 1")
        entry["fraction"] = float(fraction)
    text = data.get("data")
    if text is not None:
        if not isinstance(text, str) or not 0 < len(text.encode()) <= 1_024:
            raise bad("data must be a short text")
        try:
            is_object = isinstance(json.loads(text), dict)
        except ValueError:
            is_object = False
        if not is_object:
            raise bad("data must be a JSON object")
        entry["data"] = text
    return fields.identifier(data, "id"), entry


def read_action(action: object, kinds: tuple[str, ...]) -> Json:
    """The data of an action inside a task operation. Open: its kind must fit, its head may be left out."""
    action = fields.check_object(action, "action")
    fields.one_of(action, "kind", kinds)
    head = fields.check_object(action.get("head", {}), "action.head")
    if "corrId" in head:
        fields.check_text(head["corrId"], "action.head.corrId", fields.NAME_BYTES_MAX)
    return fields.check_object(action.get("data"), "action.data")


def read_settle(data: Json) -> tuple[str, str, Json, str | None]:
    state = fields.one_of(data, "state", CLIENT_STATES)
    iku = fields.optional_text(data, "iku")
    return fields.identifier(data, "id"), state, fields.payload(data, "value"), iku


def read_settle_at_once(data: Json, new: Promise, call: Call) -> Json | None:
    settle: Any = data.get("settle")
    if settle is None:
        return None
    if not isinstance(settle, dict):
        raise bad("settle must be an object")
    whole = {**cast(Json, settle), "id": new.id}
    read_settle(whole)
    if fields.target_of(new.tags, call.dialect) is not None:
        raise bad("what is settled at once needs no worker")
    return whole


def read_lease(data: Json) -> tuple[str, int]:
    return fields.identifier(data, "pid"), fields.integer(data, "ttl", 1, fields.TTL_MAX)


def _with_code(head: Json, code: str | None) -> Json:
    return head if code is None else {**head, "code": code}
