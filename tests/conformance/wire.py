"""The test client: sentences in, envelopes out.

`Wire` owns the clock and the correlation ids of one test and speaks plain JSON to a backend. It knows the
shape of requests and nothing about what they mean, with one exception: every reply that passes through
`send` is held against the rules the published client parsers enforce (`check_reply`), so each test
of the suite is also a test of reply shapes.

Defaults describe the ordinary case: tasks live in group `workers`, are held by process `p` for one minute,
and were acquired once, so the version to present is 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, cast

Json = dict[str, Any]

A = "2026-04-01"
B = "2025-01-15"

SECOND = 1_000
MINUTE = 60_000
HOUR = 3_600_000
DAY = 86_400_000
T0 = 1_767_225_600_000
"""2026-01-01T00:00:00Z, a Thursday: where the clock of every test starts."""
FAR = T0 + 30 * DAY
RETRY_MS = 30_000
INT_MAX = 2**53 - 1

WORKERS = "poll://any@workers"
CLIENT = "poll://uni@clients/one"


class Backend(Protocol):
    """What a server under test offers: the protocol as JSON values, and as bytes."""

    def handle(self, body: Any) -> Any: ...

    def handle_bytes(self, body: bytes) -> bytes: ...

    def handle_within(self, scope: str, body: Any) -> Any: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Answer:
    """One reply envelope."""

    kind: str
    head: Json
    data: Any

    @property
    def status(self) -> int:
        return cast(int, self.head["status"])

    @property
    def promise(self) -> Json:
        return cast(Json, self.data["promise"])

    @property
    def task(self) -> Json:
        return cast(Json, self.data["task"])

    @property
    def schedule(self) -> Json:
        return cast(Json, self.data["schedule"])

    @property
    def refused(self) -> bool:
        """A refusal the caller can read: a status of the 400s and a sentence."""
        return 400 <= self.status < 500 and isinstance(self.data, str) and self.data.strip() != ""


def is_object(value: Any) -> TypeGuard[Json]:
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def answer_of(envelope: Any) -> Answer:
    return Answer(kind=envelope["kind"], head=envelope["head"], data=envelope["data"])


class Wire:
    """A client whose clock is a variable."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.now = T0
        self.version = A
        self.scope: str | None = None
        self._sent = 0

    # -- envelopes ----------------------------------------------------------------------------------------

    @contextmanager
    def dialect(self, version: str) -> Generator[None]:
        """Speak another version for a few lines."""
        before, self.version = self.version, version
        try:
            yield
        finally:
            self.version = before

    @contextmanager
    def within(self, scope: str | None) -> Generator[None]:
        """For a few lines, be somebody who may touch only what a prefix covers."""
        before, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = before

    def envelope(
        self,
        kind: str,
        data: Any,
        *,
        now: int | None = None,
        version: str | None = None,
        corr_id: str | None = None,
    ) -> Json:
        if now is not None:
            self.now = now
        self._sent += 1
        head: Json = {
            "corrId": corr_id if corr_id is not None else f"c{self._sent}",
            "version": version if version is not None else self.version,
            "resonate:debug_time": self.now,
        }
        return {"kind": kind, "head": head, "data": data}

    def send(
        self,
        kind: str,
        data: Any,
        *,
        now: int | None = None,
        version: str | None = None,
        corr_id: str | None = None,
    ) -> Answer:
        request = self.envelope(kind, data, now=now, version=version, corr_id=corr_id)
        answer = answer_of(self._ask(request))
        check_reply(request, answer)
        return answer

    def _ask(self, request: Json) -> Any:
        if self.scope is None:
            return self.backend.handle(request)
        return self.backend.handle_within(self.scope, request)

    def batch(self, *requests: tuple[str, Json]) -> list[Answer]:
        """Several requests in one array, one commit."""
        envelopes = [self.envelope(kind, data) for kind, data in requests]
        replies = [answer_of(reply) for reply in self.backend.handle(envelopes)]
        assert len(replies) == len(envelopes)
        for request, reply in zip(envelopes, replies, strict=True):
            check_reply(request, reply)
        return replies

    def raw(self, body: bytes) -> Answer:
        """Bytes as they are; nothing but the outer shape of the reply is checked. An array may be answered by
        one: how deep a decoder looks before it gives up depends on the version of Python."""
        reply: Any = json.loads(self.backend.handle_bytes(body))
        if body.startswith(b"[") and not isinstance(reply, dict):
            [reply] = reply
        return answer_of(reply)

    def raw_value(self, body: Any) -> Answer:
        """Any JSON value as a body, sent as bytes."""
        return self.raw(json.dumps(body).encode())

    # -- promises -----------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        *,
        timeout_at: int = FAR,
        target: str | None = None,
        tags: Json | None = None,
        **more: Any,
    ) -> Answer:
        data = creation(name, timeout_at=timeout_at, target=target, tags=tags, **more)
        return self.send("promise.create", data)

    def settle(self, name: str, state: str = "resolved", **more: Any) -> Answer:
        return self.send("promise.settle", {"id": name, "state": state, **more})

    def get(self, name: str) -> Answer:
        return self.send("promise.get", {"id": name})

    def listen(self, awaited: str, address: str = CLIENT) -> Answer:
        return self.send("promise.register_listener", {"awaited": awaited, "address": address})

    def callback(self, awaited: str, awaiter: str) -> Answer:
        return self.send("promise.register_callback", {"awaited": awaited, "awaiter": awaiter})

    # -- tasks --------------------------------------------------------------------------------------------

    def task(self, name: str) -> Json:
        """The task as `task.get` shows it."""
        return self.send("task.get", {"id": name}).task

    def task_create(
        self,
        name: str,
        *,
        pid: str = "p",
        ttl: int = MINUTE,
        timeout_at: int = FAR,
        target: str | None = WORKERS,
        tags: Json | None = None,
        **more: Any,
    ) -> Answer:
        action = sub(
            "promise.create", creation(name, timeout_at=timeout_at, target=target, tags=tags, **more)
        )
        return self.send("task.create", {"pid": pid, "ttl": ttl, "action": action})

    def acquire(
        self,
        name: str,
        version: int = 0,
        *,
        pid: str = "p",
        ttl: int = MINUTE,
        corr_id: str | None = None,
    ) -> Answer:
        data = {"id": name, "version": version, "pid": pid, "ttl": ttl}
        return self.send("task.acquire", data, corr_id=corr_id)

    def release(self, name: str, version: int = 1, **more: Any) -> Answer:
        return self.send("task.release", {"id": name, "version": version, **more})

    def fulfill(self, name: str, version: int = 1, state: str = "resolved", **more: Any) -> Answer:
        action = sub("promise.settle", {"id": name, "state": state, **more})
        return self.send("task.fulfill", {"id": name, "version": version, "action": action})

    def suspend(self, name: str, *awaited: str, version: int = 1) -> Answer:
        return self.send("task.suspend", suspension(name, *awaited, version=version))

    def fence(self, name: str, kind: str, data: Json, version: int = 1) -> Answer:
        return self.send("task.fence", {"id": name, "version": version, "action": sub(kind, data)})

    def heartbeat(self, *pairs: tuple[str, int], pid: str = "p") -> Answer:
        tasks = [{"id": name, "version": version} for name, version in pairs]
        return self.send("task.heartbeat", {"pid": pid, "tasks": tasks})

    def halt(self, name: str, **more: Any) -> Answer:
        return self.send("task.halt", {"id": name, **more})

    def resume(self, name: str, **more: Any) -> Answer:
        """`task.continue`; the word is taken in Python."""
        return self.send("task.continue", {"id": name, **more})

    def start(self, name: str, version: int = 1) -> Answer:
        return self.send("task.start", {"id": name, "version": version})

    def claim(self, *groups: str, count: int = 1, pid: str = "p", ttl: int = MINUTE) -> list[Json]:
        data = {"groups": list(groups) or ["workers"], "count": count, "pid": pid, "ttl": ttl}
        answer = self.send("task.claim", data)
        assert answer.status == 200, answer
        return cast(list[Json], answer.data["tasks"])

    # -- schedules ----------------------------------------------------------------------------------------

    def schedule(self, name: str, cron: str = "* * * * *", **more: Any) -> Answer:
        return self.send("schedule.create", schedule_of(name, cron, **more))

    # -- the world ----------------------------------------------------------------------------------------

    def tick(self, now: int | None = None) -> None:
        """One whole sweep, at `now`."""
        if now is not None:
            self.now = now
        answer = self.send("debug.tick", {"time": self.now})
        assert (answer.status, answer.data) == (200, [])

    def snap(self) -> Json:
        answer = self.send("debug.snap", {}, version=A)
        assert answer.status == 200, answer
        return cast(Json, answer.data)

    def messages(self, address: str | None = None) -> list[Json]:
        """The messages that wait for delivery."""
        waiting = self.snap()["messages"]
        return [row["message"] for row in waiting if address in (None, row["address"])]

    def offers(self, name: str) -> list[int]:
        """The versions at which this task is being offered to workers."""
        tasks = [message["data"]["task"] for message in self.messages() if "task" in message["data"]]
        return [task["version"] for task in tasks if task["id"] == name]

    def due(self, name: str) -> tuple[int, int] | None:
        """The task's one timer as (type, instant): type 0 is the retry, 1 the lease."""
        rows = [row for row in self.snap()["taskTimeouts"] if row["id"] == name]
        assert len(rows) <= 1, rows
        return (rows[0]["type"], rows[0]["timeout"]) if rows else None

    def stored(self, table: str, name: str) -> Json:
        """A stored record, before the view of time is applied."""
        rows = [row for row in self.snap()[table] if row["id"] == name]
        assert len(rows) == 1, rows
        return cast(Json, rows[0])

    # -- places to start from -----------------------------------------------------------------------------

    def acquired(self, name: str = "t", **more: Any) -> Json:
        """A task made by `promise.create` and acquired once: version 1."""
        assert self.create(name, target=WORKERS, **more).status == 200
        answer = self.acquire(name)
        assert answer.status == 200, answer
        return answer.task

    def suspended(self, name: str = "t", *awaited: str, **more: Any) -> None:
        """A task at version 1, waiting for the given promises, which are made if need be."""
        for other in awaited or ("dep",):
            assert self.create(other).status == 200
        self.acquired(name, **more)
        answer = self.suspend(name, *(awaited or ("dep",)))
        assert answer.status == 200, answer


