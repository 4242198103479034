"""Every invariant accepts a sound world and catches a hand-made violation of itself."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.model.invariants import check_state, check_step

Json = dict[str, Any]
Change = Callable[["World"], object]

NOW = 1_000
RETRY_MS = 30_000
ADDRESS = "poll://any@g"
LISTENER = "http://listener.test/x"


class World:
    """A snapshot with verbs to change it."""

    def __init__(self) -> None:
        self.snap: Json = copy.deepcopy(SOUND)

    def find(self, rows: str, row_id: str) -> Json:
        return next(row for row in self.snap[rows] if row["id"] == row_id)

    def promise(self, promise_id: str, **changes: Any) -> World:
        self.find("promises", promise_id).update(changes)
        return self

    def task(self, task_id: str, **changes: Any) -> World:
        """Change a task; None takes a field away."""
        row = self.find("tasks", task_id)
        row.update(changes)
        for name in [name for name, value in row.items() if value is None]:
            del row[name]
        return self

    def stream(self, **changes: Any) -> World:
        self.snap["streams"][0].update(changes)
        return self

    def schedule(self, **changes: Any) -> World:
        self.snap["schedules"][0].update(changes)
        return self

    def timeout(self, task_id: str, kind: int, at: int | None) -> World:
        """Set a task's retry (0) or lease (1); None takes it away."""
        rows = self.snap["taskTimeouts"]
        rows[:] = [row for row in rows if (row["id"], row["type"]) != (task_id, kind)]
        if at is not None:
            rows.append({"id": task_id, "type": kind, "timeout": at})
        return self

    def drop(self, rows: str, **match: Any) -> World:
        self.snap[rows][:] = [
            r for r in self.snap[rows] if any(r[name] != value for name, value in match.items())
        ]
        return self

    def add(self, rows: str, row: Json) -> World:
        self.snap[rows].append(row)
        return self

    def twice(self, rows: str) -> World:
        return self.add(rows, copy.deepcopy(self.snap[rows][0]))

    def offer(self, task_id: str, version: int, address: str = ADDRESS) -> World:
        rows = self.snap["messages"]
        rows[:] = [row for row in rows if row["message"]["data"].get("task", {}).get("id") != task_id]
        return self.add("messages", execute(task_id, version, address))

    def settle(self, promise_id: str, state: str = "resolved", at: int = NOW, **changes: Any) -> World:
        return self.promise(promise_id, state=state, settledAt=at, **changes).drop(
            "promiseTimeouts", id=promise_id
        )


def promise(promise_id: str, *, target: bool = False, timeout_at: int = 5_000, **changes: Any) -> Json:
    tags = {"resonate:target": ADDRESS} if target else {}
    record: Json = {"id": promise_id, "state": "pending", "param": {}, "value": {}, "tags": tags}
    return {**record, "timeoutAt": timeout_at, "createdAt": 100, **changes}


def element(promise_id: str, **changes: Any) -> Json:
    """A promise of a stream of `work`: an element, or the record of a key."""
    tags = {"resonate:origin": "work", "resonate:parent": "work", "holdfast:stream": "in"}
    return promise(promise_id, state="resolved", settledAt=100) | {"tags": tags} | changes


def dependent(promise_id: str, tag: str, text: str) -> Json:
    return promise(promise_id) | {"tags": {"holdfast:dependent": "work", tag: text}}


def task(task_id: str, state: str, version: int = 1, **changes: Any) -> Json:
    return {"id": task_id, "state": state, "version": version, "resumes": 0, **changes}


def execute(task_id: str, version: int, address: str = ADDRESS) -> Json:
    data = {"task": {"id": task_id, "version": version}}
    return {"address": address, "message": {"kind": "execute", "head": {}, "data": data}}


def unblock(record: Json, address: str = LISTENER) -> Json:
    return {"address": address, "message": {"kind": "unblock", "head": {}, "data": {"promise": record}}}


DONE = promise("done", target=True, state="resolved", value={"data": "x"}, settledAt=500)

# root is suspended on child, somebody listens to child, work is held, wait is offered, stop is halted.
SOUND: Json = {
    "promises": [
        promise("root", target=True),
        promise("child", timeout_at=4_000),
        promise("work", target=True),
        promise("wait", target=True),
        promise("stop", target=True),
        DONE,
        promise("late", timeout_at=300, state="rejected_timedout", settledAt=300),
        element("work:in.1", iku="257", value={"data": "x"}, ikc="k"),
        element("work:in.2", iku="514", value={"data": "y"}),
        element("work:in~k", value={"headers": {"holdfast:number": "1"}}),
        dependent("work:in.3", "holdfast:stream", "in"),
        dependent("work:in.1.answer", "holdfast:answer", "work:in.1"),
    ],
    "promiseTimeouts": [
        {"id": "root", "timeout": 5_000},
        {"id": "child", "timeout": 4_000},
        {"id": "work", "timeout": 5_000},
        {"id": "wait", "timeout": 5_000},
        {"id": "stop", "timeout": 5_000},
        {"id": "work:in.3", "timeout": 5_000},
        {"id": "work:in.1.answer", "timeout": 5_000},
    ],
    "callbacks": [
        {"awaiter": "root", "awaited": "child"},
        {"awaiter": "work:in.3", "awaited": "work"},
        {"awaiter": "work:in.1.answer", "awaited": "work"},
    ],
    "streams": [
        {
            "id": "work",
            "createdAt": 100,
            "counts": {"in": 2},
            "read": 1,
            "sentBytes": 514,
            "trimmed": {},
            "trimAt": 0,
            "readBytes": 257,
            "openAnswers": 1,
        }
    ],
    "listeners": [{"id": "child", "address": LISTENER}],
    "tasks": [
        task("root", "suspended"),
        task("work", "acquired", pid="p", ttl=100),
        task("wait", "pending", 0),
        task("stop", "halted"),
        task("done", "fulfilled"),
    ],
    "taskTimeouts": [
        {"id": "work", "type": 1, "timeout": 1_050},
        {"id": "wait", "type": 0, "timeout": 2_000},
    ],
    "messages": [execute("wait", 0), unblock(DONE)],
    "schedules": [
        {
            "id": "s",
            "cron": "* * * * *",
            "promiseId": "{{.id}}",
            "promiseTimeout": 1,
            "promiseParam": {},
            "promiseTags": {},
            "createdAt": 100,
            "nextRunAt": 60_000,
            "lastRunAt": 200,
        }
    ],
}

STATE_VIOLATIONS: list[tuple[int, Change]] = [
    (1, lambda w: w.promise("child", createdAt=4_001)),
    (2, lambda w: w.promise("child", createdAt=4_000)),
    (3, lambda w: w.promise("done", settledAt=5_001)),
    (4, lambda w: w.promise("done", settledAt=99)),
    (5, lambda w: w.promise("child", settledAt=900)),
    (6, lambda w: w.promise("child", value={"data": "x"})),
    (7, lambda w: w.promise("late", state="resolved")),
    (8, lambda w: w.promise("late", value={"data": "x"})),
    (10, lambda w: w.promise("late", settledAt=299)),
    (11, lambda w: w.twice("callbacks")),
    (12, lambda w: w.twice("listeners")),
    (13, lambda w: w.drop("promiseTimeouts", id="child")),
    (13, lambda w: w.add("promiseTimeouts", {"id": "late", "timeout": 300})),
    (14, lambda w: w.add("callbacks", {"awaiter": "root", "awaited": "root"})),
    (15, lambda w: w.promise("child", createdAt=1_001)),
    (16, lambda w: w.promise("done", settledAt=1_001)),
    (17, lambda w: w.task("work", pid=None)),
    (17, lambda w: w.task("wait", pid="p")),
    (18, lambda w: w.task("work", ttl=None)),
    (19, lambda w: w.timeout("work", 1, None)),
    (20, lambda w: w.timeout("wait", 0, None)),
    (20, lambda w: w.timeout("ghost", 0, 2_000)),
    (21, lambda w: w.task("done", resumes=1)),
    (21, lambda w: w.timeout("done", 0, 2_000)),
    (22, lambda w: w.timeout("root", 0, 2_000)),
    (23, lambda w: w.task("stop", pid="p")),
    (24, lambda w: w.task("root", resumes=1)),
    (25, lambda w: w.task("work", resumes=16)),
    (26, lambda w: w.task("work", version=0)),
    (28, lambda w: w.schedule(nextRunAt=99)),
    (29, lambda w: w.schedule(lastRunAt=99)),
    (30, lambda w: w.schedule(lastRunAt=60_000)),
    (108, lambda w: w.schedule(pausedAt=NOW)),
    (31, lambda w: w.twice("promises")),
    (32, lambda w: w.twice("tasks")),
    (33, lambda w: w.twice("schedules")),
    (34, lambda w: w.twice("messages")),
    (35, lambda w: w.drop("promises", id="stop")),
    (35, lambda w: w.drop("tasks", id="stop")),
    (36, lambda w: w.task("done", state="halted")),
    (37, lambda w: w.add("callbacks", {"awaiter": "late", "awaited": "child"})),
    (38, lambda w: w.add("listeners", {"id": "child", "address": "poll://uni@g"})),
    (40, lambda w: w.offer("wait", 1)),
    (41, lambda w: w.offer("wait", 0, "poll://any@h")),
    (42, lambda w: w.add("messages", unblock(promise("child", timeout_at=4_000)))),
    (43, lambda w: w.add("messages", unblock(DONE, "nowhere"))),
    (44, lambda w: w.timeout("wait", 0, None).task("wait", state="fulfilled")),
    (45, lambda w: w.drop("callbacks", awaiter="root")),
    (98, lambda w: w.drop("promises", id="work:in.2")),
    (98, lambda w: w.stream(counts={"in": 3})),
    (99, lambda w: w.promise("work:in.2", ikc="k")),
    (99, lambda w: w.drop("promises", id="work:in~k")),
    (100, lambda w: w.stream(openAnswers=0)),
    (101, lambda w: w.drop("callbacks", awaiter="work:in.3")),
    (101, lambda w: w.settle("work")),
    (102, lambda w: w.stream(sentBytes=515)),
    (103, lambda w: w.stream(read=3)),
    (105, lambda w: w.stream(id="child")),
    (105, lambda w: w.stream(createdAt=101)),
]