def sub(kind: str, data: Json) -> Json:
    """A nested action, as the clients send it."""
    return {"kind": kind, "head": {"corrId": "inner", "version": A}, "data": data}


def creation(
    name: str,
    *,
    timeout_at: int = FAR,
    target: str | None = None,
    tags: Json | None = None,
    **more: Any,
) -> Json:
    """The data of a `promise.create`."""
    all_tags = dict(tags or {})
    if target is not None:
        all_tags["resonate:target"] = target
    return {"id": name, "timeoutAt": timeout_at, "param": {}, "tags": all_tags, **more}


def suspension(name: str, *awaited: str, version: int = 1) -> Json:
    """The data of a `task.suspend`."""
    actions = [sub("promise.register_callback", {"awaited": other, "awaiter": name}) for other in awaited]
    return {"id": name, "version": version, "actions": actions}


def schedule_of(name: str, cron: str = "* * * * *", **more: Any) -> Json:
    """The data of a `schedule.create`."""
    return {
        "id": name,
        "cron": cron,
        "promiseId": "{{.id}}-{{.timestamp}}",
        "promiseTimeout": HOUR,
        "promiseParam": {},
        "promiseTags": {},
        **more,
    }


def ids(records: Sequence[Json]) -> list[str]:
    return [record["id"] for record in records]


# -- what the published client parsers insist on -----------------------------------------------------------

PROMISE_STATES = {"pending", "resolved", "rejected", "rejected_canceled", "rejected_timedout"}
TASK_STATES = {"pending", "acquired", "suspended", "halted", "fulfilled"}
WITH_PRELOAD = {("task.acquire", 200), ("task.fence", 200), ("task.suspend", 300)}


def check_code(head: Json, sentence: str) -> None:
    """Fail unless the head of a refusal has the code that its sentence ends with."""
    assert re.fullmatch(r"HF\d{4}", head["code"]), head
    assert sentence.endswith(f"[{head['code']}]"), (head, sentence)


def check_reply(request: Json, answer: Answer) -> None:
    """Fail unless a published client would accept this reply to this request."""
    assert answer.kind == request["kind"]
    assert answer.head["corrId"] == request["head"]["corrId"]
    assert type(answer.head["status"]) is int
    assert isinstance(answer.head["version"], str)
    if answer.status >= 400:
        assert isinstance(answer.data, str), answer
        assert answer.data.strip(), "a refusal says why"
        check_code(answer.head, answer.data)
        return
    assert "code" not in answer.head
    assert answer.head["version"] == request["head"]["version"]
    if answer.kind == "debug.tick":
        assert isinstance(answer.data, list)
        return
    data = answer.data
    assert is_object(data), answer
    assert_no_null(data)
    check_record(data)
    if (answer.kind, answer.status) in WITH_PRELOAD:
        assert isinstance(data["preload"], list)