def nothing(world: World) -> None:
    """The step before is the sound world itself."""


def child_settles(world: World) -> World:
    """A whole and sound step: the child is resolved by a client, root is woken, the listener is told."""
    world.settle("child", value={"data": "x"}).drop("callbacks", awaited="child").drop(
        "listeners", id="child"
    )
    world.task("root", state="pending", resumes=1).timeout("root", 0, NOW + RETRY_MS).offer("root", 1)
    return world.add("messages", unblock(copy.deepcopy(world.find("promises", "child"))))


def wait_is_acquired(world: World) -> World:
    world.task("wait", state="acquired", version=1, pid="q", ttl=50)
    return world.timeout("wait", 0, None).timeout("wait", 1, NOW + 50)


def born(world: World, state: str = "pending", **changes: Any) -> World:
    """A new promise with a target, and its task, in a sound shape unless changed."""
    world.add("promises", promise("new", target=True, createdAt=NOW))
    world.add("promiseTimeouts", {"id": "new", "timeout": 5_000})
    world.add("tasks", task("new", state, 0) | changes).timeout("new", 0, NOW + RETRY_MS)
    return world.offer("new", 0)


def overdue(task_id: str) -> Change:
    return lambda w: w.promise(task_id, timeoutAt=900)


SOUND_STEPS: dict[str, Change] = {
    "nothing happens": nothing,
    "a promise settles": child_settles,
    "a task is acquired": wait_is_acquired,
    "a task is created": born,
    "a lease is extended": lambda w: w.timeout("work", 1, 1_100),
    "a task is released": lambda w: (
        w.task("work", state="pending", pid=None, ttl=None)
        .timeout("work", 1, None)
        .timeout("work", 0, NOW + 200)
    ),
    "an element is appended": lambda w: (
        w.settle("work:in.3", value={"data": "z"}, iku="771")
        .drop("callbacks", awaiter="work:in.3")
        .stream(counts={"in": 3}, sentBytes=771)
    ),
    "a question is answered": lambda w: (
        w.settle("work:in.1.answer", value={"data": "z"})
        .drop("callbacks", awaiter="work:in.1.answer")
        .stream(openAnswers=0)
    ),
    "a task is halted": lambda w: w.task("wait", state="halted").timeout("wait", 0, None),
    "a task is continued": lambda w: (
        w.task("stop", state="pending").timeout("stop", 0, NOW + RETRY_MS).offer("stop", 1)
    ),
}