def assert_no_null(value: Any) -> None:
    assert value is not None, "an absent field is left out, never null"
    if is_object(value):
        for part in value.values():
            assert_no_null(part)
    elif is_array(value):
        for part in value:
            assert_no_null(part)


def check_record(data: Json) -> None:
    """Check every promise, task and schedule record found in a reply."""
    for name, value in data.items():
        for shape in value if is_array(value) else [value]:
            if not is_object(shape):
                continue
            if name in ("promise", "preload", "promises", "invoked", "awaited"):
                check_promise(shape)
            elif name == "task" or (name == "tasks" and "task" not in shape):
                check_task(shape)
            elif name in ("schedule", "schedules"):
                check_schedule(shape)
            elif name == "data" or name == "tasks" or (name == "action" and is_object(shape["data"])):
                check_record(shape)


def check_payload(payload: Json) -> None:
    assert isinstance(payload, dict)
    assert isinstance(payload.get("data", ""), str)
    assert isinstance(payload.get("headers", {}), dict)


def check_promise(promise: Json) -> None:
    assert isinstance(promise["id"], str)
    assert promise["state"] in PROMISE_STATES
    check_payload(promise["param"])
    check_payload(promise["value"])
    assert isinstance(promise["tags"], dict)
    assert type(promise["timeoutAt"]) is int
    assert type(promise["createdAt"]) is int
    assert ("settledAt" in promise) == (promise["state"] != "pending")
    assert type(promise.get("settledAt", 0)) is int


def check_task(task: Json) -> None:
    assert isinstance(task["id"], str)
    assert task["state"] in TASK_STATES
    assert type(task["version"]) is int
    assert type(task["resumes"]) is int
    assert ("pid" in task) == ("ttl" in task) == (task["state"] == "acquired")


def check_schedule(schedule: Json) -> None:
    for name in ("id", "cron", "promiseId"):
        assert isinstance(schedule[name], str)
    for name in ("promiseTimeout", "createdAt", "nextRunAt"):
        assert type(schedule[name]) is int
    check_payload(schedule["promiseParam"])
    assert isinstance(schedule["promiseTags"], dict)
    assert type(schedule.get("lastRunAt", 0)) is int