# number, what is changed before the step, what is changed by it
STEP_VIOLATIONS: list[tuple[int, Change, Change]] = [
    (39, nothing, lambda w: w.offer("ghost", 0)),
    (46, nothing, lambda w: w.promise("child", tags={"resonate:a": "b"})),
    (46, nothing, lambda w: w.promise("child", timeoutAt=4_001)),
    (47, nothing, lambda w: w.promise("done", value={"data": "y"})),
    (48, nothing, lambda w: w.drop("promises", id="late")),
    (49, nothing, lambda w: w.drop("tasks", id="stop")),
    (50, nothing, lambda w: w.task("work", version=2)),
    (50, nothing, lambda w: wait_is_acquired(w).task("wait", version=2)),
    (51, nothing, lambda w: w.task("done", resumes=1)),
    (52, nothing, lambda w: w.promise("done", state="rejected")),
    (53, nothing, lambda w: w.promise("done", state="pending")),
    (54, nothing, lambda w: w.promise("child", settledAt=NOW)),
    (55, nothing, lambda w: w.promise("child", value={"data": "x"})),
    (56, nothing, lambda w: w.twice("promises")),
    (57, nothing, lambda w: w.drop("callbacks", awaiter="root")),
    (57, nothing, lambda w: born(w).add("callbacks", {"awaiter": "work", "awaited": "new"})),
    (58, nothing, lambda w: w.add("callbacks", {"awaiter": "work", "awaited": "done"})),
    (59, nothing, lambda w: w.drop("listeners", id="child")),
    (60, nothing, lambda w: w.add("listeners", {"id": "done", "address": LISTENER})),
    (61, nothing, lambda w: w.promise("done", state="rejected_canceled")),
    (62, nothing, lambda w: w.task("stop", state="acquired")),
    (63, nothing, lambda w: w.task("root", state="acquired")),
    (64, nothing, lambda w: w.task("wait", state="suspended")),
    (64, nothing, lambda w: born(w, "suspended")),
    (65, nothing, lambda w: w.task("stop", state="suspended")),
    (66, nothing, lambda w: w.settle("work")),
    (67, nothing, lambda w: w.task("wait", state="fulfilled").timeout("wait", 0, None)),
    (68, nothing, lambda w: w.drop("callbacks", awaiter="root")),
    (68, nothing, lambda w: w.drop("listeners", id="child")),
    (69, nothing, lambda w: child_settles(w).task("root", resumes=0)),
    (70, nothing, lambda w: child_settles(w).drop("messages", address=LISTENER)),
    (71, nothing, lambda w: w.task("root", state="pending", resumes=1).timeout("root", 0, 31_000)),
    (72, nothing, lambda w: w.task("work", state="suspended", pid=None, ttl=None).timeout("work", 1, None)),
    (73, nothing, lambda w: w.add("tasks", task("late", "fulfilled", 0))),
    (73, nothing, lambda w: born(w, version=1)),
    (74, nothing, lambda w: w.drop("messages", address=ADDRESS)),
    (75, nothing, lambda w: w.offer("work", 0)),
    (75, nothing, lambda w: w.offer("work", 1, "poll://any@h")),
    (76, nothing, lambda w: child_settles(w).promise("child", value={"data": "other"})),
    (77, nothing, lambda w: w.add("messages", unblock(DONE, "http://stranger.test"))),
    (78, nothing, lambda w: w.schedule(createdAt=99)),
    (107, lambda w: w.schedule(lastRunAt=1_000), lambda w: w.schedule(lastRunAt=999)),
    (79, nothing, lambda w: born(w).timeout("new", 1, 1_100)),
    (79, nothing, lambda w: born(w, resumes=1)),
    (80, nothing, lambda w: w.task("work", state="halted")),
    (81, nothing, lambda w: w.task("work", pid="q").timeout("work", 1, 1_100)),
    (82, nothing, lambda w: w.task("work", pid="q")),
    (82, nothing, lambda w: w.timeout("work", 1, 1_049)),
    (83, lambda w: w.task("work", resumes=2), lambda w: w.task("work", resumes=1)),
    (84, lambda w: w.task("wait", resumes=1), lambda w: w.task("wait", resumes=0)),
    (85, overdue("stop"), lambda w: w.task("stop", state="pending").timeout("stop", 0, 31_000)),
    (86, overdue("work"), lambda w: w.offer("work", 1)),
    (87, nothing, lambda w: w.settle("child", at=999)),
    (87, overdue("child"), lambda w: w.settle("child", "resolved", at=900)),
    (88, nothing, lambda w: w.settle("child", "rejected_timedout")),
    (89, nothing, lambda w: w.add("promises", promise("new", createdAt=900))),
    (89, nothing, lambda w: w.add("promises", promise("new", createdAt=NOW, value={"data": "x"}))),
    (90, nothing, lambda w: wait_is_acquired(w).timeout("wait", 1, NOW + 51)),
    (90, nothing, lambda w: wait_is_acquired(w).task("wait", resumes=1)),
    (91, nothing, lambda w: w.timeout("work", 1, 1_234)),
    (92, nothing, lambda w: w.task("stop", state="pending").timeout("stop", 0, 31_000)),
    (92, nothing, lambda w: w.task("stop", state="pending").timeout("stop", 0, 1_500).offer("stop", 1)),
    (92, nothing, lambda w: born(w).timeout("new", 0, 1_500)),
    (93, nothing, lambda w: w.timeout("wait", 0, 3_000)),
    (94, lambda w: w.timeout("wait", 0, 900), lambda w: w.timeout("wait", 0, 950)),
    (95, nothing, lambda w: child_settles(w).task("root", version=2)),
    (103, nothing, lambda w: w.stream(read=0)),
    (103, nothing, lambda w: w.stream(counts={"in": 1})),
    (104, overdue("work"), lambda w: w.stream(counts={"in": 3})),
    (105, nothing, lambda w: w.drop("streams", id="work")),
    (105, nothing, lambda w: w.twice("streams")),
]

BACKGROUND_VIOLATIONS: list[tuple[int, Change]] = [
    (96, wait_is_acquired),
    (96, lambda w: w.task("wait", state="halted").timeout("wait", 0, None)),
    (96, lambda w: w.task("stop", state="pending").timeout("stop", 0, 31_000).offer("stop", 1)),
    (96, lambda w: born(w, "acquired")),
    (97, child_settles),
    (78, lambda w: w.schedule(cron="0 * * * *")),
    (106, lambda w: w.schedule(pausedAt=NOW, nextRunAt=2**53 - 1)),
]

WAIVED: dict[int, Change] = {
    9: lambda w: w.promise("wait", tags={"resonate:target": ADDRESS, "resonate:timer": "true"}),
    27: lambda w: w.schedule(promiseTags={"resonate:target": ADDRESS, "resonate:timer": "true"}),
}


def changed(*changes: Change) -> Json:
    world = World()
    for change in changes:
        change(world)
    return world.snap


def numbers(violations: list[str]) -> set[int]:
    return {int(violation.split()[0]) for violation in violations}


def test_the_sound_world_breaks_nothing() -> None:
    assert check_state(World().snap, NOW) == []


@pytest.mark.parametrize(("number", "damage"), STATE_VIOLATIONS, ids=lambda value: str(value)[:3])
def test_a_state_property_catches_its_violation(number: int, damage: Change) -> None:
    assert number in numbers(check_state(changed(damage), NOW))


@pytest.mark.parametrize("number", WAIVED)
def test_a_waived_property_is_not_asserted(number: int) -> None:
    assert check_state(changed(WAIVED[number]), NOW) == []


@pytest.mark.parametrize("name", SOUND_STEPS)
def test_a_sound_step_breaks_nothing(name: str) -> None:
    after = changed(SOUND_STEPS[name])
    assert check_state(after, NOW) == []
    assert check_step(World().snap, after, NOW, background=False) == []


@pytest.mark.parametrize(("number", "given", "step"), STEP_VIOLATIONS, ids=lambda value: str(value)[:3])
def test_a_step_property_catches_its_violation(number: int, given: Change, step: Change) -> None:
    before, after = changed(given), changed(given, step)
    assert number in numbers(check_step(before, after, NOW, background=False))


@pytest.mark.parametrize(("number", "step"), BACKGROUND_VIOLATIONS, ids=lambda value: str(value)[:3])
def test_a_background_property_catches_its_violation(number: int, step: Change) -> None:
    before, after = World().snap, changed(step)
    assert number in numbers(check_step(before, after, NOW, background=True))
    assert number not in numbers(check_step(before, after, NOW, background=False))


def test_a_lapsed_lease_is_a_sound_background_step() -> None:
    now = 1_050
    world = World().task("work", state="pending", pid=None, ttl=None).timeout("work", 1, None)
    after = world.timeout("work", 0, now + RETRY_MS).offer("work", 1).snap
    assert check_step(World().snap, after, now, background=True) == []


def test_an_awaiter_past_its_deadline_may_be_left_alone() -> None:
    now = 1_000
    before = changed(overdue("root"))
    after = changed(overdue("root"), lambda w: w.settle("child").drop("callbacks", awaiter="root"))
    after["listeners"], after["messages"] = before["listeners"], before["messages"]
    assert numbers(check_step(before, after, now, background=False)) & {69, 71, 95} == set()
    assert 45 not in numbers(check_state(after, now))


def test_messages_may_go_only_while_they_are_delivered() -> None:
    before, after = World().snap, changed(lambda w: w.drop("messages", address=ADDRESS))
    assert 74 not in numbers(check_step(before, after, NOW, background=False, delivering=True))


def test_every_property_has_a_row() -> None:
    rows: set[int] = set(WAIVED)
    rows |= {number for number, _ in (*STATE_VIOLATIONS, *BACKGROUND_VIOLATIONS)}
    rows |= {number for number, _, _ in STEP_VIOLATIONS}
    assert rows == set(range(1, 109))
